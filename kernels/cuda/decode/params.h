// Owns: the parameter block of the paged decode attention kernels, as plain data shared by host and device.
// Does not own: how a variant is chosen, launched or its workspace sized (select.h), or the kernel (kernel.cuh).
// Read next: select.h.
#ifndef QFUSE_KERNELS_CUDA_DECODE_PARAMS_H
#define QFUSE_KERNELS_CUDA_DECODE_PARAMS_H

#include <stdint.h>

#ifdef __cplusplus
#define QF_DECODE_ALIGNAS(n) alignas(n)
#else
#define QF_DECODE_ALIGNAS(n) _Alignas(n)
#endif

// Element types that the decode kernels know. Values are part of the parameter block's binary layout.
enum qf_decode_dtype {
    QF_DECODE_BF16 = 0,
    QF_DECODE_F16 = 1,
    QF_DECODE_E4M3 = 2,
    QF_DECODE_E5M2 = 3,
    QF_DECODE_NONE = 4, // only for `via`: no rounding before the output quantisation
};

// How out_scale is applied when the output is FP8: x / s, x * s, or x * (1 / s) with the reciprocal rounded to f32.
enum qf_decode_out_mode {
    QF_DECODE_DIV = 0,
    QF_DECODE_MUL = 1,
    QF_DECODE_MUL_RECIPROCAL = 2,
};

// A TMA descriptor, opaque here so that this header needs no CUDA header. The driver fills it (cuTensorMapEncodeTiled).
typedef struct qf_decode_tensor_map {
    QF_DECODE_ALIGNAS(64) uint64_t opaque[16];
} qf_decode_tensor_map;

// One launch. All pointers are device pointers; everything behind a pointer is read (or written) on the device only,
// so a captured launch follows changed lengths, tables and scales.
//
// Layouts, in elements:
//   q, out       [tokens, query heads, head_dim], head_dim contiguous; rows of q aligned to 16 bytes
//   block_table  [batch, block_table_stride] page indices
//   caches       described by the tensor maps: bytes of a row, token in page, KV head, page (NHD and HND differ in
//                strides alone); box = 128 bytes (or the row) x tile tokens x 1 x 1
//   sinks        [query heads], natural-log logits;  lse [tokens, query heads]
// The tokens of sequence b are q_start[b] .. q_start[b + 1], or b * q_tokens .. (b + 1) * q_tokens without q_start.
// Token t of n stands at key position seq_lens[b] - n + t (bottom right); seq_lens counts the new tokens.
typedef struct qf_decode_params {
    qf_decode_tensor_map k_map;
    qf_decode_tensor_map v_map;

    const void *q;
    void *out;
    float *lse;             // or null
    const float *sinks;     // or null
    const float *q_scale;   // dequantisation scales; null means 1
    const float *k_scale;   //
    const float *v_scale;   //
    const float *out_scale; // read only for FP8 outputs
    const int32_t *block_table;
    const int32_t *seq_lens;
    const int32_t *q_start; // or null
    float *partials;        // workspace, see qf_decode_workspace; contents do not matter
    uint32_t *tickets;      // zero before the first launch; every launch leaves them zero

    int64_t q_token_stride;
    int64_t q_head_stride;
    int64_t out_token_stride;
    int64_t out_head_stride;
    int64_t block_table_stride;

    // Scale index = KV head * stride: 0 per tensor, 1 per KV head. q_scale may also vary by query head and token.
    int32_t k_scale_stride;
    int32_t v_scale_stride;
    int32_t out_scale_stride;
    int32_t q_scale_stride;       // by KV head, beside the next two
    int32_t q_scale_head_stride;  // by query head
    int32_t q_scale_token_stride; // by token

    float softmax_scale;
    float softcap;       // 0 = none
    int32_t window_left; // keys before the aligned position, -1 = no limit
    int32_t causal;      // 1: token t sees keys up to its own position; 0: every token sees all keys
    int32_t batch;
    int32_t kv_heads;
    int32_t group;             // query heads per KV head
    int32_t q_tokens;          // tokens of a sequence; with q_start the largest count
    int32_t page_shift;        // log2 of the page size
    int32_t token_rows;        // rows of q and out. With q_start, sequences that do not lie within them, or that have
                               // more than q_tokens tokens, are left alone
    int32_t max_kv_len;        // block table width * page size; longer seq_lens are clamped to it
    int32_t rows;              // q_tokens * group
    int32_t group_magic;       // ceil(2^20 / group): divides rows by group with a multiplication
    int32_t row_blocks;        // units that share a KV head's keys: rows / (8 * row tiles), rounded up
    int32_t bundle_shift;      // log2 of the widest allowed bundle of KV heads
    int32_t cluster_shift;     // log2 of the CTAs of a cluster, 0 = launched without clusters
    int32_t active[4];         // most CTAs to divide among, for bundles of 1, 2, 4, 8 heads (qf_decode_active)
    int32_t q_dtype;           // enum qf_decode_dtype
    int32_t out_dtype;         //
    int32_t out_mode;          // enum qf_decode_out_mode
    int32_t via;               // enum qf_decode_dtype: BF16, F16 or NONE
    int32_t stages;            // ring depth of each warp
    int32_t fixed_bundle;      // 1: bundle_shift is used as it is; 0: the device may choose a narrower one
    int32_t tiles_a_cta_shift; // a CTA joins only when there are 2^this tiles for each
} qf_decode_params;

#endif
