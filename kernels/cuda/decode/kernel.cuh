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
#include "kernels/cuda/common/tensor_copy.cuh"
#include "merge.cuh"
#include "params.h"
#include "work.cuh"

namespace qfuse::decode {

constexpr float kSlack = 8.0f;

// With QF_DECODE_STAMPS defined (bench only) every warp notes the SM clock at the ends of its stages and writes the
// notes over `lse`: kStampCount 64-bit words a warp. Undefined, no code.
enum Stamp {
    kEntry,
    kReady,
    kReleased,
    kPlanned,
    kIssued,
    kQuery,
    kData,
    kTiles,
    kStored,
    kFinished,
    kLeft,
    kStampCount
};
#ifdef QF_DECODE_STAMPS
#define QF_DECODE_STAMP(which)                                                                                         \
    do {                                                                                                               \
        if ((threadIdx.x & 31) == 0) stamps[threadIdx.x >> 5][which] = clock64();                                      \
    } while (0)
#else
#define QF_DECODE_STAMP(which) static_cast<void>(0)
#endif

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

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

__device__ __forceinline__ uint2 load_shared_8(uint32_t address) {
    uint2 v;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
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
    uint32_t q[C::kRowTiles][C::kSteps][2];
    float o[C::kRowTiles][C::kSteps][4]; // [.][i]: elements 2i, 2i+1 (c0/c1, c2/c3) of rows 2t, 2t+1
    float sum[C::kRowTiles][4];          // c0, c1: rows 2t, 2t+1
    float multiplier[C::kRowTiles][2];
    float reference[C::kRowTiles][2];
    int token[C::kRowTiles][2]; // query tokens of rows 2t, 2t+1, for masks
};

// Which keys query token 0 may see, and which tiles need no test.
struct Visibility {
    int length;               // keys of the sequence
    int end, begin;           // of token 0
    int end_step;             // what a later token adds to `end`: 1 causal, 0 not; `begin` always moves by one
    int full_begin, full_end; // tiles inside are visible to every token
};

__device__ __forceinline__ Visibility make_visibility(const qf_decode_params &p, const Sequence &sequence) {
    Visibility v;
    v.length = sequence.length;
    v.end_step = p.causal;
    v.end = p.causal ? sequence.length - sequence.tokens + 1 : sequence.length;
    v.begin = p.window_left >= 0 ? sequence.length - sequence.tokens - p.window_left : INT_MIN / 2;
    v.full_end = v.end;
    v.full_begin = p.window_left >= 0 ? sequence.length - 1 - p.window_left : 0;
    return v;
}

// The query rows of a unit as they lie in memory.
template <class C>
struct RawQuery {
    uint2 words[C::kRowTiles][C::kSteps]; // four elements: two words of 16-bit elements, or one of bytes in .x
    float scale[C::kRowTiles];            // q scale of row g
    float k_scale;
    OutputScales out;
};

// First head-dim element of matrix step j for lane t of a group.
template <class C>
__device__ __forceinline__ constexpr int step_element(int j, int t) {
    constexpr int kChunkSteps = C::kChunkElements / 4, kPanelSteps = C::kPanelChunks * kChunkSteps;
    return j / kPanelSteps * (C::kPanelBytes / C::kElementBytes) +
           C::kChunkElements * (t + 4 * (j / kChunkSteps % C::kPanelChunks)) + 4 * (j % kChunkSteps);
}

// Starts all loads of a unit's query; nothing here waits for one.
template <class C>
__device__ __forceinline__ void load_query(const qf_decode_params &p, const Unit &unit, const Sequence &sequence,
                                           RawQuery<C> &raw) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    raw.k_scale = p.k_scale != nullptr ? p.k_scale[unit.kv_head * p.k_scale_stride] : 1.0f;
    raw.out = load_output_scales(p, unit.kv_head);
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
        const int row = unit.first_row + 8 * tile + g;
        const int token = token_of(p, row), head = unit.kv_head * p.group + row - token * p.group;
        const bool valid = token < sequence.tokens;
        const int64_t base = (sequence.first_token + token) * p.q_token_stride + head * p.q_head_stride;
        raw.scale[tile] = 1.0f;
        if (p.q_scale != nullptr && valid) {
            raw.scale[tile] = p.q_scale[(sequence.first_token + token) * p.q_scale_token_stride +
                                        head * p.q_scale_head_stride + unit.kv_head * p.q_scale_stride];
        }
        if (p.q_dtype == QF_DECODE_E4M3) {
            const uint8_t *source = static_cast<const uint8_t *>(p.q) + base;
#pragma unroll
            for (int j = 0; j < C::kSteps; ++j) {
                raw.words[tile][j] = make_uint2(0, 0);
                if (valid) raw.words[tile][j].x = *reinterpret_cast<const uint32_t *>(source + step_element<C>(j, t));
            }
        } else {
            const uint16_t *source = static_cast<const uint16_t *>(p.q) + base;
#pragma unroll
            for (int j = 0; j < C::kSteps; ++j) {
                raw.words[tile][j] = make_uint2(0, 0);
                if (valid) raw.words[tile][j] = *reinterpret_cast<const uint2 *>(source + step_element<C>(j, t));
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
__device__ __forceinline__ float bf16_query_to_f16(uint32_t (&q)[C::kSteps][2]) {
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < C::kSteps; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            largest = fmaxf(largest, fmaxf(fabsf(bf16_low_to_f32(q[j][i])), fabsf(bf16_high_to_f32(q[j][i]))));
        }
    }
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
    // Both factors stay normal numbers; a row of zeros (or subnormals) and infinities keep the nearest usable factor.
    exponent = min(max(exponent, -118), 126);
    const float factor = __uint_as_float(static_cast<uint32_t>(127 + 7 - exponent) << 23);
    const float inverse = __uint_as_float(static_cast<uint32_t>(127 - 7 + exponent) << 23);
#pragma unroll
    for (int j = 0; j < C::kSteps; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            q[j][i] = f32_to_f16x2(bf16_low_to_f32(q[j][i]) * factor, bf16_high_to_f32(q[j][i]) * factor);
        }
    }
    return inverse;
}

