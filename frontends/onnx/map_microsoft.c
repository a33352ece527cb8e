/* Owns: mappings of ONNX Runtime's attention ops: GroupQueryAttention, MultiHeadAttention, Attention.
 * Does not own: ONNX's own Attention (map_attention.c).
 * Next: attention.c. */
#include <math.h>

#include "frontends/onnx/attention.h"
#include "frontends/onnx/maps.h"

static qf_dim zero_dim(const qf_onnx_call *call) {
    return qf_onnx_constant(call, 0);
}

/* Consecutive parts of the last axis. */
static bool split_last(qf_onnx_call *call, qf_value x, const int64_t *sizes, uint32_t count, qf_value *out) {
    qf_dim dims[4];
    for (uint32_t i = 0; i < count; i++) dims[i] = qf_onnx_constant(call, sizes[i]);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_split, attributes);
    attributes[QF_ATTR(split, axis)].integer = (int64_t)qf_onnx_rank(call, x) - 1;
    attributes[QF_ATTR(split, sizes)] = (qf_attribute){.dims = dims, .count = count};
    qf_node node = qf_import_node(qf_onnx_target(call), QF_OP_split, &x, 1, attributes, count);
    for (uint32_t i = 0; node.id && i < count; i++) out[i] = qf_node_result(qf_onnx_graph(call), node, i);
    return node.id != 0;
}

/* --- GroupQueryAttention --- */
enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, SEQLENS_K, TOTAL_LENGTH, COS, SIN, POSITION_IDS, BIAS, SINK };

typedef struct grouped {
    qf_value q, k, v;                /* [B, T, heads, D] */
    qf_value past_lens;              /* i64 [B]: valid keys in the cache; 0 where every one is 0 */
    qf_value rows_value;             /* i64 scalar: T */
    qf_dim batch, rows, past, total; /* total 0: not known as a dim */
    int64_t heads, kv_heads, head_dim;
    bool has_past;
} grouped;

static const char *read_packed(qf_onnx_call *call, grouped *out) {
    qf_value query = qf_onnx_in(call, QUERY), parts[3] = {query, qf_onnx_in(call, KEY), qf_onnx_in(call, VALUE)};
    if (qf_onnx_rank(call, query) != 3) return "its query is not of rank 3";
    if (!parts[1].id != !parts[2].id) return "it has only one of key and value";
    out->batch = qf_onnx_dim(call, query, 0);
    out->rows = qf_onnx_dim(call, query, 1);
    int64_t hidden, all = out->heads + (parts[1].id ? 0 : 2 * out->kv_heads);
    if (!qf_dim_is_constant(call->import->context, qf_onnx_dim(call, query, 2), &hidden))
        return "its hidden size is not known";
    if (out->heads < 1 || out->kv_heads < 1 || out->heads % out->kv_heads || hidden % all) {
        (void)qf_onnx_fault(
            call, QF_ERROR_VERIFY,
            "GroupQueryAttention: a query of width %lld does not hold %lld heads (num_heads %lld, kv_num_heads %lld)",
            (long long)hidden, (long long)all, (long long)out->heads, (long long)out->kv_heads);
        return NULL;
    }
    out->head_dim = hidden / all;
    int64_t kv = out->kv_heads * out->head_dim;
    if (!parts[1].id && !split_last(call, query, (int64_t[]){out->heads * out->head_dim, kv, kv}, 3, parts))
        return NULL;
    out->q = qf_onnx_split_heads(call, parts[0], out->heads);
    out->k = qf_onnx_split_heads(call, parts[1], out->kv_heads);
    out->v = qf_onnx_split_heads(call, parts[2], out->kv_heads);
    return NULL;
}

