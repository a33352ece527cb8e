/* Owns: abstract evaluation of elementwise ops: arithmetic, comparisons, logic, selects, casts.
 * Does not own: ops that move or make indices (mask_value.c).
 * Next: band.c. */
#include <math.h>

#include "patterns/mask_rules.h"

/* The condition of an operand; opaque where nothing better is known. */
static bool condition_of(qf_mask_evaluation *e, uint32_t depth, qf_value value, const qf_axes *axes,
                         qf_condition *out) {
    qf_abstract abstract;
    qf_mask_evaluate_at(e, depth, value, axes, &abstract);
    if (abstract.kind == QF_ABSTRACT_CONDITION) {
        *out = abstract.condition;
        return true;
    }
    return qf_condition_opaque(e->labels, value, axes, false, out);
}

/* --- elementwise --- */

static bool binary_operands(qf_mask_evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, uint32_t first,
                            qf_abstract *a, qf_abstract *b) {
    const qf_graph *graph = e->labels->graph;
    qf_value left = qf_node_operand(graph, node, first), right = qf_node_operand(graph, node, first + 1);
    qf_axes left_axes, right_axes;
    if (!qf_labelling_broadcast_value(e->labels, left, axes, &left_axes) ||
        !qf_labelling_broadcast_value(e->labels, right, axes, &right_axes))
        return false;
    qf_mask_evaluate_at(e, depth, left, &left_axes, a);
    qf_mask_evaluate_at(e, depth, right, &right_axes, b);
    return true;
}

static double number_op(qf_op op, double a, double b) {
    switch (op) {
    case QF_OP_add: return a + b;
    case QF_OP_sub: return a - b;
    case QF_OP_mul: return a * b;
    case QF_OP_minimum: return fmin(a, b);
    case QF_OP_maximum: return fmax(a, b);
    default: return a / b;
    }
}

bool qf_abstract_number(const qf_mask_evaluation *e, const qf_abstract *value, double *out) {
    int64_t integer;
    if (value->kind == QF_ABSTRACT_NUMBER) {
        *out = value->number;
        return true;
    }
    if (value->kind != QF_ABSTRACT_INTEGER || value->integer.count ||
        !qf_dim_is_constant(e->labels->context, value->integer.constant, &integer))
        return false;
    *out = (double)integer;
    return true;
}

/* (c ? x : 0) * (d ? y : 0) is c and d ? x * y : 0. */
static void multiply_selects(qf_labelling *labels, const qf_abstract *a, const qf_abstract *b, qf_abstract *out) {
    qf_condition joined, sides[2] = {a->condition, b->condition};
    if ((a->a != 0.0 && a->b != 0.0) || (b->a != 0.0 && b->b != 0.0)) return;
    double x = a->b == 0.0 ? a->a : a->b, y = b->b == 0.0 ? b->a : b->b;
    if (!isfinite(x) || !isfinite(y)) return; /* times zero no zero */
    if (a->b != 0.0) sides[0] = qf_condition_not(labels, sides[0]);
    if (b->b != 0.0) sides[1] = qf_condition_not(labels, sides[1]);
    if (qf_condition_and(labels, &sides[0], &sides[1], &joined)) qf_abstract_set_select(out, joined, x * y, 0.0);
}

