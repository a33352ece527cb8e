// Owns: conversions of four consecutive elements at once by the instructions that convert pairs. Numbers are those of
// element.cuh; a NaN stays one, its sign and payload may change when it is encoded. Does not own: single elements and
// the exact bits of NaN (element.cuh). Read next: element.cuh.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/common/element.cuh"

namespace qfuse {

__device__ __forceinline__ void unpack_two_f16(uint32_t word, float &low, float &high) {
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high)
        : "r"(word));
}

__device__ __forceinline__ void unpack_two_bf16(uint32_t word, float &low, float &high) {
    low = float_of(word << 16);
    high = float_of(word & 0xFFFF0000u);
}

__device__ __forceinline__ void decode_four_bf16(const uint32_t (&words)[2], float *out) {
    unpack_two_bf16(words[0], out[0], out[1]);
    unpack_two_bf16(words[1], out[2], out[3]);
}

// The instruction gives a NaN of its own; this keeps the code's.
__device__ __forceinline__ void decode_four_f16(const uint32_t (&words)[2], float *out) {
    unpack_two_f16(words[0], out[0], out[1]);
    unpack_two_f16(words[1], out[2], out[3]);
    if (is_nan(out[0] + out[1] + (out[2] + out[3]))) {
#pragma unroll
        for (int k = 0; k < 4; k++) out[k] = decode_f16(words[k / 2] >> (k % 2 * 16) & 0xFFFF);
    }
}

__device__ __forceinline__ uint32_t pack_four_e4m3(const float *numbers) {
#if __CUDA_ARCH__ >= 890
    uint16_t low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(numbers[1]), "f"(numbers[0]));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(numbers[3]), "f"(numbers[2]));
    return (uint32_t)high << 16 | low;
#else
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) word |= encode_e4m3fn(numbers[k], true) << (8 * k);
    return word;
#endif
}

__device__ __forceinline__ uint32_t pack_four_e5m2(const float *numbers) {
#if __CUDA_ARCH__ >= 890
    uint16_t low, high;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(numbers[1]), "f"(numbers[0]));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(numbers[3]), "f"(numbers[2]));
    return (uint32_t)high << 16 | low;
#else
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) word |= encode_e5m2(numbers[k], true) << (8 * k);
    return word;
#endif
}

__device__ __forceinline__ void decode_four_e4m3(uint32_t word, float *out) {
#if __CUDA_ARCH__ >= 890
    uint32_t low, high;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, h;}"
        : "=r"(low), "=r"(high)
        : "r"(word));
    unpack_two_f16(low, out[0], out[1]);
    unpack_two_f16(high, out[2], out[3]);
    if (!is_nan(out[0] + out[1] + (out[2] + out[3]))) return;
#endif
#pragma unroll
    for (int k = 0; k < 4; k++) out[k] = decode_e4m3fn(word >> (8 * k) & 0xFF);
}

// The upper byte of an f16.
__device__ __forceinline__ void decode_four_e5m2(uint32_t word, float *out) {
    unpack_two_f16(__byte_perm(word, 0, 0x1404), out[0], out[1]);
    unpack_two_f16(__byte_perm(word, 0, 0x3424), out[2], out[3]);
    if (is_nan(out[0] + out[1] + (out[2] + out[3]))) {
#pragma unroll
        for (int k = 0; k < 4; k++) out[k] = decode_e5m2(word >> (8 * k) & 0xFF);
    }
}

// ------------------------------------------------------------------------------------- N vectors of four, from
// anywhere

// Bytes of four elements.
__device__ __forceinline__ uint32_t four_bytes(uint32_t dtype) {
    return element_bits(dtype) / 2;
}

