/* Owns: the parameter block of the general attention kernels, as plain data shared by host and device.
 * Does not own: filling it (attention.c), the kernels (attention_tensor.cu, attention_plain.cu).
 * Next: attention.c, attention.cuh. */
#ifndef QF_KERNELS_CUDA_ATTENTION_H
#define QF_KERNELS_CUDA_ATTENTION_H

#include <stdint.h>

/* Value elements that one CTA computes; wider results are cut into chunks that repeat the scores. */
#define QF_ATTENTION_CHUNK 128

/* The tensor kernel: query rows and keys of a tile, threads, and the widest head dim. */
#define QF_ATTENTION_TENSOR_ROWS     64
#define QF_ATTENTION_TENSOR_KEYS     64
#define QF_ATTENTION_TENSOR_THREADS  128
#define QF_ATTENTION_TENSOR_HEAD_DIM 256

/* Pitches in shared memory: floats of a row of scores and of results, 16-bit elements of a row of values. Rows of
 * 16-bit elements are an odd number of 16 bytes apart, which keeps matrix loads free of bank conflicts. */
#define QF_ATTENTION_SCORE_PITCH  (QF_ATTENTION_TENSOR_KEYS + 1)
#define QF_ATTENTION_RESULT_PITCH (QF_ATTENTION_CHUNK + 4)
#define QF_ATTENTION_VALUE_PITCH  (QF_ATTENTION_CHUNK + 8)

/* The plain kernel, of any head dim: it walks the head dim in slices. */
#define QF_ATTENTION_PLAIN_ROWS     32
#define QF_ATTENTION_PLAIN_KEYS     64
#define QF_ATTENTION_PLAIN_SLICE    32
#define QF_ATTENTION_PLAIN_THREADS  128
#define QF_ATTENTION_PLAIN_RESIDENT 256 /* widest head dim of which the queries stay in shared memory */

/* Pitches in shared memory, in floats: of 32 rows, of 64 keys, of a key's values; multiples of 4. */
#define QF_ATTENTION_PLAIN_ROW_PITCH   (QF_ATTENTION_PLAIN_ROWS + 4)
#define QF_ATTENTION_PLAIN_KEY_PITCH   (QF_ATTENTION_PLAIN_KEYS + 4)
#define QF_ATTENTION_PLAIN_VALUE_PITCH (QF_ATTENTION_CHUNK + 4)

/* Element offsets step by these. q, out and lse: sequence, head, row. k and v: sequence (or page), head, key. bias and
 * mask: sequence, head, row, key. */
typedef struct qf_cuda_attention_steps {
    int64_t sequence, head, row, key;
} qf_cuda_attention_steps;

/* A scale in device memory: NULL means 1. Its index is KV head * stride. */
typedef struct qf_cuda_attention_scale {
    const void *data;
    int32_t dtype, stride;
} qf_cuda_attention_scale;

/* Everything behind a pointer is read on the device only. dtypes and enums are those of the library. */
typedef struct qf_cuda_attention_params {
    const void *q, *k, *v, *bias, *mask, *sinks;
    void *out;
    float *lse;
    const int32_t *kv_lens, *q_start, *block_table;
    qf_cuda_attention_scale q_scale, k_scale, v_scale, p_scale, out_scale;
    qf_cuda_attention_steps q_steps, k_steps, v_steps, out_steps, lse_steps, bias_steps, mask_steps;
    int64_t sequences, rows;      /* rows: of q in all where packed, else of each sequence */
    int64_t pages;                /* 0 when not paged */
    int64_t bias_rows, mask_rows; /* rows that bias and mask have; reads past them give 0 and false */
    int64_t work, tiles; /* row tiles times KV heads and chunks; row tiles of a sequence, or of a packed batch */
    int64_t window_left, window_right; /* -1: none */
    int32_t keys, page, table_width;   /* most keys of a sequence; tokens of a page; pages of a row of the table */
    int32_t heads, kv_heads, group, depth, out_depth, chunks;
    int32_t q_dtype, k_dtype, v_dtype, bias_dtype, sinks_dtype, out_dtype;
    int32_t p_mode, p_dtype;
    int32_t out_mode, out_compute, via;      /* of a quantised result */
    int32_t q_aligned, k_aligned, v_aligned; /* every row starts and ends on 8 elements, at such an address */
    int32_t least_rows;                      /* sequences of a packed batch with fewer are left alone */
    int32_t packed, causal, bottom_right, empty_is_nan, quantises;
    float scale, softcap;
} qf_cuda_attention_params;

#ifdef __CUDACC__
#define QF_ATTENTION_FUNCTION static __host__ __device__ inline
#else
#define QF_ATTENTION_FUNCTION static inline
#endif

/* The head dim as the tensor kernel holds it. */
QF_ATTENTION_FUNCTION int32_t qf_attention_padded_depth(int32_t depth) {
    return (depth + 15) / 16 * 16;
}

/* 16-bit elements of the tile of keys, whose memory holds scores at times. */
QF_ATTENTION_FUNCTION int32_t qf_attention_key_elements(int32_t depth) {
    int32_t keys = QF_ATTENTION_TENSOR_KEYS * (qf_attention_padded_depth(depth) + 8);
    int32_t scores = QF_ATTENTION_TENSOR_ROWS * QF_ATTENTION_SCORE_PITCH * 2;
    return ((keys > scores ? keys : scores) + 7) / 8 * 8;
}

/* Dynamic shared memory of the tensor kernel: queries, keys, values; in the end results. */
QF_ATTENTION_FUNCTION uint32_t qf_attention_tensor_bytes(int32_t depth) {
    int32_t elements = QF_ATTENTION_TENSOR_ROWS * (qf_attention_padded_depth(depth) + 8) +
                       qf_attention_key_elements(depth) + QF_ATTENTION_TENSOR_KEYS * QF_ATTENTION_VALUE_PITCH;
    int32_t results = QF_ATTENTION_TENSOR_ROWS * QF_ATTENTION_RESULT_PITCH * 4;
    return (uint32_t)(2 * elements > results ? 2 * elements : results);
}

/* Slices of the queries that the plain kernel keeps, and its dynamic shared memory: queries, keys, P, values. */
QF_ATTENTION_FUNCTION int32_t qf_attention_plain_slices(int32_t depth) {
    if (depth > QF_ATTENTION_PLAIN_RESIDENT || depth < 1) return 1;
    return (depth + QF_ATTENTION_PLAIN_SLICE - 1) / QF_ATTENTION_PLAIN_SLICE;
}

QF_ATTENTION_FUNCTION uint32_t qf_attention_plain_bytes(int32_t depth) {
    int32_t floats = qf_attention_plain_slices(depth) * QF_ATTENTION_PLAIN_SLICE * QF_ATTENTION_PLAIN_ROW_PITCH +
                     QF_ATTENTION_PLAIN_SLICE * QF_ATTENTION_PLAIN_KEY_PITCH +
                     QF_ATTENTION_PLAIN_KEYS * (QF_ATTENTION_PLAIN_ROW_PITCH + QF_ATTENTION_PLAIN_VALUE_PITCH);
    return (uint32_t)floats * 4;
}

#endif