static void evaluate_arithmetic(qf_mask_evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes,
                                qf_abstract *out) {
    qf_labelling *labels = e->labels;
    qf_op op = qf_node_op(labels->graph, node);
    bool integers = qf_mask_kind(e, qf_node_result(labels->graph, node, 0)) == QF_DTYPE_KIND_INTEGER;
    qf_abstract a, b;
    double x = 0.0, y = 0.0;
    qf_abstract_set_unknown(out);
    if (!binary_operands(e, depth, node, axes, 0, &a, &b)) return;
    if (a.kind == QF_ABSTRACT_INTEGER && b.kind == QF_ABSTRACT_INTEGER && op != QF_OP_div && op != QF_OP_minimum &&
        op != QF_OP_maximum) {
        bool known = op == QF_OP_mul
                         ? qf_affine_multiply(labels, &a.integer, &b.integer, &out->integer)
                         : qf_affine_add(labels, &a.integer, &b.integer, op == QF_OP_add ? 1 : -1, &out->integer);
        if (known) out->kind = QF_ABSTRACT_INTEGER;
        return;
    }
    if (integers && op == QF_OP_div) return;
    if (a.kind == QF_ABSTRACT_SELECT && b.kind == QF_ABSTRACT_SELECT) {
        if (op == QF_OP_mul) multiply_selects(labels, &a, &b, out);
        return;
    }
    bool left = qf_abstract_number(e, &a, &x), right = qf_abstract_number(e, &b, &y);
    if (left && right && !integers) {
        qf_abstract_set_number(out, number_op(op, x, y));
    } else if (a.kind == QF_ABSTRACT_SELECT && right) {
        qf_abstract_set_select(out, a.condition, number_op(op, a.a, y), number_op(op, a.b, y));
    } else if (b.kind == QF_ABSTRACT_SELECT && left) {
        qf_abstract_set_select(out, b.condition, number_op(op, x, b.a), number_op(op, x, b.b));
    }
}

static bool number_compare(qf_op op, double a, double b) {
    switch (op) {
    case QF_OP_less: return a < b;
    case QF_OP_less_equal: return a <= b;
    case QF_OP_greater: return a > b;
    case QF_OP_greater_equal: return a >= b;
    default: return a == b;
    }
}

/* c ? x : y compared with a number is c, its negation, or constant. */
static void compare_select(qf_mask_evaluation *e, const qf_abstract *select, bool when_true, bool when_false,
                           qf_abstract *out) {
    if (when_true == when_false)
        qf_abstract_set_condition(out, qf_condition_constant(when_true));
    else
        qf_abstract_set_condition(out, when_true ? select->condition : qf_condition_not(e->labels, select->condition));
}

static bool compare_integers(qf_mask_evaluation *e, qf_op op, const qf_affine *a, const qf_affine *b, qf_value origin,
                             const qf_axes *axes, qf_condition *out) {
    qf_labelling *labels = e->labels;
    qf_affine forward, backward, minus_one;
    if (!qf_affine_integer(labels, -1, &minus_one) || !qf_affine_add(labels, b, a, -1, &forward) ||
        !qf_affine_add(labels, a, b, -1, &backward))
        return false;
    if (op == QF_OP_equal) {
        qf_condition first, second;
        return qf_condition_affine(labels, &forward, origin, axes, &first) &&
               qf_condition_affine(labels, &backward, origin, axes, &second) &&
               qf_condition_and(labels, &first, &second, out);
    }
    qf_affine form = op == QF_OP_less || op == QF_OP_less_equal ? forward : backward;
    if ((op == QF_OP_less || op == QF_OP_greater) && !qf_affine_add(labels, &form, &minus_one, 1, &form)) return false;
    return qf_condition_affine(labels, &form, origin, axes, out);
}

static void evaluate_comparison(qf_mask_evaluation *e, uint32_t depth, qf_value value, qf_node node,
                                const qf_axes *axes, qf_abstract *out) {
    qf_op op = qf_node_op(e->labels->graph, node);
    qf_abstract a, b;
    double x = 0.0, y = 0.0;
    qf_abstract_set_unknown(out);
    if (!binary_operands(e, depth, node, axes, 0, &a, &b)) return;
    if (a.kind == QF_ABSTRACT_INTEGER && b.kind == QF_ABSTRACT_INTEGER) {
        qf_condition condition;
        if (compare_integers(e, op, &a.integer, &b.integer, value, axes, &condition))
            qf_abstract_set_condition(out, condition);
        return;
    }
    bool left = qf_abstract_number(e, &a, &x), right = qf_abstract_number(e, &b, &y);
    if (left && right)
        qf_abstract_set_condition(out, qf_condition_constant(number_compare(op, x, y)));
    else if (a.kind == QF_ABSTRACT_SELECT && right)
        compare_select(e, &a, number_compare(op, a.a, y), number_compare(op, a.b, y), out);
    else if (b.kind == QF_ABSTRACT_SELECT && left)
        compare_select(e, &b, number_compare(op, x, b.a), number_compare(op, x, b.b), out);
}

