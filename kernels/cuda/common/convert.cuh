// Owns: conversions between f32, f16, bf16 and the FP8 formats, one instruction each.
// Does not own: scales and rounding policy; callers apply them before.
// Read next: the kernel that uses it.
#pragma once

#include <cstdint>

namespace qfuse {

// Two of the four bytes of `word` as two f16, the lower byte first. Exact. The half is named inside the assembly so
// that the conversion reads it directly.
__device__ __forceinline__ uint32_t e4m3_low_to_f16x2(uint32_t word) {
    uint32_t result;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low;}" : "=r"(result) : "r"(word));
    return result;
}

__device__ __forceinline__ uint32_t e4m3_high_to_f16x2(uint32_t word) {
    uint32_t result;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high;}" : "=r"(result) : "r"(word));
    return result;
}

__device__ __forceinline__ uint32_t e5m2_low_to_f16x2(uint32_t word) {
    uint32_t result;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e5m2x2 %0, low;}" : "=r"(result) : "r"(word));
    return result;
}

__device__ __forceinline__ uint32_t e5m2_high_to_f16x2(uint32_t word) {
    uint32_t result;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e5m2x2 %0, high;}" : "=r"(result) : "r"(word));
    return result;
}

// Two f32 to packed 16-bit, `low` in the low half, round to nearest even.
__device__ __forceinline__ uint32_t f32_to_f16x2(float low, float high) {
    uint32_t result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

__device__ __forceinline__ uint32_t f32_to_bf16x2(float low, float high) {
    uint32_t result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

// Two f32 to two FP8 bytes, `low` in the low byte; finite overflow saturates, NaN stays NaN.
__device__ __forceinline__ uint16_t f32_to_e4m3x2(float low, float high) {
    uint16_t result;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    return result;
}

__device__ __forceinline__ uint16_t f32_to_e5m2x2(float low, float high) {
    uint16_t result;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    return result;
}

__device__ __forceinline__ float f16_low_to_f32(uint32_t pair) {
    float result;
    asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, lo;}" : "=f"(result) : "r"(pair));
    return result;
}

__device__ __forceinline__ float f16_high_to_f32(uint32_t pair) {
    float result;
    asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, hi;}" : "=f"(result) : "r"(pair));
    return result;
}

__device__ __forceinline__ float bf16_low_to_f32(uint32_t pair) {
    return __uint_as_float(pair << 16);
}

__device__ __forceinline__ float bf16_high_to_f32(uint32_t pair) {
    return __uint_as_float(pair & 0xFFFF0000u);
}

// 1 / x, 1 ulp.
__device__ __forceinline__ float reciprocal_approximate(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// 2 to the x, 2 ulp; -infinity gives 0.
__device__ __forceinline__ float exp2_approximate(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

} // namespace qfuse
