// Owns: attention in f32 arithmetic on every GPU target: operands of f32, f64 and mixed 16-bit types, any head dim.
// Does not own: 16-bit and FP8 operands that tensor cores take (attention_tensor.cu).
// Read next: attention.cuh.
//
// One CTA has 32 rows of one KV head (its query heads one after another) and at most 128 elements of the values.
// Operands become f32 on their way into shared memory, FP8 ones times their scale, as on the CPU. A thread has 4 rows
// by 4 keys of the scores, then 4 rows by 8 elements of the result. A tile's P V is summed from zero and then added.
#include "kernels/cuda/attention.cuh"

namespace qfuse::attention {

constexpr int kRows = QF_ATTENTION_PLAIN_ROWS, kKeys = QF_ATTENTION_PLAIN_KEYS, kSlice = QF_ATTENTION_PLAIN_SLICE;
constexpr int kThreads = QF_ATTENTION_PLAIN_THREADS, kChunk = QF_ATTENTION_CHUNK;
constexpr int kRowPitch = QF_ATTENTION_PLAIN_ROW_PITCH, kKeyPitch = QF_ATTENTION_PLAIN_KEY_PITCH;
constexpr int kValuePitch = QF_ATTENTION_PLAIN_VALUE_PITCH;
static_assert(kThreads == kRows * kKeys / 16 && kThreads == 2 * kKeys, "a thread has 4 x 4 scores; two describe a key");

struct Shared {
    Rows<kRows> rows;
    int64_t k[kKeys], v[kKeys]; // element offsets of a tile's keys; -1: zeros
    RowEnd ends[kRows];
};

// One element of q, k or v.
__device__ __forceinline__ float load_operand(int dtype, const void *data, int64_t index) {
    switch (dtype) {
    case QF_F32: return static_cast<const float *>(data)[index];
    case QF_F16: return decode_f16(static_cast<const uint16_t *>(data)[index]);
    case QF_BF16: return float_of(static_cast<uint32_t>(static_cast<const uint16_t *>(data)[index]) << 16);
    case QF_F64: return narrow(static_cast<const double *>(data)[index]);
    default: return decode_f32(dtype, static_cast<const uint8_t *>(data)[index]);
    }
}

// Elements [first, first + WIDTH) of ROWS rows into shared memory, zeros past `count`. Lane by lane along a row;
// element (row, i) goes to to[row * row_step + i * element_step]. True if this thread met an infinity or NaN.
template <int ROWS, int WIDTH>
__device__ __forceinline__ bool load_rows(int dtype, const void *data, float scale, const int64_t *offsets, int first,
                                          int count, float *to, int row_step, int element_step) {
    bool odd = false;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * WIDTH; i += kThreads) {
        const int row = i / WIDTH, element = i % WIDTH;
        float value = 0.0f;
        if (offsets[row] >= 0 && first + element < count)
            value = load_operand(dtype, data, offsets[row] + first + element) * scale;
        odd |= !(fabsf(value) <= kLargest);
        to[row * row_step + element * element_step] = value;
    }
    return odd;
}

