/* Owns: reading the operands and attributes of attention and paged_attention, and checking what users put into them.
 * Does not own: the arithmetic (attention.c).
 * Next: attention.h. */
#include "kernels/cpu/attention.h"

/* The columns of both ops under one name. */
typedef struct columns {
    uint32_t kv_lens, q_start, sinks, q_scale, k_scale, p_scale, v_scale, out_scale;
    uint32_t scale, causal, align, window_left, window_right, softcap, layout, empty_row, out_mode, out_compute, via, p;
    uint32_t p_dtype;
} columns;

#define COLUMNS_OF(op)                                                                                                 \
    {                                                                                                                  \
        QF_IN(op, kv_lens), QF_IN(op, q_start), QF_IN(op, sinks), QF_IN(op, q_scale), QF_IN(op, k_scale),              \
            QF_IN(op, p_scale), QF_IN(op, v_scale), QF_IN(op, out_scale), QF_ATTR(op, scale), QF_ATTR(op, causal),     \
            QF_ATTR(op, align), QF_ATTR(op, window_left), QF_ATTR(op, window_right), QF_ATTR(op, softcap),             \
            QF_ATTR(op, layout), QF_ATTR(op, empty_row), QF_ATTR(op, out_mode), QF_ATTR(op, out_compute),              \
            QF_ATTR(op, via), QF_ATTR(op, p), QF_ATTR(op, p_dtype)                                                     \
    }
static const columns dense_columns = COLUMNS_OF(attention), paged_columns = COLUMNS_OF(paged_attention);

static bool is_quantised(qf_dtype dtype) {
    return qf_dtype_bits(dtype) <= 8;
}

/* The scale of q, k or v: one, or one a KV head, where the operand is quantised. */
static qf_status read_scale(const qf_kernel_call *call, const qf_view *operand, uint32_t column, int64_t kv_heads,
                            const qf_view **out) {
    const qf_view *scale =
        column < call->operand_count && call->operands[column].dtype != QF_DTYPE_NONE ? &call->operands[column] : NULL;
    *out = NULL;
    if (!is_quantised(operand->dtype)) return QF_OK; /* a scale beside a wider q is for quantising it later */
    QF_CPU_EXPECT(call, scale, "a scale beside every operand of 8 bits or less");
    QF_CPU_EXPECT(call, qf_view_count(scale) == 1 || qf_view_count(scale) == kv_heads, "one scale, or one a KV head");
    *out = scale;
    return QF_OK;
}

/* bias and mask broadcast to [B, H, T, S]. With packed rows T counts the rows of a sequence. */
static qf_status read_score_steps(const qf_attention *at, const qf_view *operand, qf_attention_steps *steps) {
    const qf_kernel_call *call = at->call;
    int64_t strides[QF_MAX_RANK], all[4] = {0};
    const int64_t sizes[4] = {at->sequences, at->heads, at->rows, at->keys};
    QF_CPU_EXPECT(call, operand->rank <= 4, "bias and mask of rank 4 at most");
    qf_view_strides(operand, strides);
    for (uint32_t i = 0; i < operand->rank; i++) {
        uint32_t axis = 4 - operand->rank + i;
        if (operand->dims[i] == 1) continue;
        QF_CPU_EXPECT(call, operand->dims[i] == sizes[axis] || (axis == 2 && at->packed),
                      "bias and mask that broadcast to [B, H, T, S]");
        all[axis] = strides[i];
    }
    *steps = (qf_attention_steps){all[0], all[1], all[2], all[3]};
    return QF_OK;
}

static void read_attributes(qf_attention *at, const columns *of) {
    const qf_kernel_attribute *attributes = at->call->attributes;
    at->scale = (float)attributes[of->scale].number;
    at->softcap = (float)attributes[of->softcap].number;
    at->causal = attributes[of->causal].integer != 0;
    at->bottom_right = attributes[of->align].integer == QF_VALUE_bottom_right;
    at->empty_is_nan = attributes[of->empty_row].integer == QF_VALUE_nan;
    at->window_left = attributes[of->window_left].integer;
    at->window_right = attributes[of->window_right].integer;
    at->p_mode = attributes[of->p].integer;
    at->p_dtype = (qf_dtype)attributes[of->p_dtype].integer;
}

