// Owns: attention of 16-bit and FP8 operands on 16-bit tensor cores, right for every attribute, on every GPU target.
// Does not own: f32 and mixed 16-bit operands, head dims above 256 (attention_plain.cu), fast attention (decode,
// prefill). Read next: attention.cuh.
//
// One CTA has 64 rows of one KV head (its query heads one after another) and at most 128 elements of the values; each
// of its four warps has 16 rows. K and V come in tiles of 64 keys, widened exactly to f16 (or bf16) on their way into
// shared memory. Sums are f32; a tile's P V is summed from zero and then added, so that long sums keep f32's accuracy.
// P is given to the tensor cores as the sum of two 16-bit numbers where it is not FP8, so it has at least 16 bits.
// p=graph and p=kernel need the whole row's sum or maximum before P is rounded: a first pass over the keys finds it.
// Values that are infinite or NaN are zero in shared memory; their tile adds them one by one to the rows that see them.
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/common/mma_sync.cuh"

namespace qfuse::attention {

constexpr int kRows = QF_ATTENTION_TENSOR_ROWS, kKeys = QF_ATTENTION_TENSOR_KEYS,
              kThreads = QF_ATTENTION_TENSOR_THREADS;
constexpr int kChunk = QF_ATTENTION_CHUNK;
constexpr int kScorePitch = QF_ATTENTION_SCORE_PITCH, kResultPitch = QF_ATTENTION_RESULT_PITCH;
constexpr int kValuePitch = QF_ATTENTION_VALUE_PITCH;
constexpr float kHalfOffset = 14.0f;           // p=none in f16: P up to 2^14, so that small ones keep their bits
constexpr uint32_t kHiddenScore = 0xFFFFFFFFu; // a NaN that no arithmetic gives
static_assert(kThreads == 2 * kRows && kKeys == kRows, "a warp has 16 rows; two threads describe a key");

// Element offsets in k and v of the keys of a tile; -1: zeros.
struct Keys {
    int64_t k[kKeys], v[kKeys];
};

struct Shared {
    Rows<kRows> rows;
    Keys keys;
    RowEnd ends[kRows];
    uint16_t table[3][256]; // the 16-bit numbers of the FP8 codes of q, k, v
};

// ------------------------------------------------------------------------------------------------------------ elements

__device__ __forceinline__ uint32_t narrow_pair(bool bf16, float low, float high) {
    return bf16 ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
}

__device__ __forceinline__ float widen_16(bool bf16, uint32_t code) {
    return bf16 ? float_of(code << 16) : f16_low_to_f32(code);
}

__device__ __forceinline__ void fill_table(bool bf16, int dtype, uint16_t *table) {
#pragma unroll 1
    for (int code = threadIdx.x; code < 256; code += kThreads)
        table[code] = static_cast<uint16_t>(narrow_pair(bf16, decode_f32(dtype, code), 0.0f) & 0xFFFF);
}

// Infinite and NaN elements of a pair become zero; true if there was one.
__device__ __forceinline__ bool clear_odd(bool bf16, uint32_t &pair) {
    const uint32_t odd = ((pair & 0x7FFF7FFFu) + (bf16 ? 0x00800080u : 0x04000400u)) & 0x80008000u;
    pair &= ~((odd >> 15) * 0xFFFFu);
    return odd != 0;
}

// A matrix in global memory whose rows lie anywhere.
struct Source {
    const void *data;
    bool wide, e4m3,
        aligned;      // 16-bit elements; else e4m3 that an instruction widens to f16, or any FP8 through the table
    int first, count; // elements of each row
    const uint16_t *table;
};

__device__ __forceinline__ Source make_source(const void *data, int dtype, bool bf16, bool aligned, int first,
                                              int count, const uint16_t *table) {
    const bool wide = dtype == QF_F16 || dtype == QF_BF16;
#if __CUDA_ARCH__ >= 890
    return {data, wide, dtype == QF_F8E4M3FN && !bf16, aligned, first, count, table};
#else
    return {data, wide, false, aligned, first, count, table};
#endif
}

// One element as 16 bits.
__device__ __forceinline__ uint32_t load_16(const Source &source, int64_t index) {
    return source.wide ? static_cast<const uint16_t *>(source.data)[index]
                       : source.table[static_cast<const uint8_t *>(source.data)[index]];
}

__device__ __forceinline__ uint32_t widen_pair(const Source &source, uint32_t codes) {
#if __CUDA_ARCH__ >= 890
    if (source.e4m3) return e4m3_low_to_f16x2(codes);
#endif
    return static_cast<uint32_t>(source.table[codes & 0xFF]) | static_cast<uint32_t>(source.table[codes >> 8 & 0xFF])
                                                                   << 16;
}

// Eight elements from `offset` on, the first `count` of them, one by one; the rest is zero.
__device__ __forceinline__ uint4 load_scattered(const Source &source, int64_t offset, int count) {
    uint4 words = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (int j = 7; j >= 0; --j) { // shifts the elements in, the last first
        words.w = __funnelshift_l(words.z, words.w, 16), words.z = __funnelshift_l(words.y, words.z, 16);
        words.y = __funnelshift_l(words.x, words.y, 16), words.x <<= 16;
        if (j < count) words.x |= load_16(source, offset + j);
    }
    return words;
}

// Copies 64 rows (at offsets[row], -1: zeros) into shared memory, each padded with zeros to a multiple of 16 elements.
// Eight threads copy a row, a thread four rows at a time. clean: infinite and NaN elements become zero. True if this
// thread met one.
__device__ __forceinline__ bool load_matrix(const Source &source, bool bf16, bool clean, const int64_t *offsets,
                                            uint16_t *to, int pitch) {
    constexpr int kRowThreads = 8, kStep = kThreads / kRowThreads, kTogether = kRows / kStep;
    const int first_row = threadIdx.x / kRowThreads, padded = (source.count + 15) / 16 * 16;
    int64_t offset[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) offset[i] = offsets[first_row + i * kStep];
    bool odd = false;
#pragma unroll 1
    for (int element = threadIdx.x % kRowThreads * 8; element < padded; element += kRowThreads * 8) {
        const int64_t at = source.first + element;
        uint4 words[kTogether];
        if (source.aligned && source.wide) {
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                words[i] = make_uint4(0, 0, 0, 0);
                if (offset[i] >= 0 && element < source.count)
                    words[i] =
                        *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(source.data) + offset[i] + at);
            }
        } else if (source.aligned) {
            uint2 codes[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                codes[i] = make_uint2(0, 0);
                if (offset[i] >= 0 && element < source.count)
                    codes[i] =
                        *reinterpret_cast<const uint2 *>(static_cast<const uint8_t *>(source.data) + offset[i] + at);
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i)
                words[i] = make_uint4(widen_pair(source, codes[i].x), widen_pair(source, codes[i].x >> 16),
                                      widen_pair(source, codes[i].y), widen_pair(source, codes[i].y >> 16));
        } else {
#pragma unroll
            for (int i = 0; i < kTogether; ++i)
                words[i] = load_scattered(source, offset[i] + at, offset[i] >= 0 ? source.count - element : 0);
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (clean) {
                odd |= clear_odd(bf16, words[i].x), odd |= clear_odd(bf16, words[i].y);
                odd |= clear_odd(bf16, words[i].z), odd |= clear_odd(bf16, words[i].w);
            }
            *reinterpret_cast<uint4 *>(to + (first_row + i * kStep) * pitch + element) = words[i];
        }
    }
    return odd;
}

