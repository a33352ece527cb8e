/* Owns: parameter blocks of the kernels that make tensors out of nothing but their parameters.
 * Does not own: builders (create.c), kernels (create.cu).
 * Next: loops.h. */
#ifndef QF_KERNELS_CUDA_CREATE_H
#define QF_KERNELS_CUDA_CREATE_H

#include <stdint.h>

#define QF_LITERAL_BYTES 4080

typedef struct qf_literal_params {
    uint64_t to;
    uint32_t size, unused;
    unsigned char bytes[QF_LITERAL_BYTES];
} qf_literal_params;

/* Element i is start + step * (i / inner % size). */
typedef struct qf_iota_params {
    uint64_t to;
    uint32_t dtype;
    uint32_t aligned; /* a vector of 4 elements may be stored at once */
    int64_t count, inner, size, start, step;
} qf_iota_params;

/* `count` units, each so many copies of the element at `value` as fill it. */
typedef struct qf_full_params {
    uint64_t value, to;
    uint32_t element_bits, unit_bytes;
    int64_t count;
} qf_full_params;

#endif
