/* Owns: mappings of ops that move, select, repeat or place elements.
 * Does not own: ops that only change a shape (map_shape.c).
 * Next: map_reduce.c. */
#include "frontends/onnx/maps.h"

static const char unknown_shape[] = "the shape of its input is unknown";

static bool ranked(const qf_onnx_call *call, qf_value value) {
    return qf_onnx_rank(call, value) <= QF_MAX_RANK;
}

qf_onnx_outcome qf_onnx_map_transpose(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x), count;
    const int64_t *given;
    int64_t order[QF_MAX_RANK];
    bool seen[QF_MAX_RANK] = {false};
    if (!ranked(call, x)) return qf_onnx_decline(call, unknown_shape);
    bool has_order = qf_onnx_ints(call, "perm", &given, &count);
    if (has_order && count != rank)
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "Transpose: expected %u axes in perm, found %u", rank, count);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t axis = rank - 1 - i;
        if (has_order && !qf_onnx_axis(call, given[i], rank, &axis)) return QF_ONNX_FAILED;
        if (seen[axis]) return qf_onnx_fault(call, QF_ERROR_VERIFY, "Transpose: axis %u stands twice in perm", axis);
        seen[axis] = true;
        order[i] = axis;
    }
    return qf_onnx_done(call, qf_import_permute(qf_onnx_target(call), x, order, rank));
}

qf_onnx_outcome qf_onnx_map_concat(qf_onnx_call *call) {
    qf_value parts_rank = qf_onnx_in(call, 0);
    uint32_t axis;
    for (uint32_t i = 0; i < call->input_count; i++)
        if (ranked(call, qf_onnx_in(call, i))) parts_rank = qf_onnx_in(call, i);
    if (!ranked(call, parts_rank)) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_has(call, "axis")) return qf_onnx_fault(call, QF_ERROR_VERIFY, "Concat: expected attribute 'axis'");
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", 0), qf_onnx_rank(call, parts_rank), &axis)) return QF_ONNX_FAILED;
    if (call->input_count == 1) return qf_onnx_done(call, qf_onnx_in(call, 0));
    qf_value *parts = qf_arena_copy(&call->import->scratch, call->inputs, call->input_count * sizeof *call->inputs);
    if (!parts) return QF_ONNX_FAILED;
    bool mixed = qf_onnx_harmonise(call, parts, call->input_count);
    return qf_onnx_done_mixed(call, qf_import_concat(qf_onnx_target(call), parts, call->input_count, axis), mixed);
}

/* Sizes from the input, or num_outputs equal parts with a smaller last one, or as many equal parts as there are
 * outputs. */
static bool split_sizes(qf_onnx_call *call, qf_value x, uint32_t axis, qf_dim *sizes) {
    qf_context *context = call->import->context;
    uint32_t count = call->output_count, given;
    const qf_dim *listed;
    if (qf_onnx_in(call, 1).id) {
        if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &listed, &given)) return false;
        if (given != count) {
            (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "Split: expected %u sizes for %u outputs, found %u", count,
                                count, given);
            return false;
        }
        for (uint32_t i = 0; i < count; i++) sizes[i] = listed[i];
        return true;
    }
    qf_dim total = qf_onnx_dim(call, x, (int32_t)axis), parts = qf_onnx_constant(call, count);
    qf_dim part = qf_dim_divide_exactly(context, total, parts);
    if (!part.id) part = qf_dim_floor_divide(context, qf_dim_add_constant(context, total, (int64_t)count - 1), parts);
    for (uint32_t i = 0; i + 1 < count; i++) sizes[i] = part;
    qf_dim used = qf_dim_multiply(context, part, qf_onnx_constant(call, (int64_t)count - 1));
    sizes[count - 1] = qf_dim_subtract(context, total, used);
    return true;
}

