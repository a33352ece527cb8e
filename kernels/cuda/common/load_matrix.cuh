// Owns: loading 8x8 matrices of 16-bit elements from shared memory as the operands of mma_sync.cuh want them.
// Does not own: the layout in shared memory.
// Read next: mma_sync.cuh.
#pragma once

#include <cstdint>

namespace qfuse {

// Four matrices; lanes 8 * i .. 8 * i + 7 give the addresses of the rows of matrix i (16 bytes, aligned). Register i
// holds, in lane 4 * g + t, elements 2t and 2t + 1 of row g of matrix i.
__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&out)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address));
}

__device__ __forceinline__ void load_matrices(const void *row, uint32_t (&out)[4]) {
    load_matrices((uint32_t)__cvta_generic_to_shared(row), out);
}

// The same of the transposed matrices: elements (2t, g) and (2t + 1, g).
__device__ __forceinline__ void load_transposed_matrices(const void *row, uint32_t (&out)[4]) {
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address));
}

} // namespace qfuse
