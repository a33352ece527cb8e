// Owns: the kernel that runs elementwise programs with f64 and integers: values are 64 bits wide.
// Does not own: programs of narrow floats (elementwise.cu).
// Read next: elementwise.h.
#include <qfuse/ops.h>

#include "kernels/cuda/common/elementwise.cuh"
#include "kernels/cuda/common/functions.cuh"

using namespace qfuse;

namespace {

enum { F32, F64, I64 }; // qf_domain

// A value in 64 bits: an f32 in the low half, an f64, or an integer.
__device__ __forceinline__ uint64_t value_from_code(uint32_t dtype, uint64_t code) {
    if (dtype == QF_F64) return code;
    if (is_float(dtype)) return bits_of(decode_f32(dtype, (uint32_t)code));
    return (uint64_t)integer_from_bits(dtype, code);
}

__device__ __forceinline__ uint64_t code_from_value(uint32_t dtype, uint32_t domain, uint64_t value, bool saturate) {
    switch (domain) {
    case F32: return bits_from_f32(dtype, float_of((uint32_t)value), saturate);
    case F64: return bits_from_f64(dtype, double_of(value), saturate);
    default: return bits_from_i64(dtype, (int64_t)value);
    }
}

__device__ __forceinline__ uint32_t domain_of(uint32_t dtype) {
    return dtype == QF_F64 ? F64 : is_float(dtype) ? F32 : I64;
}

// One result; *domain: in which arithmetic the value is, on entry that of the operands.
template <typename T>
__device__ __forceinline__ T compute_float(const qf_elementwise_code &code, T a, T b, bool &truth, bool &is_truth) {
    switch (code.op) {
    case QF_OP_neg: return -a;
    case QF_OP_abs: return fabs(a);
    case QF_OP_exp: return exp(a);
    case QF_OP_log: return log(a);
    case QF_OP_sqrt: return sqrt(a);
    case QF_OP_rsqrt: return T(1) / sqrt(a);
    case QF_OP_reciprocal: return T(1) / a;
    case QF_OP_tanh: return call_tanh(a);
    case QF_OP_sigmoid: return sigmoid(a);
    case QF_OP_erf: return call_erf(a);
    case QF_OP_sin: return call_sin(a);
    case QF_OP_cos: return call_cos(a);
    case QF_OP_floor: return floor(a);
    case QF_OP_ceil: return ceil(a);
    case QF_OP_round: return rint(a);
    case QF_OP_sign: return a > 0 ? T(1) : a < 0 ? T(-1) : a;
    case QF_OP_relu: return a < 0 ? T(0) : a;
    case QF_OP_silu: return product(a, sigmoid(a));
    case QF_OP_gelu: return call_gelu(a, code.mode);
    case QF_OP_add: return a + b;
    case QF_OP_sub: return a - b;
    case QF_OP_mul: return a * b;
    case QF_OP_div: return a / b;
    case QF_OP_pow: return call_pow(a, b);
    case QF_OP_mod: return remainder_of(a, b, code.mode);
    case QF_OP_minimum: return smaller(a, b);
    case QF_OP_maximum: return larger(a, b);
    default: break;
    }
    is_truth = true;
    switch (code.op) {
    case QF_OP_is_nan: truth = is_nan(a); break;
    case QF_OP_is_inf: truth = is_infinite(a); break;
    case QF_OP_not: truth = a == 0; break;
    case QF_OP_and: truth = a != 0 && b != 0; break;
    case QF_OP_or: truth = a != 0 || b != 0; break;
    case QF_OP_xor: truth = (a != 0) != (b != 0); break;
    case QF_OP_equal: truth = a == b; break;
    case QF_OP_less: truth = a < b; break;
    case QF_OP_less_equal: truth = a <= b; break;
    case QF_OP_greater: truth = a > b; break;
    default: truth = a >= b;
    }
    return a;
}

__device__ __forceinline__ int64_t compute_integer(const qf_elementwise_code &code, int64_t a, int64_t b) {
    switch (code.op) {
    case QF_OP_neg: return (int64_t)(0 - (uint64_t)a);
    case QF_OP_abs: return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case QF_OP_sign: return (a > 0) - (a < 0);
    case QF_OP_relu: return a < 0 ? 0 : a;
    case QF_OP_floor:
    case QF_OP_ceil:
    case QF_OP_round: return a;
    case QF_OP_add: return (int64_t)((uint64_t)a + (uint64_t)b);
    case QF_OP_sub: return (int64_t)((uint64_t)a - (uint64_t)b);
    case QF_OP_mul: return (int64_t)((uint64_t)a * (uint64_t)b);
    case QF_OP_div: return divide(a, b);
    case QF_OP_pow: return power(a, b);
    case QF_OP_mod: return modulo(a, b, code.mode);
    case QF_OP_minimum: return a < b ? a : b;
    case QF_OP_maximum: return a > b ? a : b;
    case QF_OP_not: return a == 0;
    case QF_OP_and: return a && b;
    case QF_OP_or: return a || b;
    case QF_OP_xor: return !a != !b;
    case QF_OP_equal: return a == b;
    case QF_OP_less: return a < b;
    case QF_OP_less_equal: return a <= b;
    case QF_OP_greater: return a > b;
    case QF_OP_greater_equal: return a >= b;
    default: return 0; // is_nan, is_inf
    }
}

__device__ uint64_t compute(const qf_elementwise_code &code, bool condition, uint64_t a, uint64_t b) {
    if (code.op == QF_OP_where) a = condition ? a : b;
    uint32_t domain = code.domain;
    if (code.op != QF_OP_where && code.op != QF_OP_cast) {
        bool truth = false, is_truth = false;
        if (domain == F32) {
            a = bits_of(compute_float(code, float_of((uint32_t)a), float_of((uint32_t)b), truth, is_truth));
        } else if (domain == F64) {
            a = bits_of(compute_float(code, double_of(a), double_of(b), truth, is_truth));
        } else {
            a = (uint64_t)compute_integer(code, (int64_t)a, (int64_t)b);
        }
        if (is_truth) a = truth, domain = I64;
    }
    return value_from_code(code.dtype, code_from_value(code.dtype, domain, a, code.saturate));
}

__device__ __forceinline__ void load_tensor(const qf_elementwise_params &params, uint32_t number, int64_t first,
                                            uint64_t (&out)[VECTOR]) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    const void *data = reinterpret_cast<const void *>(tensor.address);
    if (tensor.kind == QF_ELEMENTWISE_ALIGNED && first + VECTOR <= params.count) {
        load_vector_bits(element_bits(tensor.dtype), data, first, out);
    } else {
#pragma unroll 1
        for (int i = 0; i < VECTOR; i++) {
            uint64_t code = 0;
            if (first + i < params.count)
                code = load_bits(element_bits(tensor.dtype), data, locate_operand(params, tensor, first + i));
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                if (k == i) out[k] = code;
        }
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++) out[i] = value_from_code(tensor.dtype, out[i]);
}

