/* Owns: the parameters of rope, kv_cache_write and rope_quantize_cache_write, shared by host and device.
 * Does not own: the kernel (cache.cu), filling them (cache.c).
 * Next: cache.cu. */
#ifndef QF_KERNELS_CUDA_CACHE_H
#define QF_KERNELS_CUDA_CACHE_H

#include <stdint.h>

#define QF_CACHE_STREAMS       3
#define QF_CACHE_AXES          6
#define QF_CACHE_THREADS       128 /* of a CTA, at most */
#define QF_CACHE_UNITS         384 /* of a CTA whose threads keep a unit each, at most */
/* Rows up to which every row looks for a later row of its slot by itself. */
#define QF_CACHE_SEARCHED_ROWS 2048

/* Rows [rows, heads, head_dim] on their way to an equal tensor or into a cache. */
typedef struct qf_cache_stream {
    const void *from;
    void *to;
    const void *scale;                              /* NULL: not quantised */
    int64_t scale_stride;                           /* 0: one scale, 1: one a head */
    int64_t page_stride, token_stride, head_stride; /* of a cache, in elements */
    uint32_t from_dtype, to_dtype, scale_dtype;
    uint32_t heads, head_dim;
    uint32_t rotary_dim;             /* elements of a head that are rotated, 0 for none */
    uint32_t units;                  /* of a head: pairs of runs of elements that one thread takes */
    uint32_t rotated_units;          /* the first of them */
    uint32_t unit_magic, unit_shift; /* division by units as in loops.h */
    uint32_t is_cache, is_copy;      /* is_copy: bytes as they are */
} qf_cache_stream;

/* Where a row goes in every cache. */
typedef struct qf_cache_place {
    int64_t page, token; /* page -1: nowhere */
} qf_cache_place;

typedef struct qf_cache_params {
    qf_cache_stream streams[QF_CACHE_STREAMS];
    int64_t rows;
    const void *cos_sin;
    const void *positions;  /* NULL: row r of the operand broadcast to the tokens is row r of cos_sin */
    int64_t position_count; /* rows of cos_sin */
    /* From a row's index, row-major over these axes, to its entry in positions or its row of cos_sin. */
    int64_t axis_sizes[QF_CACHE_AXES], axis_strides[QF_CACHE_AXES];
    const void *slots; /* NULL: no stream is a cache */
    int64_t slot_count, page;
    uint32_t page_magic, page_shift; /* division by page as in loops.h; of fewer than 2^31 slots */
    uint32_t *winners;               /* by slot: 1 + the last row that has it, zero elsewhere; NULL: rows search */
    qf_cache_place *places;          /* by row, found by way of winners; NULL: rows search */
    uint32_t stream_count, axis_count, interleaved, angle_dtype, position_dtype, slot_dtype;
} qf_cache_params;

#endif
