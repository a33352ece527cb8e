// Owns: the end of a tile of work: sinks, normalisation, scales, one rounding, stores, log-sum-exp.
// Does not own: the accumulation (consume.cuh), the conversions (common/output.cuh).
// Read next: kernel.cuh.
//
// Stores to global memory are 16 bytes a lane, whole rows. With V^T the warpgroup's rows of the Q tile serve as staging
// memory, each warp using its own sixteen; 16-bit operands, whose Q is gone by then, exchange words between lanes.
#pragma once

#include <type_traits>

#include "kernels/cuda/common/output.cuh"
#include "schedule.cuh"
#include "scores_f16.cuh"

namespace qfuse::prefill {

// Token (from the tile's first) of a row of the tile.
__device__ __forceinline__ int row_token(const qf_prefill_params &p, int row) {
    return row * p.group_magic >> 16;
}

// Row of the warpgroup's 64 that the thread holds as its first (i = 0) or second (i = 1).
__device__ __forceinline__ int thread_row(uint32_t thread, int i) {
    return (thread >> 5 & 3) * 16 + (thread >> 2 & 7) + 8 * i;
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
__device__ __forceinline__ void apply_output_scale(const qf_prefill_params &p, float scale,
                                                   float (&o)[Chunks][Registers], float (&factor)[2]) {
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

// Of a warp's staging memory: sixteen rows of a panel's width, swizzled like the tile that lies there.
template <class C>
__device__ __forceinline__ uint32_t staging_chunk(uint32_t staging, int row, int chunk) {
    return staging + row * C::kPanelBytes +
           ((C::kPanelBytes == 128 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3)) << 4);
}

// Copies `Chunks` 16-byte chunks of the warp's sixteen staged rows to bytes `offset` .. of their rows in global memory.
template <class C, int Chunks, int ElementBytes>
__device__ __forceinline__ void copy_out(const qf_prefill_params &p, const Work &work, int consumer, uint32_t staging,
                                         int offset) {
    const int thread = static_cast<int>(thread_here()), lane = thread & 31, warp = thread >> 5 & 3;
    const int64_t outer = p.q_start != nullptr ? 0 : work.sequence;
    const int64_t first = outer * p.out_batch_stride + (work.row + work.first_token) * p.out_token_stride +
                          work.kv_head * p.group * p.out_head_stride;
    uint8_t *const base = static_cast<uint8_t *>(p.out) + first * ElementBytes + offset;
    const int tokens = min(p.tile_tokens, work.tokens - work.first_token);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Chunks / 2; ++i) {
        const int index = lane + 32 * i, local = index / Chunks, chunk = index % Chunks;
        const int row = 64 * consumer + 16 * warp + local, token = row_token(p, row), head = row - token * p.group;
        if (token < tokens) {
            const int64_t at = token * p.out_token_stride + head * p.out_head_stride;
            *reinterpret_cast<uint4 *>(base + at * ElementBytes + chunk * 16) =
                load_shared_16(staging_chunk<C>(staging, local, chunk));
        }
    }
    __syncwarp();
}

// A thread's elements of a group of sixteen: two rows, four neighbours each, since transpose.cuh gives the head dim an
// order (products 2G and 2G + 1 hold elements 16G + 4t + {0, 2} and {1, 3}).
__device__ __forceinline__ void group_of(const float *o, int i, float factor, float (&v)[4]) {
    const float a = o[2 * i] * factor, b = o[2 * i + 1] * factor, c = o[4 + 2 * i] * factor, d = o[5 + 2 * i] * factor;
    v[0] = a, v[3] = d;
    v[1] = c, v[2] = b;
}

__device__ __forceinline__ void store_shared_4(uint32_t address, uint32_t value) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Stages a group (of four elements, as group_of gives them) of a row of the warp's sixteen, in FP8.
template <class C>
__device__ __forceinline__ void stage_fp8(uint32_t staging, int t, int row, int group, uint32_t word) {
    store_shared_4(staging_chunk<C>(staging, row, group) + 4 * t, word);
}

// The same in 16-bit elements; `group` of those in this pass.
template <class C>
__device__ __forceinline__ void stage_16(uint32_t staging, int t, int row, int group, uint2 words) {
    const uint32_t to = staging_chunk<C>(staging, row, 2 * group + t / 2) + 8 * (t & 1);
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(words.x), "r"(words.y) : "memory");
}

