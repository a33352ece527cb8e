/* Owns: parameter blocks of the kernels that move elements by shape alone.
 * Does not own: builders (layout.c, packed.c), kernels (layout.cu).
 * Next: loops.h. */
#ifndef QF_KERNELS_CUDA_LAYOUT_H
#define QF_KERNELS_CUDA_LAYOUT_H

#include "kernels/cuda/loops.h"

#define QF_COPY_THREADS 256

/* Bytes as they lie: `head` single ones up to a multiple of 16 on both sides, vectors of 16, `tail` single ones. */
typedef struct qf_copy_params {
    uint64_t from, to;
    int64_t vectors;
    uint32_t head, tail;
} qf_copy_params;

/* to[loops' to] = from[loops' from], elements of 1, 2, 4, 8 or 16 bytes. `repeat` > 1: the innermost loop repeats one
 * element; a destination element is `repeat` copies of an element of element_bytes. */
typedef struct qf_strided_params {
    uint64_t from, to;
    uint32_t element_bytes, repeat;
    qf_cuda_loops loops;
} qf_strided_params;

/* Along `across` the source lies together, along `down` the destination: tiles of both go through shared memory. */
typedef struct qf_transpose_params {
    uint64_t from, to;
    uint32_t element_bytes;
    uint32_t packed; /* bit 0, 1: the source, the destination may be accessed by 4 bytes */
    int64_t down, across;
    int64_t down_from, across_to; /* strides */
    int64_t down_tiles, across_tiles;
    qf_cuda_loops batch;
} qf_transpose_params;

/* Innermost first. Coordinate c of the result is c - before in x, where that is in [0, size). */
typedef struct qf_pad_axis {
    int64_t before, size;
} qf_pad_axis;

typedef struct qf_pad_params {
    uint64_t from, to, value;
    uint32_t element_bytes, unit_bytes; /* of value; of what the loops move */
    qf_pad_axis axes[QF_CUDA_MOST_LOOPS];
    qf_cuda_loops loops; /* of the result; from: x's strides */
} qf_pad_params;

/* Elements `vector` at a time. */
typedef struct qf_triangle_params {
    uint64_t from, to;
    uint32_t element_bytes, vector, upper, unused;
    int64_t diagonal;
    qf_cuda_loops loops; /* vectors of a row, rows, matrices */
} qf_triangle_params;

/* 4-bit elements, two a byte, to bytes and back. */
typedef struct qf_packed_params {
    uint64_t from, to;
    int64_t count; /* elements */
} qf_packed_params;

#define QF_TRANSPOSE_TILE(bytes) ((bytes) < 4 ? 128 : 256 / (bytes))

#endif
