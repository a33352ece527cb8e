/* Owns: the rewrite: canonical q, k, v, bias, mask and sinks, the attention node, the layout back to the labels of the
 * result. Does not own: the decision (attention.c), single nodes (arrange.c). Next: refine.c. */
#include <string.h>

#include "patterns/candidate.h"
#include "patterns/predicates.h"

#define OPERANDS (QF_IN(attention, out_scale) + 1)

/* --- operands --- */

/* The tensor before it is arranged: computed again behind a broadcast, or selected from a packed FP8 tensor. */
static qf_value traced_value(qf_emitter *emitter, const qf_traced *operand) {
    qf_graph *graph = emitter->graph;
    qf_value value = operand->packed.id ? operand->packed : operand->value;
    for (uint32_t i = 0; i < operand->again_count; i++) value = qf_emit_again(emitter, operand->again[i], 0, value);
    for (uint32_t i = 0; i < operand->selection_count; i++) {
        qf_value selected = operand->selections[i];
        value = qf_emit_again(emitter, qf_value_producer(graph, selected), qf_value_at(graph, selected)->result_index,
                              value);
    }
    return value;
}

static qf_value scale_operand(qf_emitter *emitter, const qf_traced *operand, bool multiply) {
    qf_graph *graph = emitter->graph;
    qf_value scale = operand->scale;
    if (operand->scale_axis < 0) scale = qf_emit_view(emitter, scale, NULL, 0);
    if (!multiply || operand->multiplier == 1.0 || !scale.id) return scale;
    return qf_emit_binary(emitter, QF_OP_mul, scale,
                          qf_emit_scalar(emitter, qf_value_dtype(graph, scale), operand->multiplier),
                          qf_value_dims(graph, scale), qf_value_rank(graph, scale));
}

qf_value qf_build_operand(qf_emitter *emitter, const qf_traced *operand, const qf_axes *target, bool multiply_scale,
                          qf_value *out_scale) {
    *out_scale = (qf_value){0};
    if (operand->scale.id) {
        *out_scale = scale_operand(emitter, operand, multiply_scale);
        if (!out_scale->id) return (qf_value){0};
    }
    return qf_arrange(emitter, traced_value(emitter, operand), &operand->axes, target, true);
}

/* --- bias and mask --- */

static bool is_one(const qf_graph *graph, qf_dim dim) {
    return qf_dim_is(graph->context, dim, 1);
}

/* op(a, b) of two tensors of rank 4 that broadcast. */
static qf_value join(qf_emitter *emitter, qf_op op, qf_value a, qf_value b) {
    qf_graph *graph = emitter->graph;
    qf_dim dims[4];
    if (!a.id || !b.id) return (qf_value){0};
    for (uint32_t i = 0; i < 4; i++) {
        qf_dim x = qf_value_dims(graph, a)[i], y = qf_value_dims(graph, b)[i];
        dims[i] = is_one(graph, x) ? y : x;
    }
    return qf_emit_binary(emitter, op, a, b, dims, 4);
}

/* where(condition, inner, fill) in f32, sides exchanged unless the condition keeps; inner 0 without a value. */
static qf_value select_over(qf_emitter *emitter, const qf_bias_term *bias, qf_value condition, qf_value inner) {
    qf_graph *graph = emitter->graph;
    qf_dim dims[4];
    condition = qf_emit_cast(emitter, condition, QF_I1);
    inner = inner.id ? qf_emit_cast(emitter, inner, QF_F32) : qf_emit_scalar(emitter, QF_F32, 0.0);
    qf_value fill = qf_emit_scalar(emitter, QF_F32, bias->fill);
    if (!condition.id || !inner.id || !fill.id) return (qf_value){0};
    bool spreads = qf_value_rank(graph, inner) == 4;
    for (uint32_t i = 0; i < 4; i++) {
        dims[i] = qf_value_dims(graph, condition)[i];
        if (spreads && is_one(graph, dims[i])) dims[i] = qf_value_dims(graph, inner)[i];
    }
    qf_value operands[3] = {condition, bias->keep_if_true ? inner : fill, bias->keep_if_true ? fill : inner};
    qf_type type = qf_type_tensor(graph->context, QF_F32, dims, 4);
    qf_node_spec spec = {.op = QF_OP_where,
                         .operands = operands,
                         .operand_count = 3,
                         .result_count = 1,
                         .result_types = &type,
                         .location = emitter->location};
    qf_node node = type.id ? qf_graph_insert(graph, emitter->before, &spec) : (qf_node){0};
    return node.id ? qf_node_result(graph, node, 0) : (qf_value){0};
}

