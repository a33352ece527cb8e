// Owns: the kernel that runs elementwise programs whose values are floats of up to 32 bits and booleans.
// Does not own: programs with f64 or integers (elementwise_wide.cu), writing programs (elementwise_chain.c).
// Read next: elementwise.h.
#include <qfuse/ops.h>

#include "kernels/cuda/common/elementwise.cuh"
#include "kernels/cuda/common/functions.cuh"
#include "kernels/cuda/common/packing.cuh"

using namespace qfuse;

namespace {

constexpr int GROUPS = QF_ELEMENTWISE_GROUPS, NUMBERS = VECTOR * GROUPS;

// What a thread computes on at a time: GROUPS vectors, blockDim.x vectors apart. Rare things are calls that take and
// give all of them in memory, so that what is common stays short and in registers.
struct numbers {
    float at[NUMBERS];
};

struct place {
    int64_t first; // element of the first vector
    bool whole;    // the block's elements all exist
    __device__ __forceinline__ int64_t of(int group) const {
        return first + (int64_t)group * blockDim.x * VECTOR;
    }
};

// --------------------------------------------------------------------------------------------------------------- loads

__device__ __noinline__ numbers load_one_by_one(const qf_elementwise_params &params, uint32_t number, place where) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    numbers out;
#pragma unroll 1
    for (int i = 0; i < NUMBERS; i++) {
        const int64_t index = where.of(i / VECTOR) + i % VECTOR;
        out.at[i] = 0;
        if (index < params.count)
            out.at[i] = load_f32(tensor.dtype, reinterpret_cast<const void *>(tensor.address),
                                 locate_operand(params, tensor, index));
    }
    return out;
}

__device__ __noinline__ float load_one(uint32_t dtype, uint64_t address, int64_t index) {
    return load_f32(dtype, reinterpret_cast<const void *>(address), index);
}

__device__ __forceinline__ void load_tensor(const qf_elementwise_params &params, uint32_t number, const place &where,
                                            numbers &out) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    const uint32_t kind = tensor.kind;
    if (kind == QF_ELEMENTWISE_ONE) {
        const float one = load_one(tensor.dtype, tensor.address, 0);
#pragma unroll
        for (int i = 0; i < NUMBERS; i++) out.at[i] = one;
        return;
    }
    if (where.whole && (kind == QF_ELEMENTWISE_ALIGNED || kind == QF_ELEMENTWISE_RUNS)) {
        const char *from[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const int64_t at = kind == QF_ELEMENTWISE_RUNS ? locate_operand(params, tensor, where.of(g)) : where.of(g);
            from[g] = reinterpret_cast<const char *>(tensor.address) + at / VECTOR * four_bytes(tensor.dtype);
        }
        if (load_fours(tensor.dtype, from, ~0u, 0, out.at)) return;
        if (tensor.dtype == QF_I1) {
            load_each<4>(from, ~0u, 0, out.at, [](const uint32_t(&words)[1], float *to) {
#pragma unroll
                for (int k = 0; k < VECTOR; k++) to[k] = words[0] >> (8 * k) & 0xFF ? 1.0f : 0.0f;
            });
            return;
        }
    }
    if (where.whole && kind == QF_ELEMENTWISE_REPEATS) {
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const float one = load_one(tensor.dtype, tensor.address, locate_operand(params, tensor, where.of(g)));
#pragma unroll
            for (int k = 0; k < VECTOR; k++) out.at[g * VECTOR + k] = one;
        }
        return;
    }
    out = load_one_by_one(params, number, where);
}

// Slot n of a thread's number i lies at (n * NUMBERS + i) * threads + thread: no bank conflicts.
__device__ __forceinline__ float *slot_at(float *slots, uint32_t slot) {
    return slots + (slot - QF_ELEMENTWISE_SLOT(0)) * NUMBERS * blockDim.x + threadIdx.x;
}

// -------------------------------------------------------------------------------------------------------------- stores

__device__ __noinline__ void store_one_by_one(const qf_elementwise_params &params, uint32_t number, place where,
                                              bool saturate, numbers in) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
#pragma unroll 1
    for (int i = 0; i < NUMBERS; i++) {
        const int64_t index = where.of(i / VECTOR) + i % VECTOR;
        if (index < params.count)
            store_f32(tensor.dtype, reinterpret_cast<void *>(tensor.address), index, in.at[i], saturate);
    }
}

