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
// or right after it where pairs are interleaved). f16 and bf16: a thread keeps its unit from row to row. Else the
// thread count is a multiple of the units of a head wherever that is possible, so that a thread meets the same angles
// again and loads them once a row.

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

// Calls, so that what is rare exists once.
__device__ __noinline__ int64_t load_other_index(uint32_t dtype, const void *data, int64_t at) {
    return load_i64(dtype, data, at);
}

__device__ __forceinline__ int64_t load_index(uint32_t dtype, const void *data, int64_t at) {
    if (dtype == QF_I64) return static_cast<const int64_t *>(data)[at];
    if (dtype == QF_I32) return static_cast<const int32_t *>(data)[at];
    return load_other_index(dtype, data, at);
}

__device__ __noinline__ int64_t position_over_axes(const qf_cache_params &params, int64_t row) {
    int64_t at = 0;
    for (uint32_t i = params.axis_count; i-- > 0; row /= params.axis_sizes[i])
        at += row % params.axis_sizes[i] * params.axis_strides[i];
    return at;
}

// Which row of cos_sin turns row `row`, if it is there.
__device__ __forceinline__ int64_t load_position(const qf_cache_params &params, int64_t row) {
    const int64_t at = params.axis_count == 1 ? row * params.axis_strides[0] : position_over_axes(params, row);
    return params.positions ? load_index(params.position_dtype, params.positions, at) : at;
}

// -1 where the position lies outside: such a row turns to zero.
__device__ __forceinline__ int64_t angle_row(const qf_cache_params &params, int64_t position) {
    return !params.positions || (position >= 0 && position < params.position_count) ? position : -1;
}

__device__ __forceinline__ qf_cache_place place_of_slot(const qf_cache_params &params, int64_t slot) {
    if (params.slot_count < INT32_MAX) {
        const uint32_t n = (uint32_t)slot, page = (__umulhi(n, params.page_magic) + n) >> params.page_shift;
        return {page, n - page * (uint32_t)params.page};
    }
    return {slot / params.page, slot % params.page};
}

