// Owns: what happens at the end of a segment: the merge of a team's warps, of the CTAs that share a unit, and the
// output (scales, rounding, stores, log-sum-exp).
// Does not own: the accumulation itself (kernel.cuh) and the division of work (work.cuh).
// Read next: select.h.
//
// A partial result is (reference, sum, O) by row, all with the factor 2^kOffset: merging takes the largest reference M
// and adds with the factors 2^(reference - M), exact powers of two. Partials are added in an order that follows from
// their places in the list, whichever CTA happens to come last, so results do not depend on timing.
//
// CTAs that share a unit hand over through tickets: each warp stores its part of the CTA's partial and increments,
// which releases the stores; the one that finds the count complete merges the part. The increment wraps to zero by
// itself, so tickets need no reset between launches. Above kFlatMerge shares a unit is merged in two levels, in groups
// of about the square root. A unit that lies in a cluster is merged through the CTAs' shared memory instead.
#pragma once

#include <cstdint>

#include "config.h"
#include "kernels/cuda/common/barrier.cuh"
#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/common/output.cuh"
#include "kernels/cuda/common/shared_memory.cuh"
#include "params.h"
#include "work.cuh"

namespace qfuse::decode {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
// P = 2^(score - reference + kOffset): keeps a flat tail of f16 exponentials far from the subnormal range.
constexpr float kOffset = 4.0f;
// "No key yet", finite so that differences stay numbers.
constexpr float kNoReference = -1e30f;
constexpr int kFlatMerge = 32, kLeastFan = 16;

// With QF_DECODE_STAMPS defined (bench only) every warp notes the SM clock at the ends of its stages and writes the
// notes over `lse`: QF_DECODE_STAMP_COUNT 64-bit words a warp. Undefined, no code.
enum Stamp {
    kEntry,
    kReady,
    kDivided,
    kStarted,
    kNoted,
    kPlanned,
    kReleased,
    kCopied,
    kVerified,
    kIssued,
    kQuery,
    kData,
    kTiles,
    kStored,
    kMerged,
    kArrived,
    kFinished,
    kLeft,
    kStampCount
};
#ifdef QF_DECODE_STAMPS
static_assert(kStampCount == QF_DECODE_STAMP_COUNT, "the bench reads them");
static __shared__ long long stamps[16][kStampCount];
#define QF_DECODE_STAMP(which)                                                                                         \
    do {                                                                                                               \
        if ((threadIdx.x & 31) == 0) stamps[threadIdx.x >> 5][which] = clock64();                                      \
    } while (0)
#else
#define QF_DECODE_STAMP(which) static_cast<void>(0)
#endif

// A row's softmax: the reference and the sum of 2^(score - reference + kOffset). Sum 0: no visible key.
struct RowState {
    float reference, sum;
};

// Dynamic shared memory: rings of all warps, scratch of all warps (where O does not fit into a ring stage), states of
// all warps, inbox, sequences. All but the last two at offsets that only the number of stages moves.
template <class C>
struct SharedLayout {
    static constexpr int kScratchBytes = qf_decode_scratch_bytes(C::kElementBytes, C::kHeadDim, C::kRowTiles);
    static constexpr int kVectors = C::kHeadDim / 4; // four elements each, of a row

    Sequences sequences;
    uint8_t *base;
    uint8_t *scratch_base;
    float *states;
    uint8_t *inbox; // qf_decode_inbox_bytes
    int rows;       // of a unit
    int items;      // vectors of a unit

    __device__ __forceinline__ SharedLayout(uint8_t *shared, const qf_decode_params &p) {
        rows = qf_decode_unit_rows(p.rows, C::kRowTiles);
        items = rows * kVectors;
        base = shared;
        scratch_base = shared + C::kWarps * p.stages * C::kStageBytes;
        states = reinterpret_cast<float *>(scratch_base + C::kWarps * kScratchBytes);
        inbox = reinterpret_cast<uint8_t *>(states + C::kWarps * qf_decode_state_floats(C::kRows));
        int *words = reinterpret_cast<int *>(inbox + qf_decode_inbox_bytes(rows, C::kHeadDim, p.cluster_shift));
        sequences.prefix = words;
        sequences.length = words + p.batch + 1;
        sequences.first_tile = words + 2 * (p.batch + 1);
    }

