// Owns: what both general attention kernels share: the piece of work of a CTA, where its rows and keys lie, which keys
// a row sees, the ends of a row's softmax, storing results. Does not own: products and the softmax itself
// (attention_tensor.cu, attention_plain.cu). Read next: attention.h, docs/numerics.md.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/common/element.cuh"

namespace qfuse::attention {

using Params = qf_cuda_attention_params;
using Scale = qf_cuda_attention_scale;
using Steps = qf_cuda_attention_steps;

// Values of enumerated attributes (spec/enums.def).
enum { kNone = 0, kGraph = 1, kKernel = 2 };
enum { kDivide = 0, kMultiply = 1, kMultiplyReciprocal = 2 };

constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;
// P of p=kernel is exp2(s - m + 8) with m an integer.
constexpr float kKernelOffset = 8.0f;
constexpr float kInfinity = __builtin_huge_valf(), kLargest = 3.40282346638528859812e38f;
constexpr uint32_t kHiddenP = 0x80000000u; // -0: a key that counts for nothing, also where its value is NaN

__device__ __forceinline__ float not_a_number() {
    return __uint_as_float(0x7FC00000u);
}

// One number of a dtype that scales, sinks and biases may have.
__device__ __forceinline__ float load_real(int dtype, const void *data, int64_t index) {
    switch (dtype) {
    case QF_F32: return static_cast<const float *>(data)[index];
    case QF_F16: return decode_f16(static_cast<const uint16_t *>(data)[index]);
    case QF_BF16: return float_of(static_cast<uint32_t>(static_cast<const uint16_t *>(data)[index]) << 16);
    case QF_F64: return static_cast<float>(static_cast<const double *>(data)[index]);
    default: return decode_e8m0(static_cast<const uint8_t *>(data)[index]);
    }
}

__device__ __forceinline__ float read_scale(const Scale &scale, int kv_head) {
    return scale.data == nullptr ? 1.0f
                                 : load_real(scale.dtype, scale.data, static_cast<int64_t>(scale.stride) * kv_head);
}

// ------------------------------------------------------------------------------------------------------ pieces of work

// A tile of the rows of one KV head of one sequence: its query heads one after another, each with all rows.
struct Work {
    int64_t sequence, first_row; // first_row: of q
    int row_count, length;       // rows and keys of the sequence
    int tile, kv_head, chunk;    // chunk: of the value's elements
    bool any;
};

__device__ __forceinline__ int clamped_row(const Params &p, int64_t index) {
    const int64_t row = p.q_start[index];
    return static_cast<int>(row < 0 ? 0 : row > p.rows ? p.rows : row);
}

__device__ __forceinline__ int length_of(const Params &p, int64_t sequence) {
    if (p.kv_lens == nullptr) return p.keys;
    const int length = p.kv_lens[sequence];
    return length < 0 ? 0 : length > p.keys ? p.keys : length;
}

// Finds tile `tile` of a batch whose sequences lie one after another: segment 0 are the rows before the first sequence,
// segment sequences + 1 those after the last; both have no keys. Every warp for itself, all lanes with one result.
template <int ROWS>
__device__ __forceinline__ void find_packed(const Params &p, int64_t tile, Work &work) {
    const int lane = threadIdx.x & 31;
    const int64_t segments = p.sequences + 2;
    int64_t before = 0;
    work.any = false;
    for (int64_t base = 0; base < segments; base += 32) {
        const int64_t segment = base + lane;
        int begin = 0, end = 0;
        if (segment < segments) {
            begin = segment == 0 ? 0 : clamped_row(p, segment - 1);
            end = segment > p.sequences ? static_cast<int>(p.rows) : clamped_row(p, segment);
        }
        const bool orphans = segment == 0 || segment > p.sequences;
        const int rows = end - begin >= (orphans ? 1 : max(p.least_rows, 1)) ? end - begin : 0;
        const int tiles = (rows * p.group + ROWS - 1) / ROWS;
        int64_t last = tiles; // tiles of this and all segments before, from `before` on
        for (int step = 1; step < 32; step <<= 1) {
            const int64_t other = __shfl_up_sync(~0u, last, step);
            if (lane >= step) last += other;
        }
        const unsigned found = __ballot_sync(~0u, before + last > tile);
        if (found) {
            const int source = __ffs(static_cast<int>(found)) - 1;
            const int64_t chosen = base + source;
            const int64_t first = before + __shfl_sync(~0u, last, source) - __shfl_sync(~0u, tiles, source);
            work.first_row = __shfl_sync(~0u, begin, source);
            work.row_count = __shfl_sync(~0u, rows, source);
            work.tile = static_cast<int>(tile - first);
            const bool orphan = chosen == 0 || chosen > p.sequences;
            work.sequence = orphan ? 0 : chosen - 1;
            work.length = orphan ? 0 : length_of(p, work.sequence);
            work.any = true;
            return;
        }
        before += __shfl_sync(~0u, last, 31);
    }
}

// Piece `index` of p.work. Later tiles first: under causal they are the longest.
template <int ROWS>
__device__ __forceinline__ Work find_work(const Params &p, int64_t index) {
    Work work = {};
    const int64_t tile = p.tiles - 1 - index % p.tiles;
    int64_t rest = index / p.tiles;
    work.chunk = static_cast<int>(rest % p.chunks);
    rest /= p.chunks;
    work.kv_head = static_cast<int>(rest % p.kv_heads);
    if (p.q_start != nullptr) {
        find_packed<ROWS>(p, tile, work);
        return work;
    }
    work.sequence = rest / p.kv_heads;
    work.first_row = p.packed ? work.sequence : 0;
    work.row_count = p.packed ? 1 : static_cast<int>(p.rows);
    work.length = length_of(p, work.sequence);
    work.tile = static_cast<int>(tile);
    work.any = true;
    return work;
}

// --------------------------------------------------------------------------------------------------------- rows of it

// In shared memory: where the rows of a tile lie, and the keys [first, last) that causal, windows and lengths leave
// them. Rows past the end have head -1 and no keys. Offsets count elements; bias and mask: -1 where they have no row.
template <int ROWS>
struct Rows {
    int64_t q[ROWS], out[ROWS], lse[ROWS], bias[ROWS], mask[ROWS];
    int head[ROWS], first[ROWS], last[ROWS];
    int begin, end;           // keys that any row sees
    int full_begin, full_end; // keys that all rows see
};

__device__ __forceinline__ int64_t clamped_sum(int64_t position, int64_t distance) {
    const int64_t far = static_cast<int64_t>(1) << 60;
    return position + (distance > far ? far : distance);
}

__device__ __forceinline__ void visible_range(const Params &p, const Work &work, int t, int &out_first, int &out_last) {
    const int64_t position = p.bottom_right ? static_cast<int64_t>(t) + work.length - work.row_count : t;
    int64_t first = 0, last = work.length;
    if (p.causal) last = min(last, position + 1);
    if (p.window_right >= 0) last = min(last, clamped_sum(position, p.window_right) + 1);
    if (p.window_left >= 0) first = max(first, -clamped_sum(-position, p.window_left));
    out_first = last > first ? static_cast<int>(first) : 0;
    out_last = last > first ? static_cast<int>(last) : 0;
}

__device__ __forceinline__ int64_t offset_of(const Steps &steps, int64_t sequence, int64_t head, int64_t row) {
    return sequence * steps.sequence + head * steps.head + row * steps.row;
}

// Whole CTA; ends with a barrier.
template <int ROWS>
__device__ __forceinline__ void describe_rows(const Params &p, const Work &work, Rows<ROWS> &rows) {
    if (threadIdx.x == 0) rows.begin = rows.full_end = INT_MAX, rows.end = rows.full_begin = 0;
    __syncthreads();
    const int r = threadIdx.x;
    if (r < ROWS) {
        const int64_t index = static_cast<int64_t>(work.tile) * ROWS + r;
        rows.head[r] = -1, rows.q[r] = -1, rows.first[r] = rows.last[r] = 0;
        if (index < static_cast<int64_t>(work.row_count) * p.group) {
            const int head = work.kv_head * p.group + static_cast<int>(index / work.row_count);
            const int t = static_cast<int>(index % work.row_count);
            rows.head[r] = head;
            visible_range(p, work, t, rows.first[r], rows.last[r]);
            rows.q[r] = offset_of(p.q_steps, work.sequence, head, work.first_row + t);
            rows.out[r] = offset_of(p.out_steps, work.sequence, head, work.first_row + t);
            rows.lse[r] = offset_of(p.lse_steps, work.sequence, head, work.first_row + t);
            rows.bias[r] = t < p.bias_rows ? offset_of(p.bias_steps, work.sequence, head, t) : -1;
            rows.mask[r] = t < p.mask_rows ? offset_of(p.mask_steps, work.sequence, head, t) : -1;
            if (rows.first[r] < rows.last[r]) {
                atomicMin(&rows.begin, rows.first[r]);
                atomicMax(&rows.end, rows.last[r]);
            }
            atomicMax(&rows.full_begin, rows.first[r]);
            atomicMin(&rows.full_end, rows.last[r]);
        }
    }
    __syncthreads();
}

// --------------------------------------------------------------------------------------------------------------- keys

// Element offset of a key in k or v; -1: it reads as zero (past the length, or in a page that does not exist).
__device__ __forceinline__ int64_t key_offset(const Params &p, const Steps &steps, const Work &work, int key) {
    if (key >= work.length) return -1;
    if (p.block_table == nullptr) return offset_of(steps, work.sequence, work.kv_head, 0) + key * steps.key;
    const int64_t page = p.block_table[work.sequence * p.table_width + key / p.page];
    if (page < 0 || page >= p.pages) return -1;
    return offset_of(steps, page, work.kv_head, 0) + static_cast<int64_t>(key % p.page) * steps.key;
}

// A scaled product with the soft cap; errs by the cap's last places only.
__device__ __forceinline__ float soft_capped(float score, float softcap) {
    const float exponent = score * (2.0f * kLog2E / softcap);
    const float power = exp2f(exponent > 126.0f ? 126.0f : exponent); // NaN stays
    return softcap * (1.0f - __fdividef(2.0f, power + 1.0f));
}

// Adds the bias to a score, and says whether the row does not see the key. Range, bias and mask hide keys.
template <int ROWS>
__device__ __forceinline__ float biased(const Params &p, const Rows<ROWS> &rows, int r, int key, float score,
                                        bool &hidden) {
    hidden = key < rows.first[r] || key >= rows.last[r];
    if (hidden) return score;
    if (p.bias != nullptr && rows.bias[r] >= 0) {
        const float bias = load_real(p.bias_dtype, p.bias, rows.bias[r] + key * p.bias_steps.key);
        score += bias;
        hidden = bias == -kInfinity;
    }
    if (p.mask != nullptr)
        hidden = hidden || rows.mask[r] < 0 ||
                 static_cast<const uint8_t *>(p.mask)[rows.mask[r] + key * p.mask_steps.key] == 0;
    return score;
}

// ------------------------------------------------------------------------------------------------------------ softmax

// A row's reference, and its sum of P in units of the reference and the offset. p=none and p=graph: natural logarithm,
// the largest score. p=kernel: log2, the largest score rounded up to an integer.
struct Softmax {
    float reference = -kInfinity, sum = 0.0f;
    bool any = false; // there is a key
};

// Scores in the log2 domain; finite ones stay finite, so that a finite bias never masks.
__device__ __forceinline__ float log2_score(float score) {
    const float scaled = __fmul_rn(score, kLog2E);
    return fabsf(score) <= kLargest ? fminf(fmaxf(scaled, -kLargest), kLargest) : scaled;
}

// Unnormalised P of p=none and of sums; a reference of -infinity is to be replaced by 0.
__device__ __forceinline__ float natural_p(float score, float reference, float offset) {
    return exp2f(fmaf(score - reference, kLog2E, offset));
}

// Exponent of P of p=kernel.
__device__ __forceinline__ float kernel_exponent(float score, float reference) {
    return __fadd_rn(__fsub_rn(log2_score(score), reference), kKernelOffset);
}

// Rounding to an FP8 type, saturating, without leaving f32: the same numbers as round_f32, without its switch.
struct Rounding {
    uint32_t shift, least; // mantissa bits of f32 that fall away; bits of the smallest normal number
    float unit, largest;   // adding `unit` rounds a subnormal number to the smallest code