static qf_value add_over(qf_emitter *emitter, const qf_bias_term *bias, qf_value value, qf_value inner) {
    qf_graph *graph = emitter->graph;
    if (value.id && bias->factor != 1.0)
        value = qf_emit_binary(emitter, QF_OP_mul, value,
                               qf_emit_scalar(emitter, qf_value_dtype(graph, value), bias->factor),
                               qf_value_dims(graph, value), 4);
    if (value.id && bias->floor != 0.0)
        value = qf_emit_binary(emitter, QF_OP_maximum, value,
                               qf_emit_scalar(emitter, qf_value_dtype(graph, value), bias->floor),
                               qf_value_dims(graph, value), 4);
    if (!value.id || !inner.id) return value;
    if (qf_value_dtype(graph, value) != qf_value_dtype(graph, inner)) {
        value = qf_emit_cast(emitter, value, QF_F32);
        inner = qf_emit_cast(emitter, inner, QF_F32);
    }
    return join(emitter, QF_OP_add, inner, value);
}

/* The innermost bias first, as a select replaces what is under it; those of one depth in their order. */
static void order_biases(const qf_masks *masks, const qf_bias_term **out) {
    for (uint32_t i = 0; i < masks->bias_count; i++) {
        uint32_t at = i;
        for (; at > 0 && out[at - 1]->depth < masks->biases[i].depth; at--) out[at] = out[at - 1];
        out[at] = &masks->biases[i];
    }
}

/* False on failure; *out 0 without biases. */
bool qf_build_bias(qf_candidate *c, qf_emitter *emitter, const qf_axes *scores, qf_value *out) {
    const qf_bias_term *ordered[QF_MAX_MASK_TERMS];
    order_biases(&c->masks, ordered);
    *out = (qf_value){0};
    for (uint32_t i = 0; i < c->masks.bias_count; i++) {
        const qf_bias_term *bias = ordered[i];
        qf_value value = qf_arrange(emitter, bias->value, &bias->axes, scores, false);
        *out = bias->is_condition ? select_over(emitter, bias, value, *out) : add_over(emitter, bias, value, *out);
        if (!out->id) return false;
    }
    return true;
}

bool qf_build_mask(qf_candidate *c, qf_emitter *emitter, const qf_axes *scores, qf_value *out) {
    *out = (qf_value){0};
    for (uint32_t i = 0; i < c->masks.term_count; i++) {
        const qf_mask_term *term = &c->masks.terms[i];
        qf_value value = qf_arrange(emitter, term->value, &term->axes, scores, false);
        value = qf_emit_cast(emitter, value, QF_I1);
        if (term->negated) value = qf_emit_unary(emitter, QF_OP_not, value);
        *out = out->id ? join(emitter, QF_OP_and, *out, value) : value;
        if (!out->id) return false;
    }
    return true;
}

/* --- the node --- */

/* What the attention computes in the absence of `out`. */
static qf_dtype default_result_dtype(qf_dtype q) {
    return qf_dtype_is_float8(q) ? QF_F32 : q;
}

/* q, k and v that are not FP8 get one dtype, the widest of them. */
static bool unify_dtypes(qf_emitter *emitter, qf_value *operands) {
    qf_graph *graph = emitter->graph;
    qf_dtype widest = QF_DTYPE_NONE;
    for (uint32_t i = 0; i < 3; i++) {
        qf_dtype dtype = qf_value_dtype(graph, operands[i]);
        if (qf_dtype_is_float8(dtype)) continue;
        if (widest == QF_DTYPE_NONE || qf_dtype_bits(dtype) > qf_dtype_bits(widest))
            widest = dtype;
        else if (dtype != widest && qf_dtype_bits(dtype) == qf_dtype_bits(widest))
            widest = QF_F32; /* f16 and bf16 */
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (qf_dtype_is_float8(qf_value_dtype(graph, operands[i]))) continue;
        operands[i] = qf_emit_cast(emitter, operands[i], widest);
        if (!operands[i].id) return false;
    }
    return true;
}

