/* Owns: the parts of a softmax by hand: sums of exponentials, divisions by them, what is set to zero in between.
 * Does not own: how they make a softmax (softmax.c).
 * Next: softmax.c. */
#include "patterns/denominator.h"

#define MAX_STEPS 48

/* --- reductions seen from their result --- */

bool qf_reduction_of(qf_labelling *labels, qf_path *path, qf_op op, qf_value value, qf_axes axes, qf_axis all,
                     qf_value *out_x, qf_axes *out_axes, qf_axis *out_missing) {
    qf_graph *graph = labels->graph;
    qf_trace_root(labels, path, &value, &axes);
    qf_node node = qf_producer_of_op(graph, value, op);
    if (!node.id) return false;
    qf_value x = qf_node_operand(graph, node, 0);
    uint32_t rank = qf_value_rank(graph, x);
    const qf_attribute *reduced = qf_node_attribute(graph, node, QF_ATTR(reduce_sum, axes));
    bool keep = qf_node_attribute(graph, node, QF_ATTR(reduce_sum, keep))->integer != 0;
    if (rank == QF_UNRANKED || reduced->count != 1) return false;
    uint32_t axis = (uint32_t)reduced->ints[0];
    qf_axis present;
    if (axis >= rank || !qf_labelling_flatten(labels, &axes, &present) || !qf_labelling_resolve(labels, all, &all) ||
        !qf_labelling_filter(labels, all, present, false, out_missing))
        return false;
    *out_axes = (qf_axes){.rank = rank};
    for (uint32_t i = 0, at = 0; i < rank; i++) {
        if (i == axis) {
            out_axes->axis[i] = *out_missing;
            at += keep;
        } else if (at < axes.rank) {
            out_axes->axis[i] = axes.axis[at++];
        }
    }
    qf_path_add(path, node);
    *out_x = x;
    return true;
}

bool qf_same_traced(qf_labelling *labels, qf_path *path, qf_value a, qf_axes a_axes, qf_value b, qf_axes b_axes) {
    qf_trace_root(labels, path, &a, &a_axes);
    qf_trace_root(labels, path, &b, &b_axes);
    return a.id == b.id && qf_labelling_axes_equal(labels, &a_axes, &b_axes);
}

/* --- exponentials and probabilities that are zero where the mask hides the key --- */

void qf_through_logic(qf_labelling *labels, qf_path *path, qf_value *value, qf_axes *axes, bool *inverted) {
    qf_graph *graph = labels->graph;
    for (uint32_t step = 0; step < MAX_STEPS; step++) {
        qf_trace_root(labels, path, value, axes);
        qf_node node = qf_value_producer(graph, *value);
        qf_op op = qf_node_op(graph, node);
        qf_value source = qf_node_operand(graph, node, 0);
        bool truth =
            op == QF_OP_cast && (qf_value_dtype(graph, *value) == QF_I1 || qf_value_dtype(graph, source) == QF_I1);
        if (op != QF_OP_not && !truth) return;
        *inverted ^= op == QF_OP_not;
        if (path) qf_path_add(path, node);
        *value = source;
    }
}

bool qf_same_condition(qf_labelling *labels, const qf_zeroed *zeroed, qf_value condition, qf_axes axes,
                       bool keep_if_true) {
    qf_value other = zeroed->condition;
    qf_axes other_axes = zeroed->axes;
    bool inverted = !keep_if_true, other_inverted = !zeroed->keep_if_true;
    qf_through_logic(labels, NULL, &condition, &axes, &inverted);
    qf_through_logic(labels, NULL, &other, &other_axes, &other_inverted);
    return condition.id == other.id && inverted == other_inverted &&
           qf_labelling_axes_equal(labels, &axes, &other_axes);
}

bool qf_strip_zeroing(qf_labelling *labels, qf_path *path, qf_value *value, qf_axes *axes, qf_zeroed_place place,
                      qf_probabilities *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, *value, QF_OP_where);
    if (!node.id || out->zeroed_count == QF_MAX_ZEROED) return false;
    for (uint32_t side = QF_IN(where, a); side <= QF_IN(where, b); side++) {
        double number;
        qf_axes source_axes;
        qf_value source = qf_node_operand(graph, node, side);
        qf_value zero = qf_node_operand(graph, node, side == QF_IN(where, a) ? QF_IN(where, b) : QF_IN(where, a));
        qf_zeroed zeroed = {.condition = qf_node_operand(graph, node, QF_IN(where, condition)),
                            .keep_if_true = side == QF_IN(where, a),
                            .place = place,
                            .node = node};
        if (!qf_scalar_number(labels, zero, &number) || number != 0.0 ||
            !qf_labelling_broadcast_value(labels, zeroed.condition, axes, &zeroed.axes) ||
            !qf_labelling_broadcast_value(labels, source, axes, &source_axes))
            continue;
        out->zeroed[out->zeroed_count++] = zeroed;
        qf_path_add(path, node);
        *value = source;
        *axes = source_axes;
        return true;
    }
    return false;
}

/* --- the denominator --- */

static bool sums(qf_labelling *labels, qf_path *path, qf_value sum, qf_axes sum_axes, qf_value exponentials,
                 qf_axes exponential_axes, qf_probabilities *out) {
    qf_axis all;
    qf_value summed;
    qf_axes axes;
    uint32_t mark = path->count, zeroed = out->zeroed_count;
    if (qf_labelling_flatten(labels, &exponential_axes, &all) &&
        qf_reduction_of(labels, path, QF_OP_reduce_sum, sum, sum_axes, all, &summed, &axes, &out->normalised)) {
        if (qf_same_traced(labels, path, summed, axes, exponentials, exponential_axes)) return true;
        qf_trace_root(labels, path, &summed, &axes);
        if (qf_strip_zeroing(labels, path, &summed, &axes, QF_ZEROED_SUM, out) &&
            qf_same_traced(labels, path, summed, axes, exponentials, exponential_axes))
            return true;
    }
    path->count = mark;
    out->zeroed_count = zeroed;
    return false;
}