// Loads and converts the query rows of a unit and clears the accumulators.
template <class C>
__device__ __forceinline__ void begin_segment(const qf_decode_params &p, const Unit &unit, const Sequence &sequence,
                                              State<C> &state, OutputScales &scales) {
    const int t = threadIdx.x & 3;
    RawQuery<C> raw;
    load_query<C>(p, unit, sequence, raw);
    scales = raw.out;
    const float cap = p.softcap > 0.0f ? 2.0f / p.softcap : 1.0f;
    const float common = p.softmax_scale * kLog2E * raw.k_scale * cap;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int j = 0; j < C::kSteps; ++j) {
            const uint2 words = p.q_dtype == QF_DECODE_E4M3 ? widen_query<C>(raw.words[tile][j].x) : raw.words[tile][j];
            state.q[tile][j][0] = words.x;
            state.q[tile][j][1] = words.y;
        }
        float scale = common * raw.scale[tile];
        if (!C::kBf16 && p.q_dtype == QF_DECODE_BF16) scale *= bf16_query_to_f16<C>(state.q[tile]);
        // From "row g" to "rows 2t, 2t+1".
        state.multiplier[tile][0] = __shfl_sync(~0u, scale, 8 * t);
        state.multiplier[tile][1] = __shfl_sync(~0u, scale, 8 * t + 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) state.sum[tile][i] = 0.0f;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            state.reference[tile][i] = kNoReference;
            state.token[tile][i] = token_of(p, unit.first_row + 8 * tile + 2 * t + i);
        }
#pragma unroll
        for (int j = 0; j < C::kSteps; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) state.o[tile][j][i] = 0.0f;
        }
    }
}

