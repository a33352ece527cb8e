/* Owns: selects that guard probabilities: rows without a key become zero, infinities become numbers.
 * Does not own: the walk that meets them (softmax.c).
 * Next: guard.h. */
#include "patterns/guard.h"

#include <math.h>

#include "patterns/denominator.h"

/* value: x == -inf. */
static bool is_minus_infinity(qf_labelling *labels, qf_path *path, qf_value value, qf_axes axes, qf_value *out_x,
                              qf_axes *out_axes) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_equal);
    for (uint32_t side = 0; node.id && side < 2; side++) {
        double number;
        *out_x = qf_node_operand(graph, node, side);
        if (!qf_scalar_number(labels, qf_node_operand(graph, node, 1 - side), &number) || number != -INFINITY) continue;
        qf_path_add(path, node);
        return qf_labelling_broadcast_value(labels, *out_x, &axes, out_axes);
    }
    return false;
}

/* where(every logit of the row is -inf, 0, p), the test as any(not ...) or all(...): exactly the rows whose softmax has
 * nothing to sum. p is the softmax op's result under these labels. */
static bool is_empty_row_test(qf_labelling *labels, qf_path *path, qf_value test, qf_axes test_axes, bool inverted,
                              qf_value p, qf_axes axes) {
    qf_graph *graph = labels->graph;
    qf_trace_root(labels, path, &p, &axes);
    qf_node softmax = qf_producer_of_op(graph, p, QF_OP_softmax);
    qf_axis all, missing, normalised;
    qf_value reduced, x;
    qf_axes reduced_axes, x_axes;
    bool inner = false;
    if (!softmax.id || !qf_labelling_flatten(labels, &axes, &all)) return false;
    uint32_t axis = (uint32_t)qf_node_attribute(graph, softmax, QF_ATTR(softmax, axis))->integer;
    if (axis >= axes.rank || !qf_labelling_resolve(labels, axes.axis[axis], &normalised)) return false;
    qf_through_logic(labels, path, &test, &test_axes, &inverted);
    bool any = qf_producer_of_op(graph, test, QF_OP_reduce_max).id != 0;
    if (!qf_reduction_of(labels, path, any ? QF_OP_reduce_max : QF_OP_reduce_min, test, test_axes, all, &reduced,
                         &reduced_axes, &missing) ||
        !qf_labelling_same_set(missing, normalised))
        return false;
    qf_through_logic(labels, path, &reduced, &reduced_axes, &inner);
    return inner == any && inverted == any && is_minus_infinity(labels, path, reduced, reduced_axes, &x, &x_axes) &&
           qf_same_traced(labels, path, x, x_axes, qf_node_operand(graph, softmax, 0), axes);
}

static bool tested_row_guard(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                             qf_value *out_source, qf_axes *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_where);
    if (!node.id) return false;
    uint32_t mark = path->count;
    qf_value condition = qf_node_operand(graph, node, QF_IN(where, condition));
    qf_axes condition_axes;
    if (!qf_labelling_broadcast_value(labels, condition, axes, &condition_axes)) return false;
    for (uint32_t side = 0; side < 2; side++) {
        double number;
        qf_value zero = qf_node_operand(graph, node, side ? QF_IN(where, b) : QF_IN(where, a));
        *out_source = qf_node_operand(graph, node, side ? QF_IN(where, a) : QF_IN(where, b));
        if (qf_scalar_number(labels, zero, &number) && number == 0.0 &&
            qf_labelling_broadcast_value(labels, *out_source, axes, out) &&
            is_empty_row_test(labels, path, condition, condition_axes, side == 1, *out_source, *out)) {
            qf_path_add(path, node);
            return true;
        }
        path->count = mark;
    }
    return false;
}

/* where(is_nan(p), 0, p), or the other way round with a not. */
static bool not_a_number_guard(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                               qf_value *out_source, qf_axes *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_where);
    if (!node.id) return false;
    qf_value condition = qf_node_operand(graph, node, QF_IN(where, condition));
    qf_axes condition_axes;
    if (!qf_labelling_broadcast_value(labels, condition, axes, &condition_axes)) return false;
    uint32_t mark = path->count, kept = QF_IN(where, b);
    qf_trace_root(labels, path, &condition, &condition_axes);
    qf_node inverse = qf_producer_of_op(graph, condition, QF_OP_not);
    if (inverse.id) {
        kept = QF_IN(where, a);
        qf_path_add(path, inverse);
        condition = qf_node_operand(graph, inverse, 0);
        qf_trace_root(labels, path, &condition, &condition_axes);
    }
    qf_node test = qf_producer_of_op(graph, condition, QF_OP_is_nan);
    qf_value zero = qf_node_operand(graph, node, kept == QF_IN(where, a) ? QF_IN(where, b) : QF_IN(where, a));
    double number;
    *out_source = qf_node_operand(graph, node, kept);
    if (test.id && qf_scalar_number(labels, zero, &number) && number == 0.0 &&
        qf_labelling_broadcast_value(labels, *out_source, axes, out) &&
        qf_same_traced(labels, path, qf_node_operand(graph, test, 0), condition_axes, *out_source, *out)) {
        qf_path_add(path, test);
        qf_path_add(path, node);
        return true;
    }
    path->count = mark;
    return false;
}

bool qf_empty_row_guard(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes, qf_value *out_source,
                        qf_axes *out) {
    return not_a_number_guard(labels, path, value, axes, out_source, out) ||
           tested_row_guard(labels, path, value, axes, out_source, out);
}

/* The node whose result says where x is an infinity: is_inf(x), x == inf. */
static qf_node infinity_test(qf_labelling *labels, qf_value test, qf_value *out_x) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_value_producer(graph, test);
    double number;
    *out_x = qf_node_operand(graph, node, 0);
    if (qf_node_op(graph, node) == QF_OP_is_inf) return node;
    bool compares = qf_node_op(graph, node) == QF_OP_equal &&
                    qf_scalar_number(labels, qf_node_operand(graph, node, 1), &number) && isinf(number);
    return compares ? node : (qf_node){0};
}

bool qf_infinity_guard(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes, qf_value *out_source,
                       qf_axes *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_where);
    qf_value condition = qf_node_operand(graph, node, QF_IN(where, condition));
    qf_axes condition_axes;
    if (!node.id) return false;
    *out_source = qf_node_operand(graph, node, QF_IN(where, b));
    if (!qf_labelling_broadcast_value(labels, *out_source, axes, out) ||
        !qf_labelling_broadcast_value(labels, condition, axes, &condition_axes))
        return false;
    uint32_t mark = path->count;
    qf_node both = qf_producer_of_op(graph, condition, QF_OP_and);
    for (uint32_t side = 0; side < (both.id ? 2u : 1u); side++) {
        qf_value x;
        qf_node test = infinity_test(labels, both.id ? qf_node_operand(graph, both, side) : condition, &x);
        if (test.id && qf_same_traced(labels, path, x, condition_axes, *out_source, *out)) {
            qf_path_add(path, test);
            if (both.id) { /* the sign is read inside of the attention as well */
                qf_path_add(path, both);
                qf_path_add(path, qf_value_producer(graph, qf_node_operand(graph, both, 1 - side)));
            }
            qf_path_add(path, node);
            return true;
        }
        path->count = mark;
    }
    return false;
}
