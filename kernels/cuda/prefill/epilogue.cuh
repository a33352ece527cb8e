// Owns: the end of a tile of work: sinks, normalisation, scales, one rounding, stores, log-sum-exp.
// Does not own: the accumulation (consume.cuh), the conversions (common/output.cuh).
// Read next: kernel.cuh.
//
// The warpgroup's rows of the Q tile serve as staging memory, so that stores to global memory are whole rows of 16
// bytes a lane; each warp uses its own sixteen rows.
#pragma once

#include "kernels/cuda/common/output.cuh"
#include "schedule.cuh"
#include "scores_f16.cuh"

namespace qfuse::prefill {

// Token (from the tile's first) of a row of the tile.
__device__ __forceinline__ int row_token(const qf_prefill_params &p, int row) {
    return row * p.group_magic >> 16;
}

// Row of the warpgroup's 64 that the thread holds as its first (i = 0) or second (i = 1).
__device__ __forceinline__ int thread_row(int i) {
    return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7) + 8 * i;
}

// What the rows of a thread are multiplied by, and their log-sum-exp.
struct RowEnd {
    float factor; // of O
    float lse;
};

__device__ __forceinline__ RowEnd end_row(const qf_prefill_params &p, int head, float v_scale, float sum,
                                          float reference) {
    RowEnd end;
    const float sink = p.sinks != nullptr ? p.sinks[head] : -INFINITY;
    if (sum == 0.0f) { // no key: P of a row's largest score is at least 128
        end.factor = p.empty_is_nan ? NAN : 0.0f;
        end.lse = sink;
        return end;
    }
    const float largest = fmaxf(reference - kOffset, sink * kLog2E);
    const float own = exp2_approximate(reference - kOffset - largest); // of a unit of `sum`
    const float total = sum * own + exp2_approximate(sink * kLog2E - largest);
    end.factor = own / total * v_scale;
    end.lse = (largest + log2f(total)) * kLn2;
    return end;
}

// What a row of O is multiplied by just before the conversion. With `via` O is first rounded and scaled in place.
template <int Chunks, int Registers>
__device__ __forceinline__ void apply_output_scale(const qf_prefill_params &p, const Work &work,
                                                   float (&o)[Chunks][Registers], float (&factor)[2]) {
    const float scale = p.out_scale != nullptr ? p.out_scale[work.kv_head * p.out_scale_stride] : 1.0f;
    if (p.via == QF_PREFILL_NONE) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            factor[i] = p.out_mode == QF_PREFILL_MUL   ? factor[i] * scale
                        : p.out_mode == QF_PREFILL_DIV ? factor[i] / scale
                                                       : factor[i] * __frcp_rn(scale);
        }
        return;
    }
    const float reciprocal = __frcp_rn(scale);
    const auto each = [&](auto change) {
#pragma unroll
        for (int chunk = 0; chunk < Chunks; ++chunk) {
#pragma unroll
            for (int i = 0; i < Registers; ++i) o[chunk][i] = change(o[chunk][i], factor[i >> 1 & 1]);
        }
    };
    if (p.via == QF_PREFILL_BF16)
        each([](float x, float f) { return round_via(x * f, kTypeBf16); });
    else
        each([](float x, float f) { return round_via(x * f, kTypeF16); });
    if (p.out_mode == QF_PREFILL_DIV)
        each([&](float x, float) { return divide(x, scale, reciprocal); });
    else
        each([&](float x, float) { return x * (p.out_mode == QF_PREFILL_MUL ? scale : reciprocal); });
    factor[0] = factor[1] = 1.0f;
}

// The staging memory of a warp: sixteen rows of a panel's width, swizzled like the tile that lies there.
template <class C>
__device__ __forceinline__ uint32_t staging_chunk(uint32_t rows, int row, int chunk) {
    return rows + ((threadIdx.x >> 5 & 3) * 16 + row) * C::kPanelBytes +
           ((C::kPanelBytes == 128 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3)) << 4);
}

