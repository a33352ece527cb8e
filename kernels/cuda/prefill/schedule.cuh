// Owns: the order of work: which tile of which head and sequence has a number, and how CTAs draw numbers.
// Does not own: what is done with a tile.
// Read next: load.cuh.
//
// Tiles are handed out in sections of KV heads whose keys fit into L2 together; within a section from the last tokens
// to the first, so that under a causal mask the long ones come first and the short ones fill the gaps at the end. Where
// tiles have fewer rows than others but are else equally long, those come after all others.
// A CTA starts with the number of its block and draws further ones from the ticket. Every CTA that has work draws until
// it fails once, so the draw that completes the count is the last one of the launch, and it resets the ticket.
#pragma once

#include "divide.cuh"

namespace qfuse::prefill {

// The tiles that a cluster takes together are one here.
__device__ __forceinline__ int tiles_of(const qf_prefill_params &p, int tokens) {
    return (tokens + p.span_tokens - 1) / p.span_tokens;
}

// Sequences of a packed batch, then two that have no key: the rows after all sequences, and those before.
__device__ __forceinline__ int packed_first_row(const qf_prefill_params &p, int sequence) {
    return sequence > p.batch ? 0 : min(max(p.q_start[sequence], 0), p.q_tokens);
}

__device__ __forceinline__ int packed_last_row(const qf_prefill_params &p, int sequence) {
    const int row = sequence == p.batch ? p.q_tokens : p.q_start[sequence > p.batch ? 0 : sequence + 1];
    return min(max(row, packed_first_row(p, sequence)), p.q_tokens);
}

__device__ __forceinline__ int tiles_of_sequence(const qf_prefill_params &p, int sequence) {
    if (sequence >= p.batch + 2) return 0;
    const int tokens = packed_last_row(p, sequence) - packed_first_row(p, sequence);
    return sequence >= p.batch || tokens >= p.least_tokens ? tiles_of(p, tokens) : 0;
}

// Sum over the lanes up to this one.
__device__ __forceinline__ int sum_of_lanes(int x) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(~0u, x, step);
        if (static_cast<int>(threadIdx.x & 31) >= step) x += other;
    }
    return x;
}

// How many tiles there are, and for a packed batch in which sequence a tile lies. Lanes of one warp together: each
// keeps the count before its block of sequences; within a block the counts are made anew.
struct TileCounts {
    int block;  // sequences of a block
    int before; // tiles before the lane's block
    int total;  // tiles of one KV head

    __device__ __forceinline__ explicit TileCounts(const qf_prefill_params &p) {
        block = before = 0, total = tiles_of(p, p.q_tokens) * p.batch;
        if (p.q_start == nullptr) return;
        block = (p.batch + 2 + 31) / 32;
        int tiles = 0;
        for (int i = 0; i < block; ++i) tiles += tiles_of_sequence(p, static_cast<int>(threadIdx.x & 31) * block + i);
        const int sum = sum_of_lanes(tiles);
        before = sum - tiles, total = __shfl_sync(~0u, sum, 31);
    }
    // The sequence of work number `number` (a tile of a KV head), the tiles before it, and its own.
    __device__ __forceinline__ void locate(const qf_prefill_params &p, int number, int &sequence, int &first,
                                           int &tiles) const {
        const int lane = threadIdx.x & 31;
        const int chosen = 31 - __clz(__ballot_sync(~0u, before * p.kv_heads <= number));
        sequence = chosen * block, first = __shfl_sync(~0u, before, chosen);
        for (const int end = sequence + block;; sequence += 32) {
            const int own = sequence + lane < end ? tiles_of_sequence(p, sequence + lane) : 0, sum = sum_of_lanes(own);
            const uint32_t found = __ballot_sync(~0u, (first + sum) * p.kv_heads > number);
            if (found != 0) {
                const int at = __ffs(found) - 1;
                sequence += at, tiles = __shfl_sync(~0u, own, at), first += __shfl_sync(~0u, sum, at) - tiles;
                return;
            }
            first += __shfl_sync(~0u, sum, 31);
        }
    }
};

// Keys that the rows of tokens first .. last see at all.
__device__ __forceinline__ int visible_begin(const qf_prefill_params &p, int offset, int first_token) {
    return max(first_token + offset - p.left, 0);
}

__device__ __forceinline__ int visible_end(const qf_prefill_params &p, int offset, int last_token, int length) {
    return min(length, last_token + offset + p.right + 1);
}

// Key position of token 0.
__device__ __forceinline__ int position_offset(const qf_prefill_params &p, const Work &work) {
    return p.bottom_right ? work.length - work.tokens : 0;
}

// How many numbers of work there are.
template <class C>
__device__ __forceinline__ int count_work(const qf_prefill_params &p, const TileCounts &counts) {
    const int pairs = counts.total * p.kv_heads;
    return C::kShares && pairs > p.divide_from ? 2 * pairs - p.divide_from : pairs;
}

// All CTAs of a cluster get the same tiles of keys, or as many of the same tile of queries. `rank`: of the CTA.
template <class C>
__device__ __forceinline__ Work locate_work(const qf_prefill_params &p, const TileCounts &counts, int number,
                                            int rank) {
    Work work;
    const int span_tokens = C::kClusters ? p.span_tokens : p.tile_tokens;
    const bool divided = C::kShares && number >= p.divide_from;
    int half = rank; // of the pair
    if (divided) {   // the first tiles of all pairs, then the second ones
        const int pairs = counts.total * p.kv_heads;
        half = number >= pairs ? 1 : 0;
        if (half != 0) number -= pairs - p.divide_from;
    }
    int heads = p.batch * p.kv_heads, tiles = tiles_of(p, p.q_tokens);
    work.sequence = 0;
    if (p.q_start != nullptr) {
        int first;
        counts.locate(p, number, work.sequence, first, tiles);
        heads = p.kv_heads;
        number -= first * p.kv_heads;
    }
    const int early = C::kShares ? tiles - p.late_pairs : tiles, late = number - heads * early;
    const int section = min(p.section_heads, heads), span = section * early;
    const int first_head = number / span * section, rest = number % span, count = min(section, heads - first_head);
    int head = first_head + rest % count, tile = early - 1 - rest / count;
    if (C::kShares && late >= 0) head = late, tile = early;
    work.sequence += head / p.kv_heads;
    work.kv_head = head % p.kv_heads;
    work.first_token = tile * span_tokens;
    work.row = p.q_start != nullptr ? packed_first_row(p, work.sequence) : 0;
    work.tokens = p.q_start != nullptr ? packed_last_row(p, work.sequence) - work.row : p.q_tokens;
    work.length = work.sequence >= p.batch ? 0
                  : p.kv_lens != nullptr   ? min(max(p.kv_lens[work.sequence], 0), p.kv_tokens)
                                           : p.kv_tokens;
    const int offset = position_offset(p, work);
    const int begin = visible_begin(p, offset, work.first_token);
    const int end = visible_end(p, offset, min(work.first_token + span_tokens, work.tokens) - 1, work.length);
    work.tile_begin = begin < end ? begin / C::kKeys : 0;
    work.tile_end = begin < end ? (end + C::kKeys - 1) / C::kKeys : 0;
    work.apart = 0;
    if (C::kClusters) work.first_token += half * p.tile_tokens;
    if (divided) divide_keys(work, rank);
    return work;
}

} // namespace qfuse::prefill