// ------------------------------------------------------------------------------------------------------------ products

__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], const uint16_t *at) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_transposed(uint32_t (&out)[4], const uint16_t *at) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void multiply(bool bf16, float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                         uint32_t b0, uint32_t b1) {
    if (bf16)
        mma_16x8x16<true>(c, a0, a1, a2, a3, b0, b1);
    else
        mma_16x8x16<false>(c, a0, a1, a2, a3, b0, b1);
}

// Products of a warp's 16 rows with 64 keys: s[n] is the C fragment of keys 8n .. 8n + 7.
__device__ __forceinline__ void multiply_keys(bool bf16, const uint16_t *q, const uint16_t *k, int pitch, int depth,
                                              float (&s)[8][4]) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row = lane & 7, matrix = lane >> 3;
    const uint16_t *q_at = q + (warp * 16 + (matrix & 1) * 8 + row) * pitch + (matrix >> 1) * 8;
    const uint16_t *k_at = k + ((matrix >> 1) * 8 + row) * pitch + (matrix & 1) * 8;
#pragma unroll
    for (int n = 0; n < 8; ++n) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll 1
    for (int d = 0; d < depth; d += 16) {
        uint32_t a[4], b[4][4];
        load_matrices(a, q_at + d);
#pragma unroll
        for (int n = 0; n < 4; ++n) load_matrices(b[n], k_at + n * 16 * pitch + d);
        const auto all = [&](bool is_bf16) {
#pragma unroll
            for (int n = 0; n < 8; ++n)
                multiply(is_bf16, s[n], a[0], a[1], a[2], a[3], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        };
        if (bf16)
            all(true);
        else
            all(false);
    }
}

