/* Owns: emitting nodes: the ones that mappings of every frontend need.
 * Does not own: which op becomes which (onnx/map_*.c, pt2/map_*.c).
 * Next: onnx/build.h, pt2/build.h. */
#include "frontends/emit.h"

#include <stdio.h>

#include "base/convert.h"

static uint32_t rank_of(qf_import_target to, qf_value value) {
    return value.id ? qf_value_rank(to.graph, value) : QF_UNRANKED;
}

static qf_dim dim_of(qf_import_target to, qf_value value, int32_t axis) {
    return value.id ? qf_type_dim(to.graph->context, qf_value_type(to.graph, value), axis) : (qf_dim){0};
}

qf_node qf_import_node(qf_import_target to, qf_op op, const qf_value *operands, uint32_t count,
                       const qf_attribute *attributes, uint32_t result_count) {
    if (*to.failed) return (qf_node){0};
    if (to.node_count && ++*to.node_count > to.max_nodes) {
        qf_position position = {.location = to.where};
        (void)qf_fail(to.graph->context, QF_ERROR_LIMIT, &position, "more than %llu nodes",
                      (unsigned long long)to.max_nodes);
        *to.failed = true;
        return (qf_node){0};
    }
    qf_node_spec spec = {.op = op,
                         .operands = operands,
                         .operand_count = count,
                         .attributes = attributes,
                         .result_count = result_count,
                         .location = to.location};
    qf_node node = qf_graph_insert(to.graph, (qf_node){0}, &spec);
    if (!node.id) *to.failed = true;
    return node;
}

qf_value qf_import_op(qf_import_target to, qf_op op, const qf_value *operands, uint32_t count,
                      const qf_attribute *attributes) {
    const qf_op_info *info = qf_op_info_of(op);
    for (uint32_t i = 0; i < count && i < info->required_operands; i++)
        if (!operands[i].id) {
            *to.failed = true;
            return (qf_value){0};
        }
    qf_node node = qf_import_node(to, op, operands, count, attributes, 0);
    return node.id ? qf_node_result(to.graph, node, 0) : (qf_value){0};
}

qf_value qf_import_cast(qf_import_target to, qf_value x, qf_dtype dtype, bool saturate) {
    if (x.id && qf_value_dtype(to.graph, x) == dtype) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_cast, attributes);
    attributes[QF_ATTR(cast, dtype)].integer = dtype;
    attributes[QF_ATTR(cast, saturate)].integer = saturate;
    return qf_import_op(to, QF_OP_cast, &x, 1, attributes);
}

static bool dims_known(qf_import_target to, const qf_dim *dims, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!dims[i].id) *to.failed = true;
    return !*to.failed;
}

static bool has_dims(qf_import_target to, qf_value x, const qf_dim *dims, uint32_t rank) {
    if (rank_of(to, x) != rank) return false;
    const qf_dim *own = qf_value_dims(to.graph, x);
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_equal(own[i], dims[i])) return false;
    return true;
}

static qf_value emit_shaped(qf_import_target to, qf_op op, uint32_t attribute, qf_value x, const qf_dim *dims,
                            uint32_t rank) {
    if (!x.id || !dims_known(to, dims, rank)) return (qf_value){0};
    if (has_dims(to, x, dims, rank)) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, op, attributes);
    attributes[attribute] = (qf_attribute){.dims = dims, .count = rank};
    return qf_import_op(to, op, &x, 1, attributes);
}

qf_value qf_import_view(qf_import_target to, qf_value x, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(to, QF_OP_view, QF_ATTR(view, shape), x, dims, rank);
}

qf_value qf_import_expand(qf_import_target to, qf_value x, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(to, QF_OP_expand, QF_ATTR(expand, shape), x, dims, rank);
}

qf_value qf_import_permute(qf_import_target to, qf_value x, const int64_t *order, uint32_t rank) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_permute, attributes);
    attributes[QF_ATTR(permute, order)] = (qf_attribute){.ints = order, .count = rank};
    return qf_import_op(to, QF_OP_permute, &x, 1, attributes);
}

