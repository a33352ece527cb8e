// Owns: the paged decode attention kernel: attention of a few query tokens over a paged KV cache, at memory speed.
// Does not own: parameters (params.h), the work map (work.cuh), the merge of partial results (merge.cuh), the choice
// of variant and workspace (select.h). Read next: work.cuh, then merge.cuh.
//
// Shape of the computation. Each warp works alone: it copies tiles of 16 tokens (K and V of one KV head) into its own
// ring by TMA, and runs, on 16-bit tensor-core operands with f32 accumulation,
//     S^T = K Q^T   (tokens x rows),   P = exp2(S^T * multiplier - reference + offset),   O^T += V^T P
// FP8 elements are exact in f16, so neither K, V nor an FP8 query is rounded again; P is rounded to f16 (bf16 for a
// bf16 cache). Nothing here passes through the FP8 tensor-core adder, whose truncation biases long sums.
//
// Two permutations make all shared-memory reads 16 bytes wide and free of bank conflicts and of shuffles:
//   head dim of S: a lane's 16-byte chunk of a K row feeds four (two) matrix steps; Q is loaded in the same order;
//   tokens: matrix row r of S^T is token order(r), and V's rows are read in that order.
// The only transposition is P's, two 8x8 blocks a tile in registers.
//
// Reference. `reference` (log2 domain, an integer) is raised only when a score exceeds it by more than kSlack, so the
// common path has no reduction over lanes; rescaling is by exact powers of two. P < 2^(kOffset + kSlack), within f16.
#pragma once

#include "config.h"
#include "kernels/cuda/common/barrier.cuh"
#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/common/mma_sync.cuh"
#include "kernels/cuda/common/shared_memory.cuh"
#include "kernels/cuda/common/tensor_copy.cuh"
#include "merge.cuh"
#include "params.h"
#include "work.cuh"

