/* Owns: one evaluation rule for each op that mask expressions are made of.
 * Does not own: conditions (condition.c), constants (band.c).
 * Next: band.c. */
#include "patterns/mask_value.h"

#include <math.h>

#include "base/convert.h"

#define MAX_DEPTH  48
#define MAX_VISITS 1024

typedef struct evaluation {
    qf_labelling *labels;
    uint32_t visits;
} evaluation;

static void evaluate(evaluation *e, uint32_t depth, qf_value value, const qf_axes *axes, qf_abstract *out);

static void set_unknown(qf_abstract *out) {
    out->kind = QF_ABSTRACT_UNKNOWN;
}

static void set_number(qf_abstract *out, double number) {
    out->kind = QF_ABSTRACT_NUMBER;
    out->number = number;
}

static void set_condition(qf_abstract *out, qf_condition condition) {
    out->kind = QF_ABSTRACT_CONDITION;
    out->condition = condition;
}

static void set_select(qf_abstract *out, qf_condition condition, double a, double b) {
    bool value;
    if (qf_condition_is_constant(&condition, &value)) {
        set_number(out, value ? a : b);
    } else if (a == b) {
        set_number(out, a);
    } else {
        out->kind = QF_ABSTRACT_SELECT;
        out->condition = condition;
        out->a = a;
        out->b = b;
    }
}

static qf_dtype_kind kind_of(const evaluation *e, qf_value value) {
    return qf_dtype_kind_of(qf_value_dtype(e->labels->graph, value));
}

/* What the op's result dtype makes of a number. */
static double rounded(qf_dtype dtype, double number) {
    if (dtype == QF_F32) return (double)(float)number;
    if (qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_FLOAT && dtype != QF_F64)
        return (double)qf_round_f32(dtype, (float)number, false);
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER ? trunc(number) : number;
}

static void round_numbers(qf_dtype dtype, qf_abstract *out) {
    if (out->kind == QF_ABSTRACT_NUMBER)
        set_number(out, rounded(dtype, out->number));
    else if (out->kind == QF_ABSTRACT_SELECT)
        set_select(out, out->condition, rounded(dtype, out->a), rounded(dtype, out->b));
}

/* A boolean value is the conjunction of its clauses, so that it may stand for the origin of each: needed where the
 * clauses come from a tensor that is read at shifted indices. */
static bool rebase_origins(evaluation *e, qf_value value, const qf_axes *axes, qf_condition *condition) {
    qf_clause *clauses = QF_ARENA_NEW(&e->labels->arena, qf_clause, condition->count);
    if (!clauses) return false;
    for (uint32_t i = 0; i < condition->count; i++) {
        clauses[i] = condition->clauses[i];
        clauses[i].origin = value;
        clauses[i].origin_axes = *axes;
        clauses[i].origin_negated = condition->negated;
    }
    condition->clauses = clauses;
    return true;
}

/* Every element is the same number. */
static bool uniform(evaluation *e, qf_value value, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    qf_dtype_kind kind = kind_of(e, value);
    const qf_dim *elements;
    uint32_t count;
    double number;
    if (kind == QF_DTYPE_KIND_INTEGER && labels->symbolic && qf_value_rank(labels->graph, value) != QF_UNRANKED &&
        qf_symbolic_elements(labels->symbolic, value, &elements, &count) && count) {
        for (uint32_t i = 1; i < count; i++)
            if (!qf_dim_equal(elements[i], elements[0])) return false;
        out->kind = QF_ABSTRACT_INTEGER;
        return qf_affine_constant(labels, elements[0], &out->integer);
    }
    if (!qf_scalar_number(labels, value, &number)) return false;
    if (kind == QF_DTYPE_KIND_BOOL) {
        set_condition(out, qf_condition_constant(number != 0.0));
    } else if (kind == QF_DTYPE_KIND_INTEGER) {
        out->kind = QF_ABSTRACT_INTEGER;
        return qf_affine_integer(labels, (int64_t)number, &out->integer);
    } else {
        set_number(out, number);
    }
    return true;
}

/* The condition of an operand; opaque where nothing better is known. */
static bool condition_of(evaluation *e, uint32_t depth, qf_value value, const qf_axes *axes, qf_condition *out) {
    qf_abstract abstract;
    evaluate(e, depth, value, axes, &abstract);
    if (abstract.kind == QF_ABSTRACT_CONDITION) {
        *out = abstract.condition;
        return true;
    }
    return qf_condition_opaque(e->labels, value, axes, false, out);
}

