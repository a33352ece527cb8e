/* Owns: the mapping of ONNX's own Attention (23, 24, 25) and RotaryEmbedding.
 * Does not own: ONNX Runtime's attention ops (map_microsoft.c).
 * Next: map_microsoft.c. */
#include <math.h>

#include "frontends/onnx/attention.h"
#include "frontends/onnx/maps.h"

enum { Q, K, V, ATTN_MASK, PAST_KEY, PAST_VALUE, NONPAD_KV_SEQLEN };
enum { Y, PRESENT_KEY, PRESENT_VALUE, QK_MATMUL_OUTPUT };

/* What the node says, with heads split and the cache joined: everything in layout bhsd. */
typedef struct source {
    qf_value q, k, v, mask, bias, lengths; /* lengths: i64 [B], the external cache's */
    bool three_d, causal;
    bool first_revision;
    double scale, softcap;
    int64_t window_left, window_right, mode;
    qf_dim rows, columns, past; /* T, S, keys before the new ones */
    bool offset_fits;           /* align bottom_right puts row t at t + past (or t + length - T) */
} source;

/* The mask may end before the keys do; what it lacks is masked. */
static qf_value pad_mask(qf_onnx_call *call, qf_value mask, qf_dim columns) {
    qf_context *context = call->import->context;
    uint32_t rank = qf_onnx_rank(call, mask);
    int64_t has, needs;
    qf_dim last = qf_onnx_dim(call, mask, -1);
    if (rank == 0 || rank > 4 || !qf_dim_is_constant(context, last, &has) ||
        !qf_dim_is_constant(context, columns, &needs) || has >= needs)
        return mask;
    qf_dim before[QF_MAX_RANK], after[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) before[i] = after[i] = qf_onnx_constant(call, 0);
    after[rank - 1] = qf_onnx_constant(call, needs - has);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_pad, attributes);
    attributes[QF_ATTR(pad, before)] = (qf_attribute){.dims = before, .count = rank};
    attributes[QF_ATTR(pad, after)] = (qf_attribute){.dims = after, .count = rank};
    qf_dtype dtype = qf_onnx_dtype_of(call, mask);
    qf_value fill = qf_onnx_number(call, dtype, dtype == QF_I1 ? 0 : -INFINITY);
    return qf_import_op(qf_onnx_target(call), QF_OP_pad, (qf_value[]){mask, fill}, 2, attributes);
}

static const char *read_heads(qf_onnx_call *call, source *out) {
    qf_value inputs[3];
    uint32_t rank = qf_onnx_rank(call, qf_onnx_in(call, Q));
    for (uint32_t i = 0; i < 3; i++) {
        inputs[i] = qf_onnx_in(call, i);
        if (qf_onnx_rank(call, inputs[i]) != rank || (rank != 3 && rank != 4))
            return "its inputs have no common rank of 3 or 4";
    }
    out->three_d = rank == 3;
    if (out->three_d) {
        int64_t heads = qf_onnx_int(call, "q_num_heads", 0), kv_heads = qf_onnx_int(call, "kv_num_heads", 0);
        for (uint32_t i = 0; i < 3; i++)
            inputs[i] = qf_onnx_swap_heads(call, qf_onnx_split_heads(call, inputs[i], i == 0 ? heads : kv_heads));
    }
    out->q = inputs[0];
    out->k = inputs[1];
    out->v = inputs[2];
    return NULL;
}

