// Owns: the kernel that runs elementwise programs of common ops over aligned runs of the compact dtypes, at the speed
// of memory. Does not own: which programs those are (elementwise_chain.c), all others (elementwise.cu). Read next:
// elementwise.h.
#include <qfuse/ops.h>

#include "kernels/cuda/common/elementwise.cuh"
#include "kernels/cuda/common/fast_vector.cuh"
#include "kernels/cuda/common/functions.cuh"

using namespace qfuse;

// A thread takes one run of eight elements through the whole program. It keeps little, so that many threads are
// resident, and calls nothing. NaN stays NaN; its sign and payload may change.

namespace {

constexpr int RUN = QF_ELEMENTWISE_RUN;

// A tensor of one element lies in word 0, decoded.
__device__ __forceinline__ void fetch(const qf_elementwise_params &params, uint32_t number, int64_t first,
                                      raw_run<RUN, 4> &out) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    const void *data = reinterpret_cast<const void *>(tensor.address);
    if (tensor.kind == QF_ELEMENTWISE_ONE) {
        out.words[0] = bits_of(load_f32(tensor.dtype, data, 0));
        return;
    }
    int64_t at = first;
    if (tensor.kind == QF_ELEMENTWISE_RUNS) {
        // Elements are fewer than 2^31.
        uint32_t index = (uint32_t)first;
        at = 0;
        for (uint32_t i = 0; i < tensor.rank; i++) {
            const qf_elementwise_loop &loop = params.loops[tensor.first_loop + i];
            const uint32_t rest = i + 1 < tensor.rank ? (__umulhi(index, loop.magic) + index) >> loop.shift : 0;
            at += (int64_t)(index - rest * (uint32_t)loop.size) * loop.stride;
            index = rest;
        }
    }
    load_raw<RUN, 4>(tensor.dtype, data, at, out);
}

__device__ __forceinline__ void decode(const qf_elementwise_params &params, uint32_t number, const raw_run<RUN, 4> &in,
                                       float (&out)[RUN]) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    if (tensor.kind == QF_ELEMENTWISE_ONE) {
#pragma unroll
        for (int i = 0; i < RUN; i++) out[i] = float_of(in.words[0]);
    } else {
        decode_raw<RUN, 4>(tensor.dtype, in, out);
    }
}

#define LOOP(expression)                                                                                               \
    _Pragma("unroll") for (int i = 0; i < RUN; i++) {                                                                  \
        const float x = a[i], y = b[i];                                                                                \
        (void)y;                                                                                                       \
        a[i] = (expression);                                                                                           \
    }                                                                                                                  \
    return

// a becomes the result; b is the second operand. The ops of is_common in elementwise_chain.c.
__device__ __forceinline__ void compute(uint32_t op, float (&a)[RUN], const float (&b)[RUN]) {
    switch (op) {
    case QF_OP_neg: LOOP(-x);
    case QF_OP_abs: LOOP(fabsf(x));
    case QF_OP_relu: LOOP(x < 0 ? 0.0f : x);
    case QF_OP_exp: LOOP(expf(x));
    case QF_OP_sigmoid: LOOP(sigmoid(x));
    case QF_OP_silu: LOOP(product(x, sigmoid(x)));
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

} // namespace

extern "C" __global__ void __launch_bounds__(QF_ELEMENTWISE_RUN_THREADS, 5)
    qf_elementwise_runs(const __grid_constant__ qf_elementwise_params params) {
    begin_kernel();
    const int64_t first = ((int64_t)blockIdx.x * QF_ELEMENTWISE_RUN_THREADS + threadIdx.x) * RUN;
    if (first >= params.count) return;
    float last[RUN] = {}, other[RUN] = {};
    for (uint32_t n = 0; n < params.code_count; n++) {
        const qf_elementwise_code code = params.codes[n];
        raw_run<RUN, 4> a, b;
        // Both operands are on their way before either is waited for.
        const bool loads_a = code.first != QF_ELEMENTWISE_LAST;
        const bool loads_b = code.second != QF_ELEMENTWISE_LAST && code.second != QF_ELEMENTWISE_NONE;
        if (loads_a) fetch(params, code.first, first, a);
        if (loads_b) fetch(params, code.second, first, b);
        // The second operand first: it may be the value that the first one replaces.
        if (loads_b) {
            decode(params, code.second, b, other);
        } else if (code.second == QF_ELEMENTWISE_LAST) {
#pragma unroll
            for (int i = 0; i < RUN; i++) other[i] = last[i];
        }
        if (loads_a) decode(params, code.first, a, last);
        compute(code.op, last, other);
        if (code.dtype != QF_DTYPE_NONE) round_run<RUN>(code.dtype, last);
        if (code.result != QF_ELEMENTWISE_NONE) {
            const qf_elementwise_tensor &tensor = params.tensors[code.result];
            store_fast<RUN>(tensor.dtype, reinterpret_cast<void *>(tensor.address), first, last);
        }
    }
}