// o = o * alpha + P V with P = high + low; `split`: low is not zero.
__device__ __forceinline__ void multiply_values(bool bf16, bool split, const uint16_t *v, int count,
                                                const uint32_t (&high)[8][2], const uint32_t (&low)[8][2],
                                                const float (&alpha)[2], float (&o)[16][4]) {
    const int lane = threadIdx.x & 31, row = lane & 7, matrix = lane >> 3;
    const uint16_t *v_at = v + ((matrix & 1) * 8 + row) * kValuePitch + (matrix >> 1) * 8;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        if (n * 16 >= count) continue;
        float t[2][4] = {}, rest[2][4] = {}; // four chains of matrix instructions
        uint32_t b[4][4];
#pragma unroll
        for (int key = 0; key < 4; ++key) load_transposed(b[key], v_at + key * 16 * kValuePitch + n * 16);
        const auto all = [&](bool is_bf16, const uint32_t(&part)[8][2], float(&sum)[2][4]) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int key = i / 2, half = i % 2;
                multiply(is_bf16, sum[half], part[2 * key][0], part[2 * key][1], part[2 * key + 1][0],
                         part[2 * key + 1][1], b[key][2 * half], b[key][2 * half + 1]);
            }
        };
        if (bf16) {
            if (split) all(true, low, rest);
            all(true, high, t);
        } else {
            if (split) all(false, low, rest);
            all(false, high, t);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i)
            o[2 * n + i / 4][i % 4] =
                fmaf(o[2 * n + i / 4][i % 4], alpha[i % 4 / 2], t[i / 4][i % 4] + rest[i / 4][i % 4]);
    }
}

// Adds the infinite and NaN values of a tile to the rows that see them. `p_rows`: P of the CTA's rows in shared memory.
__device__ __forceinline__ void add_odd_values(const Source &source, bool bf16, const Keys &keys, const float *p_rows,
                                               float (&o)[16][4]) {
    const int lane = threadIdx.x & 31, row = (threadIdx.x >> 5) * 16 + (lane >> 2);
#pragma unroll 1
    for (int key = 0; key < kKeys; ++key) {
        if (keys.v[key] < 0) continue;
        const float p[2] = {p_rows[row * kScorePitch + key], p_rows[(row + 8) * kScorePitch + key]};
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            const int element = n / 2 * 8 + 2 * (lane & 3) + n % 2;
            if (element >= source.count) continue;
            const float value = widen_16(bf16, load_16(source, keys.v[key] + source.first + element));
            if (fabsf(value) <= kLargest) continue;
            if (bits_of(p[0]) != kHiddenP) o[n / 2][n % 2] += p[0] * value;
            if (bits_of(p[1]) != kHiddenP) o[n / 2][2 + n % 2] += p[1] * value;
        }
    }
}

// -------------------------------------------------------------------------------------------------------------- kernel

__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// Row, within the tile, of a thread's fragments; the other is 8 further.
__device__ __forceinline__ int own_row() {
    return (threadIdx.x >> 5) * 16 + ((threadIdx.x & 31) >> 2);
}

// Scores, then P, of a thread's two rows. Sums are of the thread's own columns until a pass ends.
struct Tile {
    float s[8][4];
    uint32_t hidden; // bit 4n + i: of s[n][i]
    float alpha[2];

    // Place of s[n][i] in 64 rows of scores in shared memory.
    __device__ __forceinline__ static int place(int n, int i) {
        return (own_row() + 8 * (i >> 1)) * kScorePitch + 8 * n + 2 * (threadIdx.x & 3) + (i & 1);
    }

