/* Owns: checks of constants, weights, opaque ops, shape values, layout ops and windows over axes.
 * Does not own: dtype sets, ranks and axes (verify.def), shapes of results (infer.h).
 * Next: verify_call.h. */
#include <inttypes.h>

#include "ir/verify_call.h"

void qf_verify_constant(qf_verify_call *call) {
    const qf_context *context = call->graph->context;
    const qf_literal *literal = call->attributes[QF_ATTR(constant, value)].literal;
    uint64_t count;
    if (!qf_type_static_count(context, literal->type, &count) || !qf_dtype_bits(qf_type_dtype(context, literal->type)))
        qf_verify_fault(call, "attribute value: expected constant dims and an element type with storage, found %s",
                        qf_verify_type_text(call, literal->type).data);
    else if (qf_dtype_bytes(qf_type_dtype(context, literal->type), count) != literal->size)
        qf_verify_fault(call, "attribute value: expected %" PRIu64 " bytes for %s, found %" PRIu64,
                        qf_dtype_bytes(qf_type_dtype(context, literal->type), count),
                        qf_verify_type_text(call, literal->type).data, literal->size);
}

void qf_verify_parameter(qf_verify_call *call) {
    if (!qf_string_text(call->graph->context, call->attributes[QF_ATTR(parameter, name)].string).size)
        qf_verify_fault(call, "attribute name: a weight needs a name");
}

void qf_verify_opaque(qf_verify_call *call) {
    if (!qf_string_text(call->graph->context, call->attributes[QF_ATTR(opaque, name)].string).size)
        qf_verify_fault(call, "attribute name: an opaque op needs a name, such as \"vendor.op\"");
}

void qf_verify_symbolic(qf_verify_call *call) {
    const qf_attribute *values = &call->attributes[QF_ATTR(symbolic, values)];
    const qf_attribute *shape = &call->attributes[QF_ATTR(symbolic, shape)];
    if (shape->count > 1)
        qf_verify_fault(call, "attribute shape: expected [] or [n], found %" PRIu32 " entries", shape->count);
    else if ((shape->count ? shape->ints[0] : 1) != (int64_t)values->count)
        qf_verify_fault(call, "attribute values: expected %" PRId64 " of them for the shape, found %" PRIu32,
                        shape->count ? shape->ints[0] : 1, values->count);
}

/* Sizes that a rank allows and that are not provably negative. */
static void check_shape(qf_verify_call *call, uint32_t attribute) {
    const qf_attribute *shape = &call->attributes[attribute];
    const char *name = call->info->attributes[attribute].name;
    qf_symbol_facts facts = qf_graph_facts(call->graph);
    int64_t bound;
    if (shape->count > QF_MAX_RANK)
        qf_verify_fault(call, "attribute %s: expected at most %d entries, found %" PRIu32, name, QF_MAX_RANK,
                        shape->count);
    for (uint32_t i = 0; i < shape->count; i++)
        if (qf_dim_upper_bound(call->graph->context, &facts, shape->dims[i], &bound) && bound < 0)
            qf_verify_fault(call, "attribute %s: entry %" PRIu32 " is a size and cannot be %s", name, i,
                            qf_verify_dim_text(call, shape->dims[i]).data);
}

void qf_verify_iota(qf_verify_call *call) {
    uint32_t rank = call->attributes[QF_ATTR(iota, shape)].count;
    int64_t axis = QF_VERIFY_INTEGER(call, iota, axis);
    check_shape(call, QF_ATTR(iota, shape));
    if (axis < 0 || (axis > 0 && axis >= (int64_t)rank))
        qf_verify_fault(call, "attribute axis: expected an axis of the shape (rank %" PRIu32 "), found %" PRId64, rank,
                        axis);
}

static void check_single_element(qf_verify_call *call, uint32_t operand) {
    qf_dim one = qf_dim_constant(call->graph->context, 1);
    uint32_t rank = qf_verify_rank(call, operand);
    for (uint32_t i = 0; rank != QF_UNRANKED && i < rank; i++) {
        if (!qf_verify_dims_differ(call, qf_verify_dim(call, operand, (int32_t)i), one)) continue;
        qf_verify_fault(call, "operand %s: expected one element, found %s", qf_verify_name(call, operand),
                        qf_verify_type_text(call, qf_verify_type(call, operand)).data);
        return;
    }
}

void qf_verify_full(qf_verify_call *call) {
    check_shape(call, QF_ATTR(full, shape));
    check_single_element(call, QF_IN(full, value));
}

void qf_verify_bitcast(qf_verify_call *call) {
    qf_dtype from = qf_verify_dtype(call, QF_IN(bitcast, x)), to = (qf_dtype)QF_VERIFY_INTEGER(call, bitcast, dtype);
    if (from != QF_DTYPE_NONE && qf_dtype_bits(from) != qf_dtype_bits(to))
        qf_verify_fault(call, "attribute dtype: expected a type of %" PRIu32 " bits like %s, found %s",
                        qf_dtype_bits(from), qf_dtype_name(from), qf_dtype_name(to));
}

