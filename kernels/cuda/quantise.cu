// Owns: quantize, dequantize, dynamic_quantize.
// Does not own: the arithmetic of one number (common/scaling.cuh), launches (quantise.c).
// Read next: quantise.c, kernels/cpu/quantise.c.
#include "kernels/cuda/common/async_copy.cuh"
#include "kernels/cuda/common/dependent.cuh"
#include "kernels/cuda/common/held_row.cuh"
#include "kernels/cuda/common/scaling.cuh"
#include "kernels/cuda/quantise.h"

using namespace qfuse;

namespace {

constexpr int kRun = QF_QUANTISE_RUN;

// ------------------------------------------------------------------------------------------- which scale an element
// has

struct entries {
    int64_t scale, zero_point;
};

__device__ __forceinline__ uint32_t divided(const qf_quantise_divisor &by, uint32_t n) {
    return (__umulhi(n, by.magic) + n) >> by.shift;
}

__device__ __forceinline__ entries entries_of(const qf_quantise_params &params, int64_t index) {
    entries at = {0, 0};
    if (params.count < INT32_MAX) {
        uint32_t n = (uint32_t)index;
        for (uint32_t i = params.axis_count; i-- > 0;) {
            const uint32_t rest = divided(params.by_size[i], n);
            const uint32_t block = divided(params.by_block[i], n - rest * (uint32_t)params.sizes[i]);
            at.scale += block * params.scale_strides[i];
            at.zero_point += block * params.zero_strides[i];
            n = rest;
        }
        return at;
    }
    for (uint32_t i = params.axis_count; i-- > 0;) {
        const int64_t rest = index / params.sizes[i], block = (index - rest * params.sizes[i]) / params.blocks[i];
        at.scale += block * params.scale_strides[i];
        at.zero_point += block * params.zero_strides[i];
        index = rest;
    }
    return at;
}

__device__ __forceinline__ double zero_point_at(const qf_quantise_params &params, int64_t entry) {
    return params.zero_point ? load_f64(params.zero_dtype, params.zero_point, entry) : 0.0;
}

// -------------------------------------------------------------------------------------------------- any dtype, any
// scale

// f64 and i64 elements pass through f64 as they do on the CPU; so does compute f64.
__device__ uint64_t quantised_bits(const qf_quantise_params &params, int64_t index, entries at) {
    const scaler by =
        prepare_scale_f64(params.mode, params.compute, load_f64(params.scale_dtype, params.scale, at.scale));
    const double x = load_f64(params.x_dtype, params.x, index);
    double number = params.compute == QF_F64 ? scaled_f64(params.mode, x, by)
                                             : widen(scaled(params.mode, params.compute, narrow(x), by));
    if (!is_float(params.y_dtype)) number = rint(number);
    if (params.zero_point) number += zero_point_at(params, at.zero_point);
    return bits_from_f64(params.y_dtype, number, params.saturate);
}

__device__ uint64_t dequantised_bits(const qf_quantise_params &params, int64_t index, entries at) {
    const double scale = load_f64(params.scale_dtype, params.scale, at.scale);
    const double x = load_f64(params.x_dtype, params.x, index) - zero_point_at(params, at.zero_point);
    if (params.y_dtype == QF_F64) return bits_of(__dmul_rn(x, scale));
    return bits_from_f32(params.y_dtype, product(narrow(x), narrow(scale)), true);
}

template <bool BACK>
__device__ __forceinline__ void convert_element(const qf_quantise_params &params, int64_t index) {
    const entries at = entries_of(params, index);
    store_bits(element_bits(params.y_dtype), params.y, index,
               BACK ? dequantised_bits(params, index, at) : quantised_bits(params, index, at));
}

// A thread owns a pair of elements, so 4-bit neighbours of one byte have one owner.
template <bool BACK>
__device__ __forceinline__ void convert_elements(const qf_quantise_params &params) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x * 2;
    wait_for_predecessor();
    let_successor_start();
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 2; i < params.count; i += step) {
        convert_element<BACK>(params, i);
        if (i + 1 < params.count) convert_element<BACK>(params, i + 1);
    }
}

