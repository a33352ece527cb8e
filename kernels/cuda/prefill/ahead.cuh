// Owns: the loop over tiles of a consumer warpgroup that starts the next scores before the products of this tile's P.
// Does not own: the loop without (consume.cuh), what is added up (accumulate.cuh).
// Read next: consume.cuh.
//
// Where two warpgroups share the tensor cores, and O, S and P twice fit into registers: Q K^T of a tile and P V of the
// one before it run one after the other without a gap, and the softmax of the tile beside that P V.
#pragma once

#include "accumulate.cuh"

namespace qfuse::prefill {

// Tiles `last` to `first`, the first keys of which have come. `start_scores` starts Q K^T of the tile in the keys'
// stage, `finish` masks scores, `free_query` takes whether the last scores are complete.
template <class C, class Scores, class State, class StartScores, class Finish, class FreeQuery>
__device__ __forceinline__ void walk_ahead(const qf_prefill_params &p, Barriers<C> &barriers, Scores &scores,
                                           State &state, Ring<C::kKeyStages> &keys, Ring<C::kTransposedStages> &values,
                                           typename State::Values v_base, KeyDescriptor ones, int first, int last,
                                           StartScores start_scores, Finish finish, FreeQuery free_query) {
    const bool elected = (threadIdx.x & 31) == 0;
    uint32_t weights[C::kWords]; // P of the tile whose products come next
    float factor[2];
    const auto scores_complete = [&](int tile) {
        scores.pin();
        if (elected) release_keys<C>(barriers, keys.stage);
        free_query(tile == first);
        keys.advance();
        trace<kTraceTile>(p);
        jitter();
        finish(tile);
    };
    const auto start_products = [&] {
        barrier_wait(shared_address(&barriers.transposed_full[values.stage]), values.parity);
        state.start(weights, v_base + values.stage * (C::kTileBytes / 16), ones);
    };
    const auto products_complete = [&] {
        wgmma_wait<0>();
        state.pin();
        if (elected) release_transposed<C>(barriers, values.stage, p.cluster);
        values.advance();
        wgmma_pin(weights); // they are read until here
    };
    // Also keeps the exponentials before the wait for the products.
    const auto wait_for_keys = [&](int tile) {
        if (tile > first) barrier_wait(shared_address(&barriers.keys_full[keys.stage]), keys.parity);
    };
    if (last < first) return;
    start_scores();
    wgmma_wait<0>();
    scores_complete(last);
    state.soften(scores, factor, weights);
    wait_for_keys(last);
#pragma unroll 1
    for (int tile = last - 1; tile >= first; --tile) {
        jitter();
        start_scores();
        start_products();
        wgmma_wait<1>();
        scores_complete(tile);
        uint32_t next[C::kWords];
        state.soften(scores, factor, next);
        wait_for_keys(tile);
        products_complete();
        state.rescale(factor);
        // Volatile, or the compiler lets both share registers and serialises the products.
#pragma unroll
        for (int i = 0; i < C::kWords; ++i) asm volatile("mov.b32 %0, %1;" : "=r"(weights[i]) : "r"(next[i]));
        trace<kTraceTileEnd>(p);
        jitter();
    }
    start_products();
    products_complete();
}

} // namespace qfuse::prefill