static const char *read_cache(qf_onnx_call *call, source *out) {
    qf_value past_key = qf_onnx_in(call, PAST_KEY), past_value = qf_onnx_in(call, PAST_VALUE);
    if (!past_key.id != !past_value.id) return "it has only one of past_key and past_value";
    out->rows = qf_onnx_dim(call, out->q, 2);
    qf_dim added = qf_onnx_dim(call, out->k, 2);
    out->past = qf_onnx_constant(call, 0);
    out->offset_fits = true;
    if (past_key.id) {
        if (qf_onnx_rank(call, past_key) != 4 || qf_onnx_rank(call, past_value) != 4)
            return "the shape of its cache is unknown";
        out->past = qf_onnx_dim(call, past_key, 2);
        out->k = qf_import_concat(qf_onnx_target(call), (qf_value[]){past_key, out->k}, 2, 2);
        out->v = qf_import_concat(qf_onnx_target(call), (qf_value[]){past_value, out->v}, 2, 2);
        out->offset_fits = qf_dim_equal(added, out->rows);
    }
    out->columns = out->k.id ? qf_onnx_dim(call, out->k, 2) : (qf_dim){0};
    qf_value lengths = qf_onnx_in(call, NONPAD_KV_SEQLEN);
    if (lengths.id && past_key.id) return "it has both a cache and nonpad_kv_seqlen";
    if (lengths.id) {
        if (qf_onnx_rank(call, lengths) != 1) return "its nonpad_kv_seqlen is no vector";
        out->lengths = qf_onnx_cast(call, lengths, QF_I64, true);
    }
    return NULL;
}

static const char *read_source(qf_onnx_call *call, source *out) {
    const char *reason = read_heads(call, out);
    if (reason || call->import->failed) return reason;
    reason = read_cache(call, out);
    if (reason || call->import->failed) return reason;
    int64_t head_dim = 0;
    bool known = qf_dim_is_constant(call->import->context, qf_onnx_dim(call, out->q, 3), &head_dim) && head_dim > 0;
    if (!known && !qf_onnx_has(call, "scale")) return "its head size is not known, nor its scale";
    out->scale = qf_onnx_float(call, "scale", known ? (double)(1.0f / sqrtf((float)head_dim)) : 1.0);
    out->softcap = qf_onnx_float(call, "softcap", 0);
    out->causal = qf_onnx_int(call, "is_causal", 0) != 0;
    out->window_left = qf_onnx_int(call, "left_window_size", -1);
    out->window_right = qf_onnx_int(call, "right_window_size", -1);
    out->mode = qf_onnx_int(call, "qk_matmul_output_mode", 0);
    out->first_revision = call->import->options.revision == QF_ONNX_REVISION_FIRST && call->row->argument < 25;
    qf_dtype precision = qf_onnx_dtype(qf_onnx_int(call, "softmax_precision", 1));
    if (precision != QF_F32 && precision != QF_F16 && precision != QF_BF16)
        return "its softmax is computed in a type that QFuse lacks";
    if (out->window_left < -1 || out->window_right < -1 || out->mode < 0 || out->mode > 3 || out->softcap < 0)
        return "an attribute has a value outside of its range";
    qf_value mask = qf_onnx_in(call, ATTN_MASK);
    if (mask.id) {
        uint32_t rank = qf_onnx_rank(call, mask);
        if (rank == 0 || rank > 4) return "the shape of its mask is unknown";
        mask = pad_mask(call, mask, out->columns);
        if (qf_onnx_dtype_of(call, mask) == QF_I1)
            out->mask = mask;
        else
            out->bias = mask;
    }
    return NULL;
}

/* The mask that causal and windows make together; 0 where there are neither. */
static qf_value position_mask(qf_onnx_call *call, const source *in) {
    int64_t right = in->window_right;
    if (in->causal && right != 0) right = 0;
    if (in->window_left < 0 && right < 0) return (qf_value){0};
    qf_value per_batch = {0};
    qf_dim offset = in->first_revision ? qf_onnx_constant(call, 0) : in->past;
    if (in->lengths.id && !in->first_revision)
        per_batch = qf_import_binary(qf_onnx_target(call), QF_OP_sub, in->lengths,
                                     qf_import_symbolic(qf_onnx_target(call), &in->rows, 1, true));
    return qf_onnx_band(call, in->rows, in->columns, offset, per_batch, in->window_left, right);
}

/* All masks as one additive term: first what the graph gave, then positions, then lengths. 0 where there are none. */
static qf_value whole_bias(qf_onnx_call *call, const source *in) {
    qf_dtype dtype = qf_onnx_dtype_of(call, in->q);
    qf_value bias = in->bias, parts[3] = {in->mask, position_mask(call, in), {0}};
    if (in->lengths.id) {
        qf_dim one = qf_onnx_constant(call, 1), shape[] = {qf_onnx_dim(call, in->lengths, 0), one, one, one};
        qf_value index = qf_import_iota(qf_onnx_target(call), QF_I64, in->columns, qf_onnx_constant(call, 0), one);
        parts[2] = qf_import_binary(qf_onnx_target(call), QF_OP_less, index,
                                    qf_import_view(qf_onnx_target(call), in->lengths, shape, 4));
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (!parts[i].id) continue;
        qf_value part = qf_onnx_as_bias(call, parts[i], dtype, -INFINITY);
        bias = bias.id ? qf_import_binary(qf_onnx_target(call), QF_OP_add, bias, part) : part;
    }
    return bias;
}

