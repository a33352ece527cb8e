// Owns: the work map: how the launch's keys are divided among CTAs, warps and tiles, computed by every CTA for itself.
// Does not own: what is done with a tile (kernel.cuh) and how shares of one unit are merged (merge.cuh).
// Read next: merge.cuh.
//
// The work of a launch is a list of tiles of 16 tokens: for each sequence, for each bundle of KV heads and block of
// query rows (together a unit), the tiles of the keys that its tokens may see, at least one. CTA c of n takes positions
// [c * total / n, (c + 1) * total / n) of the list, so shares are equal up to one tile, whatever the lengths.
//
// A bundle is 1, 2, 4 or 8 neighbouring KV heads that a CTA walks together: the warps form one team a head, and the
// warps of a team take the tiles of the CTA's share in turn. A large bundle reads an NHD cache in wide rows and needs
// few merges; a small one divides little work evenly.
#pragma once

#include <climits>
#include <cstdint>

#include "config.h"
#include "params.h"

namespace qfuse::decode {

constexpr int kMaxStages = QF_DECODE_MAX_STAGES;
constexpr int kTile = QF_DECODE_TILE;
// With so many tiles in each CTA's share, rounding to whole tiles costs at most about 2 %.
constexpr int kTilesForBundle = 48;

struct Sequence {
    int length;          // keys, 0 when the sequence has no tokens
    int first_tile;      // tiles before are behind every token's window
    int tokens;          // query tokens
    int64_t first_token; // index of the first in q and out
};

// One unit as a team sees it: positions [begin, end) of the list.
struct Unit {
    int sequence;
    int index;   // within the sequence
    int kv_head; // the team's own
    int first_row;
    int begin, end;
};

// Query token of a row (token-major, then head of the group). group_magic = ceil(2^20 / group), exact for rows below
// 2^20 / group.
__device__ __forceinline__ int token_of(const qf_decode_params &p, int row) {
    return static_cast<int>(static_cast<unsigned>(row) * static_cast<unsigned>(p.group_magic) >> 20);
}

// A sequence's length and tokens as they lie in device memory, without any arithmetic that would wait for the loads.
// Like all reads of lengths past the first-level cache, which would keep what a predecessor is about to overwrite.
struct RawSequence {
    int length, begin, end;

    __device__ __forceinline__ RawSequence(const qf_decode_params &p, int b)
        : length(__ldcg(p.seq_lens + b)), begin(0), end(0) {
        if (p.q_start != nullptr) begin = __ldcg(p.q_start + b), end = __ldcg(p.q_start + b + 1);
    }

    __device__ __forceinline__ Sequence sequence(const qf_decode_params &p, int b) const;
};

// The query tokens of sequence b; none where q_start does not describe rows that this launch may touch.
__device__ __forceinline__ void set_tokens(const qf_decode_params &p, int b, int begin, int end, Sequence &s) {
    s.first_token = static_cast<int64_t>(b) * p.q_tokens;
    s.tokens = p.q_tokens;
    if (p.q_start == nullptr) return;
    const bool taken = begin >= 0 && end >= begin && end <= p.token_rows && end - begin <= p.q_tokens;
    s.first_token = begin;
    s.tokens = taken ? end - begin : 0;
}

__device__ __forceinline__ Sequence RawSequence::sequence(const qf_decode_params &p, int b) const {
    Sequence s;
    s.length = min(max(length, 0), p.max_kv_len);
    set_tokens(p, b, begin, end, s);
    if (s.tokens == 0) s.length = 0;
    s.first_tile = p.window_left >= 0 ? max(s.length - s.tokens - p.window_left, 0) / kTile : 0;
    return s;
}

__device__ __forceinline__ int tiles_of(const Sequence &s) {
    return max((s.length + kTile - 1) / kTile - s.first_tile, 1);
}

// The sequences in shared memory, three arrays of batch + 1 words: prefix sums of tiles, lengths, first tiles.
struct Sequences {
    int *prefix;
    int *length;
    int *first_tile;

