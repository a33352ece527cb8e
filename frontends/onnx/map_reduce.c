/* Owns: mappings of reductions, orderings and sums along an axis.
 * Does not own: softmax and normalisations (map_norm.c).
 * Next: map_norm.c. */
#include "frontends/onnx/maps.h"

/* What every Reduce op reads: axes (none: all, or no reduction at all), keepdims. */
typedef struct reduction {
    qf_onnx_axes axes;
    bool keep, nothing;
} reduction;

static bool read_reduction(qf_onnx_call *call, qf_value x, reduction *out) {
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK) {
        call->reason = "the shape of its input is unknown";
        return false;
    }
    if (!qf_onnx_read_axes(call, 1, rank, &out->axes)) return false;
    out->keep = qf_onnx_int(call, "keepdims", 1) != 0;
    out->nothing = out->axes.count == 0 && qf_onnx_int(call, "noop_with_empty_axes", 0) != 0;
    if (out->axes.count == 0 && !out->nothing)
        for (uint32_t i = 0; i < rank; i++) out->axes.items[out->axes.count++] = i;
    return true;
}

static qf_value apply(qf_onnx_call *call, qf_op op, qf_value x, const reduction *how) {
    if (how->nothing || how->axes.count == 0) return x;
    return qf_import_reduce(qf_onnx_target(call), op, x, how->axes.items, how->axes.count, how->keep);
}

qf_onnx_outcome qf_onnx_map_reduce(qf_onnx_call *call) {
    reduction how;
    qf_value x = qf_onnx_in(call, 0);
    if (!read_reduction(call, x, &how)) return qf_onnx_decline(call, call->reason);
    return qf_onnx_done(call, apply(call, (qf_op)call->row->argument, x, &how));
}

qf_onnx_outcome qf_onnx_map_reduce_l1(qf_onnx_call *call) {
    reduction how;
    qf_value x = qf_onnx_in(call, 0);
    if (!read_reduction(call, x, &how)) return qf_onnx_decline(call, call->reason);
    return qf_onnx_done(call, apply(call, QF_OP_reduce_sum, qf_import_unary(qf_onnx_target(call), QF_OP_abs, x), &how));
}

static qf_value squares(qf_onnx_call *call, qf_value x, const reduction *how) {
    qf_value wide = qf_dtype_is_float(qf_onnx_dtype_of(call, x)) ? qf_onnx_widen(call, x) : x;
    return apply(call, QF_OP_reduce_sum, qf_import_binary(qf_onnx_target(call), QF_OP_mul, wide, wide), how);
}

qf_onnx_outcome qf_onnx_map_reduce_sum_square(qf_onnx_call *call) {
    reduction how;
    qf_value x = qf_onnx_in(call, 0);
    if (!read_reduction(call, x, &how)) return qf_onnx_decline(call, call->reason);
    return qf_onnx_done(call, qf_onnx_narrow(call, squares(call, x, &how), x));
}

qf_onnx_outcome qf_onnx_map_reduce_l2(qf_onnx_call *call) {
    reduction how;
    qf_value x = qf_onnx_in(call, 0);
    if (!read_reduction(call, x, &how)) return qf_onnx_decline(call, call->reason);
    qf_value sum = qf_onnx_widen(call, squares(call, x, &how));
    return qf_onnx_done(call, qf_onnx_narrow(call, qf_import_unary(qf_onnx_target(call), QF_OP_sqrt, sum), x));
}

qf_onnx_outcome qf_onnx_map_reduce_log_sum(qf_onnx_call *call) {
    reduction how;
    qf_value x = qf_onnx_in(call, 0);
    if (!read_reduction(call, x, &how)) return qf_onnx_decline(call, call->reason);
    qf_value sum = apply(call, QF_OP_reduce_sum, qf_onnx_widen(call, x), &how);
    return qf_onnx_done(call, qf_onnx_narrow(call, qf_import_unary(qf_onnx_target(call), QF_OP_log, sum), x));
}

