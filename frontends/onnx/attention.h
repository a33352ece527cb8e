/* Owns: what the attention mappings share: emitting the op, its masks, and heads.
 * Does not own: how each source op reads its inputs (map_attention.c, map_microsoft.c).
 * Next: attention.c. */
#ifndef QF_FRONTENDS_ONNX_ATTENTION_H
#define QF_FRONTENDS_ONNX_ATTENTION_H

#include "frontends/onnx/build.h"

/* An attention in layout bhsd: q [B, H, T, D], k [B, G, S, D], v [B, G, S, E]. Zero-initialise, then windows to -1. */
typedef struct qf_onnx_attention {
    qf_value q, k, v;
    qf_value bias, mask, kv_lens, sinks; /* optional */
    double scale, softcap;
    bool causal, top_left, empty_row_nan;
    int64_t window_left, window_right;
} qf_onnx_attention;

qf_value qf_onnx_emit_attention(qf_onnx_call *call, const qf_onnx_attention *attention);

/* [B, T, heads * D] to [B, T, heads, D]; a hidden size that the heads do not divide is a recorded fault. */
qf_value qf_onnx_split_heads(qf_onnx_call *call, qf_value x, int64_t heads);
/* Axes 1 and 2 swapped: between [B, T, H, D] and [B, H, T, D]. */
qf_value qf_onnx_swap_heads(qf_onnx_call *call, qf_value x);
/* [B, H, T, D] to [B, T, H * D] */
qf_value qf_onnx_merge_heads(qf_onnx_call *call, qf_value x);
/* Rotates x [B, T, H, D] by caches [positions, rotary_dim / 2] at positions [B, T], or [B, T, rotary_dim / 2] without.
 */
qf_value qf_onnx_rotate(qf_onnx_call *call, qf_value x, qf_value cos, qf_value sin, qf_value positions,
                        bool interleaved);
/* i1 [T, S]: key column j is within [row + offset - left, row + offset + right] (-1: no bound); offset_per_batch i64
 * [B] (optional, then [B, 1, T, S]) is added to the row. */
qf_value qf_onnx_band(qf_onnx_call *call, qf_dim rows, qf_dim columns, qf_dim offset, qf_value offset_per_batch,
                      int64_t left, int64_t right);
/* 0 where true, `otherwise` where false. */
qf_value qf_onnx_as_bias(qf_onnx_call *call, qf_value mask, qf_dtype dtype, double otherwise);

#endif
