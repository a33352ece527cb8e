/* Owns: deciding whether a second contraction is an attention, with a reason where it is not.
 * Does not own: finding second contractions (attention.c), the scores (first.c), roles (roles.c).
 * Next: first.c, build.c. */
#include <math.h>

#include "patterns/candidate.h"

#define MAX_FORWARD_STEPS 16
#define MAX_SERVING_NODES 24

/* --- users --- */

/* A pure node whose results nobody reads. */
bool qf_is_dead(const qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    if (!qf_op_has_trait(data->op, QF_TRAIT_PURE)) return false;
    for (uint32_t i = 0; i < data->result_count; i++)
        if (qf_value_at(graph, qf_result_at(data, i))->use_count) return false;
    return true;
}

static bool counts_as_use(const qf_graph *graph, const qf_use *use) {
    return !qf_op_has_trait(qf_node_op(graph, use->user), QF_TRAIT_SHAPE_ONLY) && !qf_is_dead(graph, use->user);
}

static bool makes(const qf_graph *graph, qf_node node, qf_value value) {
    return value.id && qf_value_producer(graph, value).id == node.id;
}

static bool makes_operand(const qf_graph *graph, qf_node node, const qf_traced *operand) {
    return makes(graph, node, operand->value) || makes(graph, node, operand->packed) ||
           makes(graph, node, operand->scale);
}

/* Whether the attention will read the node's result. */
static bool stays_read(const qf_candidate *c, qf_node node) {
    const qf_graph *graph = c->labels.graph;
    bool read = makes_operand(graph, node, &c->q) || makes_operand(graph, node, &c->k) ||
                makes_operand(graph, node, &c->v) || makes(graph, node, c->sinks) ||
                makes(graph, node, c->probabilities.pair.scale);
    for (uint32_t i = 0; i < c->scale_count; i++) read = read || makes(graph, node, c->scales[i].value);
    for (uint32_t i = 0; i < c->masks.term_count; i++) read = read || makes(graph, node, c->masks.terms[i].value);
    for (uint32_t i = 0; i < c->masks.bias_count; i++) read = read || makes(graph, node, c->masks.biases[i].value);
    return read;
}

/* Whether the path alone reads what follows from the node, a few steps deep, and nothing of it is an operand: it is
 * dead once the path is replaced, as the maximum that is subtracted from the scores. */
static bool serves_path(const qf_candidate *c, qf_node node, uint32_t *budget) {
    const qf_graph *graph = c->labels.graph;
    const qf_node_data *data = qf_node_at(graph, node);
    if (!*budget || !qf_op_has_trait(data->op, QF_TRAIT_PURE) || stays_read(c, node)) return false;
    --*budget;
    for (uint32_t r = 0; r < data->result_count; r++) {
        if (qf_result_at(data, r).id == c->result.id) return false;
        QF_FOR_EACH_USE(graph, qf_result_at(data, r), use)
        if (counts_as_use(graph, use) && !qf_path_has(&c->path, use->user) && !serves_path(c, use->user, budget))
            return false;
    }
    return true;
}

/* Values inside are read inside only: all results of the path's nodes but the one that is replaced. */
static bool check_users(qf_candidate *c) {
    const qf_graph *graph = c->labels.graph;
    for (uint32_t i = 0; i < c->path.count; i++) {
        const qf_node_data *data = qf_node_at(graph, c->path.nodes[i]);
        for (uint32_t r = 0; r < data->result_count; r++) {
            if (qf_result_at(data, r).id == c->result.id) continue;
            QF_FOR_EACH_USE(graph, qf_result_at(data, r), use) {
                uint32_t budget = MAX_SERVING_NODES;
                if (!counts_as_use(graph, use) || qf_path_has(&c->path, use->user) ||
                    serves_path(c, use->user, &budget))
                    continue;
                if (qf_node_op(graph, use->user) == QF_OP_return)
                    return qf_candidate_miss(c, QF_REASON_graph_output, c->path.nodes[i],
                                             "scores or probabilities are an output of the graph");
                return qf_candidate_miss(c, QF_REASON_scores_used_twice, use->user,
                                         "scores or probabilities have another user");
            }
        }
    }
    return true;
}

