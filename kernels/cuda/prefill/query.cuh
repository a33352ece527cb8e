// Owns: what a consumer does with its rows of a new Q tile before the first product: powers of two that bound |q|, and
// the sign of the scores.
// Does not own: the copy of the tile (load.cuh), scores (scores_f16.cuh).
// Read next: consume.cuh.
#pragma once

#include "kernels/cuda/common/load_matrix.cuh"
#include "scores_f16.cuh"

namespace qfuse::prefill {

// |q| <= this keeps |q . k| < 65504 for every k; 3 % below the bound, for the rounding of the norm.
constexpr float kQueryBound = 65504.0f / 448.0f * 0.97f; // times 1 / sqrt(head dim)

// Address of a 16-byte chunk (of the whole head dim) of a row of the warpgroup's Q rows.
template <class C>
__device__ __forceinline__ uint32_t query_chunk(uint32_t rows, int row, int chunk) {
    const int panel = chunk / C::kPanelChunks, inner = chunk % C::kPanelChunks;
    const int swizzled = C::kPanelBytes == 128 ? inner ^ (row & 7) : inner ^ ((row >> 1) & 3);
    return rows + panel * C::kRows * C::kPanelBytes + row * C::kPanelBytes + (swizzled << 4);
}

__device__ __forceinline__ uint32_t f16x2_mul(uint32_t a, uint32_t b) {
    uint32_t result;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

// The part of the warpgroup's rows of Q that stays in registers, as operands A: the last steps of 16 elements.
template <class C>
struct KeptQuery {
    static constexpr int kFirst = C::kHeadDim / 16 - C::kKeptSteps;
    uint32_t a[C::kKeptSteps > 0 ? C::kKeptSteps : 1][4];

    __device__ __forceinline__ void load(uint32_t rows) {
        if constexpr (C::kKeptSteps == 0) return;
        const int thread = thread_here() & 127, row = (thread >> 5) * 16 + (thread & 15), half = thread >> 4 & 1;
#pragma unroll
        for (int step = 0; step < C::kKeptSteps; ++step) {
            load_matrices(query_chunk<C>(rows, row, 2 * (kFirst + step) + half), a[step]);
        }
    }
};

// Turns all rows of Q round, in place, so that the multiplier of the scores is positive whatever the scales' signs are.
// Two lanes share a row.
template <class C>
__device__ __forceinline__ void negate_query(uint32_t rows) {
    constexpr int kChunks = C::kRowBytes / 32; // of 16 bytes, for one of the two lanes
    constexpr uint32_t kSigns = C::kElementBytes == 1 ? 0x80808080u : 0x80008000u;
    const int thread = thread_here() & 127, row = thread / 2, first = thread % 2 * kChunks;
#pragma unroll 1
    for (int i = 0; i < kChunks; ++i) {
        const uint32_t address = query_chunk<C>(rows, row, first + i);
        const uint4 chunk = load_shared_16(address);
        store_shared_16(address, make_uint4(chunk.x ^ kSigns, chunk.y ^ kSigns, chunk.z ^ kSigns, chunk.w ^ kSigns));
    }
    async_proxy_fence();
}

// Multiplies rows of an e4m3 Q that are too long by 2^-n, in place; exact but for subnormals. Two lanes share a row, as
// above. Returns the exponents n of rows g and g + 8 of the warp's sixteen.
template <class C>
__device__ __forceinline__ void bound_query(uint32_t rows, int (&exponent)[2]) {
    constexpr int kChunks = C::kHeadDim / 32; // of 16 bytes, for one of the two lanes
    const int thread = thread_here() & 127, lane = thread & 31, row = thread / 2, first = lane % 2 * kChunks;
    // An exponent and a fraction of e4m3, moved seven bits up, are those of x / 256 in f16, two in a word: squares stay
    // below 3.1, so that no sum leaves the range, and near the limit what underflows does not count.
    constexpr uint32_t kMagnitudes = 0x3F803F80;
    uint32_t sums[4] = {};
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
        const uint4 chunk = load_shared_16(query_chunk<C>(rows, row, first + i));
        const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const uint32_t even = words[w] << 7 & kMagnitudes, odd = words[w] >> 1 & kMagnitudes;
            sums[w] = f16x2_fma(even, even, sums[w]);
            sums[w] = f16x2_fma(odd, odd, sums[w]);
        }
    }
    float squares = 0.0f;
#pragma unroll
    for (int w = 0; w < 4; ++w) squares += f16_low_to_f32(sums[w]) + f16_high_to_f32(sums[w]);
    squares += __shfl_xor_sync(~0u, squares, 1);
    constexpr float kLimit = kQueryBound * kQueryBound / C::kHeadDim / 65536.0f;
    // Least n with squares <= kLimit * 4^n. A NaN of e4m3 counts as 480, and stays NaN.
    const uint32_t ratio = __float_as_uint(squares / kLimit);
    const int octaves = static_cast<int>(ratio >> 23) - 127 + ((ratio & 0x7FFFFF) != 0 ? 1 : 0);
    const int n = squares > kLimit ? (octaves + 1) >> 1 : 0;
    if (__any_sync(~0u, n > 0)) {
        const uint32_t half = 0x3C00u - (n << 10), scale = half | half << 16;
#pragma unroll
        for (int i = 0; i < kChunks; ++i) {
            const uint32_t address = query_chunk<C>(rows, row, first + i);
            const uint4 chunk = load_shared_16(address);
            const auto scaled = [&](uint32_t word) {
                return f16x4_to_e4m3x4(f16x2_mul(e4m3_low_to_f16x2(word), scale),
                                       f16x2_mul(e4m3_high_to_f16x2(word), scale));
            };
            store_shared_16(address, make_uint4(scaled(chunk.x), scaled(chunk.y), scaled(chunk.z), scaled(chunk.w)));
        }
        async_proxy_fence();
    }
    exponent[0] = __shfl_sync(~0u, n, lane / 4 * 2);
    exponent[1] = __shfl_sync(~0u, n, lane / 4 * 2 + 16);
}

} // namespace qfuse::prefill