namespace qfuse::decode {

constexpr float kSlack = 8.0f;

// Tiles that a warp fetches into L2 while the launch waits for its predecessor.
#ifndef QF_DECODE_AHEAD
#define QF_DECODE_AHEAD 2
#endif
constexpr int kAhead = QF_DECODE_AHEAD;
// With fewer, none: what is then fetched is soon copied, and where no predecessor runs the two disturb each other.
constexpr int kLeastForAhead = 5;

// Tiles of a warp up to which its query is loaded before any tile is copied.
constexpr int kFewTiles = 2;

// Bench only: stages that are left out, to see what they cost. 1 the arithmetic of tiles, 2 all merges and the output,
// 4 the merge between CTAs.
#ifndef QF_DECODE_OMIT
#define QF_DECODE_OMIT 0
#endif

// With QF_DECODE_JITTER defined (tests only) a warp sleeps here for a random time of up to two microseconds.
__device__ __forceinline__ void jitter() {
#ifdef QF_DECODE_JITTER
    const uint32_t noise =
        (static_cast<uint32_t>(clock64()) + 7919 * (threadIdx.x >> 5) + 104729 * blockIdx.x) * 2654435761u;
    __nanosleep(noise >> 21);
    __syncwarp();
#endif
}

template <int KvDtype, int HeadDim, int RowTiles>
struct Config {
    static constexpr int kKvDtype = KvDtype;
    static constexpr int kHeadDim = HeadDim;
    static constexpr int kRowTiles = RowTiles;
    static constexpr int kRows = 8 * RowTiles;
    static constexpr bool kBf16 = KvDtype == QF_DECODE_BF16;
    static constexpr int kElementBytes = kBf16 ? 2 : 1;
    static constexpr int kRowBytes = HeadDim * kElementBytes;
    // A cached row is split into panels of at most 128 bytes, the widest swizzled box.
    static constexpr int kPanelBytes = kRowBytes < 128 ? kRowBytes : 128;
    static constexpr int kPanels = kRowBytes / kPanelBytes;
    static constexpr int kPanelTileBytes = QF_DECODE_TILE * kPanelBytes;
    static constexpr int kTileBytes = QF_DECODE_TILE * kRowBytes;
    static constexpr int kStageBytes = 2 * kTileBytes;
    static constexpr int kWarps = qf_decode_warps(kElementBytes, HeadDim);
    static constexpr int kWarpsShift = kWarps == 16 ? 4 : kWarps == 8 ? 3 : 2;
    static constexpr int kThreads = 32 * kWarps;
    static constexpr int kResidency = qf_decode_residency(kElementBytes, HeadDim, RowTiles);
    static constexpr int kSteps = HeadDim / 16; // matrix steps of S^T; also 16-row tiles of O^T
    static constexpr int kChunkElements = 16 / kElementBytes;
    static constexpr int kPanelChunks = kPanelBytes / 64; // 16-byte chunks of a K row panel that a lane reads
    static constexpr int kOwnWords = kPanelBytes / 32;    // 4-byte words of a V row panel that a lane reads
};

// Token (within 8) of matrix row r. With 128-byte rows, rows 2i and 2i+1 are four tokens apart, which puts the eight
// lanes of a 16-byte access on different banks.
template <class C>
__device__ __forceinline__ int token_of_row(int r) {
    return C::kPanelBytes == 128 ? (r >> 1) | ((r & 1) << 2) : r;
}

// Byte offset of a 16-byte chunk in a panel as TMA stores it (swizzle over 128 or 64 bytes).
template <class C>
__device__ __forceinline__ uint32_t chunk_offset(int token, int chunk) {
    if constexpr (C::kPanelBytes == 128) {
        return token * 128 + ((chunk ^ (token & 7)) << 4);
    } else {
        return token * 64 + ((chunk ^ ((token >> 1) & 3)) << 4);
    }
}

// First head-dim index of the elements that lane group g owns in O, within a panel.
template <class C>
__device__ __forceinline__ int own_element(int g) {
    return C::kPanelBytes == 128 ? C::kChunkElements * token_of_row<C>(g) : 8 * g;
}

__device__ __forceinline__ uint2 load_shared_8(uint32_t address) {
    uint2 v;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ void store_shared_16(uint32_t address, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

template <class C>
__device__ __forceinline__ uint32_t widen_low(uint32_t word) {
    return C::kKvDtype == QF_DECODE_E5M2 ? e5m2_low_to_f16x2(word) : e4m3_low_to_f16x2(word);
}

template <class C>
__device__ __forceinline__ uint32_t widen_high(uint32_t word) {
    return C::kKvDtype == QF_DECODE_E5M2 ? e5m2_high_to_f16x2(word) : e4m3_high_to_f16x2(word);
}

template <class C>
__device__ __forceinline__ uint32_t pack(float low, float high) {
    return C::kBf16 ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
}

// What a warp carries through a segment: query fragments, output, sums, references.
template <class C>
struct State {
    uint32_t q[C::kRowTiles][2 * C::kSteps]; // words 2j and 2j + 1 belong to step j
    float o[C::kRowTiles][C::kSteps][4];     // [.][i]: elements 2i, 2i+1 (c0/c1, c2/c3) of rows 2t, 2t+1
    float sum[C::kRowTiles][4];              // c0, c1: rows 2t, 2t+1
    float multiplier[C::kRowTiles][2];
    float reference[C::kRowTiles][2];
};

// Keys [full_begin, full_end) are visible to every token; tiles inside need no test.
struct Visibility {
    int full_begin, full_end;
};

__device__ __forceinline__ Visibility make_visibility(const qf_decode_params &p, const Sequence &sequence) {
    return {p.window_left >= 0 ? sequence.length - 1 - p.window_left : 0,
            p.causal ? sequence.length - sequence.tokens + 1 : sequence.length};
}

// Whether a token of the sequence sees a key.
__device__ __forceinline__ bool sees(const qf_decode_params &p, const Sequence &sequence, int token, int key) {
    const int aligned = sequence.length - sequence.tokens + token; // the token's own position
    const int end = min(p.causal ? aligned + 1 : sequence.length, sequence.length);
    return key < end && (p.window_left < 0 || key >= aligned - p.window_left);
}

// What a unit's scores and output are multiplied by.
template <class C>
struct LoadedScales {
    float q[C::kRowTiles]; // of row g
    float k;
    OutputScales out;
};

// First head-dim element of matrix step j for lane t of a group.
template <class C>
__device__ __forceinline__ constexpr int step_element(int j, int t) {
    constexpr int kChunkSteps = C::kChunkElements / 4, kPanelSteps = C::kPanelChunks * kChunkSteps;
    return j / kPanelSteps * (C::kPanelBytes / C::kElementBytes) +
           C::kChunkElements * (t + 4 * (j / kChunkSteps % C::kPanelChunks)) + 4 * (j % kChunkSteps);
}

// Where a unit's query and scales lie; null where there is nothing to load.
template <class C>
struct QueryPlaces {
    const uint8_t *q[C::kRowTiles];   // this lane's first element of row g
    const float *scale[C::kRowTiles]; // of row g
    const float *k_scale, *v_scale, *out_scale;
};

template <class C>
__device__ __forceinline__ QueryPlaces<C> locate_query(const qf_decode_params &p, const Unit &unit,
                                                       const Sequence &sequence) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    QueryPlaces<C> places;
    places.k_scale = p.k_scale != nullptr ? p.k_scale + unit.kv_head * p.k_scale_stride : nullptr;
    places.v_scale = p.v_scale != nullptr ? p.v_scale + unit.kv_head * p.v_scale_stride : nullptr;
    places.out_scale = p.out_scale != nullptr ? p.out_scale + unit.kv_head * p.out_scale_stride : nullptr;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
        const int row = unit.first_row + 8 * tile + g;
        const int token = token_of(p, row), head = unit.kv_head * p.group + row - token * p.group;
        const bool valid = token < sequence.tokens;
        const int64_t at = sequence.first_token + token;
        const int64_t element = at * p.q_token_stride + head * p.q_head_stride + step_element<C>(0, t);
        const int bytes = p.q_dtype == QF_DECODE_E4M3 ? 1 : 2;
        places.q[tile] = valid ? static_cast<const uint8_t *>(p.q) + element * bytes : nullptr;
        places.scale[tile] = valid && p.q_scale != nullptr
                                 ? p.q_scale + at * p.q_scale_token_stride + head * p.q_scale_head_stride +
                                       unit.kv_head * p.q_scale_stride
                                 : nullptr;
    }
    return places;
}

__device__ __forceinline__ float load_scale(const float *place) {
    return place != nullptr ? *place : 1.0f;
}

// Starts all loads of a unit's query. Nothing here waits for a load, so the words stay in the order in which they were
// loaded: of 16-bit elements, those of step j are words 2j and 2j + 1; of bytes, step j is word j.
template <class C>
__device__ __forceinline__ void load_query(const qf_decode_params &p, const QueryPlaces<C> &places,
                                           uint32_t (&q)[C::kRowTiles][2 * C::kSteps], LoadedScales<C> &scales) {
    scales.k = load_scale(places.k_scale);
    scales.out = {load_scale(places.v_scale), load_scale(places.out_scale), 0.0f};
    constexpr int kChunkSteps = C::kChunkElements / 4; // steps whose elements lie together
    const bool bytes = p.q_dtype == QF_DECODE_E4M3;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
        scales.q[tile] = load_scale(places.scale[tile]);
#pragma unroll
        for (int i = 0; i < 2 * C::kSteps; ++i) q[tile][i] = 0;
        const uint8_t *const source = places.q[tile];
        if (source == nullptr) continue;
#pragma unroll
        for (int i = 0; i < C::kSteps / 2; ++i) { // sixteen bytes each
            const int step = 2 * i, half = step % kChunkSteps / 2;
            const uint8_t *place = source + 2 * step_element<C>(step - 2 * half, 0) + 16 * half;
            if (kChunkSteps == 4 && i < C::kSteps / 4 && bytes) place = source + step_element<C>(4 * i, 0);
            if (bytes && (kChunkSteps != 4 || i >= C::kSteps / 4)) continue;
            const uint4 words = *reinterpret_cast<const uint4 *>(place);
            q[tile][4 * i] = words.x, q[tile][4 * i + 1] = words.y;
            q[tile][4 * i + 2] = words.z, q[tile][4 * i + 3] = words.w;
        }
        if constexpr (kChunkSteps != 4) {
            if (!bytes) continue;
#pragma unroll
            for (int j = 0; j < C::kSteps; j += 2) {
                const uint2 words = *reinterpret_cast<const uint2 *>(source + step_element<C>(j, 0));
                q[tile][j] = words.x, q[tile][j + 1] = words.y;
            }
        }
    }
}

