/* Owns: mappings of reductions, softmax, normalisation, sorting.
 * Does not own: contractions (map_contract.c).
 * Next: map_contract.c. */
#include <string.h>

#include "frontends/pt2/maps.h"

static const char no_shape[] = "the shape of its input is unknown";

/* The dtype argument, or x's own; integers sum in i64. */
static qf_value as_asked(qf_pt2_call *call, qf_value x) {
    qf_dtype dtype;
    if (!qf_pt2_dtype_argument(call, "dtype", qf_pt2_dtype_of(call, x), &dtype)) return (qf_value){0};
    return qf_pt2_cast(call, x, dtype);
}

/* sum, mean, prod over "dim" (all axes where it is absent). */
qf_pt2_outcome qf_pt2_map_reduce(qf_pt2_call *call) {
    qf_op op = (qf_op)call->row->argument;
    qf_value x = as_asked(call, qf_pt2_in(call, "self"));
    qf_pt2_axes axes;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_read_axes(call, "dim", qf_pt2_rank(call, x), &axes)) return QF_PT2_FAILED;
    if (!qf_dtype_is_float(qf_pt2_dtype_of(call, x)) && (op == QF_OP_reduce_sum || op == QF_OP_reduce_prod) &&
        !qf_pt2_has(call, "dtype"))
        x = qf_pt2_cast(call, x, QF_I64);
    return qf_pt2_done(call, qf_pt2_reduce(call, op, x, axes.items, axes.count, qf_pt2_bool(call, "keepdim", false)));
}

/* How many elements are not zero. */
qf_pt2_outcome qf_pt2_map_count(qf_pt2_call *call) {
    qf_value x = qf_pt2_cast(call, qf_pt2_cast(call, qf_pt2_in(call, "self"), QF_I1), QF_I64);
    qf_pt2_axes axes;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_read_axes(call, "dim", qf_pt2_rank(call, x), &axes)) return QF_PT2_FAILED;
    return qf_pt2_done(call, qf_pt2_reduce(call, QF_OP_reduce_sum, x, axes.items, axes.count, false));
}

/* any and all; row argument: reduce_max, reduce_min. */
qf_pt2_outcome qf_pt2_map_reduce_logical(qf_pt2_call *call) {
    qf_value x = qf_pt2_cast(call, qf_pt2_in(call, "self"), QF_I1);
    qf_pt2_axes axes;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_read_axes(call, "dim", qf_pt2_rank(call, x), &axes)) return QF_PT2_FAILED;
    qf_value y = qf_pt2_reduce(call, (qf_op)call->row->argument, qf_pt2_cast(call, x, QF_I32), axes.items, axes.count,
                               qf_pt2_bool(call, "keepdim", false));
    return qf_pt2_done(call, qf_pt2_cast(call, y, QF_I1));
}

static qf_value arg_max(qf_pt2_call *call, qf_value x, uint32_t axis, bool keep) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_arg_max, attributes);
    attributes[QF_ATTR(arg_max, axis)].integer = axis;
    attributes[QF_ATTR(arg_max, keep)].integer = keep;
    return qf_import_op(qf_pt2_target(call), QF_OP_arg_max, &x, 1, attributes);
}

/* max.dim and min.dim (row argument 2) give values and indices, argmax and argmin (1 added) indices only. The index of
 * the minimum is that of the maximum of what is negated. */
qf_pt2_outcome qf_pt2_map_max_dim(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    bool keep = qf_pt2_bool(call, "keepdim", false), least = call->row->argument >= 2;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_has(call, "dim")) return qf_pt2_decline(call, "it flattens");
    if (least && !qf_dtype_is_float(qf_pt2_dtype_of(call, x)))
        return qf_pt2_decline(call, "it looks for the least of integers, the most negative of which has no opposite");
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    bool only = call->row->argument % 2 == 1;
    qf_value ordered =
        least && (only || qf_pt2_wants(call, 1)) ? qf_import_unary(qf_pt2_target(call), QF_OP_neg, x) : x;
    if (only) return qf_pt2_done(call, arg_max(call, ordered, axis, keep));
    int64_t axes[] = {axis};
    if (qf_pt2_wants(call, 1)) call->outputs[1] = arg_max(call, ordered, axis, keep);
    return qf_pt2_done(call, qf_pt2_reduce(call, least ? QF_OP_reduce_min : QF_OP_reduce_max, x, axes, 1, keep));
}

qf_pt2_outcome qf_pt2_map_cumulative_sum(qf_pt2_call *call) {
    qf_value x = as_asked(call, qf_pt2_in(call, "self"));
    uint32_t axis;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_dtype_is_float(qf_pt2_dtype_of(call, x)) && !qf_pt2_has(call, "dtype")) x = qf_pt2_cast(call, x, QF_I64);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_cumulative_sum, attributes);
    attributes[QF_ATTR(cumulative_sum, axis)].integer = axis;
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), QF_OP_cumulative_sum, &x, 1, attributes));
}

