/* Owns: saying why an attention has no FP8 result: a walk from its result to what stands in the way.
 * Does not own: refusals of rules that matched (engine.c), the reasons (reasons.def).
 * Next: reasons.def. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "patterns/predicates.h"
#include "patterns/rules.h"

#define WALK_BUDGET 96 /* nodes looked at for one attention */

/* What was passed on the way from the attention. */
typedef struct path {
    bool scaled_by_vector, clamped, wrong_bounds, unreplayable;
    double low, high;
    qf_node scaling, cast; /* the first multiplication or division; the last conversion between floats */
    qf_node between;       /* the first op that is no part of any quantisation */
} path;

typedef struct walk {
    qf_graph *graph;
    qf_node attention;
    uint32_t budget;
    qf_reason reason;
    qf_node at;
    qf_string detail;
    bool fusible; /* a quantise that rules take: what they refused is the reason */
} walk;

static bool follow(walk *w, qf_value value, path way);

static bool found(walk *w, qf_reason reason, qf_node at) {
    w->reason = reason;
    w->at = at;
    return true;
}

/* A bounded search backward. */
static bool depends_on(const qf_graph *graph, qf_value value, qf_node wanted, uint32_t *budget) {
    qf_node producer = qf_value_producer(graph, value);
    if (!producer.id || qf_node_before(graph, producer, wanted)) return false;
    if (producer.id == wanted.id) return true;
    if (!*budget) return false;
    --*budget;
    const qf_node_data *data = qf_node_at(graph, producer);
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (depends_on(graph, data->operands[i].value, wanted, budget)) return true;
    return false;
}

static bool is_computed_from_output(const walk *w, qf_value scale) {
    uint32_t budget = WALK_BUDGET;
    return depends_on(w->graph, scale, w->attention, &budget);
}

static bool at_quantize(walk *w, qf_node node, path way) {
    const qf_graph *graph = w->graph;
    qf_dtype dtype = (qf_dtype)qf_node_attribute(graph, node, QF_ATTR(quantize, dtype))->integer;
    qf_value scale = qf_node_operand(graph, node, QF_IN(quantize, scale));
    if (!qf_dtype_is_float8(dtype)) return false;
    if (is_computed_from_output(w, scale)) return found(w, QF_REASON_dynamic_scale, node);
    if (way.between.id) return found(w, QF_REASON_op_between, way.between);
    double number;
    bool by_one =
        qf_value_uniform(graph, scale, &number) && number == 1.0; /* what scales the output stands before it */
    if (way.scaling.id && way.scaled_by_vector && by_one) return found(w, QF_REASON_scale_granularity, node);
    if (way.scaling.id) return found(w, QF_REASON_op_between, way.scaling); /* the quantise scales by itself */
    if (dtype != QF_F8E4M3FN && dtype != QF_F8E5M2) return found(w, QF_REASON_dtype, node);
    if (qf_node_attribute(graph, node, QF_ATTR(quantize, axis))->integer != -1 || !qf_value_is_scalar(graph, scale))
        return found(w, QF_REASON_scale_granularity, node);
    if (qf_node_operand(graph, node, QF_IN(quantize, zero_point)).id)
        return found(w, QF_REASON_unknown_attribute, node);
    if (!qf_node_attribute(graph, node, QF_ATTR(quantize, saturate))->integer)
        return found(w, QF_REASON_unsaturated, node);
    if (way.unreplayable) return found(w, QF_REASON_layout_between, node);
    w->fusible = true;
    return found(w, way.cast.id ? QF_REASON_numerics_class : QF_REASON_target, node);
}

static bool at_cast(walk *w, qf_node node, path way) {
    const qf_graph *graph = w->graph;
    qf_dtype dtype = (qf_dtype)qf_node_attribute(graph, node, QF_ATTR(cast, dtype))->integer;
    if (!qf_dtype_is_float8(dtype)) {
        way.cast = node;
        if (qf_dtype_bits(dtype) > 32 && !way.between.id) way.between = node;
        return qf_dtype_is_float(dtype) && follow(w, qf_node_result(graph, node, 0), way);
    }
    if (!way.scaling.id) return found(w, QF_REASON_no_scale, node);
    if (way.between.id) return found(w, QF_REASON_op_between, way.between);
    if (way.scaled_by_vector) return found(w, QF_REASON_scale_granularity, node);
    double largest = qf_dtype_largest(dtype);
    if (way.clamped && (way.wrong_bounds || way.low != -largest || way.high != largest)) {
        qf_buffer text = {.context = graph->context};
        qf_buffer_print(&text, "expected %g and %g, found ", -largest, largest);
        if (way.wrong_bounds)
            qf_buffer_text(&text, QF_TEXT("bounds that are no two constants"));
        else
            qf_buffer_print(&text, "%g and %g", way.low, way.high);
        if (text.data) w->detail = qf_intern(graph->context, (qf_text){text.data, text.size});
        qf_buffer_destroy(&text);
        return found(w, QF_REASON_clamp_bounds, node);
    }
    bool saturates = way.clamped || qf_node_attribute(graph, node, QF_ATTR(cast, saturate))->integer;
    if (!saturates) return found(w, QF_REASON_unsaturated, node);
    return way.cast.id ? found(w, QF_REASON_numerics_class, way.cast) : found(w, QF_REASON_layout_between, node);
}