// Four e4m3 elements as two packed pairs of the type that the matrix unit takes. Exact.
template <class C>
__device__ __forceinline__ uint2 widen_query(uint32_t word) {
    uint2 out = make_uint2(e4m3_low_to_f16x2(word), e4m3_high_to_f16x2(word));
    if constexpr (C::kBf16) {
        out.x = f32_to_bf16x2(f16_low_to_f32(out.x), f16_high_to_f32(out.x));
        out.y = f32_to_bf16x2(f16_low_to_f32(out.y), f16_high_to_f32(out.y));
    }
    return out;
}

// Converts one row's bf16 fragments to f16 after multiplication by the power of two that brings its largest magnitude
// to [2^7, 2^8); returns the inverse. Lanes of one row (same g) take part together.
template <class C>
__device__ __forceinline__ float bf16_query_to_f16(uint32_t (&q)[2 * C::kSteps]) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 2 * C::kSteps; ++i) {
        largest = fmaxf(largest, fmaxf(fabsf(bf16_low_to_f32(q[i])), fabsf(bf16_high_to_f32(q[i]))));
    }
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
    // Both factors stay normal numbers; a row of zeros (or subnormals) and infinities keep the nearest usable factor.
    exponent = min(max(exponent, -118), 126);
    const float factor = __uint_as_float(static_cast<uint32_t>(127 + 7 - exponent) << 23);
    const float inverse = __uint_as_float(static_cast<uint32_t>(127 - 7 + exponent) << 23);
#pragma unroll
    for (int i = 0; i < 2 * C::kSteps; ++i) {
        q[i] = f32_to_f16x2(bf16_low_to_f32(q[i]) * factor, bf16_high_to_f32(q[i]) * factor);
    }
    return inverse;
}

// Converts the loaded query rows in place and clears the accumulators.
template <class C>
__device__ __forceinline__ void begin_segment(const qf_decode_params &p, const LoadedScales<C> &scales,
                                              State<C> &state) {
    const int t = threadIdx.x & 3;
    const float cap = p.softcap > 0.0f ? __fdividef(2.0f, p.softcap) : 1.0f;
    const float common = p.softmax_scale * kLog2E * scales.k * cap;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
        if (p.q_dtype == QF_DECODE_E4M3) {
#pragma unroll
            for (int j = C::kSteps - 1; j >= 0; --j) {
                const uint2 words = widen_query<C>(state.q[tile][j]);
                state.q[tile][2 * j] = words.x, state.q[tile][2 * j + 1] = words.y;
            }
        }
        float scale = common * scales.q[tile];
        if (!C::kBf16 && p.q_dtype == QF_DECODE_BF16) scale *= bf16_query_to_f16<C>(state.q[tile]);
        // From "row g" to "rows 2t, 2t+1".
        state.multiplier[tile][0] = __shfl_sync(~0u, scale, 8 * t);
        state.multiplier[tile][1] = __shfl_sync(~0u, scale, 8 * t + 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) state.sum[tile][i] = 0.0f;
#pragma unroll
        for (int i = 0; i < 2; ++i) state.reference[tile][i] = kNoReference;
#pragma unroll
        for (int j = 0; j < C::kSteps; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) state.o[tile][j][i] = 0.0f;
        }
    }
}

