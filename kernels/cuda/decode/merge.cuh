// Owns: what happens at the end of a segment: the merge of a team's warps, of the CTAs that share a unit, and the
// output (scales, rounding, stores, log-sum-exp).
// Does not own: the accumulation itself (kernel.cuh) and the division of work (work.cuh).
// Read next: select.h.
//
// A partial result is (reference, sum, O) by row, all with the factor 2^kOffset: merging takes the largest reference M
// and adds with the factors 2^(reference - M), exact powers of two. Partials are added in list order, whichever CTA
// happens to come last, so results do not depend on timing.
//
// CTAs that share a unit hand over through tickets: each stores its partial, fences, and increments; the one that
// finds the count complete merges. The increment wraps to zero by itself, so tickets need no reset between launches.
// Above kFlatMerge shares a unit is merged in two levels, in groups of about the square root.
#pragma once

#include <cstdint>

#include "config.h"
#include "kernels/cuda/common/barrier.cuh"
#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/convert.cuh"
#include "params.h"
#include "work.cuh"

namespace qfuse::decode {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
// P = 2^(score - reference + kOffset): keeps a flat tail of f16 exponentials far from the subnormal range.
constexpr float kOffset = 4.0f;
// "No key yet", finite so that differences stay numbers.
constexpr float kNoReference = -1e30f;
constexpr int kFlatMerge = 32; // one share a lane

// A warp's scratch in shared memory.
struct Scratch {
    float *base;
    int rows;
    int pitch;

    __device__ __forceinline__ float &output(int row, int d) const {
        return base[row * pitch + d];
    }
    __device__ __forceinline__ float &reference(int row) const {
        return base[rows * pitch + row];
    }
    __device__ __forceinline__ float &sum(int row) const {
        return base[rows * pitch + rows + row];
    }
};

// Dynamic shared memory: rings of all warps, scratch of all warps, sequences.
template <class C>
struct SharedLayout {
    Sequences sequences;
    float *scratch_base;
    int rows; // of a unit
    int scratch_floats;
    int partial_floats;
    uint32_t *flags; // two words a warp

    __device__ __forceinline__ SharedLayout(uint8_t *shared, const qf_decode_params &p) {
        rows = qf_decode_unit_rows(p.rows, C::kRowTiles);
        scratch_floats = qf_decode_scratch_floats(rows, C::kHeadDim);
        partial_floats = qf_decode_partial_floats(rows, C::kHeadDim);
        scratch_base = reinterpret_cast<float *>(shared + C::kWarps * p.stages * C::kStageBytes);
        flags = reinterpret_cast<uint32_t *>(scratch_base + C::kWarps * scratch_floats);
        int *words = reinterpret_cast<int *>(flags + 2 * C::kWarps);
        sequences.prefix = words;
        sequences.length = words + p.batch + 1;
        sequences.first_tile = words + 2 * (p.batch + 1);
    }

    __device__ __forceinline__ Scratch scratch(int warp) const {
        return {scratch_base + warp * scratch_floats, rows, qf_decode_scratch_pitch(C::kHeadDim)};
    }
};

// One partial result in the workspace.
struct Partial {
    float *base;
    int rows;
    int head_dim;

