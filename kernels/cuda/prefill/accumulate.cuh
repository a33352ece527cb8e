// Owns: what a warpgroup sums over the tiles of keys, O and the row sums, in one or in two levels.
// Does not own: P (scores_f16.cuh, scores_f32.cuh), the loop over tiles (consume.cuh).
// Read next: consume.cuh.
//
// Row sums come from a product of the rounded P with ones, or from additions of it, so numerator and denominator share
// P's rounding. Both forms have the same functions; `accumulate` takes the finished scores of a tile, and runs
// `meanwhile` beside its products.
#pragma once

#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/common/wgmma_16.cuh"
#include "shared.cuh"

namespace qfuse::prefill {

// Of V^T and of the ones, whose rows are keys.
using KeyDescriptor = MatrixDescriptor<Swizzle::k128Bytes>;

template <class C>
struct AccumulatorShape {
    static constexpr int kChunk = C::kHeadDim < 128 ? C::kHeadDim : 128; // head dim of one product P V
    static constexpr int kChunks = C::kHeadDim / kChunk;
};

// 8-bit operands: the adder truncates at about 14 bits, a bias that grows with the sum, so it never adds more than one
// tile of keys. T = P V in a fresh accumulator, in the registers of S, then O = O * factor + T.
template <class C>
struct TwoLevelAccumulator : AccumulatorShape<C> {
    using AccumulatorShape<C>::kChunk;
    using AccumulatorShape<C>::kChunks;
    using Values = KeyDescriptor;

    float o[kChunks][kChunk / 2];
    float sum[2];
    float reference[2];

    __device__ __forceinline__ static Values values_at(uint32_t address) {
        return Values::at(address);
    }
    __device__ __forceinline__ void clear(float no_reference) {
#pragma unroll
        for (int i = 0; i < 2; ++i) sum[i] = 0.0f, reference[i] = no_reference;
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
            for (int i = 0; i < kChunk / 2; ++i) o[chunk][i] = 0.0f;
        }
    }
    __device__ __forceinline__ void row_sums(float (&sums)[2]) const {
        sums[0] = sum[0], sums[1] = sum[1];
    }

    template <class Scores, class Meanwhile>
    __device__ __forceinline__ void accumulate(Scores &scores, Values v, KeyDescriptor ones, Meanwhile meanwhile) {
        float factor[2];
        uint32_t p[C::kWords];
        scores.raise(reference, factor);
        scores.template exponentials<0, C::kWords>(reference, p);
        accumulate_chunk<0>(p, factor, v, ones, meanwhile);
        if constexpr (kChunks > 1) accumulate_chunk<1>(p, factor, v, ones, [] {});
    }

  protected:
    // T = P V of as many elements of the head dim as T has.
    template <int Registers>
    __device__ __forceinline__ static void multiply(float (&t)[Registers], const uint32_t (&p)[C::kWords], Values v) {
        constexpr uint32_t kPanel = C::kHeadDim * 128 / 16;
        wgmma_e4m3<false>(t, p, v);
#pragma unroll
        for (int step = 1; step < C::kKeys / 32; ++step) {
            wgmma_e4m3<true>(t, p + 4 * step, v + step / 4 * kPanel + step % 4 * 2);
        }
    }
    __device__ __forceinline__ static void multiply_ones(float (&sums)[4], const uint32_t (&p)[C::kWords],
                                                         KeyDescriptor ones) {
        wgmma_e4m3<false>(sums, p, ones);
#pragma unroll
        for (int step = 1; step < C::kKeys / 32; ++step) wgmma_e4m3<true>(sums, p + 4 * step, ones);
    }
    __device__ __forceinline__ void add_sums(const float (&sums)[4], const float (&factor)[2]) {
        sum[0] = fmaf(sum[0], factor[0], sums[0]);
        sum[1] = fmaf(sum[1], factor[1], sums[2]);
    }

