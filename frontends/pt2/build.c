/* Owns: emitting nodes for a node of the program.
 * Does not own: its arguments (arguments.c), which operators become which (map_*.c).
 * Next: arguments.c. */
#include "frontends/pt2/build.h"

#include <stdio.h>

#include "base/convert.h"

uint32_t qf_pt2_rank(const qf_pt2_call *call, qf_value value) {
    return value.id ? qf_value_rank(qf_pt2_graph(call), value) : QF_UNRANKED;
}

qf_dtype qf_pt2_dtype_of(const qf_pt2_call *call, qf_value value) {
    return value.id ? qf_value_dtype(qf_pt2_graph(call), value) : QF_DTYPE_NONE;
}

qf_dim qf_pt2_dim_of(const qf_pt2_call *call, qf_value value, int32_t axis) {
    if (!value.id) return (qf_dim){0};
    return qf_type_dim(call->import->context, qf_value_type(qf_pt2_graph(call), value), axis);
}

qf_dim qf_pt2_constant(const qf_pt2_call *call, int64_t value) {
    return qf_dim_constant(call->import->context, value);
}

qf_node qf_pt2_emit_node(qf_pt2_call *call, qf_op op, const qf_value *operands, uint32_t count,
                         const qf_attribute *attributes, uint32_t result_count) {
    qf_pt2_import *import = call->import;
    if (import->failed) return (qf_node){0};
    if (++import->node_count > import->options.max_nodes) {
        (void)qf_pt2_fault(call, QF_ERROR_LIMIT, "more than %llu nodes", (unsigned long long)import->options.max_nodes);
        return (qf_node){0};
    }
    qf_node_spec spec = {.op = op,
                         .operands = operands,
                         .operand_count = count,
                         .attributes = attributes,
                         .result_count = result_count,
                         .location = call->location};
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, &spec);
    if (!node.id) import->failed = true;
    return node;
}

qf_value qf_pt2_emit(qf_pt2_call *call, qf_op op, const qf_value *operands, uint32_t count,
                     const qf_attribute *attributes) {
    const qf_op_info *info = qf_op_info_of(op);
    for (uint32_t i = 0; i < count && i < info->required_operands; i++)
        if (!operands[i].id) {
            call->import->failed = true;
            return (qf_value){0};
        }
    qf_node node = qf_pt2_emit_node(call, op, operands, count, attributes, 0);
    return node.id ? qf_node_result(qf_pt2_graph(call), node, 0) : (qf_value){0};
}

void qf_pt2_defaults(const qf_pt2_call *call, qf_op op, qf_attribute *attributes) {
    qf_attributes_default(qf_pt2_graph(call), op, attributes);
}

qf_value qf_pt2_unary(qf_pt2_call *call, qf_op op, qf_value x) {
    return qf_pt2_emit(call, op, &x, 1, NULL);
}

qf_value qf_pt2_binary(qf_pt2_call *call, qf_op op, qf_value a, qf_value b) {
    return qf_pt2_emit(call, op, (qf_value[]){a, b}, 2, NULL);
}

qf_value qf_pt2_where(qf_pt2_call *call, qf_value condition, qf_value a, qf_value b) {
    return qf_pt2_emit(call, QF_OP_where, (qf_value[]){condition, a, b}, 3, NULL);
}

qf_value qf_pt2_cast(qf_pt2_call *call, qf_value x, qf_dtype dtype) {
    if (!x.id || qf_pt2_dtype_of(call, x) == dtype) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_cast, attributes);
    attributes[QF_ATTR(cast, dtype)].integer = dtype;
    attributes[QF_ATTR(cast, saturate)].integer = false;
    return qf_pt2_emit(call, QF_OP_cast, &x, 1, attributes);
}

qf_value qf_pt2_bitcast(qf_pt2_call *call, qf_value x, qf_dtype dtype) {
    if (!x.id || qf_pt2_dtype_of(call, x) == dtype) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_bitcast, attributes);
    attributes[QF_ATTR(bitcast, dtype)].integer = dtype;
    return qf_pt2_emit(call, QF_OP_bitcast, &x, 1, attributes);
}

/* --- layout --- */
static bool dims_known(qf_pt2_call *call, const qf_dim *dims, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!dims[i].id) call->import->failed = true;
    return !call->import->failed;
}