    __device__ __forceinline__ Sequence load(const qf_decode_params &p, int b) const {
        Sequence s;
        s.length = length[b];
        s.first_tile = first_tile[b];
        int begin = 0, end = 0;
        if (p.q_start != nullptr) begin = __ldcg(p.q_start + b), end = __ldcg(p.q_start + b + 1);
        set_tokens(p, b, begin, end, s);
        return s;
    }

    __device__ __forceinline__ static bool single(const qf_decode_params &p) {
        return p.batch == 1;
    }
    __device__ __forceinline__ int begin_of(int b) const {
        return prefix[b];
    }
    __device__ __forceinline__ int tiles_of_unit(int b) const {
        return prefix[b + 1] - prefix[b];
    }

    __device__ __forceinline__ int first_tile_of(int b) const {
        return first_tile[b];
    }
    __device__ __forceinline__ int length_of(int b) const {
        return length[b];
    }

    // Whether sequence b differs from what the arrays were made from.
    __device__ __forceinline__ bool differs(int b, const Sequence &s) const {
        return s.length != length[b] || s.first_tile != first_tile[b];
    }

    // The sequence that holds tile `tile` of one unit a sequence: prefix[b] <= tile < prefix[b + 1].
    __device__ __forceinline__ int find(int batch, int tile) const {
        int low = 0, high = batch - 1;
#pragma unroll 1
        while (low < high) {
            const int middle = (low + high + 1) >> 1;
            if (prefix[middle] <= tile) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        return low;
    }
};

struct TileCounts {
    int total, largest; // over the batch
};

// Of the lanes up to this one.
__device__ __forceinline__ int inclusive_sum(int value) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int distance = 1; distance < 32; distance <<= 1) {
        const int other = __shfl_up_sync(~0u, value, distance);
        if (lane >= distance) value += other;
    }
    return value;
}

// Up to 32 sequences in the registers of a warp, one a lane: every warp makes its own, without a barrier. All lanes
// call together.
struct LaneSequences {
    RawSequence raw;
    Sequence own;      // the lane's sequence
    int prefix, tiles; // its tiles of one unit, and those of all before

    __device__ __forceinline__ LaneSequences(const qf_decode_params &p, const RawSequence &lengths)
        : raw(lengths), own(lengths.sequence(p, threadIdx.x & 31)), prefix(0), tiles(0) {
        const int lane = threadIdx.x & 31;
        if (lane < p.batch) tiles = tiles_of(own);
        prefix = inclusive_sum(tiles) - tiles;
    }

    __device__ __forceinline__ TileCounts counts(const qf_decode_params &p) const {
        const int total = __shfl_sync(~0u, prefix + tiles, p.batch - 1);
        return {total, __reduce_max_sync(~0u, tiles)};
    }

    __device__ __forceinline__ void add_extra(const qf_decode_params &p, int extra) {
        const int lane = threadIdx.x & 31;
        prefix += lane * extra;
        if (lane < p.batch) tiles += extra;
    }

    __device__ __forceinline__ static constexpr bool single(const qf_decode_params &) {
        return false;
    }
    // `b` may differ between lanes.
    __device__ __forceinline__ int begin_of(int b) const {
        return __shfl_sync(~0u, prefix, b);
    }
    __device__ __forceinline__ int tiles_of_unit(int b) const {
        return __shfl_sync(~0u, tiles, b);
    }
    __device__ __forceinline__ int first_tile_of(int b) const {
        return __shfl_sync(~0u, own.first_tile, b);
    }
    __device__ __forceinline__ int length_of(int b) const {
        return __shfl_sync(~0u, own.length, b);
    }
    __device__ __forceinline__ int find(int batch, int tile) const {
        int low = 0;
#pragma unroll 1
        for (int step = 16; step > 0; step >>= 1) {
            const int middle = low + step, before = __shfl_sync(~0u, prefix, middle);
            if (middle < batch && before <= tile) low = middle;
        }
        return low;
    }

    __device__ __forceinline__ Sequence load(const qf_decode_params &p, int b) const {
        Sequence s;
        s.length = length_of(b), s.first_tile = first_tile_of(b);
        set_tokens(p, b, __shfl_sync(~0u, raw.begin, b), __shfl_sync(~0u, raw.end, b), s);
        return s;
    }