// Where a lane reads in a ring stage, whose address is a multiple of 1024: its first K chunk and its first V words. The
// others are at fixed distances, partly by an exclusive or.
struct LanePlaces {
    uint32_t k, v;

    template <class C>
    __device__ __forceinline__ static LanePlaces make() {
        const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        LanePlaces places;
        places.k = chunk_offset<C>(token_of_row<C>(g), t);
        places.v = C::kTileBytes + (C::kPanelBytes == 128 ? chunk_offset<C>(token_of_row<C>(2 * t), token_of_row<C>(g))
                                                          : chunk_offset<C>(2 * t, g >> 1) + 8 * (g & 1));
        // Kept in registers: computed anew for every tile they would cost ten instructions.
        asm volatile("" : "+r"(places.k), "+r"(places.v));
        return places;
    }
};

// S^T of one tile from the K half of a ring stage.
template <class C>
__device__ __forceinline__ void scores(const State<C> &state, uint32_t stage, const LanePlaces &places,
                                       float (&s)[C::kRowTiles][4]) {
    const uint32_t first = stage + places.k;
    float odd[C::kRowTiles][4]; // two chains, so that the matrix unit's latency overlaps
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[tile][i] = odd[tile][i] = 0.0f;
    }
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
#pragma unroll
        for (int chunk = 0; chunk < C::kPanelChunks; ++chunk) {
            const uint32_t address = (first ^ (chunk << 6)) + panel * C::kPanelTileBytes;
            const uint4 low = load_shared_16(address), high = load_shared_16(address + 8 * C::kPanelBytes);
            const uint32_t a[4] = {low.x, low.y, low.z, low.w}, b[4] = {high.x, high.y, high.z, high.w};
            constexpr int kChunkSteps = C::kChunkElements / 4;
#pragma unroll
            for (int word = 0; word < kChunkSteps; ++word) {
                const int j = (panel * C::kPanelChunks + chunk) * kChunkSteps + word;
                uint32_t a0, a1, a2, a3;
                if constexpr (C::kBf16) {
                    a0 = a[2 * word], a2 = a[2 * word + 1], a1 = b[2 * word], a3 = b[2 * word + 1];
                } else {
                    a0 = widen_low<C>(a[word]), a2 = widen_high<C>(a[word]);
                    a1 = widen_low<C>(b[word]), a3 = widen_high<C>(b[word]);
                }
#pragma unroll
                for (int tile = 0; tile < C::kRowTiles; ++tile) {
                    mma_16x8x16<C::kBf16>(j & 1 ? odd[tile] : s[tile], a0, a1, a2, a3, state.q[tile][2 * j],
                                          state.q[tile][2 * j + 1]);
                }
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[tile][i] += odd[tile][i];
    }
}

// Score in the log2 domain of an accumulated product.
__device__ __forceinline__ float soft_capped(float x, float softcap) {
    // x carries the factor 2 log2(e) / softcap: tanh(y) = 1 - 2 / (exp(2y) + 1).
    return softcap * kLog2E * (1.0f - __fdividef(2.0f, exp2_approximate(fminf(x, 126.0f)) + 1.0f));
}

// Turns scores into P (unnormalised, offset by 2^kOffset), raising references and rescaling where needed.
template <class C>
__device__ __forceinline__ void exponentials(const qf_decode_params &p, const Segment &segment, bool masked,
                                             int first_key, State<C> &state, float (&s)[C::kRowTiles][4]) {
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[tile][i] = __fmul_rn(s[tile][i], state.multiplier[tile][i & 1]);
    }
    if (p.softcap > 0.0f) {
#pragma unroll
        for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
            for (int i = 0; i < 4; ++i) s[tile][i] = soft_capped(s[tile][i], p.softcap);
        }
    }
    if (masked) {
#pragma unroll
        for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = first_key + token_of_row<C>(g) + 8 * (i >> 1);
                const int token = token_of(p, segment.unit.first_row + 8 * tile + 2 * t + (i & 1));
                if (!sees(p, segment.sequence, token, key)) s[tile][i] = -INFINITY;
            }
        }
    }
    float x[C::kRowTiles][4], largest_x = 0.0f;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[tile][i] = __fadd_rn(s[tile][i], kOffset - state.reference[tile][i & 1]);
            largest_x = fmaxf(largest_x, x[tile][i]);
        }
    }
    if (__any_sync(~0u, largest_x > kOffset + kSlack)) {
#pragma unroll
        for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float largest = fmaxf(s[tile][i], s[tile][i + 2]);
                largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 4));
                largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 8));
                largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 16));
                const float reference = fmaxf(state.reference[tile][i], ceilf(largest));
                const float factor = exp2_approximate(state.reference[tile][i] - reference);
                state.reference[tile][i] = reference;
                state.sum[tile][i] *= factor, state.sum[tile][i + 2] *= factor;