/* How many keys of the cache are valid in each sequence: none in a prompt (T = total), else seqlens_k + 1 - T. */
static const char *read_lengths(qf_onnx_call *call, grouped *out) {
    qf_value past = qf_onnx_in(call, PAST_KEY), total = qf_onnx_in(call, TOTAL_LENGTH);
    if (!past.id != !qf_onnx_in(call, PAST_VALUE).id) return "it has only one of past_key and past_value";
    if (past.id && qf_onnx_rank(call, past) != 4) return "the shape of its cache is unknown";
    out->past = past.id ? qf_onnx_dim(call, past, 2) : zero_dim(call);
    out->has_past = past.id && !qf_dim_is(call->import->context, out->past, 0);
    const qf_dim *elements;
    uint32_t count;
    if (qf_onnx_elements(call, total, &elements, &count) && count == 1) out->total = elements[0];
    out->rows_value = qf_import_symbolic(qf_onnx_target(call), &out->rows, 1, true);
    if (!out->has_past || (out->total.id && qf_dim_equal(out->total, out->rows))) return NULL;
    qf_value lens = qf_onnx_cast(call, qf_onnx_in(call, SEQLENS_K), QF_I64, true);
    if (qf_onnx_rank(call, lens) == 2) lens = qf_import_view(qf_onnx_target(call), lens, &out->batch, 1);
    lens = qf_import_binary(qf_onnx_target(call), QF_OP_add, lens, qf_onnx_number(call, QF_I64, 1));
    lens = qf_import_binary(qf_onnx_target(call), QF_OP_sub, lens, out->rows_value);
    if (qf_onnx_rank(call, total) == 1) total = qf_import_view(qf_onnx_target(call), total, NULL, 0);
    qf_value prompt =
        qf_import_binary(qf_onnx_target(call), QF_OP_equal, qf_onnx_cast(call, total, QF_I64, true), out->rows_value);
    out->past_lens = qf_import_where(qf_onnx_target(call), prompt, qf_onnx_number(call, QF_I64, 0), lens);
    return NULL;
}

/* i64 [B, T] (or [1, T] in a prompt): past_lens[b] + t */
static qf_value row_positions(qf_onnx_call *call, const grouped *in) {
    qf_dim one = qf_onnx_constant(call, 1);
    qf_value index = qf_import_iota(qf_onnx_target(call), QF_I64, in->rows, zero_dim(call), one);
    index = qf_import_view(qf_onnx_target(call), index, (qf_dim[]){one, in->rows}, 2);
    if (!in->past_lens.id) return qf_import_expand(qf_onnx_target(call), index, (qf_dim[]){in->batch, in->rows}, 2);
    return qf_import_binary(qf_onnx_target(call), QF_OP_add, index,
                            qf_import_view(qf_onnx_target(call), in->past_lens, (qf_dim[]){in->batch, one}, 2));
}

/* The cache [B, G, P, D] with the new rows at their positions, of `length` keys. Sequences of different lengths stand
 * at different places, so this is a scatter and not a concatenation. */
static qf_value join_cache(qf_onnx_call *call, const grouped *in, qf_value past, qf_value added, qf_value positions,
                           qf_dim length) {
    qf_context *context = call->import->context;
    if (!added.id) return added;
    qf_dim before[4], after[4];
    for (uint32_t i = 0; i < 4; i++) before[i] = after[i] = zero_dim(call);
    after[2] = qf_dim_subtract(context, length, in->past);
    if (!after[2].id) call->import->failed = true;
    qf_value base = past;
    if (!qf_dim_is(context, after[2], 0)) {
        qf_attribute attributes[QF_MAX_ATTRIBUTES];
        qf_attributes_default(qf_onnx_graph(call), QF_OP_pad, attributes);
        attributes[QF_ATTR(pad, before)] = (qf_attribute){.dims = before, .count = 4};
        attributes[QF_ATTR(pad, after)] = (qf_attribute){.dims = after, .count = 4};
        qf_value fill = qf_onnx_number(call, qf_onnx_dtype_of(call, past), 0);
        base = qf_import_op(qf_onnx_target(call), QF_OP_pad, (qf_value[]){past, fill}, 2, attributes);
    }
    qf_dim one = qf_onnx_constant(call, 1);
    qf_value index = qf_import_view(qf_onnx_target(call), positions, (qf_dim[]){in->batch, one, in->rows, one}, 4);
    index = qf_import_expand(qf_onnx_target(call), index, qf_value_dims(qf_onnx_graph(call), added), 4);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_scatter_elements, attributes);
    attributes[QF_ATTR(scatter_elements, axis)].integer = 2;
    return qf_import_op(qf_onnx_target(call), QF_OP_scatter_elements, (qf_value[]){base, index, added}, 3, attributes);
}

