// Owns: the parameter block of the prefill attention kernels, as plain data shared by host and device.
// Does not own: how a variant is chosen and its block filled (select.h), or the kernel (kernel.cuh).
// Read next: select.h.
#ifndef QFUSE_KERNELS_CUDA_PREFILL_PARAMS_H
#define QFUSE_KERNELS_CUDA_PREFILL_PARAMS_H

#include <stdint.h>

#ifdef __cplusplus
#define QF_PREFILL_ALIGNAS(n) alignas(n)
#else
#define QF_PREFILL_ALIGNAS(n) _Alignas(n)
#endif

// Element types that the prefill kernels know; the numbers are those of the decode kernels.
enum qf_prefill_dtype {
    QF_PREFILL_BF16 = 0,
    QF_PREFILL_F16 = 1,
    QF_PREFILL_E4M3 = 2,
    QF_PREFILL_E5M2 = 3,
    QF_PREFILL_NONE = 4, // only for `via`: no rounding before the output quantisation
};

// How out_scale is applied when the output is FP8: x / s, x * s, or x * (1 / s) with the reciprocal rounded to f32.
enum qf_prefill_out_mode {
    QF_PREFILL_DIV = 0,
    QF_PREFILL_MUL = 1,
    QF_PREFILL_MUL_RECIPROCAL = 2,
};

// No limit, for the distances of params; positions stay below it.
#define QF_PREFILL_UNLIMITED (1 << 29)

// A TMA descriptor, opaque here so that this header needs no CUDA header. The driver fills it (cuTensorMapEncodeTiled).
typedef struct qf_prefill_tensor_map {
    QF_PREFILL_ALIGNAS(64) uint64_t opaque[16];
} qf_prefill_tensor_map;

// One launch. All pointers are device pointers; everything behind a pointer is read (or written) on the device only,
// so a captured launch follows changed lengths, tables and scales.
//
// A tile of work is one KV head's `group` query heads at `tile_tokens` neighbouring tokens: row r of it is token
// r / group, head r % group. Query, key and value tensors are described by the maps alone (select.h says how).
//
// The tokens of sequence b are rows q_start[b] .. q_start[b + 1] of q and out where there is a q_start (all sequences
// lie in one batch element), else rows 0 .. q_tokens of batch element b. Rows of a packed q outside of all sequences
// have no key. Token t of n stands at key position t, or t + length - n with bottom_right; it sees the keys from
// position - left to position + right that lie below length.
typedef struct qf_prefill_params {
    qf_prefill_tensor_map q_map; // head dim, head of the group, KV head, token, batch element
    qf_prefill_tensor_map k_map; // head dim, token, KV head, batch element; of a paged cache the last is the page
    qf_prefill_tensor_map v_map;

    void *out;
    float *lse;             // or null; natural log of the denominator
    const float *sinks;     // or null: [query heads], natural-log logits
    const float *q_scale;   // dequantisation scales; null means 1
    const float *k_scale;   //
    const float *v_scale;   //
    const float *out_scale; // read only for FP8 outputs
    const int32_t *block_table;
    const int32_t *kv_lens; // or null: every sequence has kv_tokens keys
    const int32_t *q_start; // or null
    uint32_t *ticket;       // one word, zero before the first launch; every launch leaves it zero
    uint8_t *transposed;    // V^T by sequence, KV head, block of keys, where V is transposed before

    int64_t out_batch_stride; // elements; the head dim is contiguous, every stride a multiple of 16 bytes
    int64_t out_token_stride;
    int64_t out_head_stride;
    int64_t lse_batch_stride; // elements
    int64_t lse_token_stride;
    int64_t lse_head_stride;
    int64_t block_table_stride;
    int64_t transposed_blocks; // of a sequence's KV head
    int64_t shares_offset;     // bytes from `transposed` to where CTAs leave what they computed of divided tiles

    // Scale index = KV head * stride: 0 per tensor, 1 per KV head.
    int32_t q_scale_stride;
    int32_t k_scale_stride;
    int32_t v_scale_stride;
    int32_t out_scale_stride;

    float softmax_scale; // positive
    float softcap;       // 0 = none
    int32_t left;        // keys visible before the aligned position, QF_PREFILL_UNLIMITED = all
    int32_t right;       // keys visible after it; causal means 0
    int32_t bottom_right;
    int32_t empty_is_nan; // a row without a key gives NaN instead of zeros
    int32_t batch;
    int32_t kv_heads;
    int32_t group;         // query heads a KV head
    int32_t q_tokens;      // tokens of a sequence; with q_start rows of the packed tensor
    int32_t kv_tokens;     // keys of a sequence; longer kv_lens are clamped to it
    int32_t page_size;     // tokens; 0: not paged
    int32_t page_shift;    // its logarithm: divisions would take longer than a tile's copies
    int32_t tile_tokens;   // tokens of a tile: tile rows / group
    int32_t cluster;       // CTAs that take neighbouring tiles of a KV head and share keys and values; 1 or 2
    int32_t span_tokens;   // tokens of their tiles together
    int32_t divide_from;   // number of work (a pair of tiles) from which on the keys of each tile are divided
    int32_t least_tokens;  // of a packed batch, sequences with fewer tokens are left alone
    int32_t group_magic;   // ceil(2^16 / group): divides a tile's rows by group with a multiplication
    int32_t section_heads; // KV heads whose tiles are handed out together, so that their keys stay in L2
    int32_t out_dtype;     // enum qf_prefill_dtype
    int32_t out_mode;      // enum qf_prefill_out_mode
    int32_t via;           // enum qf_prefill_dtype: BF16, F16 or NONE
    int32_t late_pairs;    // pairs of tiles of each head, the last ones, that come after all others: 0 or 1
} qf_prefill_params;

#endif
