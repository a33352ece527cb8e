// Owns: the warps that turn a V tile (rows of head dim) into the V^T tile (rows of keys) that 8-bit matrix
// instructions need.
// Does not own: the copies (load.cuh), the product (consume.cuh).
// Read next: consume.cuh.
//
// A block of 16 keys and 16 elements of the head dim is two transposed 8x8 loads of byte pairs, two byte permutations
// and two stores. Two orders differ from the natural one, both undone elsewhere without cost:
//   keys    byte 4t + 2i + e of a 16-byte group is key 8i + 2t + e, the order in which the accumulators of Q K^T become
//           the P operand of P V;
//   rows    row g of a group of 16 is element 2g, row 8 + g is element 2g + 1, which keeps the stores free of bank
//           conflicts and gives every thread of the product four neighbouring output elements.
#pragma once

#include "shared.cuh"

namespace qfuse::prefill {

__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Addresses of a lane in the V tile and in the V^T tile, for key group 0 and column 0. A column is 32 elements of the
// head dim, a key group 16 keys.
template <class C>
struct TransposeLane {
    uint32_t from, to;

    __device__ __forceinline__ TransposeLane() {
        const int lane = threadIdx.x & 31, matrix = lane >> 3, row = lane & 7;
        const int key = (matrix & 1) * 8 + row, chunk = matrix >> 1;
        from = key * C::kPanelBytes + ((C::kPanelBytes == 128 ? chunk ^ row : chunk ^ (row >> 1)) << 4);
        to = (8 * matrix + row) * 128 + (row << 4);
    }
};

// Byte offset that a key group and a column add to TransposeLane's addresses; the low part is to be xor-ed.
template <class C>
__device__ __forceinline__ uint32_t source_of(uint32_t base, int group, int column) {
    constexpr int kColumns = C::kPanelBytes / 32; // of a panel
    const uint32_t row = base + group * 16 * C::kPanelBytes + column / kColumns * C::kKeys * C::kPanelBytes;
    return row ^ (column % kColumns << 5);
}

template <class C>
__device__ __forceinline__ uint32_t target_of(uint32_t base, int group, int column) {
    return (base + group / 8 * C::kHeadDim * 128 + column * 32 * 128) ^ (group % 8 << 4);
}

// Keeps the bytes of a word (keys 2t, 2t + 1, 2t + 8, 2t + 9 of a group) whose key lies below `keys`.
__device__ __forceinline__ uint32_t keep_keys(uint32_t word, int keys) {
    const int t2 = 2 * (thread_here() & 3);
    uint32_t mask = 0;
    if (t2 < keys) mask |= 0xFFu;
    if (t2 + 1 < keys) mask |= 0xFF00u;
    if (t2 + 8 < keys) mask |= 0xFF0000u;
    if (t2 + 9 < keys) mask |= 0xFF000000u;
    return word & mask;
}

template <bool Tail>
__device__ __forceinline__ void permute_and_store(const uint32_t (&r)[4], uint32_t to, int keys) {
    uint32_t words[4] = {__byte_perm(r[0], r[1], 0x6420), __byte_perm(r[0], r[1], 0x7531),
                         __byte_perm(r[2], r[3], 0x6420), __byte_perm(r[2], r[3], 0x7531)};
    if (Tail) {
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = keep_keys(words[i], keys);
    }
    store_matrices(to, words);
}

// Two blocks at a time, so that loads overlap. A block is a key group and a column; `second` false leaves it out.
template <class C, bool Tail>
__device__ __forceinline__ void transpose_pair(uint32_t from, uint32_t to, int keys, const int (&group)[2],
                                               const int (&column)[2], bool second) {
    uint32_t r[2][4];
    load_transposed(r[0], source_of<C>(from, group[0], column[0]));
    if (second) load_transposed(r[1], source_of<C>(from, group[1], column[1]));
    permute_and_store<Tail>(r[0], target_of<C>(to, group[0], column[0]), keys - 16 * group[0]);
    if (second) permute_and_store<Tail>(r[1], target_of<C>(to, group[1], column[1]), keys - 16 * group[1]);
}

// One warp's part of a tile. Columns are dealt whole where there are enough; the blocks of those that are left over
// are dealt in turn. Keys at and past `keys` become zero, whatever the bytes are.
template <class C, bool Tail>
__device__ __forceinline__ void transpose_tile(uint32_t from, uint32_t to, int warp, int keys) {
    constexpr int kColumns = C::kHeadDim / 32, kGroups = C::kKeys / 16, kOwn = kColumns / C::kTransposers;
    constexpr int kShared = kColumns - kOwn * C::kTransposers, kBlocks = kShared * kGroups;
    constexpr int kDivisor = kShared > 0 ? kShared : 1;
#pragma unroll 1 // unrolled, its addresses would be kept in registers that there are not
    for (int own = 0; own < kOwn; ++own) {
        const int column = own * C::kTransposers + warp;
#pragma unroll(kOwn > 1 || Tail ? 1 : kGroups / 2)
        for (int group = 0; group < kGroups; group += 2) {
            transpose_pair<C, Tail>(from, to, keys, {group, group + 1}, {column, column}, true);
        }
    }
#pragma unroll 1
    for (int first = warp; first < kBlocks; first += 2 * C::kTransposers) {
        const int second = first + C::kTransposers;
        transpose_pair<C, Tail>(from, to, keys, {first / kDivisor, second / kDivisor},
                                {kOwn * C::kTransposers + first % kDivisor, kOwn * C::kTransposers + second % kDivisor},
                                second < kBlocks);
    }
}

template <class C>
__device__ __forceinline__ void transpose(const qf_prefill_params &p, const Shared<C> &shared, int warp) {
    Barriers<C> &barriers = *shared.barriers;
    Ring<C::kQueryStages> query;
    Ring<C::kValueStages> values;
    Ring<C::kTransposedStages> transposed;
    const TransposeLane<C> lane;
    const bool elected = (threadIdx.x & 31) == 0;
    for (;;) {
        const Work work = take_work<C>(shared, query);
        if (work.sequence < 0) return;
#pragma unroll 1
        for (int tile = work.tile_end - 1; tile >= work.tile_begin; --tile) {
            const uint32_t from = shared.values + values.stage * C::kTileBytes + lane.from;
            const uint32_t to = shared.transposed + transposed.stage * C::kTileBytes + lane.to;
            const int keys = work.length - tile * C::kKeys;
            barrier_wait(shared_address(&barriers.values_full[values.stage]), values.parity);
            barrier_wait(shared_address(&barriers.transposed_empty[transposed.stage]), transposed.parity ^ 1);
            jitter();
            trace<kTraceCopied>(p);
            if (keys >= C::kKeys)
                transpose_tile<C, false>(from, to, warp, keys);
            else
                transpose_tile<C, true>(from, to, warp, keys);
            async_proxy_fence();
            __syncwarp();
            if (elected) {
                barrier_arrive(shared_address(&barriers.values_empty[values.stage]));
                barrier_arrive(shared_address(&barriers.transposed_full[transposed.stage]));
            }
            trace<kTraceTile>(p);
            jitter();
            values.advance();
            transposed.advance();
        }
    }
}

} // namespace qfuse::prefill