  private:
    // One chunk, and with the first one the row sums.
    template <int Chunk, class Meanwhile>
    __device__ __forceinline__ void accumulate_chunk(const uint32_t (&p)[C::kWords], const float (&factor)[2], Values v,
                                                     KeyDescriptor ones, Meanwhile meanwhile) {
        float t[kChunk / 2], sums[4];
        wgmma_fence();
        multiply(t, p, v + Chunk * (kChunk * 128 / 16));
        if (Chunk == 0) multiply_ones(sums, p, ones);
        wgmma_commit();
        meanwhile();
        wgmma_wait<0>();
        wgmma_pin(t);
        if (Chunk == 0) wgmma_pin(sums);
#pragma unroll
        for (int i = 0; i < kChunk / 2; ++i) o[Chunk][i] = fmaf(o[Chunk][i], factor[i >> 1 & 1], t[i]);
        if (Chunk == 0) add_sums(sums, factor);
    }
};

// The same for head dim 256 in quarters: while one is added to O the next one's product runs, in other registers.
template <class C>
struct QuarteredAccumulator : TwoLevelAccumulator<C> {
    using typename TwoLevelAccumulator<C>::Values;
    static constexpr int kQuarter = C::kHeadDim / 4;

    // `meanwhile` runs while the last product does; a branch in it keeps the additions before it there.
    template <class Scores, class Meanwhile>
    __device__ __forceinline__ void accumulate(Scores &scores, Values v, KeyDescriptor ones, Meanwhile meanwhile) {
        float factor[2];
        uint32_t p[C::kWords];
        scores.raise(this->reference, factor);
        scores.template exponentials<0, C::kWords>(this->reference, p);
        float even[kQuarter / 2], odd[kQuarter / 2], sums[4];
        start<0>(even, p, v, [&] { this->multiply_ones(sums, p, ones); });
        start<1>(odd, p, v, [] {});
        wgmma_wait<1>();
        wgmma_pin(sums);
        add<0>(even, factor);
        this->add_sums(sums, factor);
        start<2>(even, p, v, [] {});
        wgmma_wait<1>();
        add<1>(odd, factor);
        start<3>(odd, p, v, [] {});
        wgmma_wait<1>();
        add<2>(even, factor);
        meanwhile();
        wgmma_wait<0>();
        add<3>(odd, factor);
    }

  private:
    template <int Quarter, class Also>
    __device__ __forceinline__ void start(float (&t)[kQuarter / 2], const uint32_t (&p)[C::kWords], Values v,
                                          Also also) {
        wgmma_fence();
        this->multiply(t, p, v + Quarter * (kQuarter * 128 / 16));
        also();
        wgmma_commit();
    }
    template <int Quarter>
    __device__ __forceinline__ void add(float (&t)[kQuarter / 2], const float (&factor)[2]) {
        wgmma_pin(t);
#pragma unroll
        for (int i = 0; i < kQuarter / 2; ++i) {
            float &o = this->o[Quarter / 2][Quarter % 2 * (kQuarter / 2) + i];
            o = fmaf(o, factor[i >> 1 & 1], t[i]);
        }
    }
};

// 16-bit operands: the adder is that of f32, so products go straight into O. References are integers and seldom rise
// after the first tiles, so most tiles rescale nothing.
template <class C>
struct DirectAccumulator : AccumulatorShape<C> {
    using AccumulatorShape<C>::kChunk;
    using AccumulatorShape<C>::kChunks;
    using Values = RowsDescriptor;

    float o[kChunks][kChunk / 2];
    float sum[4]; // columns of ones: the first row's two, the second row's two; or sums of the thread's own columns
    float reference[2];

