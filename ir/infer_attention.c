/* Owns: shape rules of attention, paged attention, cache writes and rotary embedding.
 * Does not own: presence and granularity of scales, attribute ranges (verify.h), what the ops compute (spec/ops.def).
 * Next: infer_rules.h. */
#include <inttypes.h>
#include <string.h>

#include "ir/infer_rules.h"

/* The extents that operands of an attention share, named as in spec/ops.def. 0 = not known. */
typedef struct extents {
    qf_dim batch, heads, groups, rows, keys, depth, out_depth;
} extents;

/* Where an extent stands in an operand: the first occurrence sets it, later ones agree with it. */
static qf_status bind(const qf_infer_call *call, uint32_t operand, uint32_t axis, const char *what, qf_dim *extent) {
    qf_dim found = infer_dims(call, operand)[axis];
    if (!extent->id) *extent = found;
    return infer_agree(call, operand, what, *extent, found, extent);
}

/* Query heads are a whole multiple of KV heads; a symbol is believed. */
static qf_status expect_heads(const qf_infer_call *call, const extents *e) {
    int64_t heads, groups;
    qf_context *context = call->graph->context;
    if (!e->heads.id || !e->groups.id || !qf_dim_is_constant(context, e->heads, &heads) ||
        !qf_dim_is_constant(context, e->groups, &groups))
        return QF_OK;
    if (groups > 0 && heads % groups == 0) return QF_OK;
    return infer_operand_fault(call, 0, "a head count that is a multiple of %" PRId64 " KV heads, found %" PRId64,
                               groups, heads);
}

static qf_status expect_vector(const qf_infer_call *call, uint32_t operand, qf_dtype dtype, const char *what,
                               qf_dim length) {
    INFER_TRY(infer_expect_dtype(call, operand, dtype));
    INFER_TRY(infer_expect_rank(call, operand, 1, 1));
    if (!infer_ranked(call, operand) || !length.id) return QF_OK;
    return infer_agree(call, operand, what, length, infer_dims(call, operand)[0], NULL);
}

/* out: given, or q's, or f32 where q is FP8. */
static qf_status attention_dtype(const qf_infer_call *call, uint32_t attribute, qf_dtype *out) {
    *out = (qf_dtype)call->attributes[attribute].integer;
    if (*out == QF_DTYPE_NONE) *out = qf_dtype_is_float8(infer_dtype(call, 0)) ? QF_F32 : infer_dtype(call, 0);
    if (*out == QF_DTYPE_NONE || qf_dtype_is_float(*out)) return QF_OK;
    return infer_fault(call, "attribute out is %s, expected a floating-point element type", qf_dtype_name(*out));
}

/* bias and mask broadcast to [B, H, T, S]; of packed rows only the last axis is known. */
static qf_status expect_score_operand(const qf_infer_call *call, uint32_t operand, const extents *e, bool packed) {
    qf_dim scores[4] = {e->batch, e->heads, e->rows, e->keys};
    if (!infer_ranked(call, operand)) return QF_OK;
    INFER_TRY(infer_expect_rank(call, operand, 0, 4));
    uint32_t rank = infer_rank(call, operand);
    if (!packed && e->batch.id && e->heads.id && e->rows.id && e->keys.id)
        return infer_broadcasts_to(call, operand, scores, 4);
    if (!rank || !e->keys.id || qf_dim_is(call->graph->context, infer_dims(call, operand)[rank - 1], 1)) return QF_OK;
    return infer_agree(call, operand, "keys", e->keys, infer_dims(call, operand)[rank - 1], NULL);
}