static void evaluate_logic(qf_mask_evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                           qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    qf_op op = qf_node_op(graph, node);
    qf_condition sides[2], joined;
    qf_abstract_set_unknown(out);
    for (uint32_t i = 0; i < 2; i++) {
        qf_value operand = qf_node_operand(graph, node, i);
        qf_axes operand_axes;
        if (!qf_labelling_broadcast_value(labels, operand, axes, &operand_axes) ||
            !condition_of(e, depth, operand, &operand_axes, &sides[i]))
            return;
        bool constant;
        if (op == QF_OP_or) sides[i] = qf_condition_not(labels, sides[i]);
        if (sides[i].negated && !qf_condition_is_constant(&sides[i], &constant) &&
            !qf_condition_opaque(labels, operand, &operand_axes, op == QF_OP_or, &sides[i]))
            return;
    }
    if (!qf_condition_and(labels, &sides[0], &sides[1], &joined)) return;
    if (op == QF_OP_or) joined = qf_condition_not(labels, joined);
    if (joined.negated && !qf_condition_opaque(labels, value, axes, false, &joined)) return;
    qf_abstract_set_condition(out, joined);
}

/* c ? (d ? x : y) : z has this form where z is x or y. */
static void join_selects(qf_labelling *labels, qf_condition c, const qf_abstract *inner, double z, qf_abstract *out) {
    qf_condition joined;
    if (inner->b == z) {
        if (qf_condition_and(labels, &c, &inner->condition, &joined)) qf_abstract_set_select(out, joined, inner->a, z);
    } else if (inner->a == z) {
        qf_condition opposite = qf_condition_not(labels, inner->condition);
        if (qf_condition_and(labels, &c, &opposite, &joined)) qf_abstract_set_select(out, joined, inner->b, z);
    }
}

/* c ? d : false and c ? false : d. */
static void join_conditions(qf_labelling *labels, qf_condition c, const qf_condition *a, const qf_condition *b,
                            qf_abstract *out) {
    bool value;
    qf_condition joined, outside = qf_condition_not(labels, c);
    if (qf_condition_is_constant(b, &value) && !value) {
        if (qf_condition_and(labels, &c, a, &joined)) qf_abstract_set_condition(out, joined);
    } else if (qf_condition_is_constant(a, &value) && !value) {
        if (qf_condition_and(labels, &outside, b, &joined)) qf_abstract_set_condition(out, joined);
    }
}

static void evaluate_where(qf_mask_evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    qf_value condition_value = qf_node_operand(graph, node, QF_IN(where, condition));
    qf_axes condition_axes;
    qf_condition condition;
    qf_abstract a, b;
    double x, y;
    bool constant;
    qf_abstract_set_unknown(out);
    if (!qf_labelling_broadcast_value(labels, condition_value, axes, &condition_axes) ||
        !condition_of(e, depth, condition_value, &condition_axes, &condition) ||
        !binary_operands(e, depth, node, axes, QF_IN(where, a), &a, &b))
        return;
    if (qf_condition_is_constant(&condition, &constant)) {
        *out = constant ? a : b;
        return;
    }
    if (qf_abstract_number(e, &a, &x) && qf_abstract_number(e, &b, &y)) {
        qf_abstract_set_select(out, condition, x, y);
        return;
    }
    if (a.kind == QF_ABSTRACT_SELECT && qf_abstract_number(e, &b, &y)) {
        join_selects(labels, condition, &a, y, out);
    } else if (b.kind == QF_ABSTRACT_SELECT && qf_abstract_number(e, &a, &x)) {
        join_selects(labels, qf_condition_not(labels, condition), &b, x, out);
    } else if (a.kind == QF_ABSTRACT_CONDITION && b.kind == QF_ABSTRACT_CONDITION) {
        join_conditions(labels, condition, &a.condition, &b.condition, out);
    }
}