// Of the rows with one slot the last one writes. All threads of the CTA.
__device__ __forceinline__ qf_cache_place find_place(const qf_cache_params &params, int64_t row) {
    if (!params.slots) return {-1, 0};
    if (params.places) return params.places[row];
    const int64_t slot = load_index(params.slot_dtype, params.slots, row);
    bool later = false;
    for (int64_t other = row + 1 + threadIdx.x; other < params.rows; other += blockDim.x)
        later |= load_index(params.slot_dtype, params.slots, other) == slot;
    const bool writes = !__syncthreads_or(later) && slot >= 0 && slot < params.slot_count;
    return writes ? place_of_slot(params, slot) : qf_cache_place{-1, 0};
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

template <int WIDTH>
__device__ __forceinline__ void turn_all(bool interleaved, const angles<WIDTH> &by, float (&a)[WIDTH],
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
}

// The result is rounded to the rows' dtype.
template <int WIDTH>
__device__ __forceinline__ void rotate(bool interleaved, uint32_t dtype, const angles<WIDTH> &by, float (&a)[WIDTH],
                                       float (&b)[WIDTH]) {
    turn_all<WIDTH>(interleaved, by, a, b);
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
                                            int64_t row, const qf_cache_place &slot, int64_t angle, angles<WIDTH> &by) {
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
    out.head = (__umulhi(index, stream.unit_magic) + index) >> stream.unit_shift;
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
        const int64_t angle = params.cos_sin ? angle_row(params, load_position(params, row)) : -1;
        const qf_cache_place slot = find_place(params, row);
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

// ---------------------------------------------------------------------- f16 and bf16: a thread keeps a unit, row after
// row

// Numbers of a unit as they lie, and as pairs of the rows' dtype once they are turned.
struct unit_data {
    raw_run<8, 2> a, b;
};

// What a thread knows of its unit before the first row.
struct own_unit {
    const char *from;   // run a of the row that is fetched next
    char *to;           // run a of row 0 in a dense result, of slot 0 in a cache
    uint32_t apart;     // elements from run a to run b
    int64_t row_bytes;  // of the source, from row to row
    int64_t to_step[2]; // bytes of a page and a token in a cache; of a row, and nothing, in a dense result
    bool is_cache, is_rotated, is_f8, is_e5m2, is_bf16, is_scaled;
    scaler by;
};

__device__ __forceinline__ own_unit find_own_unit(const qf_cache_params &params, const qf_cache_stream &stream,
                                                  const unit_work<8, 2> &work) {
    own_unit own = {};
    own.is_f8 = stream.to_dtype == QF_F8E4M3FN || stream.to_dtype == QF_F8E5M2;
    own.is_e5m2 = stream.to_dtype == QF_F8E5M2;
    own.is_bf16 = stream.from_dtype == QF_BF16;
    own.is_cache = stream.is_cache;
    own.is_rotated = work.unit < stream.rotated_units;
    own.is_scaled = stream.scale != nullptr;
    const uint32_t bytes = own.is_f8 ? 1 : 2;
    own.apart = work.at.b - work.at.a;
    own.row_bytes = (int64_t)stream.heads * stream.head_dim * 2;
    own.to_step[0] = stream.is_cache ? stream.page_stride * bytes : own.row_bytes / 2 * bytes;
    own.to_step[1] = stream.is_cache ? stream.token_stride * bytes : 0;
    own.from = static_cast<const char *>(stream.from) + (work.from + work.at.a) * 2;
    own.to = static_cast<char *>(stream.to) +
             ((stream.is_cache ? work.head * stream.head_stride : work.from) + work.at.a) * bytes;
    return own;
}

__device__ __forceinline__ void fetch_unit(const own_unit &own, unit_data &out) {
    load_words<16>(own.from, out.a.words);
    load_words<16>(own.from + own.apart * 2, out.b.words);
}

// Angles of a row, which all its heads share, lie in shared memory in pieces of 16 bytes. Those of f32 lie by their
// parity, so that neighbouring units read neighbouring pieces: a unit has two beside each other.
struct angle_room {
    uint32_t pieces, other_half; // of a row; other_half: 0 for 16-bit angles

    __device__ __forceinline__ angle_room(const qf_cache_params &params)
        : pieces(params.cos_sin ? params.streams[0].rotary_dim / (params.angle_dtype == QF_F32 ? 4 : 8) : 0),
          other_half(params.angle_dtype == QF_F32 ? pieces / 2 : 0) {}
    // By the block's first threads, a piece each or a few. Rows that turn to zero have angles of zero.
    __device__ __forceinline__ void fetch(const qf_cache_params &params, int64_t position, uint4 *room) const {
        const int64_t row = angle_row(params, position);
        const uint4 *from = static_cast<const uint4 *>(params.cos_sin) + row * pieces;
        for (uint32_t piece = threadIdx.x; piece < pieces; piece += blockDim.x) {
            uint4 *to = room + (other_half ? (piece & 1) * other_half + piece / 2 : piece);
            if (row < 0)
                *to = make_uint4(0, 0, 0, 0);
            else
                copy_async_16(to, from + piece);
        }
    }
    // Eight of them from a unit's first piece on.
    __device__ __forceinline__ void load(uint32_t dtype, const uint4 *first, float (&out)[8]) const {
        raw_run<8, 4> raw;
        const uint4 low = *first;
        raw.words[0] = low.x, raw.words[1] = low.y, raw.words[2] = low.z, raw.words[3] = low.w;
        if (dtype == QF_F32) {
            const uint4 high = first[other_half];
            raw.words[4] = high.x, raw.words[5] = high.y, raw.words[6] = high.z, raw.words[7] = high.w;
#pragma unroll
            for (int i = 0; i < 8; i++) out[i] = float_of(raw.words[i]);
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (dtype == QF_BF16)
                out[2 * i] = float_of(raw.words[i] << 16), out[2 * i + 1] = float_of(raw.words[i] & 0xFFFF0000u);
            else
                decode_f16_pair(raw.words[i], out + 2 * i);
        }
    }
};

template <bool BF16>
__device__ __forceinline__ void decode_pair(uint32_t pair, float *out) {
    if (BF16)
        out[0] = float_of(pair << 16), out[1] = float_of(pair & 0xFFFF0000u);
    else
        decode_f16_pair(pair, out);
}

template <bool BF16>
__device__ __forceinline__ void rotate_pairs(bool interleaved, const angles<8> &by, unit_data &data) {
    float a[8], b[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        decode_pair<BF16>(data.a.words[i], a + 2 * i);
        decode_pair<BF16>(data.b.words[i], b + 2 * i);
    }
    turn_all<8>(interleaved, by, a, b);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        data.a.words[i] = encode_16_pair(BF16, a[2 * i], a[2 * i + 1]);
        data.b.words[i] = encode_16_pair(BF16, b[2 * i], b[2 * i + 1]);
    }
}

template <bool BF16, bool E5M2>
__device__ __forceinline__ void store_f8(const own_unit &own, const unit_data &data, char *to) {
    uint32_t a[2], b[2];
    if (own.is_scaled) {
        divide_pairs_to_f8<BF16, E5M2>(data.a.words, own.by, a);
        divide_pairs_to_f8<BF16, E5M2>(data.b.words, own.by, b);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t *words = i < 2 ? data.a.words + 2 * i : data.b.words + 2 * i - 4;
            float values[4];
            decode_pair<BF16>(words[0], values);
            decode_pair<BF16>(words[1], values + 2);
            (i < 2 ? a : b)[i % 2] = encode_four_f8(E5M2 ? QF_F8E5M2 : QF_F8E4M3FN, values);
        }
    }
    store_words<8>(to, a);
    store_words<8>(to + own.apart, b);
}