bool qf_shifted_exponential(qf_labelling *labels, qf_path *path, qf_value value, qf_axes axes, qf_value *out_x,
                            qf_axes *out_x_axes, qf_value *out_shift, qf_axes *out_shift_axes) {
    qf_graph *graph = labels->graph;
    qf_trace_root(labels, path, &value, &axes);
    qf_node exponential = qf_producer_of_op(graph, value, QF_OP_exp);
    if (!exponential.id) return false;
    qf_path_add(path, exponential);
    value = qf_node_operand(graph, exponential, 0);
    qf_trace_root(labels, path, &value, &axes);
    qf_node node = qf_value_producer(graph, value);
    bool negated = qf_node_op(graph, node) == QF_OP_neg;
    if (!negated && qf_node_op(graph, node) != QF_OP_sub) return false;
    qf_path_add(path, node);
    *out_x = negated ? (qf_value){0} : qf_node_operand(graph, node, 0);
    *out_x_axes = (qf_axes){.rank = 0};
    *out_shift = qf_node_operand(graph, node, negated ? 0 : 1);
    return qf_labelling_broadcast_value(labels, *out_shift, &axes, out_shift_axes) &&
           (negated || qf_labelling_broadcast_value(labels, *out_x, &axes, out_x_axes));
}

/* sum + exp(sink - shift), under the shift of the exponentials. */
static bool sums_with_sink(qf_labelling *labels, qf_path *path, qf_value sum, qf_axes sum_axes, qf_value exponentials,
                           qf_axes exponential_axes, qf_probabilities *out) {
    qf_graph *graph = labels->graph;
    qf_trace_root(labels, path, &sum, &sum_axes);
    qf_node node = qf_producer_of_op(graph, sum, QF_OP_add);
    uint32_t mark = path->count;
    for (uint32_t side = 0; node.id && side < 2; side++) {
        qf_value term = qf_node_operand(graph, node, side), rest = qf_node_operand(graph, node, 1 - side);
        qf_value scores, sink, shift, other_shift;
        qf_axes term_axes, rest_axes, score_axes, shift_axes, other_axes;
        path->count = mark;
        if (!qf_labelling_broadcast_value(labels, term, &sum_axes, &term_axes) ||
            !qf_labelling_broadcast_value(labels, rest, &sum_axes, &rest_axes) ||
            !sums(labels, path, rest, rest_axes, exponentials, exponential_axes, out) ||
            !qf_shifted_exponential(labels, path, term, term_axes, &sink, &out->added_sink_axes, &shift, &shift_axes) ||
            !qf_shifted_exponential(labels, path, exponentials, exponential_axes, &scores, &score_axes, &other_shift,
                                    &other_axes) ||
            !scores.id || !qf_same_traced(labels, path, shift, shift_axes, other_shift, other_axes))
            continue;
        qf_path_add(path, node);
        out->adds_sink = true;
        out->added_sink = sink;
        return true;
    }
    path->count = mark;
    return false;
}

bool qf_is_sum_of(qf_labelling *labels, qf_path *path, qf_value sum, qf_axes sum_axes, qf_value exponentials,
                  qf_axes exponential_axes, qf_probabilities *out) {
    return sums(labels, path, sum, sum_axes, exponentials, exponential_axes, out) ||
           sums_with_sink(labels, path, sum, sum_axes, exponentials, exponential_axes, out);
}

bool qf_division_by_sum(qf_labelling *labels, qf_path *path, qf_value result, const qf_axes *axes,
                        qf_value *out_numerator, qf_axes *out_numerator_axes, qf_value *out_sum,
                        qf_axes *out_sum_axes) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_value_producer(graph, result);
    qf_op op = qf_node_op(graph, node);
    if (op != QF_OP_div && op != QF_OP_mul) return false;
    for (uint32_t side = 0; side < 2; side++) {
        qf_value numerator = qf_node_operand(graph, node, side), other = qf_node_operand(graph, node, 1 - side);
        if (op == QF_OP_div && side == 1) return false;
        if (!qf_labelling_broadcast_value(labels, numerator, axes, out_numerator_axes) ||
            !qf_labelling_broadcast_value(labels, other, axes, out_sum_axes))
            return false;
        if (op == QF_OP_mul) {
            qf_trace_root(labels, path, &other, out_sum_axes);
            qf_node reciprocal = qf_producer_of_op(graph, other, QF_OP_reciprocal);
            double one;
            if (reciprocal.id) {
                qf_path_add(path, reciprocal);
                other = qf_node_operand(graph, reciprocal, 0);
            } else {
                qf_node quotient = qf_producer_of_op(graph, other, QF_OP_div);
                if (!quotient.id || !qf_scalar_number(labels, qf_node_operand(graph, quotient, 0), &one) ||
                    one != 1.0 || !qf_same_dims(labels, qf_node_operand(graph, quotient, 1), other))
                    continue;
                qf_path_add(path, quotient);
                other = qf_node_operand(graph, quotient, 1);
            }
        }
        qf_path_add(path, node);
        *out_numerator = numerator;
        *out_sum = other;
        return true;
    }
    return false;
}
