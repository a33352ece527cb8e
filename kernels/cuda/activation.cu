// Owns: rms_norm, add_rms_norm, silu_mul, each with an optional quantised end.
// Does not own: that end (common/scaling.cuh), launches (activation.c).
// Read next: activation.c, kernels/cpu/normalise.c.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/common/approximate.cuh"
#include "kernels/cuda/common/async_copy.cuh"
#include "kernels/cuda/common/dependent.cuh"
#include "kernels/cuda/common/held_row.cuh"
#include "kernels/cuda/common/scaling.cuh"

using namespace qfuse;

namespace {

// WIDTH 8: aligned runs of the compact dtypes; 1: everything else.
template <int WIDTH>
__device__ __forceinline__ void store_result(const qf_cuda_output &output, const scaler &by, void *data, int64_t first,
                                             float (&values)[WIDTH]) {
    if constexpr (WIDTH == 1)
        store_output(output, by, data, first, values[0]);
    else
        store_output_fast<WIDTH>(output, by, data, first, values);
}

// ------------------------------------------------------------------------------------------------------------ rms_norm

// x, or x + residual rounded to their dtype.
template <int WIDTH>
__device__ __forceinline__ void load_sum(const qf_norm_params &params, int64_t first, float (&out)[WIDTH]) {
    load_elements<WIDTH>(params.x_dtype, params.x, first, out);
    if (!params.residual) return;
    float residual[WIDTH];
    load_elements<WIDTH>(params.x_dtype, params.residual, first, residual);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) out[i] = sum(out[i], residual[i]);
    if constexpr (WIDTH == 1)
        out[0] = round_f32(params.x_dtype, out[0], true);
    else
        round_run<WIDTH>(params.x_dtype, out);
}

template <int WIDTH>
__device__ __forceinline__ void store_sum(const qf_norm_params &params, int64_t first, const float (&values)[WIDTH]) {
    if (!params.sum) return;
    if constexpr (WIDTH == 1)
        store_shared_bits(element_bits(params.x_dtype), params.sum, first,
                          bits_from_f32(params.x_dtype, values[0], true));
    else
        store_fast<WIDTH>(params.x_dtype, params.sum, first, values);
}

template <int WIDTH>
__device__ __forceinline__ void normalise(const qf_norm_params &params, int64_t row, int64_t at, float inverse,
                                          const scaler &by, float (&values)[WIDTH]) {
    float weight[WIDTH];
    if (params.weight) load_elements<WIDTH>(params.weight_dtype, params.weight, at, weight);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        values[i] = product(values[i], inverse);
        if (params.weight) values[i] = product(values[i], weight[i]);
    }
    store_result<WIDTH>(params.output, by, params.y, row * params.size + at, values);
}

// The sum over the `lanes` threads of a row, in one order; `lanes` above 32 is the whole CTA.
__device__ __forceinline__ float share_sum(float value, uint32_t lanes) {
    __shared__ float of_warps[32];
    for (uint32_t distance = (lanes < 32 ? lanes : 32) / 2; distance; distance /= 2)
        value = sum(value, __shfl_xor_sync(0xFFFFFFFFu, value, (int)distance));
    if (lanes <= 32) return value;
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (uint32_t i = 0; i < blockDim.x / 32; i++) value = sum(value, of_warps[i]);
    return value;
}

// Runs of f16 and bf16 that a thread keeps in shared memory, each read by the thread that copied it: x, then the
// residual.
struct kept_runs {
    uint4 *room;
    uint32_t count, tensors;

    __device__ __forceinline__ uint4 &at(uint32_t run, uint32_t tensor) const {
        return room[(run * tensors + tensor) * blockDim.x + threadIdx.x];
    }
};

// All of a row is on its way at once.
__device__ __forceinline__ void fetch_runs(const qf_norm_params &params, const kept_runs &kept, int64_t first,
                                           int64_t start, int64_t stride, int64_t size) {
    int64_t at = start;
    for (uint32_t run = 0; run < kept.count && at < size; run++, at += stride) {
        copy_async_16(&kept.at(run, 0), static_cast<const uint16_t *>(params.x) + first + at);
        if (params.residual)
            copy_async_16(&kept.at(run, 1), static_cast<const uint16_t *>(params.residual) + first + at);
    }
    wait_for_copies();
}

__device__ __forceinline__ void recall(const qf_norm_params &params, const kept_runs &kept, uint32_t run,
                                       uint32_t tensor, float (&out)[8]) {
    raw_run<8, 2> raw;
    load_words<16>(&kept.at(run, tensor), raw.words);
    decode_raw<8, 2>(params.x_dtype, raw, out);
}

