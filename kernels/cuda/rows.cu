// Owns: softmax, log_softmax along any axis and layer_norm: a row is read once and kept in registers where it fits, and
// read again where it does not. Does not own: other reductions (reduce.cu).
// Read next: rows.h.
#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/functions.cuh"
#include "kernels/cuda/common/lanes.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/rows.h"

using namespace qfuse;

namespace {

constexpr int VECTOR = QF_ROWS_VECTOR, CACHED = QF_ROWS_CACHED, MOST_THREADS = 1024;

struct floats {
    float at[VECTOR];
};
struct doubles {
    double at[VECTOR];
};

// Elements first .. first + 3 that lie `inner` apart; those from `left` on are 0. Calls, so that the code of all dtypes
// exists once.
__device__ __noinline__ floats load_floats(uint32_t dtype, uint64_t data, int64_t first, int64_t inner, int64_t left,
                                           bool aligned) {
    floats out;
    if (aligned && left >= VECTOR) {
        load_vector_f32(dtype, reinterpret_cast<const void *>(data), first, out.at);
        return out;
    }
#pragma unroll
    for (int k = 0; k < VECTOR; k++) out.at[k] = 0;
#pragma unroll 1
    for (int n = 0; n < VECTOR; n++) {
        const float next = n < left ? load_f32(dtype, reinterpret_cast<const void *>(data), first + n * inner) : 0;
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            if (k == n) out.at[k] = next;
    }
    return out;
}

__device__ __noinline__ doubles load_doubles(uint32_t dtype, uint64_t data, int64_t first, int64_t inner,
                                             int64_t left) {
    doubles out;
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        out.at[k] = k < left ? load_f64(dtype, reinterpret_cast<const void *>(data), first + k * inner) : 0;
    return out;
}

__device__ __noinline__ void store_floats(uint32_t dtype, uint64_t data, int64_t first, int64_t inner, int64_t left,
                                          bool aligned, floats numbers) {
    if (aligned && left >= VECTOR) {
        store_vector_f32(dtype, reinterpret_cast<void *>(data), first, numbers.at, true);
        return;
    }
#pragma unroll 1
    for (int n = 0; n < VECTOR && n < left; n++) {
        float number = numbers.at[0];
#pragma unroll
        for (int k = 1; k < VECTOR; k++)
            if (k == n) number = numbers.at[k];
        store_f32(dtype, reinterpret_cast<void *>(data), first + n * inner, number, true);
    }
}

__device__ __noinline__ void store_doubles(uint32_t dtype, uint64_t data, int64_t first, int64_t inner, int64_t left,
                                           doubles numbers) {
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        if (k < left) store_f64(dtype, reinterpret_cast<void *>(data), first + k * inner, numbers.at[k], true);
}

__device__ __forceinline__ void load_some(uint32_t dtype, uint64_t data, int64_t first, int64_t inner, int64_t left,
                                          bool aligned, float *out) {
    const floats part = load_floats(dtype, data, first, inner, left, aligned);
#pragma unroll
    for (int k = 0; k < VECTOR; k++) out[k] = part.at[k];
}
__device__ __forceinline__ void load_some(uint32_t dtype, uint64_t data, int64_t first, int64_t inner, int64_t left,
                                          bool, double *out) {
    const doubles part = load_doubles(dtype, data, first, inner, left);
#pragma unroll
    for (int k = 0; k < VECTOR; k++) out[k] = part.at[k];
}
__device__ __forceinline__ void store_some(uint32_t dtype, uint64_t data, int64_t first, int64_t inner, int64_t left,
                                           bool aligned, const float (&numbers)[VECTOR]) {
    store_floats(dtype, data, first, inner, left, aligned, {numbers[0], numbers[1], numbers[2], numbers[3]});
}
__device__ __forceinline__ void store_some(uint32_t dtype, uint64_t data, int64_t first, int64_t inner, int64_t left,
                                           bool, const double (&numbers)[VECTOR]) {
    store_doubles(dtype, data, first, inner, left, {numbers[0], numbers[1], numbers[2], numbers[3]});
}

// The runs of a thread in a row of whole vectors, all loads in flight before the first conversion. False for rare
// dtypes.
template <int BITS, typename CONVERT>
__device__ __forceinline__ bool load_runs(uint64_t data, const int64_t (&first)[CACHED / VECTOR], uint32_t present,
                                          float (&out)[CACHED], CONVERT convert) {
    uint32_t words[CACHED / VECTOR][(VECTOR * BITS / 8 + 3) / 4] = {};
#pragma unroll
    for (int n = 0; n < CACHED / VECTOR; n++)
        if (present >> n & 1)
            load_words<VECTOR * BITS / 8>(reinterpret_cast<const char *>(data) + first[n] * BITS / 8, words[n]);
#pragma unroll
    for (int n = 0; n < CACHED / VECTOR; n++)
#pragma unroll
        for (int k = 0; k < VECTOR; k++) out[n * VECTOR + k] = convert((uint32_t)unpack<BITS>(words[n], k));
    return true;
}

__device__ __forceinline__ bool load_aligned(uint32_t dtype, uint64_t data, const int64_t (&first)[CACHED / VECTOR],
                                             uint32_t present, float (&out)[CACHED]) {
    switch (dtype) {
    case QF_F32: return load_runs<32>(data, first, present, out, [](uint32_t code) { return float_of(code); });
    case QF_F16: return load_runs<16>(data, first, present, out, [](uint32_t code) { return decode_f16(code); });
    case QF_BF16: return load_runs<16>(data, first, present, out, [](uint32_t code) { return float_of(code << 16); });
    default: return false;
    }
}
__device__ __forceinline__ bool load_aligned(uint32_t, uint64_t, const int64_t (&)[CACHED / VECTOR], uint32_t,
                                             double (&)[CACHED]) {
    return false;
}

// A row as its threads see it: runs of VECTOR elements, thread l takes the runs l, l + lanes, ...
template <typename T>
struct row {
    const qf_rows_params &params;
    int64_t start, lane;
    bool exists; // threads past the last row compute with the others and store nothing
    T cache[CACHED];