__device__ __forceinline__ void store_tensor(const qf_elementwise_params &params, const qf_elementwise_code &code,
                                             int64_t first, const uint64_t (&values)[VECTOR]) {
    const qf_elementwise_tensor &tensor = params.tensors[code.result];
    void *data = reinterpret_cast<void *>(tensor.address);
    const uint32_t bits = element_bits(tensor.dtype), domain = domain_of(tensor.dtype);
    uint64_t codes[VECTOR];
#pragma unroll
    for (int i = 0; i < VECTOR; i++) codes[i] = code_from_value(tensor.dtype, domain, values[i], code.saturate);
    if (tensor.kind == QF_ELEMENTWISE_ALIGNED && first + VECTOR <= params.count) {
        store_vector_bits(bits, data, first, codes);
        return;
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        if (first + i < params.count) store_bits(bits, data, first + i, codes[i]);
}

__device__ __forceinline__ void fetch(const qf_elementwise_params &params, uint32_t source, const uint64_t *slots,
                                      int64_t first, const uint64_t (&last)[VECTOR], uint64_t (&out)[VECTOR]) {
    if (source == QF_ELEMENTWISE_LAST) {
#pragma unroll
        for (int i = 0; i < VECTOR; i++) out[i] = last[i];
    } else if (source >= QF_ELEMENTWISE_SLOT(0)) {
        const uint64_t *slot = slots + (source - QF_ELEMENTWISE_SLOT(0)) * VECTOR * blockDim.x + threadIdx.x;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) out[i] = slot[i * blockDim.x];
    } else {
        load_tensor(params, source, first, out);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(QF_ELEMENTWISE_THREADS)
    qf_elementwise_wide(const __grid_constant__ qf_elementwise_params params) {
    extern __shared__ uint64_t slots[];
    begin_kernel();
    const int64_t tile = (int64_t)blockDim.x * VECTOR;
    for (int64_t start = blockIdx.x * tile; start < params.count; start += gridDim.x * tile) {
        const int64_t first = start + (int64_t)threadIdx.x * VECTOR;
        uint64_t last[VECTOR];
        bool condition[VECTOR] = {};
        for (uint32_t n = 0; n < params.code_count; n++) {
            const qf_elementwise_code &code = params.codes[n];
            uint64_t a[VECTOR], b[VECTOR] = {};
            if (code.second != QF_ELEMENTWISE_NONE) fetch(params, code.second, slots, first, last, b);
            if (code.op == QF_ELEMENTWISE_CONDITION) {
#pragma unroll
                for (int i = 0; i < VECTOR; i++) condition[i] = b[i] != 0;
                continue;
            }
            fetch(params, code.first, slots, first, last, a);
            // One copy of the functions' code: the values go round.
#pragma unroll 1
            for (int i = 0; i < VECTOR; i++) {
                const uint64_t y = compute(code, condition[0], a[0], b[0]);
                const bool turned = condition[0];
#pragma unroll
                for (int k = 0; k + 1 < VECTOR; k++) {
                    a[k] = a[k + 1], b[k] = b[k + 1], last[k] = last[k + 1];
                    condition[k] = condition[k + 1];
                }
                last[VECTOR - 1] = y;
                condition[VECTOR - 1] = turned;
            }
            if (code.slot != QF_ELEMENTWISE_NONE) {
                uint64_t *slot = slots + (code.slot - QF_ELEMENTWISE_SLOT(0)) * VECTOR * blockDim.x + threadIdx.x;
#pragma unroll
                for (int i = 0; i < VECTOR; i++) slot[i * blockDim.x] = last[i];
            }
            if (code.result != QF_ELEMENTWISE_NONE) store_tensor(params, code, first, last);
        }
    }
}