    // Products become scores, keys that a row does not see -infinity.
    __device__ __forceinline__ void finish(const Params &p, const Rows<kRows> &rows, int first_key, float factor,
                                           float *scores) {
#pragma unroll
        for (int i = 0; i < 32; ++i) s[i / 4][i % 4] *= factor;
        if (p.softcap > 0.0f) {
#pragma unroll
            for (int i = 0; i < 32; ++i) s[i / 4][i % 4] = soft_capped(s[i / 4][i % 4], p.softcap);
        }
        hidden = 0;
        if (p.bias != nullptr || p.mask != nullptr)
            add_bias(p, rows, first_key, scores);
        else if (first_key < rows.full_begin || first_key + kKeys > rows.full_end)
            hide(rows, first_key);
    }

    __device__ __forceinline__ void hide(const Rows<kRows> &rows, int first_key) {
        const int r = own_row(), column = first_key + 2 * (threadIdx.x & 3);
        const int first[2] = {rows.first[r], rows.first[r + 8]}, last[2] = {rows.last[r], rows.last[r + 8]};
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int key = column + i / 4 * 8 + i % 2, half = i % 4 / 2;
            if (key >= first[half] && key < last[half]) continue;
            s[i / 4][i % 4] = -kInfinity;
            hidden |= 1u << i;
        }
    }

    // Through shared memory, so that bias and mask are read along the keys. `scores` is the keys' own memory.
    __device__ __forceinline__ void add_bias(const Params &p, const Rows<kRows> &rows, int first_key, float *scores) {
        __syncthreads(); // the keys were read
#pragma unroll
        for (int i = 0; i < 32; ++i) scores[place(i / 4, i % 4)] = s[i / 4][i % 4];
        __syncwarp();
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll 1
        for (int i = lane; i < 16 * kKeys; i += 32) {
            const int r = warp * 16 + i / kKeys, at = r * kScorePitch + i % kKeys;
            bool is_hidden;
            const float score = biased(p, rows, r, first_key + i % kKeys, scores[at], is_hidden);
            scores[at] = is_hidden ? float_of(kHiddenScore) : score;
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const float score = scores[place(i / 4, i % 4)];
            const bool is_hidden = bits_of(score) == kHiddenScore;
            s[i / 4][i % 4] = is_hidden ? -kInfinity : score;
            hidden |= static_cast<uint32_t>(is_hidden) << i;
        }
        __syncwarp();
    }

    __device__ __forceinline__ void note_keys(Softmax (&row)[2]) const {
        row[0].any |= (hidden & 0x33333333u) != 0x33333333u;
        row[1].any |= (hidden & 0xCCCCCCCCu) != 0xCCCCCCCCu;
    }

    __device__ __forceinline__ float largest(int half) const {
        float most = -kInfinity;
#pragma unroll
        for (int n = 0; n < 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        return quad_max(most);
    }

    // p=kernel, first pass: the reference alone.
    __device__ __forceinline__ void raise_kernel_reference(Softmax (&row)[2]) const {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            row[half].reference = fmaxf(row[half].reference, ceilf(log2_score(largest(half))));
    }

    // p=none, and p=graph's first pass: running reference and sum; scores become P.
    __device__ __forceinline__ void make_natural(float offset, Softmax (&row)[2]) {
        float base[2], sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float reference = fmaxf(row[half].reference, largest(half));
            alpha[half] = row[half].reference == -kInfinity ? 0.0f : exp2f((row[half].reference - reference) * kLog2E);
            row[half].reference = reference;
            base[half] = reference == -kInfinity ? 0.0f : reference;
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int half = i % 4 / 2;
            s[i / 4][i % 4] = natural_p(s[i / 4][i % 4], base[half], offset);
            sum[half] += s[i / 4][i % 4];
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) row[half].sum = fmaf(row[half].sum, alpha[half], sum[half]);
    }

    // p=graph and p=kernel, second pass: rounded P. multiplier (p=graph): of exponentials.
    __device__ __forceinline__ void make_rounded(const Params &p, const Rounding &rounding, const float (&reference)[2],
                                                 const float (&multiplier)[2], Softmax (&row)[2]) {
        alpha[0] = alpha[1] = 1.0f;
        float sum[2] = {0.0f, 0.0f};
        const bool kernel = p.p_mode == kKernel;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int half = i % 4 / 2;
            float &x = s[i / 4][i % 4];
            const float exponent = kernel ? kernel_exponent(x, reference[half]) : (x - reference[half]) * kLog2E;
            const float rounded = rounding(exp2f(exponent) * multiplier[half]);
            x = hidden >> i & 1 ? 0.0f : rounded;
            sum[half] += x;
        }
        if (kernel) row[0].sum += sum[0], row[1].sum += sum[1];
    }

    __device__ __forceinline__ void split(bool bf16, bool twice, uint32_t (&high)[8][2], uint32_t (&low)[8][2]) const {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float a = s[i / 2][i % 2 * 2], b = s[i / 2][i % 2 * 2 + 1];
            const uint32_t pair = narrow_pair(bf16, a, b);
            high[i / 2][i % 2] = pair;
            low[i / 2][i % 2] = narrow_pair(bf16, a - widen_16(bf16, pair & 0xFFFF), b - widen_16(bf16, pair >> 16));
        }
    }

    __device__ __forceinline__ void store_p(float *p_rows) const {
#pragma unroll
        for (int i = 0; i < 32; ++i)
            p_rows[place(i / 4, i % 4)] = hidden >> i & 1 ? float_of(kHiddenP) : s[i / 4][i % 4] + 0.0f;
    }
};

