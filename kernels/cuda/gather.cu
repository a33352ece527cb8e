// Owns: kernels that move elements by index tensors: gather and scatter in their forms, one_hot. An index out of range
// reads as zero and writes nothing. Does not own: moving by shape alone (layout.cu).
// Read next: gather.h.
#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/gather.h"

using namespace qfuse;

namespace {

constexpr int THREADS = 256;

__device__ __forceinline__ int64_t first_item() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64_t grid_items() {
    return (int64_t)gridDim.x * blockDim.x;
}

// The index at `position` within [0, size), or -1.
__device__ __forceinline__ int64_t index_at(uint32_t dtype, uint64_t indices, int64_t position, int64_t size) {
    int64_t index = load_i64(dtype, reinterpret_cast<const void *>(indices), position);
    if (index < 0) index += size;
    return index >= 0 && index < size ? index : -1;
}

// Moves unit `from` of x (-1: zero) to unit `to` of y.
__device__ __forceinline__ void move_unit(uint32_t bytes, uint64_t x, int64_t from, uint64_t y, int64_t to) {
    if (bytes == 16) {
        uint4 unit = make_uint4(0, 0, 0, 0);
        if (from >= 0) unit = reinterpret_cast<const uint4 *>(x)[from];
        reinterpret_cast<uint4 *>(y)[to] = unit;
        return;
    }
    const uint64_t code = from >= 0 ? load_bits(bytes * 8, reinterpret_cast<const void *>(x), from) : 0;
    store_bits(bytes * 8, reinterpret_cast<void *>(y), to, code);
}

// The slice that tuple `i` addresses, or -1.
__device__ __forceinline__ int64_t slice_of(const qf_tuples_params &params, int64_t i) {
    int64_t offset = 0;
    bool valid = true;
    for (uint32_t k = 0; k < params.depth; k++) {
        const int64_t index = index_at(params.index_dtype, params.indices, i * params.depth + k, params.dims[k]);
        valid = valid && index >= 0;
        offset = offset * params.dims[k] + index;
    }
    return valid ? i / params.per_batch * params.slices + offset : -1;
}

// The element that the index at position `i` addresses, or -1.
__device__ __forceinline__ int64_t element_of(const qf_elements_params &params, int64_t i) {
    const int64_t index = index_at(params.index_dtype, params.indices, i, params.size);
    return index < 0 ? -1 : locate(params.loops, i).from + index * params.axis_stride;
}

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS) qf_gather(const __grid_constant__ qf_gather_params params) {
    begin_kernel();
    const int64_t inner = params.loops.loop[0].size;
    for (int64_t item = first_item(); item < params.loops.count; item += grid_items()) {
        int64_t rest = item;
        const int64_t unit = split_index(params.loops.loop[0], params.loops.narrow, rest);
        const int64_t position = split_index(params.loops.loop[1], params.loops.narrow, rest);
        const int64_t index = index_at(params.index_dtype, params.indices, position, params.size);
        move_unit(params.unit_bytes, params.x, index < 0 ? -1 : (rest * params.size + index) * inner + unit, params.y,
                  item);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    qf_gather_elements(const __grid_constant__ qf_elements_params params) {
    begin_kernel();
    for (int64_t i = first_item(); i < params.loops.count; i += grid_items())
        move_unit(params.element_bytes, params.x, element_of(params, i), params.y, i);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    qf_gather_tuples(const __grid_constant__ qf_tuples_params params) {
    begin_kernel();
    for (int64_t item = first_item(); item < params.count * params.inner; item += grid_items()) {
        const int64_t i = item / params.inner, unit = item - i * params.inner, slice = slice_of(params, i);
        move_unit(params.unit_bytes, params.x, slice < 0 ? -1 : slice * params.inner + unit, params.y, item);
    }
}

// Few indices along the axis: each update looks for a later one with its target, which is in the same line.
extern "C" __global__ void __launch_bounds__(THREADS)
    qf_scatter_elements(const __grid_constant__ qf_elements_params params) {
    begin_kernel();
    int32_t *owners = reinterpret_cast<int32_t *>(params.owners);
    for (int64_t i = first_item(); i < params.loops.count; i += grid_items()) {
        const int64_t element = element_of(params, i);
        if (element < 0) continue;
        bool stays = true;
        if (owners) {
            if (params.phase == QF_SCATTER_CLEAR) owners[element] = -1;
            if (params.phase == QF_SCATTER_ENTER) atomicMax(owners + element, (int32_t)i);
            stays = params.phase == QF_SCATTER_WRITE && owners[element] == (int32_t)i;
        } else {
            const int64_t index = index_at(params.index_dtype, params.indices, i, params.size);
            const int64_t at = i / params.index_stride % params.axis_count;
            for (int64_t k = 1; at + k < params.axis_count && stays; k++)
                stays = index_at(params.index_dtype, params.indices, i + k * params.index_stride, params.size) != index;
        }
        if (stays) move_unit(params.element_bytes, params.x, i, params.y, element);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    qf_scatter_enter(const __grid_constant__ qf_tuples_params params) {
    begin_kernel();
    int32_t *owners = reinterpret_cast<int32_t *>(params.owners);
    for (int64_t i = first_item(); i < params.count; i += grid_items()) {
        const int64_t slice = slice_of(params, i);
        if (slice < 0) continue;
        if (params.phase == QF_SCATTER_CLEAR)
            owners[slice] = -1;
        else
            atomicMax(owners + slice, (int32_t)i);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    qf_scatter_tuples(const __grid_constant__ qf_tuples_params params) {
    begin_kernel();
    const int32_t *owners = reinterpret_cast<const int32_t *>(params.owners);
    if (owners) {
        for (int64_t item = first_item(); item < params.count * params.inner; item += grid_items()) {
            const int64_t i = item / params.inner, unit = item - i * params.inner, slice = slice_of(params, i);
            if (slice >= 0 && owners[slice] == (int32_t)i)
                move_unit(params.unit_bytes, params.x, item, params.y, slice * params.inner + unit);
        }
        return;
    }
    // Few tuples: a block takes one at a time, and its threads look for later ones with the same slice.
    for (int64_t i = blockIdx.x; i < params.count; i += gridDim.x) {
        const int64_t slice = slice_of(params, i);
        bool later = false;
        for (int64_t k = i + 1 + threadIdx.x; k < params.count; k += blockDim.x)
            later = later || slice_of(params, k) == slice;
        if (__syncthreads_or(later) || slice < 0) continue;
        for (int64_t unit = threadIdx.x; unit < params.inner; unit += blockDim.x)
            move_unit(params.unit_bytes, params.x, i * params.inner + unit, params.y, slice * params.inner + unit);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_one_hot(const __grid_constant__ qf_one_hot_params params) {
    begin_kernel();
    const void *values = reinterpret_cast<const void *>(params.values);
    const uint32_t bits = params.element_bytes * 8;
    const uint64_t off = load_bits(bits, values, 0), on = load_bits(bits, values, 1);
    for (int64_t item = first_item(); item < params.loops.count; item += grid_items()) {
        int64_t rest = item;
        const int64_t inner = split_index(params.loops.loop[0], params.loops.narrow, rest);
        const int64_t depth = split_index(params.loops.loop[1], params.loops.narrow, rest);
        const int64_t index = index_at(params.index_dtype, params.indices, rest * params.loops.loop[0].size + inner,
                                       params.loops.loop[1].size);
        store_bits(bits, reinterpret_cast<void *>(params.y), item, index == depth ? on : off);
    }
}
