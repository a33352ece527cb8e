// Owns: scores in f32 accumulators, and their online softmax: S = Q K^T, soft cap, masks, maximum, P.
// Does not own: the loop over tiles (consume.cuh); the faster form (scores_f16.cuh), whose reference and P these share.
// Read next: consume.cuh.
#pragma once

#include "kernels/cuda/common/wgmma_16.cuh"
#include "scores_f16.cuh"

namespace qfuse::prefill {

// Probabilities in one register. Volatile: stays in one block with the exponentials, in whose shadow it runs.
template <bool Bf16>
__device__ __forceinline__ uint32_t pack_16(float low, float high) {
    uint32_t result;
    if constexpr (Bf16)
        asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    else
        asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

__device__ __forceinline__ uint32_t pack_e4m3(float first, float second, float third, float fourth) {
    uint32_t result;
    asm volatile("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; cvt.rn.satfinite.e4m3x2.f32 h, %4, %3;"
                 " mov.b32 %0, {l, h};}"
                 : "=r"(result)
                 : "f"(first), "f"(second), "f"(third), "f"(fourth));
    return result;
}

// The scores of a tile: two rows a thread, as wgmma.cuh lays accumulators out.
template <class C>
struct FullScores {
    static constexpr int kCount = C::kKeys / 2;
    static constexpr bool kBoundsQuery = false;
    static constexpr float kNone = -1e30f; // "no key yet", finite so that differences stay numbers
    struct Parameters {
        float multiplier[2], cap;
    };
    float s[kCount];
    // By row: score in octaves = S * multiplier; with a soft cap, S * multiplier is 2 log2(e) score / cap.
    float multiplier[2];
    float cap; // the soft cap in octaves, or 0

    FullScores() = default;
    __device__ __forceinline__ explicit FullScores(const Parameters &p)
        : multiplier{p.multiplier[0], p.multiplier[1]}, cap(p.cap) {}
    __device__ __forceinline__ Parameters parameters() const {
        return {{multiplier[0], multiplier[1]}, cap};
    }
    __device__ __forceinline__ void set_multiplier(int row, float x, float softcap) {
        const float bounded = fmaxf(softcap > 0.0f ? x * (2.0f / softcap) : x, 1e-30f); // not zero: S may be infinite
        multiplier[row] = x < INFINITY ? bounded : NAN; // an infinite scale leaves no number
        cap = softcap * kLog2E;
    }
    __device__ __forceinline__ void pin() {
        wgmma_pin(s);
    }
    template <bool Accumulate>
    __device__ __forceinline__ void multiply(uint64_t q, uint64_t k) {
        if constexpr (C::kElementBytes == 2)
            wgmma_16<C::kBf16, Accumulate>(s, q, k);
        else
            wgmma_e4m3<Accumulate>(s, q, k);
    }
    // A step whose Q lies in registers.
    __device__ __forceinline__ void multiply(const uint32_t *q, uint64_t k) {
        wgmma_16<C::kBf16, true, true>(s, q, k);
    }
    // Soft cap: tanh(y) = 1 - 2 / (exp(2y) + 1).
    __device__ __forceinline__ void finish() {
        if (cap <= 0.0f) return;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const float e = exp2_approximate(fminf(s[i] * multiplier[i >> 1 & 1], 126.0f));
            // fminf drops a NaN: the product brings it back.
            s[i] = cap * (1.0f - __fdividef(2.0f, e + 1.0f)) + 0.0f * s[i];
        }
    }
    __device__ __forceinline__ void mask_from(const int (&end)[2]) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (8 * (i >> 2) + (i & 1) >= end[i >> 1 & 1]) s[i] = -INFINITY;
        }
    }
    __device__ __forceinline__ void mask_before(const int (&begin)[2]) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (8 * (i >> 2) + (i & 1) < begin[i >> 1 & 1]) s[i] = -INFINITY;
        }
    }
    __device__ __forceinline__ void raise(float (&reference)[2], float (&factor)[2]) const {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float largest = f32_max(s[2 * row], s[2 * row + 1]);
#pragma unroll
            for (int i = 4; i < kCount; i += 4) {
                largest = f32_max(largest, f32_max(s[i + 2 * row], s[i + 2 * row + 1]));
            }
            largest = f32_max(largest, __shfl_xor_sync(~0u, largest, 1));
            largest = f32_max(largest, __shfl_xor_sync(~0u, largest, 2));
            const float raised = f32_max(reference[row], ceilf(largest * scale(row)));
            factor[row] = exp2_in_place(reference[row] - raised);
            reference[row] = raised;
        }
    }
    // The exponentials as operand A of P V, registers `First` to `End` of it. The scores stay as they are: a product
    // into their registers may follow while older ones run.
    template <int First, int End>
    __device__ __forceinline__ void exponentials(const float (&reference)[2], uint32_t (&p)[C::kWords]) const {
        const float scales[2] = {scale(0), scale(1)};
        const float shift[2] = {kOffset - reference[0], kOffset - reference[1]};
        const auto power = [&](int i) { return exp2_in_place(fmaf(s[i], scales[i >> 1 & 1], shift[i >> 1 & 1])); };
#pragma unroll
        for (int i = First; i < End; ++i) {
            if constexpr (C::kElementBytes == 2) {
                const float low = power(2 * i), high = power(2 * i + 1);
                p[i] = pack_16<C::kBf16>(low, high);
            } else {
                const int first = i / 4 * 16 + (i >> 1 & 1) * 8 + (i & 1) * 2;
                const float a = power(first), b = power(first + 1), c = power(first + 4), d = power(first + 5);
                p[i] = pack_e4m3(a, b, c, d);
            }
        }
    }

  private:
    __device__ __forceinline__ float scale(int row) const {
        return cap > 0.0f ? 1.0f : multiplier[row];
    }
};

} // namespace qfuse::prefill