qf_onnx_outcome qf_onnx_map_split(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t axis;
    if (!ranked(call, x)) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", 0), qf_onnx_rank(call, x), &axis)) return QF_ONNX_FAILED;
    int64_t parts = qf_onnx_int(call, "num_outputs", call->output_count);
    if (parts != call->output_count)
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "Split: num_outputs is %lld, but there are %u outputs",
                             (long long)parts, call->output_count);
    qf_dim *sizes = QF_ARENA_NEW(&call->import->scratch, qf_dim, call->output_count);
    if (!sizes) return QF_ONNX_FAILED;
    if (!split_sizes(call, x, axis, sizes)) return qf_onnx_decline(call, "its sizes are computed at run time");
    for (uint32_t i = 0; i < call->output_count; i++)
        if (!sizes[i].id) return QF_ONNX_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_split, attributes);
    attributes[QF_ATTR(split, axis)].integer = axis;
    attributes[QF_ATTR(split, sizes)] = (qf_attribute){.dims = sizes, .count = call->output_count};
    qf_node node = qf_import_node(qf_onnx_target(call), QF_OP_split, &x, 1, attributes, call->output_count);
    if (!node.id) return QF_ONNX_FAILED;
    for (uint32_t i = 0; i < call->output_count; i++) call->outputs[i] = qf_node_result(qf_onnx_graph(call), node, i);
    return QF_ONNX_MAPPED;
}

/* --- slice --- */
/* A negative bound counts from the end. Where the sign depends on symbols (16 - T), it is taken to be not negative,
 * which is what a launch then checks. */
static bool assume_nonnegative(qf_onnx_call *call, qf_dim bound) {
    qf_dim held = qf_dim_maximum(call->import->context, bound, qf_onnx_constant(call, 0));
    return held.id && qf_graph_add_guard(qf_onnx_graph(call), held, bound, call->location);
}

/* x[:, -T:]: no T elements from the end where T is 0 but all of them, so T is taken to be 1 or more. */
static bool assume_negative(qf_onnx_call *call, qf_dim bound) {
    qf_context *context = call->import->context;
    qf_dim size = qf_dim_subtract(context, qf_onnx_constant(call, 0), bound);
    qf_dim held = qf_dim_maximum(context, size, qf_onnx_constant(call, 1));
    return held.id && qf_graph_add_guard(qf_onnx_graph(call), held, size, call->location);
}

/* A bound of a slice with a positive step, within 0..size. False where it cannot be written down. */
static bool bound_forward(qf_onnx_call *call, qf_dim bound, qf_dim size, qf_dim *out) {
    qf_context *context = call->import->context;
    qf_symbol_facts facts = qf_graph_facts(qf_onnx_graph(call));
    qf_dim zero = qf_onnx_constant(call, 0);
    int64_t value, extent;
    bool constant = qf_dim_is_constant(context, bound, &value);
    if (constant && value >= (int64_t)INT32_MAX) { /* "to the end", as exporters write it */
        *out = size;
        return true;
    }
    if (constant && value <= -(int64_t)INT32_MAX) {
        *out = zero;
        return true;
    }
    int64_t upper = 0;
    bool negative = constant ? value < 0 : qf_dim_upper_bound(context, &facts, bound, &upper) && upper <= 0;
    if (!constant && negative && upper == 0 && !assume_negative(call, bound)) return false;
    if (!negative && !qf_dim_nonnegative(context, &facts, bound) && !assume_nonnegative(call, bound)) return false;
    if (negative) bound = qf_dim_add(context, size, bound);
    if (qf_dim_is_constant(context, bound, &value) && qf_dim_is_constant(context, size, &extent)) {
        *out = qf_onnx_constant(call, value < 0 ? 0 : value > extent ? extent : value);
        return true;
    }
    if (negative)
        *out = qf_dim_nonnegative(context, &facts, bound) ? bound : qf_dim_maximum(context, bound, zero);
    else if (qf_dim_nonnegative(context, &facts, qf_dim_subtract(context, size, bound)))
        *out = bound;
    else
        *out = qf_dim_minimum(context, bound, size);
    return out->id != 0;
}