static qf_value cap(qf_onnx_call *call, qf_value scores, double softcap) {
    if (softcap == 0) return scores;
    qf_value limit = qf_onnx_number(call, qf_onnx_dtype_of(call, scores), softcap);
    qf_value squeezed = qf_import_unary(qf_onnx_target(call), QF_OP_tanh,
                                        qf_import_binary(qf_onnx_target(call), QF_OP_div, scores, limit));
    return qf_import_binary(qf_onnx_target(call), QF_OP_mul, squeezed, limit);
}

/* Contraction labels where query head h reads KV head h / R (newest) or h mod G (first revision): [g, r] or [r, g]. */
typedef struct grouping {
    qf_dim batch, groups, repeat, heads;
    bool tiled;
} grouping;

static bool read_grouping(qf_onnx_call *call, const source *in, grouping *out) {
    out->batch = qf_onnx_dim(call, in->q, 0);
    out->heads = qf_onnx_dim(call, in->q, 1);
    out->groups = qf_onnx_dim(call, in->k, 1);
    out->repeat = qf_dim_divide_exactly(call->import->context, out->heads, out->groups);
    out->tiled = in->first_revision;
    if (!out->repeat.id)
        (void)qf_onnx_fault(call, QF_ERROR_VERIFY,
                            "Attention: the number of query heads is no multiple of that of KV heads");
    return out->repeat.id != 0;
}

static qf_value group_heads(qf_onnx_call *call, const grouping *heads, qf_value x) {
    qf_dim dims[] = {heads->batch, heads->tiled ? heads->repeat : heads->groups,
                     heads->tiled ? heads->groups : heads->repeat, qf_onnx_dim(call, x, 2), qf_onnx_dim(call, x, 3)};
    return qf_import_view(qf_onnx_target(call), x, dims, 5);
}

static qf_value ungroup_heads(qf_onnx_call *call, const grouping *heads, qf_value x) {
    if (!x.id) return x;
    return qf_import_view(qf_onnx_target(call), x,
                          (qf_dim[]){heads->batch, heads->heads, qf_onnx_dim(call, x, 3), qf_onnx_dim(call, x, 4)}, 4);
}

/* Scores, mask, softmax and values as single ops: for readings that the attention op does not have, and where the
 * scores are an output. */
static qf_value decomposed(qf_onnx_call *call, const source *in, qf_value *out_scores) {
    grouping heads;
    if (!read_grouping(call, in, &heads)) return (qf_value){0};
    const char *first = heads.tiled ? "brgtd,bgsd->brgts" : "bgrtd,bgsd->bgrts";
    const char *second = heads.tiled ? "brgts,bgsd->brgtd" : "bgrts,bgsd->bgrtd";
    qf_value bias = whole_bias(call, in), stages[4];
    qf_value scores = ungroup_heads(
        call, &heads, qf_import_contract(qf_onnx_target(call), first, group_heads(call, &heads, in->q), in->k));
    stages[0] = qf_onnx_scale(call, scores, in->scale);
    if (in->first_revision) {
        stages[1] = bias.id ? qf_import_binary(qf_onnx_target(call), QF_OP_add, stages[0], bias) : stages[0];
        stages[2] = cap(call, stages[1], in->softcap);
    } else {
        stages[1] = cap(call, stages[0], in->softcap);
        stages[2] = bias.id ? qf_import_binary(qf_onnx_target(call), QF_OP_add, stages[1], bias) : stages[1];
    }
    stages[3] = qf_onnx_softmax(call, stages[2], 3);
    if (bias.id && !in->first_revision) { /* a row without any key gives zeros */
        qf_dtype dtype = qf_onnx_dtype_of(call, bias);
        int64_t last[] = {(int64_t)qf_onnx_rank(call, bias) - 1};
        qf_value top = qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_max, bias, last, 1, true);
        qf_value empty =
            qf_import_binary(qf_onnx_target(call), QF_OP_equal, top, qf_onnx_number(call, dtype, -INFINITY));
        stages[3] = qf_import_where(qf_onnx_target(call), empty, qf_onnx_number(call, qf_onnx_dtype_of(call, in->q), 0),
                                    stages[3]);
    }
    *out_scores = stages[in->mode];
    if (call->import->failed) return (qf_value){0};
    return ungroup_heads(call, &heads,
                         qf_import_contract(qf_onnx_target(call), second, group_heads(call, &heads, stages[3]), in->v));
}