// ---------------------------------------------------------------------- compact dtypes, aligned, one entry a run

template <int BYTES>
__device__ __forceinline__ bool quantise_pairs(const qf_quantise_params &params, int64_t first,
                                               const raw_run<kRun, BYTES> &run, const scaler &by) {
    if constexpr (BYTES == 2) {
        const bool e5m2 = params.y_dtype == QF_F8E5M2;
        if (params.mode != kDivide || params.compute != QF_F32 || !(e5m2 || params.y_dtype == QF_F8E4M3FN))
            return false;
        uint32_t codes[2];
        divide_pairs_to_f8(params.x_dtype == QF_BF16, e5m2, run.words, by, codes);
        store_words<kRun>(static_cast<uint8_t *>(params.y) + first, codes);
        return true;
    }
    return false;
}

template <bool BACK, int BYTES>
__device__ __forceinline__ void store_run(const qf_quantise_params &params, int64_t first,
                                          const raw_run<kRun, BYTES> &run, const scaler &by) {
    if (!BACK && quantise_pairs<BYTES>(params, first, run, by)) return;
    float values[kRun];
    decode_raw<kRun, BYTES>(params.x_dtype, run, values);
    if constexpr (BACK) {
#pragma unroll
        for (int i = 0; i < kRun; i++) values[i] = product(values[i], by.factor);
    } else {
        scale_for_f8<kRun>(params.mode, params.compute, by, values);
    }
    store_fast<kRun>(params.y_dtype, params.y, first, values);
}

