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
    float reciprocal;  // of factor
    bool is_ordinary;  // positive, and neither it nor its reciprocal comes near the ends of f32
    double factor_f64; // compute f64 only
};

__device__ __forceinline__ float round_compute(uint32_t compute, float x) {
    if (compute == QF_BF16) return float_of(encode_bf16(x) << 16);
    return compute == QF_F16 ? decode_f16(encode_f16(x)) : x;
}

__device__ __forceinline__ scaler prepare_scale(uint32_t mode, uint32_t compute, float scale) {
    scaler by = {};
    by.factor = round_compute(compute, mode == kMultiplyReciprocal ? __frcp_rn(scale) : scale);
    by.reciprocal = __frcp_rn(by.factor);
    by.is_ordinary = by.factor > 0x1p-64f && by.factor < 0x1p64f;
    return by;
}

__device__ __forceinline__ scaler prepare_scale_f64(uint32_t mode, uint32_t compute, double scale) {
    scaler by = prepare_scale(mode, compute, narrow(scale));
    by.factor_f64 = mode == kMultiplyReciprocal ? widen(narrow(1.0 / scale)) : scale;
    return by;
}

// x in units of the scale, in `compute` precision (f32, f16, bf16). f32 arithmetic rounded once more equals arithmetic
// in the 16-bit types: 24 bits are more than twice 11 plus 2.
__device__ __forceinline__ float scaled(uint32_t mode, uint32_t compute, float x, const scaler &by) {
    x = round_compute(compute, x);
    return round_compute(compute, mode == kDivide ? __fdiv_rn(x, by.factor) : product(x, by.factor));
}

// A quotient by an ordinary factor, corrected by what its product with the factor leaves of x. The signs are such that
// zeros keep theirs.
__device__ __forceinline__ float correct_quotient(float quotient, float x, const scaler &by) {
    return fmaf(-fmaf(quotient, by.factor, -x), by.reciprocal, quotient);
}

// x / factor on its way to FP8, of an ordinary factor. Two corrections of the product with the correctly rounded
// reciprocal round correctly wherever the quotient matters to an FP8 format, one where x has at most 11 bits
// (divide_pairs_to_f8); past 1e30 the product itself, infinite or not, saturates.
template <int CORRECTIONS>
__device__ __forceinline__ float divide_for_f8(float x, const scaler &by) {
    const float rough = x * by.reciprocal;
    float quotient = rough;
#pragma unroll
    for (int i = 0; i < CORRECTIONS; i++) quotient = correct_quotient(quotient, x, by);
    return fabsf(rough) < 1e30f ? quotient : rough;
}

// A call, for the cases that nobody is in a hurry for. It takes no scaler: its address would keep it in memory.
static __device__ __noinline__ void scale_slowly(uint32_t mode, uint32_t compute, float factor, float *x, int count) {
    scaler by = {};
    by.factor = factor;
    for (int i = 0; i < count; i++) x[i] = scaled(mode, compute, x[i], by);
}

// scaled() of N numbers that will be stored as f8E4M3FN, f8E5M2 or their FNUZ kinds.
template <int N, int CORRECTIONS = 2>
__device__ __forceinline__ void scale_for_f8(uint32_t mode, uint32_t compute, const scaler &by, float (&x)[N]) {
    if (compute == QF_F32 && mode == kDivide && by.is_ordinary) {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = divide_for_f8<CORRECTIONS>(x[i], by);
    } else if (compute == QF_F32 && mode != kDivide) {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = product(x[i], by.factor);
    } else {
        float numbers[N];
#pragma unroll
        for (int i = 0; i < N; i++) numbers[i] = x[i];
        scale_slowly(mode, compute, by.factor, numbers, N);
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = numbers[i];
    }
}