template <bool BF16>
__device__ __forceinline__ void finish_unit_of_16(const qf_cache_params &params, const own_unit &own,
                                                  const angle_room &room, const uint4 *cosines, const uint4 *sines,
                                                  unit_data &data, char *to) {
    if (own.is_rotated) {
        angles<8> by;
        room.load(params.angle_dtype, cosines, by.cosine);
        room.load(params.angle_dtype, sines, by.sine);
        rotate_pairs<BF16>(params.interleaved, by, data);
    }
    if (!own.is_f8) {
        store_words<16>(to, data.a.words);
        store_words<16>(to + own.apart * 2, data.b.words);
    } else if (own.is_e5m2) {
        store_f8<BF16, true>(own, data, to);
    } else {
        store_f8<BF16, false>(own, data, to);
    }
}

// While a row is finished, the next one's elements, angles and place are on their way, and the position of the one
// behind it. Only the threads that fetch angles know positions.
__device__ __forceinline__ void store_own_units(const qf_cache_params &params, uint4 *shared) {
    const uint32_t index = blockIdx.y * blockDim.x + threadIdx.x;
    const row_units units = count_units(params);
    const bool active = index < units.third;
    unit_work<8, 2> work;
    find_unit<8, 2>(params, units, 0, active ? index : 0, work);
    own_unit own = find_own_unit(params, params.streams[work.stream], work);
    const angle_room room(params);
    const bool fetches = threadIdx.x < room.pieces;
    const uint32_t step = gridDim.x, rows = (uint32_t)params.rows; // fewer than 2^31
    const uint32_t cosines = work.unit, sines = cosines + params.streams[0].rotary_dim / 16;
    wait_for_predecessor();
    let_successor_start();
    uint32_t row = blockIdx.x;
    if (row >= rows) return;
    unit_data next;
    int64_t position = 0;
    qf_cache_place next_place = {-1, 0};
    own.from += row * own.row_bytes;
    fetch_unit(own, next);
    if (fetches) {
        room.fetch(params, load_position(params, row), shared);
        if (row + step < rows) position = load_position(params, row + step);
    }
    if (own.is_cache && params.places) next_place = params.places[row];
    load_scale<8, 2>(params, work);
    if (own.is_scaled) own.by = prepare_scale(kDivide, QF_F32, work.scale);
    for (uint32_t at = 0; row < rows; row += step, at = room.pieces - at) {
        const qf_cache_place slot = params.places ? next_place : find_place(params, row);
        const bool is_left_out = !active || (own.is_cache && slot.page < 0);
        char *to = own.to + (own.is_cache ? slot.page : row) * own.to_step[0] + slot.token * own.to_step[1];
        wait_for_copies();
        __syncthreads(); // angles are there, and those of the row before have been read
        unit_data data = next;
        if (row + step < rows) {
            own.from += step * own.row_bytes;
            fetch_unit(own, next);
            if (fetches) {
                room.fetch(params, position, shared + room.pieces - at);
                if (row + 2 * step < rows) position = load_position(params, row + 2 * step);
            }
            if (own.is_cache && params.places) next_place = params.places[row + step];
        }
        if (is_left_out) continue;
        if (own.is_bf16)
            finish_unit_of_16<true>(params, own, room, shared + at + cosines, shared + at + sines, data, to);
        else
            finish_unit_of_16<false>(params, own, room, shared + at + cosines, shared + at + sines, data, to);
    }
}

} // namespace

// Runs of eight elements of f16 and bf16 to FP8 or as they are; of all compact dtypes; single elements.
extern "C" __global__ void __launch_bounds__(QF_CACHE_UNITS, 2)
    qf_cache_vectors(const __grid_constant__ qf_cache_params params) {
    extern __shared__ uint4 angles_of_rows[];
    store_own_units(params, angles_of_rows);
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
        const int64_t slot = load_index(params.slot_dtype, params.slots, row);
        if (slot >= 0 && slot < params.slot_count) atomicMax(&params.winners[slot], (uint32_t)row + 1);
    }
}

// Turns slots into places, and puts the notes back to zero: who finds zero or another row in its note has lost,
// whenever it looks.
extern "C" __global__ void __launch_bounds__(256) qf_cache_places(const __grid_constant__ qf_cache_params params) {
    wait_for_predecessor();
    let_successor_start();
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; row < params.rows; row += step) {
        const int64_t slot = load_index(params.slot_dtype, params.slots, row);
        const bool wins = slot >= 0 && slot < params.slot_count && params.winners[slot] == (uint32_t)row + 1;
        params.places[row] = wins ? place_of_slot(params, slot) : qf_cache_place{-1, 0};
        if (wins) params.winners[slot] = 0;
    }
}