    // Where warp `warp` leaves O when it has used ring stage `stage` last.
    __device__ __forceinline__ uint32_t scratch_offset(const qf_decode_params &p, int warp, int stage) const {
        return kScratchBytes > 0 ? C::kWarps * p.stages * C::kStageBytes + warp * kScratchBytes
                                 : (warp * p.stages + stage) * C::kStageBytes;
    }
    __device__ __forceinline__ RowState &state(int warp, int row) const {
        return reinterpret_cast<RowState *>(states + warp * qf_decode_state_floats(C::kRows))[row];
    }
    __device__ __forceinline__ uint32_t &output_offset(int warp) const {
        return *reinterpret_cast<uint32_t *>(states + warp * qf_decode_state_floats(C::kRows) + 2 * C::kRows);
    }
    // Bytes from a scratch's start to vector `vector` of a row of O. The permutation keeps stores from registers free
    // of bank conflicts. For vectors that differ in their two low bits alone, results differ in bits 4 and 5 alone.
    __device__ __forceinline__ static uint32_t place(int row, int vector) {
        return 16 * (row * kVectors + (vector ^ ((row >> 1) & 3) ^ ((vector >> 4 & 1) << 2)));
    }
    __device__ __forceinline__ float4 output(uint32_t offset, int row, int vector) const {
        return *reinterpret_cast<const float4 *>(base + offset + place(row, vector));
    }
};

// One partial result in the workspace.
struct Partial {
    float *base;
    int rows;
    int head_dim;

    __device__ __forceinline__ float4 *output(int row, int d) const {
        return reinterpret_cast<float4 *>(base + row * head_dim + d);
    }
    __device__ __forceinline__ float2 *state(int row) const {
        return reinterpret_cast<float2 *>(base + rows * head_dim + 2 * row);
    }
};

// Workspace slots: CTA c stores its first segment in slot 2c and a last segment that goes on in CTA c + 1 in 2c + 1;
// group results of a two-level merge follow after 2 * grid slots, at the slot of the group's first share.
template <class C>
__device__ __forceinline__ Partial partial_at(const qf_decode_params &p, const SharedLayout<C> &layout, int slot,
                                              int head_of_bundle) {
    // At most 2^31 floats, so 32-bit arithmetic is enough.
    const unsigned index = slot * C::kWarps + head_of_bundle;
    const unsigned floats = qf_decode_partial_floats(layout.rows, C::kHeadDim);
    return {p.partials + index * floats, layout.rows, C::kHeadDim};
}

// Stores four consecutive elements in the output's type.
__device__ __forceinline__ void store_output(const qf_decode_params &p, int64_t index, float scale, float reciprocal,
                                             float4 x) {
    float v[4] = {x.x, x.y, x.z, x.w};
    if (p.out_dtype <= QF_DECODE_F16) {
        const bool f16 = p.out_dtype == QF_DECODE_F16;
        const uint2 words = make_uint2(f16 ? f32_to_f16x2(v[0], v[1]) : f32_to_bf16x2(v[0], v[1]),
                                       f16 ? f32_to_f16x2(v[2], v[3]) : f32_to_bf16x2(v[2], v[3]));
        *reinterpret_cast<uint2 *>(static_cast<uint16_t *>(p.out) + index) = words;
        return;
    }
    round_via(v, p.via);
    apply_out_scale(v, scale, reciprocal, p.out_mode);
    const bool e4m3 = p.out_dtype == QF_DECODE_E4M3;
    const uint32_t low = e4m3 ? f32_to_e4m3x2(v[0], v[1]) : f32_to_e5m2x2(v[0], v[1]);
    const uint32_t high = e4m3 ? f32_to_e4m3x2(v[2], v[3]) : f32_to_e5m2x2(v[2], v[3]);
    *reinterpret_cast<uint32_t *>(static_cast<uint8_t *>(p.out) + index) = low | high << 16;
}

// What the output of a unit is multiplied by; loaded early, with the query.
struct OutputScales {
    float v, out, out_reciprocal;
};

// The shares of one unit: CTA first + i holds share i.
struct Shares {
    int first; // CTA
    int count;