/* --- index shifts --- */

/* Labels of a tensor that is read at `form` along `axis`: a fresh atom whose index is that form. */
static bool defined_axis(evaluation *e, qf_dim extent, const qf_affine *form, qf_axis *out) {
    qf_labelling *labels = e->labels;
    if (!qf_labelling_new(labels, extent, out)) return false;
    if (!out->count) return true;
    const qf_affine *kept = qf_arena_copy(&labels->arena, form, sizeof *form);
    labels->atoms[out->atoms[0]].definition = kept;
    return kept != NULL;
}

static bool shifted_axis(evaluation *e, qf_axis axis, qf_dim start, int64_t step, qf_dim extent, qf_axis *out) {
    qf_affine index, form;
    return qf_affine_constant(e->labels, start, &form) && qf_affine_of_axis(e->labels, axis, &index) &&
           qf_affine_add(e->labels, &form, &index, step, &form) && defined_axis(e, extent, &form, out);
}

static bool through_slice(evaluation *e, qf_node node, const qf_axes *axes, qf_axes *out) {
    const qf_graph *graph = e->labels->graph;
    qf_value source = qf_node_operand(graph, node, 0), result = qf_node_result(graph, node, 0);
    if (qf_value_rank(graph, source) != axes->rank) return false;
    const qf_dim *from = qf_value_dims(graph, source), *to = qf_value_dims(graph, result);
    const qf_attribute *starts = qf_node_attribute(graph, node, QF_ATTR(slice, starts));
    const qf_attribute *steps = qf_node_attribute(graph, node, QF_ATTR(slice, steps));
    *out = *axes;
    for (uint32_t i = 0; i < axes->rank; i++) {
        bool whole = qf_dim_equal(from[i], to[i]) && steps->ints[i] == 1;
        if (!whole && !shifted_axis(e, axes->axis[i], starts->dims[i], steps->ints[i], from[i], &out->axis[i]))
            return false;
    }
    return true;
}

static bool through_split(evaluation *e, qf_value value, qf_node node, const qf_axes *axes, qf_axes *out) {
    const qf_graph *graph = e->labels->graph;
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(split, axis))->integer;
    const qf_attribute *sizes = qf_node_attribute(graph, node, QF_ATTR(split, sizes));
    qf_value source = qf_node_operand(graph, node, 0);
    qf_dim start = qf_dim_constant(e->labels->context, 0);
    for (uint32_t i = 0; i < qf_value_at(graph, value)->result_index; i++)
        start = qf_dim_add(e->labels->context, start, sizes->dims[i]);
    *out = *axes;
    return start.id && axis < axes->rank &&
           shifted_axis(e, axes->axis[axis], start, 1, qf_value_dims(graph, source)[axis], &out->axis[axis]);
}

/* x read at indices along an axis: known where the indices are affine and not negative. */
static void evaluate_gather(evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    qf_value x = qf_node_operand(graph, node, 0), indices = qf_node_operand(graph, node, QF_IN(gather, indices));
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(gather, axis))->integer;
    uint32_t rank = qf_value_rank(graph, x), index_rank = qf_value_rank(graph, indices);
    set_unknown(out);
    if (rank == QF_UNRANKED || index_rank == QF_UNRANKED || axis >= rank || axes->rank != rank - 1 + index_rank) return;
    qf_axes source = {.rank = rank}, index_axes = {.rank = index_rank};
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis) source.axis[i] = axes->axis[i < axis ? i : i - 1 + index_rank];
    for (uint32_t i = 0; i < index_rank; i++) index_axes.axis[i] = axes->axis[axis + i];
    qf_abstract index;
    evaluate(e, depth, indices, &index_axes, &index);
    if (index.kind != QF_ABSTRACT_INTEGER || !qf_affine_resolve(labels, &index.integer, &index.integer) ||
        !qf_affine_nonnegative(labels, &index.integer) ||
        !defined_axis(e, qf_value_dims(graph, x)[axis], &index.integer, &source.axis[axis]))
        return;
    evaluate(e, depth, x, &source, out);
}

