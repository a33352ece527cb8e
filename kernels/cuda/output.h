/* Owns: how a kernel's result is rounded: plainly, or to `via` and quantised by a scale; the host's half.
 * Does not own: the arithmetic (common/scaling.cuh).
 * Next: common/scaling.cuh, kernels/cpu/quantise.c. */
#ifndef QF_KERNELS_CUDA_OUTPUT_H
#define QF_KERNELS_CUDA_OUTPUT_H

#include <stdint.h>

/* Part of a kernel's parameters. */
typedef struct qf_cuda_output {
    const void *scale; /* of scale_dtype; NULL: rounded to dtype and nothing else */
    uint32_t scale_dtype, dtype, mode, compute, via, saturate;
} qf_cuda_output;

#endif