qf_value qf_import_concat(qf_import_target to, const qf_value *parts, uint32_t count, uint32_t axis) {
    for (uint32_t i = 0; i < count; i++)
        if (!parts[i].id) *to.failed = true;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_concat, attributes);
    attributes[QF_ATTR(concat, axis)].integer = axis;
    return qf_import_op(to, QF_OP_concat, parts, count, attributes);
}

qf_value qf_import_slice_axis(qf_import_target to, qf_value x, uint32_t axis, qf_dim start, qf_dim end, int64_t step) {
    uint32_t rank = rank_of(to, x);
    if (rank > QF_MAX_RANK || axis >= rank) {
        *to.failed = true;
        return (qf_value){0};
    }
    qf_dim starts[QF_MAX_RANK], ends[QF_MAX_RANK];
    int64_t steps[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = i == axis ? start : qf_dim_constant(to.graph->context, 0);
        ends[i] = i == axis ? end : dim_of(to, x, (int32_t)i);
        steps[i] = i == axis ? step : 1;
    }
    if (!dims_known(to, starts, rank) || !dims_known(to, ends, rank)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_slice, attributes);
    attributes[QF_ATTR(slice, starts)] = (qf_attribute){.dims = starts, .count = rank};
    attributes[QF_ATTR(slice, ends)] = (qf_attribute){.dims = ends, .count = rank};
    attributes[QF_ATTR(slice, steps)] = (qf_attribute){.ints = steps, .count = rank};
    return qf_import_op(to, QF_OP_slice, &x, 1, attributes);
}

/* The reductions have the same columns. */
qf_value qf_import_reduce(qf_import_target to, qf_op op, qf_value x, const int64_t *axes, uint32_t count, bool keep) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, op, attributes);
    attributes[QF_ATTR(reduce_sum, axes)] = (qf_attribute){.ints = axes, .count = count};
    attributes[QF_ATTR(reduce_sum, keep)].integer = keep;
    return qf_import_op(to, op, &x, 1, attributes);
}

qf_value qf_import_contract(qf_import_target to, const char *equation, qf_value a, qf_value b) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_contract, attributes);
    attributes[QF_ATTR(contract, equation)].string = qf_intern_c(to.graph->context, equation);
    return qf_import_op(to, QF_OP_contract, (qf_value[]){a, b}, 2, attributes);
}

/* --- products --- */
/* The labels of one operand of a product with batch axes: batch ones from the shared list, then two of its own. A batch
 * axis of size 1 against another size carries no label: the operand is viewed without it. */
typedef struct side {
    qf_dim dims[QF_MAX_RANK];
    char labels[QF_MAX_RANK + 1];
    uint32_t rank;
} side;

static void keep(side *out, qf_dim dim, char label) {
    out->dims[out->rank] = dim;
    out->labels[out->rank++] = label;
    out->labels[out->rank] = '\0';
}

qf_value qf_import_matmul(qf_import_target to, qf_value a, qf_value b, bool swap_a, bool swap_b) {
    const qf_context *context = to.graph->context;
    uint32_t a_rank = rank_of(to, a), b_rank = rank_of(to, b);
    if (!a_rank || !b_rank || a_rank > QF_MAX_RANK || b_rank > QF_MAX_RANK) {
        *to.failed = true;
        return (qf_value){0};
    }
    uint32_t a_batch = a_rank > 2 ? a_rank - 2 : 0, b_batch = b_rank > 2 ? b_rank - 2 : 0;
    uint32_t batch = a_batch > b_batch ? a_batch : b_batch, out_count = 0;
    side left = {0}, right = {0};
    char result[QF_MAX_RANK + 3];
    for (uint32_t i = 0; i < batch; i++) {
        char label = (char)('a' + i);
        bool in_a = i + a_batch >= batch, in_b = i + b_batch >= batch;
        qf_dim from_a = in_a ? dim_of(to, a, (int32_t)(i + a_batch - batch)) : (qf_dim){0};
        qf_dim from_b = in_b ? dim_of(to, b, (int32_t)(i + b_batch - batch)) : (qf_dim){0};
        bool one_a = in_a && in_b && qf_dim_is(context, from_a, 1) && !qf_dim_is(context, from_b, 1);
        bool one_b = in_a && in_b && qf_dim_is(context, from_b, 1) && !qf_dim_is(context, from_a, 1);
        if (in_a && !one_a) keep(&left, from_a, label);
        if (in_b && !one_b) keep(&right, from_b, label);
        result[out_count++] = label;
    }
    char row = 'm', column = 'n', inner = 'k';
    for (uint32_t i = a_batch; i < a_rank; i++) {
        bool is_inner = a_rank == 1 || (i == a_rank - 1) != swap_a;
        keep(&left, dim_of(to, a, (int32_t)i), is_inner ? inner : row);
    }
    for (uint32_t i = b_batch; i < b_rank; i++) {
        bool is_inner = b_rank == 1 || (i == b_rank - 2) != swap_b;
        keep(&right, dim_of(to, b, (int32_t)i), is_inner ? inner : column);
    }
    if (a_rank > 1) result[out_count++] = row;
    if (b_rank > 1) result[out_count++] = column;
    result[out_count] = '\0';
    char equation[64];
    (void)snprintf(equation, sizeof equation, "%s,%s->%s", left.labels, right.labels, result);
    return qf_import_contract(to, equation, qf_import_view(to, a, left.dims, left.rank),
                              qf_import_view(to, b, right.dims, right.rank));
}

