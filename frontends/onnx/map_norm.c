/* Owns: mappings of softmax and normalisations.
 * Does not own: reductions (map_reduce.c).
 * Next: map_contract.c. */
#include "frontends/onnx/maps.h"

static const char unknown_shape[] = "the shape of its input is unknown";

qf_onnx_outcome qf_onnx_map_softmax(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t axis, rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", -1), rank, &axis)) return QF_ONNX_FAILED;
    qf_op op = (qf_op)call->row->argument;
    if (op == QF_OP_softmax && qf_onnx_is_stepwise(call, x)) {
        int64_t axes[] = {axis};
        qf_value top = qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_max, x, axes, 1, true);
        qf_value powers =
            qf_import_unary(qf_onnx_target(call), QF_OP_exp, qf_import_binary(qf_onnx_target(call), QF_OP_sub, x, top));
        qf_value sum = qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_sum, powers, axes, 1, true);
        return qf_onnx_done(call, qf_import_binary(qf_onnx_target(call), QF_OP_div, powers, sum));
    }
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), op, attributes);
    attributes[QF_ATTR(softmax, axis)].integer = axis;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), op, &x, 1, attributes));
}

static qf_value emit_layer_norm(qf_onnx_call *call, qf_value x, qf_value weight, qf_value bias, uint32_t axis,
                                double epsilon) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_layer_norm, attributes);
    attributes[QF_ATTR(layer_norm, axis)].integer = axis;
    attributes[QF_ATTR(layer_norm, epsilon)].number = epsilon;
    return qf_import_op(qf_onnx_target(call), QF_OP_layer_norm, (qf_value[]){x, weight, bias}, 3, attributes);
}

static qf_value last_axes(qf_onnx_call *call, qf_op op, qf_value x, uint32_t axis) {
    int64_t axes[QF_MAX_RANK];
    uint32_t rank = qf_onnx_rank(call, x), count = 0;
    for (uint32_t i = axis; i < rank; i++) axes[count++] = i;
    return qf_import_reduce(qf_onnx_target(call), op, x, axes, count, true);
}

static qf_value inverse_root(qf_onnx_call *call, qf_value variance, double epsilon) {
    qf_value shifted = qf_import_binary(qf_onnx_target(call), QF_OP_add, variance,
                                        qf_onnx_number(call, qf_onnx_dtype_of(call, variance), epsilon));
    return qf_import_unary(qf_onnx_target(call), QF_OP_rsqrt, shifted);
}

static qf_value variance_of(qf_onnx_call *call, qf_value wide, qf_value mean, uint32_t axis) {
    qf_value centred = qf_import_binary(qf_onnx_target(call), QF_OP_sub, wide, mean);
    return last_axes(call, QF_OP_reduce_mean, qf_import_binary(qf_onnx_target(call), QF_OP_mul, centred, centred),
                     axis);
}

qf_onnx_outcome qf_onnx_map_layer_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t axis, rank = qf_onnx_rank(call, x);
    double epsilon = qf_onnx_float(call, "epsilon", 1e-5f);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", -1), rank, &axis)) return QF_ONNX_FAILED;
    if (qf_onnx_wants(call, 1) || qf_onnx_wants(call, 2)) {
        qf_value wide = qf_onnx_widen(call, x), mean = last_axes(call, QF_OP_reduce_mean, wide, axis);
        call->outputs[1] = mean;
        if (call->output_count > 2) call->outputs[2] = inverse_root(call, variance_of(call, wide, mean, axis), epsilon);
    }
    return qf_onnx_done(call, emit_layer_norm(call, x, qf_onnx_in(call, 1), qf_onnx_in(call, 2), axis, epsilon));
}

qf_onnx_outcome qf_onnx_map_rms_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t axis, rank = qf_onnx_rank(call, x);
    double epsilon = qf_onnx_float(call, "epsilon", 1e-5f);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", -1), rank, &axis)) return QF_ONNX_FAILED;
    if (qf_onnx_wants(call, 1)) {
        qf_value wide = qf_onnx_widen(call, x);
        qf_value mean =
            last_axes(call, QF_OP_reduce_mean, qf_import_binary(qf_onnx_target(call), QF_OP_mul, wide, wide), axis);
        call->outputs[1] = inverse_root(call, mean, epsilon);
    }
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_rms_norm, attributes);
    attributes[QF_ATTR(rms_norm, axis)].integer = axis;
    attributes[QF_ATTR(rms_norm, epsilon)].number = epsilon;
    return qf_onnx_done(
        call, qf_import_op(qf_onnx_target(call), QF_OP_rms_norm, (qf_value[]){x, qf_onnx_in(call, 1)}, 2, attributes));
}