/* Keys of the joined cache: a buffer that is as long as the cache it replaces, else the total length. */
static qf_dim present_length(qf_onnx_call *call, const grouped *in) {
    if (qf_onnx_wants(call, 1) && !call->scope->parent) {
        qf_type declared = qf_onnx_declared_type(call->import, call->node->output[1]);
        if (declared.id && qf_type_rank(call->import->context, declared) == 4 &&
            qf_dim_equal(qf_type_dim(call->import->context, declared, 2), in->past))
            return in->past;
    }
    return in->total.id ? in->total : qf_dim_add(call->import->context, in->past, in->rows);
}

static qf_value flatten_sink(qf_onnx_call *call, const grouped *in) {
    qf_dim heads = qf_onnx_constant(call, in->heads);
    if (qf_onnx_in(call, SINK).id)
        return qf_import_view(qf_onnx_target(call), qf_onnx_cast(call, qf_onnx_in(call, SINK), QF_F32, true), &heads,
                              1);
    if (qf_onnx_int(call, "smooth_softmax", 0) > 0) return qf_onnx_filled(call, QF_F32, 0, &heads, 1);
    return (qf_value){0};
}

/* The last `capacity` of the keys that are valid, oldest first; the front of the cache where it is not full yet. */
static qf_value slide(qf_onnx_call *call, const grouped *in, qf_value joined, qf_value valid) {
    qf_dim one = qf_onnx_constant(call, 1), shape[] = {in->batch, one, one, one};
    qf_value capacity = qf_import_symbolic(qf_onnx_target(call), &in->past, 1, true),
             zero = qf_onnx_number(call, QF_I64, 0);
    qf_value dropped = qf_import_binary(qf_onnx_target(call), QF_OP_maximum,
                                        qf_import_binary(qf_onnx_target(call), QF_OP_sub, valid, capacity), zero);
    qf_value index = qf_import_iota(qf_onnx_target(call), QF_I64, in->past, zero_dim(call), one);
    index = qf_import_view(qf_onnx_target(call), index, (qf_dim[]){in->past, one}, 2);
    index = qf_import_binary(qf_onnx_target(call), QF_OP_add, qf_import_view(qf_onnx_target(call), dropped, shape, 4),
                             index);
    if (!joined.id || !index.id) return (qf_value){0};
    qf_dim wide[] = {in->batch, qf_onnx_dim(call, joined, 1), in->past, qf_onnx_dim(call, joined, 3)};
    index = qf_import_expand(qf_onnx_target(call), index, wide, 4);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_gather_elements, attributes);
    attributes[QF_ATTR(gather_elements, axis)].integer = 2;
    return qf_import_op(qf_onnx_target(call), QF_OP_gather_elements, (qf_value[]){joined, index}, 2, attributes);
}

/* Joins the cache, gives the present outputs, and the number of valid keys. A sliding cache has a fixed capacity: its
 * valid keys are at most that many, and older ones leave it. */