// S^T of one tile from the K half of a ring stage.
template <class C>
__device__ __forceinline__ void scores(const State<C> &state, uint32_t stage, float (&s)[C::kRowTiles][4]) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const uint32_t lane_offset = chunk_offset<C>(token_of_row<C>(g), t);
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
            const uint32_t address = stage + panel * C::kPanelTileBytes + (lane_offset ^ (chunk << 6));
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
                    mma_16x8x16<C::kBf16>(j & 1 ? odd[tile] : s[tile], a0, a1, a2, a3, state.q[tile][j][0],
                                          state.q[tile][j][1]);
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
__device__ __forceinline__ void exponentials(const qf_decode_params &p, const Visibility &visibility, bool masked,
                                             int first_key, State<C> &state, float (&s)[C::kRowTiles][4]) {
    const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[tile][i] *= state.multiplier[tile][i & 1];
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
                const int key = first_key + token_of_row<C>(g) + 8 * (i >> 1), token = state.token[tile][i & 1];
                const int end = min(visibility.end + token * visibility.end_step, visibility.length);
                if (key >= end || key < visibility.begin + token) s[tile][i] = -INFINITY;
            }
        }
    }
    float x[C::kRowTiles][4];
    bool above = false;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[tile][i] = s[tile][i] + (kOffset - state.reference[tile][i & 1]);
            above |= x[tile][i] > kOffset + kSlack;
        }
    }
    if (__any_sync(~0u, above)) {
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
                x[tile][i] = s[tile][i] + (kOffset - reference);
                x[tile][i + 2] = s[tile][i + 2] + (kOffset - reference);
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[tile][i] = exp2_approximate(x[tile][i]);
    }
}

// O^T += V^T P and the row sums, from the V half of a ring stage. `keys` = tokens of the tile that exist: the others'
// bytes may be anything, also NaN, and are replaced by zero (masked tiles only).
template <class C>
__device__ __forceinline__ void accumulate(State<C> &state, uint32_t stage, bool masked, int keys,
                                           const float (&s)[C::kRowTiles][4]) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    uint32_t b[C::kRowTiles][2];
    const uint32_t one = C::kBf16 ? 0x3F803F80u : 0x3C003C00u;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
        b[tile][0] = transpose_8x8(pack<C>(s[tile][0], s[tile][1]));
        b[tile][1] = transpose_8x8(pack<C>(s[tile][2], s[tile][3]));
        mma_16x8x16<C::kBf16>(state.sum[tile], one, one, one, one, b[tile][0], b[tile][1]);
    }
    // Tokens that this lane supplies: matrix rows 2t, 2t+1, 2t+8, 2t+9.
    int token[4];
    uint32_t offset[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        token[r] = token_of_row<C>(2 * t + (r & 1)) + 8 * (r >> 1);
        offset[r] = C::kPanelBytes == 128 ? chunk_offset<C>(token[r], token_of_row<C>(g))
                                          : chunk_offset<C>(token[r], g >> 1) + 8 * (g & 1);
    }
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        uint32_t v[4][C::kOwnWords];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const uint32_t address = stage + C::kTileBytes + panel * C::kPanelTileBytes + offset[r];
            if constexpr (C::kOwnWords == 4) {
                const uint4 words = load_shared_16(address);
                v[r][0] = words.x, v[r][1] = words.y, v[r][2] = words.z, v[r][3] = words.w;
            } else {
                const uint2 words = load_shared_8(address);
                v[r][0] = words.x, v[r][1] = words.y;
            }
        }
        if (masked) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
#pragma unroll
                for (int w = 0; w < C::kOwnWords; ++w) v[r][w] = token[r] < keys ? v[r][w] : 0;
            }
        }
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

template <class C>
__device__ __forceinline__ void process_tile(const qf_decode_params &p, const Visibility &visibility, int first_key,
                                             uint32_t stage, State<C> &state) {
    const bool masked = first_key < visibility.full_begin || first_key + QF_DECODE_TILE > visibility.full_end;
    float s[C::kRowTiles][4];
    scores<C>(state, stage, s);
    exponentials<C>(p, visibility, masked, first_key, state, s);
    accumulate<C>(state, stage, masked, visibility.length - first_key, s);
}