    __device__ __forceinline__ static Values values_at(uint32_t address) {
        return Values::at(address, C::kKeys * C::kPanelBytes);
    }
    __device__ __forceinline__ void clear(float no_reference) {
#pragma unroll
        for (int i = 0; i < 2; ++i) reference[i] = no_reference;
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] = 0.0f;
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
            for (int i = 0; i < kChunk / 2; ++i) o[chunk][i] = 0.0f;
        }
    }
    __device__ __forceinline__ void row_sums(float (&sums)[2]) const {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            sums[row] = sum[2 * row];
            if constexpr (C::kAddsSums) { // of the thread's columns
                sums[row] += __shfl_xor_sync(~0u, sums[row], 1);
                sums[row] += __shfl_xor_sync(~0u, sums[row], 2);
            }
        }
    }

    // In groups of P's columns, so that the product of one group runs beside the exponentials of the next.
    template <class Scores, class Meanwhile>
    __device__ __forceinline__ void accumulate(Scores &scores, Values v, KeyDescriptor ones, Meanwhile meanwhile) {
        float factor[2];
        scores.raise(reference, factor);
        rescale(factor);
        uint32_t p[C::kWords];
        add_groups<0>(scores, p, v, ones);
        meanwhile();
        wgmma_wait<0>();
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) wgmma_pin(o[chunk]);
        wgmma_pin(sum);
    }

    // The same in pieces, for a loop that starts the next scores before it waits for these products.
    template <class Scores>
    __device__ __forceinline__ void soften(Scores &scores, float (&factor)[2], uint32_t (&p)[C::kWords]) {
        scores.raise(reference, factor);
        scores.template exponentials<0, C::kWords>(reference, p);
        if constexpr (C::kAddsSums) {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                float tile = 0.0f;
#pragma unroll
                for (int i = row; i < C::kWords; i += 2) tile += low_of(p[i]) + high_of(p[i]);
                sum[2 * row] = fmaf(sum[2 * row], factor[row], tile);
            }
        }
    }
    __device__ __forceinline__ void start(const uint32_t (&p)[C::kWords], Values v, KeyDescriptor ones) {
        wgmma_fence();
        add_steps<0, C::kKeys / 16>(p, v, ones);
        wgmma_commit();
    }
    // Once they are complete.
    __device__ __forceinline__ void pin() {
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) wgmma_pin(o[chunk]);
        if constexpr (!C::kAddsSums) wgmma_pin(sum);
    }
    __device__ __forceinline__ void rescale(const float (&factor)[2]) {
        if (!__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) return;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (!C::kAddsSums) sum[i] *= factor[i >> 1];
        }
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
            for (int i = 0; i < kChunk / 2; ++i) o[chunk][i] *= factor[i >> 1 & 1];
        }
    }

  private:
    __device__ __forceinline__ static float low_of(uint32_t pair) {
        if constexpr (C::kBf16) return bf16_low_to_f32(pair);
        return f16_low_to_f32(pair);
    }
    __device__ __forceinline__ static float high_of(uint32_t pair) {
        if constexpr (C::kBf16) return bf16_high_to_f32(pair);
        return f16_high_to_f32(pair);
    }
    template <int First, int End>
    __device__ __forceinline__ void add_steps(const uint32_t (&p)[C::kWords], Values v, KeyDescriptor ones) {
        constexpr uint32_t kChunkUnits = kChunk / 64 * C::kKeys * 128 / 16, kStepUnits = 16 * 128 / 16;
#pragma unroll
        for (int step = First; step < End; ++step) {
#pragma unroll
            for (int chunk = 0; chunk < kChunks; ++chunk) {
                wgmma_16<C::kBf16, true>(o[chunk], p + 4 * step, v + chunk * kChunkUnits + step * kStepUnits);
            }
            if constexpr (!C::kAddsSums) wgmma_16<C::kBf16, true, true>(sum, p + 4 * step, ones);
        }
    }
    // Groups from step `First` (of 16 keys) on.
    template <int First, class Scores>
    __device__ __forceinline__ void add_groups(Scores &scores, uint32_t (&p)[C::kWords], Values v, KeyDescriptor ones) {
        constexpr int kSteps = C::kKeys / 16, kEnd = First + C::kGroupSteps < kSteps ? First + C::kGroupSteps : kSteps;
        scores.template exponentials<4 * First, 4 * kEnd>(reference, p);
        wgmma_fence();
        add_steps<First, kEnd>(p, v, ones);
        wgmma_commit();
        if constexpr (kEnd < kSteps) add_groups<kEnd>(scores, p, v, ones);
    }
};

} // namespace qfuse::prefill