__device__ __forceinline__ float sixteen_max(float x) {
#pragma unroll
    for (int step = 1; step < 16; step <<= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

__device__ __forceinline__ float sixteen_sum(float x) {
#pragma unroll
    for (int step = 1; step < 16; step <<= 1) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

__device__ __forceinline__ void unpack(float4 from, float (&to)[4]) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}

__device__ __forceinline__ float4 four(const float *at) {
    return *reinterpret_cast<const float4 *>(at);
}

struct Memory {
    float *q, *k, *p, *v;

    __device__ __forceinline__ Memory(const Params &params, float *memory) {
        q = memory;
        k = q + qf_attention_plain_slices(params.depth) * kSlice * kRowPitch;
        p = k + kSlice * kKeyPitch;
        v = p + kKeys * kRowPitch;
    }
};

// The thread's rows are 4 * row_group() .., its keys 4 * column_group() ...
__device__ __forceinline__ int row_group() {
    return threadIdx.x / 16;
}
__device__ __forceinline__ int column_group() {
    return threadIdx.x % 16;
}

// Products of a tile, slice by slice of the head dim. Ends with a barrier behind the last read of the keys.
__device__ __forceinline__ void multiply_keys(const Params &p, const Shared &shared, const Memory &memory,
                                              float q_scale, float k_scale, float (&s)[4][4]) {
    const bool resident = p.depth <= QF_ATTENTION_PLAIN_RESIDENT;
#pragma unroll
    for (int i = 0; i < 16; ++i) s[i / 4][i % 4] = 0.0f;
#pragma unroll 1
    for (int first = 0; first < p.depth; first += kSlice) {
        const float *q = memory.q + (resident ? first * kRowPitch : 0);
        load_rows<kKeys, kSlice>(p.k_dtype, p.k, k_scale, shared.k, first, p.depth, memory.k, 1, kKeyPitch);
        if (!resident)
            load_rows<kRows, kSlice>(p.q_dtype, p.q, q_scale, shared.rows.q, first, p.depth, memory.q, 1, kRowPitch);
        __syncthreads();
#pragma unroll 4
        for (int d = 0; d < kSlice; ++d) {
            float a[4], b[4];
            unpack(four(q + d * kRowPitch + 4 * row_group()), a);
            unpack(four(memory.k + d * kKeyPitch + 4 * column_group()), b);
#pragma unroll
            for (int i = 0; i < 16; ++i) s[i / 4][i % 4] = fmaf(a[i / 4], b[i % 4], s[i / 4][i % 4]);
        }
        __syncthreads();
    }
}

// Products become scores, keys that a row does not see -infinity; returns their bits, 4 * row + key. Through the
// thread's own places in the memory of P.
__device__ __forceinline__ uint32_t finish_scores(const Params &p, const Shared &shared, const Memory &memory,
                                                  int first_key, float (&s)[4][4], Softmax (&row)[4]) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        s[i / 4][i % 4] *= p.scale;
        if (p.softcap > 0.0f) s[i / 4][i % 4] = p.softcap * tanhf(s[i / 4][i % 4] / p.softcap);
    }
    uint32_t hidden = 0;
    const bool whole = first_key >= shared.rows.full_begin && first_key + kKeys <= shared.rows.full_end;
    if (!whole || p.bias != nullptr || p.mask != nullptr) {
        float *own = memory.p + 4 * column_group() * kRowPitch + 4 * row_group();
#pragma unroll
        for (int i = 0; i < 16; ++i) own[i % 4 * kRowPitch + i / 4] = s[i / 4][i % 4];
#pragma unroll 1
        for (int i = 0; i < 16; ++i) {
            float &place = own[i % 4 * kRowPitch + i / 4];
            bool is_hidden;
            const float score = biased(p, shared.rows, 4 * row_group() + i / 4, first_key + 4 * column_group() + i % 4,
                                       place, is_hidden);
            place = is_hidden ? -kInfinity : score;
            hidden |= static_cast<uint32_t>(is_hidden) << i;
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) s[i / 4][i % 4] = own[i % 4 * kRowPitch + i / 4];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) row[i].any |= (hidden >> (4 * i) & 15) != 15;
    return hidden;
}

// o = o * alpha + P V; `careful`: hidden keys (P = -0) are left out, since values may be infinite or NaN.
__device__ __forceinline__ void multiply_values(const Memory &memory, bool careful, const float (&alpha)[4],
                                                float (&o)[4][8]) {
    float t[4][8] = {};
    const float *p_at = memory.p + 4 * row_group(), *v_at = memory.v + 4 * column_group();
    const auto all = [&](bool skip) {
#pragma unroll 2
        for (int key = 0; key < kKeys; ++key) {
            float p[4], v[2][4];
            unpack(four(p_at + key * kRowPitch), p);
            unpack(four(v_at + key * kValuePitch), v[0]);
            unpack(four(v_at + key * kValuePitch + 64), v[1]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (skip && bits_of(p[i]) == kHiddenP) continue;
#pragma unroll
                for (int e = 0; e < 8; ++e) t[i][e] = fmaf(p[i], v[e / 4][e % 4], t[i][e]);
            }
        }
    };
    if (careful)
        all(true);
    else
        all(false);
#pragma unroll
    for (int i = 0; i < 32; ++i) o[i / 8][i % 8] = fmaf(o[i / 8][i % 8], alpha[i / 8], t[i / 8][i % 8]);
}