static void use_cache(qf_onnx_call *call, grouped *in, bool slides, qf_onnx_attention *attention) {
    qf_context *context = call->import->context;
    qf_value *sides[] = {&attention->k, &attention->v}, valid = {0};
    if (slides && in->past_lens.id)
        in->past_lens = qf_import_binary(qf_onnx_target(call), QF_OP_minimum, in->past_lens,
                                         qf_import_symbolic(qf_onnx_target(call), &in->past, 1, true));
    if (in->past_lens.id) valid = qf_import_binary(qf_onnx_target(call), QF_OP_add, in->past_lens, in->rows_value);
    qf_value positions = in->has_past ? row_positions(call, in) : (qf_value){0};
    qf_dim length = slides ? qf_dim_add(context, in->past, in->rows) : present_length(call, in);
    for (uint32_t i = 0; i < 2 && !call->import->failed; i++) {
        if (in->has_past)
            *sides[i] = join_cache(call, in, qf_onnx_in(call, PAST_KEY + i), *sides[i], positions, length);
        if (call->output_count <= 1 + i) continue;
        call->outputs[1 + i] = slides && valid.id ? slide(call, in, *sides[i], valid) : *sides[i];
    }
    if (valid.id) attention->kv_lens = qf_onnx_cast(call, valid, QF_I32, true);
}

qf_onnx_outcome qf_onnx_map_group_query_attention(qf_onnx_call *call) {
    grouped in = {.heads = qf_onnx_int(call, "num_heads", 0), .kv_heads = qf_onnx_int(call, "kv_num_heads", 0)};
    if (!qf_onnx_in(call, SEQLENS_K).id || !qf_onnx_in(call, TOTAL_LENGTH).id)
        return qf_onnx_decline(call, "a required input is missing");
    if (qf_onnx_int(call, "qk_output", 0) || qf_onnx_wants(call, 3))
        return qf_onnx_decline(call, "its scores are an output");
    const char *reason = read_packed(call, &in);
    if (!reason && !call->import->failed) reason = read_lengths(call, &in);
    if (call->import->failed) return QF_ONNX_FAILED;
    if (reason) return qf_onnx_decline(call, reason);
    qf_value positions = row_positions(call, &in);
    if (qf_onnx_int(call, "do_rotary", 0)) {
        qf_value given = qf_onnx_in(call, POSITION_IDS), rotary = positions;
        if (given.id) rotary = qf_onnx_cast(call, given, QF_I64, true);
        bool interleaved = qf_onnx_int(call, "rotary_interleaved", 0) != 0;
        if (!qf_onnx_in(call, COS).id || !qf_onnx_in(call, SIN).id)
            return qf_onnx_decline(call, "its rotary caches are missing");
        in.q = qf_onnx_rotate(call, in.q, qf_onnx_in(call, COS), qf_onnx_in(call, SIN), rotary, interleaved);
        in.k = qf_onnx_rotate(call, in.k, qf_onnx_in(call, COS), qf_onnx_in(call, SIN), rotary, interleaved);
    }
    int64_t window = qf_onnx_int(call, "local_window_size", -1);
    double scale = qf_onnx_float(call, "scale", 0);
    qf_onnx_attention attention = {.q = qf_onnx_swap_heads(call, in.q),
                                   .k = qf_onnx_swap_heads(call, in.k),
                                   .v = qf_onnx_swap_heads(call, in.v),
                                   .bias = qf_onnx_in(call, BIAS),
                                   .sinks = flatten_sink(call, &in),
                                   .scale = scale != 0 ? scale : (double)(1.0f / sqrtf((float)in.head_dim)),
                                   .softcap = qf_onnx_float(call, "softcap", 0),
                                   .causal = true,
                                   .window_left = window > 0 ? window - 1 : -1,
                                   .window_right = -1};
    if (call->import->failed) return QF_ONNX_FAILED;
    use_cache(call, &in, qf_onnx_int(call, "sliding_window_cache", 0) != 0 && window > 0, &attention);
    return qf_onnx_done(call, qf_onnx_merge_heads(call, qf_onnx_emit_attention(call, &attention)));
}

/* --- MultiHeadAttention --- */
enum { MHA_BIAS = 3, MHA_MASK = 4, MHA_SCORE_BIAS = 5, MHA_PAST_KEY = 6, MHA_PAST_VALUE = 7 };

