// Owns: copies from global to shared memory that a thread makes for itself, without registers in between.
// Does not own: bulk tensor copies (tensor_copy.cuh).
// Read next: ../cache.cu.
#pragma once

#include <cstdint>

namespace qfuse {

// 16 aligned bytes.
__device__ __forceinline__ void copy_async_16(void *shared, const void *global) {
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

// Ends a group of this thread's copies.
__device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// All groups of this thread but the last one have arrived.
__device__ __forceinline__ void wait_for_all_but_last() {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}

// Every copy that this thread started has arrived.
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

} // namespace qfuse
