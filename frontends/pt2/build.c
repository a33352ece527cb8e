/* Owns: emitting nodes for a node of the program, as far as torch has words of its own for it.
 * Does not own: what every frontend emits (frontends/emit.h), the node's arguments (arguments.c).
 * Next: arguments.c. */
#include "frontends/pt2/build.h"

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

void qf_pt2_defaults(const qf_pt2_call *call, qf_op op, qf_attribute *attributes) {
    qf_attributes_default(qf_pt2_graph(call), op, attributes);
}

bool qf_pt2_is_single(const qf_pt2_call *call, qf_value value) {
    uint32_t rank = qf_pt2_rank(call, value);
    if (rank > QF_MAX_RANK) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_is(call->import->context, qf_pt2_dim_of(call, value, (int32_t)i), 1)) return false;
    return true;
}

qf_value qf_pt2_single(qf_pt2_call *call, qf_value value) {
    if (!qf_pt2_is_single(call, value)) return (qf_value){0};
    return qf_import_view(qf_pt2_target(call), qf_pt2_cast(call, value, QF_F32), NULL, 0);
}

qf_value qf_pt2_bitcast(qf_pt2_call *call, qf_value x, qf_dtype dtype) {
    if (!x.id || qf_pt2_dtype_of(call, x) == dtype) return x;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_bitcast, attributes);
    attributes[QF_ATTR(bitcast, dtype)].integer = dtype;
    return qf_import_op(qf_pt2_target(call), QF_OP_bitcast, &x, 1, attributes);
}

qf_value qf_pt2_permute(qf_pt2_call *call, qf_value x, const int64_t *order, uint32_t rank) {
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) same &= order[i] == (int64_t)i;
    return same ? x : qf_import_permute(qf_pt2_target(call), x, order, rank);
}

qf_value qf_pt2_swap(qf_pt2_call *call, qf_value x, uint32_t a, uint32_t b) {
    int64_t order[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++) order[i] = i == a ? b : i == b ? a : i;
    return qf_pt2_permute(call, x, order, rank);
}

qf_value qf_pt2_concat(qf_pt2_call *call, const qf_value *parts, uint32_t count, uint32_t axis) {
    return count == 1 && parts[0].id ? parts[0] : qf_import_concat(qf_pt2_target(call), parts, count, axis);
}

qf_value qf_pt2_slice_axis(qf_pt2_call *call, qf_value x, uint32_t axis, qf_dim start, qf_dim end, int64_t step) {
    bool whole = step == 1 && axis < qf_pt2_rank(call, x) && start.id && qf_dim_is(call->import->context, start, 0) &&
                 end.id && qf_dim_equal(end, qf_pt2_dim_of(call, x, (int32_t)axis));
    return whole ? x : qf_import_slice_axis(qf_pt2_target(call), x, axis, start, end, step);
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
    return qf_import_view(qf_pt2_target(call), x, dims, rank + 1);
}

qf_value qf_pt2_squeeze(qf_pt2_call *call, qf_value x, uint32_t axis) {
    uint32_t rank = qf_pt2_rank(call, x), count = 0;
    qf_dim dims[QF_MAX_RANK];
    if (rank > QF_MAX_RANK || axis >= rank) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis) dims[count++] = qf_pt2_dim_of(call, x, (int32_t)i);
    return qf_import_view(qf_pt2_target(call), x, dims, count);
}

qf_value qf_pt2_vector(qf_pt2_call *call, qf_value x) {
    if (!x.id) return x;
    qf_dim count = qf_dim_product(call->import->context, qf_value_dims(qf_pt2_graph(call), x), qf_pt2_rank(call, x));
    return qf_import_view(qf_pt2_target(call), x, &count, 1);
}

qf_value qf_pt2_like(qf_pt2_call *call, qf_value x, double number) {
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return (qf_value){0};
    return qf_pt2_filled(call, qf_pt2_dtype_of(call, x), number, qf_value_dims(qf_pt2_graph(call), x), rank);
}
