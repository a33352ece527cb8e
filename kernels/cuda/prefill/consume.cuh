// Owns: the loop of a consumer warpgroup: 64 query rows against all key tiles that they see.
// Does not own: scores and softmax (scores_f16.cuh), the output (epilogue.cuh).
// Read next: epilogue.cuh.
//
// Of a tile, S = Q K^T, P = exponentials in the elements of V, O += P V. Three warpgroups run freely, so that one's
// softmax hides behind the others' products.
#pragma once

#include <type_traits>

#include "ahead.cuh"
#include "epilogue.cuh"
#include "query.cuh"
#include "scores_f32.cuh"

namespace qfuse::prefill {

// The rows of a warpgroup against keys; the same in all its threads.
struct Reach {
    int begin, end;           // keys that some row sees
    int full_begin, full_end; // keys that all rows see
};

template <class C>
__device__ __forceinline__ Reach make_reach(const qf_prefill_params &p, const Work &work, int consumer) {
    Reach reach;
    const int offset = position_offset(p, work), first_row = 64 * consumer;
    const int first = work.first_token + row_token(p, first_row);
    const int tokens = min(work.tokens, work.first_token + p.tile_tokens); // rows past them are no rows
    const int last = min(work.first_token + row_token(p, first_row + 63), tokens - 1);
    reach.begin = visible_begin(p, offset, first);
    reach.end = first < tokens ? visible_end(p, offset, last, work.length) : 0;
    reach.full_begin = visible_begin(p, offset, last);
    reach.full_end = visible_end(p, offset, first, work.length);
    return reach;
}

// Keys that the thread's two rows see, counted from its first column of a tile. Computed anew for each tile that needs
// a mask since registers are scarcer than instructions.
__device__ __forceinline__ void row_limits(const qf_prefill_params &p, const Work &work, int consumer, int first_key,
                                           int (&begin)[2], int (&end)[2]) {
    const uint32_t thread = thread_here();
    const int offset = position_offset(p, work), origin = first_key + 2 * (thread & 3);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = 64 * consumer + (thread >> 5 & 3) * 16 + (thread >> 2 & 7) + 8 * i;
        const int token = work.first_token + row_token(p, row);
        begin[i] = visible_begin(p, offset, token) - origin;
        end[i] = visible_end(p, offset, token, work.length) - origin;
    }
}

// Starts S = Q K^T of a tile.
template <class C, class S, class Descriptor>
__device__ __forceinline__ void start_scores(S &scores, Descriptor q, const KeptQuery<C> &kept, Descriptor k) {
    constexpr int kSteps = C::kPanelBytes / 32;
    constexpr uint32_t kQueryPanel = C::kRows * C::kPanelBytes / 16, kKeyPanel = C::kKeys * C::kPanelBytes / 16;
    scores = S(scores.parameters()); // S itself starts without a value
    wgmma_fence();
    scores.template multiply<false>(q, k);
#pragma unroll
    for (int step = 1; step < C::kPanels * kSteps; ++step) {
        const int panel = step / kSteps, inner = step % kSteps;
        const Descriptor k_step = k + panel * kKeyPanel + inner * 2;
        if constexpr (C::kKeptSteps > 0) {
            if (step >= kept.kFirst) {
                scores.multiply(kept.a[step - kept.kFirst], k_step);
                continue;
            }
        }
        scores.template multiply<true>(q + panel * kQueryPanel + inner * 2, k_step);
    }
    wgmma_commit();
}

// Makes the warpgroup's rows of Q fit for the scores, and sets the multipliers that go with them.
template <class C, class S>
__device__ __forceinline__ void prepare_query(const qf_prefill_params &p, const Scales &scales, uint32_t rows,
                                              S &scores) {
    const float scale = p.softmax_scale * kLog2E * scales.q * scales.k;
    int exponent[2] = {0, 0};
    if (scale < 0.0f) negate_query<C>(rows);
    if constexpr (S::kBoundsQuery) bound_query<C>(rows, exponent);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        // 2^n, n at least 0.
        const float power = __uint_as_float(static_cast<uint32_t>(127 + exponent[i]) << 23);
        scores.set_multiplier(i, fabsf(scale) * power, p.softcap);
    }
}

// Passes over tiles that no row of the warpgroup sees.
template <class C>
__device__ __forceinline__ void skip_tiles(const qf_prefill_params &p, Barriers<C> &barriers, Ring<C::kKeyStages> &keys,
                                           Ring<C::kTransposedStages> &transposed, int count) {
    const bool elected = (threadIdx.x & 31) == 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
        barrier_wait(shared_address(&barriers.keys_full[keys.stage]), keys.parity);
        if (elected) release_keys<C>(barriers, keys.stage);
        barrier_wait(shared_address(&barriers.transposed_full[transposed.stage]), transposed.parity);
        if (elected) release_transposed<C>(barriers, transposed.stage, p.cluster);
        keys.advance();
        transposed.advance();
    }
}