void qf_verify_permute(qf_verify_call *call) {
    const qf_attribute *order = &call->attributes[QF_ATTR(permute, order)];
    uint32_t rank = qf_verify_rank(call, QF_IN(permute, x)), seen = 0;
    if (rank != QF_UNRANKED && order->count != rank) {
        qf_verify_fault(call, "attribute order: expected %" PRIu32 " axes for %s, found %" PRIu32, rank,
                        qf_verify_type_text(call, qf_verify_type(call, QF_IN(permute, x))).data, order->count);
        return;
    }
    for (uint32_t i = 0; i < order->count && order->count <= QF_MAX_RANK; i++)
        if (order->ints[i] >= 0 && order->ints[i] < (int64_t)order->count) seen |= 1u << order->ints[i];
    if (order->count > QF_MAX_RANK || seen != (1u << order->count) - 1)
        qf_verify_fault(call, "attribute order: expected every axis from 0 to %" PRId64 " once",
                        (int64_t)order->count - 1);
}

/* One entry an axis, where the rank is known. */
static bool check_list_length(qf_verify_call *call, uint32_t attribute, uint32_t operand) {
    uint32_t rank = qf_verify_rank(call, operand), count = call->attributes[attribute].count;
    if (rank == QF_UNRANKED || count == rank) return true;
    qf_verify_fault(call, "attribute %s: expected %" PRIu32 " entries, one an axis of %s, found %" PRIu32,
                    call->info->attributes[attribute].name, rank, qf_verify_name(call, operand), count);
    return false;
}

static bool exceeds(const qf_verify_call *call, qf_dim dim, qf_dim limit) {
    qf_symbol_facts facts = qf_graph_facts(call->graph);
    int64_t bound;
    if (!dim.id || !limit.id) return false;
    qf_dim excess = qf_dim_subtract(call->graph->context, dim, limit);
    return excess.id && qf_dim_lower_bound(call->graph->context, &facts, excess, &bound) && bound > 0;
}

static void check_slice_axis(qf_verify_call *call, uint32_t axis) {
    qf_context *context = call->graph->context;
    qf_dim start = call->attributes[QF_ATTR(slice, starts)].dims[axis];
    qf_dim end = call->attributes[QF_ATTR(slice, ends)].dims[axis];
    int64_t step = call->attributes[QF_ATTR(slice, steps)].ints[axis];
    qf_dim size = qf_verify_dim(call, QF_IN(slice, x), (int32_t)axis);
    qf_dim least = qf_dim_constant(context, step < 0 ? -1 : 0), zero = qf_dim_constant(context, 0);
    if (step == 0) {
        qf_verify_fault(call, "attribute steps: the step of axis %" PRIu32 " is 0", axis);
        return;
    }
    qf_dim first = step > 0 ? start : end, last = step > 0 ? end : start;
    if (exceeds(call, step > 0 ? zero : least, first) || exceeds(call, first, last) || exceeds(call, last, size))
        qf_verify_fault(call, "axis %" PRIu32 ": %s to %s by %" PRId64 " is no part of %s", axis,
                        qf_verify_dim_text(call, start).data, qf_verify_dim_text(call, end).data, step,
                        qf_verify_type_text(call, qf_verify_type(call, QF_IN(slice, x))).data);
}

void qf_verify_slice(qf_verify_call *call) {
    if (!check_list_length(call, QF_ATTR(slice, starts), QF_IN(slice, x)) ||
        !check_list_length(call, QF_ATTR(slice, ends), QF_IN(slice, x)) ||
        !check_list_length(call, QF_ATTR(slice, steps), QF_IN(slice, x)))
        return;
    uint32_t count = call->attributes[QF_ATTR(slice, starts)].count;
    if (call->attributes[QF_ATTR(slice, ends)].count != count || call->attributes[QF_ATTR(slice, steps)].count != count)
        qf_verify_fault(call, "attributes starts, ends and steps: expected lists of one length");
    else
        for (uint32_t i = 0; i < count; i++) check_slice_axis(call, i);
}

void qf_verify_concat(qf_verify_call *call) {
    int64_t axis = QF_VERIFY_INTEGER(call, concat, axis);
    if (!call->operand_count) qf_verify_fault(call, "expected at least one operand");
    for (uint32_t i = 0; i < call->operand_count; i++) {
        uint32_t rank = qf_verify_rank(call, i);
        qf_dtype first = qf_verify_dtype(call, 0), own = qf_verify_dtype(call, i);
        if (rank != QF_UNRANKED && (axis < 0 || axis >= (int64_t)rank))
            qf_verify_fault(call, "attribute axis: expected an axis of part %" PRIu32 " (%s), found %" PRId64, i,
                            qf_verify_type_text(call, qf_verify_type(call, i)).data, axis);
        if (first != own && first != QF_DTYPE_NONE && own != QF_DTYPE_NONE)
            qf_verify_fault(call, "part %" PRIu32 ": expected %s like part 0, found %s", i, qf_dtype_name(first),
                            qf_verify_type_text(call, qf_verify_type(call, i)).data);
    }
}