/* Heads from [r, g] order to [g, r] or back, for the first revision's order. */
static qf_value reorder_heads(qf_onnx_call *call, qf_value x, qf_dim outer, qf_dim inner) {
    if (!x.id) return x;
    qf_dim b = qf_onnx_dim(call, x, 0), h = qf_onnx_dim(call, x, 1), t = qf_onnx_dim(call, x, 2),
           d = qf_onnx_dim(call, x, 3);
    x = qf_import_view(qf_onnx_target(call), x, (qf_dim[]){b, outer, inner, t, d}, 5);
    x = qf_import_permute(qf_onnx_target(call), x, (int64_t[]){0, 2, 1, 3, 4}, 5);
    return qf_import_view(qf_onnx_target(call), x, (qf_dim[]){b, h, t, d}, 4);
}

static qf_value fused(qf_onnx_call *call, const source *in) {
    grouping heads;
    if (!read_grouping(call, in, &heads)) return (qf_value){0};
    bool reorder = heads.tiled && !qf_dim_is(call->import->context, heads.repeat, 1) &&
                   !qf_dim_is(call->import->context, heads.groups, 1);
    qf_onnx_attention attention = {.q = reorder ? reorder_heads(call, in->q, heads.repeat, heads.groups) : in->q,
                                   .k = in->k,
                                   .v = in->v,
                                   .mask = in->mask,
                                   .bias = in->bias,
                                   .scale = in->scale,
                                   .softcap = in->softcap,
                                   .causal = in->causal,
                                   .window_left = in->window_left,
                                   .window_right = in->window_right,
                                   .empty_row_nan = in->first_revision};
    bool has_cache = in->lengths.id || !qf_dim_is(call->import->context, in->past, 0);
    attention.top_left = in->first_revision || !has_cache;
    if (in->lengths.id) attention.kv_lens = qf_onnx_cast(call, in->lengths, QF_I32, true);
    if (!attention.top_left && !in->offset_fits) { /* positions that `align` cannot express become a mask */
        qf_value band = position_mask(call, in);
        if (band.id && attention.mask.id)
            band = qf_import_binary(qf_onnx_target(call), QF_OP_and, band, attention.mask);
        if (band.id) attention.mask = band;
        attention.causal = false;
        attention.window_left = attention.window_right = -1;
    }
    qf_value result = qf_onnx_emit_attention(call, &attention);
    return reorder ? reorder_heads(call, result, heads.groups, heads.repeat) : result;
}

qf_onnx_outcome qf_onnx_map_attention(qf_onnx_call *call) {
    source in = {0};
    const char *reason = read_source(call, &in);
    if (call->import->failed) return QF_ONNX_FAILED;
    if (reason) return qf_onnx_decline(call, reason);
    bool scores_used = qf_onnx_wants(call, QK_MATMUL_OUTPUT);
    bool masked = in.mask.id || in.bias.id || in.causal;
    /* First revision: the cap also bends the mask, and heads of a mask follow the other order. */
    bool other_reading = in.first_revision && masked && (in.softcap != 0 || in.mask.id || in.bias.id);
    qf_value scores = {0}, y;
    if (scores_used || other_reading)
        y = decomposed(call, &in, &scores);
    else
        y = fused(call, &in);
    if (call->output_count > PRESENT_KEY) call->outputs[PRESENT_KEY] = in.k;
    if (call->output_count > PRESENT_VALUE) call->outputs[PRESENT_VALUE] = in.v;
    if (call->output_count > QK_MATMUL_OUTPUT) call->outputs[QK_MATMUL_OUTPUT] = scores;
    return qf_onnx_done(call, in.three_d ? qf_onnx_merge_heads(call, y) : y);
}

