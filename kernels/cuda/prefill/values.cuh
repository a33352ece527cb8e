// Owns: the warp that copies V^T to the consumers, where V was transposed by a launch before.
// Does not own: that launch (before.cuh), keys and queries (load.cuh).
// Read next: consume.cuh.
#pragma once

#include "load.cuh"

namespace qfuse::prefill {

template <class C>
__device__ __forceinline__ void load_transposed(const qf_prefill_params &p, const Shared<C> &shared) {
    Barriers<C> &barriers = *shared.barriers;
    Ring<C::kQueryStages> query;
    SharedRing<C::kTransposedStages> transposed;
    const bool elected = (threadIdx.x & 31) == 0;
    wait_for_predecessor();
    for (;;) {
        const Work work = take_work<C>(shared, query);
        if (work.sequence < 0) return;
        const int64_t head = int64_t{work.sequence} * p.kv_heads + work.kv_head;
        const uint8_t *tiles = p.transposed + head * p.transposed_blocks * (QF_PREFILL_BLOCK_KEYS * C::kHeadDim);
#pragma unroll 1
        for (int tile = work.tile_end - 1; tile >= work.tile_begin; --tile) {
            const bool copies = share_rank<C>() == p.cluster - 1;
            if (transposed.enter(barriers.transposed_full, barriers.transposed_empty, copies, C::kTileBytes) &&
                elected) {
                const uint32_t full = shared_address(&barriers.transposed_full[transposed.stage]);
                const uint32_t stage = shared.transposed + transposed.stage * C::kTileBytes;
                barrier_arrive_expect(full, C::kTileBytes);
                bulk_copy_multicast(stage, tiles + int64_t{tile} * C::kTileBytes, C::kTileBytes, full,
                                    own_copies(p, work), kEvictNormal);
                if (work.apart > 0) { // this is the second CTA; the first one's tile lies further on
                    bulk_copy_multicast(stage, tiles + int64_t{tile + work.apart} * C::kTileBytes, C::kTileBytes, full,
                                        1, kEvictNormal);
                }
            }
            __syncwarp();
            transposed.advance();
            jitter();
        }
    }
}

} // namespace qfuse::prefill