/* The maximum is taken out first, as in softmax. */
qf_onnx_outcome qf_onnx_map_reduce_log_sum_exp(qf_onnx_call *call) {
    reduction how;
    qf_value x = qf_onnx_in(call, 0);
    if (!read_reduction(call, x, &how)) return qf_onnx_decline(call, call->reason);
    if (how.nothing || how.axes.count == 0) return qf_onnx_done(call, x);
    qf_value wide = qf_onnx_widen(call, x);
    qf_value top = qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_max, wide, how.axes.items, how.axes.count, true);
    qf_value powers =
        qf_import_unary(qf_onnx_target(call), QF_OP_exp, qf_import_binary(qf_onnx_target(call), QF_OP_sub, wide, top));
    qf_value sum = apply(call, QF_OP_reduce_sum, powers, &how);
    qf_value shift = how.keep ? top : apply(call, QF_OP_reduce_max, wide, &how);
    return qf_onnx_done(call,
                        qf_onnx_narrow(call,
                                       qf_import_binary(qf_onnx_target(call), QF_OP_add,
                                                        qf_import_unary(qf_onnx_target(call), QF_OP_log, sum), shift),
                                       x));
}

/* argument 1: the minimum, as the maximum of the negated input. */
qf_onnx_outcome qf_onnx_map_arg_max(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t axis, rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (call->row->argument && !qf_dtype_is_float(qf_onnx_dtype_of(call, x)))
        return qf_onnx_decline(call, "it is the minimum of integers");
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", 0), rank, &axis)) return QF_ONNX_FAILED;
    if (call->row->argument) x = qf_import_unary(qf_onnx_target(call), QF_OP_neg, x);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_arg_max, attributes);
    attributes[QF_ATTR(arg_max, axis)].integer = axis;
    attributes[QF_ATTR(arg_max, keep)].integer = qf_onnx_int(call, "keepdims", 1) != 0;
    attributes[QF_ATTR(arg_max, last)].integer = qf_onnx_int(call, "select_last_index", 0) != 0;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_arg_max, &x, 1, attributes));
}

qf_onnx_outcome qf_onnx_map_top_k(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    const qf_dim *k;
    uint32_t axis, count, rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &k, &count) || count != 1)
        return qf_onnx_decline(call, "its k is computed at run time");
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", -1), rank, &axis)) return QF_ONNX_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_top_k, attributes);
    attributes[QF_ATTR(top_k, k)].dim = k[0];
    attributes[QF_ATTR(top_k, axis)].integer = axis;
    attributes[QF_ATTR(top_k, largest)].integer = qf_onnx_int(call, "largest", 1) != 0;
    qf_node node = qf_import_node(qf_onnx_target(call), QF_OP_top_k, &x, 1, attributes, 2);
    if (!node.id) return QF_ONNX_FAILED;
    if (call->output_count > 1) call->outputs[1] = qf_node_result(qf_onnx_graph(call), node, 1);
    return qf_onnx_done(call, qf_node_result(qf_onnx_graph(call), node, 0));
}

qf_onnx_outcome qf_onnx_map_cumulative_sum(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    int64_t given;
    uint32_t axis, count, rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (!qf_onnx_constants(call, qf_onnx_in(call, 1), &given, 1, &count) || count != 1)
        return qf_onnx_decline(call, "its axis is computed at run time");
    if (!qf_onnx_axis(call, given, rank, &axis)) return QF_ONNX_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_cumulative_sum, attributes);
    attributes[QF_ATTR(cumulative_sum, axis)].integer = axis;
    attributes[QF_ATTR(cumulative_sum, exclusive)].integer = qf_onnx_int(call, "exclusive", 0) != 0;
    attributes[QF_ATTR(cumulative_sum, reverse)].integer = qf_onnx_int(call, "reverse", 0) != 0;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_cumulative_sum, &x, 1, attributes));
}

qf_onnx_outcome qf_onnx_map_global_pool(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank < 3 || rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    int64_t axes[QF_MAX_RANK];
    for (uint32_t i = 2; i < rank; i++) axes[i - 2] = i;
    return qf_onnx_done(call,
                        qf_import_reduce(qf_onnx_target(call), (qf_op)call->row->argument, x, axes, rank - 2, true));
}