    __device__ __forceinline__ explicit Rounding(int dtype) {
        const bool e4m3 = dtype == QF_F8E4M3FN || dtype == QF_F8E4M3FNUZ;
        const bool fnuz = dtype == QF_F8E4M3FNUZ || dtype == QF_F8E5M2FNUZ;
        const int least_exponent = (e4m3 ? -6 : -14) - fnuz;
        shift = e4m3 ? 20 : 21;
        least = static_cast<uint32_t>(least_exponent + 127) << 23;
        unit = float_of(static_cast<uint32_t>(least_exponent + static_cast<int>(shift) + 127) << 23);
        largest = e4m3 ? (fnuz ? 240.0f : 448.0f) : 57344.0f;
    }

    __device__ __forceinline__ float operator()(float number) const {
        const uint32_t bits = bits_of(number), magnitude = bits & 0x7FFFFFFFu;
        const uint32_t normal = (magnitude + ((1u << shift) >> 1) - 1 + (magnitude >> shift & 1)) >> shift << shift;
        const float tiny = __fsub_rn(__fadd_rn(float_of(magnitude), unit), unit);
        const float rounded = fminf(magnitude < least ? tiny : float_of(normal), largest);
        return magnitude > 0x7F800000u ? number : float_of(bits_of(rounded) | (bits & 0x80000000u));
    }
};

__device__ __forceinline__ float read_sink(const Params &p, int head) {
    return p.sinks == nullptr ? -kInfinity : load_real(p.sinks_dtype, p.sinks, head);
}

// What turns a row's accumulated P V into the result: result = sum * factor / divisor.
struct RowEnd {
    float factor, divisor, lse;
    bool empty;