    __device__ __forceinline__ int64_t run(int64_t n) const {
        return (n * params.lanes + lane) * VECTOR;
    }
    __device__ __forceinline__ bool fits() const {
        // f64 rows are read again: there are not the registers.
        return sizeof(T) == sizeof(float) && params.size <= (int64_t)params.lanes * CACHED;
    }
    __device__ __forceinline__ void load(int64_t at, T *out) const {
        load_some(params.x_dtype, params.x, start + at * params.inner, params.inner, exists ? params.size - at : 0,
                  params.aligned, out);
    }

    // Calls visit(element) for the thread's elements in ascending order.
    template <typename VISIT>
    __device__ __forceinline__ void each(VISIT visit) const {
        if (fits()) {
#pragma unroll
            for (int n = 0; n < CACHED / VECTOR; n++)
#pragma unroll
                for (int k = 0; k < VECTOR; k++)
                    if (run(n) + k < params.size) visit(cache[n * VECTOR + k]);
            return;
        }
        for (int64_t n = 0; run(n) < params.size; n++) {
            T part[VECTOR];
            load(run(n), part);
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                if (run(n) + k < params.size) visit(part[k]);
        }
    }

    // Stores map(element, index in the row).
    template <typename MAP>
    __device__ __forceinline__ void store(MAP map) const {
        const auto store_run = [&](int64_t at, const T *numbers) {
            T part[VECTOR];
#pragma unroll
            for (int k = 0; k < VECTOR; k++) part[k] = numbers[k];
            map(part, at);
            store_some(params.y_dtype, params.y, start + at * params.inner, params.inner, params.size - at,
                       params.aligned, part);
        };
        if (!exists) return;
        if (fits()) {
#pragma unroll
            for (int n = 0; n < CACHED / VECTOR; n++)
                if (run(n) < params.size) store_run(run(n), cache + n * VECTOR);
            return;
        }
        for (int64_t n = 0; run(n) < params.size; n++) {
            T part[VECTOR];
            load(run(n), part);
            store_run(run(n), part);
        }
    }