/* The only user of the value that counts; 0 when there are others. */
static qf_node only_user(const qf_graph *graph, qf_value value) {
    qf_node user = {0};
    QF_FOR_EACH_USE(graph, value, use) {
        if (!counts_as_use(graph, use)) continue;
        if (user.id && user.id != use->user.id) return (qf_node){0};
        user = use->user;
    }
    return user;
}

/* --- E v / sum(E): the value that divides the product --- */

static qf_value find_division(const qf_graph *graph, qf_value product) {
    qf_value value = product;
    for (uint32_t step = 0; step < MAX_FORWARD_STEPS; step++) {
        qf_node user = only_user(graph, value);
        qf_op op = qf_node_op(graph, user);
        if (!user.id) break;
        qf_value result = qf_node_result(graph, user, 0);
        if (op == QF_OP_div || op == QF_OP_mul) return result;
        if (op != QF_OP_cast && !qf_op_has_trait(op, QF_TRAIT_LAYOUT)) break;
        value = result;
    }
    return (qf_value){0};
}

/* Starts labels at the division and carries them back to the product. */
static bool label_division(qf_candidate *c, qf_value *out_sum, qf_axes *out_sum_axes) {
    qf_labelling *labels = &c->labels;
    qf_value numerator;
    qf_axes axes;
    if (!qf_labelling_of_dims(labels, qf_value_dims(labels->graph, c->result), qf_value_rank(labels->graph, c->result),
                              &c->result_axes) ||
        !qf_division_by_sum(labels, &c->path, c->result, &c->result_axes, &numerator, &axes, out_sum, out_sum_axes))
        return false;
    qf_trace_root(labels, &c->path, &numerator, &axes);
    c->product_axes = axes;
    return numerator.id == c->product.id;
}

/* --- the side of the probabilities --- */

static bool label_second(qf_candidate *c, qf_second_contraction *second) {
    qf_letter_labels letters;
    qf_path_add(&c->path, second->contraction.node);
    return qf_contraction_labels(&c->labels, &second->contraction, &c->product_axes, second->operands, &letters,
                                 &c->keys);
}

static bool reset(qf_candidate *c, const qf_second_contraction *second) {
    qf_graph *graph = c->labels.graph;
    qf_symbolic *symbolic = c->labels.symbolic;
    qf_labelling_destroy(&c->labels);
    *c = (qf_candidate){
        .node = second->contraction.node, .product = second->contraction.result, .result = second->contraction.result};
    return qf_labelling_init(&c->labels, graph, symbolic);
}

/* Numerator and denominator meet only after the second contraction. False without a miss: no softmax at all. */
static bool read_late_division(qf_candidate *c, qf_second_contraction *second) {
    qf_value sum, result = find_division(c->labels.graph, c->product);
    qf_axes sum_axes;
    if (!result.id || qf_value_rank(c->labels.graph, result) == QF_UNRANKED || !reset(c, second)) return false;
    c->result = result;
    if (!label_division(c, &sum, &sum_axes) || !label_second(c, second)) return false;
    qf_probabilities *p = &c->probabilities;
    if (qf_probabilities_read(&c->labels, &c->path, second->contraction.operand[second->side],
                              &second->operands[second->side], p) != QF_SOFTMAX_FOUND ||
        !p->unnormalised || !qf_is_sum_of(&c->labels, &c->path, sum, sum_axes, p->exponentials, p->exponential_axes, p))
        return false;
    qf_strip_shift(&c->labels, &c->path, p);
    return true;
}

static bool read_probabilities(qf_candidate *c, qf_second_contraction *second) {
    qf_graph *graph = c->labels.graph;
    if (!reset(c, second)) return false;
    if (!qf_labelling_of_dims(&c->labels, qf_value_dims(graph, c->result), qf_value_rank(graph, c->result),
                              &c->result_axes))
        return false;
    c->product_axes = c->result_axes;
    if (!label_second(c, second)) return false;
    switch (qf_probabilities_read(&c->labels, &c->path, second->contraction.operand[second->side],
                                  &second->operands[second->side], &c->probabilities)) {
    case QF_SOFTMAX_NONE:
        return c->probabilities.softmax.id || !second->certain
                   ? false
                   : qf_candidate_miss(c, QF_REASON_roles, c->node,
                                       "what lies between softmax and contraction is no layout, "
                                       "cast, quantise pair or guard");
    case QF_SOFTMAX_PAIR_TWICE:
        return qf_candidate_miss(c, QF_REASON_probabilities_quantised, c->probabilities.pair.dequantize,
                                 "the probabilities are quantised twice");
    case QF_SOFTMAX_FOUND: break;
    }
    return !c->probabilities.unnormalised || read_late_division(c, second);
}