    // One warp, for all.
    __device__ __forceinline__ void store(const qf_decode_params &p, const Sequences &sequences) const {
        const int lane = threadIdx.x & 31;
        if (lane >= p.batch) return;
        sequences.length[lane] = own.length;
        sequences.first_tile[lane] = own.first_tile;
        sequences.prefix[lane] = prefix;
        if (lane == p.batch - 1) sequences.prefix[lane + 1] = prefix + tiles;
    }
};

// The same for one sequence, which needs no exchange.
struct OneSequence {
    RawSequence raw;
    Sequence own;
    int tiles;

    __device__ __forceinline__ OneSequence(const qf_decode_params &p, const RawSequence &length)
        : raw(length), own(length.sequence(p, 0)), tiles(tiles_of(own)) {}

    __device__ __forceinline__ TileCounts counts(const qf_decode_params &) const {
        return {tiles, tiles};
    }
    __device__ __forceinline__ void add_extra(const qf_decode_params &, int extra) {
        tiles += extra;
    }
    __device__ __forceinline__ static constexpr bool single(const qf_decode_params &) {
        return true;
    }
    __device__ __forceinline__ int begin_of(int) const {
        return 0;
    }
    __device__ __forceinline__ int tiles_of_unit(int) const {
        return tiles;
    }
    __device__ __forceinline__ int first_tile_of(int) const {
        return own.first_tile;
    }
    __device__ __forceinline__ int length_of(int) const {
        return own.length;
    }
    __device__ __forceinline__ int find(int, int) const {
        return 0;
    }
    __device__ __forceinline__ Sequence load(const qf_decode_params &, int) const {
        return own;
    }
    __device__ __forceinline__ void store(const qf_decode_params &, const Sequences &sequences) const {
        if ((threadIdx.x & 31) != 0) return;
        sequences.length[0] = own.length;
        sequences.first_tile[0] = own.first_tile;
        sequences.prefix[0] = 0, sequences.prefix[1] = tiles;
    }
};

// What a segment costs beyond its tiles (query, merge, output), in tiles of one head at the pace of memory.
constexpr int kSegmentCost = 24;

struct PlanShared {
    int warp_totals[32];
    int warp_largest[32];
};

template <class C>
struct WorkPlan {
    int bundle_shift;        // a CTA walks 2^bundle_shift KV heads together
    int slices_shift;        // log2 of the warps of a team
    int units;               // units a sequence
    int active;              // CTAs with work
    int quotient, remainder; // the first `remainder` CTAs have quotient + 1 positions, the others quotient
    bool clustered;          // each cluster holds one unit, each of its CTAs an equal share
    bool idle;               // nothing to do for this CTA
    int begin, end;          // this CTA's share

    // Up to 32 sequences, whole warp.
    template <class FewSequences>
    __device__ __forceinline__ void divide(const qf_decode_params &p, FewSequences &sequences) {
        const TileCounts tiles = sequences.counts(p);
        const int extra = choose(p, tiles);
        if (extra > 0) sequences.add_extra(p, extra);
        take_share(p, sequences, tiles.total + p.batch * extra);
    }

    // Any number of sequences, whole CTA. Fills `sequences`, which lie in shared memory.
    __device__ __forceinline__ void divide(const qf_decode_params &p, const Sequences &sequences, PlanShared &shared) {
        const TileCounts tiles = scan_in_cta(p, sequences, shared);
        const int extra = choose(p, tiles);
        if (extra > 0) add_extra(p, sequences, extra);
        take_share(p, sequences, tiles.total + p.batch * extra);
    }

    // The CTA's first unit.
    template <class AnySequences>
    __device__ __forceinline__ Unit first_unit(const qf_decode_params &p, const AnySequences &sequences,
                                               int team) const {
        return clustered ? cluster_unit(p, sequences, team) : unit_at(p, sequences, begin, team);
    }

    template <class AnySequences>
    __device__ __forceinline__ Unit cluster_unit(const qf_decode_params &p, const AnySequences &sequences,
                                                 int team) const {
        const int number = blockIdx.x >> p.cluster_shift;
        const int sequence = sequences.single(p) ? 0 : static_cast<unsigned>(number) / static_cast<unsigned>(units);
        return make_unit(p, sequences, sequence, number - sequence * units, team);
    }