    __device__ __forceinline__ float *output(int row, int d) const {
        return base + row * head_dim + d;
    }
    __device__ __forceinline__ float *reference(int row) const {
        return base + rows * head_dim + row;
    }
    __device__ __forceinline__ float *sum(int row) const {
        return base + rows * head_dim + rows + row;
    }
};

// Workspace slots: CTA c stores its first segment in slot 2c and a last segment that goes on in CTA c + 1 in 2c + 1;
// group results of a two-level merge follow after 2 * grid slots, at the slot of the group's first share.
template <class C>
__device__ __forceinline__ Partial partial_at(const qf_decode_params &p, const SharedLayout<C> &layout, int slot,
                                              int head_of_bundle) {
    // At most 2^31 floats, so 32-bit arithmetic is enough.
    const unsigned index = slot * C::kWarps + head_of_bundle;
    return {p.partials + index * static_cast<unsigned>(layout.partial_floats), layout.rows, C::kHeadDim};
}

__device__ __forceinline__ float round_via(float x, int via) {
    if (via == QF_DECODE_BF16) return bf16_low_to_f32(f32_to_bf16x2(x, 0.0f));
    if (via == QF_DECODE_F16) return f16_low_to_f32(f32_to_f16x2(x, 0.0f));
    return x;
}

// x / y rounded correctly: a reciprocal, one product and its corrected residual, which need not be finite where the
// product overflows.
__device__ __forceinline__ float divide(float x, float y, float reciprocal_of_y) {
    const float quotient = x * reciprocal_of_y;
    const float corrected = fmaf(fmaf(-quotient, y, x), reciprocal_of_y, quotient);
    return fabsf(quotient) < 1e30f ? corrected : quotient;
}

// x / scale, x * scale or x * (1 / scale), as the mode says.
__device__ __forceinline__ float apply_out_scale(float x, float scale, float reciprocal, int mode) {
    if (mode == QF_DECODE_MUL) return x * scale;
    return mode == QF_DECODE_MUL_RECIPROCAL ? x * reciprocal : divide(x, scale, reciprocal);
}

// Stores four consecutive elements in the output's type.
__device__ __forceinline__ void store_output(const qf_decode_params &p, int64_t index, float scale, float4 x) {
    float v[4] = {x.x, x.y, x.z, x.w};
    if (p.out_dtype <= QF_DECODE_F16) {
        const bool f16 = p.out_dtype == QF_DECODE_F16;
        const uint2 words = make_uint2(f16 ? f32_to_f16x2(v[0], v[1]) : f32_to_bf16x2(v[0], v[1]),
                                       f16 ? f32_to_f16x2(v[2], v[3]) : f32_to_bf16x2(v[2], v[3]));
        *reinterpret_cast<uint2 *>(static_cast<uint16_t *>(p.out) + index) = words;
        return;
    }
    if (p.via != QF_DECODE_NONE) {
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = round_via(v[i], p.via);
    }
    const float reciprocal = __frcp_rn(scale);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = apply_out_scale(v[i], scale, reciprocal, p.out_mode);
    const bool e4m3 = p.out_dtype == QF_DECODE_E4M3;
    const uint32_t low = e4m3 ? f32_to_e4m3x2(v[0], v[1]) : f32_to_e5m2x2(v[0], v[1]);
    const uint32_t high = e4m3 ? f32_to_e4m3x2(v[2], v[3]) : f32_to_e5m2x2(v[2], v[3]);
    *reinterpret_cast<uint32_t *>(static_cast<uint8_t *>(p.out) + index) = low | high << 16;
}

// What the output of a unit is multiplied by; loaded early, with the query.
struct OutputScales {
    float v, out;
};

__device__ __forceinline__ OutputScales load_output_scales(const qf_decode_params &p, int kv_head) {
    return {p.v_scale != nullptr ? p.v_scale[kv_head * p.v_scale_stride] : 1.0f,
            p.out_scale != nullptr ? p.out_scale[kv_head * p.out_scale_stride] : 1.0f};
}

// The complete result of four elements of a row: sink, normalisation, scales, one rounding.
__device__ __forceinline__ void finish_row(const qf_decode_params &p, const Unit &unit, const Sequence &sequence,
                                           const OutputScales &scales, int row, int d, float reference, float sum,
                                           float4 o) {
    const int token = token_of(p, unit.first_row + row);
    const int head = unit.kv_head * p.group + unit.first_row + row - token * p.group;
    if (token >= sequence.tokens) return;
    if (p.sinks != nullptr) {
        const float sink = p.sinks[head] * kLog2E, larger = fmaxf(reference, sink);
        const float factor = exp2_approximate(reference - larger);
        sum = sum * factor + exp2_approximate(sink - larger + kOffset);
        o.x *= factor, o.y *= factor, o.z *= factor, o.w *= factor;
        reference = larger;
    }
    // No visible key: zeros.
    const float reciprocal = sum == 0.0f ? 0.0f : __frcp_rn(sum);
    o.x = divide(o.x, sum, reciprocal) * scales.v, o.y = divide(o.y, sum, reciprocal) * scales.v;
    o.z = divide(o.z, sum, reciprocal) * scales.v, o.w = divide(o.w, sum, reciprocal) * scales.v;
    const int64_t out_row = sequence.first_token + token;
    store_output(p, out_row * p.out_token_stride + head * p.out_head_stride + d, scales.out, o);
#ifdef QF_DECODE_STAMPS
    return; // `lse` holds the stamps
#endif
    if (p.lse != nullptr && d == 0) {
        const float lse = sum == 0.0f ? -INFINITY : (reference - kOffset + log2f(sum)) * kLn2;
        p.lse[out_row * (p.kv_heads * p.group) + head] = lse;
    }
}

__device__ __forceinline__ void store_partial(const Partial &partial, int row, int d, float reference, float sum,
                                              float4 o) {
    __stcg(reinterpret_cast<float4 *>(partial.output(row, d)), o);
    if (d == 0) {
        __stcg(partial.reference(row), reference);
        __stcg(partial.sum(row), sum);
    }
}

__device__ __forceinline__ void add_scaled(float4 &o, float factor, float4 v) {
    o.x = fmaf(factor, v.x, o.x), o.y = fmaf(factor, v.y, o.y);
    o.z = fmaf(factor, v.z, o.z), o.w = fmaf(factor, v.w, o.w);
}

// The shares of one unit: CTA first + i holds share i.
struct Shares {
    int first; // CTA
    int count;