/* Any selection from a uniform tensor is that number. */
static void evaluate_uniform_source(evaluation *e, uint32_t depth, qf_value source, qf_abstract *out) {
    const qf_graph *graph = e->labels->graph;
    qf_axes axes;
    set_unknown(out);
    if (qf_value_rank(graph, source) == QF_UNRANKED ||
        !qf_labelling_of_dims(e->labels, qf_value_dims(graph, source), qf_value_rank(graph, source), &axes))
        return;
    evaluate(e, depth, source, &axes, out);
    bool value;
    if (out->kind == QF_ABSTRACT_NUMBER || (out->kind == QF_ABSTRACT_INTEGER && !out->integer.count) ||
        (out->kind == QF_ABSTRACT_CONDITION && qf_condition_is_constant(&out->condition, &value)))
        return;
    set_unknown(out);
}

/* --- elementwise --- */

static bool binary_operands(evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, uint32_t first,
                            qf_abstract *a, qf_abstract *b) {
    const qf_graph *graph = e->labels->graph;
    qf_value left = qf_node_operand(graph, node, first), right = qf_node_operand(graph, node, first + 1);
    qf_axes left_axes, right_axes;
    if (!qf_labelling_broadcast_value(e->labels, left, axes, &left_axes) ||
        !qf_labelling_broadcast_value(e->labels, right, axes, &right_axes))
        return false;
    evaluate(e, depth, left, &left_axes, a);
    evaluate(e, depth, right, &right_axes, b);
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

static bool as_number(const evaluation *e, const qf_abstract *value, double *out) {
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

static void evaluate_arithmetic(evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    qf_op op = qf_node_op(labels->graph, node);
    bool integers = kind_of(e, qf_node_result(labels->graph, node, 0)) == QF_DTYPE_KIND_INTEGER;
    qf_abstract a, b;
    double x = 0.0, y = 0.0;
    set_unknown(out);
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
    bool left = as_number(e, &a, &x), right = as_number(e, &b, &y);
    if (left && right && !integers) {
        set_number(out, number_op(op, x, y));
    } else if (a.kind == QF_ABSTRACT_SELECT && right) {
        set_select(out, a.condition, number_op(op, a.a, y), number_op(op, a.b, y));
    } else if (b.kind == QF_ABSTRACT_SELECT && left) {
        set_select(out, b.condition, number_op(op, x, b.a), number_op(op, x, b.b));
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
static void compare_select(evaluation *e, const qf_abstract *select, bool when_true, bool when_false,
                           qf_abstract *out) {
    if (when_true == when_false)
        set_condition(out, qf_condition_constant(when_true));
    else
        set_condition(out, when_true ? select->condition : qf_condition_not(e->labels, select->condition));
}

static bool compare_integers(evaluation *e, qf_op op, const qf_affine *a, const qf_affine *b, qf_value origin,
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

static void evaluate_comparison(evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                                qf_abstract *out) {
    qf_op op = qf_node_op(e->labels->graph, node);
    qf_abstract a, b;
    double x = 0.0, y = 0.0;
    set_unknown(out);
    if (!binary_operands(e, depth, node, axes, 0, &a, &b)) return;
    if (a.kind == QF_ABSTRACT_INTEGER && b.kind == QF_ABSTRACT_INTEGER) {
        qf_condition condition;
        if (compare_integers(e, op, &a.integer, &b.integer, value, axes, &condition)) set_condition(out, condition);
        return;
    }
    bool left = as_number(e, &a, &x), right = as_number(e, &b, &y);
    if (left && right)
        set_condition(out, qf_condition_constant(number_compare(op, x, y)));
    else if (a.kind == QF_ABSTRACT_SELECT && right)
        compare_select(e, &a, number_compare(op, a.a, y), number_compare(op, a.b, y), out);
    else if (b.kind == QF_ABSTRACT_SELECT && left)
        compare_select(e, &b, number_compare(op, x, b.a), number_compare(op, x, b.b), out);
}

static void evaluate_logic(evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                           qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    qf_op op = qf_node_op(graph, node);
    qf_condition sides[2], joined;
    set_unknown(out);
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
    set_condition(out, joined);
}

/* c ? (d ? x : y) : z has this form where z is x or y. */
static void join_selects(qf_labelling *labels, qf_condition c, const qf_abstract *inner, double z, qf_abstract *out) {
    qf_condition joined;
    if (inner->b == z) {
        if (qf_condition_and(labels, &c, &inner->condition, &joined)) set_select(out, joined, inner->a, z);
    } else if (inner->a == z) {
        qf_condition opposite = qf_condition_not(labels, inner->condition);
        if (qf_condition_and(labels, &c, &opposite, &joined)) set_select(out, joined, inner->b, z);
    }
}

/* c ? d : false and c ? false : d. */
static void join_conditions(qf_labelling *labels, qf_condition c, const qf_condition *a, const qf_condition *b,
                            qf_abstract *out) {
    bool value;
    qf_condition joined, outside = qf_condition_not(labels, c);
    if (qf_condition_is_constant(b, &value) && !value) {
        if (qf_condition_and(labels, &c, a, &joined)) set_condition(out, joined);
    } else if (qf_condition_is_constant(a, &value) && !value) {
        if (qf_condition_and(labels, &outside, b, &joined)) set_condition(out, joined);
    }
}

static void evaluate_where(evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    qf_value condition_value = qf_node_operand(graph, node, QF_IN(where, condition));
    qf_axes condition_axes;
    qf_condition condition;
    qf_abstract a, b;
    double x, y;
    bool constant;
    set_unknown(out);
    if (!qf_labelling_broadcast_value(labels, condition_value, axes, &condition_axes) ||
        !condition_of(e, depth, condition_value, &condition_axes, &condition) ||
        !binary_operands(e, depth, node, axes, QF_IN(where, a), &a, &b))
        return;
    if (qf_condition_is_constant(&condition, &constant)) {
        *out = constant ? a : b;
        return;
    }
    if (as_number(e, &a, &x) && as_number(e, &b, &y)) {
        set_select(out, condition, x, y);
        return;
    }
    if (a.kind == QF_ABSTRACT_SELECT && as_number(e, &b, &y)) {
        join_selects(labels, condition, &a, y, out);
    } else if (b.kind == QF_ABSTRACT_SELECT && as_number(e, &a, &x)) {
        join_selects(labels, qf_condition_not(labels, condition), &b, x, out);
    } else if (a.kind == QF_ABSTRACT_CONDITION && b.kind == QF_ABSTRACT_CONDITION) {
        join_conditions(labels, condition, &a.condition, &b.condition, out);
    }
}

static void evaluate_cast(evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                          qf_abstract *out) {
    qf_value source = qf_node_operand(e->labels->graph, node, 0);
    qf_dtype to = qf_value_dtype(e->labels->graph, value);
    qf_dtype_kind kind = kind_of(e, value);
    double number;
    evaluate(e, depth, source, axes, out);
    if (kind == QF_DTYPE_KIND_BOOL) {
        if (as_number(e, out, &number))
            set_condition(out, qf_condition_constant(number != 0.0));
        else if (out->kind == QF_ABSTRACT_SELECT)
            compare_select(e, out, out->a != 0.0, out->b != 0.0, out);
        else if (out->kind != QF_ABSTRACT_CONDITION)
            set_unknown(out);
        return;
    }
    if (out->kind == QF_ABSTRACT_CONDITION) {
        set_select(out, out->condition, 1.0, 0.0);
        if (kind == QF_DTYPE_KIND_INTEGER && out->kind == QF_ABSTRACT_NUMBER &&
            !qf_affine_integer(e->labels, (int64_t)out->number, &out->integer))
            set_unknown(out);
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
            set_unknown(out);
        }
        return;
    }
    if (out->kind == QF_ABSTRACT_INTEGER) {
        if (as_number(e, out, &number))
            set_number(out, number);
        else if (to != QF_F32 && to != QF_F64) /* positions beyond 2048 are not exact in 16 bits */
            set_unknown(out);
    }
    if (kind != QF_DTYPE_KIND_FLOAT) set_unknown(out);
}

/* Zero outside of the triangle of the last two axes. */
static void evaluate_triangle(evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                              qf_abstract *out) {
    qf_labelling *labels = e->labels;
    qf_abstract x;
    qf_affine row, column, form;
    qf_condition inside, joined;
    double number;
    evaluate(e, depth, qf_node_operand(labels->graph, node, 0), axes, &x);
    set_unknown(out);
    bool upper = qf_node_attribute(labels->graph, node, QF_ATTR(triangle, upper))->integer != 0;
    qf_dim diagonal = qf_node_attribute(labels->graph, node, QF_ATTR(triangle, diagonal))->dim;
    bool boolean = kind_of(e, value) == QF_DTYPE_KIND_BOOL;
    if (axes->rank < 2 || !qf_affine_of_axis(labels, axes->axis[axes->rank - 2], &row) ||
        !qf_affine_of_axis(labels, axes->axis[axes->rank - 1], &column) ||
        !qf_affine_constant(labels, diagonal, &form) || !qf_affine_add(labels, &form, &row, 1, &form) ||
        !qf_affine_add(labels, &form, &column, -1, &form)) /* diagonal + row - column >= 0: lower */
        return;
    if (upper) {
        qf_affine zero;
        if (!qf_affine_integer(labels, 0, &zero) || !qf_affine_add(labels, &zero, &form, -1, &form)) return;
    }
    if (!qf_condition_affine(labels, &form, boolean ? value : (qf_value){0}, axes, &inside)) return;
    if (boolean && x.kind == QF_ABSTRACT_CONDITION) {
        if (qf_condition_and(labels, &inside, &x.condition, &joined)) set_condition(out, joined);
    } else if (as_number(e, &x, &number)) {
        set_select(out, inside, number, 0.0);
    }
}

static void evaluate_iota(evaluation *e, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    uint32_t axis = (uint32_t)qf_node_attribute(labels->graph, node, QF_ATTR(iota, axis))->integer;
    qf_dim start = qf_node_attribute(labels->graph, node, QF_ATTR(iota, start))->dim;
    qf_dim step = qf_node_attribute(labels->graph, node, QF_ATTR(iota, step))->dim;
    qf_dtype dtype = qf_value_dtype(labels->graph, qf_node_result(labels->graph, node, 0));
    qf_affine index, stride, form;
    set_unknown(out);
    if (dtype == QF_F16 || dtype == QF_BF16 || axis >= axes->rank) return;
    if (qf_affine_of_axis(labels, axes->axis[axis], &index) && qf_affine_constant(labels, step, &stride) &&
        qf_affine_multiply(labels, &index, &stride, &form) && qf_affine_constant(labels, start, &out->integer) &&
        qf_affine_add(labels, &out->integer, &form, 1, &out->integer))
        out->kind = QF_ABSTRACT_INTEGER;
}

/* The running sum of a constant c is c * (index + 1), or c * index. */
static void evaluate_running_sum(evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(cumulative_sum, axis))->integer;
    bool exclusive = qf_node_attribute(graph, node, QF_ATTR(cumulative_sum, exclusive))->integer != 0;
    bool reverse = qf_node_attribute(graph, node, QF_ATTR(cumulative_sum, reverse))->integer != 0;
    qf_abstract x;
    qf_affine position, offset;
    evaluate_uniform_source(e, depth, qf_node_operand(graph, node, 0), &x);
    set_unknown(out);
    if (reverse || x.kind != QF_ABSTRACT_INTEGER || axis >= axes->rank) return;
    if (qf_affine_of_axis(labels, axes->axis[axis], &position) &&
        qf_affine_integer(labels, exclusive ? 0 : 1, &offset) &&
        qf_affine_add(labels, &position, &offset, 1, &position) &&
        qf_affine_multiply(labels, &position, &x.integer, &out->integer))
        out->kind = QF_ABSTRACT_INTEGER;
}

static void evaluate_not(evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_condition condition;
    set_unknown(out);
    if (condition_of(e, depth, qf_node_operand(e->labels->graph, node, 0), axes, &condition))
        set_condition(out, qf_condition_not(e->labels, condition));
}

static void evaluate_negation(evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_affine zero;
    evaluate(e, depth, qf_node_operand(e->labels->graph, node, 0), axes, out);
    if (out->kind == QF_ABSTRACT_NUMBER)
        out->number = -out->number;
    else if (out->kind == QF_ABSTRACT_SELECT)
        set_select(out, out->condition, -out->a, -out->b);
    else if (out->kind != QF_ABSTRACT_INTEGER || !qf_affine_integer(e->labels, 0, &zero) ||
             !qf_affine_add(e->labels, &zero, &out->integer, -1, &out->integer))
        set_unknown(out);
}

/* --- the switch --- */

static void evaluate_node(evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                          qf_abstract *out) {
    const qf_graph *graph = e->labels->graph;
    qf_axes next;
    set_unknown(out);
    switch (qf_node_op(graph, node)) {
    case QF_OP_cast: evaluate_cast(e, depth, value, node, axes, out); return;
    case QF_OP_slice:
        if (through_slice(e, node, axes, &next)) evaluate(e, depth, qf_node_operand(graph, node, 0), &next, out);
        break;
    case QF_OP_split:
        if (through_split(e, value, node, axes, &next)) evaluate(e, depth, qf_node_operand(graph, node, 0), &next, out);
        break;
    case QF_OP_full:
        next = (qf_axes){.rank = 0};
        if (qf_value_rank(graph, qf_node_operand(graph, node, 0)) == 0)
            evaluate(e, depth, qf_node_operand(graph, node, 0), &next, out);
        return;
    case QF_OP_iota: evaluate_iota(e, node, axes, out); return;
    case QF_OP_gather:
        evaluate_gather(e, depth, node, axes, out);
        if (out->kind == QF_ABSTRACT_UNKNOWN) evaluate_uniform_source(e, depth, qf_node_operand(graph, node, 0), out);
        break;
    case QF_OP_gather_nd:
    case QF_OP_gather_elements: evaluate_uniform_source(e, depth, qf_node_operand(graph, node, 0), out); return;
    case QF_OP_cumulative_sum: evaluate_running_sum(e, depth, node, axes, out); return;
    case QF_OP_triangle: evaluate_triangle(e, depth, value, node, axes, out); return;
    case QF_OP_neg: evaluate_negation(e, depth, node, axes, out); return;
    case QF_OP_not: evaluate_not(e, depth, node, axes, out); return;
    case QF_OP_and:
    case QF_OP_or: evaluate_logic(e, depth, value, node, axes, out); return;
    case QF_OP_where: evaluate_where(e, depth, node, axes, out); return;
    case QF_OP_add:
    case QF_OP_sub:
    case QF_OP_mul:
    case QF_OP_div:
    case QF_OP_minimum:
    case QF_OP_maximum: evaluate_arithmetic(e, depth, node, axes, out); return;
    case QF_OP_equal:
    case QF_OP_less:
    case QF_OP_less_equal:
    case QF_OP_greater:
    case QF_OP_greater_equal: evaluate_comparison(e, depth, value, node, axes, out); return;
    default: return;
    }
    if (out->kind == QF_ABSTRACT_CONDITION && !rebase_origins(e, value, axes, &out->condition)) set_unknown(out);
}

static void evaluate(evaluation *e, uint32_t depth, qf_value value, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    set_unknown(out);
    if (depth == MAX_DEPTH || e->visits == MAX_VISITS || qf_value_rank(graph, value) != axes->rank) return;
    e->visits++;
    if (!uniform(e, value, out)) {
        qf_node node = qf_value_producer(graph, value);
        const qf_literal *literal = qf_value_literal(graph, value);
        qf_value source;
        qf_axes next;
        qf_op op = qf_node_op(graph, node);
        set_unknown(out);
        if (literal || op == QF_OP_parameter) {
            if (!qf_band_fit(labels, value, literal, axes, out)) set_unknown(out);
        } else if (op != QF_OP_gather && op != QF_OP_concat &&
                   qf_labelling_through_layout(labels, value, axes, &source, &next)) {
            evaluate(e, depth + 1, source, &next, out);
        } else if (node.id) {
            evaluate_node(e, depth + 1, value, node, axes, out);
        }
    }
    round_numbers(qf_value_dtype(graph, value), out);
    if (out->kind == QF_ABSTRACT_UNKNOWN && kind_of(e, value) == QF_DTYPE_KIND_BOOL) {
        qf_condition condition;
        if (qf_condition_opaque(labels, value, axes, false, &condition)) set_condition(out, condition);
    }
}

void qf_mask_evaluate(qf_labelling *labels, qf_value value, const qf_axes *axes, qf_abstract *out) {
    evaluation e = {.labels = labels};
    evaluate(&e, 0, value, axes, out);
}
