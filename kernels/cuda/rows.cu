// Owns: softmax, log_softmax along any axis and layer_norm: a row is read once and held in registers where it fits, and
// read again where it does not. Does not own: other reductions (reduce.cu).
// Read next: rows.h.
#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/functions.cuh"
#include "kernels/cuda/common/held_row.cuh"
#include "kernels/cuda/common/lanes.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/common/packing.cuh"
#include "kernels/cuda/rows.h"

using namespace qfuse;

namespace {

constexpr int VECTOR = QF_ROWS_VECTOR, CACHED = QF_ROWS_CACHED, MOST_THREADS = 1024;
constexpr int HELD_THREADS_16 = QF_HELD_MOST / (8 * QF_HELD_RUNS_16);

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

// ------------------------------------------------------------------------------------------------- rows that are held

constexpr int RUNS = CACHED / VECTOR;

// Vectors of a row: thread l takes the vectors l, l + lanes, ...; those past the end are `missing` numbers.
struct held {
    const qf_rows_params &params;
    int64_t start;
    uint32_t lane, present; // bit n: run n exists
    float at[CACHED];

    __device__ __forceinline__ held(const qf_rows_params &all, int64_t row, float missing)
        : params(all), start(row * all.size), lane(threadIdx.x % all.lanes), present(0) {
        const char *from[RUNS];
#pragma unroll
        for (int n = 0; n < RUNS; n++) {
            present |= (uint32_t)(row < params.count && run(n) < params.size) << n;
            from[n] = reinterpret_cast<const char *>(params.x) + (start + run(n)) / VECTOR * four_bytes(params.x_dtype);
        }
        (void)load_fours(params.x_dtype, from, present, missing, at);
    }
    __device__ __forceinline__ int64_t run(int n) const {
        return (int64_t)(n * params.lanes + lane) * VECTOR;
    }
    // Numbers beside the row's elements, which lie as one row.
    __device__ __forceinline__ void load_beside(uint32_t dtype, uint64_t data, float (&out)[CACHED]) const {
        const char *from[RUNS];
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            from[n] = reinterpret_cast<const char *>(data) + run(n) / VECTOR * four_bytes(dtype);
        if (load_fours(dtype, from, present, 0, out)) return;
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            load_some(dtype, data, run(n), 1, present >> n & 1 ? VECTOR : 0, true, out + n * VECTOR);
    }
    __device__ __forceinline__ void store() const {
        char *to[RUNS];
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            to[n] = reinterpret_cast<char *>(params.y) + (start + run(n)) / VECTOR * four_bytes(params.y_dtype);
        if (store_fours(params.y_dtype, to, present, at)) return;
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            store_floats(params.y_dtype, params.y, start + run(n), 1, present >> n & 1 ? VECTOR : 0, true,
                         {at[n * VECTOR], at[n * VECTOR + 1], at[n * VECTOR + 2], at[n * VECTOR + 3]});
    }
};

__device__ __forceinline__ void softmax_held(const qf_rows_params &params) {
    __shared__ float shared[MOST_THREADS / 32];
    const float lowest = -__int_as_float(0x7F800000);
    const int64_t rows = blockDim.x / params.lanes;
    for (int64_t first = blockIdx.x * rows; first < params.count; first += gridDim.x * rows) {
        // Minus infinity adds nothing. A NaN need not show in the maximum: it makes the sum NaN.
        held row(params, first + threadIdx.x / params.lanes, lowest);
        float most = lowest, total = 0;
#pragma unroll
        for (int i = 0; i < CACHED; i++) most = fmaxf(most, row.at[i]);
        most = combine_lanes(most, params.lanes, shared, [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
        for (int i = 0; i < CACHED; i++) {
            const float power = expf(row.at[i] - most);
            total += power;
            row.at[i] = params.logarithm ? row.at[i] - most : power;
        }
        total = combine_lanes(total, params.lanes, shared, [](float a, float b) { return a + b; });
        const float shift = params.logarithm ? logf(total) : 0;
#pragma unroll
        for (int i = 0; i < CACHED; i++) row.at[i] = params.logarithm ? row.at[i] - shift : row.at[i] / total;
        row.store();
    }
}

__device__ __forceinline__ void layer_norm_held(const qf_rows_params &params) {
    __shared__ float shared[MOST_THREADS / 32];
    const auto add = [](float a, float b) { return a + b; };
    const int64_t rows = blockDim.x / params.lanes;
    for (int64_t first = blockIdx.x * rows; first < params.count; first += gridDim.x * rows) {
        held row(params, first + threadIdx.x / params.lanes, 0);
        float sum = 0, squares = 0, beside[CACHED];
#pragma unroll
        for (int i = 0; i < CACHED; i++) sum += row.at[i];
        const float mean = combine_lanes(sum, params.lanes, shared, add) / (float)params.size;
#pragma unroll
        for (int i = 0; i < CACHED; i++) {
            row.at[i] -= mean;
            squares = row.present >> (i / VECTOR) & 1 ? sum_of(squares, product(row.at[i], row.at[i])) : squares;
        }
        squares = combine_lanes(squares, params.lanes, shared, add);
        const float deviation = sqrtf(sum_of(squares / (float)params.size, (float)params.epsilon));
#pragma unroll
        for (int i = 0; i < CACHED; i++) row.at[i] = row.at[i] / deviation;
        if (params.weight) {
            row.load_beside(params.weight_dtype, params.weight, beside);
#pragma unroll
            for (int i = 0; i < CACHED; i++) row.at[i] = product(row.at[i], beside[i]);
        }
        if (params.bias) {
            row.load_beside(params.bias_dtype, params.bias, beside);
#pragma unroll
            for (int i = 0; i < CACHED; i++) row.at[i] = sum_of(row.at[i], beside[i]);
        }
        row.store();
    }
}

// ------------------------------------------------------------------------- rows of runs that a team holds, in one pass

__device__ __forceinline__ const void *pointer(uint64_t address) {
    return reinterpret_cast<const void *>(address);
}

// work(values, exists) for each row: turns the team's values into the results. BYTES 2: x has 16 bits.
template <int BYTES, int RUNS, typename WORK>
__device__ __forceinline__ void for_each_held_row(const qf_rows_params &params, row_team<RUNS> &team, WORK work) {
    held_runs<BYTES, RUNS> next;
    next.clear();
    if (team.exists()) next.load(params.x_dtype, pointer(params.x), team.first(), team);
    for (; team.block_has_rows(); team.row += team.step) {
        const int64_t first = team.first();
        float values[RUNS][8];
        next.decode(params.x_dtype, values);
        if (team.is_followed()) next.load(params.x_dtype, pointer(params.x), first + team.step * params.size, team);
        work(values);
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            if (team.exists() && (uint32_t)n < team.count)
                store_fast<8>(params.y_dtype, reinterpret_cast<void *>(params.y), first + team.at(n), values[n]);
    }
}

// As softmax_held. Powers of two by instruction: what they err by is far below the bounds of docs/numerics.md, since it
// grows with the distance from the maximum as the powers shrink.
template <int BYTES, int RUNS>
__device__ __forceinline__ void softmax_in_one_pass(const qf_rows_params &params) {
    __shared__ float shared[2][QF_HELD_THREADS / 32];
    team_exchange exchange = {shared, 0};
    row_team<RUNS> team(params.lanes, params.size, params.count);
    for_each_held_row<BYTES, RUNS>(params, team, [&](float(&values)[RUNS][8]) {
        float most = -__int_as_float(0x7F800000), total = 0;
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            if ((uint32_t)n < team.count)
#pragma unroll
                for (int i = 0; i < 8; i++) most = fmaxf(most, values[n][i]);
        most = exchange.most(most, team.lanes);
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            if ((uint32_t)n < team.count)
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const float distance = values[n][i] - most;
                    const float power = exp2_approximate(product(distance, 1.44269504f));
                    total += power;
                    values[n][i] = params.logarithm ? distance : power;
                }
        total = exchange.sum(total, team.lanes);
        const float shift = params.logarithm ? logf(total) : 0, factor = reciprocal_approximate(total);
#pragma unroll
        for (int n = 0; n < RUNS; n++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                values[n][i] = params.logarithm ? values[n][i] - shift : product(values[n][i], factor);
    });
}

// BYTES 2: weight and bias have 16 bits too.
template <int BYTES, int RUNS>
__device__ __forceinline__ void layer_norm_in_one_pass(const qf_rows_params &params) {
    __shared__ float shared[2][QF_HELD_THREADS / 32];
    team_exchange exchange = {shared, 0};
    row_team<RUNS> team(params.lanes, params.size, params.count);
    extern __shared__ uint4 room[];
    const float share = __frcp_rn((float)params.size), epsilon = (float)params.epsilon;
    const kept_row<BYTES, RUNS> weight(room, 0), bias(room, params.weight != 0);
    if (params.weight) weight.load(params.weight_dtype, pointer(params.weight), team);
    if (params.bias) bias.load(params.bias_dtype, pointer(params.bias), team);
    for_each_held_row<BYTES, RUNS>(params, team, [&](float(&values)[RUNS][8]) {
        float sum = 0, squares = 0;
#pragma unroll
        for (int n = 0; n < RUNS; n++)
#pragma unroll
            for (int i = 0; i < 8; i++) sum += values[n][i];
        const float mean = product(exchange.sum(sum, team.lanes), share);
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            if ((uint32_t)n < team.count)
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    values[n][i] -= mean;
                    squares = fmaf(values[n][i], values[n][i], squares);
                }
        squares = exchange.sum(squares, team.lanes);
        const float inverse = rsqrtf(fmaf(squares, share, epsilon));
#pragma unroll
        for (int n = 0; n < RUNS; n++) {
            float beside[8];
#pragma unroll
            for (int i = 0; i < 8; i++) values[n][i] = product(values[n][i], inverse);
            if (params.weight) {
                weight.recall(params.weight_dtype, n, beside);
#pragma unroll
                for (int i = 0; i < 8; i++) values[n][i] = product(values[n][i], beside[i]);
            }
            if (params.bias) {
                bias.recall(params.bias_dtype, n, beside);
#pragma unroll
                for (int i = 0; i < 8; i++) values[n][i] = sum_of(values[n][i], beside[i]);
            }
        }
    });
}

// ------------------------------------------------------------------------------ rows of any kind, read again each time

template <typename T>
struct row {
    const qf_rows_params &params;
    int64_t start, lane;
    bool exists; // threads past the last row compute with the others and store nothing

    __device__ __forceinline__ int64_t run(int64_t n) const {
        return (n * params.lanes + lane) * VECTOR;
    }
    __device__ __forceinline__ void load(int64_t at, T *out) const {
        load_some(params.x_dtype, params.x, start + at * params.inner, params.inner, exists ? params.size - at : 0,
                  params.aligned, out);
    }

    // Calls visit(element) for the thread's elements in ascending order.
    template <typename VISIT>
    __device__ __forceinline__ void each(VISIT visit) const {
        for (int64_t n = 0; run(n) < params.size; n++) {
            T part[VECTOR];
            load(run(n), part);
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                if (run(n) + k < params.size) visit(part[k]);
        }
    }

    // Stores the elements after map(four elements, index of the first in the row).
    template <typename MAP>
    __device__ __forceinline__ void store(MAP map) const {
        for (int64_t n = 0; exists && run(n) < params.size; n++) {
            T part[VECTOR];
            load(run(n), part);
            map(part, run(n));
            store_some(params.y_dtype, params.y, start + run(n) * params.inner, params.inner, params.size - run(n),
                       params.aligned, part);
        }
    }
};

template <typename T, typename WORK>
__device__ __forceinline__ void for_each_row(const qf_rows_params &params, WORK work) {
    const int64_t rows = blockDim.x / params.lanes;
    for (int64_t first = blockIdx.x * rows; first < params.count; first += gridDim.x * rows) {
        const int64_t number = first + threadIdx.x / params.lanes;
        row<T> mine = {params, number / params.inner * params.size * params.inner + number % params.inner,
                       threadIdx.x % params.lanes, number < params.count};
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

extern "C" __global__ void __launch_bounds__(HELD_THREADS_16, 3)
    qf_softmax_held_16(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    softmax_in_one_pass<2, QF_HELD_RUNS_16>(params);
}

extern "C" __global__ void __launch_bounds__(QF_HELD_THREADS)
    qf_softmax_held(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    softmax_in_one_pass<4, QF_HELD_RUNS>(params);
}

extern "C" __global__ void __launch_bounds__(HELD_THREADS_16, 3)
    qf_layer_norm_held_16(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    layer_norm_in_one_pass<2, QF_HELD_RUNS_16>(params);
}

extern "C" __global__ void __launch_bounds__(QF_HELD_THREADS)
    qf_layer_norm_held(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    layer_norm_in_one_pass<4, QF_HELD_RUNS>(params);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS) qf_softmax(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    if (params.in_registers)
        softmax_held(params);
    else if (params.x_dtype == QF_F64)
        softmax<double>(params);
    else
        softmax<float>(params);
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
    qf_layer_norm(const __grid_constant__ qf_rows_params params) {
    begin_kernel();
    if (params.in_registers)
        layer_norm_held(params);
    else if (params.x_dtype == QF_F64)
        layer_norm<double>(params);
    else
        layer_norm<float>(params);
}
