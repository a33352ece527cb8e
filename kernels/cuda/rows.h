/* Owns: the parameter block of softmax, log_softmax and layer_norm.
 * Does not own: the builders (rows.c), kernels (rows.cu), rms_norm.
 * Next: rows.cu. */
#ifndef QF_KERNELS_CUDA_ROWS_H
#define QF_KERNELS_CUDA_ROWS_H

#include <stdint.h>

#define QF_ROWS_CACHED 16 /* elements of a row that a thread keeps in registers */
#define QF_ROWS_VECTOR 4

/* Element i of row n is n / inner * size * inner + n % inner + i * inner. */
typedef struct qf_rows_params {
    uint64_t x, y, weight, bias; /* weight and bias: layer_norm, or 0 */
    uint32_t x_dtype, y_dtype, weight_dtype, bias_dtype;
    uint32_t lanes;   /* neighbouring threads that share a row */
    uint32_t aligned; /* vectors of x, y, weight and bias may be accessed at once */
    uint32_t logarithm;
    uint32_t in_registers; /* a row's threads hold it; x has a dtype that load_fours takes */
    int64_t size, inner, count;
    double epsilon;
} qf_rows_params;

#endif
