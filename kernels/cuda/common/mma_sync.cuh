// Owns: the warp-level 16x8x16 matrix instruction for f16 and bf16 operands, and the 8x8 register transposition.
// Does not own: conversions (convert.cuh).
// Read next: convert.cuh.
#pragma once

#include <cstdint>

namespace qfuse {

// Fragment layout, lane = 4 * g + t:
//   A (16x16): a0 = row g, columns 2t, 2t+1; a1 = row g+8; a2 = row g, columns 2t+8, 2t+9; a3 = row g+8 of those
//   B (16x8):  b0 = rows 2t, 2t+1 of column g; b1 = rows 2t+8, 2t+9
//   C (16x8):  c0, c1 = row g, columns 2t, 2t+1; c2, c3 = row g+8
template <bool Bf16>
__device__ __forceinline__ void mma_16x8x16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                            uint32_t b0, uint32_t b1) {
    if constexpr (Bf16) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
}

// Transposes an 8x8 matrix of 16-bit elements held as C fragments hold it (row g, columns 2t and 2t+1).
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t fragment) {
    uint32_t result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(fragment));
    return result;
}

} // namespace qfuse
