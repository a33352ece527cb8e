// Owns: the shape of a kernel as compile-time constants, its shared memory, and the barriers between its warps.
// Does not own: who does what with them (load.cuh, transpose.cuh, consume.cuh).
// Read next: schedule.cuh.
//
// Rings, each stage guarded by a full and an empty barrier:
//   query        a tile of q and the description of its work: load -> consumers and transposers. Every thread arrives
//                for what it wrote or read of the description itself: racecheck follows no order that passes through
//                the lanes of a warp
//   keys         K tiles: load -> consumers
//   values       V tiles: load -> transposers; only where V is transposed inside
//   transposed   V^T tiles: transposers -> consumers, or, transposed before, the warp of values.cuh -> consumers; of
//                16-bit elements V tiles as they are: load (and the warp of tail.cuh) -> consumers
// The two CTAs of a cluster may share keys and V^T: the first copies keys into both, the last V^T. A stage is then
// empty when the consumers of both have arrived, and they arrive where it is copied from.
// All tiles are rows of a panel (at most 128 bytes), swizzled as TMA does it: the 16-byte chunk c of row r lies at
// chunk c ^ (r & 7) of a 128-byte row, or c ^ ((r >> 1) & 3) of a 64-byte row.
#pragma once

#include "config.h"
#include "kernels/cuda/common/barrier.cuh"
#include "kernels/cuda/common/shared_memory.cuh"
#include "kernels/cuda/common/wgmma.cuh"
#include "params.h"
#include "trace.cuh"

namespace qfuse::prefill {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

template <int Dtype, int HeadDim, int Scores, int Transpose>
struct Config {
    static constexpr qf_prefill_form kForm = {Dtype, HeadDim, Scores, Transpose};
    static constexpr int kHeadDim = HeadDim;
    static constexpr bool kBf16 = Dtype == QF_PREFILL_BF16;
    static constexpr int kElementBytes = qf_prefill_element_bytes(Dtype);
    static constexpr bool kHalfScores = Scores == QF_PREFILL_SCORES_F16;
    static constexpr int kConsumers = qf_prefill_consumers(kForm);
    static constexpr int kThreads = qf_prefill_threads(kForm);
    static constexpr int kRows = qf_prefill_tile_rows(kForm);
    static constexpr int kKeys = qf_prefill_tile_keys(kForm);
    static constexpr int kRowBytes = qf_prefill_row_bytes(kForm);
    static constexpr int kPanelBytes = qf_prefill_panel_bytes(kForm);
    static constexpr int kPanels = kRowBytes / kPanelBytes;
    static constexpr int kPanelChunks = kPanelBytes / 16;
    static constexpr int kQueryBytes = kRows * kRowBytes;
    static constexpr int kTileBytes = kKeys * kRowBytes;
    static constexpr int kQueryStages = qf_prefill_query_stages(kForm);
    static constexpr int kKeyStages = qf_prefill_key_stages(kForm);
    static constexpr int kValueStages = qf_prefill_value_stages(kForm);
    static constexpr int kTransposedStages = qf_prefill_transposed_stages(kForm);
    static constexpr bool kTransposes = Transpose == QF_PREFILL_TRANSPOSE_INSIDE;
    static constexpr bool kShares = Transpose == QF_PREFILL_TRANSPOSE_BEFORE; // clusters may share keys and V^T
    static constexpr bool kClusters = !kTransposes;                           // or keys and values as they are
    static constexpr bool kDirect = Transpose == QF_PREFILL_TRANSPOSE_NONE; // V is multiplied as it is, a tail cleared
    static constexpr int kTransposers = kTransposes ? 3 : 0;
    // Warps that read descriptions of work.
    static constexpr int kFollowers = kTransposes ? kTransposers : kDirect ? 2 : 1;
    static constexpr bool kQuarters = kShares && HeadDim == 256; // see accumulate.cuh
    static constexpr int kWords = kKeys * kElementBytes / 8;     // registers of P
    // 16-bit elements: steps of 16 keys whose P is multiplied while that of the next steps is made.
    static constexpr int kGroupSteps = HeadDim == 64 ? 2 : 4;
    // The next scores are started before the products of this tile's P (ahead.cuh).
    static constexpr bool kAhead = kDirect && kConsumers == 2;
    // Row sums by additions instead of a product, for which the tensor cores have no time then.
    static constexpr bool kAddsSums = kAhead;
    // Last steps (of 16 elements of the head dim) of Q that consumers keep in registers: at head dim 256 shared memory
    // is read nearly as fast as it can be.
    static constexpr int kKeptSteps = kAhead ? 4 : 0;
    // The only stage of Q is free after the last scores; what the loader says of the work is needed until its end.
    static constexpr bool kFreesQuery = kDirect && kQueryStages == 1;
    static constexpr int kWorkSlots = kFreesQuery ? 2 : kQueryStages;
    // One of so many exponentials is a polynomial: at head dim 64 the special-function unit is what limits.
    static constexpr int kPolynomialPeriod = kElementBytes == 1 && HeadDim == 64 ? 4 : 0;
    static constexpr Swizzle kSwizzle = kPanelBytes == 128 ? Swizzle::k128Bytes : Swizzle::k64Bytes;
    // Registers a thread after setmaxnreg. The pool is what the launch got: threads times the compiler's limit.
    static constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : 232;
    static constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 40;
    static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
    static_assert(kConsumers * kConsumerRegisters + kProducerRegisters <= (kConsumers + 1) * kLaunchRegisters,
                  "setmaxnreg would wait for ever");
};

// Position in a ring.
template <int Stages>
struct Ring {
    int stage = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == Stages) stage = 0, parity ^= 1;
    }
};

