// Owns: the kernel that runs elementwise programs whose values are floats of up to 32 bits and booleans.
// Does not own: programs with f64 or integers (elementwise_wide.cu), writing programs (elementwise_chain.c).
// Read next: elementwise.h.
#include <qfuse/ops.h>

#include "kernels/cuda/common/elementwise.cuh"
#include "kernels/cuda/common/functions.cuh"

using namespace qfuse;

namespace {

constexpr int GROUPS = QF_ELEMENTWISE_GROUPS, NUMBERS = VECTOR * GROUPS;

// Elements one by one, and rare dtypes: calls, so that their code exists once.
__device__ __noinline__ float load_one(uint32_t dtype, const void *data, int64_t index) {
    return load_f32(dtype, data, index);
}

__device__ __noinline__ void store_one(uint32_t dtype, void *data, int64_t index, float number, bool saturate) {
    store_f32(dtype, data, index, number, saturate);
}

__device__ __noinline__ float round_one(uint32_t dtype, float number, bool saturate) {
    return round_f32(dtype, number, saturate);
}

// Loads of all groups are issued before the first one is waited for.
template <int BITS, typename CONVERT>
__device__ __forceinline__ void load_groups(const void *data, const int64_t (&first)[GROUPS], float (&out)[NUMBERS],
                                            CONVERT convert) {
    uint32_t words[GROUPS][(VECTOR * BITS / 8 + 3) / 4];
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        load_words<VECTOR * BITS / 8>(static_cast<const char *>(data) + first[g] * BITS / 8, words[g]);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int k = 0; k < VECTOR; k++) out[g * VECTOR + k] = convert((uint32_t)unpack<BITS>(words[g], k));
}

__device__ __forceinline__ void load_all(uint32_t dtype, const void *data, const int64_t (&first)[GROUPS],
                                         float (&out)[NUMBERS]) {
    switch (dtype) {
    case QF_F32: load_groups<32>(data, first, out, [](uint32_t code) { return float_of(code); }); return;
    case QF_F16: load_groups<16>(data, first, out, [](uint32_t code) { return decode_f16(code); }); return;
    case QF_BF16: load_groups<16>(data, first, out, [](uint32_t code) { return float_of(code << 16); }); return;
    case QF_F8E4M3FN: load_groups<8>(data, first, out, [](uint32_t code) { return decode_e4m3fn(code); }); return;
    case QF_F8E5M2: load_groups<8>(data, first, out, [](uint32_t code) { return decode_e5m2(code); }); return;
    case QF_I1: load_groups<8>(data, first, out, [](uint32_t code) { return code ? 1.0f : 0.0f; }); return;
    case QF_I32: load_groups<32>(data, first, out, [](uint32_t code) { return (float)(int32_t)code; }); return;
    default:
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) out[i] = load_one(dtype, data, first[i / VECTOR] + i % VECTOR);
    }
}

// An operand's numbers; elements past the end are zero. `first`: the groups' first elements.
__device__ __forceinline__ void load_tensor(const qf_elementwise_params &params, uint32_t number,
                                            const int64_t (&first)[GROUPS], bool whole, float (&out)[NUMBERS]) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    const void *data = reinterpret_cast<const void *>(tensor.address);
    if (tensor.kind == QF_ELEMENTWISE_ALIGNED && whole) {
        load_all(tensor.dtype, data, first, out);
    } else if (tensor.kind == QF_ELEMENTWISE_RUNS && whole) {
        int64_t at[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) at[g] = locate_operand(params, tensor, first[g]);
        load_all(tensor.dtype, data, at, out);
    } else if (tensor.kind == QF_ELEMENTWISE_ONE) {
        const float one = load_one(tensor.dtype, data, 0);
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) out[i] = one;
    } else if (tensor.kind == QF_ELEMENTWISE_REPEATS && whole) {
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const float one = load_one(tensor.dtype, data, locate_operand(params, tensor, first[g]));
#pragma unroll
            for (int k = 0; k < VECTOR; k++) out[g * VECTOR + k] = one;
        }
    } else {
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) {
            const int64_t index = first[i / VECTOR] + i % VECTOR;
            out[i] = 0;
            if (index < params.count) out[i] = load_one(tensor.dtype, data, locate_operand(params, tensor, index));
        }
    }
}

template <int BITS, typename CONVERT>
__device__ __forceinline__ bool store_groups(void *data, const int64_t (&first)[GROUPS],
                                             const float (&numbers)[NUMBERS], CONVERT convert) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        uint32_t words[(VECTOR * BITS / 8 + 3) / 4] = {};
