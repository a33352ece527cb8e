// Owns: the functions of elementwise ops on one number, composed of the operations that the CPU kernels use, so that
// only the library's transcendental functions may differ from the CPU's by their last bits. Does not own: rounding to
// dtypes (element.cuh). Read next: kernels/cpu/elementwise.c.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/element.cuh"

namespace qfuse {

// Products that are rounded before they are added: the compiler contracts nothing through these.
__device__ __forceinline__ float product(float a, float b) {
    return __fmul_rn(a, b);
}
__device__ __forceinline__ double product(double a, double b) {
    return __dmul_rn(a, b);
}
__device__ __forceinline__ float sum_of(float a, float b) {
    return __fadd_rn(a, b);
}
__device__ __forceinline__ double sum_of(double a, double b) {
    return __dadd_rn(a, b);
}

// Long functions stay calls: they are rare, and their code is large.
#define QF_FUNCTION(name)                                                                                              \
    static __device__ __noinline__ float call_##name(float x) {                                                        \
        return name##f(x);                                                                                             \
    }                                                                                                                  \
    static __device__ __noinline__ double call_##name(double x) {                                                      \
        return name(x);                                                                                                \
    }
#define QF_FUNCTION_OF_TWO(name)                                                                                       \
    static __device__ __noinline__ float call_##name(float a, float b) {                                               \
        return name##f(a, b);                                                                                          \
    }                                                                                                                  \
    static __device__ __noinline__ double call_##name(double a, double b) {                                            \
        return name(a, b);                                                                                             \
    }
QF_FUNCTION(sin)
QF_FUNCTION(cos)
QF_FUNCTION(tanh)
QF_FUNCTION(erf)
QF_FUNCTION_OF_TWO(fmod)

__device__ __forceinline__ bool is_signaling(float x) {
    return is_nan(x) && !(bits_of(x) >> 22 & 1);
}
__device__ __forceinline__ bool is_signaling(double x) {
    return is_nan(x) && !(bits_of(x) >> 51 & 1);
}

// 1 to the power of NaN and NaN to the power of 0 are 1, but not where the NaN is a signaling one.
template <typename T>
static __device__ __noinline__ T call_pow(T a, T b) {
    return is_signaling(a) || is_signaling(b) ? a + b : T(pow(a, b));
}
#undef QF_FUNCTION
#undef QF_FUNCTION_OF_TWO

template <typename T>
__device__ __forceinline__ T sigmoid(T x) {
    return T(1) / sum_of(T(1), T(exp(-x)));
}

// approximate: QF_VALUE_erf, QF_VALUE_tanh, QF_VALUE_quick of spec/enums.def.
template <typename T>
__device__ __forceinline__ T gelu(T x, uint32_t approximate) {
    if (approximate == 2) return product(x, sigmoid(product(T(1.702), x)));
    if (approximate == 1) {
        const T cube = product(product(product(T(0.044715), x), x), x);
        return product(product(T(0.5), x),
                       sum_of(T(1), T(call_tanh(product(T(0.7978845608028653559), sum_of(x, cube))))));
    }
    return product(product(T(0.5), x), sum_of(T(1), T(call_erf(product(x, T(0.70710678118654752440))))));
}

template <typename T>
static __device__ __noinline__ T call_gelu(T x, uint32_t approximate) {
    return gelu(x, approximate);
}

template <typename T>
__device__ __forceinline__ T smaller(T a, T b) {
    return is_nan(a) ? a : is_nan(b) || b < a ? b : a;
}

template <typename T>
__device__ __forceinline__ T larger(T a, T b) {
    return is_nan(a) ? a : is_nan(b) || b > a ? b : a;
}

template <typename T>
__device__ __forceinline__ T remainder_of(T a, T b, bool sign_of_a) {
    const T rest = call_fmod(a, b);
    return !sign_of_a && rest != 0 && (rest < 0) != (b < 0) ? sum_of(rest, b) : rest;
}

__device__ __forceinline__ bool is_infinite(float x) {
    return (bits_of(x) & 0x7FFFFFFF) == 0x7F800000;
}
__device__ __forceinline__ bool is_infinite(double x) {
    return (bits_of(x) & 0x7FFFFFFFFFFFFFFFull) == 0x7FF0000000000000ull;
}

// Integers: two's complement; the store keeps the low bits of the dtype.
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

__device__ __forceinline__ int64_t modulo(int64_t a, int64_t b, bool sign_of_a) {
    if (b == 0 || b == -1) return 0;
    const int64_t rest = a % b;
    return !sign_of_a && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

__device__ __forceinline__ int64_t power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t result = 1, square = (uint64_t)base;
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1) result *= square;
    return (int64_t)result;
}

} // namespace qfuse
