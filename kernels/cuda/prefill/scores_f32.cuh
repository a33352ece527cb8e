// Owns: scores in f32 accumulators, and their online softmax: S = Q K^T, soft cap, masks, maximum, P in e4m3.
// Does not own: the loop over tiles (consume.cuh); the faster form (scores_f16.cuh), whose reference and P these share.
// Read next: consume.cuh.
#pragma once

#include "scores_f16.cuh"

namespace qfuse::prefill {

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
        wgmma_e4m3<Accumulate>(s, q, k);
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
    __device__ __forceinline__ void exponentials(float (&reference)[2], float (&factor)[2]) {
        float scale[2], shift[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float largest = f32_max(s[2 * row], s[2 * row + 1]);
#pragma unroll
            for (int i = 4; i < kCount; i += 4) {
                largest = f32_max(largest, f32_max(s[i + 2 * row], s[i + 2 * row + 1]));
            }
            largest = f32_max(largest, __shfl_xor_sync(~0u, largest, 1));
            largest = f32_max(largest, __shfl_xor_sync(~0u, largest, 2));
            scale[row] = cap > 0.0f ? 1.0f : multiplier[row];
            const float raised = f32_max(reference[row], ceilf(largest * scale[row]));
            factor[row] = exp2_in_place(reference[row] - raised);
            reference[row] = raised;
            shift[row] = kOffset - raised;
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            s[i] = exp2_in_place(fmaf(s[i], scale[i >> 1 & 1], shift[i >> 1 & 1]));
        }
    }
    __device__ __forceinline__ void pack(uint32_t (&p)[C::kKeys / 8]) const {
#pragma unroll
        for (int i = 0; i < C::kKeys / 8; ++i) {
            const int first = i / 4 * 16 + (i >> 1 & 1) * 8 + (i & 1) * 2;
            asm volatile(
                "{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; cvt.rn.satfinite.e4m3x2.f32 h, %4, %3;"
                " mov.b32 %0, {l, h};}"
                : "=r"(p[i])
                : "f"(s[first]), "f"(s[first + 1]), "f"(s[first + 4]), "f"(s[first + 5]));
        }
    }
};

} // namespace qfuse::prefill
