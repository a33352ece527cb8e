/* Owns: the parameters of rms_norm, add_rms_norm and silu_mul, shared by host and device.
 * Does not own: the kernels (activation.cu), filling them (activation.c).
 * Next: activation.cu. */
#ifndef QF_KERNELS_CUDA_ACTIVATION_H
#define QF_KERNELS_CUDA_ACTIVATION_H

#include "kernels/cuda/output.h"

/* Runs of eight results that a thread of silu_mul has on their way. */
#define QF_SILU_RUNS 2

typedef struct qf_norm_params {
    const void *x, *residual, *weight; /* residual (of x's dtype) and weight may be NULL */
    void *y, *sum;                     /* sum: x + residual; NULL without a residual */
    int64_t rows, size;                /* elements normalised together */
    uint32_t x_dtype, weight_dtype;
    float epsilon;
    uint32_t lanes;     /* threads of a row: a power of two */
    uint32_t kept_runs; /* of eight 16-bit elements, that a thread keeps in shared memory between its two passes */
    qf_cuda_output output;
} qf_norm_params;

typedef struct qf_silu_params {
    const void *x; /* [rows, gate of `size` elements | up] */
    void *y;
    int64_t count, size;             /* elements of y, and of a row of it */
    uint32_t size_magic, size_shift; /* division by size as in loops.h, where count is under 2^31 */
    uint32_t x_dtype;
    qf_cuda_output output;
} qf_silu_params;

#endif