    // Slot (and ticket) of share i: the first share is its CTA's last segment, the others are their CTAs' first.
    __device__ __forceinline__ int slot(int i) const {
        return 2 * (first + i) + (i == 0);
    }
};

// How a unit's shares are grouped: flat up to kFlatMerge, else groups of `fan`, both counts at most kFlatMerge.
struct Grouping {
    int fan, groups, start, size; // start, size: of this CTA's group

    Grouping() = default;
    __device__ __forceinline__ explicit Grouping(const Shares &shares) {
        fan = shares.count, groups = 1, start = 0, size = shares.count;
        if (shares.count <= kFlatMerge) return;
        fan = max((shares.count + kFlatMerge - 1) / kFlatMerge, kLeastFan);
        groups = static_cast<unsigned>(shares.count + fan - 1) / static_cast<unsigned>(fan);
        start = (blockIdx.x - shares.first) / static_cast<unsigned>(fan) * fan;
        size = min(fan, shares.count - start);
    }
};

// A CTA's part of a unit, kept in shared memory: a copy a warp, so that reading it needs no barrier. Rarely used, so
// registers would be wasted on it.
struct Segment {
    Unit unit;
    Sequence sequence;
    OutputScales scales;
    Shares shares; // count 0: the unit lies in this CTA alone, or in its cluster
    Grouping grouping;
    int first_tile; // number of the warp's first tile in it
};

// A warp's notes: its CTA's first segment and its last, where they are shares of a unit; any other segment.
enum { kFirstSegment, kLastSegment, kWholeSegment, kSegmentNotes };

// A sum of partial results of one vector of a row.
struct Total {
    float reference = kNoReference, sum = 0.0f;
    float4 o = {0.0f, 0.0f, 0.0f, 0.0f};

    // Adds those numbered [0, count) of kTogether, whose loads travel together: `read_state(k)` and, unless
    // kSkipEmpty and the state has no sum, `read_output(k)`.
    template <int kTogether, bool kSkipEmpty, class ReadState, class ReadOutput>
    __device__ __forceinline__ void add(int count, ReadState read_state, ReadOutput read_output) {
        RowState states[kTogether];
        float4 outputs[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
            states[k] = {kNoReference, 0.0f};
            if (k < count) states[k] = read_state(k);
        }
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
            outputs[k] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (kSkipEmpty ? states[k].sum != 0.0f : k < count) outputs[k] = read_output(k);
        }
        float largest = reference;
#pragma unroll
        for (int k = 0; k < kTogether; ++k) largest = fmaxf(largest, states[k].reference);
        scale_to(largest);
#pragma unroll
        for (int k = 0; k < kTogether; ++k) add_one(states[k], outputs[k]);
    }

    // Takes a reference that is not smaller.
    __device__ __forceinline__ void scale_to(float larger) {
        const float factor = exp2_approximate(reference - larger);
        reference = larger;
        sum *= factor, o.x *= factor, o.y *= factor, o.z *= factor, o.w *= factor;
    }

    // Of a reference that is not larger.
    __device__ __forceinline__ void add_one(const RowState &state, float4 v) {
        const float factor = exp2_approximate(state.reference - reference);
        sum = fmaf(factor, state.sum, sum);
        o.x = fmaf(factor, v.x, o.x), o.y = fmaf(factor, v.y, o.y);
        o.z = fmaf(factor, v.z, o.z), o.w = fmaf(factor, v.w, o.w);
    }
};

// Where four elements of a row go.
struct OutputPlace {
    int64_t index; // into out; negative where there is nothing to store
    int64_t lse;   // the same into lse
    float sink;    // log2 domain
};