static bool bound_of(const qf_graph *graph, qf_node node, uint32_t operand, double *out) {
    qf_value bound = qf_node_operand(graph, node, operand);
    return bound.id && qf_value_uniform(graph, bound, out);
}

/* minimum and maximum are one-sided clamps here; the other bound may come or have come elsewhere. */
static path clamp_path(const qf_graph *graph, qf_node node, path way) {
    double bound;
    if (!way.clamped) {
        way.low = -(double)INFINITY;
        way.high = (double)INFINITY;
    }
    way.clamped = true;
    switch (qf_node_op(graph, node)) {
    case QF_OP_clamp:
        if (bound_of(graph, node, QF_IN(clamp, low), &bound))
            way.low = bound;
        else if (qf_node_operand(graph, node, QF_IN(clamp, low)).id)
            way.wrong_bounds = true;
        if (bound_of(graph, node, QF_IN(clamp, high), &bound))
            way.high = bound;
        else if (qf_node_operand(graph, node, QF_IN(clamp, high)).id)
            way.wrong_bounds = true;
        return way;
    default:
        if (!bound_of(graph, node, 1, &bound) && !bound_of(graph, node, 0, &bound))
            way.wrong_bounds = true;
        else
            *(qf_node_op(graph, node) == QF_OP_minimum ? &way.high : &way.low) = bound;
        return way;
    }
}

/* An op that no quantisation has: it is the reason where a quantisation stands behind it. */
static bool at_elementwise(walk *w, qf_node node, path way) {
    qf_value result = qf_node_result(w->graph, node, 0);
    if (!qf_dtype_is_float(qf_value_dtype(w->graph, result))) return false;
    if (!way.between.id) way.between = node;
    return follow(w, result, way);
}

static bool at_scaling(walk *w, qf_node node, qf_value from, path way) {
    const qf_graph *graph = w->graph;
    qf_value a = qf_node_operand(graph, node, 0), b = qf_node_operand(graph, node, 1);
    qf_value scale = a.id == from.id ? b : a;
    bool divides_by = qf_node_op(graph, node) == QF_OP_div && a.id != from.id;
    bool gate = qf_value_type(graph, scale).id == qf_value_type(graph, from).id && !qf_value_is_scalar(graph, scale);
    if (way.scaling.id || divides_by || gate) return at_elementwise(w, node, way);
    way.scaling = node;
    way.scaled_by_vector = !qf_value_is_scalar(graph, scale);
    if (!follow(w, qf_node_result(graph, node, 0), way)) return false;
    return !is_computed_from_output(w, scale) || found(w, QF_REASON_dynamic_scale, node);
}

static bool at_user(walk *w, qf_node node, qf_value from, path way) {
    const qf_graph *graph = w->graph;
    qf_op op = qf_node_op(graph, node);
    if (!w->budget) return false;
    w->budget--;
    if (qf_op_is_replayable(op)) return follow(w, qf_node_result(graph, node, 0), way);
    switch (op) {
    case QF_OP_quantize: return at_quantize(w, node, way);
    case QF_OP_dynamic_quantize: return found(w, QF_REASON_dynamic_scale, node);
    case QF_OP_cast: return at_cast(w, node, way);
    case QF_OP_div:
    case QF_OP_mul: return at_scaling(w, node, from, way);
    case QF_OP_clamp:
    case QF_OP_minimum:
    case QF_OP_maximum: return follow(w, qf_node_result(graph, node, 0), clamp_path(graph, node, way));
    case QF_OP_concat:
    case QF_OP_split:
    case QF_OP_pad:
    case QF_OP_gather:
    case QF_OP_gather_elements:
    case QF_OP_gather_nd:
    case QF_OP_scatter_nd:
    case QF_OP_scatter_elements:
        way.unreplayable = true;
        for (uint32_t i = 0; i < qf_node_at(graph, node)->result_count; i++)
            if (follow(w, qf_node_result(graph, node, i), way)) return found(w, QF_REASON_layout_between, node);
        return false;
    case QF_OP_opaque: {
        bool pure = qf_node_attribute(graph, node, QF_ATTR(opaque, pure))->integer;
        for (uint32_t i = 0; i < qf_node_at(graph, node)->result_count; i++)
            if (follow(w, qf_node_result(graph, node, i), way))
                return found(w, pure ? QF_REASON_unknown_op : QF_REASON_effect_between, node);
        return false;
    }
    default: return qf_op_has_trait(op, QF_TRAIT_ELEMENTWISE) && at_elementwise(w, node, way);
    }
}