// Where the description of the work of a query stage lies.
template <class C>
__device__ __forceinline__ int work_slot(const Ring<C::kQueryStages> &query) {
    return C::kFreesQuery ? static_cast<int>(query.parity) : query.stage;
}

// One tile of work, the same for all threads.
struct alignas(16) Work {
    int sequence; // negative: no work is left
    int kv_head;
    int first_token; // within the sequence
    int tokens;      // of the sequence
    int row;         // first row of the sequence in its batch element of q and out
    int length;      // keys of the sequence
    int tile_begin;  // tiles of keys that some row sees; handled from the last to the first
    int tile_end;
    int apart; // tiles between those of the two CTAs of a cluster, where they divide the keys; 0: they do not
};

// Scales of a tile of work, in the order of the parameters; read by the loader while the tile travels.
struct Scales {
    float q, k, v, out;
};
constexpr int kScales = sizeof(Scales) / sizeof(float);

// Where V is multiplied as it is (direct.cuh): tiles with a tail, before it is cleared; stages that the other CTA of a
// cluster has freed.
template <class C, bool Direct = C::kDirect>
struct DirectBarriers {
    uint64_t tail_full[C::kTransposedStages];
    uint64_t keys_peer[C::kKeyStages], values_peer[C::kTransposedStages];
};

template <class C>
struct DirectBarriers<C, false> {
    uint64_t none;
};

template <class C>
struct Barriers {
    uint64_t query_full[C::kQueryStages], query_empty[C::kQueryStages];
    uint64_t keys_full[C::kKeyStages], keys_empty[C::kKeyStages];
    uint64_t values_full[C::kTransposes ? C::kValueStages : 1], values_empty[C::kTransposes ? C::kValueStages : 1];
    uint64_t transposed_full[C::kTransposedStages], transposed_empty[C::kTransposedStages];
    DirectBarriers<C> direct;
    uint64_t draw_full, draw_empty; // of a cluster
    uint64_t share_full[C::kShares ? C::kConsumers : 1], share_empty[C::kShares ? C::kConsumers : 1];
    int draw;
};

// A CTA's number in its cluster; where nothing is shared every CTA is the first, and the last.
template <class C>
__device__ __forceinline__ int share_rank() {
    return C::kClusters ? static_cast<int>(cluster_rank()) : 0;
}

// The warp has read a stage.
template <class C>
__device__ __forceinline__ void release_keys(Barriers<C> &b, int stage) {
    if constexpr (C::kShares)
        barrier_arrive_at(shared_address(&b.keys_empty[stage]), 0);
    else
        barrier_arrive(shared_address(&b.keys_empty[stage]));
}

template <class C>
__device__ __forceinline__ void release_transposed(Barriers<C> &b, int stage, int cluster) {
    if constexpr (C::kShares)
        barrier_arrive_at(shared_address(&b.transposed_empty[stage]), cluster - 1);
    else
        barrier_arrive(shared_address(&b.transposed_empty[stage]));
}

// Addresses in the shared window.
template <class C>
struct Shared {
    uint32_t query, keys, values, transposed, ones;
    Barriers<C> *barriers;
    Work *work;     // by work_slot
    Scales *scales; // by work_slot

    __device__ __forceinline__ Shared(uint8_t *dynamic, Barriers<C> *the_barriers, Work *the_work, Scales *the_scales) {
        query = (shared_address(dynamic) + 1023) / 1024 * 1024;
        keys = query + C::kQueryStages * C::kQueryBytes;
        values = keys + C::kKeyStages * C::kTileBytes;
        transposed = values + C::kValueStages * C::kTileBytes;
        ones = transposed + C::kTransposedStages * C::kTileBytes;
        barriers = the_barriers;
        work = the_work;
        scales = the_scales;
    }
};