// Raises the references of p=none (and of p=graph's first pass) and turns scores into P.
__device__ __forceinline__ void make_natural(float (&s)[4][4], float (&alpha)[4], Softmax (&row)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float most = sixteen_max(fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3])));
        const float reference = fmaxf(row[i].reference, most), base = reference == -kInfinity ? 0.0f : reference;
        alpha[i] = row[i].reference == -kInfinity ? 0.0f : exp2f((row[i].reference - reference) * kLog2E);
        row[i].reference = reference;
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            s[i][j] = natural_p(s[i][j], base, 0.0f);
            sum += s[i][j];
        }
        row[i].sum = fmaf(row[i].sum, alpha[i], sum);
    }
}

__device__ __forceinline__ void make_rounded(const Params &p, const Rounding &rounding, uint32_t hidden,
                                             const float (&reference)[4], const float (&multiplier)[4],
                                             float (&s)[4][4], Softmax (&row)[4]) {
    const bool kernel = p.p_mode == kKernel;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float exponent = kernel ? kernel_exponent(s[i][j], reference[i]) : (s[i][j] - reference[i]) * kLog2E;
            const float rounded = rounding(exp2f(exponent) * multiplier[i]);
            s[i][j] = hidden >> (4 * i + j) & 1 ? 0.0f : rounded;
            sum += s[i][j];
        }
        if (kernel) row[i].sum += sum;
    }
}

__device__ __forceinline__ void store_p(const Memory &memory, uint32_t hidden, const float (&s)[4][4]) {
    float *own = memory.p + 4 * column_group() * kRowPitch + 4 * row_group();
#pragma unroll
    for (int i = 0; i < 16; ++i)
        own[i % 4 * kRowPitch + i / 4] = hidden >> i & 1 ? float_of(kHiddenP) : s[i / 4][i % 4] + 0.0f;
}

// Results go through the memory of the values, so that they are written row by row. FP8 values carry their scale
// already.
__device__ __forceinline__ void finish_rows(const Params &p, const Work &work, Shared &shared, const Memory &memory,
                                            int count, float p_scale, const Softmax (&row)[4], const float (&o)[4][8]) {
    __syncthreads(); // the values were read
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int r = 4 * row_group() + i;
        if (column_group() == 0)
            shared.ends[r] = end_row(p, row[i], read_sink(p, max(shared.rows.head[r], 0)), 0.0f, p_scale);
#pragma unroll
        for (int e = 0; e < 8; ++e) memory.v[r * kValuePitch + e / 4 * 64 + 4 * column_group() + e % 4] = o[i][e];
    }
    __syncthreads();
    const Output output = read_output(p);
    const int lane = threadIdx.x & 31;
#pragma unroll 1
    for (int r = threadIdx.x / 32; r < kRows; r += kThreads / 32) {
        if (shared.rows.head[r] < 0) break; // the last rows
        const RowEnd end = shared.ends[r];
        if (p.lse != nullptr && work.chunk == 0 && lane == 0) p.lse[shared.rows.lse[r]] = end.lse;
#pragma unroll 1
        for (int element = lane; element < count; element += 32)
            store_result(p, output, shared.rows.out[r] + work.chunk * kChunk + element,
                         end.value(p, memory.v[r * kValuePitch + element], 1.0f));
    }
}

__device__ __forceinline__ void describe_keys(const Params &p, const Work &work, int first_key, Shared &shared) {
    const bool value = threadIdx.x >= kKeys;
    const int key = threadIdx.x % kKeys;
    (value ? shared.v : shared.k)[key] = key_offset(p, value ? p.v_steps : p.k_steps, work, first_key + key);
}