/* [B, 1, 1, S], [B, 1, T, S] or lengths, from a mask of 32-bit integers: [B, S], [B, T, S] or [B]. A masked key gets
 * the filter value added, which is finite. */
static const char *read_mask(qf_onnx_call *call, qf_value mask, qf_dim batch, qf_onnx_attention *out) {
    if (!mask.id) return NULL;
    uint32_t rank = qf_onnx_rank(call, mask);
    qf_dim one = qf_onnx_constant(call, 1);
    if (rank == 1 && qf_dim_equal(qf_onnx_dim(call, mask, 0), batch)) {
        out->kv_lens = qf_onnx_cast(call, mask, QF_I32, true);
        return NULL;
    }
    if (rank != 2 && rank != 3) return "its mask has a form that QFuse lacks";
    qf_dim dims[4] = {qf_onnx_dim(call, mask, 0), one, rank == 3 ? qf_onnx_dim(call, mask, 1) : one,
                      qf_onnx_dim(call, mask, -1)};
    qf_value zero = qf_onnx_number(call, qf_onnx_dtype_of(call, mask), 0);
    qf_value kept = qf_onnx_dtype_of(call, mask) == QF_I1
                        ? mask
                        : qf_import_binary(qf_onnx_target(call), QF_OP_greater, mask, zero);
    double filter = qf_onnx_float(call, "mask_filter_value", -10000.0);
    qf_value bias = qf_onnx_as_bias(call, qf_import_view(qf_onnx_target(call), kept, dims, 4),
                                    qf_onnx_dtype_of(call, out->q), filter);
    out->bias = out->bias.id ? qf_import_binary(qf_onnx_target(call), QF_OP_add, out->bias, bias) : bias;
    return NULL;
}

/* q, k and v as [B, T, heads, D], out of [B, T, hidden] each, or packed [B, S, H, 2, D], [B, T, H, 3, D]; k and v may
 * also come as [B, H, S, D]. */
static qf_value unpack_part(qf_onnx_call *call, qf_value packed, uint32_t index) {
    qf_value part =
        qf_onnx_slice_axis(call, packed, 3, qf_onnx_constant(call, index), qf_onnx_constant(call, (int64_t)index + 1));
    if (!part.id) return part;
    qf_dim dims[] = {qf_onnx_dim(call, part, 0), qf_onnx_dim(call, part, 1), qf_onnx_dim(call, part, 2),
                     qf_onnx_dim(call, part, 4)};
    return qf_import_view(qf_onnx_target(call), part, dims, 4);
}

static const char *read_parts(qf_onnx_call *call, int64_t heads, qf_value *parts, bool *head_first) {
    qf_value query = qf_onnx_in(call, 0), key = qf_onnx_in(call, 1), value = qf_onnx_in(call, 2);
    uint32_t query_rank = qf_onnx_rank(call, query), key_rank = qf_onnx_rank(call, key);
    *head_first = false;
    if (query_rank == 5) {
        for (uint32_t i = 0; i < 3; i++) parts[i] = unpack_part(call, query, i);
        return NULL;
    }
    if (query_rank != 3) return "its query has a form that QFuse lacks";
    parts[0] = qf_onnx_split_heads(call, query, heads);
    if (key_rank == 5) {
        parts[1] = unpack_part(call, key, 0);
        parts[2] = unpack_part(call, key, 1);
        return NULL;
    }
    if (key_rank == 4 && qf_onnx_rank(call, value) == 4) {
        *head_first = true;
        parts[1] = key;
        parts[2] = value;
        return NULL;
    }
    if (key_rank != 3 || qf_onnx_rank(call, value) != 3) return "its key or value has a form that QFuse lacks";
    parts[1] = qf_onnx_split_heads(call, key, heads);
    parts[2] = qf_onnx_split_heads(call, value, heads);
    return NULL;
}