// Copies the warp's sixteen staged rows to bytes `offset` .. of their rows in global memory.
template <class C>
__device__ __forceinline__ void copy_out(const qf_prefill_params &p, const Work &work, int consumer, uint32_t rows,
                                         int element_bytes, int offset) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const int64_t outer = p.q_start != nullptr ? 0 : work.sequence;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < C::kPanelChunks / 2; ++i) {
        const int index = lane + 32 * i, local = index / C::kPanelChunks, chunk = index % C::kPanelChunks;
        const int row = 64 * consumer + 16 * warp + local, token = row_token(p, row), head = row - token * p.group;
        if (token < p.tile_tokens && work.first_token + token < work.tokens) {
            const int64_t at = outer * p.out_batch_stride + (work.row + work.first_token + token) * p.out_token_stride +
                               (work.kv_head * p.group + head) * p.out_head_stride;
            uint8_t *to = static_cast<uint8_t *>(p.out) + at * element_bytes + offset + chunk * 16;
            *reinterpret_cast<uint4 *>(to) = load_shared_16(staging_chunk<C>(rows, local, chunk));
        }
    }
    __syncwarp();
}

// Stores 64 rows; o[chunk][4j], .. + 1 of row g and + 2, + 3 of row g + 8, in the order that transpose.cuh gives the
// head dim: products 2G and 2G + 1 hold elements 16G + 4t + {0, 2} and {1, 3}.
template <class C, int Chunks, int Registers>
__device__ __forceinline__ void finish_rows(const qf_prefill_params &p, const Work &work, int consumer, uint32_t rows,
                                            float (&o)[Chunks][Registers], const float (&sum)[2],
                                            const float (&reference)[2]) {
    const int lane = threadIdx.x & 31, t = lane & 3;
    const float v_scale = p.v_scale != nullptr ? p.v_scale[work.kv_head * p.v_scale_stride] : 1.0f;
    const int64_t outer = p.q_start != nullptr ? 0 : work.sequence;
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = 64 * consumer + thread_row(i), token = row_token(p, row), head = row - token * p.group;
        const bool valid = token < p.tile_tokens && work.first_token + token < work.tokens;
        const int query_head = work.kv_head * p.group + (valid ? head : 0);
        const RowEnd end = end_row(p, query_head, v_scale, sum[i], reference[i]);
        factor[i] = end.factor;
        if (p.lse != nullptr && valid && t == 0) {
            p.lse[outer * p.lse_batch_stride + (work.row + work.first_token + token) * p.lse_token_stride +
                  query_head * p.lse_head_stride] = end.lse;
        }
    }
    // Four neighbouring elements of row g + 8i.
    const auto value = [&](int chunk, int group, int i, float(&v)[4]) {
        v[0] = o[chunk][8 * group + 2 * i] * factor[i], v[2] = o[chunk][8 * group + 2 * i + 1] * factor[i];
        v[1] = o[chunk][8 * group + 4 + 2 * i] * factor[i], v[3] = o[chunk][8 * group + 4 + 2 * i + 1] * factor[i];
    };
    // All warps of the warpgroup have read their Q rows.
    named_barrier_sync(1 + consumer, 128);
    constexpr int kGroups = Registers / 8; // of 16 elements in a chunk
    if (p.out_dtype >= QF_PREFILL_E4M3) {
        apply_output_scale(p, work, o, factor);
#pragma unroll
        for (int chunk = 0; chunk < Chunks; ++chunk) {
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float v[4];
                    value(chunk, group, i, v);
                    const uint32_t to = staging_chunk<C>(rows, lane / 4 + 8 * i, group) + 4 * t;
                    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(f32x4_to_fp8x4(v, p.out_dtype)) : "memory");
                }
            }
            copy_out<C>(p, work, consumer, rows, 1, chunk * C::kPanelBytes);
        }
        return;
    }
#pragma unroll
    for (int pass = 0; pass < 2 * Chunks; ++pass) {
#pragma unroll
        for (int group = 0; group < kGroups / 2; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float v[4];
                value(pass / 2, pass % 2 * (kGroups / 2) + group, i, v);
                const uint2 words = f32x4_to_16x4(v, p.out_dtype);
                const uint32_t to = staging_chunk<C>(rows, lane / 4 + 8 * i, 2 * group + t / 2) + 8 * (t & 1);
                asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(words.x), "r"(words.y) : "memory");
            }
        }
        copy_out<C>(p, work, consumer, rows, 2, pass * C::kPanelBytes);
    }
}

} // namespace qfuse::prefill