__device__ __forceinline__ void store_tensor(const qf_elementwise_params &params, uint32_t number, bool saturate,
                                             const place &where, const numbers &in) {
    const qf_elementwise_tensor &tensor = params.tensors[number];
    if (where.whole && tensor.kind == QF_ELEMENTWISE_ALIGNED) {
        char *to[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            to[g] = reinterpret_cast<char *>(tensor.address) + where.of(g) / VECTOR * four_bytes(tensor.dtype);
        if (saturate && store_fours(tensor.dtype, to, ~0u, in.at)) return;
        if (tensor.dtype == QF_I1) {
            store_each<4>(to, ~0u, in.at, [](const float *from, uint32_t(&words)[1]) {
                words[0] = 0;
#pragma unroll
                for (int k = 0; k < VECTOR; k++) words[0] |= (uint32_t)(from[k] != 0) << (8 * k);
            });
            return;
        }
    }
    store_one_by_one(params, number, where, saturate, in);
}

// ---------------------------------------------------------------------------------------------------------- arithmetic

__device__ __forceinline__ float compute_rare(uint32_t op, uint32_t mode, float a, float b) {
    switch (op) {
    case QF_OP_log: return logf(a);
    case QF_OP_tanh: return tanhf(a);
    case QF_OP_erf: return erff(a);
    case QF_OP_gelu: return gelu(a, mode);
    case QF_OP_sin: return call_sin(a);
    case QF_OP_cos: return call_cos(a);
    case QF_OP_floor: return floorf(a);
    case QF_OP_ceil: return ceilf(a);
    case QF_OP_round: return rintf(a);
    case QF_OP_sign: return a > 0 ? 1.0f : a < 0 ? -1.0f : a;
    case QF_OP_is_nan: return is_nan(a) ? 1.0f : 0.0f;
    case QF_OP_is_inf: return is_infinite(a) ? 1.0f : 0.0f;
    case QF_OP_pow: return call_pow(a, b);
    case QF_OP_mod: return remainder_of(a, b, mode);
    default: return (a != 0) != (b != 0) ? 1.0f : 0.0f; // xor
    }
}

__device__ __noinline__ numbers compute_one_by_one(uint32_t op, uint32_t mode, numbers a, numbers b) {
#pragma unroll 1
    for (int i = 0; i < NUMBERS; i += 2) {
        a.at[i] = compute_rare(op, mode, a.at[i], b.at[i]);
        a.at[i + 1] = compute_rare(op, mode, a.at[i + 1], b.at[i + 1]);
    }
    return a;
}

#define LOOP(expression)                                                                                               \
    _Pragma("unroll") for (int i = 0; i < NUMBERS; i++) {                                                              \
        const float x = a.at[i];                                                                                       \
        a.at[i] = (expression);                                                                                        \
    }                                                                                                                  \
    return

// a becomes the result; b is the second operand.
__device__ __forceinline__ void compute(uint32_t op, uint32_t mode, uint32_t condition, numbers &a, const numbers &b) {
    switch (op) {
    case QF_OP_cast: return;
    case QF_OP_neg: LOOP(-x);
    case QF_OP_abs: LOOP(fabsf(x));
    case QF_OP_exp: LOOP(expf(x));
    case QF_OP_sqrt: LOOP(sqrtf(x));
    case QF_OP_rsqrt: LOOP(1.0f / sqrtf(x));
    case QF_OP_reciprocal: LOOP(1.0f / x);
    case QF_OP_sigmoid: LOOP(sigmoid(x));
    case QF_OP_relu: LOOP(x < 0 ? 0.0f : x);
    case QF_OP_silu: LOOP(product(x, sigmoid(x)));
    case QF_OP_not: LOOP(x == 0 ? 1.0f : 0.0f);
    case QF_OP_add: LOOP(x + b.at[i]);
    case QF_OP_sub: LOOP(x - b.at[i]);
    case QF_OP_mul: LOOP(x * b.at[i]);
    case QF_OP_div: LOOP(x / b.at[i]);
    case QF_OP_minimum: LOOP(smaller(x, b.at[i]));
    case QF_OP_maximum: LOOP(larger(x, b.at[i]));
    case QF_OP_and: LOOP(x != 0 && b.at[i] != 0 ? 1.0f : 0.0f);
    case QF_OP_or: LOOP(x != 0 || b.at[i] != 0 ? 1.0f : 0.0f);
    case QF_OP_equal: LOOP(x == b.at[i] ? 1.0f : 0.0f);
    case QF_OP_less: LOOP(x < b.at[i] ? 1.0f : 0.0f);
    case QF_OP_less_equal: LOOP(x <= b.at[i] ? 1.0f : 0.0f);
    case QF_OP_greater: LOOP(x > b.at[i] ? 1.0f : 0.0f);
    case QF_OP_greater_equal: LOOP(x >= b.at[i] ? 1.0f : 0.0f);
    case QF_OP_where: LOOP(condition >> i & 1 ? x : b.at[i]);
    default: a = compute_one_by_one(op, mode, a, b);
    }
}

__device__ __noinline__ numbers round_one_by_one(uint32_t dtype, bool saturate, numbers a) {
#pragma unroll 1
    for (int i = 0; i < NUMBERS; i++) a.at[i] = round_f32(dtype, a.at[i], saturate);
    return a;
}

__device__ __forceinline__ void round_to(uint32_t dtype, bool saturate, numbers &a) {
    switch (dtype) {
    case QF_DTYPE_NONE: return;
    case QF_I1: LOOP(x != 0 ? 1.0f : 0.0f);
    case QF_F16:
#pragma unroll
        for (int i = 0; i < NUMBERS; i += 2) unpack_two_f16(f32_to_f16x2(a.at[i], a.at[i + 1]), a.at[i], a.at[i + 1]);
        return;
    case QF_BF16:
#pragma unroll
        for (int i = 0; i < NUMBERS; i += 2) unpack_two_bf16(f32_to_bf16x2(a.at[i], a.at[i + 1]), a.at[i], a.at[i + 1]);
        return;
    default: a = round_one_by_one(dtype, saturate, a);
    }
}
#undef LOOP

} // namespace