/* Bounds of a slice that runs backward: constants only. */
static bool bounds_backward(qf_onnx_call *call, qf_dim start, qf_dim end, qf_dim size, qf_dim *out_start,
                            qf_dim *out_end) {
    qf_context *context = call->import->context;
    int64_t first, last, extent;
    if (!qf_dim_is_constant(context, start, &first) || !qf_dim_is_constant(context, end, &last)) return false;
    bool from_end = first >= INT32_MAX || first == -1, through_zero = last <= -(int64_t)INT32_MAX;
    if (from_end && through_zero) {
        *out_start = qf_dim_add_constant(context, size, -1);
        *out_end = qf_onnx_constant(call, -1);
        return true;
    }
    if (!qf_dim_is_constant(context, size, &extent)) return false;
    first = first < 0 ? first + extent : first;
    last = through_zero ? -1 : last < 0 ? last + extent : last;
    first = first > extent - 1 ? extent - 1 : first < -1 ? -1 : first;
    last = last > extent - 1 ? extent - 1 : last < -1 ? -1 : last;
    if (last > first) last = first;
    *out_start = qf_onnx_constant(call, first < 0 ? 0 : first);
    *out_end = qf_onnx_constant(call, first < 0 ? 0 : last);
    return true;
}

qf_onnx_outcome qf_onnx_map_slice(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x), count, end_count, axis_count = 0, step_count = 0;
    const qf_dim *first, *last;
    int64_t axes[QF_MAX_RANK], strides[QF_MAX_RANK];
    if (!ranked(call, x)) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &first, &count) ||
        !qf_onnx_elements(call, qf_onnx_in(call, 2), &last, &end_count) || count != end_count || count > rank)
        return qf_onnx_decline(call, "its bounds are computed at run time");
    bool has_axes = qf_onnx_in(call, 3).id != 0, has_steps = qf_onnx_in(call, 4).id != 0;
    if ((has_axes && !qf_onnx_constants(call, qf_onnx_in(call, 3), axes, QF_MAX_RANK, &axis_count)) ||
        (has_steps && !qf_onnx_constants(call, qf_onnx_in(call, 4), strides, QF_MAX_RANK, &step_count)))
        return qf_onnx_decline(call, "its axes or steps are computed at run time");
    if ((has_axes && axis_count != count) || (has_steps && step_count != count))
        return qf_onnx_fault(call, QF_ERROR_VERIFY,
                             "Slice: expected as many axes and steps as starts (%u), found %u and %u", count,
                             axis_count, step_count);
    qf_dim starts[QF_MAX_RANK], ends[QF_MAX_RANK];
    int64_t steps[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = qf_onnx_constant(call, 0);
        ends[i] = qf_onnx_dim(call, x, (int32_t)i);
        steps[i] = 1;
    }
    bool whole = true;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = i;
        if (has_axes && !qf_onnx_axis(call, axes[i], rank, &axis)) return QF_ONNX_FAILED;
        int64_t step = has_steps ? strides[i] : 1;
        if (step == 0) return qf_onnx_fault(call, QF_ERROR_VERIFY, "Slice: the step on axis %u is 0", axis);
        qf_dim size = qf_onnx_dim(call, x, (int32_t)axis);
        steps[axis] = step;
        bool known = step > 0 ? bound_forward(call, first[i], size, &starts[axis]) &&
                                    bound_forward(call, last[i], size, &ends[axis])
                              : bounds_backward(call, first[i], last[i], size, &starts[axis], &ends[axis]);
        if (!known && qf_context_status(call->import->context) != QF_OK) return QF_ONNX_FAILED;
        if (!known) return qf_onnx_decline(call, "its bounds run backward over sizes that are not known");
        int64_t from, to;
        if (step > 0 && qf_dim_is_constant(call->import->context, starts[axis], &from) &&
            qf_dim_is_constant(call->import->context, ends[axis], &to) && to < from)
            ends[axis] = starts[axis];
        whole &= step == 1 && qf_dim_is(call->import->context, starts[axis], 0) && qf_dim_equal(ends[axis], size);
    }
    if (whole) return qf_onnx_done(call, x);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_slice, attributes);
    attributes[QF_ATTR(slice, starts)] = (qf_attribute){.dims = starts, .count = rank};
    attributes[QF_ATTR(slice, ends)] = (qf_attribute){.dims = ends, .count = rank};
    attributes[QF_ATTR(slice, steps)] = (qf_attribute){.ints = steps, .count = rank};
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_slice, &x, 1, attributes));
}

