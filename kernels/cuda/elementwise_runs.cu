// Owns: the kernel that runs elementwise programs of common ops over aligned runs of the compact dtypes, at the speed
// of memory. Does not own: which programs those are (elementwise_chain.c), all others (elementwise.cu). Read next:
// elementwise.h.
#include <qfuse/ops.h>

#include "kernels/cuda/common/approximate.cuh"
#include "kernels/cuda/common/elementwise.cuh"
#include "kernels/cuda/common/fast_vector.cuh"
#include "kernels/cuda/common/functions.cuh"

using namespace qfuse;

// A thread takes RUNS runs of eight elements, a block's width apart, through the whole program. It keeps little, so
// that many threads are resident, and calls nothing. NaN stays NaN; its sign and payload may change.

namespace {

constexpr int RUN = QF_ELEMENTWISE_RUN;

// Where the run of elements from `first` on lies in the tensor.
__device__ __forceinline__ int64_t locate_run(const qf_elementwise_params &params, const qf_elementwise_tensor &tensor,
                                              int64_t first) {
    if (tensor.kind != QF_ELEMENTWISE_RUNS) return first;
    // Elements are fewer than 2^31.
    uint32_t index = (uint32_t)first;
    int64_t at = 0;
    for (uint32_t i = 0; i < tensor.rank; i++) {
        const qf_elementwise_loop &loop = params.loops[tensor.first_loop + i];
        const uint32_t rest = i + 1 < tensor.rank ? (__umulhi(index, loop.magic) + index) >> loop.shift : 0;
        at += (int64_t)(index - rest * (uint32_t)loop.size) * loop.stride;
        index = rest;
    }
    return at;
}

// The runs of a thread that exist: of elements `first`, and then a block's width further each.
struct some_runs {
    int64_t first;
    uint32_t count;

    __device__ __forceinline__ int64_t at(int n) const {
        return first + n * (int64_t)(QF_ELEMENTWISE_RUN_THREADS * RUN);
    }
};

// A tensor of one element lies in word 0, decoded. BYTES 2: other tensors have 16 bits.
template <int BYTES, int RUNS>
__device__ __forceinline__ void fetch(const qf_elementwise_params &params, uint32_t number, const some_runs &runs,
                                      raw_run<RUN, BYTES> (&out)[RUNS]) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    const void *data = reinterpret_cast<const void *>(tensor.address);
    if (tensor.kind == QF_ELEMENTWISE_ONE) {
        out[0].words[0] = bits_of(load_f32(tensor.dtype, data, 0));
        return;
    }
#pragma unroll
    for (int n = 0; n < RUNS; n++)
        if ((uint32_t)n < runs.count)
            load_raw<RUN, BYTES>(tensor.dtype, data, locate_run(params, tensor, runs.at(n)), out[n]);
}

template <int BYTES, int RUNS>
__device__ __forceinline__ void decode(const qf_elementwise_params &params, uint32_t number,
                                       const raw_run<RUN, BYTES> (&in)[RUNS], float (&out)[RUNS][RUN]) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
#pragma unroll
    for (int n = 0; n < RUNS; n++) {
        if (tensor.kind == QF_ELEMENTWISE_ONE) {
#pragma unroll
            for (int i = 0; i < RUN; i++) out[n][i] = float_of(in[0].words[0]);
        } else {
            decode_raw<RUN, BYTES>(tensor.dtype, in[n], out[n]);
        }
    }
}

#define LOOP(expression)                                                                                               \
    _Pragma("unroll") for (int n = 0; n < RUNS; n++) _Pragma("unroll") for (int i = 0; i < RUN; i++) {                 \
        const float x = a[n][i], y = b[n][i];                                                                          \
        (void)y;                                                                                                       \
        a[n][i] = (expression);                                                                                        \
    }                                                                                                                  \
    return

