// Owns: where the rows, columns and summed elements of a product lie, and how its results are stored.
// Does not own: the products (../contract.cu, ../contract_mma.cu).
// Read next: ../contract.h.
#pragma once

#include "kernels/cuda/common/scaling.cuh"
#include "kernels/cuda/contract.h"

namespace qfuse {

// Offset of the `index`-th element of a group in one tensor.
__device__ __forceinline__ int64_t offset_of(const qf_contract_params &params, const qf_contract_group &group,
                                             int64_t index, int slot) {
    if (group.rank == 1) return index * params.axes[group.first].stride[slot];
    int64_t offset = 0;
    for (uint32_t i = group.rank; i-- > 0;) {
        const qf_contract_axis &axis = params.axes[group.first + i];
        const int64_t rest = index / axis.size;
        offset += (index - rest * axis.size) * axis.stride[slot];
        index = rest;
    }
    return offset;
}

// Offsets of a tile of the result, in shared memory. Rows and columns past the end have offset -1 in the operands.
template <int ROWS, int COLUMNS>
struct tile_offsets {
    int64_t a[ROWS], y_row[ROWS];
    int64_t b[COLUMNS], y_column[COLUMNS];
    float a_scale[ROWS], b_scale[COLUMNS], bias[COLUMNS];
};

struct tile {
    int64_t batch, row, column;
};

__device__ __forceinline__ tile tile_of(const qf_contract_params &params, int64_t index, int rows, int columns) {
    const int64_t of_batch = params.row_tiles * params.column_tiles, batch = index / of_batch;
    const int64_t rest = index - batch * of_batch, column = rest / params.row_tiles;
    return {batch, (rest - column * params.row_tiles) * rows, column * columns};
}

__device__ __forceinline__ float scale_at(uint32_t dtype, const void *data, int64_t index) {
    return data ? load_f32(dtype, data, index) : 1.0f;
}

// All threads of the CTA; a barrier before the offsets are used.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void find_offsets(const qf_contract_params &params, const tile &at,
                                             tile_offsets<ROWS, COLUMNS> &out) {
    const auto of_batch = [&](int slot) { return offset_of(params, params.batch, at.batch, slot); };
    for (int i = (int)threadIdx.x; i < ROWS; i += (int)blockDim.x) {
        const int64_t row = at.row + i;
        out.a[i] = -1;
        if (row >= params.m.size) continue;
        out.a[i] = of_batch(QF_CONTRACT_A) + offset_of(params, params.m, row, QF_CONTRACT_A);
        out.y_row[i] = of_batch(QF_CONTRACT_Y) + offset_of(params, params.m, row, QF_CONTRACT_Y);
        out.a_scale[i] =
            scale_at(params.a_scale_dtype, params.a_scale,
                     of_batch(QF_CONTRACT_A_SCALE) + offset_of(params, params.m, row, QF_CONTRACT_A_SCALE));
    }
    for (int i = (int)threadIdx.x; i < COLUMNS; i += (int)blockDim.x) {
        const int64_t column = at.column + i;
        out.b[i] = -1;
        if (column >= params.n.size) continue;
        out.b[i] = of_batch(QF_CONTRACT_B) + offset_of(params, params.n, column, QF_CONTRACT_B);
        out.y_column[i] = offset_of(params, params.n, column, QF_CONTRACT_Y);
        out.b_scale[i] =
            scale_at(params.b_scale_dtype, params.b_scale,
                     of_batch(QF_CONTRACT_B_SCALE) + offset_of(params, params.n, column, QF_CONTRACT_B_SCALE));
        if (params.bias)
            out.bias[i] = load_f32(params.bias_dtype, params.bias,
                                   of_batch(QF_CONTRACT_BIAS) + offset_of(params, params.n, column, QF_CONTRACT_BIAS));
    }
}

} // namespace qfuse
