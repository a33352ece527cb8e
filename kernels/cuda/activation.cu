// Owns: rms_norm, add_rms_norm, silu_mul, each with an optional quantised end.
// Does not own: that end (common/scaling.cuh), launches (activation.c).
// Read next: activation.c, kernels/cpu/normalise.c.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/common/dependent.cuh"
#include "kernels/cuda/common/scaling.cuh"

using namespace qfuse;

namespace {

// WIDTH 8: aligned runs of the compact dtypes; 1: everything else.
template <int WIDTH>
__device__ __forceinline__ void load_elements(uint32_t dtype, const void *data, int64_t first, float (&out)[WIDTH]) {
    if constexpr (WIDTH == 1)
        out[0] = load_f32(dtype, data, first);
    else
        load_fast<WIDTH>(dtype, data, first, out);
}

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
    for (int i = 0; i < WIDTH; i++) {
        const float total = sum(out[i], residual[i]);
        out[i] = WIDTH == 1 ? round_f32(params.x_dtype, total, true) : round_fast(params.x_dtype, total);
    }
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
__device__ __forceinline__ void normalise(const qf_norm_params &params, int64_t row, int64_t at, float root,
                                          const scaler &by, float (&values)[WIDTH]) {
    float weight[WIDTH];
    if (params.weight) load_elements<WIDTH>(params.weight_dtype, params.weight, at, weight);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        values[i] = __fdiv_rn(values[i], root);
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

// Run `run` of this thread in shared memory, four numbers apart from each other as far as the CTA has threads.
template <int WIDTH>
__device__ __forceinline__ void keep(float *kept, uint32_t run, const float (&values)[WIDTH]) {
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4)
        reinterpret_cast<float4 *>(kept)[(run * (WIDTH / 4) + i / 4) * blockDim.x + threadIdx.x] =
            make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
}

template <int WIDTH>
__device__ __forceinline__ void recall(const float *kept, uint32_t run, float (&values)[WIDTH]) {
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4) {
        const float4 part =
            reinterpret_cast<const float4 *>(kept)[(run * (WIDTH / 4) + i / 4) * blockDim.x + threadIdx.x];
        values[i] = part.x, values[i + 1] = part.y, values[i + 2] = part.z, values[i + 3] = part.w;
    }
}

template <int WIDTH>
__device__ __forceinline__ void norm_rows(const qf_norm_params &params) {
    extern __shared__ float4 shared[];
    float *kept = reinterpret_cast<float *>(shared);
    const uint32_t lanes = params.lanes, lane = threadIdx.x % lanes, team = threadIdx.x / lanes;
    const uint32_t teams = blockDim.x / lanes, keeps = WIDTH == 1 ? 0 : params.kept_runs;
    const int64_t stride = (int64_t)lanes * WIDTH, start = (int64_t)lane * WIDTH;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    // Teams of a CTA take as many turns, since they share barriers and shuffles.
    for (int64_t turn = (int64_t)blockIdx.x * teams; turn < params.rows; turn += (int64_t)gridDim.x * teams) {
        const int64_t row = turn + team, size = row < params.rows ? params.size : 0;
        float values[WIDTH], squares = 0.0f;
        uint32_t run = 0;
        for (int64_t at = start; at < size; at += stride, run++) {
            load_sum<WIDTH>(params, row * params.size + at, values);
            store_sum<WIDTH>(params, row * params.size + at, values);
            if constexpr (WIDTH > 1)
                if (run < keeps) keep<WIDTH>(kept, run, values);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) squares = sum(squares, product(values[i], values[i]));
        }
        squares = share_sum(squares, lanes);
        const float root = __fsqrt_rn(sum(__fdiv_rn(squares, (float)params.size), params.epsilon));
        run = 0;
        for (int64_t at = start; at < size; at += stride, run++) {
            bool again = true;
            if constexpr (WIDTH > 1) {
                again = run >= keeps;
                if (!again) recall<WIDTH>(kept, run, values);
            }
            if (again) load_sum<WIDTH>(params, row * params.size + at, values);
            normalise<WIDTH>(params, row, at, root, by, values);
        }
    }
}

// ------------------------------------------------------------------------------------------------------------ silu_mul

template <int WIDTH>
__device__ __forceinline__ void silu_run(const qf_silu_params &params, int64_t first, const scaler &by) {
    float gate[WIDTH], up[WIDTH];
    const int64_t row =
        params.count <= UINT32_MAX ? (int64_t)((uint32_t)first / (uint32_t)params.size) : first / params.size;
    const int64_t from = first + row * params.size;
    load_elements<WIDTH>(params.x_dtype, params.x, from, gate);
    load_elements<WIDTH>(params.x_dtype, params.x, from + params.size, up);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const float sigmoid = __frcp_rn(sum(1.0f, expf(-gate[i])));
        gate[i] = product(product(gate[i], sigmoid), up[i]);
    }
    store_result<WIDTH>(params.output, by, params.y, first, gate);
}

template <int WIDTH>
__device__ __forceinline__ void silu_rows(const qf_silu_params &params) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x * WIDTH;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDTH; i < params.count; i += step)
        silu_run<WIDTH>(params, i, by);
}

} // namespace

extern "C" __global__ void __launch_bounds__(512) qf_rms_norm_runs(const __grid_constant__ qf_norm_params params) {
    norm_rows<8>(params);
}

extern "C" __global__ void __launch_bounds__(512) qf_rms_norm(const __grid_constant__ qf_norm_params params) {
    norm_rows<1>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_silu_mul_runs(const __grid_constant__ qf_silu_params params) {
    silu_rows<8>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_silu_mul(const __grid_constant__ qf_silu_params params) {
    silu_rows<1>(params);
}