static qf_status bind_attention(const qf_infer_call *call, bool rows_first, bool packed, extents *e) {
    const uint32_t q = QF_IN(attention, q), k = QF_IN(attention, k), v = QF_IN(attention, v);
    const uint32_t head_axis = rows_first ? 2 : 1, row_axis = rows_first ? 1 : 2;
    if (infer_ranked(call, q)) {
        INFER_TRY(infer_expect_rank(call, q, packed ? 3 : 4, packed ? 3 : 4));
        e->heads = infer_dims(call, q)[packed ? 1 : head_axis];
        e->rows = infer_dims(call, q)[packed ? 0 : row_axis];
        e->depth = infer_dims(call, q)[packed ? 2 : 3];
        if (!packed) e->batch = infer_dims(call, q)[0];
    }
    INFER_TRY(infer_expect_rank(call, k, 4, 4));
    INFER_TRY(infer_expect_rank(call, v, 4, 4));
    if (infer_ranked(call, k)) {
        INFER_TRY(bind(call, k, 0, "sequences", &e->batch));
        INFER_TRY(bind(call, k, head_axis, "KV heads", &e->groups));
        INFER_TRY(bind(call, k, row_axis, "keys", &e->keys));
        INFER_TRY(bind(call, k, 3, "elements a head", &e->depth));
    }
    if (infer_ranked(call, v)) {
        INFER_TRY(bind(call, v, 0, "sequences", &e->batch));
        INFER_TRY(bind(call, v, head_axis, "KV heads", &e->groups));
        INFER_TRY(bind(call, v, row_axis, "keys", &e->keys));
        e->out_depth = infer_dims(call, v)[3];
    }
    return expect_heads(call, e);
}

/* out has q's shape with v's head dim; lse has one number a head and row. */
static qf_status set_attention_results(const qf_infer_call *call, const extents *e, qf_dtype dtype, bool rows_first,
                                       bool packed) {
    const uint32_t out = QF_OUT(attention, out), lse = QF_OUT(attention, lse);
    if (!infer_ranked(call, 0) || !e->out_depth.id) {
        INFER_TRY(infer_set_unranked(call, out, dtype));
        return infer_set_unranked(call, lse, QF_F32);
    }
    qf_dim dims[4];
    uint32_t rank = infer_rank(call, 0);
    memcpy(dims, infer_dims(call, 0), rank * sizeof *dims);
    dims[rank - 1] = e->out_depth;
    INFER_TRY(infer_set(call, out, dtype, dims, rank));
    if (!packed && rows_first) {
        dims[1] = e->heads;
        dims[2] = e->rows;
    }
    return infer_set(call, lse, QF_F32, dims, rank - 1);
}

qf_status qf_infer_attention(qf_infer_call *call) {
    extents e = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
    int64_t layout = call->attributes[QF_ATTR(attention, layout)].integer;
    bool packed = infer_has(call, QF_IN(attention, q_start)), rows_first = layout == QF_VALUE_bshd;
    qf_dtype dtype;
    if (layout != QF_VALUE_bhsd && layout != QF_VALUE_bshd)
        return infer_fault(call, "attribute layout is %s, expected bhsd or bshd",
                           qf_enum_name(&qf_enum_layout, layout));
    INFER_TRY(attention_dtype(call, QF_ATTR(attention, out), &dtype));
    INFER_TRY(bind_attention(call, rows_first, packed, &e));
    INFER_TRY(infer_expect_dtype(call, QF_IN(attention, mask), QF_I1));
    INFER_TRY(expect_score_operand(call, QF_IN(attention, mask), &e, packed));
    INFER_TRY(expect_score_operand(call, QF_IN(attention, bias), &e, packed));
    INFER_TRY(expect_vector(call, QF_IN(attention, kv_lens), QF_I32, "lengths", e.batch));
    qf_dim starts = e.batch.id ? qf_dim_add_constant(call->graph->context, e.batch, 1) : e.batch;
    INFER_TRY(expect_vector(call, QF_IN(attention, q_start), QF_I32, "starts", starts));
    INFER_TRY(expect_vector(call, QF_IN(attention, sinks), QF_F32, "sinks", e.heads));
    INFER_TRY(infer_one_scale(call, QF_IN(attention, p_scale)));
    INFER_TRY(infer_one_scale(call, QF_IN(attention, out_scale)));
    return set_attention_results(call, &e, dtype, rows_first, packed);
}

/* Both caches: [pages, page, G, D] or [pages, G, page, D]. */
static qf_status bind_caches(const qf_infer_call *call, uint32_t k, uint32_t v, int64_t layout, extents *e) {
    qf_dim pages = {0}, page = {0};
    if (layout != QF_VALUE_nhd && layout != QF_VALUE_hnd)
        return infer_fault(call, "attribute layout is %s, expected nhd or hnd", qf_enum_name(&qf_enum_layout, layout));
    const uint32_t head_axis = layout == QF_VALUE_nhd ? 2 : 1;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t cache = i ? v : k;
        INFER_TRY(infer_expect_rank(call, cache, 4, 4));
        if (!infer_ranked(call, cache)) continue;
        INFER_TRY(bind(call, cache, 0, "pages", &pages));
        INFER_TRY(bind(call, cache, 3 - head_axis, "slots a page", &page));
        INFER_TRY(bind(call, cache, head_axis, "KV heads", &e->groups));
        INFER_TRY(bind(call, cache, 3, "elements a head", i ? &e->out_depth : &e->depth));
    }
    return QF_OK;
}

