// Owns: the warp that starts all copies from global to shared memory, and draws the work.
// Does not own: the order of work (schedule.cuh).
// Read next: transpose.cuh, values.cuh: the warps that bring V on; direct.cuh for 16-bit elements.
#pragma once

#include <cstddef>

#include "kernels/cuda/common/tensor_copy.cuh"
#include "schedule.cuh"

namespace qfuse::prefill {

// The CTAs of the cluster, a bit each.
__device__ __forceinline__ uint16_t all_ctas(const qf_prefill_params &p) {
    return static_cast<uint16_t>((1 << p.cluster) - 1);
}

// Those that take a tile of keys which this CTA copies for itself.
__device__ __forceinline__ uint16_t own_copies(const qf_prefill_params &p, const Work &work) {
    return work.apart > 0 ? static_cast<uint16_t>(1 << cluster_rank()) : all_ctas(p);
}

template <class C>
__device__ __forceinline__ int log2_cluster(const qf_prefill_params &p) {
    return C::kClusters ? p.cluster - 1 : 0;
}

// A ring that one CTA of a cluster fills for all. The other only says how much will come, as soon as what the stage
// held before is there.
template <int Stages>
struct SharedRing : Ring<Stages> {
    // Waits until the stage is free in all CTAs; false where another CTA copies. Lanes of the warp together.
    __device__ __forceinline__ bool enter(uint64_t *full, uint64_t *empty, bool copies, uint32_t bytes) {
        if (copies) {
            barrier_wait(shared_address(&empty[this->stage]), this->parity ^ 1);
            return true;
        }
        barrier_wait(shared_address(&full[this->stage]), this->parity ^ 1);
        if ((threadIdx.x & 31) == 0) barrier_arrive_expect(shared_address(&full[this->stage]), bytes);
        __syncwarp();
        return false;
    }
};

__host__ __device__ constexpr int log2_of(int power) {
    return power > 1 ? 1 + log2_of(power / 2) : 0;
}

// Where a lane's box of a K or V tile lies: of a paged cache every lane copies one page's part, else lane 0 all.
struct BoxSource {
    int token, outer;
};

template <class C>
struct KeyLoader {
    const qf_prefill_params &p;
    const Work &work;
    int lane, box_keys;

    __device__ __forceinline__ KeyLoader(const qf_prefill_params &the_p, const Work &the_work)
        : p(the_p), work(the_work) {
        lane = threadIdx.x & 31;
        box_keys = qf_prefill_box_keys(C::kForm, p.page_size);
    }
    // Logarithm of the keys of a box of a paged cache.
    __device__ __forceinline__ static int box_shift(const qf_prefill_params &the_p) {
        constexpr int kMost = log2_of(C::kKeys & -C::kKeys);
        return min(the_p.page_shift, kMost);
    }
    // Boxes of a tile that hold keys of the sequence.
    __device__ __forceinline__ int boxes(int tile) const {
        return p.page_size > 0 ? (min(work.length - tile * C::kKeys, C::kKeys) + box_keys - 1) >> box_shift(p) : 1;
    }
    // Of a tile that may lie before those of the work, which begin with `least`.
    __device__ __forceinline__ BoxSource source(int tile, int least) const {
        const int key = tile * C::kKeys + lane * box_keys;
        if (p.page_size == 0) return {key, work.sequence};
        if (tile < least || lane >= boxes(tile)) return {0, 0};
        return {key & (p.page_size - 1), p.block_table[work.sequence * p.block_table_stride + (key >> p.page_shift)]};
    }
    __device__ __forceinline__ uint32_t bytes(int tile) const {
        return boxes(tile) * box_keys * C::kRowBytes;
    }
    // Starts the copy of one tile into this CTA; of a cluster, into all that `ctas` names. Lanes of the warp together.
    __device__ __forceinline__ void start(const void *map, uint32_t stage, uint32_t barrier, int tile,
                                          const BoxSource &from, uint16_t ctas) const {
        const int count = boxes(tile);
        if (lane == 0) barrier_arrive_expect(barrier, count * box_keys * C::kRowBytes);
        __syncwarp();
        copy(map, stage, barrier, count, from, ctas);
    }
    // The same without saying how much will come; `count` boxes.
    __device__ __forceinline__ void copy(const void *map, uint32_t stage, uint32_t barrier, int count,
                                         const BoxSource &from, uint16_t ctas) const {
        if (lane >= count) return;
#pragma unroll
        for (int panel = 0; panel < C::kPanels; ++panel) {
            const uint32_t to = stage + (panel * C::kKeys + lane * box_keys) * C::kPanelBytes;
            if (C::kShares || (C::kDirect && p.cluster > 1)) {
                tensor_copy_4d_multicast(to, map, panel * C::kPanelBytes, from.token, work.kv_head, from.outer, barrier,
                                         ctas, kEvictNormal);
            } else {
                tensor_copy_4d(to, map, panel * C::kPanelBytes, from.token, work.kv_head, from.outer, barrier,
                               kEvictNormal);
            }
        }
    }
};

// Waits for a free query stage and starts the copy of the rows of work.
template <class C>
__device__ __forceinline__ void start_query(const qf_prefill_params &p, const Shared<C> &shared, const Work &work,
                                            const Ring<C::kQueryStages> &ring) {
    Barriers<C> &barriers = *shared.barriers;
    barrier_wait(shared_address(&barriers.query_empty[ring.stage]), ring.parity ^ 1);
    if ((threadIdx.x & 31) != 0) return;
    const uint32_t full = shared_address(&barriers.query_full[ring.stage]);
    barrier_expect(full, p.tile_tokens * p.group * C::kRowBytes);
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        tensor_copy_5d(shared.query + ring.stage * C::kQueryBytes + panel * C::kRows * C::kPanelBytes, &p.q_map,
                       panel * C::kPanelBytes, 0, work.kv_head, work.row + work.first_token,
                       p.q_start != nullptr ? 0 : work.sequence, full, kEvictNormal);
    }
}