// Four f16 or bf16 numbers divided by the factor, as FP8 codes; the rare cases of divide_to_f8.
static __device__ __noinline__ uint32_t divide_four_slowly(bool bf16, uint32_t low, uint32_t high, float factor,
                                                           bool e5m2) {
    const uint32_t format = e5m2 ? QF_F8E5M2 : QF_F8E4M3FN;
    uint32_t codes = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t code = (i < 2 ? low : high) >> (i % 2 * 16) & 0xFFFF;
        const float x = bf16 ? float_of(code << 16) : decode_f16(code);
        codes |= encode_f32(format, __fdiv_rn(x, factor), true) << (8 * i);
    }
    return codes;
}

// Eight f16 or bf16 numbers, in pairs, divided in f32 and rounded to FP8: as scaled(kDivide, QF_F32) and encoded. With
// at most 11 bits of the number one correction of the product is enough: the quotient that it gives is the correctly
// rounded one unless the exact one lies within 2^-23 of a unit beside the middle of two f32 numbers, and beside the
// middle of two FP8 codes no such quotient exists (number = factor * middle * (1 +- 2^-24) has no solution in so few
// bits but for factors of 24 ones, where the correction is exact). Products that overflow come out as NaN and are done
// again.
template <bool BF16, bool E5M2>
__device__ __forceinline__ void divide_pairs_to_f8(const uint32_t (&pairs)[4], const scaler &by, uint32_t *codes) {
    uint32_t may_be_nan = by.is_ordinary ? 0 : 0x80808080u;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        float quotients[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t pair = pairs[2 * n + i / 2];
            float x[2];
            if (BF16)
                x[i % 2] = float_of(i % 2 ? pair & 0xFFFF0000u : pair << 16);
            else
                decode_f16_pair(pair, x);
            quotients[i] = correct_quotient(x[i % 2] * by.reciprocal, x[i % 2], by);
        }
        codes[n] = encode_four_f8(E5M2 ? QF_F8E5M2 : QF_F8E4M3FN, quotients);
        may_be_nan |= (codes[n] & 0x7F7F7F7Fu) + 0x01010101u;
    }
    if (!(may_be_nan & 0x80808080u)) return;
#pragma unroll
    for (int n = 0; n < 2; n++) codes[n] = divide_four_slowly(BF16, pairs[2 * n], pairs[2 * n + 1], by.factor, E5M2);
}

// The same by dtypes that are known at run time.
__device__ __forceinline__ void divide_pairs_to_f8(bool bf16, bool e5m2, const uint32_t (&pairs)[4], const scaler &by,
                                                   uint32_t *codes) {
    if (bf16 && !e5m2)
        divide_pairs_to_f8<true, false>(pairs, by, codes);
    else if (bf16)
        divide_pairs_to_f8<true, true>(pairs, by, codes);
    else if (e5m2)
        divide_pairs_to_f8<false, true>(pairs, by, codes);
    else
        divide_pairs_to_f8<false, false>(pairs, by, codes);
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
    return prepare_scale(output.mode, output.compute, load_f32(output.scale_dtype, output.scale, 0));
}

__device__ __forceinline__ void store_output(const qf_cuda_output &output, const scaler &by, void *data, int64_t index,
                                             float value) {
    if (output.scale) {
        if (output.via != kNone) value = round_compute(output.via, value);
        value = scaled(output.mode, output.compute, value, by);
    }
    store_shared_bits(element_bits(output.dtype), data, index, bits_from_f32(output.dtype, value, true));
}

// Of a dtype of fast_vector.cuh. Numbers are rounded to 16 bits before they are divided, or are themselves inexact by
// more than a division is with one correction.
template <int N>
__device__ __forceinline__ void store_output_fast(const qf_cuda_output &output, const scaler &by, void *data,
                                                  int64_t first, float (&values)[N]) {
    if (output.scale) {
        if (output.via != kNone) round_run<N>(output.via, values);
        scale_for_f8<N, 1>(output.mode, output.compute, by, values);
    }
    store_fast<N>(output.dtype, data, first, values);
}

} // namespace qfuse