/* q, out and lse of packed rows: [rows, H, ..]. */
static void set_packed_steps(qf_attention *at) {
    at->packed = true;
    at->rows = at->q->dims[0];
    at->heads = at->q->dims[1];
    at->q_steps = (qf_attention_steps){0, at->depth, at->heads * at->depth, 0};
    at->out_steps = (qf_attention_steps){0, at->out_depth, at->heads * at->out_depth, 0};
    at->lse_steps = (qf_attention_steps){0, 1, at->heads, 0};
}

/* Steps of [B, heads, tokens, depth] or [B, tokens, heads, depth]. */
static qf_attention_steps layout_steps(bool heads_first, int64_t heads, int64_t tokens, int64_t depth) {
    qf_attention_steps steps = {.sequence = heads * tokens * depth};
    int64_t head = heads_first ? tokens * depth : depth, token = heads_first ? depth : heads * depth;
    steps.head = head;
    steps.row = steps.key = token;
    return steps;
}

static qf_status describe_dense(qf_attention *at, int64_t layout) {
    const qf_kernel_call *call = at->call;
    bool heads_first = layout == QF_VALUE_bhsd;
    uint32_t head_axis = heads_first ? 1 : 2, token_axis = heads_first ? 2 : 1;
    const qf_view *q = at->q, *k = at->k, *v = at->v;
    QF_CPU_EXPECT(call, k->rank == 4 && v->rank == 4, "k and v of rank 4");
    at->sequences = k->dims[0];
    at->kv_heads = k->dims[head_axis];
    at->keys = k->dims[token_axis];
    at->depth = k->dims[3];
    at->out_depth = v->dims[3];
    QF_CPU_EXPECT(call,
                  v->dims[0] == at->sequences && v->dims[head_axis] == at->kv_heads && v->dims[token_axis] == at->keys,
                  "v with k's sequences, heads and keys");
    at->k_steps = layout_steps(heads_first, at->kv_heads, at->keys, at->depth);
    at->v_steps = layout_steps(heads_first, at->kv_heads, at->keys, at->out_depth);
    QF_CPU_EXPECT(call, q->rank == (at->q_start ? 3u : 4u) && q->dims[q->rank - 1] == at->depth,
                  "q of rank 4, or of rank 3 with q_start, and k's head dim");
    if (at->q_start) {
        set_packed_steps(at);
        return QF_OK;
    }
    QF_CPU_EXPECT(call, q->dims[0] == at->sequences, "q and k of one batch size");
    at->heads = q->dims[head_axis];
    at->rows = q->dims[token_axis];
    at->q_steps = layout_steps(heads_first, at->heads, at->rows, at->depth);
    at->out_steps = layout_steps(heads_first, at->heads, at->rows, at->out_depth);
    at->lse_steps = layout_steps(true, at->heads, at->rows, 1);
    return QF_OK;
}

static qf_status describe_paged(qf_attention *at, int64_t layout) {
    const qf_kernel_call *call = at->call;
    bool tokens_first = layout == QF_VALUE_nhd;
    const qf_view *q = at->q, *k = at->k, *v = at->v, *table = at->block_table;
    QF_CPU_EXPECT(call, k->rank == 4 && v->rank == 4 && q->rank == 3 && table->rank == 2,
                  "caches of rank 4 and q of rank 3");
    at->pages = k->dims[0];
    at->page = k->dims[tokens_first ? 1 : 2];
    at->kv_heads = k->dims[tokens_first ? 2 : 1];
    at->depth = k->dims[3];
    at->out_depth = v->dims[3];
    for (uint32_t i = 0; i < 3; i++) QF_CPU_EXPECT(call, v->dims[i] == k->dims[i], "caches of equal pages and heads");
    QF_CPU_EXPECT(call, q->dims[2] == at->depth && at->page > 0, "q with the caches' head dim");
    at->sequences = table->dims[0];
    QF_CPU_EXPECT(call, !__builtin_mul_overflow(table->dims[1], at->page, &at->keys), "fewer keys");
    QF_CPU_EXPECT(call, at->q_start || q->dims[0] == at->sequences, "one row a sequence without q_start");
    at->k_steps = layout_steps(!tokens_first, at->kv_heads, at->page, at->depth);
    at->v_steps = layout_steps(!tokens_first, at->kv_heads, at->page, at->out_depth);
    set_packed_steps(at);
    return QF_OK;
}

