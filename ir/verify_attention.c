/* Owns: checks of attention, paged attention, cache writes and rotary embedding: heads, layouts, scales, caches.
 * Does not own: the shapes that spec/ops.def states, dtype sets (verify.def).
 * Next: verify_call.h, spec/ops.def. */
#include <inttypes.h>

#include "ir/verify_call.h"

/* Operand and attribute indices of the two attention ops, so that both share the checks that are the same. */
typedef struct attention_columns {
    uint32_t q, k, v, kv_lens, q_start, sinks, q_scale, k_scale, p_scale, v_scale;
    uint32_t scale, softcap, layout, p, p_dtype;
    qf_verify_output output;
} attention_columns;

#define COLUMNS_OF(op, k_name, v_name)                                                                                 \
    {                                                                                                                  \
        .q = QF_IN(op, q), .k = QF_IN(op, k_name), .v = QF_IN(op, v_name), .kv_lens = QF_IN(op, kv_lens),              \
        .q_start = QF_IN(op, q_start), .sinks = QF_IN(op, sinks), .q_scale = QF_IN(op, q_scale),                       \
        .k_scale = QF_IN(op, k_scale), .p_scale = QF_IN(op, p_scale), .v_scale = QF_IN(op, v_scale),                   \
        .scale = QF_ATTR(op, scale), .softcap = QF_ATTR(op, softcap), .layout = QF_ATTR(op, layout),                   \
        .p = QF_ATTR(op, p), .p_dtype = QF_ATTR(op, p_dtype), .output = {                                              \
            .out_scale = QF_IN(op, out_scale),                                                                         \
            .out = QF_ATTR(op, out),                                                                                   \
            .out_mode = QF_ATTR(op, out_mode),                                                                         \
            .out_compute = QF_ATTR(op, out_compute),                                                                   \
            .via = QF_ATTR(op, via)                                                                                    \
        }                                                                                                              \
    }

static const attention_columns dense = COLUMNS_OF(attention, k, v);
static const attention_columns paged = COLUMNS_OF(paged_attention, k_cache, v_cache);

/* Scales stand exactly where operands are FP8; a q that is not FP8 yet may carry the scale to quantise it with. */
static void check_scales(qf_verify_call *call, const attention_columns *at, qf_dim kv_heads) {
    qf_dtype q = qf_verify_dtype(call, at->q);
    if (qf_dtype_is_float8(q)) (void)qf_verify_scale_presence(call, at->q_scale, at->q);
    (void)qf_verify_scale_presence(call, at->k_scale, at->k);
    (void)qf_verify_scale_presence(call, at->v_scale, at->v);
    (void)qf_verify_scale(call, at->q_scale, kv_heads);
    (void)qf_verify_scale(call, at->k_scale, kv_heads);
    (void)qf_verify_scale(call, at->v_scale, kv_heads);
    (void)qf_verify_scale(call, at->p_scale, (qf_dim){0});
    bool graph = call->attributes[at->p].integer == QF_VALUE_graph;
    if (graph && !qf_verify_has(call, at->p_scale))
        qf_verify_fault(call, "attribute p is graph and needs the scale of the probabilities: give p_scale=...");
    if (!graph && qf_verify_has(call, at->p_scale))
        qf_verify_fault(call, "operand p_scale: a scale of the probabilities needs p=graph");
}

static void check_numbers(qf_verify_call *call, const attention_columns *at) {
    double scale = call->attributes[at->scale].number, softcap = call->attributes[at->softcap].number;
    if (scale - scale != 0) qf_verify_fault(call, "attribute scale: expected a finite number, found %g", scale);
    if (!(softcap >= 0) || softcap - softcap != 0)
        qf_verify_fault(call, "attribute softcap: expected 0 (none) or a positive finite number, found %g", softcap);
}