    __device__ __forceinline__ float value(const Params &p, float sum, float v_scale) const {
        if (empty) return p.empty_is_nan ? not_a_number() : 0.0f;
        return __fdiv_rn(sum * factor, divisor) * v_scale;
    }
};

// p=none and p=graph. Lets the sink join; `offset` as the sums were made with.
__device__ __forceinline__ RowEnd end_natural(const Softmax &row, float sink, float offset) {
    RowEnd end = {1.0f, row.sum, 0.0f, false};
    float reference = row.reference;
    if (sink > reference || is_nan(sink)) {
        reference = sink;
        end.factor = exp2f((row.reference - sink) * kLog2E);
        end.divisor = row.sum * end.factor;
    }
    if (sink != -kInfinity) end.divisor += exp2f(fmaf(sink - reference, kLog2E, offset));
    end.lse = reference == -kInfinity ? not_a_number() : reference + logf(end.divisor) - offset * kLn2;
    return end;
}

// p=kernel: the sink does not move the reference.
__device__ __forceinline__ RowEnd end_kernel(const Softmax &row, float sink) {
    RowEnd end = {1.0f, row.sum, (row.reference - kKernelOffset) * kLn2 + logf(row.sum), false};
    if (sink != -kInfinity) {
        end.divisor += exp2f(fmaf(sink, kLog2E, kKernelOffset - row.reference));
        const float most = fmaxf(end.lse, sink);
        end.lse = most + logf(expf(end.lse - most) + expf(sink - most));
    }
    return end;
}

// `p_scale` and `offset` as P V was made with; a row without keys has the sink as its lse.
__device__ __forceinline__ RowEnd end_row(const Params &p, const Softmax &row, float sink, float offset,
                                          float p_scale) {
    if (!row.any) return {1.0f, 1.0f, sink, true};
    RowEnd end = p.p_mode == kKernel ? end_kernel(row, sink) : end_natural(row, sink, offset);
    if (p.p_mode == kGraph) end.factor = p_scale, end.divisor = 1.0f;
    return end;
}

// ------------------------------------------------------------------------------------------------------------- results

struct Output {
    float scale; // of a quantised result
};

__device__ __forceinline__ Output read_output(const Params &p) {
    return {p.quantises ? read_scale(p.out_scale, 0) : 1.0f};
}

// As kernels/cpu/quantise.c: rounded to `via`, quantised in out_compute, saturated.
__device__ __forceinline__ void store_result(const Params &p, const Output &output, int64_t index, float value) {
    if (p.quantises) {
        if (p.via != QF_DTYPE_NONE) value = round_f32(p.via, value, false);
        const float a = round_f32(p.out_compute, value, false);
        float b = p.out_mode == kMultiplyReciprocal ? __frcp_rn(output.scale) : output.scale;
        b = round_f32(p.out_compute, b, false);
        value = round_f32(p.out_compute, p.out_mode == kDivide ? __fdiv_rn(a, b) : __fmul_rn(a, b), false);
    }
    store_f32(p.out_dtype, p.out, index, value, true);
}

} // namespace qfuse::attention