// Hands the work of a query stage to the other warps, its rows as they come. `scale`: of lanes 0 to 3, one of Scales.
template <class C>
__device__ __forceinline__ void publish_work(const Shared<C> &shared, const Work &work, float scale,
                                             Ring<C::kQueryStages> &ring) {
    const int lane = threadIdx.x & 31;
    if (lane == 0) write_work<C>(shared.work[work_slot<C>(ring)], work);
    if (lane < kScales) {
        reinterpret_cast<float *>(&shared.scales[work_slot<C>(ring)])[lane] = scale;
        barrier_arrive(shared_address(&shared.barriers->query_full[ring.stage]));
    }
    ring.advance();
}

// Where the values of a tile go: to the transposing warps.
template <class C>
struct ValueLoader {
    static constexpr int kStages = C::kTransposes ? C::kValueStages : C::kTransposedStages;
    Ring<kStages> ring;

    // Starts the copy of one tile; lanes of the warp together.
    __device__ __forceinline__ void start(const qf_prefill_params &p, const Shared<C> &shared, const Work &work,
                                          const KeyLoader<C> &loader, int tile, const BoxSource &from) {
        Barriers<C> &barriers = *shared.barriers;
        barrier_wait(shared_address(&barriers.values_empty[ring.stage]), ring.parity ^ 1);
        loader.start(&p.v_map, shared.values + ring.stage * C::kTileBytes,
                     shared_address(&barriers.values_full[ring.stage]), tile, from, 1);
        ring.advance();
    }
};

// Of lanes 0 to 3, one of Scales.
__device__ __forceinline__ float read_scale(const qf_prefill_params &p, int kv_head) {
    static_assert(offsetof(qf_prefill_params, out_scale) ==
                          offsetof(qf_prefill_params, q_scale) + 3 * sizeof(float *) &&
                      offsetof(qf_prefill_params, out_scale_stride) == offsetof(qf_prefill_params, q_scale_stride) + 12,
                  "scales follow one another");
    const int which = threadIdx.x & 3;
    const float *scale = (&p.q_scale)[which];
    return scale != nullptr ? scale[kv_head * (&p.q_scale_stride)[which]] : 1.0f;
}

// Hands the number that the first CTA of a cluster drew to the other one, once for every tile of work. `query` has
// just left the stage of that tile.
template <class C>
__device__ __forceinline__ int share_draw(Barriers<C> &b, int drawn, const Ring<C::kQueryStages> &query) {
    static_assert(C::kQueryStages <= 2, "the stage, or of a single one the parity, is the parity of the tile's number");
    const uint32_t parity = (C::kQueryStages == 2 ? query.stage : query.parity) ^ 1;
    if (share_rank<C>() == 0) {
        barrier_wait_cluster(shared_address(&b.draw_empty), parity ^ 1);
        if ((threadIdx.x & 31) == 0) {
            asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(cluster_address(shared_address(&b.draw), 1)),
                         "r"(drawn)
                         : "memory");
            barrier_release_at(shared_address(&b.draw_full), 1);
        }
        __syncwarp();
        return drawn;
    }
    barrier_wait_cluster(shared_address(&b.draw_full), parity);
    drawn = *const_cast<volatile int *>(&b.draw);
    __syncwarp();
    // Of the cluster's scope: a plain arrival may overtake the load, and did so where nothing used the number before
    // it.
    if ((threadIdx.x & 31) == 0) barrier_release_at(shared_address(&b.draw_empty), 0);
    return drawn;
}