static bool has_dims(const qf_pt2_call *call, qf_value x, const qf_dim *dims, uint32_t rank) {
    if (qf_pt2_rank(call, x) != rank) return false;
    const qf_dim *own = qf_value_dims(qf_pt2_graph(call), x);
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_equal(own[i], dims[i])) return false;
    return true;
}

static qf_value emit_shaped(qf_pt2_call *call, qf_op op, uint32_t attribute, qf_value x, const qf_dim *dims,
                            uint32_t rank) {
    if (!x.id || !dims_known(call, dims, rank)) return (qf_value){0};
    if (has_dims(call, x, dims, rank)) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, op, attributes);
    attributes[attribute] = (qf_attribute){.dims = dims, .count = rank};
    return qf_pt2_emit(call, op, &x, 1, attributes);
}

qf_value qf_pt2_view(qf_pt2_call *call, qf_value x, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(call, QF_OP_view, QF_ATTR(view, shape), x, dims, rank);
}

qf_value qf_pt2_expand(qf_pt2_call *call, qf_value x, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(call, QF_OP_expand, QF_ATTR(expand, shape), x, dims, rank);
}

qf_value qf_pt2_permute(qf_pt2_call *call, qf_value x, const int64_t *order, uint32_t rank) {
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) same &= order[i] == (int64_t)i;
    if (same) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_permute, attributes);
    attributes[QF_ATTR(permute, order)] = (qf_attribute){.ints = order, .count = rank};
    return qf_pt2_emit(call, QF_OP_permute, &x, 1, attributes);
}

qf_value qf_pt2_swap(qf_pt2_call *call, qf_value x, uint32_t a, uint32_t b) {
    int64_t order[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++) order[i] = i == a ? b : i == b ? a : i;
    return qf_pt2_permute(call, x, order, rank);
}

qf_value qf_pt2_concat(qf_pt2_call *call, const qf_value *parts, uint32_t count, uint32_t axis) {
    for (uint32_t i = 0; i < count; i++)
        if (!parts[i].id) call->import->failed = true;
    if (count == 1) return parts[0];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_concat, attributes);
    attributes[QF_ATTR(concat, axis)].integer = axis;
    return qf_pt2_emit(call, QF_OP_concat, parts, count, attributes);
}

qf_value qf_pt2_slice_axis(qf_pt2_call *call, qf_value x, uint32_t axis, qf_dim start, qf_dim end, int64_t step) {
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || axis >= rank) {
        call->import->failed = true;
        return (qf_value){0};
    }
    qf_dim starts[QF_MAX_RANK], ends[QF_MAX_RANK];
    int64_t steps[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = i == axis ? start : qf_pt2_constant(call, 0);
        ends[i] = i == axis ? end : qf_pt2_dim_of(call, x, (int32_t)i);
        steps[i] = i == axis ? step : 1;
    }
    if (!dims_known(call, starts, rank) || !dims_known(call, ends, rank)) return (qf_value){0};
    if (step == 1 && qf_dim_is(call->import->context, start, 0) &&
        qf_dim_equal(end, qf_pt2_dim_of(call, x, (int32_t)axis)))
        return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_slice, attributes);
    attributes[QF_ATTR(slice, starts)] = (qf_attribute){.dims = starts, .count = rank};
    attributes[QF_ATTR(slice, ends)] = (qf_attribute){.dims = ends, .count = rank};
    attributes[QF_ATTR(slice, steps)] = (qf_attribute){.ints = steps, .count = rank};
    return qf_pt2_emit(call, QF_OP_slice, &x, 1, attributes);
}

qf_value qf_pt2_put_part(qf_pt2_call *call, qf_value x, qf_value part, uint32_t axis, qf_dim start, qf_dim end) {
    qf_context *context = call->import->context;
    qf_value parts[3];
    uint32_t count = 0;
    qf_dim zero = qf_pt2_constant(call, 0), whole = qf_pt2_dim_of(call, x, (int32_t)axis);
    if (!qf_dim_is(context, start, 0)) parts[count++] = qf_pt2_slice_axis(call, x, axis, zero, start, 1);
    parts[count++] = part;
    if (!qf_dim_equal(end, whole)) parts[count++] = qf_pt2_slice_axis(call, x, axis, end, whole, 1);
    return qf_pt2_concat(call, parts, count, axis);
}

