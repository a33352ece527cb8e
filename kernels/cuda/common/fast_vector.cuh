// Owns: N consecutive elements of the dtypes that activations have (f32, f16, bf16, f8E4M3FN, f8E5M2), compactly, for
// kernels limited by memory. Does not own: all other dtypes, and single elements (element.cuh).
// Read next: element.cuh, ../fast.h (qf_cuda_is_fast).
#pragma once

#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/common/element.cuh"

namespace qfuse {

// Addresses are aligned to min(16, bytes of N elements); N is 8 or 16. Results are those of element.cuh, but for the
// sign and payload of NaN.

// N elements as they lie: of BYTES 2 exactly (f16, bf16), so that no branch stands between loads, or of up to 4 bytes.
template <int N, int BYTES>
struct raw_run {
    uint32_t words[N * BYTES / 4];
};

template <int N, int BYTES>
__device__ __forceinline__ void load_raw(uint32_t dtype, const void *data, int64_t first, raw_run<N, BYTES> &out) {
    if constexpr (BYTES == 2) {
        load_words<N * 2>(static_cast<const uint16_t *>(data) + first, out.words);
    } else if (dtype == QF_F32) {
        uint32_t words[N];
        load_words<N * 4>(static_cast<const float *>(data) + first, words);
#pragma unroll
        for (int i = 0; i < N; i++) out.words[i] = words[i];
    } else if (dtype == QF_F16 || dtype == QF_BF16) {
        uint32_t words[N / 2];
        load_words<N * 2>(static_cast<const uint16_t *>(data) + first, words);
#pragma unroll
        for (int i = 0; i < N / 2; i++) out.words[i] = words[i];
    } else {
        uint32_t words[N / 4];
        load_words<N>(static_cast<const uint8_t *>(data) + first, words);
#pragma unroll
        for (int i = 0; i < N / 4; i++) out.words[i] = words[i];
    }
}

__device__ __forceinline__ void decode_f16_pair(uint32_t pair, float *out) {
#ifdef __CUDA_ARCH__
    out[0] = f16_low_to_f32(pair), out[1] = f16_high_to_f32(pair);
#else
    out[0] = decode_f16(pair & 0xFFFF), out[1] = decode_f16(pair >> 16);
#endif
}

// Four FP8 codes; f8E5M2 is the upper half of an f16.
__device__ __forceinline__ void decode_four_f8(uint32_t dtype, uint32_t codes, float *out) {
    if (dtype == QF_F8E5M2) {
        decode_f16_pair(__byte_perm(codes, 0, 0x1404), out);
        decode_f16_pair(__byte_perm(codes, 0, 0x3424), out + 2);
        return;
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    decode_f16_pair(e4m3_low_to_f16x2(codes), out);
    decode_f16_pair(e4m3_high_to_f16x2(codes), out + 2);
#else
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = decode_e4m3fn(codes >> (8 * i) & 0xFF);
#endif
}

template <int N, int BYTES>
__device__ __forceinline__ void decode_raw(uint32_t dtype, const raw_run<N, BYTES> &in, float (&out)[N]) {
    if (BYTES == 4 && dtype == QF_F32) {
#pragma unroll
        for (int i = 0; i < N; i++) out[i] = float_of(in.words[i * BYTES / 4]);
    } else if (dtype == QF_BF16) {
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            out[2 * i] = float_of(in.words[i] << 16), out[2 * i + 1] = float_of(in.words[i] & 0xFFFF0000u);
    } else if (BYTES == 2 || dtype == QF_F16) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) decode_f16_pair(in.words[i], out + 2 * i);
    } else {
#pragma unroll
        for (int i = 0; i < N / 4; i++) decode_four_f8(dtype, in.words[i], out + 4 * i);
    }
}

template <int N>
__device__ __forceinline__ void load_fast(uint32_t dtype, const void *data, int64_t first, float (&out)[N]) {
    raw_run<N, 4> run;
    load_raw<N, 4>(dtype, data, first, run);
    decode_raw<N, 4>(dtype, run, out);
}