template <class C>
__device__ __forceinline__ void consume(const qf_prefill_params &p, const Shared<C> &shared, int consumer) {
    Barriers<C> &barriers = *shared.barriers;
    Ring<C::kQueryStages> query;
    Ring<C::kKeyStages> keys;
    Ring<C::kTransposedStages> transposed;
    Ring<1> share;
    const bool elected = (threadIdx.x & 31) == 0;
    using Descriptor = MatrixDescriptor<C::kSwizzle>;
    const Descriptor k_base = Descriptor::at(shared.keys);
    using TwoLevel = std::conditional_t<C::kQuarters, QuarteredAccumulator<C>, TwoLevelAccumulator<C>>;
    using Accumulator = std::conditional_t<C::kElementBytes == 1, TwoLevel, DirectAccumulator<C>>;
    const typename Accumulator::Values v_base = Accumulator::values_at(shared.transposed);
    const KeyDescriptor ones = KeyDescriptor::at(shared.ones);
    for (;;) {
        trace<kTraceNext>(p);
        barrier_wait(shared_address(&barriers.query_full[query.stage]), query.parity);
        const Work work = read_work<C>(shared.work[work_slot<C>(query)]);
        if (work.sequence < 0) return;
        trace<kTraceWork>(p);
        const uint32_t rows = shared.query + query.stage * C::kQueryBytes + consumer * 64 * C::kPanelBytes;
        using Scores = std::conditional_t<C::kHalfScores, HalfScores<C>, FullScores<C>>;
        Scores scores;
        prepare_query<C>(p, shared.scales[work_slot<C>(query)], rows, scores);
        const Reach reach = make_reach<C>(p, work, consumer);
        named_barrier_sync(1 + consumer, 128);
        trace<kTraceReady>(p);
        const Descriptor q = Descriptor::at(rows);
        KeptQuery<C> kept;
        kept.load(rows);
        Accumulator state;
        state.clear(Scores::kNone);
        // Tiles `last` to `first` are computed; rows of other warpgroups see the others.
        const bool sees = reach.begin < reach.end;
        const int end = C::kShares ? own_tile_end(work, share_rank<C>()) : work.tile_end;
        const int first = sees ? min(max(reach.begin / C::kKeys, work.tile_begin), end) : work.tile_begin;
        const int last = sees ? max(min((reach.end + C::kKeys - 1) / C::kKeys, end), first) - 1 : first - 1;
        skip_tiles<C>(p, barriers, keys, transposed, work.tile_end - 1 - last);
        if (last >= first) barrier_wait(shared_address(&barriers.keys_full[keys.stage]), keys.parity);
        // Nothing reads Q after the last scores.
        const auto free_query = [&](bool now) {
            if (C::kFreesQuery && now) barrier_arrive(shared_address(&barriers.query_empty[query.stage]));
        };
        free_query(last < first);
        if constexpr (C::kAhead) {
            const auto finish = [&](int tile) {
                const int first_key = tile * C::kKeys;
                scores.finish();
                if (first_key + C::kKeys > reach.full_end || first_key < reach.full_begin) {
                    int begin[2], end[2];
                    row_limits(p, work, consumer, first_key, begin, end);
                    scores.mask_from(end);
                    if (first_key < reach.full_begin) scores.mask_before(begin);
                }
            };
            const auto start = [&] { start_scores<C>(scores, q, kept, k_base + keys.stage * (C::kTileBytes / 16)); };
            walk_ahead<C>(p, barriers, scores, state, keys, transposed, v_base, ones, first, last, start, finish,
                          free_query);
        }
#pragma unroll 1
        for (int tile = C::kAhead ? first - 1 : last; tile >= first; --tile) {
            const int first_key = tile * C::kKeys;
            jitter();
            start_scores<C>(scores, q, kept, k_base + keys.stage * (C::kTileBytes / 16));
            // Here the wait costs nothing, and from it to P V^T all is one basic block, in which conversions hide
            // behind exponentials.
            barrier_wait(shared_address(&barriers.transposed_full[transposed.stage]), transposed.parity);
            wgmma_wait<0>();
            scores.pin();
            if (elected) release_keys<C>(barriers, keys.stage);
            free_query(tile == first);
            keys.advance();
            trace<kTraceTile>(p);
            jitter();
            scores.finish();
            if (first_key + C::kKeys > reach.full_end || first_key < reach.full_begin) {
                int begin[2], end[2];
                row_limits(p, work, consumer, first_key, begin, end);
                scores.mask_from(end);
                if (first_key < reach.full_begin) scores.mask_before(begin);
            }
            state.accumulate(scores, v_base + transposed.stage * (C::kTileBytes / 16), ones, [&] {
                if (tile > first) barrier_wait(shared_address(&barriers.keys_full[keys.stage]), keys.parity);
            });
            if (elected) release_transposed<C>(barriers, transposed.stage, p.cluster);
            transposed.advance();
            trace<kTraceTileEnd>(p);
            jitter();
        }
        skip_tiles<C>(p, barriers, keys, transposed, first - work.tile_begin);
        trace<kTraceEpilogue>(p);
        bool finishes = true;
        if constexpr (C::kShares) {
            if (work.apart > 0) {
                finishes = share_rank<C>() == 0;
                if (finishes)
                    receive_share<C>(p, barriers, consumer, share.parity, state);
                else
                    send_share<C>(p, barriers, consumer, share.parity, state);
                share.advance();
            }
        }
        if (finishes) {
            float sums[2];
            state.row_sums(sums);
            const Scales &scales = shared.scales[work_slot<C>(query)];
            finish_rows<C>(p, work, scales, consumer, rows, state.o, sums, state.reference);
        }
        if constexpr (!C::kFreesQuery) {
            async_proxy_fence();
            jitter();
            barrier_arrive(shared_address(&barriers.query_empty[query.stage]));
            __syncwarp();
        }
        query.advance();
    }
}

} // namespace qfuse::prefill