void qf_verify_split(qf_verify_call *call) {
    qf_context *context = call->graph->context;
    const qf_attribute *sizes = &call->attributes[QF_ATTR(split, sizes)];
    qf_dim size = qf_verify_dim(call, QF_IN(split, x), (int32_t)QF_VERIFY_INTEGER(call, split, axis));
    if (sizes->count != call->result_count) {
        qf_verify_fault(call, "attribute sizes: expected %" PRIu32 ", one a result, found %" PRIu32, call->result_count,
                        sizes->count);
        return;
    }
    qf_dim sum = qf_dim_constant(context, 0);
    for (uint32_t i = 0; i < sizes->count; i++) sum = qf_dim_add(context, sum, sizes->dims[i]);
    if (qf_verify_dims_differ(call, sum, size))
        qf_verify_fault(call, "attribute sizes: expected a sum of %s, the size of axis %" PRId64 " of x, found %s",
                        qf_verify_dim_text(call, size).data, QF_VERIFY_INTEGER(call, split, axis),
                        qf_verify_dim_text(call, sum).data);
}

void qf_verify_pad(qf_verify_call *call) {
    (void)check_list_length(call, QF_ATTR(pad, before), QF_IN(pad, x));
    (void)check_list_length(call, QF_ATTR(pad, after), QF_IN(pad, x));
    check_single_element(call, QF_IN(pad, value));
}

void qf_verify_one_hot(qf_verify_call *call) {
    uint32_t rank = qf_verify_rank(call, QF_IN(one_hot, indices));
    int64_t axis = QF_VERIFY_INTEGER(call, one_hot, axis);
    (void)qf_verify_operand_dim(call, QF_IN(one_hot, values), 0, qf_dim_constant(call->graph->context, 2),
                                "off and on");
    if (axis < -1 || (rank != QF_UNRANKED && axis > (int64_t)rank))
        qf_verify_fault(call, "attribute axis: expected -1 (last) or an axis of the result, found %" PRId64, axis);
}

void qf_verify_top_k(qf_verify_call *call) {
    qf_dim k = call->attributes[QF_ATTR(top_k, k)].dim;
    qf_dim size = qf_verify_dim(call, QF_IN(top_k, x), (int32_t)QF_VERIFY_INTEGER(call, top_k, axis));
    if (exceeds(call, qf_dim_constant(call->graph->context, 0), k) || exceeds(call, k, size))
        qf_verify_fault(call, "attribute k: expected 0 to the size of the axis, found %s",
                        qf_verify_dim_text(call, k).data);
}

static void check_window(qf_verify_call *call, uint32_t attribute, uint32_t spatial, int64_t least) {
    const qf_attribute *list = &call->attributes[attribute];
    const char *name = call->info->attributes[attribute].name;
    if (list->count != spatial)
        qf_verify_fault(call, "attribute %s: expected %" PRIu32 " entries, one a spatial axis of x, found %" PRIu32,
                        name, spatial, list->count);
    for (uint32_t i = 0; i < list->count; i++)
        if (list->ints[i] < least)
            qf_verify_fault(call, "attribute %s: expected at least %" PRId64 ", found %" PRId64, name, least,
                            list->ints[i]);
}

void qf_verify_conv(qf_verify_call *call) {
    qf_context *context = call->graph->context;
    uint32_t rank = qf_verify_rank(call, QF_IN(conv, x));
    qf_dim groups = qf_dim_constant(context, QF_VERIFY_INTEGER(call, conv, groups));
    qf_dim channels = qf_verify_dim(call, QF_IN(conv, x), 1), outputs = qf_verify_dim(call, QF_IN(conv, weight), 0);
    if (rank != QF_UNRANKED) {
        check_window(call, QF_ATTR(conv, strides), rank - 2, 1);
        check_window(call, QF_ATTR(conv, dilations), rank - 2, 1);
        check_window(call, QF_ATTR(conv, pads_before), rank - 2, 0);
        check_window(call, QF_ATTR(conv, pads_after), rank - 2, 0);
        (void)qf_verify_operand_rank(call, QF_IN(conv, weight), rank, rank);
    }
    if (qf_verify_not_divisible(call, channels, groups) || qf_verify_not_divisible(call, outputs, groups))
        qf_verify_fault(call, "attribute groups: %" PRId64 " does not divide the channels of x (%s) and weight (%s)",
                        QF_VERIFY_INTEGER(call, conv, groups),
                        qf_verify_type_text(call, qf_verify_type(call, QF_IN(conv, x))).data,
                        qf_verify_type_text(call, qf_verify_type(call, QF_IN(conv, weight))).data);
    qf_dim slice = qf_verify_dim(call, QF_IN(conv, weight), 1);
    if (slice.id && channels.id)
        (void)qf_verify_operand_dim(call, QF_IN(conv, x), 1, qf_dim_multiply(context, slice, groups),
                                    "the channels, groups times those of weight");
    if (outputs.id) (void)qf_verify_operand_dim(call, QF_IN(conv, bias), 0, outputs, "the channels of the result");
}