/* Outputs: normalised, mean, inverse deviation (both only for training), and the sum that was normalised. */
qf_onnx_outcome qf_onnx_map_skip_rms_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), skip = qf_onnx_in(call, 1), bias = qf_onnx_in(call, 3);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank == 0 || rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    if (qf_onnx_wants(call, 1) || qf_onnx_wants(call, 2)) return qf_onnx_decline(call, "its training outputs are used");
    if (bias.id) x = qf_import_binary(qf_onnx_target(call), QF_OP_add, x, bias);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_add_rms_norm, attributes);
    attributes[QF_ATTR(add_rms_norm, axis)].integer = rank - 1;
    attributes[QF_ATTR(add_rms_norm, epsilon)].number = qf_onnx_float(call, "epsilon", 1e-12f);
    qf_value operands[] = {x, skip, qf_onnx_in(call, 2)};
    qf_node node =
        x.id ? qf_import_node(qf_onnx_target(call), QF_OP_add_rms_norm, operands, 3, attributes, 2) : (qf_node){0};
    if (!node.id) return QF_ONNX_FAILED;
    if (call->output_count > 3) call->outputs[3] = qf_node_result(qf_onnx_graph(call), node, QF_OUT(add_rms_norm, sum));
    return qf_onnx_done(call, qf_node_result(qf_onnx_graph(call), node, QF_OUT(add_rms_norm, y)));
}

qf_onnx_outcome qf_onnx_map_skip_layer_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), bias = qf_onnx_in(call, 4);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank == 0 || rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    if (qf_onnx_wants(call, 1) || qf_onnx_wants(call, 2)) return qf_onnx_decline(call, "its training outputs are used");
    if (bias.id) x = qf_import_binary(qf_onnx_target(call), QF_OP_add, x, bias);
    qf_value sum = qf_import_binary(qf_onnx_target(call), QF_OP_add, x, qf_onnx_in(call, 1));
    if (call->output_count > 3) call->outputs[3] = sum;
    double epsilon = qf_onnx_float(call, "epsilon", 1e-12f);
    return qf_onnx_done(call, emit_layer_norm(call, sum, qf_onnx_in(call, 2), qf_onnx_in(call, 3), rank - 1, epsilon));
}

/* --- normalisation of channels: x [N, C, spatial...] --- */
/* A vector over channels as [1, C, 1, ...]. */
static qf_value channel_vector(qf_onnx_call *call, qf_value vector, uint32_t rank) {
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) dims[i] = i == 1 ? qf_onnx_dim(call, vector, 0) : qf_onnx_constant(call, 1);
    return qf_import_view(qf_onnx_target(call), qf_onnx_widen(call, vector), dims, rank);
}

/* (x - mean) / sqrt(variance + epsilon) over each of `groups` blocks of channels, in f32. */
static qf_value normalise_groups(qf_onnx_call *call, qf_value x, qf_dim groups, double epsilon) {
    qf_context *context = call->import->context;
    uint32_t rank = qf_onnx_rank(call, x);
    const qf_dim *own = qf_value_dims(qf_onnx_graph(call), x);
    qf_dim block = qf_dim_divide_exactly(context, own[1], groups);
    qf_dim flat[] = {own[0], groups, qf_dim_multiply(context, block, qf_dim_product(context, own + 2, rank - 2))};
    qf_value grouped = qf_import_view(qf_onnx_target(call), qf_onnx_widen(call, x), flat, 3);
    qf_value mean = last_axes(call, QF_OP_reduce_mean, grouped, 2);
    qf_value scale = inverse_root(call, variance_of(call, grouped, mean, 2), epsilon);
    qf_value centred = qf_import_binary(qf_onnx_target(call), QF_OP_sub, grouped, mean);
    return qf_import_view(qf_onnx_target(call), qf_import_binary(qf_onnx_target(call), QF_OP_mul, centred, scale), own,
                          rank);
}