/* True where a quantise was reached; the reason then says what is wrong with it. */
static bool follow(walk *w, qf_value value, path way) {
    qf_node other = {0};
    bool output = false, reached = false;
    QF_FOR_EACH_USE(w->graph, value, use) {
        qf_op op = qf_node_op(w->graph, use->user);
        if (qf_op_has_trait(op, QF_TRAIT_SHAPE_ONLY)) continue;
        if (op == QF_OP_return)
            output = true;
        else if (!reached && at_user(w, use->user, value, way))
            reached = true;
        else
            other = use->user;
    }
    if (!reached) return false;
    bool told = w->reason == QF_REASON_dynamic_scale || w->reason == QF_REASON_op_between;
    if (output && !told) return found(w, QF_REASON_graph_output, qf_value_producer(w->graph, value));
    if (other.id && !told) return found(w, QF_REASON_other_users, other);
    return true;
}

static qf_string node_text(const qf_graph *graph, qf_node node) {
    if (qf_node_op(graph, node) == QF_OP_opaque) return qf_node_attribute(graph, node, QF_ATTR(opaque, name))->string;
    const qf_op_info *info = qf_op_info_of(qf_node_op(graph, node));
    return info ? qf_intern_c(graph->context, info->name) : (qf_string){0};
}

static bool report(qf_graph *graph, qf_report *record, uint64_t tag, qf_reason reason, qf_node at, qf_string detail) {
    qf_miss miss = {.reason = reason,
                    .tag = tag,
                    .node = at,
                    .node_text = node_text(graph, at),
                    .location = qf_node_at(graph, at)->location,
                    .detail = detail};
    return qf_report_miss(record, &miss);
}

/* Only for telling the user: an op of another library whose name says that it is attention. */
static bool named_attention(const qf_graph *graph, qf_node node) {
    qf_text name = qf_string_text(graph->context, qf_node_attribute(graph, node, QF_ATTR(opaque, name))->string);
    static const char *const words[] = {"attention", "fmha", "attn"};
    for (size_t i = 0; i < name.size; i++)
        for (size_t w = 0; w < QF_COUNT_OF(words); w++) {
            size_t length = strlen(words[w]), same = 0;
            while (same < length && i + same < name.size &&
                   tolower((unsigned char)name.data[i + same]) == words[w][same])
                same++;
            if (same == length) return true;
        }
    return false;
}

static bool tag_equal(const void *owner, uint32_t id, const void *key) {
    return ((const qf_report *)owner)->refusals[id - 1].tag == *(const uint64_t *)key;
}

/* The refusal of the rule that came closest, or NULL. */
static const qf_miss *refusal_of(const qf_report *record, const qf_index *tags, uint64_t tag) {
    uint32_t id = qf_index_find(tags, qf_hash_mix(13, tag), tag_equal, record, &tag);
    return id ? &record->refusals[id - 1] : NULL;
}

static bool explain(qf_graph *graph, qf_node node, qf_report *record, const qf_index *tags) {
    qf_op op = qf_node_op(graph, node);
    uint64_t tag = qf_node_at(graph, node)->tag;
    if (op == QF_OP_opaque && named_attention(graph, node))
        return report(graph, record, tag, QF_REASON_opaque_attention, node, (qf_string){0});
    if (op != QF_OP_attention && op != QF_OP_paged_attention) return true;
    qf_value out = qf_node_result(graph, node, 0);
    if (qf_dtype_is_float8(qf_value_dtype(graph, out))) return true;
    walk w = {.graph = graph, .attention = node, .budget = WALK_BUDGET, .reason = QF_REASON_no_quantise, .at = node};
    if (!follow(&w, out, (path){0})) {
        w.reason = QF_REASON_no_quantise;
        w.at = node;
    }
    const qf_miss *refusal = w.fusible ? refusal_of(record, tags, tag) : NULL;
    if (refusal && (w.reason == QF_REASON_target || w.reason == QF_REASON_numerics_class))
        return report(graph, record, tag, refusal->reason, refusal->node, refusal->detail);
    return report(graph, record, tag, w.reason, w.at, w.detail);
}

qf_status qf_explain_misses(qf_graph *graph, qf_report *record) {
    qf_index tags = {0};
    bool good = true;
    for (uint32_t i = 0; good && i < record->refusal_count; i++)
        if (!refusal_of(record, &tags, record->refusals[i].tag))
            good = qf_index_add(graph->context, &tags, qf_hash_mix(13, record->refusals[i].tag), i + 1);
    QF_FOR_EACH_NODE(graph, node) good = good && explain(graph, node, record, &tags);
    qf_index_destroy(graph->context, &tags);
    return good ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}