#pragma unroll
                for (int j = 0; j < C::kSteps; ++j) {
                    state.o[tile][j][i] *= factor, state.o[tile][j][i + 2] *= factor;
                }
                x[tile][i] = __fadd_rn(s[tile][i], kOffset - reference);
                x[tile][i + 2] = __fadd_rn(s[tile][i + 2], kOffset - reference);
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[tile][i] = exp2_approximate(x[tile][i]);
    }
}

// A tile of V as a lane reads it: for matrix rows 2t, 2t+1, 2t+8, 2t+9, its words of each panel.
template <class C>
struct Values {
    uint32_t words[C::kPanels][4][C::kOwnWords];

    __device__ __forceinline__ static int token(int r) {
        return token_of_row<C>(2 * (threadIdx.x & 3) + (r & 1)) + 8 * (r >> 1);
    }

    // From the V half of a ring stage.
    __device__ __forceinline__ void load(uint32_t stage, const LanePlaces &places) {
        const uint32_t first = stage + places.v;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            // Rows 2t + 1 are four tokens after rows 2t (one, with 64-byte rows), the others eight after these.
            constexpr uint32_t kFlip = C::kPanelBytes == 128 ? 64 : 0, kStep = C::kPanelBytes == 128 ? 4 * 128 : 64;
            const uint32_t row = (first ^ (r & 1) * kFlip) + (r & 1) * kStep + (r >> 1) * 8 * C::kPanelBytes;
#pragma unroll
            for (int panel = 0; panel < C::kPanels; ++panel) {
                const uint32_t address = row + panel * C::kPanelTileBytes;
                uint32_t(&v)[C::kOwnWords] = words[panel][r];
                if constexpr (C::kOwnWords == 4) {
                    const uint4 loaded = load_shared_16(address);
                    v[0] = loaded.x, v[1] = loaded.y, v[2] = loaded.z, v[3] = loaded.w;
                } else {
                    const uint2 loaded = load_shared_8(address);
                    v[0] = loaded.x, v[1] = loaded.y;
                }
            }
        }
    }

    // Replaces tokens from `keys` on, whose bytes may be anything, also NaN, by zero.
    __device__ __forceinline__ void clear_from(int keys) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (token(r) < keys) continue;
#pragma unroll
            for (int panel = 0; panel < C::kPanels; ++panel) {
#pragma unroll
                for (int w = 0; w < C::kOwnWords; ++w) words[panel][r][w] = 0;
            }
        }
    }
};

// O^T += V^T P and the row sums.
template <class C>
__device__ __forceinline__ void accumulate(State<C> &state, const Values<C> &values,
                                           const float (&s)[C::kRowTiles][4]) {
    uint32_t b[C::kRowTiles][2];
    const uint32_t one = C::kBf16 ? 0x3F803F80u : 0x3C003C00u;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
        b[tile][0] = transpose_8x8(pack<C>(s[tile][0], s[tile][1]));
        b[tile][1] = transpose_8x8(pack<C>(s[tile][2], s[tile][3]));
        mma_16x8x16<C::kBf16>(state.sum[tile], one, one, one, one, b[tile][0], b[tile][1]);
    }
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        const auto &v = values.words[panel];
#pragma unroll
        for (int w = 0; w < C::kOwnWords; ++w) {
            constexpr int kPairs = C::kBf16 ? 1 : 2;
            uint32_t a[kPairs][4];
            if constexpr (C::kBf16) {
                a[0][0] = __byte_perm(v[0][w], v[1][w], 0x5410), a[0][1] = __byte_perm(v[0][w], v[1][w], 0x7632);
                a[0][2] = __byte_perm(v[2][w], v[3][w], 0x5410), a[0][3] = __byte_perm(v[2][w], v[3][w], 0x7632);
            } else {
#pragma unroll
                for (int pair = 0; pair < 2; ++pair) {
                    const uint32_t low = __byte_perm(v[0][w], v[1][w], pair == 0 ? 0x5140 : 0x7362);
                    const uint32_t high = __byte_perm(v[2][w], v[3][w], pair == 0 ? 0x5140 : 0x7362);
                    a[pair][0] = widen_low<C>(low), a[pair][1] = widen_high<C>(low);
                    a[pair][2] = widen_low<C>(high), a[pair][3] = widen_high<C>(high);
                }
            }
#pragma unroll
            for (int pair = 0; pair < kPairs; ++pair) {
                const int i = (panel * C::kOwnWords + w) * kPairs + pair;
#pragma unroll
                for (int tile = 0; tile < C::kRowTiles; ++tile) {
                    mma_16x8x16<C::kBf16>(state.o[tile][i], a[pair][0], a[pair][1], a[pair][2], a[pair][3], b[tile][0],
                                          b[tile][1]);
                }
            }
        }
    }
}