__device__ __forceinline__ OutputPlace locate_output(const qf_decode_params &p, const Segment &segment, int row,
                                                     int d) {
    const int first_row = segment.unit.first_row + row, token = token_of(p, first_row);
    const int head = segment.unit.kv_head * p.group + first_row - token * p.group;
    const int64_t out_row = segment.sequence.first_token + token;
    OutputPlace place = {-1, -1, -INFINITY};
    if (token >= segment.sequence.tokens) return place;
    place.index = out_row * p.out_token_stride + head * p.out_head_stride + d;
    if (p.sinks != nullptr) place.sink = p.sinks[head] * kLog2E;
    if (p.lse != nullptr && d == 0) place.lse = out_row * (p.kv_heads * p.group) + head;
    return place;
}

// The complete result of four elements of a row: sink, normalisation, scales, one rounding.
__device__ __forceinline__ void finish_row(const qf_decode_params &p, const OutputPlace &place,
                                           const OutputScales &scales, const Total &total) {
    float reference = total.reference, sum = total.sum;
    float4 o = total.o;
    if (place.index < 0) return;
    if (p.sinks != nullptr) {
        const float larger = fmaxf(reference, place.sink);
        const float factor = exp2_approximate(reference - larger);
        sum = sum * factor + exp2_approximate(place.sink - larger + kOffset);
        o.x *= factor, o.y *= factor, o.z *= factor, o.w *= factor;
        reference = larger;
    }
    // No visible key: zeros.
    const float reciprocal = sum == 0.0f ? 0.0f : reciprocal_approximate(sum), v = scales.v;
    o.x = divide(o.x, sum, reciprocal) * v, o.y = divide(o.y, sum, reciprocal) * v;
    o.z = divide(o.z, sum, reciprocal) * v, o.w = divide(o.w, sum, reciprocal) * v;
    store_output(p, place.index, scales.out, scales.out_reciprocal, o);
#ifdef QF_DECODE_STAMPS
    return; // `lse` holds the stamps
#endif
    if (place.lse >= 0) {
        p.lse[place.lse] = sum == 0.0f ? -INFINITY : (reference - kOffset + log2f(sum)) * kLn2;
    }
}

__device__ __forceinline__ void store_partial(const Partial &partial, int row, int d, const Total &total) {
    __stcg(partial.output(row, d), total.o);
    if (d == 0) __stcg(partial.state(row), make_float2(total.reference, total.sum));
}

// The CTAs that share a unit of which this CTA has a part.
template <class C>
__device__ __forceinline__ Shares plan_shares(const WorkPlan<C> &plan, const Unit &unit) {
    const int first = plan.owner(unit.begin);
    return {first, plan.owner(unit.end - 1) - first + 1};
}

// Notes the segment of `unit` that begins at `position`, for this warp; returns which note it is.
template <class C>
__device__ __forceinline__ int note_segment(const WorkPlan<C> &plan, const Unit &unit, const Sequence &sequence,
                                            int position, int first_tile, Segment *notes) {
    const bool whole = plan.clustered || (position == unit.begin && plan.end >= unit.end);
    const int which = whole ? kWholeSegment : position == plan.begin ? kFirstSegment : kLastSegment;
    const Shares shares = whole ? Shares{} : plan_shares(plan, unit);
    if ((threadIdx.x & 31) == 0) {
        Segment &segment = notes[which];
        segment.unit = unit, segment.sequence = sequence;
        segment.shares = shares, segment.grouping = Grouping(shares), segment.first_tile = first_tile;
    }
    return which;
}

// Adds the states that the warps of a team have stored, and hands each vector to `emit(row, d, total)`.
// Whole team; a warp always has the same vectors of a unit, here and in every merge that follows.
template <class C, class Emit>
__device__ __forceinline__ void merge_team(const Team &team, const SharedLayout<C> &layout, Emit emit) {
    const int first_warp = team.index << (C::kWarpsShift - team.bundle_shift);
    team.sync();
#pragma unroll 1
    for (int item = team.thread(); item < layout.items; item += team.threads()) {
        const int row = item / layout.kVectors, vector = item % layout.kVectors;
        Total total;
#pragma unroll
        for (int base = 0; base < C::kWarps; base += 8) {
            if (base >= team.warps) break;
            // A warp without a tile has left no O.
            total.add<8, true>(
                team.warps - base, [&](int w) { return layout.state(first_warp + base + w, row); },
                [&](int w) { return layout.output(layout.output_offset(first_warp + base + w), row, vector); });
        }
        emit(row, 4 * vector, total);
    }
}

