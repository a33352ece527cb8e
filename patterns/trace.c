/* Owns: scalar numbers, scalar multiples, quantise/dequantise pairs, constant trees.
 * Does not own: layout transfer (layout.c).
 * Next: operand.h. */
#include "patterns/trace.h"

#include <float.h>
#include <math.h>

#include "base/convert.h"

void qf_path_add(qf_path *path, qf_node node) {
    if (path && path->count < QF_COUNT_OF(path->nodes)) path->nodes[path->count++] = node;
}

bool qf_path_has(const qf_path *path, qf_node node) {
    for (uint32_t i = 0; i < path->count; i++)
        if (path->nodes[i].id == node.id) return true;
    return false;
}

/* --- scalar numbers --- */

static double rounded(qf_dtype dtype, double number) {
    if (dtype == QF_F64 || !qf_dtype_is_float(dtype)) return number;
    if (dtype == QF_F32) return (double)(float)number;
    return (double)qf_round_f32(dtype, (float)number, false);
}

static bool literal_number(const qf_graph *graph, const qf_literal *literal, double *out) {
    uint64_t count;
    qf_dtype dtype = qf_type_dtype(graph->context, literal->type);
    if (!qf_type_static_count(graph->context, literal->type, &count) || count == 0 || count > 4096) return false;
    *out = qf_load_f64(dtype, literal->data, 0);
    for (uint64_t i = 1; i < count; i++)
        if (qf_load_f64(dtype, literal->data, (int64_t)i) != *out) return false;
    return true;
}

static bool binary_number(qf_op op, double a, double b, double *out) {
    switch (op) {
    case QF_OP_add: *out = a + b; return true;
    case QF_OP_sub: *out = a - b; return true;
    case QF_OP_mul: *out = a * b; return true;
    case QF_OP_div: *out = a / b; return true;
    case QF_OP_pow: *out = pow(a, b); return true;
    case QF_OP_minimum: *out = a < b ? a : b; return a == a && b == b;
    case QF_OP_maximum: *out = a > b ? a : b; return a == a && b == b;
    default: return false;
    }
}

static bool unary_number(qf_op op, double x, double *out) {
    switch (op) {
    case QF_OP_neg: *out = -x; return true;
    case QF_OP_sqrt: *out = sqrt(x); return true;
    case QF_OP_rsqrt: *out = 1.0 / sqrt(x); return true;
    case QF_OP_reciprocal: *out = 1.0 / x; return true;
    case QF_OP_exp: *out = exp(x); return true;
    default: return false;
    }
}

static bool integer_element(const qf_labelling *labels, qf_value value, double *out) {
    const qf_dim *elements;
    uint32_t count;
    int64_t number;
    qf_dtype_kind kind = qf_dtype_kind_of(qf_value_dtype(labels->graph, value));
    if (kind != QF_DTYPE_KIND_INTEGER && kind != QF_DTYPE_KIND_BOOL) return false;
    if (!labels->symbolic || !qf_symbolic_elements(labels->symbolic, value, &elements, &count) || count != 1 ||
        !qf_dim_is_constant(labels->context, elements[0], &number))
        return false;
    *out = (double)number;
    return true;
}

static bool scalar_number(const qf_labelling *labels, qf_value value, uint32_t *budget, double *out) {
    const qf_graph *graph = labels->graph;
    if (!*budget) return false;
    --*budget;
    const qf_literal *literal = qf_value_literal(graph, value);
    if (literal) return literal_number(graph, literal, out);
    qf_node node = qf_value_producer(graph, value);
    if (!node.id) return false;
    if (integer_element(labels, value, out)) return true;
    qf_op op = qf_node_op(graph, node);
    qf_dtype dtype = qf_value_dtype(graph, value);
    double a, b;
    switch (op) {
    case QF_OP_full:
    case QF_OP_view:
    case QF_OP_permute:
    case QF_OP_expand:
    case QF_OP_copy: return scalar_number(labels, qf_node_operand(graph, node, 0), budget, out);
    case QF_OP_cast:
        if (!qf_dtype_is_float(dtype) || !scalar_number(labels, qf_node_operand(graph, node, 0), budget, &a))
            return false;
        *out = rounded(dtype, a);
        return true;
    case QF_OP_neg:
    case QF_OP_sqrt:
    case QF_OP_rsqrt:
    case QF_OP_reciprocal:
    case QF_OP_exp:
        if (!qf_dtype_is_float(dtype) || !scalar_number(labels, qf_node_operand(graph, node, 0), budget, &a) ||
            !unary_number(op, a, out))
            return false;
        *out = rounded(dtype, *out);
        return true;
    case QF_OP_add:
    case QF_OP_sub:
    case QF_OP_mul:
    case QF_OP_div:
    case QF_OP_pow:
    case QF_OP_minimum:
    case QF_OP_maximum:
        if (!qf_dtype_is_float(dtype) || !scalar_number(labels, qf_node_operand(graph, node, 0), budget, &a) ||
            !scalar_number(labels, qf_node_operand(graph, node, 1), budget, &b) || !binary_number(op, a, b, out))
            return false;
        *out = rounded(dtype, *out);
        return true;
    default: return false;
    }
}