/* Without looking at data: a query for scratch has none. */
static const qf_view *optional(const qf_kernel_call *call, uint32_t column) {
    return column < call->operand_count && call->operands[column].dtype != QF_DTYPE_NONE ? &call->operands[column]
                                                                                         : NULL;
}

qf_status qf_attention_describe(const qf_kernel_call *call, qf_attention *out) {
    bool paged = call->op == QF_OP_paged_attention;
    const columns *of = paged ? &paged_columns : &dense_columns;
    *out = (qf_attention){.call = call, .q = &call->operands[0], .k = &call->operands[1], .v = &call->operands[2]};
    out->kv_lens = optional(call, of->kv_lens);
    out->q_start = optional(call, of->q_start);
    out->sinks = optional(call, of->sinks);
    if (paged) out->block_table = &call->operands[QF_IN(paged_attention, block_table)];
    read_attributes(out, of);
    int64_t layout = call->attributes[of->layout].integer;
    qf_status status = paged ? describe_paged(out, layout) : describe_dense(out, layout);
    if (status) return status;
    QF_CPU_EXPECT(call, out->kv_heads > 0 && out->heads % out->kv_heads == 0,
                  "query heads in multiples of the KV heads");
    QF_CPU_EXPECT(call, !out->sinks || qf_view_count(out->sinks) == out->heads, "one sink a query head");
    QF_CPU_EXPECT(call, !out->kv_lens || qf_view_count(out->kv_lens) == out->sequences, "one length a sequence");
    QF_CPU_EXPECT(call, !out->q_start || qf_view_count(out->q_start) == out->sequences + 1,
                  "one start a sequence, and the end");
    if (!paged) {
        out->bias = optional(call, QF_IN(attention, bias));
        out->mask = optional(call, QF_IN(attention, mask));
        if (out->bias) status = read_score_steps(out, out->bias, &out->bias_steps);
        if (out->mask && !status) status = read_score_steps(out, out->mask, &out->mask_steps);
    }
    if (!status) status = read_scale(call, out->q, of->q_scale, out->kv_heads, &out->q_scale);
    if (!status) status = read_scale(call, out->k, of->k_scale, out->kv_heads, &out->k_scale);
    if (!status) status = read_scale(call, out->v, of->v_scale, out->kv_heads, &out->v_scale);
    if (status) return status;
    const qf_view *p_scale = optional(call, of->p_scale), *out_scale = optional(call, of->out_scale);
    QF_CPU_EXPECT(call, out->p_mode != QF_VALUE_graph || p_scale, "p_scale beside p=graph");
    QF_CPU_EXPECT(call, !p_scale || qf_view_count(p_scale) == 1, "a scalar p_scale");
    QF_CPU_EXPECT(call, !out_scale || qf_view_count(out_scale) == 1, "a scalar out_scale");
    QF_CPU_EXPECT(call, out_scale || !is_quantised(call->results[0].dtype), "out_scale beside an 8-bit result");
    if (call->result_count > 1 && call->results[1].dtype != QF_DTYPE_NONE) out->lse = &call->results[1];
    QF_CPU_EXPECT(call,
                  qf_view_count(&call->results[0]) ==
                      out->out_depth * (qf_view_count(out->q) / (out->depth ? out->depth : 1)),
                  "a result of q's shape with v's head dim");
    return QF_OK;
}

/* --- values --- */

static int64_t value_at(const qf_view *view, int64_t index) {
    return qf_load_i64(view->dtype, view->data, index);
}