qf_value qf_pt2_unsqueeze(qf_pt2_call *call, qf_value x, uint32_t axis) {
    uint32_t rank = qf_pt2_rank(call, x);
    qf_dim dims[QF_MAX_RANK + 1];
    if (rank >= QF_MAX_RANK || axis > rank) {
        if (!call->import->failed)
            (void)qf_pt2_fault(call, QF_ERROR_LIMIT, "%s: a tensor of more than %d axes", call->target, QF_MAX_RANK);
        return (qf_value){0};
    }
    for (uint32_t i = 0; i <= rank; i++)
        dims[i] = i == axis ? qf_pt2_constant(call, 1) : qf_pt2_dim_of(call, x, (int32_t)(i - (i > axis)));
    return qf_pt2_view(call, x, dims, rank + 1);
}

qf_value qf_pt2_squeeze(qf_pt2_call *call, qf_value x, uint32_t axis) {
    uint32_t rank = qf_pt2_rank(call, x), count = 0;
    qf_dim dims[QF_MAX_RANK];
    if (rank > QF_MAX_RANK || axis >= rank) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis) dims[count++] = qf_pt2_dim_of(call, x, (int32_t)i);
    return qf_pt2_view(call, x, dims, count);
}

/* --- reductions and contractions --- */
/* The reductions have the same columns. */
qf_value qf_pt2_reduce(qf_pt2_call *call, qf_op op, qf_value x, const int64_t *axes, uint32_t count, bool keep) {
    if (count == 0) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, op, attributes);
    attributes[QF_ATTR(reduce_sum, axes)] = (qf_attribute){.ints = axes, .count = count};
    attributes[QF_ATTR(reduce_sum, keep)].integer = keep;
    return qf_pt2_emit(call, op, &x, 1, attributes);
}

qf_value qf_pt2_contract(qf_pt2_call *call, const char *equation, qf_value a, qf_value b) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_contract, attributes);
    attributes[QF_ATTR(contract, equation)].string = qf_intern_c(call->import->context, equation);
    return qf_pt2_emit(call, QF_OP_contract, (qf_value[]){a, b}, 2, attributes);
}

/* The labels of one operand: batch ones from the shared list, then two of its own. A batch axis of size 1 against
 * another size carries no label: the operand is viewed without it. */
typedef struct side {
    qf_dim dims[QF_MAX_RANK];
    char labels[QF_MAX_RANK + 1];
    uint32_t rank;
} side;

static void keep_label(side *out, qf_dim dim, char label) {
    out->dims[out->rank] = dim;
    out->labels[out->rank++] = label;
    out->labels[out->rank] = '\0';
}

qf_value qf_pt2_matmul(qf_pt2_call *call, qf_value a, qf_value b, bool swap_b) {
    qf_context *context = call->import->context;
    uint32_t a_rank = qf_pt2_rank(call, a), b_rank = qf_pt2_rank(call, b);
    if (!a_rank || !b_rank || a_rank > QF_MAX_RANK || b_rank > QF_MAX_RANK) {
        call->import->failed = true;
        return (qf_value){0};
    }
    uint32_t a_batch = a_rank > 2 ? a_rank - 2 : 0, b_batch = b_rank > 2 ? b_rank - 2 : 0;
    uint32_t batch = a_batch > b_batch ? a_batch : b_batch, out_count = 0;
    side left = {0}, right = {0};
    char result[QF_MAX_RANK + 3];
    for (uint32_t i = 0; i < batch; i++) {
        char label = (char)('a' + i);
        bool in_a = i + a_batch >= batch, in_b = i + b_batch >= batch;
        qf_dim from_a = in_a ? qf_pt2_dim_of(call, a, (int32_t)(i + a_batch - batch)) : (qf_dim){0};
        qf_dim from_b = in_b ? qf_pt2_dim_of(call, b, (int32_t)(i + b_batch - batch)) : (qf_dim){0};
        bool one_a = in_a && in_b && qf_dim_is(context, from_a, 1) && !qf_dim_is(context, from_b, 1);
        bool one_b = in_a && in_b && qf_dim_is(context, from_b, 1) && !qf_dim_is(context, from_a, 1);
        if (in_a && !one_a) keep_label(&left, from_a, label);
        if (in_b && !one_b) keep_label(&right, from_b, label);
        result[out_count++] = label;
    }
    for (uint32_t i = a_batch; i < a_rank; i++)
        keep_label(&left, qf_pt2_dim_of(call, a, (int32_t)i), i == a_rank - 1 ? 'k' : 'm');
    for (uint32_t i = b_batch; i < b_rank; i++) {
        bool is_inner = b_rank == 1 || (i == b_rank - 2) != swap_b;
        keep_label(&right, qf_pt2_dim_of(call, b, (int32_t)i), is_inner ? 'k' : 'n');
    }
    if (a_rank > 1) result[out_count++] = 'm';
    if (b_rank > 1) result[out_count++] = 'n';
    result[out_count] = '\0';
    char equation[64];
    (void)snprintf(equation, sizeof equation, "%s,%s->%s", left.labels, right.labels, result);
    return qf_pt2_contract(call, equation, qf_pt2_view(call, a, left.dims, left.rank),
                           qf_pt2_view(call, b, right.dims, right.rank));
}