bool qf_scalar_number(const qf_labelling *labels, qf_value value, double *out) {
    uint32_t budget = 32;
    return value.id && scalar_number(labels, value, &budget, out);
}

bool qf_same_dims(const qf_labelling *labels, qf_value a, qf_value b) {
    uint32_t rank = qf_value_rank(labels->graph, a);
    if (rank == QF_UNRANKED || rank != qf_value_rank(labels->graph, b)) return false;
    const qf_dim *x = qf_value_dims(labels->graph, a), *y = qf_value_dims(labels->graph, b);
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_equal(x[i], y[i])) return false;
    return true;
}

bool qf_scalar_multiple(const qf_labelling *labels, qf_value value, qf_value *out_source, double *out_factor) {
    const qf_graph *graph = labels->graph;
    qf_node node = qf_value_producer(graph, value);
    qf_op op = qf_node_op(graph, node);
    if (!node.id || !qf_dtype_is_float(qf_value_dtype(graph, value))) return false;
    qf_value a = qf_node_operand(graph, node, 0), b = qf_node_operand(graph, node, 1);
    double number;
    if (op == QF_OP_neg) {
        *out_source = a;
        *out_factor = -1.0;
        return true;
    }
    if (op == QF_OP_mul && qf_same_dims(labels, b, value) && qf_scalar_number(labels, a, &number)) {
        *out_source = b;
        *out_factor = number;
        return true;
    }
    if ((op != QF_OP_mul && op != QF_OP_div) || !qf_same_dims(labels, a, value) ||
        !qf_scalar_number(labels, b, &number) || (op == QF_OP_div && number == 0.0))
        return false;
    *out_source = a;
    *out_factor = op == QF_OP_mul ? number : 1.0 / number;
    return true;
}

/* The same value, or two scalars that hold the same number (two NaNs are the same). */
static bool same_number(const qf_labelling *labels, qf_value a, qf_value b) {
    if (a.id == b.id) return true;
    double x, y;
    if (!a.id || !b.id || !qf_scalar_number(labels, a, &x) || !qf_scalar_number(labels, b, &y)) return false;
    return x == y || (isnan(x) && isnan(y));
}

/* --- casts and roots --- */

bool qf_is_float_cast(const qf_labelling *labels, qf_value value, qf_value *out_source, bool *out_widens) {
    const qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_cast);
    if (!node.id) return false;
    *out_source = qf_node_operand(graph, node, 0);
    qf_dtype to = qf_value_dtype(graph, value), from = qf_value_dtype(graph, *out_source);
    if (qf_dtype_kind_of(to) != QF_DTYPE_KIND_FLOAT || qf_dtype_kind_of(from) != QF_DTYPE_KIND_FLOAT) return false;
    if (qf_dtype_is_float8(to)) return false; /* that quantises */
    *out_widens = qf_dtype_bits(to) > qf_dtype_bits(from);
    return true;
}

bool qf_axes_lack(qf_labelling *labels, const qf_axes *axes, qf_axis axis) {
    qf_axis all, common;
    return qf_labelling_flatten(labels, axes, &all) && qf_labelling_resolve(labels, axis, &axis) &&
           qf_labelling_filter(labels, all, axis, true, &common) && !common.count;
}

void qf_trace_root(qf_labelling *labels, qf_path *path, qf_value *value, qf_axes *axes) {
    for (;;) {
        qf_value source;
        qf_axes next;
        bool widens;
        if (qf_is_float_cast(labels, *value, &source, &widens))
            next = *axes;
        else if (!qf_labelling_through_layout(labels, *value, axes, &source, &next))
            return;
        qf_path_add(path, qf_value_producer(labels->graph, *value));
        *value = source;
        *axes = next;
    }
}

/* --- pairs --- */

static bool zero_point_is_zero(const qf_labelling *labels, qf_node node, uint32_t index) {
    qf_value zero = qf_node_operand(labels->graph, node, index);
    double number;
    return !zero.id || (qf_scalar_number(labels, zero, &number) && number == 0.0);
}

