// Owns: quantising one number by a scale, and the rounding at the end of kernels with an optional out_scale.
// Does not own: conversions of elements (element.cuh), the host's half (../output.h).
// Read next: kernels/cpu/quantise.c, which has the same arithmetic.
#pragma once

#include "kernels/cuda/common/fast_vector.cuh"
#include "kernels/cuda/output.h"

namespace qfuse {

// Numbers of quantize_mode in spec/enums.def, and of the dtype `none`.
constexpr uint32_t kDivide = 0, kMultiplyReciprocal = 2, kNone = QF_DTYPE_NONE;

// Multiplication and addition that the compiler does not fuse.
__device__ __forceinline__ float product(float a, float b) {
    return __fmul_rn(a, b);
}

__device__ __forceinline__ float sum(float a, float b) {
    return __fadd_rn(a, b);
}

// What a scale does to numbers, prepared once for many of them.
struct scaler {
    float factor;      // rounded to `compute`
    double factor_f64; // compute f64 only
};

__device__ __forceinline__ scaler prepare_scale(uint32_t mode, uint32_t compute, double scale) {
    scaler by = {narrow(scale), scale};
    if (mode == kMultiplyReciprocal) {
        by.factor_f64 = widen(narrow(1.0 / scale));
        by.factor = __frcp_rn(by.factor);
    }
    if (compute != QF_F32) by.factor = round_fast(compute, by.factor);
    return by;
}

// x in units of the scale, in `compute` precision (f32, f16, bf16). f32 arithmetic rounded once more equals arithmetic
// in the 16-bit types: 24 bits are more than twice 11 plus 2.
__device__ __forceinline__ float scaled(uint32_t mode, uint32_t compute, float x, const scaler &by) {
    if (compute == QF_F32) return mode == kDivide ? __fdiv_rn(x, by.factor) : product(x, by.factor);
    x = round_fast(compute, x);
    return round_fast(compute, mode == kDivide ? __fdiv_rn(x, by.factor) : product(x, by.factor));
}

__device__ __forceinline__ double scaled_f64(uint32_t mode, double x, const scaler &by) {
    return mode == kDivide ? __ddiv_rn(x, by.factor_f64) : __dmul_rn(x, by.factor_f64);
}

// One element whose neighbours other threads may store at the same time: 4-bit elements are exchanged within their
// word.
__device__ __forceinline__ void store_shared_bits(uint32_t bits, void *data, int64_t index, uint64_t code) {
    if (bits >= 8) {
        store_bits(bits, data, index, code);
        return;
    }
    const uintptr_t byte = reinterpret_cast<uintptr_t>(data) + (uintptr_t)(index >> 1);
    unsigned int *word = reinterpret_cast<unsigned int *>(byte & ~(uintptr_t)3);
    const int shift = (int)(byte & 3) * 8 + (int)(index & 1) * 4;
    unsigned int seen = *word, before;
    do {
        before = seen;
        seen = atomicCAS(word, before, (before & ~(0xFu << shift)) | (unsigned int)(code & 0xF) << shift);
    } while (seen != before);
}

// --- the end of a kernel ---

__device__ __forceinline__ scaler load_output_scale(const qf_cuda_output &output) {
    if (!output.scale) return {};
    return prepare_scale(output.mode, output.compute, load_f64(output.scale_dtype, output.scale, 0));
}

__device__ __forceinline__ float finish(const qf_cuda_output &output, const scaler &by, float value) {
    if (!output.scale) return value;
    if (output.via != kNone) value = round_fast(output.via, value);
    value = scaled(output.mode, output.compute, value, by);
    return is_float(output.dtype) ? value : rintf(value);
}

__device__ __forceinline__ void store_output(const qf_cuda_output &output, const scaler &by, void *data, int64_t index,
                                             float value) {
    const float number = finish(output, by, value);
    store_shared_bits(element_bits(output.dtype), data, index, bits_from_f32(output.dtype, number, true));
}

// Of a dtype of fast_vector.cuh.
template <int N>
__device__ __forceinline__ void store_output_fast(const qf_cuda_output &output, const scaler &by, void *data,
                                                  int64_t first, float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) values[i] = finish(output, by, values[i]);
    store_fast<N>(output.dtype, data, first, values);
}

} // namespace qfuse