// Four words of each lane of a quad, one of each of four pieces: afterwards lane t has piece t, the words of lanes 0
// to 3.
__device__ __forceinline__ uint4 gather_piece(int t, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const bool odd = (t & 1) != 0, upper = (t & 2) != 0;
    const uint32_t from_first = __shfl_xor_sync(~0u, odd ? a : b, 1),
                   from_second = __shfl_xor_sync(~0u, odd ? c : d, 1);
    if (odd)
        a = from_first, c = from_second;
    else
        b = from_first, d = from_second;
    const uint32_t low = __shfl_xor_sync(~0u, upper ? a : c, 2), high = __shfl_xor_sync(~0u, upper ? b : d, 2);
    return upper ? make_uint4(low, high, c, d) : make_uint4(a, b, low, high);
}

// Stores 64 rows of O, 16 bytes a lane, without staging: accumulators as 16-bit products leave them.
template <int Chunks, int Registers>
__device__ __forceinline__ void store_rows(const qf_prefill_params &p, const Work &work, int consumer, int t,
                                           const float (&o)[Chunks][Registers], const float (&factor)[2]) {
    const int64_t outer = p.q_start != nullptr ? 0 : work.sequence;
    const int64_t first = outer * p.out_batch_stride + (work.row + work.first_token) * p.out_token_stride +
                          work.kv_head * p.group * p.out_head_stride;
    const int tokens = min(p.tile_tokens, work.tokens - work.first_token);
    const bool narrow = p.out_dtype >= QF_PREFILL_E4M3;
    const auto columns = [&](int row, int at) {
        return make_float2(o[at / (Registers / 4)][at % (Registers / 4) * 4 + 2 * row] * factor[row],
                           o[at / (Registers / 4)][at % (Registers / 4) * 4 + 2 * row + 1] * factor[row]);
    };
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = 64 * consumer + thread_row(thread_here(), i), token = row_token(p, row);
        const int64_t at = first + token * p.out_token_stride + (row - token * p.group) * p.out_head_stride;
        const bool valid = token < tokens;
        if (!narrow) {
            uint8_t *const to = static_cast<uint8_t *>(p.out) + 2 * at + 16 * t;
            const auto word = [&](int block) {
                const float2 x = columns(i, block);
                return p.out_dtype == QF_PREFILL_BF16 ? f32_to_bf16x2(x.x, x.y) : f32_to_f16x2(x.x, x.y);
            };
#pragma unroll
            for (int block = 0; block < Chunks * Registers / 4; block += 4) {
                const uint4 piece = gather_piece(t, word(block), word(block + 1), word(block + 2), word(block + 3));
                if (valid) *reinterpret_cast<uint4 *>(to + 16 * block) = piece;
            }
        } else {
            uint8_t *const to = static_cast<uint8_t *>(p.out) + at + 16 * t;
            const auto word = [&](int block) {
                const float2 x = columns(i, block), y = columns(i, block + 1);
                const float v[4] = {x.x, x.y, y.x, y.y};
                return p.out_dtype == QF_PREFILL_E4M3 ? f32x4_to_fp8x4(v, kTypeE4m3) : f32x4_to_fp8x4(v, kTypeE5m2);
            };
#pragma unroll
            for (int block = 0; block < Chunks * Registers / 4; block += 8) {
                const uint4 w = gather_piece(t, word(block), word(block + 2), word(block + 4), word(block + 6));
                const uint4 piece = make_uint4(__byte_perm(w.x, w.y, 0x5410), __byte_perm(w.z, w.w, 0x5410),
                                               __byte_perm(w.x, w.y, 0x7632), __byte_perm(w.z, w.w, 0x7632));
                if (valid) *reinterpret_cast<uint4 *>(to + 8 * block) = piece;
            }
        }
    }
}