__device__ __forceinline__ void describe_keys(const Params &p, const Work &work, int first_key, Keys &keys) {
    const bool value = threadIdx.x >= kKeys;
    const int key = threadIdx.x % kKeys;
    (value ? keys.v : keys.k)[key] = key_offset(p, value ? p.v_steps : p.k_steps, work, first_key + key);
}

// Ends of the rows and the accumulated P V go through shared memory, so that results are written row by row.
__device__ __forceinline__ void finish_rows(const Params &p, const Work &work, Shared &shared, int count, float v_scale,
                                            float p_scale, float offset, const Softmax (&row)[2],
                                            const float (&o)[16][4], float *results) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __syncthreads(); // queries and keys were read
    if ((lane & 3) == 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = own_row() + 8 * half;
            const float sink = read_sink(p, max(shared.rows.head[r], 0));
            shared.ends[r] = end_row(p, row[half], sink, offset, p_scale);
        }
    }
#pragma unroll
    for (int i = 0; i < 64; ++i)
        results[(own_row() + i % 4 / 2 * 8) * kResultPitch + i / 4 * 8 + 2 * (lane & 3) + i % 2] = o[i / 4][i % 4];
    __syncwarp();
    const Output output = read_output(p);
#pragma unroll 1
    for (int r = warp * 16; r < warp * 16 + 16; ++r) {
        if (shared.rows.head[r] < 0) break; // the last rows
        const RowEnd end = shared.ends[r];
        if (p.lse != nullptr && work.chunk == 0 && lane == 0) p.lse[shared.rows.lse[r]] = end.lse;
#pragma unroll 1
        for (int element = lane; element < count; element += 32)
            store_result(p, output, shared.rows.out[r] + work.chunk * kChunk + element,
                         end.value(p, results[r * kResultPitch + element], v_scale));
    }
}