/* --- repeat and pad --- */
/* Each repeated axis becomes two, [1, n] expanded to [repeat, n], and they merge again. */
qf_onnx_outcome qf_onnx_map_tile(qf_onnx_call *call) {
    qf_context *context = call->import->context;
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x), count, split_rank = 0;
    const qf_dim *repeats;
    if (!ranked(call, x)) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &repeats, &count) || count != rank)
        return qf_onnx_decline(call, "its repeats are computed at run time");
    qf_dim apart[2 * QF_MAX_RANK], wide[2 * QF_MAX_RANK], merged[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        qf_dim size = qf_onnx_dim(call, x, (int32_t)i);
        if (!qf_dim_is(context, repeats[i], 1)) {
            apart[split_rank] = qf_onnx_constant(call, 1);
            wide[split_rank++] = repeats[i];
        }
        apart[split_rank] = size;
        wide[split_rank++] = size;
        merged[i] = qf_dim_multiply(context, size, repeats[i]);
    }
    if (split_rank > QF_MAX_RANK) return qf_onnx_decline(call, "it repeats too many axes at once");
    qf_value repeated = qf_import_expand(qf_onnx_target(call),
                                         qf_import_view(qf_onnx_target(call), x, apart, split_rank), wide, split_rank);
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), repeated, merged, rank));
}

qf_onnx_outcome qf_onnx_map_pad(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), value = qf_onnx_in(call, 2);
    uint32_t rank = qf_onnx_rank(call, x), count, axis_count = 0;
    const qf_dim *pads;
    int64_t axes[QF_MAX_RANK];
    if (!qf_text_is(qf_onnx_string(call, "mode", "constant"), "constant"))
        return qf_onnx_decline(call, "it pads with something else than a constant");
    if (!ranked(call, x)) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &pads, &count))
        return qf_onnx_decline(call, "its counts are computed at run time");
    bool has_axes = qf_onnx_in(call, 3).id != 0;
    if (has_axes && !qf_onnx_constants(call, qf_onnx_in(call, 3), axes, QF_MAX_RANK, &axis_count))
        return qf_onnx_decline(call, "its axes are computed at run time");
    uint32_t padded = has_axes ? axis_count : rank;
    if (count != 2 * padded)
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "Pad: expected %u counts, found %u", 2 * padded, count);
    qf_dim before[QF_MAX_RANK], after[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) before[i] = after[i] = qf_onnx_constant(call, 0);
    for (uint32_t i = 0; i < padded; i++) {
        uint32_t axis = i;
        if (has_axes && !qf_onnx_axis(call, axes[i], rank, &axis)) return QF_ONNX_FAILED;
        before[axis] = pads[i];
        after[axis] = pads[padded + i];
    }
    if (!value.id) value = qf_onnx_number(call, qf_onnx_dtype_of(call, x), 0);
    if (qf_onnx_rank(call, value) == 1) value = qf_import_view(qf_onnx_target(call), value, NULL, 0);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_pad, attributes);
    attributes[QF_ATTR(pad, before)] = (qf_attribute){.dims = before, .count = rank};
    attributes[QF_ATTR(pad, after)] = (qf_attribute){.dims = after, .count = rank};
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_pad, (qf_value[]){x, value}, 2, attributes));
}

/* --- gather and scatter: the axis attribute is each op's first column --- */
static qf_onnx_outcome along_axis(qf_onnx_call *call, qf_op op, uint32_t operand_count, int64_t otherwise) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t axis;
    if (!ranked(call, x)) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", otherwise), qf_onnx_rank(call, x), &axis)) return QF_ONNX_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), op, attributes);
    attributes[0].integer = axis;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), op, call->inputs, operand_count, attributes));
}