// Whole team, after every warp has stored its state: writes the unit's output, or this CTA's share.
template <class C>
__device__ __forceinline__ void finish_segment(const qf_decode_params &p, const Team &team,
                                               const SharedLayout<C> &layout, const Segment &segment) {
    const bool whole = segment.shares.count == 0;
    const int slot = segment.shares.slot(static_cast<int>(blockIdx.x) - segment.shares.first);
    const Partial own = partial_at<C>(p, layout, slot, team.index);
    merge_team<C>(team, layout, [&](int row, int d, const Total &total) {
        if (whole) {
            finish_row(p, locate_output(p, segment, row, d), segment.scales, total);
        } else {
            store_partial(own, row, d, total);
        }
    });
    QF_DECODE_STAMP(kMerged);
    team.sync(); // states, scratch and ring may be written again
}

// The inboxes of a cluster. CTA `rank` merges columns of O, `columns` vectors of each row; every CTA sends it its share
// of them. An inbox holds the vectors by row, sender and column, then the states by row and sender.
struct Inbox {
    uint32_t output, state; // this CTA's
    uint32_t barrier;
    int shift, rank;
    int columns_shift;

    template <class C>
    __device__ __forceinline__ static Inbox make(const qf_decode_params &p, const SharedLayout<C> &layout,
                                                 uint32_t barrier) {
        constexpr int kVectorsShift = C::kHeadDim == 64 ? 4 : C::kHeadDim == 128 ? 5 : 6;
        const uint32_t base = shared_address(layout.inbox);
        const int shift = p.cluster_shift, rank = blockIdx.x & ((1 << shift) - 1);
        return {base, base + 16 * layout.items, barrier, shift, rank, kVectorsShift - shift};
    }

    // One thread, once: the bytes that will come.
    __device__ __forceinline__ void expect(int rows) const {
        barrier_arrive_expect(barrier, rows * ((16u << (columns_shift + shift)) + (8u << shift)));
    }

    __device__ __forceinline__ void send(int row, int vector, const Total &total) const {
        const int owner = vector >> columns_shift, column = vector & ((1 << columns_shift) - 1);
        const int slot = (row << shift) + rank;
        const uint32_t remote = cluster_address(barrier, owner);
        send_16(cluster_address(output + 16 * ((slot << columns_shift) + column), owner), total.o, remote);
        if (column == 0)
            send_8(cluster_address(state + 8 * slot, owner), make_float2(total.reference, total.sum), remote);
    }
};