    __device__ __forceinline__ static int units_for(const qf_decode_params &p, int shift) {
        return (p.kv_heads >> shift) * p.row_blocks;
    }

    __device__ __forceinline__ int share_begin(int cta) const {
        return cta * quotient + min(cta, remainder);
    }

    // The CTA whose share holds a position.
    __device__ __forceinline__ int owner(int position) const {
        const int large = remainder * (quotient + 1);
        return position < large ? static_cast<unsigned>(position) / (quotient + 1u)
                                : remainder + static_cast<unsigned>(position - large) / static_cast<unsigned>(quotient);
    }

    template <class AnySequences>
    __device__ __forceinline__ Unit make_unit(const qf_decode_params &p, const AnySequences &sequences, int sequence,
                                              int index, int team) const {
        return make_unit(p, sequences.begin_of(sequence), sequences.tiles_of_unit(sequence), sequence, index, team);
    }

    // Of a sequence whose tiles of one unit begin at `start`.
    __device__ __forceinline__ Unit make_unit(const qf_decode_params &p, int start, int tiles, int sequence, int index,
                                              int team) const {
        Unit unit;
        int heads = index, block = 0;
        if (p.row_blocks > 1) {
            heads = static_cast<unsigned>(index) / static_cast<unsigned>(p.row_blocks);
            block = index - heads * p.row_blocks;
        }
        unit.sequence = sequence;
        unit.index = index;
        unit.kv_head = (heads << bundle_shift) + team;
        unit.first_row = block * C::kRows;
        unit.begin = start * units + index * tiles;
        unit.end = unit.begin + tiles;
        return unit;
    }

    template <class AnySequences>
    __device__ __forceinline__ Unit unit_at(const qf_decode_params &p, const AnySequences &sequences, int position,
                                            int team) const {
        const int tile = static_cast<unsigned>(position) / static_cast<unsigned>(units);
        const int sequence = sequences.find(p.batch, tile);
        const int start = sequences.begin_of(sequence), tiles = sequences.tiles_of_unit(sequence);
        const int index = static_cast<unsigned>(position - start * units) / static_cast<unsigned>(tiles);
        return make_unit(p, start, tiles, sequence, index, team);
    }

    // The unit after the last is the last itself.
    __device__ __forceinline__ Unit unit_after(const qf_decode_params &p, const Sequences &sequences, const Unit &unit,
                                               int team) const {
        const bool same = unit.index + 1 < units;
        if (!same && unit.sequence + 1 >= p.batch) return unit;
        return make_unit(p, sequences, same ? unit.sequence : unit.sequence + 1, same ? unit.index + 1 : 0, team);
    }

  private:
    // Chooses bundle and clusters; returns the virtual tiles of a unit, which stand for what a segment costs.
    __device__ __forceinline__ int choose(const qf_decode_params &p, const TileCounts &tiles) {
        bundle_shift = p.bundle_shift;
        if (!p.fixed_bundle) {
            while (bundle_shift > 0 &&
                   tiles.total * units_for(p, bundle_shift) < static_cast<int>(gridDim.x) * kTilesForBundle) {
                --bundle_shift;
            }
        }
        const bool uniform = tiles.largest * p.batch * 15 <= tiles.total * 16;
        clustered = p.cluster_shift > 0 && uniform && bundle_shift == 0;
        slices_shift = C::kWarpsShift - bundle_shift;
        units = units_for(p, bundle_shift);
        return uniform ? 0 : kSegmentCost >> bundle_shift;
    }