static bool check_layout(qf_verify_call *call, const attention_columns *at, int64_t first, int64_t second) {
    int64_t layout = call->attributes[at->layout].integer;
    if (layout == first || layout == second) return true;
    qf_verify_fault(call, "attribute layout: expected %s or %s, found %s", qf_enum_name(&qf_enum_layout, first),
                    qf_enum_name(&qf_enum_layout, second), qf_enum_name(&qf_enum_layout, layout));
    return false;
}

static void check_heads(qf_verify_call *call, const attention_columns *at, qf_dim heads, qf_dim kv_heads) {
    if (qf_verify_not_divisible(call, heads, kv_heads))
        qf_verify_fault(call,
                        "operands %s, %s: the query heads (%s) are no multiple of the KV heads (%s) of %s; check the "
                        "layout",
                        qf_verify_name(call, at->q), qf_verify_name(call, at->k), qf_verify_dim_text(call, heads).data,
                        qf_verify_dim_text(call, kv_heads).data,
                        qf_verify_type_text(call, qf_verify_type(call, at->k)).data);
    if (heads.id) (void)qf_verify_operand_dim(call, at->sinks, 0, heads, "one entry a query head");
}

/* bias and mask broadcast to [B, H, T, S]; packed queries have no common T. */
static void check_score_operand(qf_verify_call *call, uint32_t operand, const qf_dim scores[4]) {
    if (qf_verify_has(call, operand)) (void)qf_verify_broadcasts_to(call, operand, scores, 4, "the scores");
}

void qf_verify_attention(qf_verify_call *call) {
    qf_context *context = call->graph->context;
    const attention_columns *at = &dense;
    check_numbers(call, at);
    if (!check_layout(call, at, QF_VALUE_bhsd, QF_VALUE_bshd)) return;
    bool by_head = call->attributes[at->layout].integer == QF_VALUE_bhsd;
    int32_t head_axis = by_head ? 1 : 2, token_axis = by_head ? 2 : 1;
    uint32_t rank = qf_verify_rank(call, at->q);
    bool packed = rank == 3;
    qf_dim kv_heads = qf_verify_dim(call, at->k, head_axis), keys = qf_verify_dim(call, at->k, token_axis);
    qf_dim heads = rank == QF_UNRANKED ? (qf_dim){0} : qf_verify_dim(call, at->q, packed ? 1 : head_axis);
    qf_dim batch = qf_verify_dim(call, at->k, 0);
    if (rank != QF_UNRANKED && packed != qf_verify_has(call, at->q_start))
        qf_verify_fault(call, "operand q_start: %s",
                        packed ? "a packed q (rank 3) needs the first row of each sequence: give q_start=..."
                               : "expected none beside a q of rank 4; packed queries have rank 3");
    check_heads(call, at, heads, kv_heads);
    (void)qf_verify_operand_dim(call, at->v, 0, batch, "the batch of k");
    (void)qf_verify_operand_dim(call, at->v, head_axis, kv_heads, "the KV heads of k");
    (void)qf_verify_operand_dim(call, at->v, token_axis, keys, "the keys of k");
    (void)qf_verify_operand_dim(call, at->k, 3, qf_verify_dim(call, at->q, -1), "the head dim of q");
    if (rank == 4) (void)qf_verify_operand_dim(call, at->q, 0, batch, "the batch of k");
    (void)qf_verify_operand_dim(call, at->kv_lens, 0, batch, "one entry a sequence");
    if (batch.id)
        (void)qf_verify_operand_dim(call, at->q_start, 0, qf_dim_add_constant(context, batch, 1),
                                    "one entry a sequence and the end");
    const qf_dim scores[4] = {batch, heads, packed ? (qf_dim){0} : qf_verify_dim(call, at->q, token_axis), keys};
    check_score_operand(call, QF_IN(attention, bias), scores);
    check_score_operand(call, QF_IN(attention, mask), scores);
    check_scales(call, at, kv_heads);
    qf_verify_output_quantisation(call, &at->output);
}

/* Axes of a cache: [pages, page, heads, dim] (nhd) or [pages, heads, page, dim] (hnd). */
static int32_t cache_head_axis(int64_t layout) {
    return layout == QF_VALUE_nhd ? 2 : 1;
}