/* --- values made from nothing --- */
qf_value qf_pt2_iota(qf_pt2_call *call, qf_dtype dtype, qf_dim count, qf_dim start, qf_dim step) {
    if (!dims_known(call, (qf_dim[]){count, start, step}, 3)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_iota, attributes);
    attributes[QF_ATTR(iota, shape)] = (qf_attribute){.dims = &count, .count = 1};
    attributes[QF_ATTR(iota, dtype)].integer = dtype;
    attributes[QF_ATTR(iota, start)].dim = start;
    attributes[QF_ATTR(iota, step)].dim = step;
    return qf_pt2_emit(call, QF_OP_iota, NULL, 0, attributes);
}

static int64_t to_integer(double number) {
    if (!(number > -9223372036854775808.0)) return number < 0 ? INT64_MIN : 0; /* NaN: 0 */
    return number >= 9223372036854775808.0 ? INT64_MAX : (int64_t)number;
}

qf_value qf_pt2_scalar(qf_pt2_call *call, qf_dtype dtype, double number) {
    union {
        uint8_t bytes[8];
        double aligned;
    } element = {{0}};
    if (qf_dtype_is_float(dtype))
        qf_store_f64(dtype, element.bytes, 0, number, false);
    else
        qf_store_i64(dtype, element.bytes, 0, dtype == QF_I1 ? number != 0 : to_integer(number));
    qf_literal literal = {.type = qf_type_tensor(call->import->context, dtype, NULL, 0),
                          .size = qf_dtype_bytes(dtype, 1),
                          .data = element.bytes};
    if (!literal.type.id) call->import->failed = true;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &literal;
    return qf_pt2_emit(call, QF_OP_constant, NULL, 0, attributes);
}

qf_value qf_pt2_filled(qf_pt2_call *call, qf_dtype dtype, double number, const qf_dim *dims, uint32_t rank) {
    qf_value value = qf_pt2_scalar(call, dtype, number);
    if (!dims_known(call, dims, rank)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_full, attributes);
    attributes[QF_ATTR(full, shape)] = (qf_attribute){.dims = dims, .count = rank};
    return qf_pt2_emit(call, QF_OP_full, &value, 1, attributes);
}

qf_value qf_pt2_like(qf_pt2_call *call, qf_value x, double number) {
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return (qf_value){0};
    return qf_pt2_filled(call, qf_pt2_dtype_of(call, x), number, qf_value_dims(qf_pt2_graph(call), x), rank);
}

qf_value qf_pt2_symbolic(qf_pt2_call *call, qf_dim dim) {
    int64_t number;
    if (!dims_known(call, &dim, 1)) return (qf_value){0};
    if (qf_dim_is_constant(call->import->context, dim, &number)) return qf_pt2_scalar(call, QF_I64, (double)number);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_symbolic, attributes);
    attributes[QF_ATTR(symbolic, values)] = (qf_attribute){.dims = &dim, .count = 1};
    attributes[QF_ATTR(symbolic, shape)] = (qf_attribute){.ints = NULL, .count = 0};
    return qf_pt2_emit(call, QF_OP_symbolic, NULL, 0, attributes);
}