qf_status qf_infer_paged_attention(qf_infer_call *call) {
    const uint32_t q = QF_IN(paged_attention, q), table = QF_IN(paged_attention, block_table);
    extents e = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
    qf_dtype dtype;
    INFER_TRY(attention_dtype(call, QF_ATTR(paged_attention, out), &dtype));
    INFER_TRY(infer_expect_rank(call, q, 3, 3));
    if (infer_ranked(call, q)) {
        e.rows = infer_dims(call, q)[0];
        e.heads = infer_dims(call, q)[1];
        e.depth = infer_dims(call, q)[2];
    }
    INFER_TRY(bind_caches(call, QF_IN(paged_attention, k_cache), QF_IN(paged_attention, v_cache),
                          call->attributes[QF_ATTR(paged_attention, layout)].integer, &e));
    INFER_TRY(expect_heads(call, &e));
    INFER_TRY(infer_expect_dtype(call, table, QF_I32));
    INFER_TRY(infer_expect_rank(call, table, 2, 2));
    if (infer_ranked(call, table)) e.batch = infer_dims(call, table)[0];
    INFER_TRY(expect_vector(call, QF_IN(paged_attention, kv_lens), QF_I32, "lengths", e.batch));
    if (infer_has(call, QF_IN(paged_attention, q_start))) {
        qf_dim starts = e.batch.id ? qf_dim_add_constant(call->graph->context, e.batch, 1) : e.batch;
        INFER_TRY(expect_vector(call, QF_IN(paged_attention, q_start), QF_I32, "starts", starts));
    } else if (e.rows.id && e.batch.id) {
        INFER_TRY(infer_agree(call, q, "rows, one a sequence,", e.batch, e.rows, NULL));
    }
    INFER_TRY(expect_vector(call, QF_IN(paged_attention, sinks), QF_F32, "sinks", e.heads));
    INFER_TRY(infer_one_scale(call, QF_IN(paged_attention, p_scale)));
    INFER_TRY(infer_one_scale(call, QF_IN(paged_attention, out_scale)));
    return set_attention_results(call, &e, dtype, true, true);
}

qf_status qf_infer_kv_cache_write(qf_infer_call *call) {
    const uint32_t cache = QF_IN(kv_cache_write, cache), new = QF_IN(kv_cache_write, new);
    int64_t layout = call->attributes[QF_ATTR(kv_cache_write, layout)].integer;
    extents e = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
    INFER_TRY(bind_caches(call, cache, cache, layout, &e));
    INFER_TRY(infer_expect_rank(call, new, 3, 3));
    qf_dim rows = {0};
    if (infer_ranked(call, new)) {
        rows = infer_dims(call, new)[0];
        INFER_TRY(bind(call, new, 1, "KV heads", &e.groups));
        INFER_TRY(bind(call, new, 2, "elements a head", &e.depth));
    }
    INFER_TRY(infer_expect_rank(call, QF_IN(kv_cache_write, slots), 1, 1));
    if (infer_ranked(call, QF_IN(kv_cache_write, slots)) && rows.id)
        INFER_TRY(infer_agree_axis(call, QF_IN(kv_cache_write, slots), 0, rows));
    return infer_set_like(call, 0, infer_dtype(call, cache), cache);
}

/* The rotated part of a head: an even count of at most all elements. */
static qf_status rotary_extent(const qf_infer_call *call, uint32_t operand, int64_t rotary_dim, qf_dim head,
                               qf_dim *out) {
    int64_t size;
    *out = rotary_dim ? infer_constant(call, rotary_dim) : head;
    bool known = qf_dim_is_constant(call->graph->context, head, &size);
    if (rotary_dim < 0 || rotary_dim % 2 || (known && (rotary_dim > size || (!rotary_dim && size % 2))))
        return infer_operand_fault(call, operand,
                                   "an even count of rotated elements, at most all of a head; rotary_dim is %" PRId64,
                                   rotary_dim);
    return QF_OK;
}