// As load_sum; the sum takes the place of x.
__device__ __forceinline__ void recall_sum(const qf_norm_params &params, const kept_runs &kept, uint32_t run,
                                           float (&out)[8]) {
    recall(params, kept, run, 0, out);
    if (!params.residual) return;
    float residual[8];
    recall(params, kept, run, 1, residual);
#pragma unroll
    for (int i = 0; i < 8; i++) out[i] = sum(out[i], residual[i]);
    round_run<8>(params.x_dtype, out);
    store_fast<8>(params.x_dtype, &kept.at(run, 0), 0, out);
}

template <int WIDTH>
__device__ __forceinline__ void norm_rows(const qf_norm_params &params) {
    extern __shared__ uint4 shared[];
    const kept_runs kept = {shared, WIDTH == 1 ? 0 : params.kept_runs, params.residual ? 2u : 1u};
    const uint32_t lanes = params.lanes, lane = threadIdx.x % lanes, team = threadIdx.x / lanes;
    const uint32_t teams = blockDim.x / lanes;
    const int64_t stride = (int64_t)lanes * WIDTH, start = (int64_t)lane * WIDTH;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    // Teams of a CTA take as many turns, since they share barriers and shuffles.
    for (int64_t turn = (int64_t)blockIdx.x * teams; turn < params.rows; turn += (int64_t)gridDim.x * teams) {
        const int64_t row = turn + team, size = row < params.rows ? params.size : 0, first = row * params.size;
        float values[WIDTH], squares = 0.0f;
        uint32_t run = 0;
        if constexpr (WIDTH == 8) fetch_runs(params, kept, first, start, stride, size);
        for (int64_t at = start; at < size; at += stride, run++) {
            bool is_kept = false;
            if constexpr (WIDTH == 8) {
                is_kept = run < kept.count;
                if (is_kept) recall_sum(params, kept, run, values);
            }
            if (!is_kept) load_sum<WIDTH>(params, first + at, values);
            store_sum<WIDTH>(params, first + at, values);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) squares = sum(squares, product(values[i], values[i]));
        }
        squares = share_sum(squares, lanes);
        const float mean = sum(__fdiv_rn(squares, (float)params.size), params.epsilon);
        const float inverse = __frcp_rn(__fsqrt_rn(mean));
        run = 0;
        for (int64_t at = start; at < size; at += stride, run++) {
            bool is_kept = false;
            if constexpr (WIDTH == 8) {
                is_kept = run < kept.count;
                if (is_kept) recall(params, kept, run, 0, values);
            }
            if (!is_kept) load_sum<WIDTH>(params, first + at, values);
            normalise<WIDTH>(params, row, at, inverse, by, values);
        }
    }
}

// Rows that a team holds. BYTES 2: x, residual and weight have 16 bits.
template <int BYTES, int RUNS>
__device__ __forceinline__ void norm_held_rows(const qf_norm_params &params) {
    extern __shared__ uint4 room[];
    __shared__ float shared[2][QF_HELD_THREADS / 32];
    team_exchange exchange = {shared, 0};
    row_team<RUNS> team(params.lanes, params.size, params.rows);
    const kept_row<BYTES, RUNS> weight(room, 0);
    const float share = __frcp_rn((float)params.size);
    held_runs<BYTES, RUNS> next, residual;
    next.clear();
    residual.clear();
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    if (team.exists()) {
        next.load(params.x_dtype, params.x, team.first(), team);
        if (params.residual) residual.load(params.x_dtype, params.residual, team.first(), team);
    }
    if (params.weight) weight.load(params.weight_dtype, params.weight, team);
    for (; team.block_has_rows(); team.row += team.step) {
        const int64_t first = team.first();
        const bool exists = team.exists();
        float values[RUNS][8], squares = 0.0f;
        next.decode(params.x_dtype, values);
        if (params.residual) {
#pragma unroll
            for (int n = 0; n < RUNS; n++) {
                float added[8];
                decode_raw<8, BYTES>(params.x_dtype, residual.run[n], added);
#pragma unroll
                for (int i = 0; i < 8; i++) values[n][i] = sum(values[n][i], added[i]);
                round_run<8>(params.x_dtype, values[n]);
                if (exists && (uint32_t)n < team.count) store_sum<8>(params, first + team.at(n), values[n]);
            }
        }
        if (team.is_followed()) {
            const int64_t after = first + team.step * params.size;
            next.load(params.x_dtype, params.x, after, team);
            if (params.residual) residual.load(params.x_dtype, params.residual, after, team);
        }
#pragma unroll
        for (int n = 0; n < RUNS; n++)
#pragma unroll
            for (int i = 0; i < 8; i++) squares = fmaf(values[n][i], values[n][i], squares);
        squares = exchange.sum(squares, team.lanes);
        const float inverse = rsqrtf(fmaf(squares, share, params.epsilon));
#pragma unroll
        for (int n = 0; n < RUNS; n++) {
            if (!exists || (uint32_t)n >= team.count) break;
#pragma unroll
            for (int i = 0; i < 8; i++) values[n][i] = product(values[n][i], inverse);
            if (params.weight) {
                float factors[8];
                weight.recall(params.weight_dtype, n, factors);
#pragma unroll
                for (int i = 0; i < 8; i++) values[n][i] = product(values[n][i], factors[i]);
            }
            store_result<8>(params.output, by, params.y, first + team.at(n), values[n]);
        }
    }
}