// The same for a unit that lies in one cluster, a share in each CTA: each CTA sends its share to the CTAs that merge,
// and merges what it is sent in order of rank. The one team of a CTA is the CTA.
template <class C>
__device__ __forceinline__ void finish_in_cluster(const qf_decode_params &p, const Team &team,
                                                  const SharedLayout<C> &layout, const Inbox &inbox,
                                                  const Segment &segment) {
    cluster_wait(); // all CTAs run, and so can be sent to
    merge_team<C>(team, layout, [&](int row, int d, const Total &total) { inbox.send(row, d / 4, total); });
    QF_DECODE_STAMP(kMerged);
    // A lane for each share of each vector: lanes of a vector lie together.
    const int size = 1 << inbox.shift, shift = inbox.columns_shift, lanes = layout.rows << (shift + inbox.shift);
    const float4 *outputs = reinterpret_cast<const float4 *>(layout.inbox);
    const RowState *states = reinterpret_cast<const RowState *>(outputs + layout.items);
#pragma unroll 1
    for (int first = threadIdx.x & ~31; first < lanes; first += C::kThreads) {
        const int index = min(first + static_cast<int>(threadIdx.x & 31), lanes - 1), share = index & (size - 1);
        const int item = index >> inbox.shift, row = item >> shift, column = item & ((1 << shift) - 1);
        const OutputPlace place = locate_output(p, segment, row, 4 * ((inbox.rank << shift) + column));
        const int sender = (row << inbox.shift) + share;
        barrier_wait_cluster(inbox.barrier, 0);
        QF_DECODE_STAMP(kArrived);
        const RowState state = states[sender];
        float4 o = outputs[(sender << shift) + column];
        Total total;
        total.reference = state.reference;
#pragma unroll 1
        for (int distance = size >> 1; distance > 0; distance >>= 1) {
            total.reference = fmaxf(total.reference, __shfl_xor_sync(~0u, total.reference, distance));
        }
        total.add_one(state, o);
#pragma unroll 1
        for (int distance = size >> 1; distance > 0; distance >>= 1) {
            total.sum += __shfl_xor_sync(~0u, total.sum, distance);
            total.o.x += __shfl_xor_sync(~0u, total.o.x, distance);
            total.o.y += __shfl_xor_sync(~0u, total.o.y, distance);
            total.o.z += __shfl_xor_sync(~0u, total.o.z, distance);
            total.o.w += __shfl_xor_sync(~0u, total.o.w, distance);
        }
        if (share == 0 && index == first + static_cast<int>(threadIdx.x & 31)) {
            finish_row(p, place, segment.scales, total);
        }
    }
}

// Counts one share in; true for the one that completes `count`, which then sees all that the others wrote before.
// The ticket wraps to zero by itself.
__device__ __forceinline__ bool take_ticket(uint32_t *ticket, int count) {
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(ticket), "r"(count - 1)
                 : "memory");
    return before == static_cast<uint32_t>(count - 1);
}

// Copies 16 bytes from global to shared memory, past the first-level cache; wait_for_copies waits for this thread's.
__device__ __forceinline__ void start_copy_16(uint32_t destination, const void *source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(source) : "memory");
}

