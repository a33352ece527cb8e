// Owns: products of any dtypes and strides in the order of sums that the CPU kernels keep (docs/numerics.md); the ends
// of products that cuBLASLt began. Does not own: products on tensor cores (contract_mma.cu), launches (contract.c).
// Read next: contract.c, kernels/cpu/gemm.c.
#include "kernels/cuda/common/contract.cuh"
#include "kernels/cuda/common/dependent.cuh"

using namespace qfuse;

namespace {

constexpr int kTile = QF_CONTRACT_TILE, kDepth = 16, kThreads = 256, kOwn = 4;
constexpr int kSumBlock = 64; // terms summed from zero before they join the total
static_assert(kSumBlock % kDepth == 0, "a block of the sum is a whole number of slices");

// ------------------------------------------------------------------------------------------------- three arithmetics

// Stores are calls: inlined sixteen times they would make most of the code.

struct f32_arithmetic {
    using number = float;
    static __device__ float load(uint32_t dtype, const void *data, int64_t index) {
        return load_f32(dtype, data, index);
    }
    static __device__ float scale(float x, float by) {
        return product(x, by);
    }
    static __device__ float add_product(float total, float a, float b) {
        return sum(total, product(a, b));
    }
    static __device__ float add(float a, float b) {
        return sum(a, b);
    }
    static __device__ __noinline__ void store(const qf_contract_params &params, const scaler &by, int64_t index,
                                              float value) {
        store_output(params.output, by, params.y, index, value);
    }
};

struct f64_arithmetic {
    using number = double;
    static __device__ double load(uint32_t dtype, const void *data, int64_t index) {
        return load_f64(dtype, data, index);
    }
    static __device__ double scale(double x, float) {
        return x;
    }
    static __device__ double add_product(double total, double a, double b) {
        return __dadd_rn(total, __dmul_rn(a, b));
    }
    static __device__ double add(double a, double b) {
        return __dadd_rn(a, b);
    }
    static __device__ __noinline__ void store(const qf_contract_params &params, const scaler &, int64_t index,
                                              double value) {
        const uint32_t dtype = params.output.dtype;
        store_shared_bits(element_bits(dtype), params.y, index, bits_from_f64(dtype, value, true));
    }
};

struct i64_arithmetic {
    using number = int64_t;
    static __device__ int64_t load(uint32_t dtype, const void *data, int64_t index) {
        return load_i64(dtype, data, index);
    }
    static __device__ int64_t scale(int64_t x, float) {
        return x;
    }
    static __device__ int64_t add_product(int64_t total, int64_t a, int64_t b) {
        return (int64_t)((uint64_t)total + (uint64_t)a * (uint64_t)b);
    }
    static __device__ int64_t add(int64_t a, int64_t b) {
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
    static __device__ __noinline__ void store(const qf_contract_params &params, const scaler &, int64_t index,
                                              int64_t value) {
        const uint32_t dtype = params.output.dtype;
        store_shared_bits(element_bits(dtype), params.y, index, bits_from_i64(dtype, value));
    }
};

// ------------------------------------------------------------------------------------------------------------- tiles

template <typename ARITHMETIC>
struct slice {
    typename ARITHMETIC::number a[kDepth][kTile + 4], b[kDepth][kTile + 4];
    int64_t k_a[kDepth], k_b[kDepth]; // -1 past the end
};

// A thread reads neighbours of other threads along the axis on which the operand is contiguous.
template <typename ARITHMETIC>
__device__ __forceinline__ void load_slice(const qf_contract_params &params, const tile_offsets<kTile, kTile> &offsets,
                                           slice<ARITHMETIC> &out) {
    for (int i = (int)threadIdx.x; i < kDepth * kTile; i += kThreads) {
        const int k = params.a_along_k ? i % kDepth : i / kTile, row = params.a_along_k ? i / kDepth : i % kTile;
        const bool inside = offsets.a[row] >= 0 && out.k_a[k] >= 0;
        out.a[k][row] = inside
                            ? ARITHMETIC::scale(ARITHMETIC::load(params.a_dtype, params.a, offsets.a[row] + out.k_a[k]),
                                                offsets.a_scale[row])
                            : 0;
    }
    for (int i = (int)threadIdx.x; i < kDepth * kTile; i += kThreads) {
        const int k = params.b_along_k ? i % kDepth : i / kTile, column = params.b_along_k ? i / kDepth : i % kTile;
        const bool inside = offsets.b[column] >= 0 && out.k_b[k] >= 0;
        out.b[k][column] =
            inside ? ARITHMETIC::scale(ARITHMETIC::load(params.b_dtype, params.b, offsets.b[column] + out.k_b[k]),
                                       offsets.b_scale[column])
                   : 0;
    }
}

template <typename ARITHMETIC>
__device__ __forceinline__ void store_tile(const qf_contract_params &params, const tile_offsets<kTile, kTile> &offsets,
                                           const scaler &by, typename ARITHMETIC::number (&total)[kOwn][kOwn]) {
    const int first_row = (int)threadIdx.x / 16 * kOwn, first_column = (int)threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < kOwn; i++) {
#pragma unroll
        for (int j = 0; j < kOwn; j++) {
            const int row = first_row + i, column = first_column + 16 * j;
            if (offsets.a[row] < 0 || offsets.b[column] < 0) continue;
            if (params.bias) total[i][j] = ARITHMETIC::add(total[i][j], offsets.bias[column]);
            ARITHMETIC::store(params, by, offsets.y_row[row] + offsets.y_column[column], total[i][j]);
        }
    }
}

// Of a tile of 64 x 64 results a thread has four rows, and four columns that lie 16 apart.
template <typename ARITHMETIC>
__device__ __forceinline__ void multiply_tiles(const qf_contract_params &params) {
    using number = typename ARITHMETIC::number;
    __shared__ tile_offsets<kTile, kTile> offsets;
    __shared__ slice<ARITHMETIC> part;
    const int64_t tiles = params.batch.size * params.row_tiles * params.column_tiles;
    const int first_row = (int)threadIdx.x / 16 * kOwn, first_column = (int)threadIdx.x % 16;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
        number total[kOwn][kOwn] = {}, block[kOwn][kOwn] = {};
        __syncthreads();
        find_offsets(params, tile_of(params, index, kTile, kTile), offsets);
        for (int64_t start = 0; start < params.k.size; start += kDepth) {
            __syncthreads();
            if (threadIdx.x < kDepth) {
                const int64_t k = start + threadIdx.x;
                const bool inside = k < params.k.size;
                part.k_a[threadIdx.x] = inside ? offset_of(params, params.k, k, QF_CONTRACT_A) : -1;
                part.k_b[threadIdx.x] = inside ? offset_of(params, params.k, k, QF_CONTRACT_B) : -1;
            }
            __syncthreads();
            load_slice<ARITHMETIC>(params, offsets, part);
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < kDepth; k++) {
#pragma unroll
                for (int i = 0; i < kOwn; i++) {
#pragma unroll
                    for (int j = 0; j < kOwn; j++)
                        block[i][j] = ARITHMETIC::add_product(block[i][j], part.a[k][first_row + i],
                                                              part.b[k][first_column + 16 * j]);
                }
            }
            if ((start + kDepth) % kSumBlock && start + kDepth < params.k.size) continue;
#pragma unroll
            for (int i = 0; i < kOwn; i++) {
#pragma unroll
                for (int j = 0; j < kOwn; j++) {
                    total[i][j] = ARITHMETIC::add(total[i][j], block[i][j]);
                    block[i][j] = 0;
                }
            }
        }
        __syncthreads();
        store_tile<ARITHMETIC>(params, offsets, by, total);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    qf_contract_f32(const __grid_constant__ qf_contract_params params) {
    multiply_tiles<f32_arithmetic>(params);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    qf_contract_f64(const __grid_constant__ qf_contract_params params) {
    multiply_tiles<f64_arithmetic>(params);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    qf_contract_i64(const __grid_constant__ qf_contract_params params) {
    multiply_tiles<i64_arithmetic>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    qf_contract_end(const __grid_constant__ qf_contract_end_params params) {
    const int64_t count = params.rows * params.columns, step = (int64_t)gridDim.x * blockDim.x;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t row =
            count <= UINT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)params.columns) : i / params.columns;
        const int64_t column = i - row * params.columns;
        float value = params.product[i];
        value = product(value, scale_at(params.a_scale_dtype, params.a_scale, row * params.a_scale_stride));
        value = product(value, scale_at(params.b_scale_dtype, params.b_scale, column * params.b_scale_stride));
        if (params.bias) value = sum(value, load_f32(params.bias_dtype, params.bias, column * params.bias_stride));
        store_output(params.output, by, params.y, i, value);
    }
}

// 64 x 64 bytes at a time through shared memory, four bytes a load and a store: rows and columns are multiples of four.
extern "C" __global__ void __launch_bounds__(256)
    qf_contract_turn(const __grid_constant__ qf_contract_turn_params params) {
    __shared__ uint32_t words[64][17];
    const int64_t across = (params.columns + 63) / 64, tiles = across * ((params.rows + 63) / 64);
    const int lane = (int)threadIdx.x % 16, line = (int)threadIdx.x / 16;
    wait_for_predecessor();
    let_successor_start();
    for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
        const int64_t row = index / across * 64, column = index % across * 64;
        __syncthreads();
        for (int i = line; i < 64; i += 16)
            if (row + i < params.rows && column + lane * 4 < params.columns)
                words[i][lane] =
                    *reinterpret_cast<const uint32_t *>(params.in + (row + i) * params.columns + column + lane * 4);
        __syncthreads();
        for (int i = line; i < 64; i += 16) {
            if (column + i >= params.columns || row + lane * 4 >= params.rows) continue;
            uint32_t word = 0;
#pragma unroll
            for (int j = 0; j < 4; j++)
                word |= (uint32_t) reinterpret_cast<const uint8_t *>(words[lane * 4 + j])[i] << (8 * j);
            *reinterpret_cast<uint32_t *>(params.out + (column + i) * params.rows + row + lane * 4) = word;
        }
    }
}