static void fill_attributes(const qf_candidate *c, qf_graph *graph, qf_dtype q, qf_attribute *attributes) {
    qf_dtype result = qf_value_dtype(graph, c->result);
    qf_attributes_default(graph, QF_OP_attention, attributes);
    attributes[QF_ATTR(attention, scale)].number = c->scale;
    attributes[QF_ATTR(attention, softcap)].number = c->softcap;
    attributes[QF_ATTR(attention, causal)].integer = c->masks.causal;
    attributes[QF_ATTR(attention, align)].integer = c->masks.top_left ? QF_VALUE_top_left : QF_VALUE_bottom_right;
    attributes[QF_ATTR(attention, window_left)].integer = c->masks.window_left;
    attributes[QF_ATTR(attention, window_right)].integer = c->masks.window_right;
    bool zero = c->probabilities.guarded || c->masks.rows_keep_a_key || c->has_sinks; /* the sink takes it all */
    attributes[QF_ATTR(attention, empty_row)].integer = zero ? QF_VALUE_zero : QF_VALUE_nan;
    if (result != default_result_dtype(q)) attributes[QF_ATTR(attention, out)].integer = result;
    if (c->probabilities.pair.dequantize.id) {
        attributes[QF_ATTR(attention, p)].integer = QF_VALUE_graph;
        attributes[QF_ATTR(attention, p_dtype)].integer = c->probabilities.pair.dtype;
    }
}

/* FP8 that the graph reads as numbers has a scale of one. */
static bool complete_scales(qf_emitter *emitter, qf_value *operands) {
    static const uint32_t pairs[][2] = {{QF_IN(attention, q), QF_IN(attention, q_scale)},
                                        {QF_IN(attention, k), QF_IN(attention, k_scale)},
                                        {QF_IN(attention, v), QF_IN(attention, v_scale)}};
    for (size_t i = 0; i < QF_COUNT_OF(pairs); i++) {
        qf_value *scale = &operands[pairs[i][1]];
        if (scale->id || !qf_dtype_is_float8(qf_value_dtype(emitter->graph, operands[pairs[i][0]]))) continue;
        *scale = qf_emit_scalar(emitter, QF_F32, 1.0);
        if (!scale->id) return false;
    }
    return true;
}

/* A number that the scale of FP8 keys can take, in f32. */
static bool scales_keys(const qf_candidate *c, const qf_emitter *emitter, uint32_t index, const qf_value *operands) {
    const qf_axes *axes = &c->scales[index].axes;
    for (uint32_t i = 0; i < axes->rank; i++)
        if (axes->axis[i].count) return false;
    qf_value k_scale = operands[QF_IN(attention, k_scale)];
    return k_scale.id && qf_value_is_scalar(emitter->graph, k_scale) &&
           qf_dtype_is_float8(qf_value_dtype(emitter->graph, operands[QF_IN(attention, k)]));
}

/* q times a tensor that scales the scores, in f32 where that is of another type: 16 bits may not hold it. */
static qf_value scale_query(qf_candidate *c, qf_emitter *emitter, uint32_t index, qf_value q, const qf_axes *q_axes) {
    qf_graph *graph = emitter->graph;
    qf_axes rows = *q_axes;
    rows.axis[3] = (qf_axis){0};
    qf_value factor = qf_arrange(emitter, c->scales[index].value, &c->scales[index].axes, &rows, false);
    if (!factor.id || !q.id) return (qf_value){0};
    if (qf_value_dtype(graph, factor) != qf_value_dtype(graph, q)) {
        q = qf_emit_cast(emitter, q, QF_F32);
        factor = qf_emit_cast(emitter, factor, QF_F32);
        if (!factor.id || !q.id) return (qf_value){0};
    }
    return qf_emit_binary(emitter, c->scales[index].divides ? QF_OP_div : QF_OP_mul, q, factor, qf_value_dims(graph, q),
                          4);
}