// ------------------------------------------------------------------------------------------------------------ silu_mul

// IS_SHORT: gates of 16 bits, whose results have no more: what the instructions err by is lost in their rounding.
template <int WIDTH, bool IS_SHORT>
__device__ __forceinline__ void store_product(const qf_silu_params &params, int64_t first, const scaler &by,
                                              float (&gate)[WIDTH], const float (&up)[WIDTH]) {
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const float sigmoid = IS_SHORT ? sigmoid_approximate(gate[i]) : __frcp_rn(sum(1.0f, expf(-gate[i])));
        gate[i] = product(product(gate[i], sigmoid), up[i]);
    }
    store_result<WIDTH>(params.output, by, params.y, first, gate);
}

// Where the gate of result `first` lies; its factor lies a row further.
__device__ __forceinline__ int64_t gate_of(const qf_silu_params &params, int64_t first) {
    if (params.count < INT32_MAX) {
        const uint32_t n = (uint32_t)first, row = (__umulhi(n, params.size_magic) + n) >> params.size_shift;
        return (int64_t)row * (uint32_t)params.size + n;
    }
    const int64_t row = first / params.size;
    return first + row * params.size;
}

__device__ __forceinline__ void silu_elements(const qf_silu_params &params) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < params.count; i += step) {
        float gate[1], up[1];
        const int64_t from = gate_of(params, i);
        load_elements<1>(params.x_dtype, params.x, from, gate);
        load_elements<1>(params.x_dtype, params.x, from + params.size, up);
        store_product<1, false>(params, i, by, gate, up);
    }
}

// Neighbouring threads take neighbouring runs; a thread's runs, a CTA's width apart, are on their way together.
template <int BYTES>
__device__ __forceinline__ void silu_runs(const qf_silu_params &params) {
    constexpr int kRuns = QF_SILU_RUNS;
    const int64_t runs = params.count / 8, tile = (int64_t)blockDim.x * kRuns, step = gridDim.x * tile;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    for (int64_t start = blockIdx.x * tile + threadIdx.x; start < runs; start += step) {
        raw_run<8, BYTES> gate[kRuns], up[kRuns];
#pragma unroll
        for (int n = 0; n < kRuns; n++) {
            const int64_t run = start + n * (int64_t)blockDim.x;
            if (run >= runs) break;
            const int64_t from = gate_of(params, run * 8);
            load_raw<8, BYTES>(params.x_dtype, params.x, from, gate[n]);
            load_raw<8, BYTES>(params.x_dtype, params.x, from + params.size, up[n]);
        }
#pragma unroll
        for (int n = 0; n < kRuns; n++) {
            const int64_t run = start + n * (int64_t)blockDim.x;
            if (run >= runs) break;
            float gates[8], ups[8];
            decode_raw<8, BYTES>(params.x_dtype, gate[n], gates);
            decode_raw<8, BYTES>(params.x_dtype, up[n], ups);
            store_product<8, BYTES == 2>(params, run * 8, by, gates, ups);
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(QF_HELD_THREADS, 2)
    qf_rms_norm_held_16(const __grid_constant__ qf_norm_params params) {
    norm_held_rows<2, QF_HELD_RUNS>(params);
}

extern "C" __global__ void __launch_bounds__(QF_HELD_THREADS)
    qf_rms_norm_held(const __grid_constant__ qf_norm_params params) {
    norm_held_rows<4, QF_HELD_RUNS>(params);
}

extern "C" __global__ void __launch_bounds__(512) qf_rms_norm_runs(const __grid_constant__ qf_norm_params params) {
    norm_rows<8>(params);
}

extern "C" __global__ void __launch_bounds__(512) qf_rms_norm(const __grid_constant__ qf_norm_params params) {
    norm_rows<1>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_silu_mul_runs(const __grid_constant__ qf_silu_params params) {
    silu_runs<4>(params);
}

// Of f16 and bf16.
extern "C" __global__ void __launch_bounds__(256) qf_silu_mul_runs_16(const __grid_constant__ qf_silu_params params) {
    silu_runs<2>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_silu_mul(const __grid_constant__ qf_silu_params params) {
    silu_elements(params);
}