// Neighbouring threads take neighbouring runs; a thread's runs, a CTA's width apart, and their scales are on their way
// together.
template <bool BACK, int BYTES>
__device__ __forceinline__ void convert_runs(const qf_quantise_params &params) {
    constexpr int kRuns = QF_QUANTISE_RUNS;
    const int64_t runs = params.count / kRun, tile = (int64_t)blockDim.x * kRuns, step = gridDim.x * tile;
    const uint32_t mode = BACK ? kDivide : params.mode, compute = BACK ? (uint32_t)QF_F32 : params.compute;
    wait_for_predecessor();
    let_successor_start();
    for (int64_t start = blockIdx.x * tile + threadIdx.x; start < runs; start += step) {
        raw_run<kRun, BYTES> raw[kRuns];
        float scale[kRuns];
#pragma unroll
        for (int n = 0; n < kRuns; n++) {
            const int64_t run = start + n * (int64_t)blockDim.x;
            if (run < runs) load_raw<kRun, BYTES>(params.x_dtype, params.x, run * kRun, raw[n]);
        }
#pragma unroll
        for (int n = 0; n < kRuns; n++) {
            const int64_t run = start + n * (int64_t)blockDim.x;
            if (run < runs && (n == 0 || params.axis_count))
                scale[n] = load_f32(params.scale_dtype, params.scale,
                                    params.axis_count ? entries_of(params, run * kRun).scale : 0);
        }
        scaler by = prepare_scale(mode, compute, scale[0]);
#pragma unroll
        for (int n = 0; n < kRuns; n++) {
            const int64_t run = start + n * (int64_t)blockDim.x;
            if (n > 0 && params.axis_count) by = prepare_scale(mode, compute, scale[n]);
            if (run < runs) store_run<BACK, BYTES>(params, run * kRun, raw[n], by);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (int64_t i = runs * kRun; i < params.count; i++) convert_element<BACK>(params, i);
}

// The same of fewer than 2^31 elements with one scale, or with f32 scales that lie in the order of their elements.
template <bool BACK, int BYTES, bool ONE>
__device__ __forceinline__ void convert_granules(const qf_quantise_params &params) {
    constexpr int kRuns = QF_QUANTISE_RUNS;
    const uint32_t runs = (uint32_t)params.count / kRun, first = blockIdx.x * blockDim.x * kRuns + threadIdx.x;
    const uint32_t mode = BACK ? kDivide : params.mode, compute = BACK ? (uint32_t)QF_F32 : params.compute;
    raw_run<kRun, BYTES> raw[kRuns];
    float scale[kRuns];
    wait_for_predecessor();
    let_successor_start();
#pragma unroll
    for (int n = 0; n < kRuns; n++) {
        const uint32_t run = first + n * blockDim.x;
        if (run >= runs) break;
        load_raw<kRun, BYTES>(params.x_dtype, params.x, run * kRun, raw[n]);
        if (!ONE) scale[n] = static_cast<const float *>(params.scale)[divided(params.by_granule, run * kRun)];
    }
    scaler by = prepare_scale(mode, compute, ONE ? load_f32(params.scale_dtype, params.scale, 0) : scale[0]);
#pragma unroll
    for (int n = 0; n < kRuns; n++) {
        const uint32_t run = first + n * blockDim.x;
        if (run >= runs) break;
        if (!ONE && n > 0) by = prepare_scale(mode, compute, scale[n]);
        store_run<BACK, BYTES>(params, run * kRun, raw[n], by);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (uint32_t i = runs * kRun; i < (uint32_t)params.count; i++) convert_element<BACK>(params, i);
}

// --------------------------------------------------------------------------------------------------- dynamic_quantize

// Runs of eight of the compact dtypes at once; of others, and of what is left, an element after another, each thread
// `run` neighbours.
template <typename VISIT>
__device__ __forceinline__ void for_each_f32(const qf_dynamic_params &params, int64_t first, int64_t last,
                                             uint32_t lane, uint32_t lanes, VISIT visit) {
    if (params.is_fast) {
        const int64_t end = first + (last - first) / 8 * 8;
        for (int64_t i = first + lane * 8; i < end; i += lanes * 8) {
            float values[8];
            load_fast<8>(params.x_dtype, params.x, i, values);
            visit(i, values);
        }
        first = end;
    }
    const uint32_t run = params.run;
    for (int64_t start = first + lane * run; start < last; start += lanes * run)
        for (int64_t i = start; i < start + run && i < last; i++) {
            float values[1] = {load_f32(params.x_dtype, params.x, i)};
            visit(i, values);
        }
}

// NaN does not count.
template <int N>
__device__ __forceinline__ float larger_magnitude(float most, const float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float magnitude = fabsf(values[i]);
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

__device__ __forceinline__ float load_bound(const qf_dynamic_params &params) {
    return params.upper_bound ? load_f32(params.bound_dtype, params.upper_bound, 0) : float_of(0x7F800000);
}

__device__ __forceinline__ float scale_from(const qf_dynamic_params &params, float bound, float most) {
    const float scale = __fdiv_rn(most > bound ? bound : most, params.largest);
    return scale > 0.0f ? scale : 1.0f;
}

template <int N>
__device__ __forceinline__ void store_scaled(const qf_dynamic_params &params, int64_t first, float (&values)[N],
                                             const scaler &by) {
    if constexpr (N == 8) {
        scale_for_f8<8>(kDivide, QF_F32, by, values);
        store_fast<8>(params.y_dtype, params.y, first, values);
    } else {
        const float scaled_value = scaled(kDivide, QF_F32, values[0], by);
        const float number = is_float(params.y_dtype) ? scaled_value : rintf(scaled_value);
        store_bits(element_bits(params.y_dtype), params.y, first, bits_from_f32(params.y_dtype, number, true));
    }
}

__device__ __forceinline__ void recall(const qf_dynamic_params &params, const uint4 &kept, float (&out)[8]) {
    raw_run<8, 2> raw;
    load_words<16>(&kept, raw.words);
    decode_raw<8, 2>(params.x_dtype, raw, out);
}

// The largest value of the `lanes` threads that share an entry; `lanes` above 32 is the whole CTA.
__device__ __forceinline__ float share_maximum(float most, uint32_t lanes) {
    __shared__ float of_warps[32];
    for (uint32_t distance = (lanes < 32 ? lanes : 32) / 2; distance; distance /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, (int)distance));
    if (lanes <= 32) return most;
    const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[warp] = most;
    __syncthreads();
    for (uint32_t i = 0; i < warps; i++) most = fmaxf(most, of_warps[i]);
    return most;
}

// Entries that a team holds. BYTES 2: x has 16 bits.
template <int BYTES, int RUNS>
__device__ __forceinline__ void quantise_held_rows(const qf_dynamic_params &params) {
    __shared__ float shared[2][QF_HELD_THREADS / 32];
    team_exchange exchange = {shared, 0};
    row_team<RUNS> team(params.lanes, params.size, params.entries);
    const bool to_e5m2 = params.y_dtype == QF_F8E5M2, to_f8 = to_e5m2 || params.y_dtype == QF_F8E4M3FN;
    held_runs<BYTES, RUNS> held, next;
    next.clear();
    wait_for_predecessor();
    let_successor_start();
    const float bound = load_bound(params);
    if (team.exists()) next.load(params.x_dtype, params.x, team.first(), team);
    for (; team.block_has_rows(); team.row += team.step) {
        const int64_t first = team.first();
        float values[8], most = 0.0f;
        held = next;
        if (team.is_followed()) next.load(params.x_dtype, params.x, first + team.step * params.size, team);
#pragma unroll
        for (int n = 0; n < RUNS; n++) {
            decode_raw<8, BYTES>(params.x_dtype, held.run[n], values);
            most = larger_magnitude(most, values);
        }
        const float scale = scale_from(params, bound, exchange.most(most, team.lanes));
        if (!team.exists()) continue;
        if (team.lane == 0) static_cast<float *>(params.scale)[team.row] = scale;
        const scaler by = prepare_scale(kDivide, QF_F32, scale);
#pragma unroll
        for (int n = 0; n < RUNS; n++) {
            if ((uint32_t)n >= team.count) break;
            if constexpr (BYTES == 2) {
                if (to_f8) {
                    uint32_t codes[2];
                    divide_pairs_to_f8(params.x_dtype == QF_BF16, to_e5m2, held.run[n].words, by, codes);
                    store_words<8>(static_cast<uint8_t *>(params.y) + first + team.at(n), codes);
                    continue;
                }
            }
            decode_raw<8, BYTES>(params.x_dtype, held.run[n], values);
            store_scaled<8>(params, first + team.at(n), values, by);
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256) qf_quantize(const __grid_constant__ qf_quantise_params params) {
    convert_elements<false>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_dequantize(const __grid_constant__ qf_quantise_params params) {
    convert_elements<true>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_quantize_runs(const __grid_constant__ qf_quantise_params params) {
    convert_runs<false, 4>(params);
}

// Of f16 and bf16.
extern "C" __global__ void __launch_bounds__(256)
    qf_quantize_runs_16(const __grid_constant__ qf_quantise_params params) {
    convert_runs<false, 2>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_quantize_one(const __grid_constant__ qf_quantise_params params) {
    convert_granules<false, 4, true>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    qf_quantize_one_16(const __grid_constant__ qf_quantise_params params) {
    convert_granules<false, 2, true>(params);
}

extern "C" __global__ void __launch_bounds__(256) qf_dequantize_one(const __grid_constant__ qf_quantise_params params) {
    convert_granules<true, 4, true>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    qf_quantize_granules(const __grid_constant__ qf_quantise_params params) {
    convert_granules<false, 4, false>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    qf_quantize_granules_16(const __grid_constant__ qf_quantise_params params) {
    convert_granules<false, 2, false>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    qf_dequantize_granules(const __grid_constant__ qf_quantise_params params) {
    convert_granules<true, 4, false>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    qf_dequantize_runs(const __grid_constant__ qf_quantise_params params) {
    convert_runs<true, 4>(params);
}

extern "C" __global__ void __launch_bounds__(QF_HELD_MOST / (8 * QF_HELD_RUNS_16), 4)
    qf_dynamic_quantize_held_16(const __grid_constant__ qf_dynamic_params params) {
    quantise_held_rows<2, QF_HELD_RUNS_16>(params);
}

extern "C" __global__ void __launch_bounds__(QF_HELD_THREADS)
    qf_dynamic_quantize_held(const __grid_constant__ qf_dynamic_params params) {
    quantise_held_rows<4, QF_HELD_RUNS>(params);
}

// One scale for a token or group: `lanes` threads find it, store it, and quantise what they read. Up to kept_runs runs
// of f16 or bf16 a thread stay in shared memory, each read by the thread that copied it.
extern "C" __global__ void __launch_bounds__(512, 2)
    qf_dynamic_quantize(const __grid_constant__ qf_dynamic_params params) {
    extern __shared__ uint4 kept[];
    const uint32_t lanes = params.lanes, lane = threadIdx.x % lanes, teams = blockDim.x / lanes;
    const uint32_t team = threadIdx.x / lanes, keeps = params.kept_runs;
    wait_for_predecessor();
    let_successor_start();
    // Teams of a CTA take as many turns, since they share barriers and shuffles.
    for (int64_t turn = (int64_t)blockIdx.x * teams; turn < params.entries; turn += (int64_t)gridDim.x * teams) {
        const int64_t entry = turn + team, first = entry * params.size;
        const int64_t last = entry < params.entries ? first + params.size : first;
        // What is kept lies in front of the rest.
        const int64_t kept_last = keeps ? last : first;
        float most = 0.0f;
        uint32_t run = 0;
        for (int64_t i = first + lane * 8; i < kept_last; i += lanes * 8, run++)
            copy_async_16(&kept[run * blockDim.x + threadIdx.x], static_cast<const uint16_t *>(params.x) + i);
        wait_for_copies();
        run = 0;
        for (int64_t i = first + lane * 8; i < kept_last; i += lanes * 8, run++) {
            float values[8];
            recall(params, kept[run * blockDim.x + threadIdx.x], values);
            most = larger_magnitude(most, values);
        }
        for_each_f32(params, kept_last, last, lane, lanes,
                     [&](int64_t, const auto &values) { most = larger_magnitude(most, values); });
        const float scale = scale_from(params, load_bound(params), share_maximum(most, lanes));
        if (lane == 0 && entry < params.entries) static_cast<float *>(params.scale)[entry] = scale;
        if (!params.y) continue;
        const scaler by = prepare_scale(kDivide, QF_F32, scale);
        run = 0;
        for (int64_t i = first + lane * 8; i < kept_last; i += lanes * 8, run++) {
            float values[8];
            recall(params, kept[run * blockDim.x + threadIdx.x], values);
            store_scaled(params, i, values, by);
        }
        for_each_f32(params, kept_last, last, lane, lanes,
                     [&](int64_t i, auto &values) { store_scaled(params, i, values, by); });
    }
}

// The scale of a whole tensor. The last CTA to finish stores it and leaves `maximum` as it was.
extern "C" __global__ void __launch_bounds__(512) qf_dynamic_scale(const __grid_constant__ qf_dynamic_params params) {
    __shared__ bool is_last;
    const uint32_t threads = gridDim.x * blockDim.x;
    float most = 0.0f;
    wait_for_predecessor();
    let_successor_start();
    for_each_f32(params, 0, params.count, blockIdx.x * blockDim.x + threadIdx.x, threads,
                 [&](int64_t, const auto &values) { most = larger_magnitude(most, values); });
    most = share_maximum(most, blockDim.x);
    if (threadIdx.x == 0) {
        atomicMax(&params.maximum[0], bits_of(most)); // magnitudes are ordered as their bits are
        __threadfence();
        is_last = atomicAdd(&params.maximum[1], 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last || threadIdx.x) return;
    __threadfence();
    static_cast<float *>(params.scale)[0] =
        scale_from(params, load_bound(params), float_of(atomicExch(&params.maximum[0], 0)));
    params.maximum[1] = 0;
}
