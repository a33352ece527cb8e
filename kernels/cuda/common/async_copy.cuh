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

// Every copy that this thread started has arrived.
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

} // namespace qfuse