    __device__ __forceinline__ void fill() {
        if (!fits()) return;
        int64_t first[CACHED / VECTOR];
        uint32_t present = 0;
#pragma unroll
        for (int n = 0; n < CACHED / VECTOR; n++) {
            first[n] = start + run(n);
            present |= (uint32_t)(exists && run(n) < params.size) << n;
        }
        if (params.aligned && load_aligned(params.x_dtype, params.x, first, present, cache)) return;
#pragma unroll
        for (int n = 0; n < CACHED / VECTOR; n++)
            if (run(n) < params.size) load(run(n), cache + n * VECTOR);
    }
};

template <typename T, typename WORK>
__device__ __forceinline__ void for_each_row(const qf_rows_params &params, WORK work) {
    const int64_t rows = blockDim.x / params.lanes;
    for (int64_t first = blockIdx.x * rows; first < params.count; first += gridDim.x * rows) {
        const int64_t number = first + threadIdx.x / params.lanes;
        row<T> mine = {params, number / params.inner * params.size * params.inner + number % params.inner,
                       threadIdx.x % params.lanes, number < params.count};
        mine.fill();
        work(mine);
    }
}

template <typename T>
__device__ void softmax(const qf_rows_params &params) {
    __shared__ T shared[MOST_THREADS / 32];
    for_each_row<T>(params, [&](row<T> &mine) {
        T most = T(-__int_as_float(0x7F800000));
        mine.each([&](T x) { most = larger(most, x); });
        most = combine_lanes(most, params.lanes, shared, [](T a, T b) { return larger(a, b); });
        T total = T(0);
        mine.each([&](T x) { total = sum_of(total, T(exp(x - most))); });
        total = combine_lanes(total, params.lanes, shared, [](T a, T b) { return a + b; });
        const T shift = params.logarithm ? T(log(total)) : T(0);
        mine.store([&](T(&numbers)[VECTOR], int64_t) {
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                numbers[k] = params.logarithm ? numbers[k] - most - shift : T(exp(numbers[k] - most)) / total;
        });
    });
}

template <typename T>
__device__ void layer_norm(const qf_rows_params &params) {
    __shared__ T shared[MOST_THREADS / 32];
    const auto add = [](T a, T b) { return a + b; };
    for_each_row<T>(params, [&](row<T> &mine) {
        T sum = T(0), squares = T(0);
        mine.each([&](T x) { sum += x; });
        const T mean = combine_lanes(sum, params.lanes, shared, add) / T(params.size);
        mine.each([&](T x) { squares = sum_of(squares, product(x - mean, x - mean)); });
        squares = combine_lanes(squares, params.lanes, shared, add);
        const T deviation = sqrt(sum_of(squares / T(params.size), T(params.epsilon)));
        mine.store([&](T(&numbers)[VECTOR], int64_t at) {
            T factors[VECTOR], terms[VECTOR];
            if (params.weight)
                load_some(params.weight_dtype, params.weight, at, 1, params.size - at, params.aligned, factors);
            if (params.bias) load_some(params.bias_dtype, params.bias, at, 1, params.size - at, params.aligned, terms);
#pragma unroll
            for (int k = 0; k < VECTOR; k++) {
                numbers[k] = (numbers[k] - mean) / deviation;
                if (params.weight) numbers[k] = product(numbers[k], factors[k]);
                if (params.bias) numbers[k] = sum_of(numbers[k], terms[k]);
            }
        });
    });
}

} // namespace

extern "C" __global__ void __launch_bounds__(MOST_THREADS) qf_softmax(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    if (params.x_dtype == QF_F64)
        softmax<double>(params);
    else
        softmax<float>(params);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
    qf_layer_norm(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    if (params.x_dtype == QF_F64)
        layer_norm<double>(params);
    else
        layer_norm<float>(params);
}