#pragma unroll
        for (int k = 0; k < VECTOR; k++) pack<BITS>(words, k, convert(numbers[g * VECTOR + k]));
        store_words<VECTOR * BITS / 8>(static_cast<char *>(data) + first[g] * BITS / 8, words);
    }
    return true;
}

// False for the dtypes that are rare.
__device__ __forceinline__ bool store_all(uint32_t dtype, void *data, const int64_t (&first)[GROUPS],
                                          const float (&numbers)[NUMBERS], bool saturate) {
    switch (dtype) {
    case QF_F32: return store_groups<32>(data, first, numbers, [](float number) { return bits_of(number); });
    case QF_F16: return store_groups<16>(data, first, numbers, [](float number) { return encode_f16(number); });
    case QF_BF16: return store_groups<16>(data, first, numbers, [](float number) { return encode_bf16(number); });
    case QF_F8E4M3FN:
        return store_groups<8>(data, first, numbers, [=](float number) { return encode_e4m3fn(number, saturate); });
    case QF_F8E5M2:
        return store_groups<8>(data, first, numbers, [=](float number) { return encode_e5m2(number, saturate); });
    case QF_I1: return store_groups<8>(data, first, numbers, [](float number) -> uint32_t { return number != 0; });
    default: return false;
    }
}

__device__ __forceinline__ void store_tensor(const qf_elementwise_params &params, const qf_elementwise_code &code,
                                             const int64_t (&first)[GROUPS], bool whole,
                                             const float (&numbers)[NUMBERS]) {
    const qf_elementwise_tensor &tensor = params.tensors[code.result];
    void *data = reinterpret_cast<void *>(tensor.address);
    if (tensor.kind == QF_ELEMENTWISE_ALIGNED && whole && store_all(tensor.dtype, data, first, numbers, code.saturate))
        return;
#pragma unroll
    for (int i = 0; i < NUMBERS; i++) {
        const int64_t index = first[i / VECTOR] + i % VECTOR;
        if (index < params.count) store_one(tensor.dtype, data, index, numbers[i], code.saturate);
    }
}

#define LOOP(expression)                                                                                               \
    _Pragma("unroll") for (int i = 0; i < NUMBERS; i++) y[i] = (expression);                                           \
    return

__device__ __forceinline__ void compute(const qf_elementwise_code &code, uint32_t condition, const float (&a)[NUMBERS],
                                        const float (&b)[NUMBERS], float (&y)[NUMBERS]) {
    switch (code.op) {
    case QF_OP_neg: LOOP(-a[i]);
    case QF_OP_abs: LOOP(fabsf(a[i]));
    case QF_OP_exp: LOOP(expf(a[i]));
    case QF_OP_log: LOOP(logf(a[i]));
    case QF_OP_sqrt: LOOP(sqrtf(a[i]));
    case QF_OP_rsqrt: LOOP(1.0f / sqrtf(a[i]));
    case QF_OP_reciprocal: LOOP(1.0f / a[i]);
    case QF_OP_tanh: LOOP(call_tanh(a[i]));
    case QF_OP_sigmoid: LOOP(sigmoid(a[i]));
    case QF_OP_erf: LOOP(call_erf(a[i]));
    case QF_OP_sin: LOOP(call_sin(a[i]));
    case QF_OP_cos: LOOP(call_cos(a[i]));
    case QF_OP_floor: LOOP(floorf(a[i]));
    case QF_OP_ceil: LOOP(ceilf(a[i]));
    case QF_OP_round: LOOP(rintf(a[i]));
    case QF_OP_sign: LOOP(a[i] > 0 ? 1.0f : a[i] < 0 ? -1.0f : a[i]);
    case QF_OP_relu: LOOP(a[i] < 0 ? 0.0f : a[i]);
    case QF_OP_silu: LOOP(product(a[i], sigmoid(a[i])));
    case QF_OP_gelu: LOOP(call_gelu(a[i], code.mode));
    case QF_OP_not: LOOP(a[i] == 0 ? 1.0f : 0.0f);
    case QF_OP_is_nan: LOOP(is_nan(a[i]) ? 1.0f : 0.0f);
    case QF_OP_is_inf: LOOP(is_infinite(a[i]) ? 1.0f : 0.0f);
    case QF_OP_add: LOOP(a[i] + b[i]);
    case QF_OP_sub: LOOP(a[i] - b[i]);
    case QF_OP_mul: LOOP(a[i] * b[i]);
    case QF_OP_div: LOOP(a[i] / b[i]);
    case QF_OP_pow: LOOP(call_pow(a[i], b[i]));
    case QF_OP_mod: LOOP(remainder_of(a[i], b[i], code.mode));
    case QF_OP_minimum: LOOP(smaller(a[i], b[i]));
    case QF_OP_maximum: LOOP(larger(a[i], b[i]));
    case QF_OP_and: LOOP(a[i] != 0 && b[i] != 0 ? 1.0f : 0.0f);
    case QF_OP_or: LOOP(a[i] != 0 || b[i] != 0 ? 1.0f : 0.0f);
    case QF_OP_xor: LOOP((a[i] != 0) != (b[i] != 0) ? 1.0f : 0.0f);
    case QF_OP_equal: LOOP(a[i] == b[i] ? 1.0f : 0.0f);
    case QF_OP_less: LOOP(a[i] < b[i] ? 1.0f : 0.0f);
    case QF_OP_less_equal: LOOP(a[i] <= b[i] ? 1.0f : 0.0f);
    case QF_OP_greater: LOOP(a[i] > b[i] ? 1.0f : 0.0f);
    case QF_OP_greater_equal: LOOP(a[i] >= b[i] ? 1.0f : 0.0f);
    case QF_OP_where: LOOP(condition >> i & 1 ? a[i] : b[i]);
    default: LOOP(a[i]); // cast
    }
}