qf_onnx_outcome qf_onnx_map_gather(qf_onnx_call *call) {
    return along_axis(call, QF_OP_gather, 2, 0);
}

qf_onnx_outcome qf_onnx_map_gather_elements(qf_onnx_call *call) {
    return along_axis(call, QF_OP_gather_elements, 2, 0);
}

qf_onnx_outcome qf_onnx_map_gather_nd(qf_onnx_call *call) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_gather_nd, attributes);
    attributes[QF_ATTR(gather_nd, batch_dims)].integer = qf_onnx_int(call, "batch_dims", 0);
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_gather_nd, call->inputs, 2, attributes));
}

static bool reduces(qf_onnx_call *call) {
    return !qf_text_is(qf_onnx_string(call, "reduction", "none"), "none");
}

qf_onnx_outcome qf_onnx_map_scatter_nd(qf_onnx_call *call) {
    if (reduces(call)) return qf_onnx_decline(call, "it combines updates with what is there");
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_scatter_nd, call->inputs, 3, NULL));
}

qf_onnx_outcome qf_onnx_map_scatter_elements(qf_onnx_call *call) {
    if (reduces(call)) return qf_onnx_decline(call, "it combines updates with what is there");
    return along_axis(call, QF_OP_scatter_elements, 3, 0);
}

/* Row t of batch b of the update goes to index write_indices[b] + t (modulo the cache's length in mode circular) of
 * axis. */
qf_onnx_outcome qf_onnx_map_tensor_scatter(qf_onnx_call *call) {
    qf_value cache = qf_onnx_in(call, 0), update = qf_onnx_in(call, 1), begins = qf_onnx_in(call, 2);
    uint32_t rank = qf_onnx_rank(call, cache), axis;
    qf_text mode = qf_onnx_string(call, "mode", "linear");
    if (!ranked(call, cache) || qf_onnx_rank(call, update) != rank) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", -2), rank, &axis)) return QF_ONNX_FAILED;
    if (axis == 0) return qf_onnx_decline(call, "it writes along the batch");
    qf_dim ones[QF_MAX_RANK], steps[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) ones[i] = steps[i] = qf_onnx_constant(call, 1);
    qf_dim rows = qf_onnx_dim(call, update, (int32_t)axis);
    steps[axis] = rows;
    qf_value index =
        qf_import_iota(qf_onnx_target(call), QF_I64, rows, qf_onnx_constant(call, 0), qf_onnx_constant(call, 1));
    index = qf_import_view(qf_onnx_target(call), index, steps, rank);
    if (begins.id) {
        ones[0] = qf_onnx_dim(call, begins, 0);
        qf_value begin = qf_import_view(qf_onnx_target(call), qf_onnx_cast(call, begins, QF_I64, true), ones, rank);
        index = qf_import_binary(qf_onnx_target(call), QF_OP_add, index, begin);
    }
    if (qf_text_is(mode, "circular")) {
        qf_dim length = qf_onnx_dim(call, cache, (int32_t)axis);
        index = qf_import_binary(qf_onnx_target(call), QF_OP_mod, index,
                                 qf_import_symbolic(qf_onnx_target(call), &length, 1, true));
    }
    index = qf_import_expand(qf_onnx_target(call), index, qf_value_dims(qf_onnx_graph(call), update), rank);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_scatter_elements, attributes);
    attributes[QF_ATTR(scatter_elements, axis)].integer = axis;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_scatter_elements,
                                           (qf_value[]){cache, index, update}, 3, attributes));
}

qf_onnx_outcome qf_onnx_map_trilu(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    qf_dim diagonal = qf_onnx_constant(call, 0);
    if (qf_onnx_in(call, 1).id) {
        const qf_dim *elements;
        uint32_t count;
        if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &elements, &count) || count != 1)
            return qf_onnx_decline(call, "its diagonal is computed at run time");
        diagonal = elements[0];
    }
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_triangle, attributes);
    attributes[QF_ATTR(triangle, upper)].integer = qf_onnx_int(call, "upper", 1) != 0;
    attributes[QF_ATTR(triangle, diagonal)].dim = diagonal;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_triangle, &x, 1, attributes));
}