// The thread's number, read where it stands: what follows from it is computed anew instead of kept in registers.
__device__ __forceinline__ uint32_t thread_here() {
    uint32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// With QF_PREFILL_JITTER defined (tests only) a warp sleeps here for a random time of up to two microseconds.
__device__ __forceinline__ void jitter() {
#ifdef QF_PREFILL_JITTER
    const uint32_t mixed = (static_cast<uint32_t>(clock64()) ^ blockIdx.x << 8 ^ threadIdx.x >> 5) * 2654435761u;
    __nanosleep(__shfl_sync(~0u, mixed, 0) >> 21);
#endif
}

__device__ __forceinline__ void store_shared_16(uint32_t address, uint4 v) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

template <class C>
__device__ __forceinline__ void init_barriers(Barriers<C> &b, int cluster) {
    constexpr int kConsumerWarps = 4 * C::kConsumers;
    const int readers = C::kShares ? kConsumerWarps * cluster : kConsumerWarps;
    for (int i = 0; i < C::kQueryStages; ++i) {
        barrier_init(shared_address(&b.query_full[i]), kScales); // the lanes that describe the work
        barrier_init(shared_address(&b.query_empty[i]), 32 * (kConsumerWarps + C::kFollowers));
    }
    for (int i = 0; i < C::kKeyStages; ++i) {
        barrier_init(shared_address(&b.keys_full[i]), 1);
        barrier_init(shared_address(&b.keys_empty[i]), readers);
        if constexpr (C::kDirect) barrier_init(shared_address(&b.direct.keys_peer[i]), 1);
    }
    for (int i = 0; i < C::kValueStages; ++i) {
        barrier_init(shared_address(&b.values_full[i]), 1);
        barrier_init(shared_address(&b.values_empty[i]), C::kTransposers);
    }
    for (int i = 0; i < C::kTransposedStages; ++i) {
        barrier_init(shared_address(&b.transposed_full[i]), C::kTransposes ? C::kTransposers : 1);
        barrier_init(shared_address(&b.transposed_empty[i]), readers);
        if constexpr (C::kDirect) {
            barrier_init(shared_address(&b.direct.tail_full[i]), 1);
            barrier_init(shared_address(&b.direct.values_peer[i]), 1);
        }
    }
    if constexpr (C::kClusters) {
        barrier_init(shared_address(&b.draw_full), 1);
        barrier_init(shared_address(&b.draw_empty), 1);
        for (int i = 0; C::kShares && i < C::kConsumers; ++i) {
            barrier_init(shared_address(&b.share_full[i]), 128);
            barrier_init(shared_address(&b.share_empty[i]), 128);
        }
    }
    barrier_init_fence();
}

template <class C>
__device__ __forceinline__ void write_work(Work &shared, const Work &work) {
    int4 *words = reinterpret_cast<int4 *>(&shared);
    words[0] = make_int4(work.sequence, work.kv_head, work.first_token, work.tokens);
    words[1] = make_int4(work.row, work.length, work.tile_begin, work.tile_end);
    if (C::kShares) shared.apart = work.apart;
}

// The work of a query stage, as values that the compiler knows to be the same in all lanes.
template <class C>
__device__ __forceinline__ Work read_work(const Work &shared) {
    const int apart = C::kShares ? __shfl_sync(~0u, shared.apart, 0) : 0;
    const int4 low = reinterpret_cast<const int4 *>(&shared)[0], high = reinterpret_cast<const int4 *>(&shared)[1];
    return {__shfl_sync(~0u, low.x, 0),  __shfl_sync(~0u, low.y, 0),  __shfl_sync(~0u, low.z, 0),
            __shfl_sync(~0u, low.w, 0),  __shfl_sync(~0u, high.x, 0), __shfl_sync(~0u, high.y, 0),
            __shfl_sync(~0u, high.z, 0), __shfl_sync(~0u, high.w, 0), apart};
}

// The next work, for a warp that needs no more of the query's stage than its description.
template <class C>
__device__ __forceinline__ Work take_work(const Shared<C> &shared, Ring<C::kQueryStages> &query) {
    barrier_wait(shared_address(&shared.barriers->query_full[query.stage]), query.parity);
    const Work work = read_work<C>(shared.work[work_slot<C>(query)]);
    barrier_arrive(shared_address(&shared.barriers->query_empty[query.stage]));
    __syncwarp();
    query.advance();
    return work;
}

} // namespace qfuse::prefill
