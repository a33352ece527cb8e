// Owns: one pass over rows of heads that rotates, quantises and stores them, densely or into cache slots: rope,
// kv_cache_write, rope_quantize_cache_write. Does not own: attention over caches, the parameters (cache.h).
// Read next: cache.c, kernels/cpu/cache.c.
#include "kernels/cuda/cache.h"
#include "kernels/cuda/common/dependent.cuh"
#include "kernels/cuda/common/scaling.cuh"

using namespace qfuse;

// A CTA takes a row at a time. Its threads share out the row's units over all streams: a unit is a pair of runs of
// WIDTH elements, `a` and `b`, whose elements turn together where the unit is rotated (b lies half a rotation after a,
// or right after it where pairs are interleaved). The thread count is a multiple of the units of a head wherever that
// is possible, so that a thread meets the same angles again and loads them once a row.

namespace {

struct place {
    uint32_t a, b; // first elements of the two runs within a head
};

template <int WIDTH>
__device__ __forceinline__ place place_of(const qf_cache_params &params, const qf_cache_stream &stream, uint32_t unit) {
    if (unit >= stream.rotated_units) {
        const uint32_t first = stream.rotary_dim + (unit - stream.rotated_units) * 2 * WIDTH;
        return {first, first + WIDTH};
    }
    if (params.interleaved) return {unit * 2 * WIDTH, unit * 2 * WIDTH + WIDTH};
    return {unit * WIDTH, stream.rotary_dim / 2 + unit * WIDTH};
}

// Which row of cos_sin turns row `row`; -1 where the position lies outside: such a row turns to zero.
__device__ int64_t angle_row(const qf_cache_params &params, int64_t row) {
    int64_t at = 0;
    if (params.axis_count == 1) {
        at = row * params.axis_strides[0];
    } else {
        for (uint32_t i = params.axis_count; i-- > 0; row /= params.axis_sizes[i])
            at += row % params.axis_sizes[i] * params.axis_strides[i];
    }
    if (!params.positions) return at;
    const int64_t position = load_i64(params.position_dtype, params.positions, at);
    return position >= 0 && position < params.position_count ? position : -1;
}

// The slot that the row writes, -1 for none: of the rows with one slot the last one writes.
__device__ int64_t slot_of(const qf_cache_params &params, int64_t row) {
    const int64_t slot = load_i64(params.slot_dtype, params.slots, row);
    const bool valid = slot >= 0 && slot < params.slot_count;
    if (params.winners) {
        const bool wins = valid && params.winners[slot] == (uint32_t)row + 1;
        __syncthreads();
        // Losers find zero or the winner's number, whenever they look.
        if (wins && threadIdx.x == 0) params.winners[slot] = 0;
        return wins ? slot : -1;
    }
    bool later = false;
    for (int64_t other = row + 1 + threadIdx.x; valid && other < params.rows; other += blockDim.x)
        later |= load_i64(params.slot_dtype, params.slots, other) == slot;
    return __syncthreads_or(later) || !valid ? -1 : slot;
}

template <int WIDTH>
__device__ __forceinline__ void load_elements(uint32_t dtype, const void *data, int64_t first, float (&out)[WIDTH]) {
    if constexpr (WIDTH == 1)
        out[0] = load_f32(dtype, data, first);
    else
        load_fast<WIDTH>(dtype, data, first, out);
}

template <int WIDTH>
__device__ __forceinline__ void store_elements(const qf_cache_stream &stream, int64_t first, float (&in)[WIDTH]) {
    if constexpr (WIDTH == 1)
        store_shared_bits(element_bits(stream.to_dtype), stream.to, first, bits_from_f32(stream.to_dtype, in[0], true));
    else
        store_fast<WIDTH>(stream.to_dtype, stream.to, first, in);
}

template <int WIDTH>
__device__ __forceinline__ void copy_elements(const qf_cache_stream &stream, int64_t to, int64_t from) {
    const uint32_t bits = element_bits(stream.from_dtype);
    if constexpr (WIDTH == 1)
        store_shared_bits(bits, stream.to, to, load_bits(bits, stream.from, from));
    else
        copy_fast<WIDTH>(stream.from_dtype, stream.to, to, stream.from, from);
}

// cos and sin of the WIDTH pairs of a unit.
template <int WIDTH>
struct angles {
    uint32_t unit; // that they belong to
    float cosine[WIDTH], sine[WIDTH];
};

template <int WIDTH>
__device__ __forceinline__ void load_angles(const qf_cache_params &params, const qf_cache_stream &stream, int64_t row,
                                            uint32_t unit, angles<WIDTH> &out) {
    if (out.unit == unit) return;
    out.unit = unit;
    if (row < 0) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) out.cosine[i] = out.sine[i] = 0.0f;
        return;
    }
    const int64_t first = row * stream.rotary_dim + unit * WIDTH;
    load_elements<WIDTH>(params.angle_dtype, params.cos_sin, first, out.cosine);
    load_elements<WIDTH>(params.angle_dtype, params.cos_sin, first + stream.rotary_dim / 2, out.sine);
}

// Products are rounded before they are added; the result is rounded to the rows' dtype.
template <int WIDTH>
__device__ __forceinline__ void turn(uint32_t dtype, float &first, float &second, float cosine, float sine) {
    const float x = sum(product(first, cosine), -product(second, sine));
    const float y = sum(product(second, cosine), product(first, sine));
    first = WIDTH == 1 ? round_f32(dtype, x, true) : round_fast(dtype, x);
    second = WIDTH == 1 ? round_f32(dtype, y, true) : round_fast(dtype, y);
}