/* The projections' bias [hidden + hidden + v_hidden], added to each part before the heads move. */
static const char *add_bias(qf_onnx_call *call, qf_value bias, bool head_first, qf_value *parts) {
    qf_context *context = call->import->context;
    qf_dim at = zero_dim(call);
    if (!bias.id) return NULL;
    if (qf_onnx_rank(call, bias) != 1) return "its bias is no vector";
    for (uint32_t i = 0; i < 3; i++) {
        if (!parts[i].id) return NULL;
        qf_dim heads = qf_onnx_dim(call, parts[i], head_first && i ? 1 : 2), width = qf_onnx_dim(call, parts[i], 3);
        qf_dim end = qf_dim_add(context, at, qf_dim_multiply(context, heads, width));
        if (!head_first || i == 0) {
            qf_value piece = qf_onnx_slice_axis(call, bias, 0, at, end);
            parts[i] = qf_import_binary(qf_onnx_target(call), QF_OP_add, parts[i],
                                        qf_import_view(qf_onnx_target(call), piece, (qf_dim[]){heads, width}, 2));
        }
        at = end;
    }
    return NULL;
}

static bool head_scale(qf_onnx_call *call, qf_value q, qf_onnx_attention *out) {
    int64_t head_dim;
    double scale = qf_onnx_float(call, "scale", 0);
    if (scale == 0 && (!qf_dim_is_constant(call->import->context, qf_onnx_dim(call, q, -1), &head_dim) || head_dim < 1))
        return false;
    out->scale = scale != 0 ? scale : (double)(1.0f / sqrtf((float)head_dim));
    return true;
}

qf_onnx_outcome qf_onnx_map_multi_head_attention(qf_onnx_call *call) {
    int64_t heads = qf_onnx_int(call, "num_heads", 0);
    qf_value parts[3] = {{0}}, past[2] = {qf_onnx_in(call, MHA_PAST_KEY), qf_onnx_in(call, MHA_PAST_VALUE)};
    bool head_first;
    if (qf_onnx_wants(call, 3)) return qf_onnx_decline(call, "its scores are an output");
    const char *reason = read_parts(call, heads, parts, &head_first);
    if (!reason && !call->import->failed) reason = add_bias(call, qf_onnx_in(call, MHA_BIAS), head_first, parts);
    if (call->import->failed) return QF_ONNX_FAILED;
    if (reason) return qf_onnx_decline(call, reason);
    if (!past[0].id != !past[1].id) return qf_onnx_decline(call, "it has only one of past_key and past_value");
    qf_onnx_attention attention = {.q = qf_onnx_swap_heads(call, parts[0]),
                                   .bias = qf_onnx_in(call, MHA_SCORE_BIAS),
                                   .causal = qf_onnx_int(call, "unidirectional", 0) != 0,
                                   .window_left = -1,
                                   .window_right = -1};
    qf_value *sides[] = {&attention.k, &attention.v};
    for (uint32_t i = 0; i < 2; i++) {
        *sides[i] = head_first ? parts[1 + i] : qf_onnx_swap_heads(call, parts[1 + i]);
        if (past[i].id) *sides[i] = qf_import_concat(qf_onnx_target(call), (qf_value[]){past[i], *sides[i]}, 2, 2);
        if (call->output_count > 1 + i) call->outputs[1 + i] = *sides[i];
    }
    if (call->import->failed) return QF_ONNX_FAILED;
    if (!head_scale(call, attention.q, &attention))
        return qf_onnx_decline(call, "its head size is not known, nor its scale");
    reason = read_mask(call, qf_onnx_in(call, MHA_MASK), qf_onnx_dim(call, attention.q, 0), &attention);
    if (reason) return qf_onnx_decline(call, reason);
    return qf_onnx_done(call, qf_onnx_merge_heads(call, qf_onnx_emit_attention(call, &attention)));
}