// a becomes the result, of at most 16 bits where is_short; b is the second operand. The ops of is_common in
// elementwise_chain.c.
template <int RUNS>
__device__ __forceinline__ void compute(uint32_t op, bool is_short, float (&a)[RUNS][RUN],
                                        const float (&b)[RUNS][RUN]) {
    switch (op) {
    case QF_OP_neg: LOOP(-x);
    case QF_OP_abs: LOOP(fabsf(x));
    case QF_OP_relu: LOOP(x < 0 ? 0.0f : x);
    case QF_OP_exp: LOOP(expf(x));
    case QF_OP_sigmoid:
        if (is_short) {
            LOOP(sigmoid_approximate(x));
        }
        LOOP(sigmoid(x));
    case QF_OP_silu:
        if (is_short) {
            LOOP(product(x, sigmoid_approximate(x)));
        }
        LOOP(product(x, sigmoid(x)));
    case QF_OP_add: LOOP(sum_of(x, y));
    case QF_OP_sub: LOOP(sum_of(x, -y));
    case QF_OP_mul: LOOP(product(x, y));
    case QF_OP_div: LOOP(__fdiv_rn(x, y));
    case QF_OP_minimum: LOOP(smaller(x, y));
    case QF_OP_maximum: LOOP(larger(x, y));
    default: return; // cast
    }
}
#undef LOOP

template <int BYTES, int RUNS>
__device__ __forceinline__ void run_program(const qf_elementwise_params &params) {
    some_runs runs = {((int64_t)blockIdx.x * QF_ELEMENTWISE_RUN_THREADS * RUNS + threadIdx.x) * RUN, 0};
#pragma unroll
    for (int n = 0; n < RUNS; n++) runs.count += runs.at(n) < params.count;
    if (runs.count == 0) return;
    float last[RUNS][RUN] = {}, other[RUNS][RUN] = {};
    for (uint32_t step = 0; step < params.code_count; step++) {
        const qf_elementwise_code code = params.codes[step];
        raw_run<RUN, BYTES> a[RUNS], b[RUNS];
        // Both operands are on their way before either is waited for.
        const bool loads_a = code.first != QF_ELEMENTWISE_LAST;
        const bool loads_b = code.second != QF_ELEMENTWISE_LAST && code.second != QF_ELEMENTWISE_NONE;
        if (loads_a) fetch<BYTES, RUNS>(params, code.first, runs, a);
        if (loads_b) fetch<BYTES, RUNS>(params, code.second, runs, b);
        // The second operand first: it may be the value that the first one replaces.
        if (loads_b) {
            decode<BYTES, RUNS>(params, code.second, b, other);
        } else if (code.second == QF_ELEMENTWISE_LAST) {
#pragma unroll
            for (int n = 0; n < RUNS; n++)
#pragma unroll
                for (int i = 0; i < RUN; i++) other[n][i] = last[n][i];
        }
        if (loads_a) decode<BYTES, RUNS>(params, code.first, a, last);
        const bool is_stored = code.result != QF_ELEMENTWISE_NONE;
        const uint32_t dtype =
            code.dtype != QF_DTYPE_NONE || !is_stored ? code.dtype : params.tensors[code.result].dtype;
        compute<RUNS>(code.op, dtype != QF_DTYPE_NONE && dtype != QF_F32, last, other);
#pragma unroll
        for (int n = 0; n < RUNS; n++) {
            if (code.dtype != QF_DTYPE_NONE) round_run<RUN>(code.dtype, last[n]);
            if (is_stored && (uint32_t)n < runs.count) {
                const qf_elementwise_tensor &tensor = params.tensors[code.result];
                store_fast<RUN>(tensor.dtype, reinterpret_cast<void *>(tensor.address), runs.at(n), last[n]);
            }
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(QF_ELEMENTWISE_RUN_THREADS, 5)
    qf_elementwise_runs(const __grid_constant__ qf_elementwise_params params) {
    begin_kernel();
    run_program<4, 1>(params);
}

// Tensors that are read have 16 bits, or one element.
extern "C" __global__ void __launch_bounds__(QF_ELEMENTWISE_RUN_THREADS, 4)
    qf_elementwise_runs_16(const __grid_constant__ qf_elementwise_params params) {
    begin_kernel();
    run_program<2, QF_ELEMENTWISE_RUNS_16>(params);
}