qf_onnx_outcome qf_onnx_map_one_hot(qf_onnx_call *call) {
    qf_value indices = qf_onnx_in(call, 0), values = qf_onnx_in(call, 2);
    const qf_dim *depth;
    uint32_t count, axis, rank = qf_onnx_rank(call, indices);
    if (!ranked(call, indices)) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &depth, &count) || count != 1)
        return qf_onnx_decline(call, "its depth is computed at run time");
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", -1), rank + 1, &axis)) return QF_ONNX_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_one_hot, attributes);
    attributes[QF_ATTR(one_hot, depth)].dim = depth[0];
    attributes[QF_ATTR(one_hot, axis)].integer = axis;
    indices = qf_onnx_cast(call, indices, QF_I64, true);
    return qf_onnx_done(
        call, qf_import_op(qf_onnx_target(call), QF_OP_one_hot, (qf_value[]){indices, values}, 2, attributes));
}

/* --- blocks of images --- */
static bool image(qf_onnx_call *call, qf_value x, int64_t *out_block, qf_dim *dims) {
    *out_block = qf_onnx_int(call, "blocksize", 0);
    if (qf_onnx_rank(call, x) != 4 || *out_block < 1) return false;
    for (int32_t i = 0; i < 4; i++) dims[i] = qf_onnx_dim(call, x, i);
    return true;
}

qf_onnx_outcome qf_onnx_map_depth_to_space(qf_onnx_call *call) {
    qf_context *context = call->import->context;
    qf_value x = qf_onnx_in(call, 0);
    qf_dim d[4];
    int64_t block;
    if (!image(call, x, &block, d)) return qf_onnx_decline(call, unknown_shape);
    bool columns_last = qf_text_is(qf_onnx_string(call, "mode", "DCR"), "CRD");
    qf_dim b = qf_onnx_constant(call, block),
           channels = qf_dim_divide_exactly(context, d[1], qf_onnx_constant(call, block * block));
    if (!channels.id) return qf_onnx_decline(call, "its channels do not divide by the block");
    qf_dim depth_first[] = {d[0], b, b, channels, d[2], d[3]}, column_first[] = {d[0], channels, b, b, d[2], d[3]};
    int64_t depth_order[] = {0, 3, 4, 1, 5, 2}, column_order[] = {0, 1, 4, 2, 5, 3};
    x = qf_import_view(qf_onnx_target(call), x, columns_last ? column_first : depth_first, 6);
    x = qf_import_permute(qf_onnx_target(call), x, columns_last ? column_order : depth_order, 6);
    qf_dim out[] = {d[0], channels, qf_dim_multiply(context, d[2], b), qf_dim_multiply(context, d[3], b)};
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), x, out, 4));
}

qf_onnx_outcome qf_onnx_map_space_to_depth(qf_onnx_call *call) {
    qf_context *context = call->import->context;
    qf_value x = qf_onnx_in(call, 0);
    qf_dim d[4];
    int64_t block;
    if (!image(call, x, &block, d)) return qf_onnx_decline(call, unknown_shape);
    qf_dim b = qf_onnx_constant(call, block);
    qf_dim rows = qf_dim_divide_exactly(context, d[2], b), columns = qf_dim_divide_exactly(context, d[3], b);
    if (!rows.id || !columns.id) return qf_onnx_decline(call, "its image does not divide by the block");
    x = qf_import_view(qf_onnx_target(call), x, (qf_dim[]){d[0], d[1], rows, b, columns, b}, 6);
    x = qf_import_permute(qf_onnx_target(call), x, (int64_t[]){0, 3, 5, 1, 2, 4}, 6);
    qf_dim out[] = {d[0], qf_dim_multiply(context, d[1], qf_onnx_constant(call, block * block)), rows, columns};
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), x, out, 4));
}
