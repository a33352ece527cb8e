// Owns: access to shared memory by addresses of the shared window, which swizzles are computed in.
// Does not own: matrix loads (load_matrix.cuh), copies by TMA (tensor_copy.cuh).
// Read next: barrier.cuh.
#pragma once

#include <cstdint>

namespace qfuse {

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

} // namespace qfuse
