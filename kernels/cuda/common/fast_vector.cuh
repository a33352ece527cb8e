// Owns: N consecutive elements of the dtypes that activations have (f32, f16, bf16, f8E4M3FN, f8E5M2), compactly, for
// kernels limited by memory. Does not own: all other dtypes, and single elements (element.cuh).
// Read next: element.cuh, ../fast.h (qf_cuda_is_fast).
#pragma once

#include "kernels/cuda/common/element.cuh"

namespace qfuse {

// Addresses are aligned to min(16, bytes of N elements); N is 8 or 16. Results are those of element.cuh, bit for bit.

template <int N>
__device__ __forceinline__ void load_fast(uint32_t dtype, const void *data, int64_t first, float (&out)[N]) {
    if (dtype == QF_F32) {
        uint32_t words[N];
        load_words<N * 4>(static_cast<const float *>(data) + first, words);
#pragma unroll
        for (int i = 0; i < N; i++) out[i] = float_of(words[i]);
    } else if (dtype == QF_F16 || dtype == QF_BF16) {
        uint32_t words[N / 2];
        load_words<N * 2>(static_cast<const uint16_t *>(data) + first, words);
        if (dtype == QF_BF16) {
#pragma unroll
            for (int i = 0; i < N / 2; i++)
                out[2 * i] = float_of(words[i] << 16), out[2 * i + 1] = float_of(words[i] & 0xFFFF0000u);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) out[i] = decode_f16(words[i / 2] >> (i % 2 * 16) & 0xFFFF);
        }
    } else {
        uint32_t words[N / 4];
        load_words<N>(static_cast<const uint8_t *>(data) + first, words);
#pragma unroll
        for (int i = 0; i < N; i++) {
            const uint32_t code = words[i / 4] >> (i % 4 * 8) & 0xFF;
            out[i] = dtype == QF_F8E4M3FN ? decode_e4m3fn(code) : decode_e5m2(code);
        }
    }
}

// Four FP8 codes, saturating; NaN keeps its sign. One instruction for two codes where the target has it.
__device__ __forceinline__ uint32_t encode_four_f8(uint32_t dtype, const float *in) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint16_t low, high;
    if (dtype == QF_F8E4M3FN) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(in[1]), "f"(in[0]));
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(in[3]), "f"(in[2]));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(in[1]), "f"(in[0]));
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(in[3]), "f"(in[2]));
    }
    const uint32_t first = __byte_perm(bits_of(in[0]), bits_of(in[1]), 0x0073);
    const uint32_t second = __byte_perm(bits_of(in[2]), bits_of(in[3]), 0x0073);
    return ((uint32_t)high << 16 | low) | (__byte_perm(first, second, 0x5410) & 0x80808080u);
#else
    uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        codes |= (dtype == QF_F8E4M3FN ? encode_e4m3fn(in[i], true) : encode_e5m2(in[i], true)) << (8 * i);
    return codes;
#endif
}

// FP8 saturates.
template <int N>
__device__ __forceinline__ void store_fast(uint32_t dtype, void *data, int64_t first, const float (&in)[N]) {
    if (dtype == QF_F32) {
        uint32_t words[N];
#pragma unroll
        for (int i = 0; i < N; i++) words[i] = bits_of(in[i]);
        store_words<N * 4>(static_cast<float *>(data) + first, words);
    } else if (dtype == QF_F16 || dtype == QF_BF16) {
        uint32_t words[N / 2];
        if (dtype == QF_BF16) {
#pragma unroll
            for (int i = 0; i < N / 2; i++) words[i] = encode_bf16(in[2 * i]) | encode_bf16(in[2 * i + 1]) << 16;
        } else {
#pragma unroll
            for (int i = 0; i < N / 2; i++) words[i] = encode_f16(in[2 * i]) | encode_f16(in[2 * i + 1]) << 16;
        }
        store_words<N * 2>(static_cast<uint16_t *>(data) + first, words);
    } else {
        uint32_t words[N / 4];
#pragma unroll
        for (int i = 0; i < N / 4; i++) words[i] = encode_four_f8(dtype, in + 4 * i);
        store_words<N>(static_cast<uint8_t *>(data) + first, words);
    }
}

// round_f32, saturating.
__device__ __forceinline__ float round_fast(uint32_t dtype, float number) {
    if (dtype == QF_BF16) return float_of(encode_bf16(number) << 16);
    if (dtype == QF_F16) return decode_f16(encode_f16(number));
    if (dtype == QF_F8E4M3FN) return decode_e4m3fn(encode_e4m3fn(number, true));
    if (dtype == QF_F8E5M2) return decode_e5m2(encode_e5m2(number, true));
    return number;
}

// N elements as they lie.
template <int N>
__device__ __forceinline__ void copy_fast(uint32_t dtype, void *to, int64_t to_first, const void *from,
                                          int64_t from_first) {
    if (dtype == QF_F32) {
        uint32_t words[N];
        load_words<N * 4>(static_cast<const uint32_t *>(from) + from_first, words);
        store_words<N * 4>(static_cast<uint32_t *>(to) + to_first, words);
    } else if (dtype == QF_F16 || dtype == QF_BF16) {
        uint32_t words[N / 2];
        load_words<N * 2>(static_cast<const uint16_t *>(from) + from_first, words);
        store_words<N * 2>(static_cast<uint16_t *>(to) + to_first, words);
    } else {
        uint32_t words[N / 4];
        load_words<N>(static_cast<const uint8_t *>(from) + from_first, words);
        store_words<N>(static_cast<uint8_t *>(to) + to_first, words);
    }
}

} // namespace qfuse