template <int WIDTH>
__device__ __forceinline__ void rotate(bool interleaved, uint32_t dtype, const angles<WIDTH> &by, float (&a)[WIDTH],
                                       float (&b)[WIDTH]) {
    if (WIDTH > 1 && interleaved) {
        // a and b are 2 * WIDTH neighbouring elements, WIDTH pairs.
        constexpr int half = WIDTH / 2;
#pragma unroll
        for (int i = 0; i < half; i++) {
            turn<WIDTH>(dtype, a[2 * i], a[2 * i + 1], by.cosine[i], by.sine[i]);
            turn<WIDTH>(dtype, b[2 * i], b[2 * i + 1], by.cosine[half + i], by.sine[half + i]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < WIDTH; i++) turn<WIDTH>(dtype, a[i], b[i], by.cosine[i], by.sine[i]);
}

template <int WIDTH>
__device__ __forceinline__ void quantise(const qf_cache_stream &stream, uint32_t head, float (&a)[WIDTH],
                                         float (&b)[WIDTH]) {
    const double scale = load_f64(stream.scale_dtype, stream.scale, (int64_t)head * stream.scale_stride);
    const scaler by = prepare_scale(kDivide, QF_F32, scale);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        a[i] = scaled(kDivide, QF_F32, a[i], by);
        b[i] = scaled(kDivide, QF_F32, b[i], by);
    }
}

// Where a head of the row goes; false: nowhere.
__device__ __forceinline__ bool destination(const qf_cache_params &params, const qf_cache_stream &stream, int64_t row,
                                            int64_t slot, uint32_t head, int64_t *out) {
    if (!stream.is_cache) {
        *out = (row * stream.heads + head) * stream.head_dim;
        return true;
    }
    if (slot < 0) return false;
    *out =
        slot / params.page * stream.page_stride + slot % params.page * stream.token_stride + head * stream.head_stride;
    return true;
}

template <int WIDTH>
__device__ __forceinline__ void store_unit(const qf_cache_params &params, const qf_cache_stream &stream, int64_t row,
                                           int64_t slot, int64_t angle, uint32_t index, angles<WIDTH> &by) {
    const uint32_t head = index / stream.units, unit = index - head * stream.units;
    const place at = place_of<WIDTH>(params, stream, unit);
    const int64_t from = (row * stream.heads + head) * stream.head_dim;
    // Only runs of one element can miss a partner: the last one of an odd rest that is not rotated.
    const bool has_b = WIDTH > 1 || at.b < stream.head_dim;
    int64_t to;
    if (!destination(params, stream, row, slot, head, &to)) return;
    if (stream.is_copy) {
        copy_elements<WIDTH>(stream, to + at.a, from + at.a);
        if (has_b) copy_elements<WIDTH>(stream, to + at.b, from + at.b);
        return;
    }
    float a[WIDTH], b[WIDTH] = {};
    load_elements<WIDTH>(stream.from_dtype, stream.from, from + at.a, a);
    if (has_b) load_elements<WIDTH>(stream.from_dtype, stream.from, from + at.b, b);
    if (unit < stream.rotated_units) {
        load_angles<WIDTH>(params, stream, angle, unit, by);
        rotate<WIDTH>(params.interleaved, stream.from_dtype, by, a, b);
    }
    if (stream.scale) quantise<WIDTH>(stream, head, a, b);
    store_elements<WIDTH>(stream, to + at.a, a);
    if (has_b) store_elements<WIDTH>(stream, to + at.b, b);
}

template <int WIDTH>
__device__ __forceinline__ void store_rows(const qf_cache_params &params) {
    const uint32_t first = params.streams[0].heads * params.streams[0].units;
    const uint32_t second = first + params.streams[1].heads * params.streams[1].units;
    const uint32_t third = second + params.streams[2].heads * params.streams[2].units;
    wait_for_predecessor();
    let_successor_start();
    for (int64_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
        const int64_t slot = params.slots ? slot_of(params, row) : -1;
        const int64_t angle = params.cos_sin ? angle_row(params, row) : -1;
        angles<WIDTH> by;
        by.unit = UINT32_MAX;
        for (uint32_t index = blockIdx.y * blockDim.x + threadIdx.x; index < third; index += gridDim.y * blockDim.x) {
            const uint32_t stream = (index >= first) + (index >= second);
            const uint32_t start = stream == 0 ? 0 : stream == 1 ? first : second;
            store_unit<WIDTH>(params, params.streams[stream], row, slot, angle, index - start, by);
        }
    }
}

} // namespace

// Runs of eight elements: every run is aligned.
extern "C" __global__ void __launch_bounds__(256) qf_cache_vectors(const __grid_constant__ qf_cache_params params) {
    store_rows<8>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_cache_elements(const __grid_constant__ qf_cache_params params) {
    store_rows<1>(params);
}

// Notes in `winners` the last row of each slot.
extern "C" __global__ void __launch_bounds__(256) qf_cache_winners(const __grid_constant__ qf_cache_params params) {
    wait_for_predecessor();
    let_successor_start();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; row < params.rows; row += step) {
        const int64_t slot = load_i64(params.slot_dtype, params.slots, row);
        if (slot >= 0 && slot < params.slot_count) atomicMax(&params.winners[slot], (uint32_t)row + 1);
    }
}