    // Slot (and ticket) of share i: the first share is its CTA's last segment, the others are their CTAs' first.
    __device__ __forceinline__ int slot(int i) const {
        return 2 * (first + i) + (i == 0);
    }
};

// Merges the partials of `count` (at most 32) shares, start, start + step, ..., and hands each row's sum to
// `emit(row, d, reference, sum, o)`. Whole team. `slot_base` selects share results or group results. Row by row and
// panel by panel of 128 elements; the warps of the team divide first the panels, then the shares.
template <class C, class Emit>
__device__ __forceinline__ void merge_shares(const qf_decode_params &p, const Team &team, const SharedLayout<C> &layout,
                                             const Shares &shares, int start, int step, int count, int slot_base,
                                             Emit emit) {
    constexpr int kVectors = C::kHeadDim / 4 < 32 ? C::kHeadDim / 4 : 32; // float4 of a panel
    constexpr int kPanels = C::kHeadDim / 4 / kVectors;
    constexpr int kAhead = 16;
    const int lane = threadIdx.x & 31;
    const int tasks = layout.rows * kPanels;
    int split_shift = 0; // 2^split_shift warps divide a task's shares
    while ((2 << split_shift) * tasks <= team.warps) ++split_shift;
    const int split = 1 << split_shift, workers = team.warps >> split_shift; // tasks at a time
    const int part = team.warp & (split - 1);
#pragma unroll 1
    for (int base = 0; base < tasks; base += workers) {
        const int task = base + (team.warp >> split_shift);
        const bool busy = task < tasks;
        const int row = task / kPanels, d = (task % kPanels * kVectors + lane % kVectors) * 4;
        float reference = kNoReference, sum = 0.0f, largest = kNoReference, factor = 0.0f;
        float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (busy) {
            if (lane < count) {
                const Partial mine = partial_at<C>(p, layout, slot_base + shares.slot(start + lane * step), team.index);
                reference = __ldcg(mine.reference(row));
                sum = __ldcg(mine.sum(row));
            }
#pragma unroll 1
            for (int i = part; i < count; i += split * kAhead) {
                float4 v[kAhead];
#pragma unroll
                for (int k = 0; k < kAhead; ++k) {
                    v[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (i + k * split < count) {
                        const Partial source = partial_at<C>(
                            p, layout, slot_base + shares.slot(start + (i + k * split) * step), team.index);
                        v[k] = __ldcg(reinterpret_cast<const float4 *>(source.output(row, d)));
                    }
                }
                if (i == part) {
                    largest = reference;
#pragma unroll
                    for (int distance = 16; distance > 0; distance >>= 1) {
                        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
                    }
                    factor = exp2_approximate(reference - largest);
                    sum *= factor;
#pragma unroll
                    for (int distance = 16; distance > 0; distance >>= 1) {
                        sum += __shfl_xor_sync(~0u, sum, distance);
                    }
                }
#pragma unroll
                for (int k = 0; k < kAhead; ++k) {
                    add_scaled(o, __shfl_sync(~0u, factor, (i + k * split) & 31), v[k]);
                }
            }
        }
        if (split > 1) {
            // A single round: all tasks fit beside each other. Part 0, which always has share 0, adds in order.
            float4 *slots = reinterpret_cast<float4 *>(layout.scratch_base);
            const int pitch = layout.scratch_floats / 4, cta_warp = team.index * team.warps + team.warp;
            if (busy && lane < kVectors) slots[cta_warp * pitch + lane] = o;
            team.sync();
            if (busy && part == 0) {
#pragma unroll 1
                for (int k = 1; k < split; ++k) {
                    add_scaled(o, 1.0f, slots[(cta_warp + k) * pitch + lane % kVectors]);
                }
            }
        }
        if (busy && part == 0 && lane < kVectors) emit(row, d, largest, sum, o);
    }
}

// A unit of which this CTA holds one share of several.
struct Handover {
    Unit unit;
    Sequence sequence;
    OutputScales scales;
    Shares shares; // count 0: nothing to hand over
};

// The CTAs that share a unit of which this CTA has a part.
template <class C>
__device__ __forceinline__ Shares plan_shares(const WorkPlan<C> &plan, const Unit &unit) {
    const int first = plan.owner(unit.begin);
    return {first, plan.owner(unit.end - 1) - first + 1};
}

// Adds the states that the warps of a team have stored to their scratch, and hands each four elements of a row to
// `emit(row, d, reference, sum, o)`. Whole team.
template <class C, class Emit>
__device__ __forceinline__ void merge_team(const Team &team, const SharedLayout<C> &layout, Emit emit) {
    team.sync();
#pragma unroll 1
    for (int item = team.thread(); item < layout.rows * (C::kHeadDim / 4); item += team.threads()) {
        const int row = item / (C::kHeadDim / 4), d = item % (C::kHeadDim / 4) * 4;
        const Scratch base = layout.scratch(team.index << (C::kWarpsShift - team.bundle_shift));
        float references[C::kWarps], reference = kNoReference, sum = 0.0f;
#pragma unroll
        for (int w = 0; w < C::kWarps; ++w) {
            references[w] = kNoReference;
            if (w < team.warps) references[w] = base.base[w * layout.scratch_floats + base.rows * base.pitch + row];
            reference = fmaxf(reference, references[w]);
        }
        float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int w = 0; w < C::kWarps; ++w) {
            if (w >= team.warps) continue;
            const float *state = base.base + w * layout.scratch_floats;
            const float factor = exp2_approximate(references[w] - reference);
            sum = fmaf(factor, state[base.rows * base.pitch + base.rows + row], sum);
            add_scaled(o, factor, *reinterpret_cast<const float4 *>(state + row * base.pitch + d));
        }
        emit(row, d, reference, sum, o);
    }
}

// Whole team, after every warp has stored its state to its scratch: writes the unit's output, or, with `shares`, this
// CTA's share of it and a note in `open`.
template <class C>
__device__ __forceinline__ void
finish_segment(const qf_decode_params &p, const Team &team, const SharedLayout<C> &layout, const Unit &unit,
               const Sequence &sequence, const OutputScales &scales, const Shares &shares, Handover &open) {
    const bool whole = shares.count == 0;
    Partial own = {};
    if (!whole) {
        own = partial_at<C>(p, layout, shares.slot(static_cast<int>(blockIdx.x) - shares.first), team.index);
        if (team.thread() == 0) open = {unit, sequence, scales, shares};
    }
    merge_team<C>(team, layout, [&](int row, int d, float reference, float sum, float4 o) {
        if (whole) {
            finish_row(p, unit, sequence, scales, row, d, reference, sum, o);
        } else {
            store_partial(own, row, d, reference, sum, o);
        }
    });
    team.sync(); // scratch may be written again
}

// The same for a unit that lies in one cluster, a share in each CTA: merges through the CTAs' shared memory, in order
// of rank, each CTA a part of the elements. `own` is this CTA's place for its share, at the same address in all.
// Whole cluster; the one team of a CTA is the CTA.
template <class C>
__device__ __forceinline__ void finish_in_cluster(const qf_decode_params &p, const Team &team,
                                                  const SharedLayout<C> &layout, const Scratch &own, const Unit &unit,
                                                  const Sequence &sequence, const OutputScales &scales) {
    merge_team<C>(team, layout, [&](int row, int d, float reference, float sum, float4 o) {
        *reinterpret_cast<float4 *>(&own.output(row, d)) = o;
        if (d == 0) own.reference(row) = reference, own.sum(row) = sum;
    });
    cluster_sync();
    const int size = 1 << p.cluster_shift, rank = blockIdx.x & (size - 1);
    const int items = layout.rows * (C::kHeadDim / 4), each = (items + size - 1) >> p.cluster_shift;
    const int last = min(rank * each + each, items);
#pragma unroll 1
    for (int item = rank * each + static_cast<int>(threadIdx.x); item < last; item += C::kThreads) {
        const int row = item / (C::kHeadDim / 4), d = item % (C::kHeadDim / 4) * 4;
        const uint32_t output = shared_address(&own.output(row, d)), reference_at = shared_address(&own.reference(row));
        const uint32_t sum_at = shared_address(&own.sum(row));
        // All loads first: each is a round trip to another multiprocessor.
        constexpr int kLargest = 16; // CTAs of a cluster
        float references[kLargest], sums[kLargest], reference = kNoReference, sum = 0.0f;
        float4 outputs[kLargest];
#pragma unroll
        for (int i = 0; i < kLargest; ++i) {
            references[i] = kNoReference, sums[i] = 0.0f, outputs[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < size) {
                references[i] = load_cluster(cluster_address(reference_at, i));
                sums[i] = load_cluster(cluster_address(sum_at, i));
                outputs[i] = load_cluster_4(cluster_address(output, i));
            }
        }
#pragma unroll
        for (int i = 0; i < kLargest; ++i) reference = fmaxf(reference, references[i]);
        float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < kLargest; ++i) {
            const float factor = exp2_approximate(references[i] - reference);
            sum = fmaf(factor, sums[i], sum);
            add_scaled(o, factor, outputs[i]);
        }
        finish_row(p, unit, sequence, scales, row, d, reference, sum, o);
    }
    cluster_sync(); // nobody leaves while others read its shared memory
}

