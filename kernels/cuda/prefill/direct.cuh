// Owns: the warps that copy where V is multiplied as it is (16-bit elements): queries and keys, values.
// Does not own: the order of work (schedule.cuh), the copy of a tile (load.cuh), the end of V (tail.cuh).
// Read next: consume.cuh.
//
// A box of a paged cache is an instruction of its own, and a warp issues one after the other: so two warps share them.
// The two CTAs of a cluster may share keys and values: the first copies the keys of both, the last the values.
// Consumers free a stage at a barrier of their own CTA; the CTA that does not copy hands that on, since arrivals at
// another CTA's barrier are slow.
#pragma once

#include "load.cuh"
#include "tail.cuh"

namespace qfuse::prefill {

// Waits until the stage is free in all CTAs of the cluster; true where this one, `copier`, copies. What is copied
// completes on `full`. Lanes of the warp together.
template <int Stages>
__device__ __forceinline__ bool enter(const qf_prefill_params &p, const Ring<Stages> &ring, uint64_t *full,
                                      uint64_t *empty, uint64_t *peer, int copier, uint32_t bytes) {
    barrier_wait(shared_address(&empty[ring.stage]), ring.parity ^ 1);
    if (p.cluster == 1) return true;
    if (static_cast<int>(cluster_rank()) == copier) {
        barrier_wait(shared_address(&peer[ring.stage]), ring.parity);
        return true;
    }
    if ((threadIdx.x & 31) == 0) {
        barrier_arrive_expect(shared_address(&full[ring.stage]), bytes);
        barrier_arrive_at(shared_address(&peer[ring.stage]), copier);
    }
    __syncwarp();
    return false;
}

// Copies queries and keys and draws the work, as `load` does.
template <class C>
__device__ __forceinline__ void load_direct(const qf_prefill_params &p, const Shared<C> &shared) {
    Barriers<C> &barriers = *shared.barriers;
    Ring<C::kQueryStages> query;
    Ring<C::kKeyStages> keys;
    if (p.q_start != nullptr || p.kv_lens != nullptr) wait_for_predecessor();
    const TileCounts counts(p);
    const int total = counts.total * p.kv_heads;
    int number = static_cast<int>(blockIdx.x) >> log2_cluster<C>(p);
    while (number < total) {
        const Work work = locate_work<C>(p, counts, number, share_rank<C>());
        wait_for_predecessor(); // once would do, but there is no register to remember it
        trace<kTraceWork>(p);
        const auto begin = [&] {
            const float scale = read_scale(p, work.kv_head);
            start_query<C>(p, shared, work, query);
            publish_work<C>(shared, work, scale, query);
        };
        // The only stage of Q is free later than one of K.
        if (C::kQueryStages > 1 || work.tile_begin == work.tile_end) begin();
        const KeyLoader<C> loader(p, work);
        BoxSource next = loader.source(work.tile_end - 1, work.tile_begin);
#pragma unroll 1
        for (int tile = work.tile_end - 1; tile >= work.tile_begin; --tile) {
            const BoxSource from = next;
            next = loader.source(tile - 1, work.tile_begin);
            if (enter(p, keys, barriers.keys_full, barriers.keys_empty, barriers.direct.keys_peer, 0,
                      loader.bytes(tile))) {
                loader.start(&p.k_map, shared.keys + keys.stage * C::kTileBytes,
                             shared_address(&barriers.keys_full[keys.stage]), tile, from, all_ctas(p));
            }
            keys.advance();
            trace<kTraceCopied>(p);
            jitter();
            if (C::kQueryStages == 1 && tile == work.tile_end - 1) begin();
        }
        int drawn = 0;
        if ((threadIdx.x & 31) == 0 && share_rank<C>() == 0) {
            drawn = static_cast<int>(atomicAdd(p.ticket, 1u));
            if (drawn == total - 1) *p.ticket = 0;
        }
        drawn = __shfl_sync(~0u, drawn, 0);
        if (p.cluster > 1) drawn = share_draw<C>(barriers, drawn, query);
        number = static_cast<int>(gridDim.x >> log2_cluster<C>(p)) + drawn;
    }
    wait_for_predecessor();
    Work none = {};
    none.sequence = -1;
    barrier_wait(shared_address(&barriers.query_empty[query.stage]), query.parity ^ 1);
    publish_work<C>(shared, none, 1.0f, query);
    launch_dependents();
}

// Copies values; of a tile with a tail by way of the warp that clears it.
template <class C>
__device__ __forceinline__ void load_values(const qf_prefill_params &p, const Shared<C> &shared) {
    Barriers<C> &barriers = *shared.barriers;
    Ring<C::kQueryStages> query;
    Ring<C::kTransposedStages> values;
    wait_for_predecessor();
    for (;;) {
        const Work work = take_work<C>(shared, query);
        if (work.sequence < 0) return;
        const KeyLoader<C> loader(p, work);
        BoxSource next = loader.source(work.tile_end - 1, work.tile_begin);
#pragma unroll 1
        for (int tile = work.tile_end - 1; tile >= work.tile_begin; --tile) {
            const BoxSource from = next;
            next = loader.source(tile - 1, work.tile_begin);
            uint64_t *full = has_tail<C>(work, tile) ? barriers.direct.tail_full : barriers.transposed_full;
            if (enter(p, values, full, barriers.transposed_empty, barriers.direct.values_peer, 1, loader.bytes(tile))) {
                loader.start(&p.v_map, shared.transposed + values.stage * C::kTileBytes,
                             shared_address(full + values.stage), tile, from, all_ctas(p));
            }
            values.advance();
            jitter();
        }
    }
}

} // namespace qfuse::prefill
