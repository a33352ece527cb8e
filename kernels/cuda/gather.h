/* Owns: parameter blocks of the kernels that move elements by index tensors.
 * Does not own: builders (gather.c), kernels (gather.cu).
 * Next: loops.h. */
#ifndef QF_KERNELS_CUDA_GATHER_H
#define QF_KERNELS_CUDA_GATHER_H

#include "kernels/cuda/loops.h"

/* Units are 1 to 16 bytes that move together. */
typedef struct qf_gather_params {
    uint64_t x, indices, y;
    uint32_t index_dtype, unit_bytes;
    int64_t size;        /* of the axis */
    qf_cuda_loops loops; /* units of a slice, indices, outer axes */
} qf_gather_params;

/* One element an index; for gathering and scattering. */
typedef struct qf_elements_params {
    uint64_t x, indices, y; /* scattering: x are the updates, y the result */
    uint64_t owners;        /* i32 by element of the result, or 0 */
    uint32_t index_dtype, element_bytes;
    int64_t size, axis_stride;        /* of the axis in what the indices address */
    int64_t axis_count, index_stride; /* indices along the axis, and their stride */
    uint32_t phase, unused;
    qf_cuda_loops loops; /* of the indices; from: strides of what they address, 0 along the axis */
} qf_elements_params;

/* A tuple of indices addresses a slice of `inner` units. */
typedef struct qf_tuples_params {
    uint64_t x, indices, y; /* scattering: x are the updates, y the result */
    uint64_t owners;        /* i32 by slice of the result, or 0 */
    uint32_t index_dtype, unit_bytes;
    uint32_t depth, phase;
    int64_t dims[QF_CUDA_MOST_LOOPS]; /* of the addressed axes */
    int64_t count, per_batch, slices, inner;
} qf_tuples_params;

typedef struct qf_one_hot_params {
    uint64_t indices, values, y;
    uint32_t index_dtype, element_bytes;
    qf_cuda_loops loops; /* inner, depth, outer */
} qf_one_hot_params;

/* Which of equal indices stays is settled before anything is written: every update enters its number with its target,
 * and the largest one wins. The entries of targets are cleared first, the others are never looked at. */
enum { QF_SCATTER_CLEAR = 0, QF_SCATTER_ENTER = 1, QF_SCATTER_WRITE = 2 };

#endif