__device__ __forceinline__ void round_to(uint32_t dtype, bool saturate, float (&y)[NUMBERS]) {
    switch (dtype) {
    case QF_DTYPE_NONE: return;
    case QF_I1: LOOP(y[i] != 0 ? 1.0f : 0.0f);
    case QF_F16: LOOP(decode_f16(encode_f16(y[i])));
    case QF_BF16: LOOP(float_of(encode_bf16(y[i]) << 16));
    case QF_F8E4M3FN: LOOP(decode_e4m3fn(encode_e4m3fn(y[i], saturate)));
    case QF_F8E5M2: LOOP(decode_e5m2(encode_e5m2(y[i], saturate)));
    default: LOOP(round_one(dtype, y[i], saturate));
    }
}
#undef LOOP

// Slot n of a thread's number i lies at (n * NUMBERS + i) * threads + thread: no bank conflicts.
__device__ __forceinline__ void fetch(const qf_elementwise_params &params, uint32_t source, const float *slots,
                                      const int64_t (&first)[GROUPS], bool whole, const float (&last)[NUMBERS],
                                      float (&out)[NUMBERS]) {
    if (source == QF_ELEMENTWISE_LAST) {
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) out[i] = last[i];
    } else if (source >= QF_ELEMENTWISE_SLOT(0)) {
        const float *slot = slots + (source - QF_ELEMENTWISE_SLOT(0)) * NUMBERS * blockDim.x + threadIdx.x;
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) out[i] = slot[i * blockDim.x];
    } else {
        load_tensor(params, source, first, whole, out);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256, 5)
    qf_elementwise(const __grid_constant__ qf_elementwise_params params) {
    extern __shared__ float slots[];
    begin_kernel();
    const int64_t tile = (int64_t)blockDim.x * NUMBERS;
    for (int64_t start = blockIdx.x * tile; start < params.count; start += gridDim.x * tile) {
        int64_t first[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) first[g] = start + ((int64_t)g * blockDim.x + threadIdx.x) * VECTOR;
        // Of the whole block, so that the branch is uniform.
        const bool whole = start + tile <= params.count;
        float last[NUMBERS];
        uint32_t condition = 0;
        for (uint32_t n = 0; n < params.code_count; n++) {
            const qf_elementwise_code &code = params.codes[n];
            float a[NUMBERS], b[NUMBERS];
            const uint32_t operands = code.second != QF_ELEMENTWISE_NONE ? 2 : 1;
            // One copy of the loads' code: the operands go through it one after the other.
#pragma unroll 1
            for (uint32_t k = 0; k < operands; k++) {
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) a[i] = b[i];
                fetch(params, k == 0 ? code.first : code.second, slots, first, whole, last, b);
            }
            if (operands == 1)
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) a[i] = b[i];
            if (code.op == QF_ELEMENTWISE_CONDITION) {
                condition = 0;
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) condition |= (uint32_t)(a[i] != 0) << i;
                continue;
            }
            compute(code, condition, a, b, last);
            round_to(code.dtype, code.saturate, last);
            if (code.slot != QF_ELEMENTWISE_NONE) {
                float *slot = slots + (code.slot - QF_ELEMENTWISE_SLOT(0)) * NUMBERS * blockDim.x + threadIdx.x;
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) slot[i * blockDim.x] = last[i];
            }
            if (code.result != QF_ELEMENTWISE_NONE) store_tensor(params, code, first, whole, last);
        }
    }
}
