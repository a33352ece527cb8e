// Owns: conv as a product of the weights with patches of x that are gathered tile by tile; f32 arithmetic.
// Does not own: products of matrices (matmul).
// Read next: conv.h.
#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/conv.h"

using namespace qfuse;

namespace {

constexpr int THREADS = 256, TILE = QF_CONV_TILE, DEPTH = 16, EACH = 4, MOST = QF_CONV_MOST_SPATIAL;

__device__ __noinline__ float load_one(uint32_t dtype, uint64_t data, int64_t index) {
    return load_f32(dtype, reinterpret_cast<const void *>(data), index);
}

// A result position: where its patch begins along each axis, and its image.
struct patch {
    int64_t begin[MOST], image;
};

__device__ __forceinline__ patch patch_at(const qf_conv_params &params, int64_t column) {
    patch out;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        out.begin[i] = 0;
        if (i < params.spatial)
            out.begin[i] = split_index(params.positions.loop[i], params.positions.narrow, column) * params.strides[i] -
                           params.pads[i];
    }
    out.image = column;
    return out;
}

// The element of x that term k of the patch reads; 0 in the padding.
__device__ __forceinline__ float patch_element(const qf_conv_params &params, const patch &from, int64_t group,
                                               int64_t k) {
    int64_t offset = 0, stride = 1;
    bool inside = true;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if (i >= params.spatial) continue;
        const int64_t at =
            from.begin[i] + split_index(params.depth.loop[i], params.depth.narrow, k) * params.dilations[i];
        inside = inside && at >= 0 && at < params.x_dims[i];
        offset += at * stride;
        stride *= params.x_dims[i];
    }
    if (!inside) return 0;
    const int64_t channel = from.image * params.channels + group * (params.channels / params.groups) + k;
    return load_one(params.x_dtype, params.x, channel * params.area + offset);
}

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS) qf_conv(const __grid_constant__ qf_conv_params params) {
    __shared__ float weights[DEPTH][TILE + 4], patches[DEPTH][TILE + 4];
    begin_kernel();
    const int64_t depth = params.depth.count, columns = params.positions.count;
    const int64_t row_tiles = (params.rows + TILE - 1) / TILE, column_tiles = (columns + TILE - 1) / TILE;
    const int own_row = threadIdx.x / 16 * EACH, own_column = threadIdx.x % 16 * EACH;
    for (int64_t tile = blockIdx.x; tile < params.groups * row_tiles * column_tiles; tile += gridDim.x) {
        const int64_t row = tile % row_tiles * TILE, column = tile / row_tiles % column_tiles * TILE;
        const int64_t group = tile / row_tiles / column_tiles;
        const int64_t loaded_column = column + threadIdx.x % TILE;
        const patch from = patch_at(params, loaded_column < columns ? loaded_column : 0);
        float sums[EACH][EACH] = {};
        for (int64_t first = 0; first < depth; first += DEPTH) {
            __syncthreads();
#pragma unroll 1
            for (int i = threadIdx.x; i < DEPTH * TILE; i += THREADS) {
                const int64_t k = first + i / TILE, r = row + i / DEPTH, wk = first + i % DEPTH;
                patches[i / TILE][i % TILE] =
                    k < depth && loaded_column < columns ? patch_element(params, from, group, k) : 0;
                weights[i % DEPTH][i / DEPTH] =
                    wk < depth && r < params.rows
                        ? load_one(params.weight_dtype, params.weight, (group * params.rows + r) * depth + wk)
                        : 0;
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                const float4 a = *reinterpret_cast<const float4 *>(&weights[k][own_row]);
                const float4 b = *reinterpret_cast<const float4 *>(&patches[k][own_column]);
                const float left[EACH] = {a.x, a.y, a.z, a.w}, right[EACH] = {b.x, b.y, b.z, b.w};
#pragma unroll
                for (int i = 0; i < EACH; i++)
#pragma unroll
                    for (int j = 0; j < EACH; j++) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
            }
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int64_t r = row + own_row + i, channel = group * params.rows + r;
            if (r >= params.rows) continue;
            const float bias = params.bias ? load_one(params.bias_dtype, params.bias, channel) : 0;
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const int64_t c = column + own_column + j;
                if (c >= columns) continue;
                const int64_t image = c / params.area_of_y, position = c - image * params.area_of_y;
                store_f32(params.y_dtype, reinterpret_cast<void *>(params.y),
                          (image * params.groups * params.rows + channel) * params.area_of_y + position,
                          params.bias ? sums[i][j] + bias : sums[i][j], true);
            }
        }
    }
}