/* The tensors that scale the scores, taken to the scale of an FP8 q or k, or else to q. */
static bool build_score_scales(qf_candidate *c, qf_emitter *emitter, const qf_axes *q_axes, qf_value *operands) {
    qf_value *q = &operands[QF_IN(attention, q)], *q_scale = &operands[QF_IN(attention, q_scale)],
             *k_scale = &operands[QF_IN(attention, k_scale)];
    bool codes = qf_dtype_is_float8(qf_value_dtype(emitter->graph, *q));
    for (uint32_t i = 0; i < c->scale_count; i++) {
        qf_op op = c->scales[i].divides ? QF_OP_div : QF_OP_mul;
        qf_value *changed = codes ? q_scale : scales_keys(c, emitter, i, operands) ? k_scale : q;
        *changed = changed == q ? scale_query(c, emitter, i, *q, q_axes)
                                : qf_emit_scaled(emitter, op, *changed, c->scales[i].value);
        if (!changed->id) return false;
    }
    return true;
}

/* The attention multiplies by it; where the graph did not, v's scale is divided by it. */
static bool build_probability_scale(qf_candidate *c, qf_emitter *emitter, qf_value *operands) {
    const qf_probabilities *p = &c->probabilities;
    qf_value *v_scale = &operands[QF_IN(attention, v_scale)];
    if (!p->pair.dequantize.id) return true;
    qf_value scale = p->pair.scale.id ? qf_emit_view(emitter, p->pair.scale, NULL, 0)
                                      : qf_emit_scalar(emitter, QF_F32, p->code_scale);
    operands[QF_IN(attention, p_scale)] = scale;
    if (!scale.id) return false;
    if (p->codes && p->pair.scale.id) *v_scale = qf_emit_scaled(emitter, QF_OP_div, *v_scale, scale);
    return !p->codes || !p->pair.scale.id || v_scale->id;
}

static bool build_operands(qf_candidate *c, qf_emitter *emitter, const qf_axes *q_axes, const qf_axes *k_axes,
                           const qf_axes *v_axes, qf_value *operands) {
    qf_axes scores = {.rank = 4, .axis = {q_axes->axis[0], q_axes->axis[1], q_axes->axis[2], c->roles.keys}};
    operands[QF_IN(attention, q)] =
        qf_build_operand(emitter, &c->q, q_axes, false, &operands[QF_IN(attention, q_scale)]);
    operands[QF_IN(attention, k)] =
        qf_build_operand(emitter, &c->k, k_axes, false, &operands[QF_IN(attention, k_scale)]);
    operands[QF_IN(attention, v)] =
        qf_build_operand(emitter, &c->v, v_axes, true, &operands[QF_IN(attention, v_scale)]);
    for (uint32_t i = 0; i < 3; i++)
        if (!operands[i].id) return false;
    if (!complete_scales(emitter, operands) || !build_score_scales(c, emitter, q_axes, operands)) return false;
    if (!unify_dtypes(emitter, operands) || !qf_build_bias(c, emitter, &scores, &operands[QF_IN(attention, bias)]) ||
        !qf_build_mask(c, emitter, &scores, &operands[QF_IN(attention, mask)]))
        return false;
    if (c->has_sinks) {
        qf_axes heads = {.rank = 1, .axis = {q_axes->axis[1]}};
        qf_value sinks = c->sinks.id ? c->sinks : qf_emit_scalar(emitter, QF_F32, 0.0);
        qf_dim zero = qf_dim_constant(emitter->graph->context, 0), one = qf_dim_constant(emitter->graph->context, 1);
        for (uint32_t i = 0; i < c->sink_axes.rank; i++)
            if (c->sink_repeats & 1u << i) sinks = qf_emit_slice(emitter, sinks, i, zero, one);
        sinks = qf_arrange(emitter, sinks, &c->sink_axes, &heads, true);
        operands[QF_IN(attention, sinks)] = qf_emit_cast(emitter, sinks, QF_F32);
        if (!operands[QF_IN(attention, sinks)].id) return false;
    }
    return build_probability_scale(c, emitter, operands);
}

