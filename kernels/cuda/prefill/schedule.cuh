// Owns: the order of work: which tile of which head and sequence has a number, and how CTAs draw numbers.
// Does not own: what is done with a tile.
// Read next: load.cuh.
//
// Tiles are handed out in sections of KV heads whose keys fit into L2 together; within a section from the last tokens
// to the first, so that under a causal mask the long ones come first and the short ones fill the gaps at the end.
// A CTA starts with the number of its block and draws further ones from the ticket. Every CTA that has work draws until
// it fails once, so the draw that completes the count is the last one of the launch, and it resets the ticket.
#pragma once

#include "shared.cuh"

namespace qfuse::prefill {

__device__ __forceinline__ int tiles_of(const qf_prefill_params &p, int tokens) {
    return (tokens + p.tile_tokens - 1) / p.tile_tokens;
}

// Sequences of a packed batch, then two that have no key: the rows after all sequences, and those before.
__device__ __forceinline__ int packed_first_row(const qf_prefill_params &p, int sequence) {
    return sequence > p.batch ? 0 : min(max(p.q_start[sequence], 0), p.q_tokens);
}

__device__ __forceinline__ int packed_last_row(const qf_prefill_params &p, int sequence) {
    const int row = sequence == p.batch ? p.q_tokens : p.q_start[sequence > p.batch ? 0 : sequence + 1];
    return min(max(row, packed_first_row(p, sequence)), p.q_tokens);
}

// prefix[i] = tiles of the sequences before i, for all lanes of one warp together.
__device__ __forceinline__ void count_tiles(const qf_prefill_params &p, int *prefix) {
    const int lane = threadIdx.x & 31, sequences = p.batch + 2;
    int before = 0;
    for (int first = 0; first < sequences; first += 32) {
        const int sequence = first + lane;
        int tiles = 0;
        if (sequence < sequences) {
            const int tokens = packed_last_row(p, sequence) - packed_first_row(p, sequence);
            if (sequence >= p.batch || tokens >= p.least_tokens) tiles = tiles_of(p, tokens);
        }
        int sum = tiles;
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(~0u, sum, step);
            if (lane >= step) sum += other;
        }
        if (sequence < sequences) prefix[sequence] = before + sum - tiles;
        before += __shfl_sync(~0u, sum, 31);
    }
    if (lane == 0) prefix[sequences] = before;
    __syncwarp();
}

__device__ __forceinline__ int total_work(const qf_prefill_params &p, const int *prefix) {
    return p.q_start != nullptr ? prefix[p.batch + 2] * p.kv_heads : tiles_of(p, p.q_tokens) * p.batch * p.kv_heads;
}

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

template <class C>
__device__ __forceinline__ Work locate_work(const qf_prefill_params &p, const int *prefix, int number) {
    Work work;
    int heads = p.batch * p.kv_heads, tiles = tiles_of(p, p.q_tokens);
    work.sequence = 0;
    if (p.q_start != nullptr) {
        int low = 0, high = p.batch + 2; // prefix[low] * heads <= number < prefix[high] * heads
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (prefix[middle] * p.kv_heads <= number)
                low = middle;
            else
                high = middle;
        }
        work.sequence = low;
        heads = p.kv_heads;
        tiles = prefix[low + 1] - prefix[low];
        number -= prefix[low] * p.kv_heads;
    }
    const int section = min(p.section_heads, heads), span = section * tiles;
    const int first_head = number / span * section, rest = number % span, count = min(section, heads - first_head);
    const int head = first_head + rest % count, tile = tiles - 1 - rest / count;
    work.sequence += head / p.kv_heads;
    work.kv_head = head % p.kv_heads;
    work.first_token = tile * p.tile_tokens;
    work.row = p.q_start != nullptr ? packed_first_row(p, work.sequence) : 0;
    work.tokens = p.q_start != nullptr ? packed_last_row(p, work.sequence) - work.row : p.q_tokens;
    work.length = work.sequence >= p.batch ? 0
                  : p.kv_lens != nullptr   ? min(max(p.kv_lens[work.sequence], 0), p.kv_tokens)
                                           : p.kv_tokens;
    const int offset = position_offset(p, work);
    const int begin = visible_begin(p, offset, work.first_token);
    const int end = visible_end(p, offset, min(work.first_token + p.tile_tokens, work.tokens) - 1, work.length);
    work.tile_begin = begin < end ? begin / C::kKeys : 0;
    work.tile_end = begin < end ? (end + C::kKeys - 1) / C::kKeys : 0;
    return work;
}

} // namespace qfuse::prefill