/* --- values made from nothing --- */
qf_value qf_import_gather(qf_import_target to, qf_value x, qf_value indices, uint32_t axis) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_gather, attributes);
    attributes[QF_ATTR(gather, axis)].integer = axis;
    return qf_import_op(to, QF_OP_gather, (qf_value[]){x, indices}, 2, attributes);
}

qf_value qf_import_iota(qf_import_target to, qf_dtype dtype, qf_dim count, qf_dim start, qf_dim step) {
    if (!dims_known(to, (qf_dim[]){count, start, step}, 3)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_iota, attributes);
    attributes[QF_ATTR(iota, shape)] = (qf_attribute){.dims = &count, .count = 1};
    attributes[QF_ATTR(iota, dtype)].integer = dtype;
    attributes[QF_ATTR(iota, start)].dim = start;
    attributes[QF_ATTR(iota, step)].dim = step;
    return qf_import_op(to, QF_OP_iota, NULL, 0, attributes);
}

static int64_t to_integer(double number) {
    if (!(number > -9223372036854775808.0)) return number < 0 ? INT64_MIN : 0; /* NaN: 0 */
    return number >= 9223372036854775808.0 ? INT64_MAX : (int64_t)number;
}

qf_value qf_import_number(qf_import_target to, qf_dtype dtype, double number, bool saturate) {
    union {
        uint8_t bytes[8];
        double aligned;
    } element = {{0}};
    if (qf_dtype_is_float(dtype))
        qf_store_f64(dtype, element.bytes, 0, number, saturate);
    else
        qf_store_i64(dtype, element.bytes, 0, dtype == QF_I1 ? number != 0 : to_integer(number));
    qf_literal literal = {.type = qf_type_tensor(to.graph->context, dtype, NULL, 0),
                          .size = qf_dtype_bytes(dtype, 1),
                          .data = element.bytes};
    if (!literal.type.id) *to.failed = true;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &literal;
    return qf_import_op(to, QF_OP_constant, NULL, 0, attributes);
}

qf_value qf_import_full(qf_import_target to, qf_value value, const qf_dim *dims, uint32_t rank) {
    if (!dims_known(to, dims, rank)) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_full, attributes);
    attributes[QF_ATTR(full, shape)] = (qf_attribute){.dims = dims, .count = rank};
    return qf_import_op(to, QF_OP_full, &value, 1, attributes);
}

qf_value qf_import_symbolic(qf_import_target to, const qf_dim *dims, uint32_t count, bool scalar) {
    if (!dims_known(to, dims, count)) return (qf_value){0};
    int64_t length = count, number;
    if (scalar && qf_dim_is_constant(to.graph->context, dims[0], &number))
        return qf_import_number(to, QF_I64, (double)number, true);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(to.graph, QF_OP_symbolic, attributes);
    attributes[QF_ATTR(symbolic, values)] = (qf_attribute){.dims = dims, .count = count};
    attributes[QF_ATTR(symbolic, shape)] = (qf_attribute){.ints = &length, .count = scalar ? 0 : 1};
    return qf_import_op(to, QF_OP_symbolic, NULL, 0, attributes);
}