// How a unit's shares are grouped: flat up to kFlatMerge, else groups of `fan`, both counts at most 32.
struct Grouping {
    int fan, groups, start, size; // start, size: of this CTA's group

    __device__ __forceinline__ explicit Grouping(const Shares &shares) {
        const int share = static_cast<int>(blockIdx.x) - shares.first;
        fan = shares.count <= kFlatMerge ? shares.count : max((shares.count + kFlatMerge - 1) / kFlatMerge, 12);
        fan = max(fan, 1);
        groups = (shares.count + fan - 1) / fan;
        start = share / fan * fan;
        size = min(fan, shares.count - start);
    }
};

template <class C>
__device__ __forceinline__ uint32_t *ticket_at(const qf_decode_params &p, int slot, int team) {
    return p.tickets + static_cast<int64_t>(slot) * C::kWarps + team;
}

// Counts one share in; true for the one that completes `count`, which then sees all that the others wrote before.
// The ticket wraps to zero by itself.
__device__ __forceinline__ bool take_ticket(uint32_t *ticket, int count) {
    uint32_t before;
    asm volatile("fence.acq_rel.gpu;\n"
                 "atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(ticket), "r"(count - 1)
                 : "memory");
    return before == static_cast<uint32_t>(count - 1);
}

// End of a CTA: counts the team in on the tickets of its open units (at most two), both at once, and merges where it
// is the last to arrive. Delayed to here so that no round trip to memory interrupts the stream of tiles.
template <class C>
__device__ __forceinline__ void hand_over(const qf_decode_params &p, const Team &team, const SharedLayout<C> &layout,
                                          const Handover (&opens)[2]) {
    // The last barrier of finish_segment made both notes visible; the same outcome for the whole CTA.
    if (opens[0].shares.count == 0 && opens[1].shares.count == 0) return;
    uint32_t *flags = layout.flags + 2 * team.index;
    // The same barrier has seen all partials of the team written.
    if (team.warp == 0) {
        const int lane = threadIdx.x & 31;
        if (lane < 2 && opens[lane].shares.count > 0) {
            const Shares shares = opens[lane].shares;
            const Grouping grouping(shares);
            flags[lane] = take_ticket(ticket_at<C>(p, shares.slot(grouping.start), team.index), grouping.size);
        }
    }
    team.sync();
    const int groups_base = 2 * gridDim.x;
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        const Handover &open = opens[i];
        if (open.shares.count == 0) continue;
        const Shares shares = open.shares;
        const Grouping grouping(shares);
        // Level 0 merges the CTA's group of shares, level 1 the groups.
        int level = grouping.groups == 1 ? 1 : 0;
        bool complete = flags[i] != 0;
        int start = grouping.start, step = 1, count = grouping.size, base = 0;
#pragma unroll 1
        while (complete) {
            const int group_slot = groups_base + open.shares.slot(grouping.start);
            merge_shares<C>(p, team, layout, open.shares, start, step, count, base,
                            [&](int row, int d, float reference, float sum, float4 o) {
                                if (level == 1) {
                                    finish_row(p, open.unit, open.sequence, open.scales, row, d, reference, sum, o);
                                } else {
                                    store_partial(partial_at<C>(p, layout, group_slot, team.index), row, d, reference,
                                                  sum, o);
                                }
                            });
            team.sync();
            if (level == 1) break;
            if (team.thread() == 0) {
                flags[i] = take_ticket(ticket_at<C>(p, groups_base + open.shares.slot(0), team.index), grouping.groups);
            }
            team.sync();
            complete = flags[i] != 0;
            level = 1, start = 0, step = grouping.fan, count = grouping.groups, base = groups_base;
        }
    }
}

} // namespace qfuse::decode