/* --- Attention: projections inside, past and present as [2, B, H, S, D] --- */
static qf_value half_of(qf_onnx_call *call, qf_value pair, uint32_t index) {
    qf_value half =
        qf_onnx_slice_axis(call, pair, 0, qf_onnx_constant(call, index), qf_onnx_constant(call, (int64_t)index + 1));
    if (!half.id) return half;
    qf_dim dims[4];
    for (int32_t i = 0; i < 4; i++) dims[i] = qf_onnx_dim(call, half, i + 1);
    return qf_import_view(qf_onnx_target(call), half, dims, 4);
}

static qf_value pair_of(qf_onnx_call *call, qf_value first, qf_value second) {
    qf_value halves[] = {first, second};
    for (uint32_t i = 0; i < 2; i++) {
        qf_dim dims[5] = {qf_onnx_constant(call, 1)};
        for (int32_t d = 0; d < 4; d++) dims[d + 1] = qf_onnx_dim(call, halves[i], d);
        halves[i] = qf_import_view(qf_onnx_target(call), halves[i], dims, 5);
    }
    return qf_import_concat(qf_onnx_target(call), halves, 2, 0);
}

qf_onnx_outcome qf_onnx_map_packed_attention(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), weights = qf_onnx_in(call, 1), bias = qf_onnx_in(call, 2),
             past = qf_onnx_in(call, 4), parts[3];
    int64_t heads = qf_onnx_int(call, "num_heads", 0), width, sizes[3];
    const int64_t *given;
    uint32_t count;
    if (qf_onnx_int(call, "do_rotary", 0) || qf_onnx_int(call, "past_present_share_buffer", 0) ||
        qf_onnx_in(call, 6).id)
        return qf_onnx_decline(call, "it rotates, or shares a buffer with its past");
    if (qf_onnx_rank(call, x) != 3 || qf_onnx_rank(call, weights) != 2 ||
        !qf_dim_is_constant(call->import->context, qf_onnx_dim(call, weights, 1), &width))
        return qf_onnx_decline(call, "the shape of its input or weights is unknown");
    for (uint32_t i = 0; i < 3; i++) sizes[i] = width / 3;
    if (qf_onnx_ints(call, "qkv_hidden_sizes", &given, &count) && count == 3)
        for (uint32_t i = 0; i < 3; i++) sizes[i] = given[i];
    if (sizes[0] + sizes[1] + sizes[2] != width)
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "Attention: weights of width %lld do not hold q, k and v",
                             (long long)width);
    qf_value projected = qf_import_contract(qf_onnx_target(call), "btk,kn->btn", x, weights);
    if (bias.id) projected = qf_import_binary(qf_onnx_target(call), QF_OP_add, projected, bias);
    if (!projected.id || !split_last(call, projected, sizes, 3, parts)) return QF_ONNX_FAILED;
    qf_onnx_attention attention = {.bias = qf_onnx_in(call, 5),
                                   .causal = qf_onnx_int(call, "unidirectional", 0) != 0,
                                   .window_left = -1,
                                   .window_right = -1};
    qf_value *sides[] = {&attention.q, &attention.k, &attention.v};
    for (uint32_t i = 0; i < 3; i++) {
        *sides[i] = qf_onnx_swap_heads(call, qf_onnx_split_heads(call, parts[i], heads));
        if (i && past.id)
            *sides[i] =
                qf_import_concat(qf_onnx_target(call), (qf_value[]){half_of(call, past, i - 1), *sides[i]}, 2, 2);
    }
    if (call->import->failed) return QF_ONNX_FAILED;
    if (call->output_count > 1) call->outputs[1] = pair_of(call, attention.k, attention.v);
    if (!head_scale(call, attention.q, &attention))
        return qf_onnx_decline(call, "its head size is not known, nor its scale");
    const char *reason = read_mask(call, qf_onnx_in(call, 3), qf_onnx_dim(call, x, 0), &attention);
    if (reason) return qf_onnx_decline(call, reason);
    return qf_onnx_done(call, qf_onnx_merge_heads(call, qf_onnx_emit_attention(call, &attention)));
}