// Adds one tile. `release` is called once the ring stage has been read, which is before most of the work.
template <class C, class Release>
__device__ __forceinline__ void process_tile(const qf_decode_params &p, const Segment &segment,
                                             const Visibility &visibility, int first_key, const LanePlaces &places,
                                             uint32_t stage, State<C> &state, Release release) {
    const bool masked = first_key < visibility.full_begin || first_key + QF_DECODE_TILE > visibility.full_end;
    const bool empty = first_key >= segment.sequence.length; // nothing was copied then
    float s[C::kRowTiles][4];
    Values<C> values;
    if (!empty) {
        scores<C>(state, stage, places, s);
        values.load(stage, places);
    }
    release();
    if (empty) return;
    exponentials<C>(p, segment, masked, first_key, state, s);
    if (masked) values.clear_from(segment.sequence.length - first_key);
    accumulate<C>(state, values, s);
}

// Leaves the warp's part of a segment in shared memory: references and sums, and, where it has processed a tile, O in
// the scratch at `offset`.
template <class C>
__device__ __forceinline__ void store_state(const State<C> &state, const SharedLayout<C> &layout, int warp,
                                            uint32_t offset, bool any_tile) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    if (lane == 0) layout.output_offset(warp) = offset;
    const uint32_t base = shared_address(layout.base) + offset;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = 8 * tile + 2 * t + i;
            if (row >= layout.rows) continue;
            if (g == 0) layout.state(warp, row) = {state.reference[tile][i], state.sum[tile][i]};
            if (!any_tile) continue;
#pragma unroll
            for (int j = 0; j < C::kSteps; j += 2) {
                constexpr int kPanelElements = C::kPanelBytes / C::kElementBytes;
                constexpr int kOwn = kPanelElements / 8, kOwnVectors = kOwn / 4 < 4 ? kOwn / 4 : 4;
                const int panel = 2 * j / kOwn, vector = 2 * j % kOwn / 4;
                // One address for each run of kOwnVectors, the others by an exclusive or.
                const int first = (panel * kPanelElements + own_element<C>(g)) / 4 + vector / kOwnVectors * kOwnVectors;
                const uint32_t place = base + SharedLayout<C>::place(row, first) ^ (vector % kOwnVectors * 16);
                store_shared_16(place, state.o[tile][j][i], state.o[tile][j][i + 2], state.o[tile][j + 1][i],
                                state.o[tile][j + 1][i + 2]);
            }
        }
    }
}

// Starts the copy of the warp's tile number n. Whole warp: the lane that decoded the tile tells the others, so that its
// place is uniform and one lane can issue without a loop over lanes.
template <class C>
__device__ __forceinline__ void start_copy(const qf_decode_params &p, const TileQueue<C> &queue, int n, uint32_t stage,
                                           uint32_t barrier) {
    const TileSource source = queue.source(n);
    if (!elect_lane()) return;
    if (source.page < 0) {
        barrier_arrive(barrier); // a tile without keys
        return;
    }
    const uint64_t policy = p.row_blocks > 1 ? kEvictNormal : kEvictFirst;
    barrier_arrive_expect(barrier, C::kStageBytes);
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        tensor_copy_4d(stage + panel * C::kPanelTileBytes, &p.k_map, panel * C::kPanelBytes, source.token(),
                       source.kv_head(), source.page, barrier, policy);
    }
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        tensor_copy_4d(stage + C::kTileBytes + panel * C::kPanelTileBytes, &p.v_map, panel * C::kPanelBytes,
                       source.token(), source.kv_head(), source.page, barrier, policy);
    }
}

// Starts the fetch of the warp's tile number n into L2.
template <class C>
__device__ __forceinline__ void prefetch_tile(const qf_decode_params &p, const TileQueue<C> &queue, int n) {
    const TileSource source = queue.source(n);
    if (source.page < 0 || !elect_lane()) return;
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        tensor_prefetch_4d(&p.k_map, panel * C::kPanelBytes, source.token(), source.kv_head(), source.page);
        tensor_prefetch_4d(&p.v_map, panel * C::kPanelBytes, source.token(), source.kv_head(), source.page);
    }
}

