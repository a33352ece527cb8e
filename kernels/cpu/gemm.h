/* Owns: the strided product that contract, matmul, scaled_matmul and conv describe, and its interface.
 * Does not own: how they describe it (contract.c, conv.c).
 * Next: gemm.c. */
#ifndef QF_KERNELS_CPU_GEMM_H
#define QF_KERNELS_CPU_GEMM_H

#include "kernels/cpu/cpu.h"

enum { QF_GEMM_A, QF_GEMM_B, QF_GEMM_Y, QF_GEMM_A_SCALE, QF_GEMM_B_SCALE, QF_GEMM_BIAS, QF_GEMM_SLOTS };

/* A loop: its size and its stride in each tensor, 0 where the tensor lacks it. */
typedef struct qf_gemm_axis {
    int64_t size, stride[QF_GEMM_SLOTS];
} qf_gemm_axis;

/* Nested loops, the last one innermost. */
typedef struct qf_gemm_axes {
    uint32_t rank;
    qf_gemm_axis axis[2 * QF_MAX_RANK];
} qf_gemm_axes;

#define QF_GEMM_COLUMNS      64 /* of a packed block of b */
#define QF_GEMM_ROWS         4  /* of a packed tile of a */
#define QF_GEMM_TILE_COLUMNS 8

/* y[batch][m][n] = sum over k of (a * a_scale)[batch][m][k] * (b * b_scale)[batch][k][n], + bias; elements are scaled
 * in f32 as they are read. f32 sums in the order of sum.h over the flattened k, whatever the threads and tiles; f64
 * operands in f64; integers wrap. */
typedef struct qf_gemm {
    qf_gemm_axes batch, m, n, k;
    const qf_view *a, *b, *a_scale, *b_scale, *bias; /* scales and bias may be NULL */
    qf_view *y;
    qf_output output;
    /* conv: fills panel[k * QF_GEMM_COLUMNS + j] for `count` columns from `first` on, in place of reading b. */
    void (*pack_columns)(const void *user, int64_t batch, int64_t first, int64_t count, float *panel);
    const void *pack_user;
} qf_gemm;

/* out[i][j] = sum over k of a[k][i] * b[k][j] for 4 rows and 8 columns, in the order of sum.h. a has rows of
 * QF_GEMM_ROWS, b and out of QF_GEMM_COLUMNS elements. */
void qf_gemm_multiply_tile(const float *a, const float *b, int64_t depth, float *out);

/* What a call of contract, matmul or scaled_matmul multiplies (all but `output`); reads shapes only. GPU kernels share
 * it. */
qf_status qf_gemm_describe(const qf_kernel_call *call, qf_gemm *out_gemm);
void qf_gemm_add_axis(qf_gemm_axes *axes, qf_gemm_axis axis);
/* Exchanges a and b where that makes n the longer side; bits of the result do not depend on it. */
void qf_gemm_orient(qf_gemm *gemm);
size_t qf_gemm_scratch(const qf_gemm *gemm, uint32_t thread_count);
qf_status qf_gemm_run(const qf_kernel_call *call, const qf_gemm *gemm);

#endif