qf_status qf_infer_rope(qf_infer_call *call) {
    const uint32_t table = QF_IN(rope, cos_sin), positions = QF_IN(rope, positions);
    qf_dim rotary;
    INFER_TRY(infer_expect_rank(call, 0, 3, QF_MAX_RANK));
    if (infer_ranked(call, 0) && infer_ranked(call, table)) {
        uint32_t rank = infer_rank(call, 0), table_rank = infer_rank(call, table);
        const qf_dim *dims = infer_dims(call, 0);
        INFER_TRY(rotary_extent(call, 0, call->attributes[QF_ATTR(rope, rotary_dim)].integer, dims[rank - 1], &rotary));
        if (infer_has(call, positions)) {
            INFER_TRY(infer_expect_rank(call, table, 2, 2));
            INFER_TRY(infer_broadcasts_to(call, positions, dims, rank - 2));
        } else {
            INFER_TRY(infer_expect_rank(call, table, 2, rank - 1));
            for (uint32_t i = 0; i + 1 < table_rank; i++)
                if (!qf_dim_is(call->graph->context, infer_dims(call, table)[i], 1))
                    INFER_TRY(infer_agree_axis(call, table, i, dims[rank - 1 - table_rank + i]));
        }
        INFER_TRY(infer_agree(call, table, "elements on the last axis", rotary, infer_dims(call, table)[table_rank - 1],
                              NULL));
    }
    return infer_set_like(call, 0, infer_dtype(call, 0), 0);
}

qf_status qf_infer_rope_quantize_cache_write(qf_infer_call *call) {
    const uint32_t q = QF_IN(rope_quantize_cache_write, q), k = QF_IN(rope_quantize_cache_write, k);
    const uint32_t v = QF_IN(rope_quantize_cache_write, v), table = QF_IN(rope_quantize_cache_write, cos_sin);
    const uint32_t k_cache = QF_IN(rope_quantize_cache_write, k_cache),
                   v_cache = QF_IN(rope_quantize_cache_write, v_cache);
    extents e = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
    INFER_TRY(
        bind_caches(call, k_cache, v_cache, call->attributes[QF_ATTR(rope_quantize_cache_write, layout)].integer, &e));
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t operand = i == 0 ? q : i == 1 ? k : v;
        INFER_TRY(infer_expect_rank(call, operand, 3, 3));
        if (!infer_ranked(call, operand)) continue;
        INFER_TRY(bind(call, operand, 0, "rows", &e.rows));
        INFER_TRY(bind(call, operand, 1, i ? "KV heads" : "query heads", i ? &e.groups : &e.heads));
        INFER_TRY(bind(call, operand, 2, "elements a head", operand == v ? &e.out_depth : &e.depth));
    }
    INFER_TRY(expect_heads(call, &e));
    INFER_TRY(infer_expect_rank(call, table, 2, 2));
    if (e.depth.id && infer_ranked(call, table)) {
        qf_dim rotary;
        int64_t rotary_dim = call->attributes[QF_ATTR(rope_quantize_cache_write, rotary_dim)].integer;
        INFER_TRY(rotary_extent(call, q, rotary_dim, e.depth, &rotary));
        INFER_TRY(infer_agree_axis(call, table, 1, rotary));
    }
    for (uint32_t operand = QF_IN(rope_quantize_cache_write, positions);
         operand <= QF_IN(rope_quantize_cache_write, slots); operand++) {
        INFER_TRY(infer_expect_rank(call, operand, 1, 1));
        if (infer_ranked(call, operand) && e.rows.id) INFER_TRY(infer_agree_axis(call, operand, 0, e.rows));
    }
    INFER_TRY(infer_one_scale(call, QF_IN(rope_quantize_cache_write, q_scale)));
    qf_dtype q_dtype = (qf_dtype)call->attributes[QF_ATTR(rope_quantize_cache_write, q_dtype)].integer;
    if (q_dtype == QF_DTYPE_NONE) q_dtype = infer_dtype(call, q);
    INFER_TRY(infer_set_like(call, QF_OUT(rope_quantize_cache_write, q_out), q_dtype, q));
    INFER_TRY(
        infer_set_like(call, QF_OUT(rope_quantize_cache_write, k_cache_out), infer_dtype(call, k_cache), k_cache));
    return infer_set_like(call, QF_OUT(rope_quantize_cache_write, v_cache_out), infer_dtype(call, v_cache), v_cache);
}