static qf_onnx_outcome scale_channels(qf_onnx_call *call, qf_value normal, qf_value weight, qf_value bias) {
    uint32_t rank = qf_onnx_rank(call, normal);
    qf_value scaled = qf_import_binary(qf_onnx_target(call), QF_OP_mul, normal, channel_vector(call, weight, rank));
    qf_value result = qf_import_binary(qf_onnx_target(call), QF_OP_add, scaled, channel_vector(call, bias, rank));
    return qf_onnx_done(call, qf_onnx_narrow(call, result, qf_onnx_in(call, 0)));
}

/* A vector over groups repeated to one over channels (opset 18 has a weight a group). */
static qf_value per_channel(qf_onnx_call *call, qf_value vector, qf_dim channels, qf_dim groups) {
    qf_dim one = qf_onnx_constant(call, 1), block = qf_dim_divide_exactly(call->import->context, channels, groups);
    qf_value column = qf_import_view(qf_onnx_target(call), vector, (qf_dim[]){groups, one}, 2);
    return qf_import_view(qf_onnx_target(call),
                          qf_import_expand(qf_onnx_target(call), column, (qf_dim[]){groups, block}, 2), &channels, 1);
}

qf_onnx_outcome qf_onnx_map_group_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), weight = qf_onnx_in(call, 1), bias = qf_onnx_in(call, 2);
    int64_t count = qf_onnx_int(call, "num_groups", 0);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank < 3 || rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    qf_dim groups = qf_onnx_constant(call, count), channels = qf_onnx_dim(call, x, 1);
    if (count < 1 || !qf_dim_divide_exactly(call->import->context, channels, groups).id)
        return qf_onnx_decline(call, "its channels do not divide by num_groups");
    if (call->row->argument == 0) {
        weight = per_channel(call, weight, channels, groups);
        bias = per_channel(call, bias, channels, groups);
    }
    return scale_channels(call, normalise_groups(call, x, groups, qf_onnx_float(call, "epsilon", 1e-5f)), weight, bias);
}

qf_onnx_outcome qf_onnx_map_instance_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank < 3 || rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    qf_value normal = normalise_groups(call, x, qf_onnx_dim(call, x, 1), qf_onnx_float(call, "epsilon", 1e-5f));
    return scale_channels(call, normal, qf_onnx_in(call, 1), qf_onnx_in(call, 2));
}

qf_onnx_outcome qf_onnx_map_batch_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank < 2 || rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    if (qf_onnx_int(call, "training_mode", 0) || qf_onnx_wants(call, 1)) return qf_onnx_decline(call, "it trains");
    qf_value mean = channel_vector(call, qf_onnx_in(call, 3), rank);
    qf_value variance = channel_vector(call, qf_onnx_in(call, 4), rank);
    qf_value centred = qf_import_binary(qf_onnx_target(call), QF_OP_sub, qf_onnx_widen(call, x), mean);
    qf_value root = inverse_root(call, variance, qf_onnx_float(call, "epsilon", 1e-5f));
    return scale_channels(call, qf_import_binary(qf_onnx_target(call), QF_OP_mul, centred, root), qf_onnx_in(call, 1),
                          qf_onnx_in(call, 2));
}

qf_onnx_outcome qf_onnx_map_lp_normalization(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t axis, rank = qf_onnx_rank(call, x);
    int64_t p = qf_onnx_int(call, "p", 2);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, unknown_shape);
    if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", -1), rank, &axis)) return QF_ONNX_FAILED;
    if (p != 1 && p != 2) return qf_onnx_decline(call, "its norm is neither 1 nor 2");
    qf_value wide = qf_onnx_widen(call, x);
    qf_value part = p == 1 ? qf_import_unary(qf_onnx_target(call), QF_OP_abs, wide)
                           : qf_import_binary(qf_onnx_target(call), QF_OP_mul, wide, wide);
    int64_t axes[] = {axis};
    qf_value norm = qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_sum, part, axes, 1, true);
    if (p == 2) norm = qf_import_unary(qf_onnx_target(call), QF_OP_sqrt, norm);
    qf_value zero = qf_onnx_number(call, qf_onnx_dtype_of(call, wide), 0);
    qf_value ratio = qf_import_binary(qf_onnx_target(call), QF_OP_div, wide, norm);
    ratio = qf_import_where(qf_onnx_target(call), qf_import_binary(qf_onnx_target(call), QF_OP_equal, norm, zero), zero,
                            ratio);
    return qf_onnx_done(call, qf_onnx_narrow(call, ratio, x));
}
