/* Owns: the cheap question whether a value comes from a softmax, asked for every contraction.
 * Does not own: reading the softmax (softmax.c).
 * Next: softmax.h. */
#include "patterns/softmax.h"

#define MAX_STEPS 48

/* Through layout and casts. */
static bool is_made_by(const qf_graph *graph, qf_value value, qf_op wanted) {
    for (uint32_t step = 0; step < MAX_STEPS; step++) {
        qf_node node = qf_value_producer(graph, value);
        qf_op op = qf_node_op(graph, node);
        if (op == wanted) return true;
        if (!node.id || (op != QF_OP_cast && !qf_op_has_trait(op, QF_TRAIT_LAYOUT))) return false;
        value = qf_node_operand(graph, node, 0);
    }
    return false;
}

bool qf_reaches_softmax(const qf_labelling *labels, qf_value value, bool *out_certain, qf_node *out_blocker) {
    const qf_graph *graph = labels->graph;
    *out_certain = false;
    *out_blocker = (qf_node){0};
    for (uint32_t step = 0; step < MAX_STEPS && value.id; step++) {
        qf_node node = qf_value_producer(graph, value);
        qf_op op = qf_node_op(graph, node);
        double number;
        if (!node.id) return false;
        qf_value a = qf_node_operand(graph, node, 0), b = qf_node_operand(graph, node, 1);
        switch (op) {
        case QF_OP_softmax: *out_certain = true; return true;
        case QF_OP_exp: return true;
        case QF_OP_opaque:
            out_blocker->id = out_blocker->id ? out_blocker->id : node.id;
            value = a;
            continue;
        case QF_OP_div:
            if (is_made_by(graph, a, QF_OP_exp)) {
                *out_certain = is_made_by(graph, b, QF_OP_reduce_sum);
                return true;
            }
            if (!qf_scalar_number(labels, b, &number)) return false;
            value = a;
            continue;
        case QF_OP_mul:
            if (is_made_by(graph, a, QF_OP_exp) || is_made_by(graph, b, QF_OP_exp)) return true;
            value = qf_scalar_number(labels, b, &number) ? a : qf_scalar_number(labels, a, &number) ? b : (qf_value){0};
            continue;
        case QF_OP_where:
            value = qf_scalar_number(labels, b, &number) ? qf_node_operand(graph, node, QF_IN(where, b)) : b;
            continue;
        case QF_OP_cast:
        case QF_OP_neg:
        case QF_OP_quantize:
        case QF_OP_dequantize:
        case QF_OP_concat:
        case QF_OP_gather: value = a; continue;
        default:
            if (!qf_op_has_trait(op, QF_TRAIT_LAYOUT)) return false;
            value = a;
        }
    }
    return false;
}