// Launch: grid = CTAs that fit at once (one or two an SM), kThreads threads, dynamic shared memory by
// qf_decode_shared_bytes; programmatic stream serialisation allowed.
template <class C>
__device__ __forceinline__ void paged_decode(const qf_decode_params &p) {
    extern __shared__ __align__(1024) uint8_t shared[];
    __shared__ __align__(8) uint64_t barriers[C::kWarps * kMaxStages];
    __shared__ PlanShared plan_shared;
    __shared__ WorkPlan<C> plan; // in shared memory to spare registers: rarely used once tiles flow
    __shared__ __align__(8) uint64_t inbox_barrier;
    __shared__ Segment notes[C::kWarps][kSegmentNotes];
    QF_DECODE_STAMP(kEntry);
    // First of all, so that it travels during the set-up. What may be read so early: see the work map below.
    RawSequence lengths(p, min(static_cast<int>(threadIdx.x & 31), p.batch - 1));
    // Broadcast, so that the compiler knows that a warp's number is the same in all its lanes.
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;

    const uint32_t ring = shared_address(shared) + warp * p.stages * C::kStageBytes;
    const uint32_t warp_barriers = shared_address(barriers + warp * kMaxStages);
    if (elect_lane()) {
#pragma unroll 1
        for (int n = 0; n < p.stages; ++n) barrier_init(warp_barriers + 8 * n, 1);
        if (warp == 1) barrier_init(shared_address(&inbox_barrier), 1);
        barrier_init_fence();
        if (warp == 2) tensor_map_prefetch(&p.k_map);
        if (warp == 3) tensor_map_prefetch(&p.v_map);
    }
    __syncwarp();
    if (p.cluster_shift > 0) cluster_arrive();
    QF_DECODE_STAMP(kReady);

    launch_dependents();

    // The work map is made while the predecessor still runs, from lengths and a page table that it may yet change, and
    // used before the wait only to fetch tiles into L2, which stays coherent with what is written meanwhile. After the
    // wait copies start by this map at once; while they travel, lengths and pages are read again, and if any differs,
    // what has come is dropped and all is done anew.
    const SharedLayout<C> layout(shared, p);
    const Inbox inbox = Inbox::make(p, layout, shared_address(&inbox_barrier));
    if (threadIdx.x == 32 && p.cluster_shift > 0) inbox.expect(layout.rows);
    TileQueue<C> queue;
    Team team = {};
    State<C> state;
    LoadedScales<C> scales;
    Segment *const own_notes = notes[warp];
    int note = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (bool released = false;; parity ^= 1) {
        // In registers until the copies have started, so that few sequences need no barrier before.
        WorkPlan<C> mine;
        Unit unit = {};
        Sequence sequence;
        const auto begin = [&](const auto &sequences) {
            QF_DECODE_STAMP(kDivided);
            team = Team(mine.bundle_shift, mine.slices_shift, warp);
            if (!mine.idle) unit = mine.first_unit(p, sequences, team.index);
            queue.start(p, mine, sequences, team, unit);
            sequence = sequences.load(p, unit.sequence);
        };
        Sequence own_sequence; // of the sequence that this lane (thread) verifies
        const auto begin_few = [&](auto sequences) {
            mine.divide(p, sequences);
            begin(sequences);
            if (warp == 0) sequences.store(p, layout.sequences);
            own_sequence = sequences.own;
        };
        if (p.batch == 1) {
            begin_few(OneSequence(p, lengths));
        } else if (p.batch <= 32) {
            begin_few(LaneSequences(p, lengths));
        } else {
            mine.divide(p, layout.sequences, plan_shared);
            begin(layout.sequences);
            const int own = min(static_cast<int>(threadIdx.x), p.batch - 1);
            own_sequence.length = layout.sequences.length[own],
            own_sequence.first_tile = layout.sequences.first_tile[own];
        }
        if (threadIdx.x == 0) plan = mine;
        QF_DECODE_STAMP(kStarted);
        const auto note_first = [&] {
            if (lane == 0) own_notes[kFirstSegment].shares.count = own_notes[kLastSegment].shares.count = 0;
            note = note_segment<C>(mine, unit, sequence, mine.begin, 0, own_notes);
            QF_DECODE_STAMP(kNoted);
        };
        if (mine.clustered) note_first(); // which is little then
        QueryPlaces<C> places = locate_query<C>(p, unit, sequence);
        if (!released) {
#pragma unroll 1
            for (int n = 0; n < (queue.count() >= kLeastForAhead ? kAhead : 0); ++n) prefetch_tile<C>(p, queue, n);
            QF_DECODE_STAMP(kPlanned);
            wait_for_predecessor();
            QF_DECODE_STAMP(kReleased);
            released = true;
        }
        // Loads first: behind the copies they would wait for memory. But one copy goes before the query, which is
        // waited for no longer than that copy; where there is hardly more than one, it is the query that is waited for.
        const int first_copies = queue.count() > kFewTiles ? 1 : 0;
        const int page_now = queue.page_now(),
                  own = min(p.batch <= 32 ? lane : static_cast<int>(threadIdx.x), p.batch - 1);
        const RawSequence now(p, own);
        if (first_copies > 0) start_copy<C>(p, queue, 0, ring, warp_barriers);
        if (p.q_start != nullptr) { // read before the wait as well
            set_tokens(p, unit.sequence, __ldcg(p.q_start + unit.sequence), __ldcg(p.q_start + unit.sequence + 1),
                       sequence);
            places = locate_query<C>(p, unit, sequence);
            if (mine.clustered && lane == 0) own_notes[note].sequence = sequence;
        }
        load_query<C>(p, places, state.q, scales);
#pragma unroll 1
        for (int n = first_copies; n < min(p.stages, queue.count()); ++n) {
            start_copy<C>(p, queue, n, ring + n * C::kStageBytes, warp_barriers + 8 * n);
        }
        if (!mine.clustered) note_first();
        QF_DECODE_STAMP(kCopied);
        const Sequence now_sequence = now.sequence(p, own);
        bool changed = page_now != queue.page_found() || now_sequence.length != own_sequence.length ||
                       now_sequence.first_tile != own_sequence.first_tile;
#pragma unroll 1
        for (int rest = threadIdx.x + C::kThreads; rest < p.batch; rest += C::kThreads) {
            changed |= layout.sequences.differs(rest, RawSequence(p, rest).sequence(p, rest));
        }
        if (!__syncthreads_or(changed)) break;
#pragma unroll 1
        for (int n = 0; n < p.stages; ++n) { // every stage's barrier completes one phase
            if (n >= queue.count() && lane == 0) barrier_arrive(warp_barriers + 8 * n);
            barrier_wait(warp_barriers + 8 * n, parity);
        }
        lengths = RawSequence(p, min(lane, p.batch - 1));
    }
    team = Team(plan.bundle_shift, plan.slices_shift, warp);
    queue.decode_ahead(p, plan, layout.sequences, team);
    QF_DECODE_STAMP(kVerified);
    // Where nothing is sent; otherwise just before (finish_in_cluster).
    if (p.cluster_shift > 0 && (plan.idle || !plan.clustered)) cluster_wait();
    if (plan.idle) return;

    const LanePlaces places = LanePlaces::make<C>();
    QF_DECODE_STAMP(kIssued);
    int n = 0, stage = 0;
    // Every piece of code below exists once: instruction fetch is what short launches wait for.
    for (;;) {
        Segment &segment = own_notes[note];
        const Visibility visibility = make_visibility(p, segment.sequence);
        const int n_end = queue.count_before(plan, min(plan.end, segment.unit.end)),
                  step = QF_DECODE_TILE << plan.slices_shift;
        int first_key = (segment.sequence.first_tile + queue.position(plan, n) - segment.unit.begin) * QF_DECODE_TILE;
        begin_segment<C>(p, scales, state);
        if (lane == 0) segment.scales = {scales.out.v, scales.out.out, __frcp_rn(scales.out.out)};
        QF_DECODE_STAMP(kQuery);
#pragma unroll 1
        for (; n < n_end; ++n, first_key += step) {
            const uint32_t buffer = ring + stage * C::kStageBytes, barrier = warp_barriers + 8 * stage;
            jitter();
            barrier_wait(barrier, parity);
            jitter();
            QF_DECODE_STAMP(kData);
            const auto release = [&] {
                // All lanes have read the stage before the next copy overwrites it.
                __syncwarp();
                // The segment's last stage becomes the warp's scratch first.
                if (n + 1 < n_end && n + p.stages < queue.count()) {
                    start_copy<C>(p, queue, n + p.stages, buffer, barrier);
                    queue.advance(p, plan, layout.sequences, team, n + p.stages);
                }
            };
            if (QF_DECODE_OMIT & 1) {
                release();
            } else {
                process_tile<C>(p, segment, visibility, first_key, places, buffer, state, release);
            }
            if (++stage == p.stages) stage = 0, parity ^= 1;
        }
        QF_DECODE_STAMP(kTiles);
        // What the loop does not need is read from memory again, which spares registers.
        const bool last = segment.unit.end >= plan.end, any_tile = n > segment.first_tile;
        if (!last) { // the next query travels during the merge
            const Unit unit = plan.unit_after(p, layout.sequences, segment.unit, team.index);
            load_query<C>(p, locate_query<C>(p, unit, layout.sequences.load(p, unit.sequence)), state.q, scales);
        }
        const int used = stage == 0 ? p.stages - 1 : stage - 1;
        jitter();
        store_state<C>(state, layout, warp, layout.scratch_offset(p, warp, used), any_tile);
        if (!last) async_proxy_fence(); // the ring stage will be copied into again
        jitter();
        QF_DECODE_STAMP(kStored);
        if (QF_DECODE_OMIT & 2) {
        } else if (plan.clustered) {
            finish_in_cluster<C>(p, team, layout, inbox, segment);
        } else {
            finish_segment<C>(p, team, layout, segment);
        }
        QF_DECODE_STAMP(kFinished);
        if (last) break;
        if (any_tile && n - 1 + p.stages < queue.count()) {
            start_copy<C>(p, queue, n - 1 + p.stages, ring + used * C::kStageBytes, warp_barriers + 8 * used);
            queue.advance(p, plan, layout.sequences, team, n - 1 + p.stages);
        }
        const Unit unit = plan.unit_after(p, layout.sequences, segment.unit, team.index);
        __syncwarp(); // the note may be written again
        note = note_segment<C>(plan, unit, layout.sequences.load(p, unit.sequence), unit.begin, n, own_notes);
        __syncwarp();
    }
    jitter();
    if (!plan.clustered && !(QF_DECODE_OMIT & 6)) hand_over<C>(p, team, layout, own_notes);
    QF_DECODE_STAMP(kLeft);
#ifdef QF_DECODE_STAMPS
    __syncwarp();
    if (lane < QF_DECODE_STAMP_COUNT) {
        reinterpret_cast<long long *>(p.lse)[(blockIdx.x * C::kWarps + warp) * QF_DECODE_STAMP_COUNT + lane] =
            stamps[warp][lane];
    }
#endif
}

} // namespace qfuse::decode