// All loads are in flight before the first is waited for. Vectors whose bit of `present` is 0 are `missing` numbers.
template <int BYTES, int N, typename DECODE>
__device__ __forceinline__ void load_each(const char *const (&from)[N], uint32_t present, float missing,
                                          float (&out)[4 * N], DECODE decode) {
    uint32_t words[N][(BYTES + 3) / 4] = {};
#pragma unroll
    for (int n = 0; n < N; n++)
        if (present >> n & 1) load_words<BYTES>(from[n], words[n]);
#pragma unroll
    for (int n = 0; n < N; n++) {
        decode(words[n], &out[4 * n]);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (!(present >> n & 1)) out[4 * n + k] = missing;
    }
}

// False, with nothing done, for dtypes that are rare.
template <int N>
__device__ __forceinline__ bool load_fours(uint32_t dtype, const char *const (&from)[N], uint32_t present,
                                           float missing, float (&out)[4 * N]) {
    switch (dtype) {
    case QF_F32:
        load_each<16>(from, present, missing, out, [](const uint32_t(&words)[4], float *to) {
#pragma unroll
            for (int k = 0; k < 4; k++) to[k] = float_of(words[k]);
        });
        return true;
    case QF_F16:
        load_each<8>(from, present, missing, out,
                     [](const uint32_t(&words)[2], float *to) { decode_four_f16(words, to); });
        return true;
    case QF_BF16:
        load_each<8>(from, present, missing, out,
                     [](const uint32_t(&words)[2], float *to) { decode_four_bf16(words, to); });
        return true;
    case QF_F8E4M3FN:
        load_each<4>(from, present, missing, out,
                     [](const uint32_t(&words)[1], float *to) { decode_four_e4m3(words[0], to); });
        return true;
    case QF_F8E5M2:
        load_each<4>(from, present, missing, out,
                     [](const uint32_t(&words)[1], float *to) { decode_four_e5m2(words[0], to); });
        return true;
    default: return false;
    }
}

// Instructions encode a NaN without its sign: where there may be one, elements are stored one by one.
template <int N>
__device__ __forceinline__ bool may_have_nan(const float (&numbers)[N]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++) sum += numbers[i];
    return is_nan(sum);
}

template <int BYTES, int N, typename ENCODE>
__device__ __forceinline__ void store_each(char *const (&to)[N], uint32_t present, const float (&in)[4 * N],
                                           ENCODE encode) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        uint32_t words[(BYTES + 3) / 4];
        encode(&in[4 * n], words);
        if (present >> n & 1) store_words<BYTES>(to[n], words);
    }
}

// Saturating. False, with nothing done, for dtypes that are rare and where there may be a NaN.
template <int N>
__device__ __forceinline__ bool store_fours(uint32_t dtype, char *const (&to)[N], uint32_t present,
                                            const float (&in)[4 * N]) {
    if (dtype == QF_F32) {
        store_each<16>(to, present, in, [](const float *from, uint32_t(&words)[4]) {
#pragma unroll
            for (int k = 0; k < 4; k++) words[k] = bits_of(from[k]);
        });
        return true;
    }
    if (may_have_nan(in)) return false;
    switch (dtype) {
    case QF_F16:
        store_each<8>(to, present, in, [](const float *from, uint32_t(&words)[2]) {
            words[0] = f32_to_f16x2(from[0], from[1]), words[1] = f32_to_f16x2(from[2], from[3]);
        });
        return true;
    case QF_BF16:
        store_each<8>(to, present, in, [](const float *from, uint32_t(&words)[2]) {
            words[0] = f32_to_bf16x2(from[0], from[1]), words[1] = f32_to_bf16x2(from[2], from[3]);
        });
        return true;
    case QF_F8E4M3FN:
        store_each<4>(to, present, in, [](const float *from, uint32_t(&words)[1]) { words[0] = pack_four_e4m3(from); });
        return true;
    case QF_F8E5M2:
        store_each<4>(to, present, in, [](const float *from, uint32_t(&words)[1]) { words[0] = pack_four_e5m2(from); });
        return true;
    default: return false;
    }
}

} // namespace qfuse
