// Owns: scores in f16 accumulators, and their online softmax: S = Q K^T, masks, maximum, P in e4m3.
// Does not own: the loop over tiles (consume.cuh).
// Read next: consume.cuh.
//
// f16 halves the registers and the register traffic of S, and its maximum, scaling and conversion are packed. Its range
// holds because each row of Q carries a power of two that keeps |q| under kQueryLimit (query.cuh): |k| is at most
// 448 sqrt(head dim), so no partial sum reaches 65504. Its rounding, 2^-11 relative, disappears beside P's e4m3.
//
// The reference m is the running maximum in the log2 domain, rounded up to an integer, so that rescaling by
// 2^(m - m') is exact and P's codes depend neither on tiles nor on their order. P = 2^(s - m + 8) <= 256.
#pragma once

#include "kernels/cuda/common/convert.cuh"
#include "shared.cuh"

namespace qfuse::prefill {

constexpr float kOffset = 8.0f;
// The larger one, or NaN if one is NaN: a row that sees a NaN becomes NaN whole.
__device__ __forceinline__ uint32_t f16x2_max(uint32_t a, uint32_t b) {
    uint32_t result;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

__device__ __forceinline__ float f32_max(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

__device__ __forceinline__ uint32_t f16x2_fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
}

// Volatile: the exponentials keep their place between the waits.
__device__ __forceinline__ uint32_t f16x2_exp2(uint32_t a) {
    uint32_t result;
    asm volatile("ex2.approx.f16x2 %0, %1;" : "=r"(result) : "r"(a));
    return result;
}

__device__ __forceinline__ uint32_t f16x2_add(uint32_t a, uint32_t b) {
    uint32_t result;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

// 2^x without the special-function unit, x at most 15: the nearest integer by adding 1536, a polynomial of degree 2 on
// [-0.5, 0.5] (0.23 % at most, without bias), the exponent by an integer addition. Below -14 it is 2^-14, which e4m3
// rounds to zero; NaN is not kept (the maximum keeps it).
__device__ __forceinline__ uint32_t f16x2_exp2_polynomial(uint32_t x) {
    uint32_t clamped;
    asm("max.f16x2 %0, %1, %2;" : "=r"(clamped) : "r"(x), "r"(0xCB00CB00u));
    const uint32_t shifted = f16x2_add(clamped, 0x66006600u);
    const uint32_t integer = f16x2_add(shifted, 0xE600E600u);
    const uint32_t fraction = f16x2_add(clamped, integer ^ 0x80008000u);
    const uint32_t slope = f16x2_fma(fraction, 0x33A833A8u, 0x399F399Fu);
    const uint32_t power = f16x2_fma(slope, fraction, 0x3C003C00u);
    // The low ten bits of `shifted` are 512 + n; n goes to the exponent's place, 512 falls out of it.
    return shifted * 1024u + (power - 0x01980000u);
}

__device__ __forceinline__ float exp2_in_place(float x) {
    float result;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// Volatile: stays in one block with the exponentials, in whose shadow it runs.
__device__ __forceinline__ uint32_t f16x4_to_e4m3x4(uint32_t low, uint32_t high) {
    uint32_t result;
    asm volatile("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f16x2 l, %1; cvt.rn.satfinite.e4m3x2.f16x2 h, %2;"
                 " mov.b32 %0, {l, h};}"
                 : "=r"(result)
                 : "r"(low), "r"(high));
    return result;
}

// Left shift that gives 0 from 32 on. Volatile: masks are made one after the other, which saves registers.
__device__ __forceinline__ uint32_t shift_left(uint32_t x, uint32_t by) {
    uint32_t result;
    asm volatile("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(by));
    return result;
}

// The scores of a tile: two rows a thread, as wgmma.cuh lays accumulators out.
template <class C>
struct HalfScores {
    static constexpr bool kBoundsQuery = true;
    // "No key yet": finite in f16 too, so that differences stay numbers; no score below it counts.
    static constexpr float kNone = -60000.0f;
    static constexpr int kWords = C::kKeys / 4;
    struct Parameters {
        uint32_t multiplier[2];
    };
    uint32_t s[kWords];
    uint32_t multiplier[2]; // by row, in both halves: score in octaves = S * multiplier

    HalfScores() = default;
    __device__ __forceinline__ explicit HalfScores(const Parameters &p)
        : multiplier{p.multiplier[0], p.multiplier[1]} {}
    __device__ __forceinline__ Parameters parameters() const {
        return {{multiplier[0], multiplier[1]}};
    }
    __device__ __forceinline__ void set_multiplier(int row, float x, float) {
        const float bounded = fminf(fmaxf(x, 6e-8f), 65504.0f); // not zero, since S may be infinite
        x = x < INFINITY ? bounded : NAN;                       // an infinite scale leaves no number
        multiplier[row] = f32_to_f16x2(x, x);
    }
    __device__ __forceinline__ void pin() {
        wgmma_pin(s);
    }
    template <bool Accumulate>
    __device__ __forceinline__ void multiply(uint64_t q, uint64_t k) {
        wgmma_e4m3<Accumulate>(s, q, k);
    }
    __device__ __forceinline__ void finish() {}
    // Hides the keys from `end` on, by row, counted from the thread's first column.
    __device__ __forceinline__ void mask_from(const int (&end)[2]) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            const uint32_t hidden = shift_left(~0u, 16 * max(end[i & 1] - 8 * (i >> 1), 0));
            s[i] = (s[i] & ~hidden) | (0xFC00FC00u & hidden);
        }
    }
    // Hides the keys before `begin`.
    __device__ __forceinline__ void mask_before(const int (&begin)[2]) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            const uint32_t shown = shift_left(~0u, 16 * max(begin[i & 1] - 8 * (i >> 1), 0));
            s[i] = (s[i] & shown) | (0xFC00FC00u & ~shown);
        }
    }
    // Raises the references; factor = what older sums are multiplied by.
    __device__ __forceinline__ void raise(float (&reference)[2], float (&factor)[2]) const {
        uint32_t low = s[0], high = s[1], low2 = s[2], high2 = s[3];
#pragma unroll
        for (int i = 4; i < kWords; i += 4) {
            low = f16x2_max(low, s[i]), high = f16x2_max(high, s[i + 1]);
            low2 = f16x2_max(low2, s[i + 2]), high2 = f16x2_max(high2, s[i + 3]);
        }
        low = f16x2_max(low, low2), high = f16x2_max(high, high2);
        // Both rows in one register: the first below, the second above.
        uint32_t both = f16x2_max(__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632));
        both = f16x2_max(both, __shfl_xor_sync(~0u, both, 1));
        both = f16x2_max(both, __shfl_xor_sync(~0u, both, 2));
        const float raised[2] = {f32_max(reference[0], ceilf(f16_low_to_f32(both) * f16_low_to_f32(multiplier[0]))),
                                 f32_max(reference[1], ceilf(f16_high_to_f32(both) * f16_low_to_f32(multiplier[1])))};
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            factor[row] = exp2_in_place(reference[row] - raised[row]);
            reference[row] = raised[row];
        }
    }
    // The exponentials as operand A of P V: four registers for every 32 keys, all of them.
    template <int First, int End>
    __device__ __forceinline__ void exponentials(const float (&reference)[2], uint32_t (&p)[C::kWords]) {
        static_assert(First == 0 && End == C::kWords, "P is made whole");
        uint32_t shift[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float x = fmaxf(kOffset - reference[row], -65504.0f);
            shift[row] = f32_to_f16x2(x, x);
        }
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            const uint32_t x = f16x2_fma(s[i], multiplier[i & 1], shift[i & 1]);
            // The same share of both rows, spread evenly.
            constexpr int kPeriod = C::kPolynomialPeriod;
            const bool polynomial = kPeriod > 0 && i / 2 % max(kPeriod, 1) == (i & 1 ? kPeriod / 2 : 0);
            s[i] = polynomial ? f16x2_exp2_polynomial(x) : f16x2_exp2(x);
        }
#pragma unroll
        for (int i = 0; i < C::kWords; ++i) {
            const int first = i / 4 * 8 + (i & 1) + (i >> 1 & 1) * 4;
            p[i] = f16x4_to_e4m3x4(s[first], s[first + 2]);
        }
    }
};

} // namespace qfuse::prefill