// Where lengths are given by the device, nothing is known before the predecessor has ended; else the first work is
// located meanwhile. A number is drawn when the last copy of a tile of work starts: early enough to hide what follows,
// and late enough that numbers go to the CTAs in the order in which they become free. The first work starts its first
// copies before its scales have come.
template <class C>
__device__ __forceinline__ void load(const qf_prefill_params &p, const Shared<C> &shared) {
    Barriers<C> &barriers = *shared.barriers;
    Ring<C::kQueryStages> query;
    SharedRing<C::kKeyStages> keys;
    ValueLoader<C> values;
    bool released = C::kShares || p.q_start != nullptr || p.kv_lens != nullptr;
    if (released) wait_for_predecessor();
    const TileCounts counts(p);
    const int total = count_work<C>(p, counts);
    int number = static_cast<int>(blockIdx.x) >> log2_cluster<C>(p);
    while (number < total) {
        const Work work = locate_work<C>(p, counts, number, share_rank<C>());
        if (!released) wait_for_predecessor();
        released = true;
        trace<kTraceWork>(p);
        const float scale = read_scale(p, work.kv_head);
        start_query<C>(p, shared, work, query);
        const KeyLoader<C> loader(p, work);
        BoxSource next = loader.source(work.tile_end - 1, work.tile_begin);
        int drawn = 0;
        const auto draw = [&] {
            if ((threadIdx.x & 31) == 0 && share_rank<C>() == 0) drawn = static_cast<int>(atomicAdd(p.ticket, 1u));
        };
        if (C::kShares) publish_work<C>(shared, work, scale, query); // there are no registers to wait with
        if (work.tile_begin == work.tile_end) {
            if (!C::kShares) publish_work<C>(shared, work, scale, query);
            draw();
        }
#pragma unroll 1
        for (int tile = work.tile_end - 1; tile >= work.tile_begin; --tile) {
            const BoxSource from = next;
            next = loader.source(tile - 1, work.tile_begin);
            bool copies = true;
            if constexpr (C::kShares) {
                copies = keys.enter(barriers.keys_full, barriers.keys_empty, share_rank<C>() == 0, loader.bytes(tile));
            } else {
                barrier_wait(shared_address(&barriers.keys_empty[keys.stage]), keys.parity ^ 1);
            }
            if (copies) {
                const uint32_t stage = shared.keys + keys.stage * C::kTileBytes;
                const uint32_t full = shared_address(&barriers.keys_full[keys.stage]);
                loader.start(&p.k_map, stage, full, tile, from, own_copies(p, work));
                if (C::kShares && work.apart > 0) {
                    const int other = tile - work.apart;
                    loader.copy(&p.k_map, stage, full, loader.boxes(other), loader.source(other, other), 2);
                }
            }
            keys.advance();
            jitter();
            if (tile == work.tile_begin) draw();
            if constexpr (!C::kShares) values.start(p, shared, work, loader, tile, from);
            trace<kTraceCopied>(p);
            if (!C::kShares && tile == work.tile_end - 1) publish_work<C>(shared, work, scale, query);
            jitter();
        }
        drawn = __shfl_sync(~0u, drawn, 0);
        if (drawn == total - 1 && (threadIdx.x & 31) == 0 && share_rank<C>() == 0) *p.ticket = 0;
        if (C::kShares && p.cluster > 1) drawn = share_draw<C>(barriers, drawn, query);
        number = static_cast<int>(gridDim.x >> log2_cluster<C>(p)) + drawn;
    }
    if (!released) wait_for_predecessor();
    Work none = {};
    none.sequence = -1;
    barrier_wait(shared_address(&barriers.query_empty[query.stage]), query.parity ^ 1);
    publish_work<C>(shared, none, 1.0f, query);
    launch_dependents();
}

} // namespace qfuse::prefill
