// Owns: instructions of thread-block clusters: barrier, and stores to a neighbour's shared memory.
// Does not own: what is exchanged; addresses and barriers in a neighbour (barrier.cuh).
// Read next: the kernel that uses it.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/barrier.cuh"

namespace qfuse {

// Counts every thread of the CTA in at the cluster's barrier; orders initialised barriers (after their fence) only.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// Waits until all CTAs of the cluster have arrived, and so run.
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Sends 16 (8) bytes to a CTA of the cluster; they complete on its barrier. Both are cluster addresses.
__device__ __forceinline__ void send_16(uint32_t address, float4 v, uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
            address),
        "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void send_8(uint32_t address, float2 v, uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
        "f"(v.x), "f"(v.y), "r"(barrier)
        : "memory");
}

} // namespace qfuse
