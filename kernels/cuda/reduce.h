/* Owns: parameter blocks of the kernels along axes: reductions, arg_max, running sums.
 * Does not own: builders (reduce.c), kernels (reduce.cu), softmax and norms (rows.h).
 * Next: loops.h. */
#ifndef QF_KERNELS_CUDA_REDUCE_H
#define QF_KERNELS_CUDA_REDUCE_H

#include "kernels/cuda/loops.h"

#define QF_REDUCE_THREADS 256

/* `lanes` neighbouring threads share a result: lane l takes the elements l, l + lanes, ... of its part, in order, then
 * the lanes are added up pairwise. The elements of a result may be cut into parts, one a block along y; their results
 * go to y in the arithmetic's own type, [parts][kept], and a second launch reduces those. So the order depends on the
 * sizes alone. */
typedef struct qf_reduce_params {
    uint64_t x, y;
    uint32_t x_dtype, y_dtype;
    uint32_t op; /* of the IR */
    uint32_t domain;
    uint32_t lanes;
    uint32_t is_last; /* y gets results; 0: parts */
    uint32_t vector;  /* 4 elements of x may be loaded at once, of a dtype that load_fours takes */
    uint32_t unused;
    int64_t part;       /* elements of a part */
    int64_t divisor;    /* of a mean */
    int64_t identity;   /* of integer maxima and minima */
    qf_cuda_loops kept; /* from: strides of x; to: unused */
    qf_cuda_loops reduced;
} qf_reduce_params;

/* Lines along one axis: element i of line n is n / inner * size * inner + n % inner + i * inner. */
typedef struct qf_lines_params {
    uint64_t x, y;
    uint32_t x_dtype, y_dtype;
    uint32_t domain;
    uint32_t lanes; /* arg_max: threads a line; running sums: 1, or a block */
    uint32_t exclusive, reverse, keeps_last, unused;
    int64_t size, inner, count;
} qf_lines_params;

#endif
