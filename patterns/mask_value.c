/* Owns: the walk through mask expressions, and the rules of ops that move or make indices.
 * Does not own: elementwise ops (mask_elementwise.c), constants (band.c).
 * Next: mask_elementwise.c. */
#include "patterns/mask_rules.h"

#include <math.h>

#include "base/convert.h"

#define MAX_DEPTH  48
#define MAX_VISITS 1024

qf_dtype_kind qf_mask_kind(const qf_mask_evaluation *e, qf_value value) {
    return qf_dtype_kind_of(qf_value_dtype(e->labels->graph, value));
}

/* What the op's result dtype makes of a number. */
static double rounded(qf_dtype dtype, double number) {
    if (dtype == QF_F32) return (double)(float)number;
    if (qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_FLOAT && dtype != QF_F64)
        return (double)qf_round_f32(dtype, (float)number, false);
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER ? trunc(number) : number;
}

/* Whether integers of 8 bits, which wrap, hold the number. */
static bool holds_number(qf_dtype dtype, double number) {
    if (dtype == QF_I8) return number >= -128.0 && number <= 127.0;
    return dtype != QF_U8 || (number >= 0.0 && number <= 255.0);
}

/* What is left of numbers that wrapped is not followed; indices may wrap at some size. */
static bool may_wrap(const qf_mask_evaluation *e, qf_dtype dtype, const qf_abstract *out) {
    double number;
    if (dtype != QF_I8 && dtype != QF_U8) return false;
    if (out->kind == QF_ABSTRACT_SELECT) return !holds_number(dtype, out->a) || !holds_number(dtype, out->b);
    if (out->kind != QF_ABSTRACT_NUMBER && out->kind != QF_ABSTRACT_INTEGER) return false;
    return !qf_abstract_number(e, out, &number) || !holds_number(dtype, number);
}

static void round_numbers(const qf_mask_evaluation *e, qf_dtype dtype, qf_abstract *out) {
    if (out->kind == QF_ABSTRACT_NUMBER)
        qf_abstract_set_number(out, rounded(dtype, out->number));
    else if (out->kind == QF_ABSTRACT_SELECT)
        qf_abstract_set_select(out, out->condition, rounded(dtype, out->a), rounded(dtype, out->b));
    if (may_wrap(e, dtype, out)) qf_abstract_set_unknown(out);
}

/* A boolean value is the conjunction of its clauses, so that it may stand for the origin of each: needed where the
 * clauses come from a tensor that is read at shifted indices. */
static bool rebase_origins(qf_mask_evaluation *e, qf_value value, const qf_axes *axes, qf_condition *condition) {
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
static bool uniform(qf_mask_evaluation *e, qf_value value, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    qf_dtype_kind kind = qf_mask_kind(e, value);
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
        qf_abstract_set_condition(out, qf_condition_constant(number != 0.0));
    } else if (kind == QF_DTYPE_KIND_INTEGER) {
        out->kind = QF_ABSTRACT_INTEGER;
        return qf_affine_integer(labels, (int64_t)number, &out->integer);
    } else {
        qf_abstract_set_number(out, number);
    }
    return true;
}

/* --- index shifts --- */

/* Labels of a tensor that is read at `form` along `axis`: a fresh atom whose index is that form. */
static bool defined_axis(qf_mask_evaluation *e, qf_dim extent, const qf_affine *form, qf_axis *out) {
    qf_labelling *labels = e->labels;
    if (!qf_labelling_new(labels, extent, out)) return false;
    if (!out->count) return true;
    const qf_affine *kept = qf_arena_copy(&labels->arena, form, sizeof *form);
    labels->atoms[out->atoms[0]].definition = kept;
    return kept != NULL;
}

static bool shifted_axis(qf_mask_evaluation *e, qf_axis axis, qf_dim start, int64_t step, qf_dim extent, qf_axis *out) {
    qf_affine index, form;
    return qf_affine_constant(e->labels, start, &form) && qf_affine_of_axis(e->labels, axis, &index) &&
           qf_affine_add(e->labels, &form, &index, step, &form) && defined_axis(e, extent, &form, out);
}

