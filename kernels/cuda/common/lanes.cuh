// Owns: reductions over neighbouring threads of a block, in a fixed order.
// Does not own: what is reduced.
// Read next: reduce.cu, rows.cu.
#pragma once

#include <cstdint>

namespace qfuse {

// Combines the values of each `lanes` neighbouring threads (a power of two); all of them get the result. Every thread
// of the block takes part. `shared` has room for one T a warp; combine is commutative.
template <typename T, typename COMBINE>
__device__ __forceinline__ T combine_lanes(T value, uint32_t lanes, T *shared, COMBINE combine) {
    const uint32_t within = lanes < 32 ? lanes : 32;
    for (uint32_t distance = within / 2; distance; distance /= 2)
        value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
    if (lanes <= 32) return value;
    const uint32_t warp = threadIdx.x / 32, warps = lanes / 32, first = warp / warps * warps;
    __syncthreads(); // of an earlier use
    if (threadIdx.x % 32 == 0) shared[warp] = value;
    __syncthreads();
    value = shared[first];
    for (uint32_t i = 1; i < warps; i++) value = combine(value, shared[first + i]);
    return value;
}

} // namespace qfuse
