// Owns: how an f32 result becomes an output element: rounding on the way, the output scale, the final conversion.
// Does not own: where it is stored.
// Read next: the kernel that uses it.
//
// Types and modes are the numbers that the kernels' params.h share: bf16 0, f16 1, e4m3 2, e5m2 3, none 4; division 0,
// product 1, product with the rounded reciprocal 2.
#pragma once

#include "convert.cuh"

namespace qfuse {

constexpr int kTypeBf16 = 0, kTypeF16 = 1, kTypeE4m3 = 2, kTypeE5m2 = 3, kTypeNone = 4;
constexpr int kScaleDiv = 0, kScaleMul = 1, kScaleMulReciprocal = 2;

__device__ __forceinline__ float round_via(float x, int via) {
    if (via == kTypeBf16) return bf16_low_to_f32(f32_to_bf16x2(x, 0.0f));
    if (via == kTypeF16) return f16_low_to_f32(f32_to_f16x2(x, 0.0f));
    return x;
}

// x / y rounded correctly: a reciprocal, one product and its corrected residual, which need not be finite where the
// product overflows.
__device__ __forceinline__ float divide(float x, float y, float reciprocal_of_y) {
    const float quotient = x * reciprocal_of_y;
    const float corrected = fmaf(fmaf(-quotient, y, x), reciprocal_of_y, quotient);
    return fabsf(quotient) < 1e30f ? corrected : quotient;
}

// x / scale, x * scale or x * (1 / scale), as the mode says.
__device__ __forceinline__ float apply_out_scale(float x, float scale, float reciprocal, int mode) {
    if (mode == kScaleMul) return x * scale;
    return mode == kScaleMulReciprocal ? x * reciprocal : divide(x, scale, reciprocal);
}

// The same of four values, with one branch for all.
__device__ __forceinline__ void round_via(float (&x)[4], int via) {
    if (via == kTypeBf16) {
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = round_via(x[i], kTypeBf16);
    } else if (via == kTypeF16) {
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = round_via(x[i], kTypeF16);
    }
}

__device__ __forceinline__ void apply_out_scale(float (&x)[4], float scale, float reciprocal, int mode) {
    if (mode == kScaleDiv) {
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = divide(x[i], scale, reciprocal);
    } else {
        const float factor = mode == kScaleMul ? scale : reciprocal;
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] *= factor;
    }
}

// Four f32 to four bytes of an FP8 type.
__device__ __forceinline__ uint32_t f32x4_to_fp8x4(const float (&v)[4], int type) {
    const bool e4m3 = type == kTypeE4m3;
    const uint32_t low = e4m3 ? f32_to_e4m3x2(v[0], v[1]) : f32_to_e5m2x2(v[0], v[1]);
    const uint32_t high = e4m3 ? f32_to_e4m3x2(v[2], v[3]) : f32_to_e5m2x2(v[2], v[3]);
    return low | high << 16;
}

__device__ __forceinline__ uint2 f32x4_to_16x4(const float (&v)[4], int type) {
    const bool f16 = type == kTypeF16;
    return make_uint2(f16 ? f32_to_f16x2(v[0], v[1]) : f32_to_bf16x2(v[0], v[1]),
                      f16 ? f32_to_f16x2(v[2], v[3]) : f32_to_bf16x2(v[2], v[3]));
}

} // namespace qfuse