// Writes the warp's part of a segment to its scratch: references and sums by row, then O by row.
template <class C>
__device__ __forceinline__ void store_state(const State<C> &state, const Scratch &scratch, int rows) {
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int tile = 0; tile < C::kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = 8 * tile + 2 * t + i;
            if (row >= rows) continue;
            if (g == 0) {
                scratch.reference(row) = state.reference[tile][i];
                scratch.sum(row) = state.sum[tile][i];
            }
#pragma unroll
            for (int j = 0; j < C::kSteps; j += 2) {
                constexpr int kPanelElements = C::kPanelBytes / C::kElementBytes;
                constexpr int kOwn = kPanelElements / 8;
                const int panel = 2 * j / kOwn, element = 2 * j % kOwn;
                const int d = panel * kPanelElements + own_element<C>(g) + element;
                *reinterpret_cast<float4 *>(&scratch.output(row, d)) = make_float4(
                    state.o[tile][j][i], state.o[tile][j][i + 2], state.o[tile][j + 1][i], state.o[tile][j + 1][i + 2]);
            }
        }
    }
}

// Starts the copy of the warp's tile number n; the lane that decoded the tile issues it.
template <class C>
__device__ __forceinline__ void start_copy(const qf_decode_params &p, const TileQueue<C> &queue, int n, uint32_t stage,
                                           uint32_t barrier, uint64_t policy) {
    if ((threadIdx.x & 31) != (n & 31)) return;
    const TileSource source = queue.source(n);
    if (source.page < 0) {
        barrier_arrive(barrier); // a tile without keys
        return;
    }
    barrier_arrive_expect(barrier, C::kStageBytes);
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        tensor_copy_4d(stage + panel * C::kPanelTileBytes, &p.k_map, panel * C::kPanelBytes, source.slot,
                       source.kv_head, source.page, barrier, policy);
    }
#pragma unroll
    for (int panel = 0; panel < C::kPanels; ++panel) {
        tensor_copy_4d(stage + C::kTileBytes + panel * C::kPanelTileBytes, &p.v_map, panel * C::kPanelBytes,
                       source.slot, source.kv_head, source.page, barrier, policy);
    }
}

// Parameters live in a constant bank that is cold at every launch: each warp touches one 64-byte line of what follows
// the tensor maps, so that the misses overlap instead of stopping the warps one after the other.
__device__ __forceinline__ void warm_parameters(const qf_decode_params &p) {
    const int *words = reinterpret_cast<const int *>(&p.q);
    constexpr int kWords = (sizeof(qf_decode_params) - offsetof(qf_decode_params, q)) / 4;
    const int index = (threadIdx.x >> 5) * 16;
    if (index < kWords) {
        const int word = words[index];
        asm volatile("" ::"r"(word));
    }
}

// A small page table may lie in device memory while its sequences' lengths are still unknown: fetches all of it.
__device__ __forceinline__ void prefetch_table(const qf_decode_params &p) {
    const int64_t entry = static_cast<int64_t>(threadIdx.x) * 32;
    const int64_t entries = p.batch * p.block_table_stride;
    if (entries <= blockDim.x * 32 && entry < entries) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(p.block_table + entry));
    }
}

