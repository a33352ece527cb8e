// Owns: kernels that move elements by shape alone: strided copies, transpositions, padding, triangles, 4-bit elements.
// Does not own: moving by index tensors (gather.cu).
// Read next: layout.h.
#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/layout.h"

using namespace qfuse;

namespace {

constexpr int THREADS = 256, EACH = 4; // elements of a thread at a time

__device__ __forceinline__ int64_t first_item() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64_t grid_items() {
    return (int64_t)gridDim.x * blockDim.x;
}

template <typename T>
__device__ void copy_strided(const qf_strided_params &params) {
    const T *from = reinterpret_cast<const T *>(params.from);
    T *to = reinterpret_cast<T *>(params.to);
    const int64_t tile = (int64_t)blockDim.x * EACH;
    for (int64_t start = blockIdx.x * tile; start < params.loops.count; start += gridDim.x * tile) {
        T elements[EACH];
        int64_t at[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int64_t index = start + (int64_t)i * blockDim.x + threadIdx.x;
            at[i] = -1;
            if (index >= params.loops.count) continue;
            const located place = locate(params.loops, index);
            at[i] = place.to;
            elements[i] = from[place.from];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (at[i] >= 0) to[at[i]] = elements[i];
    }
}

// An element of `bytes` bytes over 16 bytes.
__device__ __forceinline__ uint4 spread(uint64_t code, uint32_t bytes) {
    if (bytes == 1) code *= 0x0101010101010101ull;
    if (bytes == 2) code *= 0x0001000100010001ull;
    if (bytes == 4) code |= code << 32;
    const uint32_t low = (uint32_t)code, high = (uint32_t)(code >> 32);
    return make_uint4(low, high, low, high);
}

__device__ void repeat_elements(const qf_strided_params &params) {
    const void *from = reinterpret_cast<const void *>(params.from);
    const uint32_t bytes = params.element_bytes * params.repeat;
    for (int64_t index = first_item(); index < params.loops.count; index += grid_items()) {
        const located place = locate(params.loops, index);
        const uint4 many = spread(load_bits(params.element_bytes * 8, from, place.from), params.element_bytes);
        switch (bytes) {
        case 16: reinterpret_cast<uint4 *>(params.to)[place.to] = many; break;
        case 8: reinterpret_cast<uint2 *>(params.to)[place.to] = make_uint2(many.x, many.y); break;
        case 4: reinterpret_cast<uint32_t *>(params.to)[place.to] = many.x; break;
        default: reinterpret_cast<uint16_t *>(params.to)[place.to] = (uint16_t)many.x;
        }
    }
}

// A tile in shared memory: rows lie along `across`, and take a word more than their elements, so that the elements of a
// column lie in different banks. A thread keeps its column, in the source as in the destination, and steps over rows.
template <typename T>
struct tile_of {
    static constexpr int SIZE = QF_TRANSPOSE_TILE((int)sizeof(T));
    static constexpr int ROW = SIZE * sizeof(T) + (sizeof(T) == 8 ? 8 : 4);
    static __device__ __forceinline__ T *cell(char *shared, int down, int across) {
        return reinterpret_cast<T *>(shared + down * ROW + across * (int)sizeof(T));
    }
};

// PACK elements of T are one U.
template <typename T, typename U>
__device__ __forceinline__ void read_tile(const T *source, int64_t stride, int64_t rows, int64_t columns,
                                          char *shared) {
    constexpr int SIZE = tile_of<T>::SIZE, PACK = sizeof(U) / sizeof(T), ACROSS = SIZE / PACK;
    constexpr int STEP = THREADS / ACROSS, STEPS = SIZE / STEP;
    const int r = threadIdx.x / ACROSS, c = threadIdx.x % ACROSS * PACK;
    constexpr int BATCH = STEPS < 8 ? STEPS : 8; // loads in flight
#pragma unroll 1
    for (int start = r; start < SIZE; start += STEP * BATCH) {
        U held[BATCH];
#pragma unroll
        for (int n = 0; n < BATCH; n++)
            if (start + n * STEP < rows && c < columns)
                held[n] = *reinterpret_cast<const U *>(source + (start + n * STEP) * stride + c);
#pragma unroll
        for (int n = 0; n < BATCH; n++) *reinterpret_cast<U *>(tile_of<T>::cell(shared, start + n * STEP, c)) = held[n];
    }
}

template <typename T, typename U>
__device__ __forceinline__ void write_tile(T *target, int64_t stride, int64_t rows, int64_t columns, char *shared) {
    constexpr int SIZE = tile_of<T>::SIZE, PACK = sizeof(U) / sizeof(T), DOWN = SIZE / PACK;
    constexpr int STEP = THREADS / DOWN, STEPS = SIZE / STEP;
    const int c = threadIdx.x / DOWN, r = threadIdx.x % DOWN * PACK;
#pragma unroll 4
    for (int n = 0; n < STEPS; n++) {
        U word = 0;
#pragma unroll
        for (int k = 0; k < PACK; k++)
            word |= (U)*tile_of<T>::cell(shared, r + k, c + n * STEP) << (PACK > 1 ? k * 8 * (int)sizeof(T) : 0);
        if (r < rows && c + n * STEP < columns) *reinterpret_cast<U *>(target + (c + n * STEP) * stride + r) = word;
    }
}

template <typename T, typename U>
__device__ void transpose_tiles(const qf_transpose_params &params, char *shared) {
    constexpr int SIZE = tile_of<T>::SIZE;
    const T *from = reinterpret_cast<const T *>(params.from);
    T *to = reinterpret_cast<T *>(params.to);
    const int64_t tiles = params.down_tiles * params.across_tiles * params.batch.count;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t across = tile % params.across_tiles * SIZE, rest = tile / params.across_tiles;
        const int64_t down = rest % params.down_tiles * SIZE;
        const located batch = locate(params.batch, rest / params.down_tiles);
        const T *source = from + batch.from + down * params.down_from + across;
        T *target = to + batch.to + across * params.across_to + down;
        const int64_t rows = params.down - down, columns = params.across - across; // may exceed the tile
        if (params.packed & 1)
            read_tile<T, U>(source, params.down_from, rows, columns, shared);
        else
            read_tile<T, T>(source, params.down_from, rows, columns, shared);
        __syncthreads();
        if (params.packed & 2)
            write_tile<T, U>(target, params.across_to, rows, columns, shared);
        else
            write_tile<T, T>(target, params.across_to, rows, columns, shared);
        __syncthreads();
    }
}

template <typename T>
__device__ void pad_units(const qf_pad_params &params, T value) {
    const T *from = reinterpret_cast<const T *>(params.from);
    T *to = reinterpret_cast<T *>(params.to);
    for (int64_t index = first_item(); index < params.loops.count; index += grid_items()) {
        int64_t rest = index, offset = 0;
        bool inside = true;
        for (uint32_t i = 0; i < params.loops.rank; i++) {
            const qf_cuda_loop &loop = params.loops.loop[i];
            const int64_t at = split_index(loop, params.loops.narrow, rest) - params.axes[i].before;
            inside = inside && at >= 0 && at < params.axes[i].size;
            offset += at * loop.from;
        }
        to[index] = inside ? from[offset] : value;
    }
}

template <typename T, int N>
__device__ void cut_triangle(const qf_triangle_params &params) {
    struct alignas(sizeof(T) * N) run {
        T elements[N];
    };
    const run *from = reinterpret_cast<const run *>(params.from);
    run *to = reinterpret_cast<run *>(params.to);
    for (int64_t index = first_item(); index < params.loops.count; index += grid_items()) {
        int64_t rest = index;
        const int64_t column = split_index(params.loops.loop[0], params.loops.narrow, rest) * N;
        const int64_t row = split_index(params.loops.loop[1], params.loops.narrow, rest);
        run elements = from[index];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int64_t distance = column + i - row;
            const bool kept = params.upper ? distance >= params.diagonal : distance <= params.diagonal;
            if (!kept) elements.elements[i] = 0;
        }
        to[index] = elements;
    }
}

} // namespace

