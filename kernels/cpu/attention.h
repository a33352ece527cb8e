/* Owns: one description of attention and paged_attention: where each row, key and scale lies, checked once.
 * Does not own: the arithmetic (attention.c).
 * Next: attention_describe.c, docs/numerics.md. */
#ifndef QF_KERNELS_CPU_ATTENTION_H
#define QF_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/gemm.h"

/* Element offsets step by these. q, out and lse: sequence, head, row. k and v: sequence (or page), head, key. bias and
 * mask: sequence, head, row, key. */
typedef struct qf_attention_steps {
    int64_t sequence, head, row, key;
} qf_attention_steps;

typedef struct qf_attention {
    const qf_kernel_call *call;
    const qf_view *q, *k, *v, *bias, *mask, *kv_lens, *q_start, *sinks, *block_table;
    const qf_view *q_scale, *k_scale, *v_scale; /* NULL where not applied */
    qf_view *lse;
    qf_output output;
    qf_attention_steps q_steps, out_steps, lse_steps, k_steps, v_steps, bias_steps, mask_steps;
    int64_t sequences, heads, kv_heads, rows,
        keys; /* rows: of q in all, or of each sequence when not packed; keys: most */
    int64_t depth, out_depth;
    int64_t page, pages; /* 0 when not paged */
    bool packed;         /* rows of all sequences one after another */
    float scale, softcap, p_scale;
    bool causal, bottom_right, empty_is_nan;
    int64_t window_left, window_right; /* -1: none */
    int64_t p_mode;
    qf_dtype p_dtype;
} qf_attention;

/* One sequence: its rows and keys. */
typedef struct qf_attention_sequence {
    int64_t first_row, row_count, length;
} qf_attention_sequence;

/* Shapes and attributes; does not look at data. */
qf_status qf_attention_describe(const qf_kernel_call *call, qf_attention *out);
/* Lengths, starts and block tables: out of range is a fault. */
qf_status qf_attention_check_values(const qf_attention *attention);
qf_attention_sequence qf_attention_sequence_at(const qf_attention *attention, int64_t sequence);
/* Element offset of key `key` of KV head `head` in k or v. */
int64_t qf_attention_key_offset(const qf_attention *attention, const qf_attention_steps *steps, int64_t sequence,
                                int64_t head, int64_t key);

#endif
