// Owns: kernels that make tensors: bytes known when the plan is prepared, sequences, one element for all.
// Does not own: moving elements (layout.cu).
// Read next: create.h.
#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/create.h"

using namespace qfuse;

namespace {

__device__ __forceinline__ int64_t first_item() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64_t grid_items() {
    return (int64_t)gridDim.x * blockDim.x;
}

} // namespace

extern "C" __global__ void qf_literal(const __grid_constant__ qf_literal_params params) {
    begin_kernel();
    for (int64_t i = first_item(); i < params.size; i += grid_items())
        reinterpret_cast<unsigned char *>(params.to)[i] = params.bytes[i];
}

extern "C" __global__ void __launch_bounds__(256) qf_iota(const __grid_constant__ qf_iota_params params) {
    constexpr int VECTOR = 4;
    begin_kernel();
    void *to = reinterpret_cast<void *>(params.to);
    for (int64_t item = first_item(); item * VECTOR < params.count; item += grid_items()) {
        int64_t numbers[VECTOR];
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const uint64_t at = (uint64_t)((item * VECTOR + i) / params.inner % params.size);
            numbers[i] = (int64_t)((uint64_t)params.start + (uint64_t)params.step * at);
        }
        if (params.aligned && (item + 1) * VECTOR <= params.count) {
            store_vector_i64(params.dtype, to, item * VECTOR, numbers);
        } else {
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                if (item * VECTOR + i < params.count) store_i64(params.dtype, to, item * VECTOR + i, numbers[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) qf_full(const __grid_constant__ qf_full_params params) {
    begin_kernel();
    uint64_t code = load_bits(params.element_bits, reinterpret_cast<const void *>(params.value), 0);
    for (uint32_t bits = params.element_bits; bits < 64; bits *= 2) code |= code << bits;
    const uint32_t low = (uint32_t)code, high = (uint32_t)(code >> 32);
    for (int64_t i = first_item(); i < params.count; i += grid_items()) {
        switch (params.unit_bytes) {
        case 16: reinterpret_cast<uint4 *>(params.to)[i] = make_uint4(low, high, low, high); break;
        case 8: reinterpret_cast<uint2 *>(params.to)[i] = make_uint2(low, high); break;
        case 4: reinterpret_cast<uint32_t *>(params.to)[i] = low; break;
        case 2: reinterpret_cast<uint16_t *>(params.to)[i] = (uint16_t)low; break;
        default: reinterpret_cast<uint8_t *>(params.to)[i] = (uint8_t)low;
        }
    }
}