static qf_node insert_attention(qf_candidate *c, qf_emitter *emitter, const qf_value *operands,
                                const qf_axes *out_axes) {
    qf_graph *graph = emitter->graph;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_dim dims[4];
    fill_attributes(c, graph, qf_value_dtype(graph, operands[QF_IN(attention, q)]), attributes);
    for (uint32_t i = 0; i < 4; i++) dims[i] = qf_labelling_extent(&c->labels, out_axes->axis[i]);
    qf_type type = qf_type_tensor(graph->context, qf_value_dtype(graph, c->result), dims, 4);
    return qf_emit_node(emitter, QF_OP_attention, operands, OPERANDS, attributes, type,
                        qf_node_at(graph, c->node)->tag);
}

static qf_location fused_location(const qf_candidate *c) {
    qf_graph *graph = c->labels.graph;
    qf_location parts[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->path.count && count < QF_COUNT_OF(parts); i++) {
        qf_location location = qf_node_at(graph, c->path.nodes[i])->location;
        bool known = location.id == 0;
        for (uint32_t k = 0; k < count; k++) known = known || parts[k].id == location.id;
        if (!known) parts[count++] = location;
    }
    return qf_location_fuse(graph, qf_intern_c(graph->context, "raise_attention"), parts, count);
}

/* Erases the value's producer and what only that read, as far as nobody else does. */
static void erase_unread(qf_graph *graph, qf_value value) {
    qf_node stack[256];
    uint32_t count = 0;
    stack[count++] = qf_value_producer(graph, value);
    while (count) {
        qf_node node = stack[--count];
        if (!node.id || qf_node_at(graph, node)->erased || !qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_PURE))
            continue;
        const qf_node_data *data = qf_node_at(graph, node);
        bool read = false;
        for (uint32_t i = 0; i < data->result_count; i++)
            read = read || qf_value_at(graph, qf_result_at(data, i))->use_count;
        if (read) continue;
        for (uint32_t i = 0; i < data->operand_count && count < QF_COUNT_OF(stack); i++)
            if (data->operands[i].value.id) stack[count++] = qf_value_producer(graph, data->operands[i].value);
        qf_graph_erase(graph, node);
    }
}

/* The result as the graph had it: its labels, dims and multiplier. */
static qf_value restore_result(qf_candidate *c, qf_emitter *emitter, qf_value value, const qf_axes *out_axes) {
    qf_graph *graph = emitter->graph;
    value = qf_arrange(emitter, value, out_axes, &c->result_axes, false);
    qf_type type = qf_value_type(graph, c->result);
    value = qf_emit_view(emitter, value, qf_type_dims(graph->context, type), qf_type_rank(graph->context, type));
    if (!value.id || c->probabilities.multiplier == 1.0) return value;
    return qf_emit_binary(emitter, QF_OP_mul, value,
                          qf_emit_scalar(emitter, qf_value_dtype(graph, value), c->probabilities.multiplier),
                          qf_value_dims(graph, value), qf_value_rank(graph, value));
}

qf_node qf_candidate_build(qf_candidate *c) {
    qf_labelling *labels = &c->labels;
    qf_graph *graph = labels->graph;
    const qf_roles *roles = &c->roles;
    qf_axis heads;
    if (!qf_labelling_append(labels, roles->kv_heads, roles->group, &heads)) return (qf_node){0};
    qf_axes q_axes = {.rank = 4, .axis = {roles->batch, heads, roles->rows, roles->depth}};
    qf_axes k_axes = {.rank = 4, .axis = {roles->batch, roles->kv_heads, roles->keys, roles->depth}};
    qf_axes v_axes = {.rank = 4, .axis = {roles->batch, roles->kv_heads, roles->keys, roles->value_depth}};
    qf_axes out_axes = {.rank = 4, .axis = {roles->batch, heads, roles->rows, roles->value_depth}};
    qf_emitter emitter = {
        .graph = graph, .labels = labels, .before = qf_value_producer(graph, c->result), .location = fused_location(c)};
    qf_value operands[OPERANDS];
    memset(operands, 0, sizeof operands);
    if (!build_operands(c, &emitter, &q_axes, &k_axes, &v_axes, operands)) return (qf_node){0};
    qf_node node = insert_attention(c, &emitter, operands, &out_axes);
    if (!node.id) return node;
    qf_value value = restore_result(c, &emitter, qf_node_result(graph, node, 0), &out_axes);
    if (!value.id) return (qf_node){0};
    qf_take_place(graph, c->result, value);
    erase_unread(graph, c->result);
    return node;
}
