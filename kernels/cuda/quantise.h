/* Owns: the parameters of quantize, dequantize and dynamic_quantize, shared by host and device.
 * Does not own: the kernels (quantise.cu), filling them (quantise.c).
 * Next: quantise.cu. */
#ifndef QF_KERNELS_CUDA_QUANTISE_H
#define QF_KERNELS_CUDA_QUANTISE_H

#include <stdint.h>

#define QF_QUANTISE_AXES 8
/* Consecutive elements that a thread loads at once, and how many such runs it has on their way. */
#define QF_QUANTISE_RUN  8
#define QF_QUANTISE_RUNS 4
/* Consecutive elements of a thread of dynamic_quantize: both elements of a byte of 4-bit ones have one owner. */
#define QF_DYNAMIC_RUN   8
#define QF_DYNAMIC_PAIR  2

/* Division as in loops.h. */
typedef struct qf_quantise_divisor {
    uint32_t magic, shift;
} qf_quantise_divisor;

/* Collapsed axes of x, the last one innermost; `block` neighbours of an axis share an entry of scale and zero_point. */
typedef struct qf_quantise_params {
    const void *x;
    void *y;
    const void *scale;
    const void *zero_point; /* NULL: none */
    int64_t count;
    int64_t sizes[QF_QUANTISE_AXES], blocks[QF_QUANTISE_AXES];
    int64_t scale_strides[QF_QUANTISE_AXES], zero_strides[QF_QUANTISE_AXES];
    qf_quantise_divisor by_size[QF_QUANTISE_AXES], by_block[QF_QUANTISE_AXES]; /* where count is under 2^31 */
    uint32_t axis_count;                                                       /* 0: one entry for all */
    uint32_t x_dtype, y_dtype, scale_dtype, zero_dtype;
    uint32_t mode, compute, saturate;
    qf_quantise_divisor by_granule; /* where count is under 2^31 */
    int64_t granule; /* neighbours that share a scale, where scales lie in the order of their elements; 0: elsewhere */
} qf_quantise_params;

/* One scale for each `size` consecutive elements. */
typedef struct qf_dynamic_params {
    const void *x;
    void *y;                 /* NULL: scales only */
    void *scale;             /* f32 */
    const void *upper_bound; /* NULL: none */
    int64_t count, size, entries;
    float largest; /* of y's dtype */
    uint32_t
        *maximum; /* kernel of a whole tensor: [0] bits of max|x| so far, [1] CTAs that are done; zero between runs */
    uint32_t x_dtype, y_dtype, bound_dtype;
    uint32_t lanes;     /* threads that share an entry: a power of two */
    uint32_t run;       /* consecutive elements that one of them takes at a time */
    uint32_t kept_runs; /* of an entry, by thread: all of them or none; is_fast then */
    uint32_t is_fast;   /* runs are of QF_DYNAMIC_RUN, aligned, of the compact dtypes */
} qf_dynamic_params;

#endif
