/* Owns: the parameters of the products (contract, matmul, scaled_matmul), shared by host and device.
 * Does not own: the kernels (contract.cu, contract_mma.cu), filling them (contract.c).
 * Next: contract.cu. */
#ifndef QF_KERNELS_CUDA_CONTRACT_H
#define QF_KERNELS_CUDA_CONTRACT_H

#include "kernels/cuda/output.h"

/* Labels of two operands of rank 8. */
#define QF_CONTRACT_AXES 16

/* Tiles of the result: of the plain kernels, and of the two of the tensor cores (few rows, many rows). */
#define QF_CONTRACT_TILE           64
#define QF_CONTRACT_MMA_ROWS       128
#define QF_CONTRACT_MMA_FEW        16
#define QF_CONTRACT_MMA_COLUMNS    128
/* Dynamic shared memory of the two. */
#define QF_CONTRACT_MMA_SHARED     73216
#define QF_CONTRACT_MMA_FEW_SHARED 26944

/* Tensors that an axis steps through. */
enum {
    QF_CONTRACT_A,
    QF_CONTRACT_B,
    QF_CONTRACT_Y,
    QF_CONTRACT_A_SCALE,
    QF_CONTRACT_B_SCALE,
    QF_CONTRACT_BIAS,
    QF_CONTRACT_SLOTS
};

typedef struct qf_contract_axis {
    int64_t size, stride[QF_CONTRACT_SLOTS]; /* elements; 0 where the tensor lacks the axis */
} qf_contract_axis;

/* Axes first .. first + rank - 1, the last one innermost. */
typedef struct qf_contract_group {
    uint32_t first, rank;
    int64_t size; /* of all its axes */
} qf_contract_group;

/* y[batch][m][n] = sum over k of (a * a_scale)[batch][m][k] * (b * b_scale)[batch][k][n], + bias. */
typedef struct qf_contract_params {
    const void *a, *b;
    const void *a_scale, *b_scale, *bias; /* may be NULL */
    void *y;
    qf_contract_axis axes[QF_CONTRACT_AXES];
    qf_contract_group batch, m, n, k;
    int64_t row_tiles, column_tiles;
    uint32_t a_dtype, b_dtype, a_scale_dtype, b_scale_dtype, bias_dtype;
    /* Which way a tile is read: neighbours along k, or along m (of a) and n (of b). */
    uint32_t a_along_k, b_along_k;
    qf_cuda_output output;
} qf_contract_params;

/* The end of a product that cuBLASLt left in f32: y = round(product * a_scale[row] * b_scale[column] + bias). */
typedef struct qf_contract_end_params {
    const float *product; /* [rows, columns] */
    void *y;
    const void *a_scale, *b_scale, *bias; /* may be NULL */
    int64_t rows, columns;
    int64_t a_scale_stride, b_scale_stride, bias_stride; /* 0: one for all */
    uint32_t a_scale_dtype, b_scale_dtype, bias_dtype;
    qf_cuda_output output;
} qf_contract_end_params;

/* out[j][i] = in[i][j], of bytes; sizes and addresses are multiples of four. */
typedef struct qf_contract_turn_params {
    const uint8_t *in;
    uint8_t *out;
    int64_t rows, columns; /* of in */
} qf_contract_turn_params;

#endif
