// Owns: programmatic dependent launch: waiting for the predecessor's results, letting the successor start.
// Does not own: which launches are dependent (the builders say so in launch.h).
// Read next: ../launch.h.
#pragma once

namespace qfuse {

// Before the first access to memory that another kernel touches; on every path of a kernel launched as dependent.
// Returns when the predecessor has ended and its writes are visible.
__device__ __forceinline__ void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The successor may be scheduled; it waits for the end of this kernel by itself.
__device__ __forceinline__ void let_successor_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

} // namespace qfuse