__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Over the lanes that share `lane / kWidth`.
template <int kWidth>
__device__ __forceinline__ float lanes_largest(float x) {
#pragma unroll
    for (int distance = kWidth / 2; distance > 0; distance >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
    return x;
}

template <int kWidth>
__device__ __forceinline__ float lanes_sum(float x) {
#pragma unroll
    for (int distance = kWidth / 2; distance > 0; distance >>= 1) x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

// Merges this warp's vectors of the partials of `count` shares, start, start + step, ..., in this order, and hands
// each to `emit(row, d, total)`. `slot_base` selects share results or group results. The lanes that have a row's
// vectors share the work on its states, a share each, and copy the outputs into the warp's ring: little code, since
// what runs once is bound by the fetch of instructions.
template <class C, class Emit>
__device__ __forceinline__ void merge_shares(const qf_decode_params &p, const Team &team, const SharedLayout<C> &layout,
                                             const Shares &shares, int start, int step, int count, int slot_base,
                                             Emit emit) {
    constexpr int kWidth = layout.kVectors < 32 ? layout.kVectors : 32, kSliceBytes = 32 * 16;
    const int lane = threadIdx.x & 31, member = lane & (kWidth - 1), ring_bytes = p.stages * C::kStageBytes;
    const int together = min(kWidth, ring_bytes / kSliceBytes);
    const uint32_t ring = shared_address(layout.base) + (threadIdx.x >> 5) * ring_bytes + 16 * lane;
    // A share lies `step_floats` after the one before, but for share 0, which lies in its CTA's other slot.
    const unsigned slot_floats = C::kWarps * qf_decode_partial_floats(layout.rows, C::kHeadDim);
    const unsigned step_floats = 2 * step * slot_floats;
    const Partial origin = partial_at<C>(p, layout, slot_base + 2 * (shares.first + start), team.index);
#pragma unroll 1
    for (int first = team.thread() - lane; first < layout.items; first += team.threads()) {
        const int item = min(first + lane, layout.items - 1), row = item / layout.kVectors,
                  d = item % layout.kVectors * 4;
        Total total;
#pragma unroll 1
        for (int base = 0; base < count; base += together) {
            const int here = min(together, count - base);
            const float *source = reinterpret_cast<const float *>(origin.output(row, d)) + base * step_floats;
            unsigned extra = base == 0 && start == 0 ? slot_floats : 0; // of the next share
            RowState state = {kNoReference, 0.0f};
            if (member < here) {
                const unsigned at = (base + member) * step_floats + (member == 0 ? extra : 0);
                const float2 loaded =
                    __ldcg(reinterpret_cast<const float2 *>(reinterpret_cast<const float *>(origin.state(row)) + at));
                state = {loaded.x, loaded.y};
            }
#pragma unroll 1
            for (int k = 0; k < here; ++k, source += step_floats, extra = 0) {
                start_copy_16(ring + k * kSliceBytes, source + extra);
            }
            const float largest = fmaxf(total.reference, lanes_largest<kWidth>(state.reference));
            const float factor = exp2_approximate(state.reference - largest);
            total.scale_to(largest);
            total.sum += lanes_sum<kWidth>(factor * state.sum);
            wait_for_copies(); // each lane reads what it has copied itself
#pragma unroll 4
            for (int k = 0; k < here; ++k) {
                const float share = __shfl_sync(~0u, factor, k, kWidth);
                const uint4 words = load_shared_16(ring + k * kSliceBytes);
                total.o.x = fmaf(share, __uint_as_float(words.x), total.o.x);
                total.o.y = fmaf(share, __uint_as_float(words.y), total.o.y);
                total.o.z = fmaf(share, __uint_as_float(words.z), total.o.z);
                total.o.w = fmaf(share, __uint_as_float(words.w), total.o.w);
            }
        }
        if (first + lane < layout.items) emit(row, d, total);
    }
}

// End of a CTA: every warp counts its vectors of the team's open units (at most two) in, and merges those of which it
// is the last to arrive. Delayed to here so that no round trip to memory interrupts the stream of tiles. No barriers:
// a warp stores, counts and merges the same vectors as its fellows of the other CTAs.
template <class C>
__device__ __forceinline__ void hand_over(const qf_decode_params &p, const Team &team, const SharedLayout<C> &layout,
                                          const Segment *opens) {
    const int lane = threadIdx.x & 31;
    if (team.thread() - lane >= layout.items) return; // a warp without vectors
    const int cta_warp = threadIdx.x >> 5;
    bool arrived_last = false;
    __syncwarp();
    if (lane < 2 && opens[lane].shares.count > 0) {
        const int slot = opens[lane].shares.slot(opens[lane].grouping.start);
        arrived_last = take_ticket(p.tickets + slot * C::kWarps + cta_warp, opens[lane].grouping.size);
    }
    const uint32_t arrived = __ballot_sync(~0u, arrived_last);
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        QF_DECODE_STAMP(kArrived);
        if ((arrived >> i & 1) == 0) continue;
        const Segment &open = opens[i];
        const Grouping grouping = open.grouping;
        const int groups_base = 2 * gridDim.x;
        // Level 0 merges the CTA's group of shares, level 1 the groups.
        int level = grouping.groups == 1 ? 1 : 0;
        int start = grouping.start, step = 1, count = grouping.size, base = 0;
#pragma unroll 1
        for (;;) {
            const int group_slot = groups_base + open.shares.slot(grouping.start);
            merge_shares<C>(p, team, layout, open.shares, start, step, count, base,
                            [&](int row, int d, const Total &total) {
                                if (level == 1) {
                                    finish_row(p, locate_output(p, open, row, d), open.scales, total);
                                } else {
                                    store_partial(partial_at<C>(p, layout, group_slot, team.index), row, d, total);
                                }
                            });
            if (level == 1) break;
            __syncwarp();
            bool last = false;
            if (lane == 0) {
                const int slot = groups_base + open.shares.slot(0);
                last = take_ticket(p.tickets + slot * C::kWarps + cta_warp, grouping.groups);
            }
            if (!__shfl_sync(~0u, last, 0)) break;
            level = 1, start = 0, step = grouping.fan, count = grouping.groups, base = groups_base;
        }
    }
}

} // namespace qfuse::decode
