// Owns: one pass over rows of heads that rotates, quantises and stores them, densely or into cache slots: rope,
// kv_cache_write, rope_quantize_cache_write. Does not own: attention over caches, the parameters (cache.h).
// Read next: cache.c, kernels/cpu/cache.c.
#include "kernels/cuda/cache.h"
#include "kernels/cuda/common/async_copy.cuh"
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
__device__ __forceinline__ int64_t angle_row(const qf_cache_params &params, int64_t row) {
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
__device__ __forceinline__ int64_t slot_of(const qf_cache_params &params, int64_t row) {
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
    for (int64_t other = row + 1 + threadIdx.x; other < params.rows; other += blockDim.x)
        later |= load_i64(params.slot_dtype, params.slots, other) == slot;
    return __syncthreads_or(later) || !valid ? -1 : slot;
}

struct cache_place {
    int64_t page, token; // page -1: the row goes into no cache
};

__device__ __forceinline__ cache_place cache_place_of(const qf_cache_params &params, int64_t slot) {
    if (slot < 0) return {-1, 0};
    if (params.slot_count <= UINT32_MAX) {
        const uint32_t page = (uint32_t)slot / (uint32_t)params.page;
        return {page, (uint32_t)slot - page * (uint32_t)params.page};
    }
    return {slot / params.page, slot % params.page};
}

// A unit and what was read of it.
template <int WIDTH, int BYTES>
struct unit_work {
    uint32_t stream, head, unit;
    place at;
    int64_t from; // of the head's first element
    float scale;
    raw_run<WIDTH, BYTES> a, b;
};

// cos and sin of the WIDTH pairs of a unit.
template <int WIDTH>
struct angles {
    uint32_t unit; // that they belong to
    float cosine[WIDTH], sine[WIDTH];
};

template <int WIDTH>
__device__ __forceinline__ void load_elements(uint32_t dtype, const void *data, int64_t first, float (&out)[WIDTH]) {
    if constexpr (WIDTH == 1)
        out[0] = load_f32(dtype, data, first);
    else
        load_fast<WIDTH>(dtype, data, first, out);
}

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

// Products are rounded before they are added.
__device__ __forceinline__ void turn(float &first, float &second, float cosine, float sine) {
    const float x = sum(product(first, cosine), -product(second, sine));
    second = sum(product(second, cosine), product(first, sine));
    first = x;
}

// The result is rounded to the rows' dtype.
template <int WIDTH>
__device__ __forceinline__ void rotate(bool interleaved, uint32_t dtype, const angles<WIDTH> &by, float (&a)[WIDTH],
                                       float (&b)[WIDTH]) {
    if (WIDTH > 1 && interleaved) {
        // a and b are 2 * WIDTH neighbouring elements, WIDTH pairs.
        constexpr int half = WIDTH / 2;
#pragma unroll
        for (int i = 0; i < half; i++) {
            turn(a[2 * i], a[2 * i + 1], by.cosine[i], by.sine[i]);
            turn(b[2 * i], b[2 * i + 1], by.cosine[half + i], by.sine[half + i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) turn(a[i], b[i], by.cosine[i], by.sine[i]);
    }
    if constexpr (WIDTH == 1) {
        a[0] = round_f32(dtype, a[0], true);
        b[0] = round_f32(dtype, b[0], true);
    } else {
        round_run<WIDTH>(dtype, a);
        round_run<WIDTH>(dtype, b);
    }
}

// Single elements of any dtype. Only they can miss a partner: the last one of an odd rest that is not rotated.
__device__ __forceinline__ void finish_elements(const qf_cache_params &params, const qf_cache_stream &stream,
                                                const unit_work<1, 4> &work, int64_t to, int64_t angle, angles<1> &by) {
    const uint32_t from_bits = element_bits(stream.from_dtype), to_bits = element_bits(stream.to_dtype);
    const bool has_b = work.at.b < stream.head_dim;
    if (stream.is_copy) {
        store_shared_bits(to_bits, stream.to, to + work.at.a, load_bits(from_bits, stream.from, work.from + work.at.a));
        if (has_b)
            store_shared_bits(to_bits, stream.to, to + work.at.b,
                              load_bits(from_bits, stream.from, work.from + work.at.b));
        return;
    }
    float a[1] = {load_f32(stream.from_dtype, stream.from, work.from + work.at.a)}, b[1] = {0.0f};
    if (has_b) b[0] = load_f32(stream.from_dtype, stream.from, work.from + work.at.b);
    if (work.unit < stream.rotated_units) {
        load_angles<1>(params, stream, angle, work.unit, by);
        rotate<1>(params.interleaved, stream.from_dtype, by, a, b);
    }
    if (stream.scale) {
        const scaler scale = prepare_scale(kDivide, QF_F32, work.scale);
        a[0] = scaled(kDivide, QF_F32, a[0], scale);
        b[0] = scaled(kDivide, QF_F32, b[0], scale);
    }
    store_shared_bits(to_bits, stream.to, to + work.at.a, bits_from_f32(stream.to_dtype, a[0], true));
    if (has_b) store_shared_bits(to_bits, stream.to, to + work.at.b, bits_from_f32(stream.to_dtype, b[0], true));
}

// Runs of the compact dtypes.
template <int WIDTH, int BYTES>
__device__ __forceinline__ void finish_runs(const qf_cache_params &params, const qf_cache_stream &stream,
                                            const unit_work<WIDTH, BYTES> &work, int64_t to, int64_t angle,
                                            angles<WIDTH> &by) {
    if (stream.is_copy) {
        store_raw<WIDTH, BYTES>(stream.to_dtype, stream.to, to + work.at.a, work.a);
        store_raw<WIDTH, BYTES>(stream.to_dtype, stream.to, to + work.at.b, work.b);
        return;
    }
    float a[WIDTH], b[WIDTH];
    decode_raw<WIDTH, BYTES>(stream.from_dtype, work.a, a);
    decode_raw<WIDTH, BYTES>(stream.from_dtype, work.b, b);
    if (work.unit < stream.rotated_units) {
        load_angles<WIDTH>(params, stream, angle, work.unit, by);
        rotate<WIDTH>(params.interleaved, stream.from_dtype, by, a, b);
    }
    if (stream.scale) {
        const scaler scale = prepare_scale(kDivide, QF_F32, work.scale);
        scale_for_f8<WIDTH>(kDivide, QF_F32, scale, a);
        scale_for_f8<WIDTH>(kDivide, QF_F32, scale, b);
    }
    store_fast<WIDTH>(stream.to_dtype, stream.to, to + work.at.a, a);
    store_fast<WIDTH>(stream.to_dtype, stream.to, to + work.at.b, b);
}

template <int WIDTH, int BYTES>
__device__ __forceinline__ void finish_unit(const qf_cache_params &params, const unit_work<WIDTH, BYTES> &work,
                                            int64_t row, const cache_place &slot, int64_t angle, angles<WIDTH> &by) {
    const qf_cache_stream &stream = params.streams[work.stream];
    int64_t to = work.from;
    if (stream.is_cache) {
        if (slot.page < 0) return;
        to = slot.page * stream.page_stride + slot.token * stream.token_stride + work.head * stream.head_stride;
    }
    if constexpr (WIDTH == 1)
        finish_elements(params, stream, work, to, angle, by);
    else
        finish_runs<WIDTH, BYTES>(params, stream, work, to, angle, by);
}

struct row_units {
    uint32_t first, second, third; // where the streams' units end
};

__device__ __forceinline__ row_units count_units(const qf_cache_params &params) {
    const uint32_t first = params.streams[0].heads * params.streams[0].units;
    const uint32_t second = first + params.streams[1].heads * params.streams[1].units;
    return {first, second, second + params.streams[2].heads * params.streams[2].units};
}

template <int WIDTH, int BYTES>
__device__ __forceinline__ void find_unit(const qf_cache_params &params, const row_units &units, int64_t row,
                                          uint32_t index, unit_work<WIDTH, BYTES> &out) {
    out.stream = (index >= units.first) + (index >= units.second);
    const qf_cache_stream &stream = params.streams[out.stream];
    index -= out.stream == 0 ? 0 : out.stream == 1 ? units.first : units.second;
    out.head = index / stream.units;
    out.unit = index - out.head * stream.units;
    out.at = place_of<WIDTH>(params, stream, out.unit);
    out.from = (row * stream.heads + out.head) * stream.head_dim;
}

template <int WIDTH, int BYTES>
__device__ __forceinline__ void load_scale(const qf_cache_params &params, unit_work<WIDTH, BYTES> &work) {
    const qf_cache_stream &stream = params.streams[work.stream];
    if (stream.scale) work.scale = load_f32(stream.scale_dtype, stream.scale, work.head * stream.scale_stride);
}

template <int WIDTH, int BYTES>
__device__ __forceinline__ void store_rows(const qf_cache_params &params) {
    const row_units units = count_units(params);
    wait_for_predecessor();
    let_successor_start();
    for (int64_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
        angles<WIDTH> by;
        by.unit = UINT32_MAX;
        const int64_t angle = params.cos_sin ? angle_row(params, row) : -1;
        const cache_place slot = cache_place_of(params, params.slots ? slot_of(params, row) : -1);
        const uint32_t step = gridDim.y * blockDim.x;
        for (uint32_t index = blockIdx.y * blockDim.x + threadIdx.x; index < units.third; index += step) {
            unit_work<WIDTH, BYTES> work;
            find_unit<WIDTH, BYTES>(params, units, row, index, work);
            load_scale<WIDTH, BYTES>(params, work);
            if constexpr (WIDTH > 1) {
                const qf_cache_stream &stream = params.streams[work.stream];
                load_raw<WIDTH, BYTES>(stream.from_dtype, stream.from, work.from + work.at.a, work.a);
                load_raw<WIDTH, BYTES>(stream.from_dtype, stream.from, work.from + work.at.b, work.b);
            }
            finish_unit<WIDTH, BYTES>(params, work, row, slot, angle, by);
        }
    }
}

// The same for runs of 16 bytes: a thread's first units are on their way to shared memory before anything is known of
// the row; each thread reads what it copied itself.
__device__ __forceinline__ void store_rows_ahead(const qf_cache_params &params) {
    constexpr int kAhead = 3;
    __shared__ uint4 kept[2 * kAhead][QF_CACHE_THREADS];
    const row_units units = count_units(params);
    const uint32_t own = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
    wait_for_predecessor();
    let_successor_start();
    for (int64_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
        angles<8> by;
        cache_place slot = {-1, 0};
        int64_t angle = -1;
        by.unit = UINT32_MAX;
        for (uint32_t start = 0; start < units.third; start += kAhead * step) {
            unit_work<8, 2> work;
            for (int i = 0; i < kAhead; i++) {
                const uint32_t index = start + own + i * step;
                if (index >= units.third) break;
                find_unit<8, 2>(params, units, row, index, work);
                const uint16_t *from = static_cast<const uint16_t *>(params.streams[work.stream].from) + work.from;
                copy_async_16(&kept[2 * i][threadIdx.x], from + work.at.a);
                copy_async_16(&kept[2 * i + 1][threadIdx.x], from + work.at.b);
            }
            if (start == 0) {
                if (params.cos_sin) angle = angle_row(params, row);
                if (params.slots) slot = cache_place_of(params, slot_of(params, row));
                // The first unit's angles come while its elements do.
                if (own < units.first && params.streams[0].rotated_units) {
                    find_unit<8, 2>(params, units, row, own, work);
                    if (work.unit < params.streams[0].rotated_units)
                        load_angles<8>(params, params.streams[0], angle, work.unit, by);
                }
            }
            wait_for_copies();
            for (int i = 0; i < kAhead; i++) {
                const uint32_t index = start + own + i * step;
                if (index >= units.third) break;
                find_unit<8, 2>(params, units, row, index, work);
                load_scale<8, 2>(params, work);
                load_words<16>(&kept[2 * i][threadIdx.x], work.a.words);
                load_words<16>(&kept[2 * i + 1][threadIdx.x], work.b.words);
                finish_unit<8, 2>(params, work, row, slot, angle, by);
            }
        }
    }
}

} // namespace

// Runs of eight elements of f16 and bf16; of all compact dtypes; single elements.
extern "C" __global__ void __launch_bounds__(QF_CACHE_THREADS)
    qf_cache_vectors(const __grid_constant__ qf_cache_params params) {
    store_rows_ahead(params);
}

extern "C" __global__ void __launch_bounds__(QF_CACHE_THREADS)
    qf_cache_vectors_any(const __grid_constant__ qf_cache_params params) {
    store_rows<8, 4>(params);
}

extern "C" __global__ void __launch_bounds__(QF_CACHE_THREADS)
    qf_cache_elements(const __grid_constant__ qf_cache_params params) {
    store_rows<1, 4>(params);
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