// One piece of work, whole CTA.
__device__ __forceinline__ void attend(const Params &p, const Work &work, bool bf16, Shared &shared, uint16_t *memory) {
    const int depth = qf_attention_padded_depth(p.depth), pitch = depth + 8;
    uint16_t *q = memory, *k = q + kRows * pitch, *v = k + qf_attention_key_elements(p.depth);
    float *scores = reinterpret_cast<float *>(k);
    const int count = min(p.out_depth - work.chunk * kChunk, kChunk);
    const Source k_source = make_source(p.k, p.k_dtype, bf16, p.k_aligned, 0, p.depth, shared.table[1]);
    const Source v_source = make_source(p.v, p.v_dtype, bf16, p.v_aligned, work.chunk * kChunk, count, shared.table[2]);

    describe_rows(p, work, shared.rows);
    load_matrix(make_source(p.q, p.q_dtype, bf16, p.q_aligned, 0, p.depth, shared.table[0]), bf16, false, shared.rows.q,
                q, pitch);
    const float factor = read_scale(p.q_scale, work.kv_head) * read_scale(p.k_scale, work.kv_head) * p.scale;
    const float v_scale = read_scale(p.v_scale, work.kv_head), p_scale = read_scale(p.p_scale, 0);
    const float offset = p.p_mode == kNone && !bf16 ? kHalfOffset : 0.0f;
    const Rounding rounding(p.p_dtype);

    float o[16][4] = {};
    Softmax row[2];
    float reference[2] = {}, multiplier[2] = {1.0f, 1.0f};
    const int begin = shared.rows.begin / kKeys * kKeys, end = shared.rows.end;
#pragma unroll 1
    for (int pass = p.p_mode == kNone ? 1 : 0; pass < 2; ++pass) {
#pragma unroll 1
        for (int first_key = begin; first_key < end; first_key += kKeys) {
            __syncthreads(); // the tile before was read
            describe_keys(p, work, first_key, shared.keys);
            __syncthreads();
            bool odd = false;
#pragma unroll 1
            for (int value = 0; value <= pass; ++value)
                odd |= load_matrix(value ? v_source : k_source, bf16, value != 0, value ? shared.keys.v : shared.keys.k,
                                   value ? v : k, value ? kValuePitch : pitch);
            const bool any_odd = __syncthreads_or(odd);
            Tile tile;
            multiply_keys(bf16, q, k, pitch, depth, tile.s);
            tile.finish(p, shared.rows, first_key, factor, scores);
            tile.note_keys(row);
            if (pass == 0 && p.p_mode == kKernel) {
                tile.raise_kernel_reference(row);
                continue;
            }
            if (pass == 0 || p.p_mode == kNone)
                tile.make_natural(offset, row);
            else
                tile.make_rounded(p, rounding, reference, multiplier, row);
            if (pass == 0) continue;
            uint32_t high[8][2], low[8][2];
            tile.split(bf16, p.p_mode == kNone, high, low);
            if (any_odd) {
                __syncthreads(); // the keys were read
                tile.store_p(scores);
                __syncwarp();
            }
            multiply_values(bf16, p.p_mode == kNone, v, count, high, low, tile.alpha, o);
            if (any_odd) add_odd_values(v_source, bf16, shared.keys, scores, o);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row[half].any = (__ballot_sync(~0u, row[half].any) >> (threadIdx.x & 28) & 15) != 0;
            // Sums are complete after the last pass, those of p=graph after the first.
            if ((pass == 1) != (p.p_mode == kGraph)) row[half].sum = quad_sum(row[half].sum);
            reference[half] = row[half].reference;
            if (p.p_mode != kGraph || pass == 1) continue;
            const float sink = read_sink(p, max(shared.rows.head[own_row() + 8 * half], 0));
            const RowEnd whole = end_natural(row[half], sink, 0.0f);
            reference[half] = fmaxf(row[half].reference, sink);
            if (reference[half] == -kInfinity) reference[half] = 0.0f;
            multiplier[half] = 1.0f / (whole.divisor * p_scale);
        }
    }
    finish_rows(p, work, shared, count, v_scale, p_scale, offset, row, o, reinterpret_cast<float *>(memory));
}

} // namespace qfuse::attention

extern "C" __global__ void __launch_bounds__(QF_ATTENTION_TENSOR_THREADS)
    qf_attention_tensor(const __grid_constant__ qf_cuda_attention_params p) {
    using namespace qfuse::attention;
    __shared__ Shared shared;
    extern __shared__ uint4 memory[];
    const bool bf16 = p.q_dtype == QF_BF16 || p.k_dtype == QF_BF16 || p.v_dtype == QF_BF16;
#pragma unroll 1
    for (int i = 0; i < 3; ++i) fill_table(bf16, i == 0 ? p.q_dtype : i == 1 ? p.k_dtype : p.v_dtype, shared.table[i]);
#pragma unroll 1
    for (int64_t index = blockIdx.x; index < p.work; index += gridDim.x) {
        __syncthreads(); // shared memory of the piece before was read; the tables are written
        const Work work = find_work<kRows>(p, index);
        if (work.any) attend(p, work, bf16, shared, reinterpret_cast<uint16_t *>(memory));
    }
}
