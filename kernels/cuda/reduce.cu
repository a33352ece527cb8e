// Owns: kernels along axes: reductions over any axes, arg_max, running sums.
// Does not own: softmax and norms (rows.cu).
// Read next: reduce.h.
#include <qfuse/ops.h>

#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/functions.cuh"
#include "kernels/cuda/common/lanes.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/common/packing.cuh"
#include "kernels/cuda/reduce.h"

using namespace qfuse;

namespace {

constexpr int THREADS = QF_REDUCE_THREADS, VECTOR = 4;
enum { F32, F64, I64 }; // qf_domain

// 64-bit arithmetic is rare: its conversions are calls.
__device__ __noinline__ double load_double(uint32_t dtype, const void *data, int64_t index) {
    return load_f64(dtype, data, index);
}
__device__ __noinline__ int64_t load_integer(uint32_t dtype, const void *data, int64_t index) {
    return load_i64(dtype, data, index);
}
__device__ __noinline__ void store_float(uint32_t dtype, uint64_t data, int64_t index, float value) {
    store_f32(dtype, reinterpret_cast<void *>(data), index, value, true);
}
__device__ __noinline__ void store_double(uint32_t dtype, uint64_t data, int64_t index, double value) {
    store_f64(dtype, reinterpret_cast<void *>(data), index, value, true);
}
__device__ __noinline__ void store_integer(uint32_t dtype, uint64_t data, int64_t index, int64_t value) {
    store_i64(dtype, reinterpret_cast<void *>(data), index, value);
}

__device__ __forceinline__ void load(uint32_t dtype, const void *data, int64_t index, float &out) {
    out = load_f32(dtype, data, index);
}
__device__ __forceinline__ void load(uint32_t dtype, const void *data, int64_t index, double &out) {
    out = load_double(dtype, data, index);
}
__device__ __forceinline__ void load(uint32_t dtype, const void *data, int64_t index, int64_t &out) {
    out = load_integer(dtype, data, index);
}
__device__ __forceinline__ void store(uint32_t dtype, uint64_t data, int64_t index, float value) {
    store_float(dtype, data, index, value);
}
__device__ __forceinline__ void store(uint32_t dtype, uint64_t data, int64_t index, double value) {
    store_double(dtype, data, index, value);
}
__device__ __forceinline__ void store(uint32_t dtype, uint64_t data, int64_t index, int64_t value) {
    store_integer(dtype, data, index, value);
}

template <typename T>
__device__ __forceinline__ T combine(uint32_t op, T a, T b) {
    switch (op) {
    case QF_OP_reduce_max: return larger(a, b);
    case QF_OP_reduce_min: return smaller(a, b);
    case QF_OP_reduce_prod: return a * b;
    default: return a + b;
    }
}

__device__ __forceinline__ int64_t combine(uint32_t op, int64_t a, int64_t b) {
    switch (op) {
    case QF_OP_reduce_max: return a > b ? a : b;
    case QF_OP_reduce_min: return a < b ? a : b;
    case QF_OP_reduce_prod: return (int64_t)((uint64_t)a * (uint64_t)b);
    default: return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

template <typename T>
__device__ __forceinline__ T start_value(const qf_reduce_params &params) {
    switch (params.op) {
    case QF_OP_reduce_max: return T(-__int_as_float(0x7F800000));
    case QF_OP_reduce_min: return T(__int_as_float(0x7F800000));
    case QF_OP_reduce_prod: return T(1);
    default: return T(0);
    }
}

template <>
__device__ __forceinline__ int64_t start_value<int64_t>(const qf_reduce_params &params) {
    const bool is_extreme = params.op == QF_OP_reduce_max || params.op == QF_OP_reduce_min;
    return is_extreme ? params.identity : params.op == QF_OP_reduce_prod;
}

__device__ __forceinline__ int64_t quotient(int64_t sum, int64_t count) {
    return count ? sum / count : 0;
}
__device__ __forceinline__ float quotient(float sum, int64_t count) {
    return sum / (float)count;
}
__device__ __forceinline__ double quotient(double sum, int64_t count) {
    return sum / (double)count;
}

// The elements first, first + lanes, ... below last.
template <typename T>
__device__ __forceinline__ T reduce_lane(const qf_reduce_params &params, int64_t base, int64_t first, int64_t last) {
    const void *x = reinterpret_cast<const void *>(params.x);
    T value = start_value<T>(params);
    const bool is_line = params.reduced.rank <= 1;
    const int64_t stride = params.reduced.rank ? params.reduced.loop[0].from : 0;
    for (int64_t i = first; i < last; i += (int64_t)params.lanes * VECTOR) {
        T part[VECTOR];
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            const int64_t at = i + (int64_t)k * params.lanes;
            if (at < last)
                load(params.x_dtype, x, base + (is_line ? at * stride : locate(params.reduced, at).from), part[k]);
        }
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            if (i + (int64_t)k * params.lanes < last) value = combine(params.op, value, part[k]);
    }
    return value;
}

// The operation is chosen for many elements at once: choosing it for each would cost more than loading it.
template <int N>
__device__ __forceinline__ float combine_all(uint32_t op, float value, const float (&part)[N]) {
    switch (op) {
    case QF_OP_reduce_max:
#pragma unroll
        for (int k = 0; k < N; k++) value = larger(value, part[k]);
        return value;
    case QF_OP_reduce_min:
#pragma unroll
        for (int k = 0; k < N; k++) value = smaller(value, part[k]);
        return value;
    case QF_OP_reduce_prod:
#pragma unroll
        for (int k = 0; k < N; k++) value *= part[k];
        return value;
    default:
#pragma unroll
        for (int k = 0; k < N; k++) value += part[k];
        return value;
    }
}

constexpr int BATCH = 8; // loads in flight

template <int BITS, typename DECODE>
__device__ __forceinline__ void load_apart(const void *x, const int64_t (&at)[BATCH], float missing,
                                           float (&out)[BATCH], DECODE decode) {
    uint32_t codes[BATCH] = {};
#pragma unroll
    for (int k = 0; k < BATCH; k++)
        if (at[k] >= 0) codes[k] = (uint32_t)load_bits(BITS, x, at[k]);
#pragma unroll
    for (int k = 0; k < BATCH; k++) out[k] = at[k] >= 0 ? decode(codes[k]) : missing;
}

__device__ __forceinline__ void load_batch(uint32_t dtype, const void *x, const int64_t (&at)[BATCH], float missing,
                                           float (&out)[BATCH]) {
    switch (dtype) {
    case QF_F32: load_apart<32>(x, at, missing, out, [](uint32_t code) { return float_of(code); }); return;
    case QF_F16: load_apart<16>(x, at, missing, out, [](uint32_t code) { return decode_f16(code); }); return;
    case QF_BF16: load_apart<16>(x, at, missing, out, [](uint32_t code) { return float_of(code << 16); }); return;
    default:
#pragma unroll 1
        for (int n = 0; n < BATCH; n++) {
            const float next = at[n] >= 0 ? load_f32(dtype, x, at[n]) : missing;
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                if (k == n) out[k] = next;
        }
    }
}

__device__ __forceinline__ float reduce_lane_f32(const qf_reduce_params &params, int64_t base, int64_t begin,
                                                 int64_t lane, int64_t last) {
    const float start = start_value<float>(params);
    float value = start;
    if (params.vector) {
        const char *x = reinterpret_cast<const char *>(params.x) + base / VECTOR * four_bytes(params.x_dtype);
        for (int64_t i = begin / VECTOR + lane; i * VECTOR < last; i += (int64_t)params.lanes * VECTOR) {
            const char *from[VECTOR];
            uint32_t present = 0;
            float part[VECTOR * VECTOR];
#pragma unroll
            for (int n = 0; n < VECTOR; n++) {
                from[n] = x + (i + (int64_t)n * params.lanes) * four_bytes(params.x_dtype);
                present |= (uint32_t)((i + (int64_t)n * params.lanes) * VECTOR < last) << n;
            }
            (void)load_fours(params.x_dtype, from, present, start, part);
            value = combine_all(params.op, value, part);
        }
        return value;
    }
    const bool is_line = params.reduced.rank <= 1;
    const int64_t stride = params.reduced.rank ? params.reduced.loop[0].from : 0;
    for (int64_t i = begin + lane; i < last; i += (int64_t)params.lanes * BATCH) {
        int64_t at[BATCH];
        float part[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int64_t n = i + (int64_t)k * params.lanes;
            at[k] = n >= last ? -1 : base + (is_line ? n * stride : locate(params.reduced, n).from);
        }
        load_batch(params.x_dtype, reinterpret_cast<const void *>(params.x), at, start, part);
        value = combine_all(params.op, value, part);
    }
    return value;
}

template <typename T, typename LANE, typename COMBINE>
__device__ __forceinline__ void reduce_with(const qf_reduce_params &params, T *shared, LANE reduce_lane_of,
                                            COMBINE combine_two) {
    const int64_t results = THREADS / params.lanes, lane = threadIdx.x % params.lanes;
    const int64_t begin = blockIdx.y * params.part, end = begin + params.part;
    const int64_t last = end < params.reduced.count ? end : params.reduced.count;
    for (int64_t start = blockIdx.x * results; start < params.kept.count; start += gridDim.x * results) {
        const int64_t index = start + threadIdx.x / params.lanes;
        T value = start_value<T>(params);
        if (index < params.kept.count) value = reduce_lane_of(locate(params.kept, index).from, begin, lane, last);
        value = combine_lanes(value, params.lanes, shared, combine_two);
        if (lane || index >= params.kept.count) continue;
        if (params.is_last) {
            if (params.op == QF_OP_reduce_mean) value = quotient(value, params.divisor);
            store(params.y_dtype, params.y, index, value);
        } else {
            reinterpret_cast<T *>(params.y)[blockIdx.y * params.kept.count + index] = value;
        }
    }
}

template <typename T>
__device__ void reduce(const qf_reduce_params &params) {
    __shared__ T shared[THREADS / 32];
    reduce_with(
        params, shared,
        [&](int64_t base, int64_t begin, int64_t lane, int64_t last) {
            return reduce_lane<T>(params, base, begin + lane, last);
        },
        [&](T a, T b) { return combine(params.op, a, b); });
}

__device__ void reduce_f32(const qf_reduce_params &params) {
    __shared__ float shared[THREADS / 32];
    reduce_with(
        params, shared,
        [&](int64_t base, int64_t begin, int64_t lane, int64_t last) {
            return reduce_lane_f32(params, base, begin, lane, last);
        },
        [&](float a, float b) { return combine(params.op, a, b); });
}

// --------------------------------------------------------------------------------------------------------------- lines

template <typename T>
struct best {
    T value;
    int64_t position;
};

__device__ __forceinline__ bool exceeds(int64_t a, int64_t b) {
    return a > b;
}
template <typename T>
__device__ __forceinline__ bool exceeds(T a, T b) {
    return a > b || (is_nan(a) && !is_nan(b));
}

// The larger value, NaN largest; of equal ones the first position, or the last. Position -1: no element.
template <typename T>
__device__ __forceinline__ best<T> better(best<T> a, best<T> b, bool keeps_last) {
    if (a.position < 0) return b;
    if (b.position < 0) return a;
    if (exceeds(a.value, b.value)) return a;
    if (exceeds(b.value, a.value)) return b;
    return (a.position < b.position) != keeps_last ? a : b;
}

template <typename T>
__device__ void find_maximum(const qf_lines_params &params) {
    __shared__ best<T> shared[THREADS / 32];
    const void *x = reinterpret_cast<const void *>(params.x);
    const int64_t lines = THREADS / params.lanes, lane = threadIdx.x % params.lanes;
    for (int64_t start = blockIdx.x * lines; start < params.count; start += gridDim.x * lines) {
        const int64_t line = start + threadIdx.x / params.lanes;
        best<T> most = {T(0), -1};
        const int64_t first = line / params.inner * params.size * params.inner + line % params.inner;
        for (int64_t i = lane; line < params.count && i < params.size; i += params.lanes) {
            best<T> next;
            load(params.x_dtype, x, first + i * params.inner, next.value);
            next.position = i;
            most = better(most, next, params.keeps_last);
        }
        const uint32_t within = params.lanes < 32 ? params.lanes : 32;
        for (uint32_t distance = within / 2; distance; distance /= 2) {
            const best<T> other = {__shfl_xor_sync(0xFFFFFFFF, most.value, distance),
                                   __shfl_xor_sync(0xFFFFFFFF, most.position, distance)};
            most = better(most, other, params.keeps_last);
        }
        if (params.lanes > 32) {
            const uint32_t warp = threadIdx.x / 32, warps = params.lanes / 32, group = warp / warps * warps;
            __syncthreads();
            if (threadIdx.x % 32 == 0) shared[warp] = most;
            __syncthreads();
            for (uint32_t i = 0; i < warps; i++) most = better(most, shared[group + i], params.keeps_last);
        }
        if (lane == 0 && line < params.count) store(params.y_dtype, params.y, line, most.position);
    }
}

template <typename T>
__device__ void sum_along_line(const qf_lines_params &params, int64_t first) {
    const void *x = reinterpret_cast<const void *>(params.x);
    T sum = T(0);
    for (int64_t n = 0; n < params.size; n++) {
        const int64_t at = first + (params.reverse ? params.size - 1 - n : n) * params.inner;
        T term;
        load(params.x_dtype, x, at, term);
        const T next = combine(QF_OP_reduce_sum, sum, term);
        store(params.y_dtype, params.y, at, params.exclusive ? sum : next);
        sum = next;
    }
}

// A block takes a line: each thread sums four neighbours, the threads' sums are scanned, the total carries over.
template <typename T>
__device__ void sum_along_line_by_block(const qf_lines_params &params, int64_t first, T *shared) {
    const void *x = reinterpret_cast<const void *>(params.x);
    T carry = T(0);
    for (int64_t start = 0; start < params.size; start += THREADS * VECTOR) {
        T sums[VECTOR], sum = T(0);
        const int64_t own = start + threadIdx.x * VECTOR;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const int64_t n = own + i;
            T term = T(0);
            if (n < params.size)
                load(params.x_dtype, x, first + (params.reverse ? params.size - 1 - n : n) * params.inner, term);
            sums[i] = sum; // before the term
            sum = combine(QF_OP_reduce_sum, sum, term);
            if (!params.exclusive) sums[i] = sum;
        }
        T before = sum; // of the warp, then without this thread
        for (int distance = 1; distance < 32; distance *= 2) {
            const T other = __shfl_up_sync(0xFFFFFFFF, before, distance);
            if (threadIdx.x % 32 >= distance) before = combine(QF_OP_reduce_sum, other, before);
        }
        __syncthreads();
        if (threadIdx.x % 32 == 31) shared[threadIdx.x / 32] = before;
        __syncthreads();
        before = __shfl_up_sync(0xFFFFFFFF, before, 1);
        if (threadIdx.x % 32 == 0) before = T(0);
        T warps = carry;
        for (int i = 0; i < THREADS / 32; i++) {
            if (i == threadIdx.x / 32) before = combine(QF_OP_reduce_sum, warps, before);
            warps = combine(QF_OP_reduce_sum, warps, shared[i]);
        }
        carry = warps;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const int64_t n = own + i;
            if (n < params.size)
                store(params.y_dtype, params.y, first + (params.reverse ? params.size - 1 - n : n) * params.inner,
                      combine(QF_OP_reduce_sum, before, sums[i]));
        }
    }
}