// Stores 64 rows of O.
template <class C, int Chunks, int Registers>
__device__ __forceinline__ void finish_rows(const qf_prefill_params &p, const Work &work, const Scales &scales,
                                            int consumer, uint32_t rows, float (&o)[Chunks][Registers],
                                            const float (&sum)[2], const float (&reference)[2]) {
    const int thread = static_cast<int>(thread_here()), lane = thread & 31, t = lane & 3;
    const uint32_t staging = rows + (thread >> 5 & 3) * 16 * C::kPanelBytes;
    const float v_scale = scales.v;
    const int64_t outer = p.q_start != nullptr ? 0 : work.sequence;
    float factor[2];
    if (p.sinks == nullptr && p.lse == nullptr) { // what end_row comes to
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            factor[i] = sum[i] == 0.0f ? (p.empty_is_nan ? NAN : 0.0f) : __frcp_rn(sum[i]) * v_scale;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = 64 * consumer + thread_row(thread, i), token = row_token(p, row),
                      head = row - token * p.group;
            const bool valid = token < p.tile_tokens && work.first_token + token < work.tokens;
            const int query_head = work.kv_head * p.group + (valid ? head : 0);
            const RowEnd end = end_row(p, query_head, v_scale, sum[i], reference[i]);
            factor[i] = end.factor;
            if (p.lse != nullptr && valid && t == 0) {
                p.lse[outer * p.lse_batch_stride + (work.row + work.first_token + token) * p.lse_token_stride +
                      query_head * p.lse_head_stride] = end.lse;
            }
        }
    }
    if constexpr (C::kDirect) {
        if (p.out_dtype >= QF_PREFILL_E4M3) apply_output_scale(p, scales.out, o, factor);
        store_rows(p, work, consumer, t, o, factor);
        return;
    }
    // All warps of the warpgroup have read their Q rows.
    named_barrier_sync(1 + consumer, 128);
    // In passes of at most a panel's width, of whole groups of 16 elements.
    constexpr int kGroups = Registers / 8;
    if (p.out_dtype >= QF_PREFILL_E4M3) {
        apply_output_scale(p, scales.out, o, factor);
        const auto stage = [&](int chunk, auto type) {
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float v[4];
                    group_of(o[chunk] + 8 * group, i, factor[i], v);
                    stage_fp8<C>(staging, t, lane / 4 + 8 * i, group, f32x4_to_fp8x4(v, type.value));
                }
            }
        };
#pragma unroll
        for (int chunk = 0; chunk < Chunks; ++chunk) {
            if (p.out_dtype == QF_PREFILL_E4M3)
                stage(chunk, std::integral_constant<int, kTypeE4m3>());
            else
                stage(chunk, std::integral_constant<int, kTypeE5m2>());
            copy_out<C, kGroups, 1>(p, work, consumer, staging, chunk * 16 * kGroups);
        }
        return;
    }
    constexpr int kPass = kGroups < C::kPanelBytes / 32 ? kGroups : C::kPanelBytes / 32;
#pragma unroll
    for (int first = 0; first < Chunks * kGroups; first += kPass) {
#pragma unroll
        for (int group = 0; group < kPass; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float v[4];
                group_of(o[first / kGroups] + 8 * (first % kGroups + group), i, factor[i], v);
                stage_16<C>(staging, t, lane / 4 + 8 * i, group, f32x4_to_16x4(v, p.out_dtype));
            }
        }
        copy_out<C, 2 * kPass, 2>(p, work, consumer, staging, first * 32);
    }
}

} // namespace qfuse::prefill