// One piece of work, whole CTA.
__device__ __forceinline__ void attend(const Params &p, const Work &work, Shared &shared, const Memory &memory) {
    const int count = min(p.out_depth - work.chunk * kChunk, kChunk);
    const float q_scale = read_scale(p.q_scale, work.kv_head), k_scale = read_scale(p.k_scale, work.kv_head);
    const float v_scale = read_scale(p.v_scale, work.kv_head), p_scale = read_scale(p.p_scale, 0);
    const Rounding rounding(p.p_dtype);
    describe_rows(p, work, shared.rows);
#pragma unroll 1
    for (int first = 0; p.depth <= QF_ATTENTION_PLAIN_RESIDENT && first < p.depth; first += kSlice)
        load_rows<kRows, kSlice>(p.q_dtype, p.q, q_scale, shared.rows.q, first, p.depth, memory.q + first * kRowPitch,
                                 1, kRowPitch);

    float o[4][8] = {}, reference[4] = {}, multiplier[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    Softmax row[4];
    const int begin = shared.rows.begin / kKeys * kKeys, end = shared.rows.end;
#pragma unroll 1
    for (int pass = p.p_mode == kNone ? 1 : 0; pass < 2; ++pass) {
#pragma unroll 1
        for (int first_key = begin; first_key < end; first_key += kKeys) {
            float s[4][4], alpha[4] = {1.0f, 1.0f, 1.0f, 1.0f};
            __syncthreads(); // the tile before was read
            describe_keys(p, work, first_key, shared);
            __syncthreads();
            bool odd = false;
            if (pass == 1)
                odd = load_rows<kKeys, kChunk>(p.v_dtype, p.v, v_scale, shared.v, work.chunk * kChunk,
                                               work.chunk * kChunk + count, memory.v, kValuePitch, 1);
            multiply_keys(p, shared, memory, q_scale, k_scale, s);
            const uint32_t hidden = finish_scores(p, shared, memory, first_key, s, row);
            if (pass == 0 && p.p_mode == kKernel) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float most = sixteen_max(fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3])));
                    row[i].reference = fmaxf(row[i].reference, ceilf(log2_score(most)));
                }
                continue;
            }
            if (pass == 0 || p.p_mode == kNone)
                make_natural(s, alpha, row);
            else
                make_rounded(p, rounding, hidden, reference, multiplier, s, row);
            if (pass == 0) continue;
            store_p(memory, hidden, s);
            const bool careful = __syncthreads_or(odd);
            multiply_values(memory, careful, alpha, o);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            row[i].any = (__ballot_sync(~0u, row[i].any) >> (threadIdx.x & 16) & 0xFFFF) != 0;
            // Sums are complete after the last pass, those of p=graph after the first.
            if ((pass == 1) != (p.p_mode == kGraph)) row[i].sum = sixteen_sum(row[i].sum);
            reference[i] = row[i].reference;
            if (p.p_mode != kGraph || pass == 1) continue;
            const float sink = read_sink(p, max(shared.rows.head[4 * row_group() + i], 0));
            reference[i] = fmaxf(row[i].reference, sink);
            if (reference[i] == -kInfinity) reference[i] = 0.0f;
            multiplier[i] = 1.0f / (end_natural(row[i], sink, 0.0f).divisor * p_scale);
        }
    }
    finish_rows(p, work, shared, memory, count, p_scale, row, o);
}

} // namespace qfuse::attention

extern "C" __global__ void __launch_bounds__(QF_ATTENTION_PLAIN_THREADS)
    qf_attention_plain(const __grid_constant__ qf_cuda_attention_params p) {
    using namespace qfuse::attention;
    __shared__ Shared shared;
    extern __shared__ float4 memory[];
    const Memory pieces(p, reinterpret_cast<float *>(memory));
#pragma unroll 1
    for (int64_t index = blockIdx.x; index < p.work; index += gridDim.x) {
        __syncthreads(); // shared memory of the piece before was read
        const Work work = find_work<kRows>(p, index);
        if (work.any) attend(p, work, shared, pieces);
    }
}