// Four CTAs of a multiprocessor leave a thread its registers: with fewer it keeps the program's state in memory.
extern "C" __global__ void __launch_bounds__(QF_ELEMENTWISE_THREADS, 4)
    qf_elementwise(const __grid_constant__ qf_elementwise_params params) {
    extern __shared__ float slots[];
    begin_kernel();
    const int64_t tile = (int64_t)blockDim.x * NUMBERS;
    for (int64_t start = blockIdx.x * tile; start < params.count; start += gridDim.x * tile) {
        // Of the whole block, so that the branch is uniform.
        const place where = {start + threadIdx.x * VECTOR, start + tile <= params.count};
        numbers last, other;
        uint32_t condition = 0;
        for (uint32_t n = 0; n < params.code_count; n++) {
            const qf_elementwise_code code = params.codes[n];
            // The second operand first: it may be the value that the first one replaces.
            if (code.second == QF_ELEMENTWISE_LAST) {
                other = last;
            } else if (code.second < QF_ELEMENTWISE_SLOT(0)) {
                load_tensor(params, code.second, where, other);
            } else if (code.second != QF_ELEMENTWISE_NONE) {
                const float *slot = slot_at(slots, code.second);
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) other.at[i] = slot[i * blockDim.x];
            }
            if (code.op == QF_ELEMENTWISE_CONDITION) {
                condition = 0;
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) condition |= (uint32_t)(other.at[i] != 0) << i;
                continue;
            }
            if (code.first < QF_ELEMENTWISE_SLOT(0)) {
                load_tensor(params, code.first, where, last);
            } else if (code.first != QF_ELEMENTWISE_LAST) {
                const float *slot = slot_at(slots, code.first);
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) last.at[i] = slot[i * blockDim.x];
            }
            compute(code.op, code.mode, condition, last, other);
            round_to(code.dtype, code.saturate, last);
            if (code.slot != QF_ELEMENTWISE_NONE) {
                float *slot = slot_at(slots, code.slot);
#pragma unroll
                for (int i = 0; i < NUMBERS; i++) slot[i * blockDim.x] = last.at[i];
            }
            if (code.result != QF_ELEMENTWISE_NONE) store_tensor(params, code.result, code.saturate, where, last);
        }
    }
}