    // This CTA's share of `tiles` tiles of one unit a sequence.
    template <class AnySequences>
    __device__ __forceinline__ void take_share(const qf_decode_params &p, const AnySequences &sequences, int tiles) {
        if (clustered) {
            begin = end = 0;
            idle = static_cast<int>(blockIdx.x >> p.cluster_shift) >= p.batch * units;
            if (idle) return;
            // The CTA's share of the cluster's unit, equal up to a tile and possibly empty.
            const Unit unit = cluster_unit(p, sequences, 0);
            const int rank = blockIdx.x & ((1 << p.cluster_shift) - 1);
            const int all = unit.end - unit.begin, each = all >> p.cluster_shift;
            const int rest = all - (each << p.cluster_shift);
            begin = unit.begin + rank * each + min(rank, rest);
            end = begin + each + (rank < rest);
            return;
        }
        const unsigned total = tiles * units;
        active = min(p.active[bundle_shift], max(static_cast<int>(total >> p.tiles_a_cta_shift), 1));
        quotient = total / static_cast<unsigned>(active);
        remainder = total - quotient * active;
        begin = share_begin(blockIdx.x);
        end = static_cast<int>(blockIdx.x) < active ? share_begin(blockIdx.x + 1) : begin;
        idle = begin >= end;
    }

    __device__ __forceinline__ static void store(const Sequences &sequences, int b, const Sequence &s, int prefix) {
        sequences.length[b] = s.length;
        sequences.first_tile[b] = s.first_tile;
        sequences.prefix[b] = prefix;
    }

    __device__ __forceinline__ TileCounts scan_in_cta(const qf_decode_params &p, const Sequences &sequences,
                                                      PlanShared &shared) {
        const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
        const int each = (p.batch + C::kThreads - 1) / C::kThreads;
        const int first = min(thread * each, p.batch), last = min(first + each, p.batch);
        int sum = 0, largest = 0;
#pragma unroll 1
        for (int b = first; b < last; ++b) {
            const Sequence s = RawSequence(p, b).sequence(p, b);
            const int tiles = tiles_of(s);
            store(sequences, b, s, sum);
            sum += tiles;
            largest = max(largest, tiles);
        }
        const int inclusive = inclusive_sum(sum);
        largest = __reduce_max_sync(~0u, largest);
        if (lane == 31) shared.warp_totals[warp] = inclusive, shared.warp_largest[warp] = largest;
        __syncthreads();
        int before = 0, all = 0;
#pragma unroll
        for (int w = 0; w < C::kWarps; ++w) {
            if (w < warp) before += shared.warp_totals[w];
            all += shared.warp_totals[w];
            largest = max(largest, shared.warp_largest[w]);
        }
        before += inclusive - sum;
#pragma unroll 1
        for (int b = first; b < last; ++b) sequences.prefix[b] += before;
        if (thread == 0) sequences.prefix[p.batch] = all;
        __syncthreads();
        return {all, largest};
    }

    // Gives each sequence's units `extra` virtual tiles. Whole CTA.
    __device__ __forceinline__ static void add_extra(const qf_decode_params &p, const Sequences &sequences, int extra) {
        __syncthreads();
#pragma unroll 1
        for (int b = threadIdx.x; b <= p.batch; b += C::kThreads) sequences.prefix[b] += b * extra;
        __syncthreads();
    }
};

// The warps that share one KV head of a CTA's bundle.
struct Team {
    int index; // which head of the bundle
    int warp;  // which warp of the team
    int warps;
    int bundle_shift;

    Team() = default;
    __device__ __forceinline__ Team(int bundle_shift, int slices_shift, int cta_warp)
        : index(cta_warp >> slices_shift), warp(cta_warp & ((1 << slices_shift) - 1)), warps(1 << slices_shift),
          bundle_shift(bundle_shift) {}

    __device__ __forceinline__ int thread() const {
        return warp * 32 + (threadIdx.x & 31);
    }
    __device__ __forceinline__ int threads() const {
        return warps * 32;
    }
    __device__ __forceinline__ void sync() const {
        named_barrier_sync(1 + index, warps * 32);
    }
};

// Where a tile's bytes are: tokens from 16 * `slot` of page `page`, KV head and slot packed into `place`. A tile
// without keys has page -1, which lies outside the cache: its copy brings zeros.
struct TileSource {
    int page;
    uint32_t place; // head << 16 | slot

    __device__ __forceinline__ int token() const {
        return (place & 0xFFFF) * kTile;
    }
    __device__ __forceinline__ int kv_head() const {
        return place >> 16;
    }
};