static bool through_slice(qf_mask_evaluation *e, qf_node node, const qf_axes *axes, qf_axes *out) {
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

static bool through_split(qf_mask_evaluation *e, qf_value value, qf_node node, const qf_axes *axes, qf_axes *out) {
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
static void evaluate_gather(qf_mask_evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes,
                            qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    qf_value x = qf_node_operand(graph, node, 0), indices = qf_node_operand(graph, node, QF_IN(gather, indices));
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(gather, axis))->integer;
    uint32_t rank = qf_value_rank(graph, x), index_rank = qf_value_rank(graph, indices);
    qf_abstract_set_unknown(out);
    if (rank == QF_UNRANKED || index_rank == QF_UNRANKED || axis >= rank || axes->rank != rank - 1 + index_rank) return;
    qf_axes source = {.rank = rank}, index_axes = {.rank = index_rank};
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis) source.axis[i] = axes->axis[i < axis ? i : i - 1 + index_rank];
    for (uint32_t i = 0; i < index_rank; i++) index_axes.axis[i] = axes->axis[axis + i];
    qf_abstract index;
    qf_mask_evaluate_at(e, depth, indices, &index_axes, &index);
    if (index.kind != QF_ABSTRACT_INTEGER || !qf_affine_resolve(labels, &index.integer, &index.integer) ||
        !qf_affine_nonnegative(labels, &index.integer) ||
        !defined_axis(e, qf_value_dims(graph, x)[axis], &index.integer, &source.axis[axis]))
        return;
    qf_mask_evaluate_at(e, depth, x, &source, out);
}

/* Any selection from a uniform tensor is that number. */
static void evaluate_uniform_source(qf_mask_evaluation *e, uint32_t depth, qf_value source, qf_abstract *out) {
    const qf_graph *graph = e->labels->graph;
    qf_axes axes;
    qf_abstract_set_unknown(out);
    if (qf_value_rank(graph, source) == QF_UNRANKED ||
        !qf_labelling_of_dims(e->labels, qf_value_dims(graph, source), qf_value_rank(graph, source), &axes))
        return;
    qf_mask_evaluate_at(e, depth, source, &axes, out);
    bool value;
    if (out->kind == QF_ABSTRACT_NUMBER || (out->kind == QF_ABSTRACT_INTEGER && !out->integer.count) ||
        (out->kind == QF_ABSTRACT_CONDITION && qf_condition_is_constant(&out->condition, &value)))
        return;
    qf_abstract_set_unknown(out);
}

/* Zero outside of the triangle of the last two axes. */
static void evaluate_triangle(qf_mask_evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                              qf_abstract *out) {
    qf_labelling *labels = e->labels;
    qf_abstract x;
    qf_affine row, column, form;
    qf_condition inside, joined;
    double number;
    qf_mask_evaluate_at(e, depth, qf_node_operand(labels->graph, node, 0), axes, &x);
    qf_abstract_set_unknown(out);
    bool upper = qf_node_attribute(labels->graph, node, QF_ATTR(triangle, upper))->integer != 0;
    qf_dim diagonal = qf_node_attribute(labels->graph, node, QF_ATTR(triangle, diagonal))->dim;
    bool boolean = qf_mask_kind(e, value) == QF_DTYPE_KIND_BOOL;
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
        if (qf_condition_and(labels, &inside, &x.condition, &joined)) qf_abstract_set_condition(out, joined);
    } else if (qf_abstract_number(e, &x, &number)) {
        qf_abstract_set_select(out, inside, number, 0.0);
    }
}

static void evaluate_iota(qf_mask_evaluation *e, qf_node node, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    uint32_t axis = (uint32_t)qf_node_attribute(labels->graph, node, QF_ATTR(iota, axis))->integer;
    qf_dim start = qf_node_attribute(labels->graph, node, QF_ATTR(iota, start))->dim;
    qf_dim step = qf_node_attribute(labels->graph, node, QF_ATTR(iota, step))->dim;
    qf_dtype dtype = qf_value_dtype(labels->graph, qf_node_result(labels->graph, node, 0));
    qf_affine index, stride, form;
    qf_abstract_set_unknown(out);
    if (dtype == QF_F16 || dtype == QF_BF16 || axis >= axes->rank) return;
    if (qf_affine_of_axis(labels, axes->axis[axis], &index) && qf_affine_constant(labels, step, &stride) &&
        qf_affine_multiply(labels, &index, &stride, &form) && qf_affine_constant(labels, start, &out->integer) &&
        qf_affine_add(labels, &out->integer, &form, 1, &out->integer))
        out->kind = QF_ABSTRACT_INTEGER;
}