void qf_verify_paged_attention(qf_verify_call *call) {
    const attention_columns *at = &paged;
    check_numbers(call, at);
    if (!check_layout(call, at, QF_VALUE_nhd, QF_VALUE_hnd)) return;
    int32_t head_axis = cache_head_axis(call->attributes[at->layout].integer);
    qf_dim kv_heads = qf_verify_dim(call, at->k, head_axis), heads = qf_verify_dim(call, at->q, 1);
    qf_dim sequences = qf_verify_dim(call, QF_IN(paged_attention, block_table), 0);
    check_heads(call, at, heads, kv_heads);
    (void)qf_verify_operand_dim(call, at->v, 0, qf_verify_dim(call, at->k, 0), "the pages of k_cache");
    (void)qf_verify_operand_dim(call, at->v, 3 - head_axis, qf_verify_dim(call, at->k, 3 - head_axis),
                                "the page size of k_cache");
    (void)qf_verify_operand_dim(call, at->v, head_axis, kv_heads, "the KV heads of k_cache");
    (void)qf_verify_operand_dim(call, at->k, 3, qf_verify_dim(call, at->q, 2), "the head dim of q");
    (void)qf_verify_operand_dim(call, at->kv_lens, 0, sequences, "one entry a sequence of block_table");
    if (!qf_verify_has(call, at->q_start))
        (void)qf_verify_operand_dim(call, at->q, 0, sequences, "one row a sequence without q_start");
    else if (sequences.id)
        (void)qf_verify_operand_dim(call, at->q_start, 0, qf_dim_add_constant(call->graph->context, sequences, 1),
                                    "one entry a sequence and the end");
    check_scales(call, at, kv_heads);
    qf_verify_output_quantisation(call, &at->output);
}

/* One cache and the rows that go into it. */
static void check_cache(qf_verify_call *call, int64_t layout, uint32_t cache, uint32_t rows, uint32_t slots,
                        uint32_t scale) {
    int32_t head_axis = cache_head_axis(layout);
    qf_dim heads = qf_verify_dim(call, cache, head_axis);
    qf_dtype stored = qf_verify_dtype(call, cache), given = qf_verify_dtype(call, rows);
    (void)qf_verify_operand_dim(call, rows, 1, heads, "the KV heads of the cache; check the layout");
    (void)qf_verify_operand_dim(call, rows, 2, qf_verify_dim(call, cache, 3), "the head dim of the cache");
    (void)qf_verify_operand_dim(call, slots, 0, qf_verify_dim(call, rows, 0), "one slot a row");
    (void)qf_verify_scale(call, scale, heads);
    if (stored == QF_DTYPE_NONE || given == QF_DTYPE_NONE) return;
    bool quantises = qf_dtype_is_float8(stored) && !qf_dtype_is_float8(given);
    if (!quantises && stored != given)
        qf_verify_fault(call, "operand %s: expected %s, the element type of %s, found %s", qf_verify_name(call, rows),
                        qf_dtype_name(stored), qf_verify_name(call, cache),
                        qf_verify_type_text(call, qf_verify_type(call, rows)).data);
    else if (quantises && !qf_verify_has(call, scale))
        qf_verify_fault(call, "operand %s is %s and rows of %s need a scale: give %s=...", qf_verify_name(call, cache),
                        qf_dtype_name(stored), qf_dtype_name(given), qf_verify_name(call, scale));
    else if (!quantises && qf_verify_has(call, scale))
        qf_verify_fault(call, "operand %s: expected none; the rows already are %s like the cache",
                        qf_verify_name(call, scale), qf_dtype_name(stored));
}

static bool check_cache_layout(qf_verify_call *call, int64_t layout) {
    if (layout == QF_VALUE_nhd || layout == QF_VALUE_hnd) return true;
    qf_verify_fault(call, "attribute layout: expected nhd or hnd, found %s", qf_enum_name(&qf_enum_layout, layout));
    return false;
}