// A vector a thread: grids that step, and threads with several vectors, were slower by 3 to 10 %.
extern "C" __global__ void __launch_bounds__(QF_COPY_THREADS) qf_copy(const __grid_constant__ qf_copy_params params) {
    begin_kernel();
    const int64_t index = (int64_t)blockIdx.x * QF_COPY_THREADS + threadIdx.x;
    if (index < params.vectors)
        reinterpret_cast<uint4 *>(params.to + params.head)[index] =
            reinterpret_cast<const uint4 *>(params.from + params.head)[index];
    if (blockIdx.x) return;
    const char *bytes = reinterpret_cast<const char *>(params.from);
    char *copied = reinterpret_cast<char *>(params.to);
    const int64_t end = params.head + params.vectors * 16;
    if (threadIdx.x < params.head) copied[threadIdx.x] = bytes[threadIdx.x];
    if (threadIdx.x < params.tail) copied[end + threadIdx.x] = bytes[end + threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_strided(const __grid_constant__ qf_strided_params params) {
    begin_kernel();
    if (params.repeat > 1) {
        repeat_elements(params);
        return;
    }
    switch (params.element_bytes) {
    case 1: copy_strided<uint8_t>(params); return;
    case 2: copy_strided<uint16_t>(params); return;
    case 4: copy_strided<uint32_t>(params); return;
    case 8: copy_strided<uint64_t>(params); return;
    default: copy_strided<uint4>(params);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_transpose(const __grid_constant__ qf_transpose_params params) {
    __shared__ __align__(16) char shared[tile_of<uint16_t>::SIZE * tile_of<uint16_t>::ROW]; // the largest
    begin_kernel();
    switch (params.element_bytes) {
    case 1: transpose_tiles<uint8_t, uint32_t>(params, shared); return;
    case 2: transpose_tiles<uint16_t, uint32_t>(params, shared); return;
    case 4: transpose_tiles<uint32_t, uint32_t>(params, shared); return;
    default: transpose_tiles<uint64_t, uint64_t>(params, shared);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_pad(const __grid_constant__ qf_pad_params params) {
    begin_kernel();
    const uint64_t code = load_bits(params.element_bytes * 8, reinterpret_cast<const void *>(params.value), 0);
    const uint4 value = spread(code, params.element_bytes);
    switch (params.unit_bytes) {
    case 1: pad_units<uint8_t>(params, (uint8_t)value.x); return;
    case 2: pad_units<uint16_t>(params, (uint16_t)value.x); return;
    case 4: pad_units<uint32_t>(params, value.x); return;
    case 8: pad_units<uint2>(params, make_uint2(value.x, value.y)); return;
    default: pad_units<uint4>(params, value);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_triangle(const __grid_constant__ qf_triangle_params params) {
    begin_kernel();
    const bool one = params.vector == 1;
    switch (params.element_bytes) {
    case 1: one ? cut_triangle<uint8_t, 1>(params) : cut_triangle<uint8_t, 16>(params); return;
    case 2: one ? cut_triangle<uint16_t, 1>(params) : cut_triangle<uint16_t, 8>(params); return;
    case 4: one ? cut_triangle<uint32_t, 1>(params) : cut_triangle<uint32_t, 4>(params); return;
    default: one ? cut_triangle<uint64_t, 1>(params) : cut_triangle<uint64_t, 2>(params);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_unpack(const __grid_constant__ qf_packed_params params) {
    begin_kernel();
    const uint8_t *from = reinterpret_cast<const uint8_t *>(params.from);
    for (int64_t i = first_item(); i < params.count; i += grid_items())
        reinterpret_cast<uint8_t *>(params.to)[i] = (uint8_t)load_bits(4, from, i);
}

extern "C" __global__ void __launch_bounds__(THREADS) qf_pack(const __grid_constant__ qf_packed_params params) {
    begin_kernel();
    const uint8_t *from = reinterpret_cast<const uint8_t *>(params.from);
    for (int64_t i = first_item(); i * 2 < params.count; i += grid_items()) {
        const uint32_t high = i * 2 + 1 < params.count ? from[i * 2 + 1] : 0;
        reinterpret_cast<uint8_t *>(params.to)[i] = (uint8_t)(from[i * 2] | high << 4);
    }
}
