// Owns: products of f16, bf16 and FP8 operands on tensor cores, with f32 sums, for any strides.
// Does not own: other dtypes (contract.cu), launches (contract.c).
// Read next: contract.c, common/mma_sync.cuh.
#include "kernels/cuda/common/contract.cuh"
#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/common/dependent.cuh"
#include "kernels/cuda/common/load_matrix.cuh"
#include "kernels/cuda/common/mma_sync.cuh"

using namespace qfuse;

namespace {

// Both operands lie in shared memory as 16-bit elements: lines (rows of a, columns of b) of kDepth elements where the
// operand is contiguous along k, else kDepth lines along m or n. Padding keeps the eight rows of a matrix in different
// banks. FP8 operands become f16 on the way, exactly.
constexpr int kDepth = 32, kPadding = 8, kRun = 8;

template <int LINES>
struct operand_tile {
    static constexpr int kAlongK = LINES * (kDepth + kPadding), kAcross = kDepth * (LINES + kPadding);
    alignas(16) uint16_t elements[kAlongK > kAcross ? kAlongK : kAcross];
};

template <int ROWS, int COLUMNS>
struct shared_tiles {
    tile_offsets<ROWS, COLUMNS> offsets;
    union {
        struct {
            operand_tile<ROWS> a[2];
            operand_tile<COLUMNS> b[2];
        };
        float results[ROWS][COLUMNS + 4];
    };
};
static_assert(sizeof(shared_tiles<QF_CONTRACT_MMA_ROWS, QF_CONTRACT_MMA_COLUMNS>) == QF_CONTRACT_MMA_SHARED,
              "contract.h");
static_assert(sizeof(shared_tiles<QF_CONTRACT_MMA_FEW, QF_CONTRACT_MMA_COLUMNS>) == QF_CONTRACT_MMA_FEW_SHARED,
              "contract.h");

struct operand {
    const char *data;
    uint32_t dtype;
    bool along_k;
    int64_t k_stride, depth;
};

// ------------------------------------------------------------------------------------------------ from global memory

// Run `run` of the slice from `start` on: eight elements along k of one line, or of eight lines at one k; runs lie
// within the operand or outside of it as a whole. FP8 codes fill half of the result.
template <int LINES>
__device__ __forceinline__ uint4 fetch_run(const operand &from, const int64_t (&lines)[LINES], int64_t start, int run) {
    const int line = from.along_k ? run / (kDepth / kRun) : run % (LINES / kRun) * kRun;
    const int64_t k = start + (from.along_k ? run % (kDepth / kRun) * kRun : run / (LINES / kRun));
    uint4 out = make_uint4(0, 0, 0, 0);
    if (lines[line] < 0 || k >= from.depth) return out;
    const int64_t first = lines[line] + k * from.k_stride;
    if (from.dtype == QF_F16 || from.dtype == QF_BF16) return *reinterpret_cast<const uint4 *>(from.data + first * 2);
    const uint2 codes = *reinterpret_cast<const uint2 *>(from.data + first);
    out.x = codes.x, out.y = codes.y;
    return out;
}

// Four FP8 codes as f16.
__device__ __forceinline__ uint2 widen_four(uint32_t dtype, uint32_t codes) {
    if (dtype == QF_F8E5M2) // the upper half of an f16
        return make_uint2(__byte_perm(codes, 0, 0x1404), __byte_perm(codes, 0, 0x3424));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    return make_uint2(e4m3_low_to_f16x2(codes), e4m3_high_to_f16x2(codes));
#else
    uint32_t halves[4];
#pragma unroll
    for (int i = 0; i < 4; i++) halves[i] = encode_f16(decode_e4m3fn(codes >> (8 * i) & 0xFF));
    return make_uint2(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16);
#endif
}

template <int LINES>
__device__ __forceinline__ void keep_run(const operand &from, operand_tile<LINES> &to, int run, uint4 elements) {
    const int at = from.along_k ? run / (kDepth / kRun) * (kDepth + kPadding) + run % (kDepth / kRun) * kRun
                                : run / (LINES / kRun) * (LINES + kPadding) + run % (LINES / kRun) * kRun;
    if (from.dtype != QF_F16 && from.dtype != QF_BF16) {
        const uint2 low = widen_four(from.dtype, elements.x), high = widen_four(from.dtype, elements.y);
        elements = make_uint4(low.x, low.y, high.x, high.y);
    }
    *reinterpret_cast<uint4 *>(to.elements + at) = elements;
}

// -------------------------------------------------------------------------------------------------- to the tensor
// cores

// The 16 x 16 elements from line `line` and k `k` on, as four matrices: (lines 0-7, k 0-7), then eight further along
// the lines (`lines_first`) or along k, then along the other, then along both.
template <int LINES>
__device__ __forceinline__ void load_fragment(bool along_k, bool lines_first, const operand_tile<LINES> &from, int line,
                                              int k, uint32_t (&out)[4]) {
    const int lane = (int)threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8, row = lane % 8;
    const int at_line = line + (lines_first ? low : high), at_k = k + (lines_first ? high : low);
    if (along_k)
        load_matrices(from.elements + (at_line + row) * (kDepth + kPadding) + at_k, out);
    else
        load_transposed_matrices(from.elements + (at_k + row) * (LINES + kPadding) + at_line, out);
}

template <int ROWS, int COLUMNS>
__device__ __forceinline__ void store_results(const qf_contract_params &params, const scaler &by,
                                              const shared_tiles<ROWS, COLUMNS> &shared) {
    for (int i = (int)threadIdx.x; i < ROWS * COLUMNS; i += (int)blockDim.x) {
        const int row = i / COLUMNS, column = i % COLUMNS;
        if (shared.offsets.a[row] < 0 || shared.offsets.b[column] < 0) continue;
        float value =
            product(product(shared.results[row][column], shared.offsets.a_scale[row]), shared.offsets.b_scale[column]);
        if (params.bias) value = sum(value, shared.offsets.bias[column]);
        store_output(params.output, by, params.y, shared.offsets.y_row[row] + shared.offsets.y_column[column], value);
    }
}

// ROWS x COLUMNS results a CTA, WARP_ROWS x WARP_COLUMNS a warp. One slice of both operands is multiplied while the
// next one is on its way.
template <bool BF16, int ROWS, int COLUMNS, int WARP_ROWS, int WARP_COLUMNS>
__device__ __forceinline__ void multiply_tiles(const qf_contract_params &params) {
    constexpr int kWarpsAcross = COLUMNS / WARP_COLUMNS, kThreads = ROWS / WARP_ROWS * kWarpsAcross * 32;
    constexpr int kRunsA = ROWS * kDepth / kRun, kRunsB = COLUMNS * kDepth / kRun;
    constexpr int kOwnA = (kRunsA + kThreads - 1) / kThreads, kOwnB = (kRunsB + kThreads - 1) / kThreads;
    constexpr int kM = WARP_ROWS / 16, kN = WARP_COLUMNS / 8;
    static_assert(kN % 2 == 0 && kRunsB % kThreads == 0, "pairs of column blocks; whole rounds of runs");
    extern __shared__ uint4 shared_memory[];
    auto &shared = *reinterpret_cast<shared_tiles<ROWS, COLUMNS> *>(shared_memory);
    const bool has_k = params.k.rank != 0;
    const int64_t depth = params.k.size, tiles = params.batch.size * params.row_tiles * params.column_tiles;
    const operand a = {static_cast<const char *>(params.a), params.a_dtype, params.a_along_k != 0,
                       has_k ? params.axes[params.k.first].stride[QF_CONTRACT_A] : 0, depth};
    const operand b = {static_cast<const char *>(params.b), params.b_dtype, params.b_along_k != 0,
                       has_k ? params.axes[params.k.first].stride[QF_CONTRACT_B] : 0, depth};
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_row = warp / kWarpsAcross * WARP_ROWS, warp_column = warp % kWarpsAcross * WARP_COLUMNS;
    wait_for_predecessor();
    let_successor_start();
    const scaler by = load_output_scale(params.output);
    for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
        float total[kM][kN][4] = {};
        __syncthreads();
        find_offsets(params, tile_of(params, index, ROWS, COLUMNS), shared.offsets);
        int stage = 1;
        for (int64_t start = -kDepth; start < depth; start += kDepth, stage ^= 1) {
            uint4 next_a[kOwnA], next_b[kOwnB];
            const bool more = start + kDepth < depth;
            __syncthreads();
            if (more) {
#pragma unroll
                for (int i = 0; i < kOwnA; i++)
                    if (kRunsA % kThreads == 0 || thread + i * kThreads < kRunsA)
                        next_a[i] = fetch_run<ROWS>(a, shared.offsets.a, start + kDepth, thread + i * kThreads);
#pragma unroll
                for (int i = 0; i < kOwnB; i++)
                    next_b[i] = fetch_run<COLUMNS>(b, shared.offsets.b, start + kDepth, thread + i * kThreads);
            }
#pragma unroll
            for (int k = 0; k < kDepth && start >= 0; k += 16) {
                uint32_t part_a[kM][4], part_b[kN / 2][4];
#pragma unroll
                for (int i = 0; i < kM; i++)
                    load_fragment<ROWS>(a.along_k, true, shared.a[stage], warp_row + 16 * i, k, part_a[i]);
#pragma unroll
                for (int j = 0; j < kN / 2; j++)
                    load_fragment<COLUMNS>(b.along_k, false, shared.b[stage], warp_column + 16 * j, k, part_b[j]);
#pragma unroll
                for (int i = 0; i < kM; i++) {
#pragma unroll
                    for (int j = 0; j < kN; j++)
                        mma_16x8x16<BF16>(total[i][j], part_a[i][0], part_a[i][1], part_a[i][2], part_a[i][3],
                                          part_b[j / 2][j % 2 * 2], part_b[j / 2][j % 2 * 2 + 1]);
                }
            }
            if (!more) continue;
#pragma unroll
            for (int i = 0; i < kOwnA; i++)
                if (kRunsA % kThreads == 0 || thread + i * kThreads < kRunsA)
                    keep_run<ROWS>(a, shared.a[stage ^ 1], thread + i * kThreads, next_a[i]);
#pragma unroll
            for (int i = 0; i < kOwnB; i++) keep_run<COLUMNS>(b, shared.b[stage ^ 1], thread + i * kThreads, next_b[i]);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kM; i++) {
#pragma unroll
            for (int j = 0; j < kN; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    shared
                        .results[warp_row + 16 * i + lane / 4 + e / 2 * 8][warp_column + 8 * j + lane % 4 * 2 + e % 2] =
                        total[i][j][e];
            }
        }
        __syncthreads();
        store_results<ROWS, COLUMNS>(params, by, shared);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256) qf_contract_bf16(const __grid_constant__ qf_contract_params params) {
    multiply_tiles<true, QF_CONTRACT_MMA_ROWS, QF_CONTRACT_MMA_COLUMNS, 64, 32>(params);
}

// f16 and FP8.
extern "C" __global__ void __launch_bounds__(256) qf_contract_f16(const __grid_constant__ qf_contract_params params) {
    multiply_tiles<false, QF_CONTRACT_MMA_ROWS, QF_CONTRACT_MMA_COLUMNS, 64, 32>(params);
}

// Few rows.
extern "C" __global__ void __launch_bounds__(128)
    qf_contract_bf16_few(const __grid_constant__ qf_contract_params params) {
    multiply_tiles<true, QF_CONTRACT_MMA_FEW, QF_CONTRACT_MMA_COLUMNS, 16, 32>(params);
}

extern "C" __global__ void __launch_bounds__(128)
    qf_contract_f16_few(const __grid_constant__ qf_contract_params params) {
    multiply_tiles<false, QF_CONTRACT_MMA_FEW, QF_CONTRACT_MMA_COLUMNS, 16, 32>(params);
}