static bool check_probability_pair(qf_candidate *c) {
    const qf_pair *pair = &c->probabilities.pair;
    const qf_graph *graph = c->labels.graph;
    if (!pair->dequantize.id) return true;
    if (!qf_dtype_is_float8(pair->dtype))
        return qf_candidate_miss(c, QF_REASON_probabilities_quantised, pair->dequantize,
                                 "only FP8 probabilities can be computed inside of attention");
    double scale = c->probabilities.code_scale;
    bool is_cast = qf_node_op(graph, pair->quantize) == QF_OP_cast;
    bool saturates =
        qf_node_attribute(graph, pair->quantize, is_cast ? QF_ATTR(cast, saturate) : QF_ATTR(quantize, saturate))
            ->integer != 0;
    bool known = !pair->scale.id || qf_scalar_number(&c->labels, pair->scale, &scale);
    bool cannot_overflow = known && scale * qf_dtype_largest(pair->dtype) >= 1.0;
    if (!saturates && !cannot_overflow)
        return qf_candidate_miss(c, QF_REASON_unsaturated, pair->quantize, "the probabilities may overflow");
    return true;
}

/* The normalised labels are the summed ones; with a sink column, once that is cut off. */
static bool check_normalised(qf_candidate *c) {
    qf_labelling *labels = &c->labels;
    qf_probabilities *p = &c->probabilities;
    if (!qf_labelling_resolve(labels, p->normalised, &p->normalised) ||
        !qf_labelling_resolve(labels, c->keys, &c->keys) || !qf_labelling_resolve(labels, p->extended, &p->extended) ||
        !qf_labelling_resolve(labels, p->kept, &p->kept))
        return false;
    bool same = p->has_sink
                    ? qf_labelling_same_set(p->normalised, p->extended) && qf_labelling_same_set(p->kept, c->keys)
                    : qf_labelling_same_set(p->normalised, c->keys);
    return same || qf_candidate_miss(c, QF_REASON_softmax_axis, p->softmax, NULL);
}

/* Whether the axis is the one that the column is cut off from. */
static bool is_extended(qf_candidate *c, uint32_t axis) {
    qf_probabilities *p = &c->probabilities;
    return axis < p->axes.rank && qf_labelling_resolve_all(&c->labels, &p->axes) &&
           qf_labelling_same_set(p->axes.axis[axis], p->extended);
}

/* logits = concat(scores, column), or the other way round. */
static bool joined_column(qf_candidate *c, qf_node node, qf_value *out_column, uint32_t *out_axis) {
    const qf_graph *graph = c->labels.graph;
    if (qf_node_op(graph, node) != QF_OP_concat || qf_node_at(graph, node)->operand_count != 2) return false;
    *out_axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(concat, axis))->integer;
    *out_column = qf_node_operand(graph, node, c->probabilities.sink_first ? 0 : 1);
    return is_extended(c, *out_axis) && qf_value_rank(graph, *out_column) == c->probabilities.axes.rank &&
           qf_dim_is(graph->context, qf_value_dims(graph, *out_column)[*out_axis], 1);
}

/* logits = scores with one more column of one number. */
static bool padded_column(qf_candidate *c, qf_node node, qf_value *out_column, uint32_t *out_axis) {
    const qf_graph *graph = c->labels.graph;
    const qf_attribute *before = qf_node_attribute(graph, node, QF_ATTR(pad, before));
    const qf_attribute *after = qf_node_attribute(graph, node, QF_ATTR(pad, after));
    uint32_t padded = 0;
    for (uint32_t i = 0; i < before->count; i++) {
        if (qf_dim_is(graph->context, before->dims[i], 0) && qf_dim_is(graph->context, after->dims[i], 0)) continue;
        bool first = qf_dim_is(graph->context, before->dims[i], 1) && qf_dim_is(graph->context, after->dims[i], 0);
        bool last = qf_dim_is(graph->context, before->dims[i], 0) && qf_dim_is(graph->context, after->dims[i], 1);
        if (c->probabilities.sink_first ? !first : !last) return false;
        *out_axis = i;
        padded++;
    }
    *out_column = qf_node_operand(graph, node, QF_IN(pad, value));
    return padded == 1 && is_extended(c, *out_axis) && out_column->id && qf_value_rank(graph, *out_column) == 0;
}