// Launch: grid = CTAs that fit at once (one an SM), kThreads threads, dynamic shared memory by qf_decode_shared_bytes;
// programmatic stream serialisation allowed.
template <class C>
__device__ __forceinline__ void paged_decode(const qf_decode_params &p) {
    extern __shared__ __align__(1024) uint8_t shared[];
    __shared__ __align__(8) uint64_t barriers[C::kWarps * kMaxStages];
    __shared__ PlanShared plan_shared;
    __shared__ Handover handovers[8][2]; // by team: the CTA's first segment, and its last
#ifdef QF_DECODE_STAMPS
    __shared__ long long stamps[C::kWarps][kStampCount];
#endif
    QF_DECODE_STAMP(kEntry);
    // Broadcast, so that the compiler knows that a warp's number is the same in all its lanes.
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;

    const uint32_t ring = shared_address(shared) + warp * p.stages * C::kStageBytes;
    const uint32_t warp_barriers = shared_address(barriers + warp * kMaxStages);
    if (lane < p.stages) barrier_init(warp_barriers + 8 * lane, 1);
    barrier_init_fence();
    warm_parameters(p);
    if (threadIdx.x == 0) {
        tensor_map_prefetch(&p.k_map);
        tensor_map_prefetch(&p.v_map);
    }
    __syncwarp();
    QF_DECODE_STAMP(kReady);
    launch_dependents();
    wait_for_predecessor();
    QF_DECODE_STAMP(kReleased);
    prefetch_table(p);

    const SharedLayout<C> layout(shared, p);
    WorkPlan<C> plan(p, layout.sequences, plan_shared);
    QF_DECODE_STAMP(kPlanned);
    if (plan.idle) return;

    const Team team(plan.bundle_shift, plan.slices_shift, warp);
    if (team.thread() == 0) handovers[team.index][0].shares.count = handovers[team.index][1].shares.count = 0;
    Unit unit = plan.first_unit(p, layout.sequences, team.index);
    TileQueue<C> queue(p, plan, layout.sequences, team, unit);
    const uint64_t policy = p.row_blocks > 1 ? kEvictNormal : kEvictFirst;
#pragma unroll 1
    for (int n = 0; n < min(p.stages, queue.count()); ++n) {
        start_copy<C>(p, queue, n, ring + n * C::kStageBytes, warp_barriers + 8 * n, policy);
    }

    QF_DECODE_STAMP(kIssued);
    const Scratch scratch = layout.scratch(warp);
    State<C> state;
    int n = 0, stage = 0;
    uint32_t parity = 0;
    // Every piece of code below exists once: instruction fetch is what short launches wait for.
    for (int position = plan.begin;;) {
        const Sequence sequence = layout.sequences.load(p, unit.sequence);
        const int segment_end = min(plan.end, unit.end);
        const Visibility visibility = make_visibility(p, sequence);
        const bool whole = position == unit.begin && segment_end == unit.end;
        Shares shares = {};
        if (!whole && !plan.clustered) shares = plan_shares(plan, unit); // while the first tiles travel
        OutputScales scales;
        begin_segment<C>(p, unit, sequence, state, scales);
        QF_DECODE_STAMP(kQuery);
#pragma unroll 1
        for (; n < queue.count() && queue.position(n) < segment_end; ++n) {
            const int first_key = (sequence.first_tile + queue.position(n) - unit.begin) * QF_DECODE_TILE;
            const uint32_t buffer = ring + stage * C::kStageBytes, barrier = warp_barriers + 8 * stage;
            barrier_wait(barrier, parity);
            QF_DECODE_STAMP(kData);
            if (first_key < sequence.length) process_tile<C>(p, visibility, first_key, buffer, state);
            // All lanes have read the stage before the next copy overwrites it.
            __syncwarp();
            queue.advance(p, plan, layout.sequences, n);
            if (n + p.stages < queue.count()) start_copy<C>(p, queue, n + p.stages, buffer, barrier, policy);
            if (++stage == p.stages) stage = 0, parity ^= 1;
        }
        QF_DECODE_STAMP(kTiles);
        store_state<C>(state, scratch, layout.rows);
        QF_DECODE_STAMP(kStored);
        if (plan.clustered) {
            // One segment a CTA. The ring is free: all copies have arrived and been used.
            const Scratch own = {reinterpret_cast<float *>(shared), layout.rows, scratch.pitch};
            finish_in_cluster<C>(p, team, layout, own, unit, sequence, scales);
            QF_DECODE_STAMP(kFinished);
            break;
        }
        finish_segment<C>(p, team, layout, unit, sequence, scales, shares,
                          handovers[team.index][position == plan.begin ? 0 : 1]);
        QF_DECODE_STAMP(kFinished);
        position = segment_end;
        if (position >= plan.end) break;
        unit = plan.unit_after(p, layout.sequences, unit, team.index);
    }
    if (!plan.clustered) hand_over<C>(p, team, layout, handovers[team.index]);
    QF_DECODE_STAMP(kLeft);
#ifdef QF_DECODE_STAMPS
    __syncwarp();
    if (lane < kStampCount) {
        reinterpret_cast<long long *>(p.lse)[(blockIdx.x * C::kWarps + warp) * kStampCount + lane] = stamps[warp][lane];
    }
#endif
}

} // namespace qfuse::decode