/* A scale of one number, whatever its rank. */
static bool is_per_tensor(const qf_labelling *labels, qf_value scale) {
    uint32_t rank = qf_value_rank(labels->graph, scale);
    if (rank == QF_UNRANKED) return false;
    const qf_dim *dims = qf_value_dims(labels->graph, scale);
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_is(labels->context, dims[i], 1)) return false;
    return true;
}

/* The quantise goes there with the scale by which the dequantise comes back: the same one, or, for a graph that
 * multiplies, its reciprocal as far as f32 holds one. */
static bool same_scale(const qf_labelling *labels, qf_node quantize, qf_value back) {
    const qf_graph *graph = labels->graph;
    qf_value there = qf_node_operand(graph, quantize, QF_IN(quantize, scale));
    if (qf_node_attribute(graph, quantize, QF_ATTR(quantize, mode))->integer != QF_VALUE_mul)
        return same_number(labels, there, back);
    double factor, scale;
    return qf_scalar_number(labels, there, &factor) && qf_scalar_number(labels, back, &scale) &&
           fabs(factor * scale - 1.0) <= FLT_EPSILON;
}

bool qf_pair_read(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes, qf_pair *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_dequantize);
    if (!node.id) return false;
    *out = (qf_pair){.stored = qf_node_operand(graph, node, QF_IN(dequantize, x)),
                     .scale = qf_node_operand(graph, node, QF_IN(dequantize, scale)),
                     .axes = *axes,
                     .dequantize = node,
                     .scale_axis = (int32_t)qf_node_attribute(graph, node, QF_ATTR(dequantize, axis))->integer};
    out->dtype = qf_value_dtype(graph, out->stored);
    if (qf_node_attribute(graph, node, QF_ATTR(dequantize, group))->integer ||
        !zero_point_is_zero(labels, node, QF_IN(dequantize, zero_point)) ||
        axes->rank != qf_value_rank(graph, out->stored))
        return false;
    if (is_per_tensor(labels, out->scale)) out->scale_axis = -1;
    qf_path_add(path, node);
    if (out->scale_axis >= 0) return true;
    qf_value source;
    qf_axes next;
    qf_value walked = out->stored;
    qf_axes walked_axes = out->axes;
    uint32_t mark = path ? path->count : 0;
    while (qf_labelling_through_layout(labels, walked, &walked_axes, &source, &next)) {
        qf_path_add(path, qf_value_producer(graph, walked));
        walked = source;
        walked_axes = next;
    }
    out->stored = walked;
    out->axes = walked_axes;
    qf_node quantize = qf_producer_of_op(graph, walked, QF_OP_quantize);
    if (!quantize.id || !is_per_tensor(labels, qf_node_operand(graph, quantize, QF_IN(quantize, scale))) ||
        !zero_point_is_zero(labels, quantize, QF_IN(quantize, zero_point))) {
        if (path) path->count = mark;
        return true;
    }
    qf_path_add(path, quantize);
    if (!same_scale(labels, quantize, out->scale)) return true;
    out->quantize = quantize;
    out->source = qf_node_operand(graph, quantize, QF_IN(quantize, x));
    return true;
}

/* --- constants and unknown ops --- */

static bool constant_tree(const qf_graph *graph, qf_value value, uint32_t *budget) {
    qf_node node = qf_value_producer(graph, value);
    if (!node.id || !*budget) return false;
    --*budget;
    qf_op op = qf_node_op(graph, node);
    if (op == QF_OP_constant || op == QF_OP_parameter) return true;
    if (op == QF_OP_full || op == QF_OP_iota) return true;
    if (!qf_op_has_trait(op, QF_TRAIT_PURE)) return false;
    const qf_node_data *data = qf_node_at(graph, node);
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (data->operands[i].value.id && !constant_tree(graph, data->operands[i].value, budget)) return false;
    return data->operand_count > 0;
}

bool qf_is_constant_tree(const qf_graph *graph, qf_value value) {
    uint32_t budget = 64;
    return constant_tree(graph, value, &budget);
}

static qf_node find_unknown(const qf_graph *graph, qf_value value, uint32_t *budget) {
    qf_node node = qf_value_producer(graph, value);
    if (!node.id || !*budget) return (qf_node){0};
    --*budget;
    if (qf_node_op(graph, node) == QF_OP_opaque) return node;
    const qf_node_data *data = qf_node_at(graph, node);
    for (uint32_t i = 0; i < data->operand_count; i++) {
        qf_value operand = data->operands[i].value;
        if (!operand.id || qf_value_rank(graph, operand) != QF_UNRANKED) continue;
        qf_node found = find_unknown(graph, operand, budget);
        if (found.id) return found;
    }
    return (qf_node){0};
}

qf_node qf_find_unknown(const qf_graph *graph, qf_value value) {
    uint32_t budget = 256;
    return find_unknown(graph, value, &budget);
}