/* --- rotary embedding --- */
/* x as [B, T, H, D] and back in the node's own form. */
static qf_onnx_outcome rotate(qf_onnx_call *call, qf_value cos, qf_value sin, qf_value positions, bool head_first) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x);
    int64_t heads = qf_onnx_int(call, "num_heads", 0), rotary = qf_onnx_int(call, "rotary_embedding_dim", 0), half;
    bool interleaved = qf_onnx_int(call, "interleaved", 0) != 0;
    if (rank != 4 && rank != 3) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (!qf_dim_is_constant(call->import->context, qf_onnx_dim(call, cos, -1), &half))
        return qf_onnx_decline(call, "its caches have no constant width");
    if (rank == 3 && heads == 0) { /* the whole width is one head where nothing else says how many there are */
        int64_t hidden;
        if (!qf_dim_is_constant(call->import->context, qf_onnx_dim(call, x, 2), &hidden) || rotary != 0 ||
            hidden % (2 * half))
            return qf_onnx_decline(call, "its number of heads is not known");
        heads = hidden / (2 * half);
    }
    if (rotary != 0 && rotary != 2 * half) {
        if (rotary > 2 * half) return qf_onnx_decline(call, "its caches are narrower than what it rotates");
        qf_dim zero = qf_onnx_constant(call, 0), width = qf_onnx_constant(call, rotary / 2);
        cos = qf_onnx_slice_axis(call, cos, qf_onnx_rank(call, cos) - 1, zero, width);
        sin = qf_onnx_slice_axis(call, sin, qf_onnx_rank(call, sin) - 1, zero, width);
    }
    qf_value rows = rank == 3 ? qf_onnx_split_heads(call, x, heads) : head_first ? qf_onnx_swap_heads(call, x) : x;
    qf_value turned = qf_onnx_rotate(call, rows, cos, sin, positions, interleaved);
    if (!turned.id) return QF_ONNX_FAILED;
    if (rank == 4) return qf_onnx_done(call, head_first ? qf_onnx_swap_heads(call, turned) : turned);
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), turned, qf_value_dims(qf_onnx_graph(call), x), 3));
}

qf_onnx_outcome qf_onnx_map_rotary_embedding(qf_onnx_call *call) {
    qf_value positions = qf_onnx_in(call, 3);
    if (positions.id && qf_onnx_rank(call, positions) != 2)
        return qf_onnx_decline(call, "its position_ids are no matrix");
    return rotate(call, qf_onnx_in(call, 1), qf_onnx_in(call, 2), positions, true);
}

/* position_ids [1] is where every sequence begins; [B, T] are the positions themselves. */
qf_onnx_outcome qf_onnx_map_ms_rotary_embedding(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), positions = qf_onnx_in(call, 1);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank != 4 && rank != 3) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (qf_onnx_int(call, "is_packed_batching", 0) || qf_onnx_float(call, "scale", 1) != 1)
        return qf_onnx_decline(call, "it packs batches or scales");
    if (qf_onnx_rank(call, positions) > 2) return qf_onnx_decline(call, "the shape of its position_ids is unknown");
    positions = qf_onnx_cast(call, positions, QF_I64, true);
    if (qf_onnx_rank(call, positions) < 2) {
        qf_dim zero = qf_onnx_constant(call, 0), one = qf_onnx_constant(call, 1);
        qf_dim batch = qf_onnx_dim(call, x, 0), rows = qf_onnx_dim(call, x, rank == 3 ? 1 : 2);
        qf_value index = qf_import_binary(qf_onnx_target(call), QF_OP_add,
                                          qf_import_iota(qf_onnx_target(call), QF_I64, rows, zero, one), positions);
        positions = qf_import_expand(qf_onnx_target(call), index, (qf_dim[]){batch, rows}, 2);
    }
    return rotate(call, qf_onnx_in(call, 2), qf_onnx_in(call, 3), positions, true);
}