/* x * 1 and x + 0 spread x over the shape of the number. */
static bool spread_by_number(qf_candidate *c) {
    qf_labelling *labels = &c->labels;
    qf_node node = qf_value_producer(labels->graph, c->sinks);
    qf_op op = qf_node_op(labels->graph, node);
    if (op != QF_OP_mul && op != QF_OP_add) return false;
    for (uint32_t side = 0; side < 2; side++) {
        double number;
        qf_value source = qf_node_operand(labels->graph, node, side);
        qf_axes axes;
        if (!qf_scalar_number(labels, qf_node_operand(labels->graph, node, 1 - side), &number) ||
            number != (op == QF_OP_mul ? 1.0 : 0.0) ||
            !qf_labelling_broadcast_value(labels, source, &c->sink_axes, &axes))
            continue;
        c->sinks = source;
        c->sink_axes = axes;
        return true;
    }
    return false;
}

/* What is the same along batch and rows: broadcast, or constant and spread over them. */
static void drop_repeats(qf_candidate *c) {
    do qf_trace_root(&c->labels, NULL, &c->sinks, &c->sink_axes);
    while (spread_by_number(c));
    for (uint32_t i = 0; i < c->sink_axes.rank; i++) {
        if (!c->sink_axes.axis[i].count || qf_constant_varies(c->labels.graph, c->sinks, i)) continue;
        c->sink_repeats |= 1u << i;
        c->sink_axes.axis[i] = (qf_axis){0};
    }
}

/* The logits have one column more, along the normalised axis, than the scores. */
static bool read_sink(qf_candidate *c) {
    qf_labelling *labels = &c->labels;
    qf_graph *graph = labels->graph;
    qf_probabilities *p = &c->probabilities;
    if (p->adds_sink) {
        c->has_sinks = true;
        c->sinks = p->added_sink;
        c->sink_axes = p->added_sink_axes;
        if (c->sinks.id) drop_repeats(c);
        return !p->has_sink || qf_candidate_miss(c, QF_REASON_score_op, p->softmax, "two sinks join the softmax");
    }
    if (!p->has_sink) return true;
    qf_trace_root(labels, &c->path, &p->logits, &p->axes);
    qf_node node = qf_value_producer(graph, p->logits);
    qf_value column;
    uint32_t axis = 0;
    bool found = qf_node_op(graph, node) == QF_OP_pad ? padded_column(c, node, &column, &axis)
                                                      : joined_column(c, node, &column, &axis);
    if (!found)
        return qf_candidate_miss(c, QF_REASON_score_op, node.id ? node : p->softmax,
                                 "a column is cut off after the softmax but none was added");
    qf_path_add(&c->path, node);
    c->has_sinks = true;
    c->sinks = column;
    c->sink_axes = (qf_axes){.rank = 0};
    if (qf_value_rank(graph, column)) {
        c->sink_axes = p->axes;
        c->sink_axes.axis[axis] = (qf_axis){0};
    }
    drop_repeats(c);
    p->logits = qf_node_operand(graph, node, qf_node_op(graph, node) == QF_OP_concat && p->sink_first ? 1 : 0);
    p->axes.axis[axis] = p->kept;
    return true;
}

/* --- the decision --- */

static bool check_operands(qf_candidate *c) {
    const qf_graph *graph = c->labels.graph;
    const qf_traced *operands[2] = {&c->k, &c->v};
    for (uint32_t i = 0; i < 2; i++) {
        qf_value value = operands[i]->packed.id ? operands[i]->packed : operands[i]->value;
        if (qf_is_constant_tree(graph, value))
            return qf_candidate_miss(c, QF_REASON_constant_operand, qf_value_producer(graph, value),
                                     i == 0 ? "k is a constant" : "v is a constant");
    }
    c->scale *= c->q.multiplier * c->k.multiplier;
    if (!isfinite(c->scale) || !isfinite(c->softcap))
        return qf_candidate_miss(c, QF_REASON_score_op, c->probabilities.softmax,
                                 "the scale of the scores is not finite");
    return true;
}