/* The running sum of a constant c is c * (index + 1), or c * index. */
static void evaluate_running_sum(qf_mask_evaluation *e, uint32_t depth, qf_node node, const qf_axes *axes,
                                 qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(cumulative_sum, axis))->integer;
    bool exclusive = qf_node_attribute(graph, node, QF_ATTR(cumulative_sum, exclusive))->integer != 0;
    bool reverse = qf_node_attribute(graph, node, QF_ATTR(cumulative_sum, reverse))->integer != 0;
    qf_abstract x;
    qf_affine position, offset;
    evaluate_uniform_source(e, depth, qf_node_operand(graph, node, 0), &x);
    qf_abstract_set_unknown(out);
    if (reverse || x.kind != QF_ABSTRACT_INTEGER || axis >= axes->rank) return;
    if (qf_affine_of_axis(labels, axes->axis[axis], &position) &&
        qf_affine_integer(labels, exclusive ? 0 : 1, &offset) &&
        qf_affine_add(labels, &position, &offset, 1, &position) &&
        qf_affine_multiply(labels, &position, &x.integer, &out->integer))
        out->kind = QF_ABSTRACT_INTEGER;
}

/* Zeros and ones in no band: an opaque condition. */
static void evaluate_constant(qf_mask_evaluation *e, qf_value value, const qf_axes *axes, qf_abstract *out) {
    qf_condition condition;
    qf_abstract_set_unknown(out);
    if (qf_mask_kind(e, value) != QF_DTYPE_KIND_BOOL && qf_constant_is_binary(e->labels->graph, value) &&
        qf_condition_opaque(e->labels, value, axes, false, &condition))
        qf_abstract_set_select(out, condition, 1.0, 0.0);
}

/* --- the switch --- */

static void evaluate_node(qf_mask_evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                          qf_abstract *out) {
    const qf_graph *graph = e->labels->graph;
    qf_axes next;
    qf_abstract_set_unknown(out);
    if (qf_mask_elementwise(e, depth, value, node, axes, out)) return;
    switch (qf_node_op(graph, node)) {
    case QF_OP_slice:
        if (through_slice(e, node, axes, &next))
            qf_mask_evaluate_at(e, depth, qf_node_operand(graph, node, 0), &next, out);
        break;
    case QF_OP_split:
        if (through_split(e, value, node, axes, &next))
            qf_mask_evaluate_at(e, depth, qf_node_operand(graph, node, 0), &next, out);
        break;
    case QF_OP_full:
        next = (qf_axes){.rank = 0};
        if (qf_value_rank(graph, qf_node_operand(graph, node, 0)) == 0)
            qf_mask_evaluate_at(e, depth, qf_node_operand(graph, node, 0), &next, out);
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
    default: return;
    }
    if (out->kind == QF_ABSTRACT_CONDITION && !rebase_origins(e, value, axes, &out->condition))
        qf_abstract_set_unknown(out);
}

void qf_mask_evaluate_at(qf_mask_evaluation *e, uint32_t depth, qf_value value, const qf_axes *axes, qf_abstract *out) {
    qf_labelling *labels = e->labels;
    const qf_graph *graph = labels->graph;
    qf_abstract_set_unknown(out);
    if (depth == MAX_DEPTH || e->visits == MAX_VISITS || qf_value_rank(graph, value) != axes->rank) return;
    e->visits++;
    if (!uniform(e, value, out)) {
        qf_node node = qf_value_producer(graph, value);
        const qf_literal *literal = qf_value_literal(graph, value);
        qf_value source;
        qf_axes next;
        qf_op op = qf_node_op(graph, node);
        qf_abstract_set_unknown(out);
        if (literal || op == QF_OP_parameter) {
            if (!qf_band_fit(labels, value, literal, axes, out)) evaluate_constant(e, value, axes, out);
        } else if (op != QF_OP_gather && op != QF_OP_concat &&
                   qf_labelling_through_layout(labels, value, axes, &source, &next)) {
            qf_mask_evaluate_at(e, depth + 1, source, &next, out);
        } else if (node.id) {
            evaluate_node(e, depth + 1, value, node, axes, out);
        }
    }
    round_numbers(e, qf_value_dtype(graph, value), out);
    if (out->kind == QF_ABSTRACT_UNKNOWN && qf_mask_kind(e, value) == QF_DTYPE_KIND_BOOL) {
        qf_condition condition;
        if (qf_condition_opaque(labels, value, axes, false, &condition)) qf_abstract_set_condition(out, condition);
    }
}

void qf_mask_evaluate(qf_labelling *labels, qf_value value, const qf_axes *axes, qf_abstract *out) {
    qf_mask_evaluation e = {.labels = labels};
    qf_mask_evaluate_at(&e, 0, value, axes, out);
}