// One instruction for two numbers.
__device__ __forceinline__ uint32_t encode_16_pair(bool bf16, float low, float high) {
#ifdef __CUDA_ARCH__
    return bf16 ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
#else
    return bf16 ? encode_bf16(low) | encode_bf16(high) << 16 : encode_f16(low) | encode_f16(high) << 16;
#endif
}

// Four FP8 codes, saturating.
__device__ __forceinline__ uint32_t encode_four_f8(uint32_t dtype, const float *in) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    const uint32_t low = dtype == QF_F8E4M3FN ? f32_to_e4m3x2(in[0], in[1]) : f32_to_e5m2x2(in[0], in[1]);
    const uint32_t high = dtype == QF_F8E4M3FN ? f32_to_e4m3x2(in[2], in[3]) : f32_to_e5m2x2(in[2], in[3]);
    return high << 16 | low;
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
        const bool bf16 = dtype == QF_BF16;
#pragma unroll
        for (int i = 0; i < N / 2; i++) words[i] = encode_16_pair(bf16, in[2 * i], in[2 * i + 1]);
        store_words<N * 2>(static_cast<uint16_t *>(data) + first, words);
    } else {
        uint32_t words[N / 4];
        if (dtype == QF_F8E4M3FN) {
#pragma unroll
            for (int i = 0; i < N / 4; i++) words[i] = encode_four_f8(QF_F8E4M3FN, in + 4 * i);
        } else {
#pragma unroll
            for (int i = 0; i < N / 4; i++) words[i] = encode_four_f8(QF_F8E5M2, in + 4 * i);
        }
        store_words<N>(static_cast<uint8_t *>(data) + first, words);
    }
}

// round_f32, saturating, of N numbers.
template <int N>
__device__ __forceinline__ void round_run(uint32_t dtype, float (&x)[N]) {
    if (dtype == QF_BF16) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const uint32_t pair = encode_16_pair(true, x[2 * i], x[2 * i + 1]);
            x[2 * i] = float_of(pair << 16), x[2 * i + 1] = float_of(pair & 0xFFFF0000u);
        }
    } else if (dtype == QF_F16) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) decode_f16_pair(encode_16_pair(false, x[2 * i], x[2 * i + 1]), x + 2 * i);
    } else if (dtype == QF_F8E4M3FN || dtype == QF_F8E5M2) {
#pragma unroll
        for (int i = 0; i < N / 4; i++) decode_four_f8(dtype, encode_four_f8(dtype, x + 4 * i), x + 4 * i);
    }
}

// As f32. N 8 or 16: an aligned run; 1: an element of any dtype.
template <int N>
__device__ __forceinline__ void load_elements(uint32_t dtype, const void *data, int64_t first, float (&out)[N]) {
    if constexpr (N == 1)
        out[0] = load_f32(dtype, data, first);
    else
        load_fast<N>(dtype, data, first, out);
}

template <int N, int BYTES>
__device__ __forceinline__ void store_raw(uint32_t dtype, void *data, int64_t first, const raw_run<N, BYTES> &in) {
    if constexpr (BYTES == 2) {
        store_words<N * 2>(static_cast<uint16_t *>(data) + first, in.words);
    } else if (dtype == QF_F32) {
        store_words<N * 4>(static_cast<float *>(data) + first, in.words);
    } else if (dtype == QF_F16 || dtype == QF_BF16) {
        uint32_t words[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) words[i] = in.words[i];
        store_words<N * 2>(static_cast<uint16_t *>(data) + first, words);
    } else {
        uint32_t words[N / 4];
#pragma unroll
        for (int i = 0; i < N / 4; i++) words[i] = in.words[i];
        store_words<N>(static_cast<uint8_t *>(data) + first, words);
    }
}

} // namespace qfuse