static bool check_numerics(qf_candidate *c, qf_numerics numerics) {
    if (c->score_pair.id && !qf_dtype_is_float8(c->score_pair_dtype))
        return qf_candidate_miss(c, QF_REASON_score_op, c->score_pair, "an integer quantise pair on the scores");
    if (c->score_pair.id && numerics != QF_NUMERICS_RELAXED)
        return qf_candidate_miss(c, QF_REASON_scores_quantised, c->score_pair, NULL);
    c->dropped_score_pair = c->score_pair.id != 0;
    if (numerics == QF_NUMERICS_EXACT)
        return qf_candidate_miss(c, QF_REASON_numerics_class, c->node, "raising is of class rounding");
    return true;
}

/* Sinks are one number a query head. */
static bool check_sinks(qf_candidate *c) {
    for (uint32_t i = 0; c->has_sinks && i < c->sink_axes.rank; i++)
        for (uint32_t a = 0; a < c->sink_axes.axis[i].count; a++) {
            qf_atom_id atom = c->sink_axes.axis[i].atoms[a];
            if (!qf_labelling_contains(c->roles.kv_heads, atom) && !qf_labelling_contains(c->roles.group, atom))
                return qf_candidate_miss(c, QF_REASON_score_op, qf_value_producer(c->labels.graph, c->sinks),
                                         "the sink column is not one number a query head");
        }
    return true;
}

/* A tensor that scales the scores scales q instead, if it does not depend on the key. */
static bool check_scales(qf_candidate *c) {
    for (uint32_t i = 0; i < c->scale_count; i++) {
        qf_axis flat, keys;
        if (!qf_labelling_resolve_all(&c->labels, &c->scales[i].axes) ||
            !qf_labelling_flatten(&c->labels, &c->scales[i].axes, &flat) ||
            !qf_labelling_filter(&c->labels, flat, c->roles.keys, true, &keys))
            return false;
        if (keys.count)
            return qf_candidate_miss(c, QF_REASON_score_op, c->scales[i].node,
                                     "a factor of the scores depends on the key");
        if (flat.count && qf_dtype_is_float8(c->q.dtype))
            return qf_candidate_miss(c, QF_REASON_score_op, c->scales[i].node,
                                     "a tensor scales the scores of an FP8 q");
    }
    return true;
}

/* What the codes of the probabilities lack, the scale of an FP8 v can give. */
static bool check_codes(qf_candidate *c) {
    const qf_pair *pair = &c->probabilities.pair;
    bool fits = !c->probabilities.codes || !pair->scale.id || (qf_dtype_is_float8(c->v.dtype) && c->v.scale_axis < 0);
    return fits || qf_candidate_miss(c, QF_REASON_probabilities_quantised, pair->quantize,
                                     "their scale is missing in the result, and v has none to take it");
}

/* k and v with scales an index of an axis, if that axis is the KV heads; else with per-tensor scales only. */
static bool read_operands(qf_candidate *c, const qf_second_contraction *second) {
    uint32_t side = 1 - second->side;
    qf_labelling *labels = &c->labels;
    for (uint32_t per_axis = 2; per_axis-- > 0;) {
        if (!qf_trace_operand(labels, second->contraction.operand[side], &second->operands[side], false, per_axis,
                              &c->v) ||
            !qf_trace_operand(labels, c->k_operand, &c->k_axes, true, per_axis, &c->k) || !qf_candidate_assign_roles(c))
            return false;
        if (qf_candidate_scales_fit(c)) break;
    }
    return check_operands(c) && check_sinks(c) && check_scales(c) && check_codes(c);
}

bool qf_candidate_analyse(qf_candidate *c, qf_second_contraction *second, qf_numerics numerics) {
    if (!read_probabilities(c, second)) return false;
    if (!check_probability_pair(c) || !check_normalised(c) || !read_sink(c) ||
        !qf_candidate_read_scores(c, &second->operands[1 - second->side]) || !read_operands(c, second))
        return false;
    qf_reason reason = qf_masks_classify(&c->labels, &c->roles, true, &c->masks);
    if (reason != QF_REASON_none) return qf_candidate_miss(c, reason, c->probabilities.softmax, NULL);
    if (c->zeroed_in_part && !c->masks.rows_keep_a_key)
        return qf_candidate_miss(c, QF_REASON_roles, c->probabilities.softmax,
                                 "one of several masks sets the probabilities to zero");
    c->recognised = true;
    return check_users(c) && check_numerics(c, numerics);
}