void qf_verify_kv_cache_write(qf_verify_call *call) {
    int64_t layout = QF_VERIFY_INTEGER(call, kv_cache_write, layout);
    if (check_cache_layout(call, layout))
        check_cache(call, layout, QF_IN(kv_cache_write, cache), QF_IN(kv_cache_write, new),
                    QF_IN(kv_cache_write, slots), QF_IN(kv_cache_write, scale));
}

/* rotary_dim 0 rotates whole heads; angles come in pairs. */
static void check_rotation(qf_verify_call *call, uint32_t x, uint32_t cos_sin, int64_t rotary_dim) {
    qf_context *context = call->graph->context;
    qf_dim head_dim = qf_verify_dim(call, x, -1);
    int64_t size;
    if (head_dim.id && qf_dim_is_constant(context, head_dim, &size) && rotary_dim > size)
        qf_verify_fault(call, "attribute rotary_dim: expected at most the head dim (%" PRId64 "), found %" PRId64, size,
                        rotary_dim);
    qf_dim rotated = rotary_dim ? qf_dim_constant(context, rotary_dim) : head_dim;
    if (qf_verify_not_divisible(call, rotated, qf_dim_constant(context, 2)))
        qf_verify_fault(call, "expected an even number of rotated elements, found %s",
                        qf_verify_dim_text(call, rotated).data);
    (void)qf_verify_operand_dim(call, cos_sin, -1, rotated, "the rotated elements (cos | sin halves)");
}

void qf_verify_rope(qf_verify_call *call) {
    check_rotation(call, QF_IN(rope, x), QF_IN(rope, cos_sin), QF_VERIFY_INTEGER(call, rope, rotary_dim));
    if (qf_verify_has(call, QF_IN(rope, positions))) (void)qf_verify_operand_rank(call, QF_IN(rope, cos_sin), 2, 2);
}

#define FUSED(name) QF_IN(rope_quantize_cache_write, name)

void qf_verify_rope_quantize_cache_write(qf_verify_call *call) {
    int64_t layout = QF_VERIFY_INTEGER(call, rope_quantize_cache_write, layout);
    qf_dtype q_dtype = (qf_dtype)QF_VERIFY_INTEGER(call, rope_quantize_cache_write, q_dtype);
    check_rotation(call, FUSED(q), FUSED(cos_sin), QF_VERIFY_INTEGER(call, rope_quantize_cache_write, rotary_dim));
    qf_dim rows = qf_verify_dim(call, FUSED(q), 0);
    (void)qf_verify_operand_dim(call, FUSED(k), 0, rows, "the rows of q");
    (void)qf_verify_operand_dim(call, FUSED(v), 0, rows, "the rows of q");
    (void)qf_verify_operand_dim(call, FUSED(k), 2, qf_verify_dim(call, FUSED(q), 2), "the head dim of q");
    (void)qf_verify_operand_dim(call, FUSED(positions), 0, rows, "the rows of q");
    if (!qf_class_holds(QF_CLASS_ATTENTION, q_dtype))
        qf_verify_fault(call, "attribute q_dtype: expected none, f32, f16, bf16 or an FP8 type, found %s",
                        qf_dtype_name(q_dtype));
    else if (qf_dtype_is_float8(q_dtype) != qf_verify_has(call, FUSED(q_scale)))
        qf_verify_fault(call, "operand q_scale: expected %s beside q_dtype=%s",
                        qf_dtype_is_float8(q_dtype) ? "a scale" : "none", qf_dtype_name(q_dtype));
    (void)qf_verify_scale(call, FUSED(q_scale), (qf_dim){0});
    if (!check_cache_layout(call, layout)) return;
    check_cache(call, layout, FUSED(k_cache), FUSED(k), FUSED(slots), FUSED(k_scale));
    check_cache(call, layout, FUSED(v_cache), FUSED(v), FUSED(slots), FUSED(v_scale));
}
