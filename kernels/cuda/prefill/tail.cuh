// Owns: the warp that clears the rows of a V tile past the end of its sequence, where V is multiplied as it was copied.
// Does not own: the copies (load.cuh); V that is transposed (transpose.cuh), which is cleared on the way.
// Read next: consume.cuh.
//
// Rows past the end may hold anything, and NaN * 0 is NaN. Only the last tile of a sequence has such rows. Its copy
// completes on a barrier of its own, on which this warp waits; then it hands the tile to the consumers.
#pragma once

#include "shared.cuh"

namespace qfuse::prefill {

// Whether a tile has rows past the end of its sequence.
template <class C>
__device__ __forceinline__ bool has_tail(const Work &work, int tile) {
    return (tile + 1) * C::kKeys > work.length;
}

template <class C>
__device__ __forceinline__ void clear_rows(uint32_t tile, int first_row) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        const uint32_t begin = tile + (panel * C::kKeys + first_row) * C::kPanelBytes;
        const uint32_t end = tile + (panel + 1) * C::kKeys * C::kPanelBytes;
#pragma unroll 1
        for (uint32_t at = begin + 16 * lane; at < end; at += 512) store_shared_16(at, make_uint4(0, 0, 0, 0));
    }
}

template <class C>
__device__ __forceinline__ void clear_tails(const Shared<C> &shared) {
    Barriers<C> &barriers = *shared.barriers;
    Ring<C::kQueryStages> query;
    int stage = 0;
    uint32_t parities = 0; // of the tails' barriers, a bit a stage
    const bool elected = (threadIdx.x & 31) == 0;
    for (;;) {
        const Work work = take_work<C>(shared, query);
        if (work.sequence < 0) return;
        const int tiles = work.tile_end - work.tile_begin;
        if (tiles > 0 && has_tail<C>(work, work.tile_end - 1)) {
            barrier_wait(shared_address(&barriers.direct.tail_full[stage]), parities >> stage & 1);
            parities ^= 1u << stage;
            jitter();
            clear_rows<C>(shared.transposed + stage * C::kTileBytes, work.length - (work.tile_end - 1) * C::kKeys);
            async_proxy_fence();
            __syncwarp();
            if (elected) barrier_arrive(shared_address(&barriers.transposed_full[stage]));
        }
        stage = (stage + tiles) % C::kTransposedStages;
    }
}

} // namespace qfuse::prefill