// The tiles of one warp, in the order in which their copies are issued. Lane i knows every 32nd tile, one batch of 32
// ahead of use, so that the page table's latency is hidden.
template <class C>
class TileQueue {
  public:
    // `first_unit` holds the CTA's first position. Reads the page table for the first batch only.
    template <class AnySequences>
    __device__ __forceinline__ void start(const qf_decode_params &p, const WorkPlan<C> &plan,
                                          const AnySequences &sequences, const Team &team, const Unit &first_unit) {
        warp_ = team.warp;
        count_ = count_before(plan, plan.end);
        batch_ = 0;
        const int n = threadIdx.x & 31, at = n < count_ ? position(plan, n) : plan.begin;
        Unit unit = first_unit;
        if (__any_sync(~0u, at >= first_unit.end)) unit = plan.unit_at(p, sequences, at, team.index);
        entry_ =
            place_in(p, unit, at, sequences.first_tile_of(unit.sequence), sequences.length_of(unit.sequence), current_);
        if (n >= count_) entry_ = nullptr;
        current_.page = entry_ != nullptr ? __ldcg(entry_) : -1;
    }

    // The page that the table names now for this lane's tile of the first batch, and the one that `start` found.
    __device__ __forceinline__ int page_now() const {
        return entry_ != nullptr ? __ldcg(entry_) : -1;
    }
    __device__ __forceinline__ int page_found() const {
        return current_.page;
    }

    // Between the copies after `start` and the first `advance`: decodes the second batch.
    __device__ __forceinline__ void decode_ahead(const qf_decode_params &p, const WorkPlan<C> &plan,
                                                 const Sequences &sequences, const Team &team) {
        const int32_t *entry = locate(p, plan, sequences, team, batch_ + 32, next_);
        next_.page = entry != nullptr ? __ldcg(entry) : -1;
    }

    __device__ __forceinline__ int count() const {
        return count_;
    }
    // How many of the warp's tiles lie before a position of the list.
    __device__ __forceinline__ int count_before(const WorkPlan<C> &plan, int position) const {
        return max(position - plan.begin - warp_ + (1 << plan.slices_shift) - 1, 0) >> plan.slices_shift;
    }
    __device__ __forceinline__ int position(const WorkPlan<C> &plan, int n) const {
        return plan.begin + warp_ + (n << plan.slices_shift);
    }

    // Called by all lanes after the copy of tile n has been issued; takes up the next batch when it was the last of
    // one.
    __device__ __forceinline__ void advance(const qf_decode_params &p, const WorkPlan<C> &plan,
                                            const Sequences &sequences, const Team &team, int n) {
        if ((n & 31) != 31) return;
        current_ = next_;
        batch_ += 32;
        decode_ahead(p, plan, sequences, team);
    }

    // Of tile n of the current batch; the same for all lanes, which call together.
    __device__ __forceinline__ TileSource source(int n) const {
        return {__shfl_sync(~0u, current_.page, n & 31), __shfl_sync(~0u, current_.place, n & 31)};
    }

  private:
    // Finds this lane's tile of a batch; returns where the page table names its page, null for a tile without keys.
    __device__ __forceinline__ const int32_t *locate(const qf_decode_params &p, const WorkPlan<C> &plan,
                                                     const Sequences &sequences, const Team &team, int batch,
                                                     TileSource &source) const {
        const int n = batch + (threadIdx.x & 31), at = position(plan, n);
        if (n >= count_) return nullptr;
        const Unit unit = plan.unit_at(p, sequences, at, team.index);
        return place_in(p, unit, at, sequences.first_tile[unit.sequence], sequences.length[unit.sequence], source);
    }

    // The same for position `at`, in a unit of a sequence with this first tile and length.
    __device__ __forceinline__ static const int32_t *place_in(const qf_decode_params &p, const Unit &unit, int at,
                                                              int first_tile, int length, TileSource &source) {
        const int token = (first_tile + at - unit.begin) * kTile;
        source.place = unit.kv_head << 16 | (token & ((1 << p.page_shift) - 1)) / kTile;
        if (token >= length) return nullptr;
        return p.block_table + unit.sequence * p.block_table_stride + (token >> p.page_shift);
    }

    int warp_ = 0, count_ = 0, batch_ = 0;
    const int32_t *entry_ = nullptr;
    TileSource current_ = {-1, 0}, next_ = {-1, 0};
};

} // namespace qfuse::decode