/* --- softmax --- */
/* Row argument: softmax or log_softmax. */
qf_pt2_outcome qf_pt2_map_softmax(qf_pt2_call *call) {
    qf_op op = (qf_op)call->row->argument;
    qf_value x = as_asked(call, qf_pt2_in(call, "self"));
    uint32_t axis;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (qf_pt2_bool(call, "half_to_float", false)) x = qf_pt2_cast(call, x, QF_F32);
    if (!qf_dtype_is_float(qf_pt2_dtype_of(call, x))) x = qf_pt2_cast(call, x, QF_F32);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", -1), qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, op, attributes);
    attributes[QF_ATTR(softmax, axis)].integer = axis;
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), op, &x, 1, attributes));
}

/* Softmax with zeros where every score is -inf. */
qf_pt2_outcome qf_pt2_map_safe_softmax(qf_pt2_call *call) {
    qf_pt2_outcome outcome = qf_pt2_map_softmax(call);
    if (outcome != QF_PT2_MAPPED) return outcome;
    qf_value y = call->outputs[0];
    return qf_pt2_done(call, qf_import_where(qf_pt2_target(call), qf_import_unary(qf_pt2_target(call), QF_OP_is_nan, y),
                                             qf_pt2_scalar(call, qf_pt2_dtype_of(call, y), 0), y));
}

/* --- normalisation --- */
/* The first axis of normalized_shape; its sizes are the last ones of x. */
static bool norm_axis(qf_pt2_call *call, qf_value x, uint32_t *out) {
    qf_dim dims[QF_MAX_RANK];
    uint32_t count, rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || !qf_pt2_dims(call, "normalized_shape", dims, QF_MAX_RANK, &count) || count > rank ||
        !count)
        return false;
    *out = rank - count;
    return true;
}

/* layer_norm, and native_layer_norm, whose mean and reciprocal deviation are computed where they are wanted. */
qf_pt2_outcome qf_pt2_map_layer_norm(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "input");
    uint32_t axis;
    if (!norm_axis(call, x, &axis)) return qf_pt2_decline(call, no_shape);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_layer_norm, attributes);
    attributes[QF_ATTR(layer_norm, axis)].integer = axis;
    attributes[QF_ATTR(layer_norm, epsilon)].number = qf_pt2_number(call, "eps", 1e-5);
    qf_value operands[] = {x, qf_pt2_in(call, "weight"), qf_pt2_in(call, "bias")};
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), QF_OP_layer_norm, operands, 3, attributes));
}

qf_pt2_outcome qf_pt2_map_rms_norm(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "input");
    uint32_t axis;
    if (!norm_axis(call, x, &axis)) return qf_pt2_decline(call, no_shape);
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    double epsilon = dtype == QF_F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07; /* of the dtype computed in */
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_rms_norm, attributes);
    attributes[QF_ATTR(rms_norm, axis)].integer = axis;
    attributes[QF_ATTR(rms_norm, epsilon)].number = qf_pt2_number(call, "eps", epsilon);
    qf_value operands[] = {x, qf_pt2_in(call, "weight")};
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), QF_OP_rms_norm, operands, 2, attributes));
}

/* --- order --- */
/* topk, and sort as the top of all; row argument 1: sort; 2: argsort, which gives the indices only. */
qf_pt2_outcome qf_pt2_map_top_k(qf_pt2_call *call) {
    bool sort = call->row->argument != 0, only_indices = call->row->argument == 2;
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    qf_dim count;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK || qf_pt2_rank(call, x) == 0) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", -1), qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    if (sort)
        count = qf_pt2_dim_of(call, x, (int32_t)axis);
    else if (!qf_pt2_dim(call, "k", &count))
        return QF_PT2_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_top_k, attributes);
    attributes[QF_ATTR(top_k, k)].dim = count;
    attributes[QF_ATTR(top_k, axis)].integer = axis;
    attributes[QF_ATTR(top_k, largest)].integer =
        sort ? qf_pt2_bool(call, "descending", false) : qf_pt2_bool(call, "largest", true);
    qf_node node = qf_import_node(qf_pt2_target(call), QF_OP_top_k, &x, 1, attributes, 2);
    if (!node.id) return QF_PT2_FAILED;
    if (only_indices) return qf_pt2_done(call, qf_node_result(qf_pt2_graph(call), node, QF_OUT(top_k, indices)));
    if (call->output_count > 1) call->outputs[1] = qf_node_result(qf_pt2_graph(call), node, QF_OUT(top_k, indices));
    return qf_pt2_done(call, qf_node_result(qf_pt2_graph(call), node, 0));
}