static void evaluate_cast(qf_mask_evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                          qf_abstract *out) {
    qf_value source = qf_node_operand(e->labels->graph, node, 0);
    qf_dtype to = qf_value_dtype(e->labels->graph, value);
    qf_dtype_kind kind = qf_mask_kind(e, value);
    double number;
    qf_mask_evaluate_at(e, depth, source, axes, out);
    if (kind == QF_DTYPE_KIND_BOOL) {
        if (qf_abstract_number(e, out, &number))
            qf_abstract_set_condition(out, qf_condition_constant(number != 0.0));
        else if (out->kind == QF_ABSTRACT_SELECT)
            compare_select(e, out, out->a != 0.0, out->b != 0.0, out);
        else if (out->kind != QF_ABSTRACT_CONDITION)
            qf_abstract_set_unknown(out);
        return;
    }
    if (out->kind == QF_ABSTRACT_CONDITION) {
        qf_abstract_set_select(out, out->condition, 1.0, 0.0);
        if (kind == QF_DTYPE_KIND_INTEGER && out->kind == QF_ABSTRACT_NUMBER &&
            !qf_affine_integer(e->labels, (int64_t)out->number, &out->integer))
            qf_abstract_set_unknown(out);
        else if (kind == QF_DTYPE_KIND_INTEGER && out->kind == QF_ABSTRACT_NUMBER)
            out->kind = QF_ABSTRACT_INTEGER;
        return;
    }
    if (kind == QF_DTYPE_KIND_INTEGER) { /* round_numbers truncates */
        if (out->kind == QF_ABSTRACT_NUMBER && fabs(out->number) < 9e15) {
            double whole = trunc(out->number);
            out->kind =
                qf_affine_integer(e->labels, (int64_t)whole, &out->integer) ? QF_ABSTRACT_INTEGER : QF_ABSTRACT_UNKNOWN;
        } else if (out->kind != QF_ABSTRACT_INTEGER && out->kind != QF_ABSTRACT_SELECT) {
            qf_abstract_set_unknown(out);
        }
        return;
    }
    if (out->kind == QF_ABSTRACT_INTEGER) {
        if (qf_abstract_number(e, out, &number))
            qf_abstract_set_number(out, number);
        else if (to != QF_F32 && to != QF_F64) /* positions beyond 2048 are not exact in 16 bits */
            qf_abstract_set_unknown(out);
    }
    if (kind != QF_DTYPE_KIND_FLOAT) qf_abstract_set_unknown(out);
}

static void evaluate_not(qf_mask_evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_condition condition;
    qf_abstract_set_unknown(out);
    if (condition_of(e, depth, qf_node_operand(e->labels->graph, node, 0), axes, &condition))
        qf_abstract_set_condition(out, qf_condition_not(e->labels, condition));
}

static void evaluate_negation(qf_mask_evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes,
                              qf_abstract *out) {
    qf_affine zero;
    qf_mask_evaluate_at(e, depth, qf_node_operand(e->labels->graph, node, 0), axes, out);
    if (out->kind == QF_ABSTRACT_NUMBER)
        out->number = -out->number;
    else if (out->kind == QF_ABSTRACT_SELECT)
        qf_abstract_set_select(out, out->condition, -out->a, -out->b);
    else if (out->kind != QF_ABSTRACT_INTEGER || !qf_affine_integer(e->labels, 0, &zero) ||
             !qf_affine_add(e->labels, &zero, &out->integer, -1, &out->integer))
        qf_abstract_set_unknown(out);
}

bool qf_mask_elementwise(qf_mask_evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                         qf_abstract *out) {
    switch (qf_node_op(e->labels->graph, node)) {
    case QF_OP_cast: evaluate_cast(e, depth, value, node, axes, out); return true;
    case QF_OP_neg: evaluate_negation(e, depth, node, axes, out); return true;
    case QF_OP_not: evaluate_not(e, depth, node, axes, out); return true;
    case QF_OP_and:
    case QF_OP_or: evaluate_logic(e, depth, value, node, axes, out); return true;
    case QF_OP_where: evaluate_where(e, depth, node, axes, out); return true;
    case QF_OP_add:
    case QF_OP_sub:
    case QF_OP_mul:
    case QF_OP_div:
    case QF_OP_minimum:
    case QF_OP_maximum: evaluate_arithmetic(e, depth, node, axes, out); return true;
    case QF_OP_equal:
    case QF_OP_less:
    case QF_OP_less_equal:
    case QF_OP_greater:
    case QF_OP_greater_equal: evaluate_comparison(e, depth, value, node, axes, out); return true;
    default: return false;
    }
}
