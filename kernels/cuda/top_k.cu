// Owns: sorting for top_k: chunks in shared memory, whole lines in memory, and the results.
// Does not own: arg_max (reduce.cu).
// Read next: top_k.h.
#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/top_k.h"

using namespace qfuse;

namespace {

constexpr int CHUNK = QF_TOP_K_CHUNK, THREADS = QF_TOP_K_THREADS;
constexpr uint32_t NONE = 0xFFFFFFFF;

// Larger keys come first. NaN is larger than every number, zeros are equal. Smallest first turns the order round.
__device__ __forceinline__ uint64_t key_of(uint32_t dtype, uint64_t code, bool largest) {
    uint64_t key;
    if (is_float(dtype)) {
        const double number = f64_from_bits(dtype, code);
        const uint64_t bits = number == 0 ? 0 : bits_of(number), sign = 0x8000000000000000ull;
        key = is_nan(number) ? ~0ull : bits & sign ? ~bits : bits | sign;
    } else {
        key = (uint64_t)integer_from_bits(dtype, code) ^ 0x8000000000000000ull;
    }
    return largest ? key : ~key;
}

__device__ __forceinline__ bool precedes(const qf_top_k_entry &a, const qf_top_k_entry &b) {
    if (a.position == NONE || b.position == NONE) return a.position < b.position;
    return a.key != b.key ? a.key > b.key : a.position < b.position;
}

__device__ __forceinline__ void order(qf_top_k_entry &a, qf_top_k_entry &b, bool ascending) {
    if (precedes(b, a) != ascending) return;
    const qf_top_k_entry held = a;
    a = b;
    b = held;
}

// The steps from `distance` down on a chunk in shared memory; `first` is its place in the line.
__device__ __forceinline__ void merge_chunk(qf_top_k_entry *entries, int64_t first, int64_t width, int distance) {
    for (; distance; distance /= 2) {
        __syncthreads();
        for (int i = threadIdx.x; i < CHUNK / 2; i += THREADS) {
            const int low = i / distance * distance * 2 + i % distance;
            order(entries[low], entries[low + distance], ((first + low) & width) == 0);
        }
    }
    __syncthreads();
}

__device__ __forceinline__ qf_top_k_entry entry_at(const qf_top_k_params &params, int64_t line, int64_t i) {
    if (i >= params.size) return {0, NONE, 0};
    if (params.from) return reinterpret_cast<const qf_top_k_entry *>(params.from)[line * params.size + i];
    const int64_t at = line / params.inner * params.line * params.inner + line % params.inner + i * params.inner;
    const uint64_t code = load_bits(element_bits(params.x_dtype), reinterpret_cast<const void *>(params.x), at);
    return {key_of(params.x_dtype, code, params.largest), (uint32_t)i, 0};
}

__device__ __forceinline__ void store_result(const qf_top_k_params &params, int64_t line, int64_t i,
                                             uint32_t position) {
    const int64_t outer = line / params.inner, inner = line % params.inner;
    const int64_t to = (outer * params.k + i) * params.inner + inner;
    const int64_t from = (outer * params.line + position) * params.inner + inner;
    const uint32_t bits = element_bits(params.x_dtype);
    if (params.values)
        store_bits(params.value_bits, reinterpret_cast<void *>(params.values), to,
                   load_bits(bits, reinterpret_cast<const void *>(params.x), from));
    if (params.indices) store_i64(params.index_dtype, reinterpret_cast<void *>(params.indices), to, position);
}

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS) qf_top_k_chunks(const __grid_constant__ qf_top_k_params params) {
    __shared__ qf_top_k_entry entries[CHUNK];
    begin_kernel();
    for (int64_t job = blockIdx.x; job < params.lines * params.chunks; job += gridDim.x) {
        const int64_t line = job / params.chunks, chunk = job % params.chunks;
        __syncthreads();
        for (int i = threadIdx.x; i < CHUNK; i += THREADS) entries[i] = entry_at(params, line, chunk * CHUNK + i);
        for (int width = 2; width < CHUNK; width *= 2) merge_chunk(entries, 0, width, width / 2);
        merge_chunk(entries, 0, 0, CHUNK / 2);
        for (int64_t i = threadIdx.x; i < params.keep; i += THREADS) {
            if (params.is_last)
                store_result(params, line, i, entries[i].position);
            else
                reinterpret_cast<qf_top_k_entry *>(params.to)[job * params.keep + i] = entries[i];
        }
    }
}

// Lines as entries, padded to a power of two with none.
extern "C" __global__ void __launch_bounds__(THREADS) qf_sort_enter(const __grid_constant__ qf_top_k_params params) {
    begin_kernel();
    const int64_t padded = params.chunks * CHUNK;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < params.lines * padded;
         i += (int64_t)gridDim.x * THREADS)
        reinterpret_cast<qf_top_k_entry *>(params.to)[i] = entry_at(params, i / padded, i % padded);
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_sort_step(const __grid_constant__ qf_sort_params params) {
    __shared__ qf_top_k_entry entries[CHUNK];
    begin_kernel();
    qf_top_k_entry *all = reinterpret_cast<qf_top_k_entry *>(params.entries);
    if (!params.within) {
        for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < params.lines * params.size / 2;
             i += (int64_t)gridDim.x * THREADS) {
            const int64_t low = i / params.distance * params.distance * 2 + i % params.distance;
            order(all[low], all[low + params.distance], ((low % params.size) & params.width) == 0);
        }
        return;
    }
    const int64_t chunks = params.size / CHUNK;
    for (int64_t job = blockIdx.x; job < params.lines * chunks; job += gridDim.x) {
        const int64_t first = job % chunks * CHUNK;
        __syncthreads();
        for (int i = threadIdx.x; i < CHUNK; i += THREADS) entries[i] = all[job * CHUNK + i];
        if (params.width <= CHUNK)
            for (int width = 2; width <= CHUNK; width *= 2) merge_chunk(entries, first, width, width / 2);
        else
            merge_chunk(entries, first, params.width, CHUNK / 2);
        for (int i = threadIdx.x; i < CHUNK; i += THREADS) all[job * CHUNK + i] = entries[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_sort_leave(const __grid_constant__ qf_top_k_params params) {
    begin_kernel();
    const int64_t padded = params.chunks * CHUNK;
    const qf_top_k_entry *all = reinterpret_cast<const qf_top_k_entry *>(params.from);
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < params.lines * params.k;
         i += (int64_t)gridDim.x * THREADS)
        store_result(params, i / params.k, i % params.k, all[i / params.k * padded + i % params.k].position);
}