static qf_status check_lengths(const qf_attention *at) {
    for (int64_t b = 0; at->kv_lens && b < at->sequences; b++) {
        int64_t length = value_at(at->kv_lens, b);
        if (length < 0 || length > at->keys)
            return qf_cpu_fail(at->call, QF_ERROR_INVALID_ARGUMENT,
                               "%s: kv_lens[%lld] is %lld, expected 0 to %lld keys", qf_op_name(at->call->op),
                               (long long)b, (long long)length, (long long)at->keys);
    }
    return QF_OK;
}

static qf_status check_starts(const qf_attention *at) {
    int64_t before = 0;
    for (int64_t b = 0; at->q_start && b <= at->sequences; b++) {
        int64_t start = value_at(at->q_start, b);
        if (start < before || start > at->rows)
            return qf_cpu_fail(at->call, QF_ERROR_INVALID_ARGUMENT,
                               "%s: q_start[%lld] is %lld, expected %lld to %lld rows", qf_op_name(at->call->op),
                               (long long)b, (long long)start, (long long)before, (long long)at->rows);
        before = start;
    }
    return QF_OK;
}

/* Entries past a sequence's length are not read and may hold anything. */
static qf_status check_table(const qf_attention *at) {
    for (int64_t b = 0; at->block_table && b < at->sequences; b++) {
        int64_t used = (qf_attention_sequence_at(at, b).length + at->page - 1) / at->page;
        for (int64_t i = 0; i < used; i++) {
            int64_t page = value_at(at->block_table, b * at->block_table->dims[1] + i);
            if (page < 0 || page >= at->pages)
                return qf_cpu_fail(at->call, QF_ERROR_INVALID_ARGUMENT,
                                   "%s: block_table[%lld, %lld] is %lld, expected a page from 0 to %lld",
                                   qf_op_name(at->call->op), (long long)b, (long long)i, (long long)page,
                                   (long long)at->pages - 1);
        }
    }
    return QF_OK;
}

/* A row axis of bias or mask must reach the last row of every packed sequence. */
static qf_status check_score_rows(const qf_attention *at, const qf_view *operand, const qf_attention_steps *steps) {
    if (!operand || !at->packed || !steps->row) return QF_OK;
    for (int64_t b = 0; b < at->sequences; b++) {
        int64_t rows = qf_attention_sequence_at(at, b).row_count, given = operand->dims[operand->rank - 2];
        if (rows > given)
            return qf_cpu_fail(at->call, QF_ERROR_INVALID_ARGUMENT,
                               "%s: sequence %lld has %lld rows, bias or mask only %lld", qf_op_name(at->call->op),
                               (long long)b, (long long)rows, (long long)given);
    }
    return QF_OK;
}

qf_status qf_attention_check_values(const qf_attention *attention) {
    qf_status status = check_lengths(attention);
    if (!status) status = check_starts(attention);
    if (!status) status = check_table(attention);
    if (!status) status = check_score_rows(attention, attention->bias, &attention->bias_steps);
    if (!status) status = check_score_rows(attention, attention->mask, &attention->mask_steps);
    return status;
}

qf_attention_sequence qf_attention_sequence_at(const qf_attention *at, int64_t sequence) {
    qf_attention_sequence out = {0, at->rows, at->keys};
    if (at->kv_lens) out.length = value_at(at->kv_lens, sequence);
    if (at->q_start) {
        out.first_row = value_at(at->q_start, sequence);
        out.row_count = value_at(at->q_start, sequence + 1) - out.first_row;
    } else if (at->packed) {
        out.first_row = sequence;
        out.row_count = 1;
    }
    return out;
}

int64_t qf_attention_key_offset(const qf_attention *at, const qf_attention_steps *steps, int64_t sequence, int64_t head,
                                int64_t key) {
    if (!at->block_table) return sequence * steps->sequence + head * steps->head + key * steps->key;
    int64_t page = value_at(at->block_table, sequence * at->block_table->dims[1] + key / at->page);
    return page * steps->sequence + head * steps->head + key % at->page * steps->key;
}