template <typename T>
__device__ void sum_along(const qf_lines_params &params) {
    __shared__ T shared[THREADS / 32];
    const bool by_block = params.lanes > 1;
    const int64_t step = by_block ? gridDim.x : (int64_t)gridDim.x * THREADS;
    int64_t line = by_block ? blockIdx.x : (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (; line < params.count; line += step) {
        const int64_t first = line / params.inner * params.size * params.inner + line % params.inner;
        if (by_block)
            sum_along_line_by_block(params, first, shared);
        else
            sum_along_line<T>(params, first);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS) qf_reduce(const __grid_constant__ qf_reduce_params params) {
    begin_kernel();
    switch (params.domain) {
    case F32: reduce_f32(params); return;
    case F64: reduce<double>(params); return;
    default: reduce<int64_t>(params);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_arg_max(const __grid_constant__ qf_lines_params params) {
    begin_kernel();
    switch (params.domain) {
    case F32: find_maximum<float>(params); return;
    case F64: find_maximum<double>(params); return;
    default: find_maximum<int64_t>(params);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_running_sum(const __grid_constant__ qf_lines_params params) {
    begin_kernel();
    switch (params.domain) {
    case F32: sum_along<float>(params); return;
    case F64: sum_along<double>(params); return;
    default: sum_along<int64_t>(params);
    }
}
