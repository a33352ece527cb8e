/* Owns: mappings of elementwise ops: arithmetic, comparison, selection, casts.
 * Does not own: activations (map_activation.c).
 * Next: map_activation.c. */
#include <math.h>

#include "frontends/onnx/maps.h"

qf_onnx_outcome qf_onnx_map_unary(qf_onnx_call *call) {
    return qf_onnx_done(call, qf_import_unary(qf_onnx_target(call), (qf_op)call->row->argument, qf_onnx_in(call, 0)));
}

qf_onnx_outcome qf_onnx_map_binary(qf_onnx_call *call) {
    qf_value operands[] = {qf_onnx_in(call, 0), qf_onnx_in(call, 1)};
    bool mixed = qf_onnx_harmonise(call, operands, 2);
    qf_value result = qf_import_binary(qf_onnx_target(call), (qf_op)call->row->argument, operands[0], operands[1]);
    return qf_onnx_done_mixed(call, result, mixed);
}

qf_onnx_outcome qf_onnx_map_variadic(qf_onnx_call *call) {
    qf_value *operands = qf_arena_copy(&call->import->scratch, call->inputs, call->input_count * sizeof *call->inputs);
    if (!operands) return QF_ONNX_FAILED;
    bool mixed = qf_onnx_harmonise(call, operands, call->input_count);
    qf_value result = operands[0];
    for (uint32_t i = 1; i < call->input_count; i++)
        result = qf_import_binary(qf_onnx_target(call), (qf_op)call->row->argument, result, operands[i]);
    return qf_onnx_done_mixed(call, result, mixed);
}

qf_onnx_outcome qf_onnx_map_mean(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), sum = qf_onnx_widen(call, x);
    for (uint32_t i = 1; i < call->input_count; i++)
        sum = qf_import_binary(qf_onnx_target(call), QF_OP_add, sum, qf_onnx_widen(call, qf_onnx_in(call, i)));
    qf_value count = qf_onnx_number(call, qf_onnx_dtype_of(call, sum), call->input_count);
    return qf_onnx_done(call, qf_onnx_narrow(call, qf_import_binary(qf_onnx_target(call), QF_OP_div, sum, count), x));
}

qf_onnx_outcome qf_onnx_map_identity(qf_onnx_call *call) {
    return qf_onnx_done(call, qf_onnx_in(call, 0));
}

/* Inference: the identity. A training mode that is not the constant false is not. */
qf_onnx_outcome qf_onnx_map_dropout(qf_onnx_call *call) {
    if (qf_onnx_in(call, 2).id && !qf_onnx_is_zero(call, qf_onnx_in(call, 2)))
        return qf_onnx_decline(call, "it drops elements at random (training_mode)");
    qf_value x = qf_onnx_in(call, 0);
    if (qf_onnx_wants(call, 1)) {
        uint32_t rank = qf_onnx_rank(call, x);
        if (rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
        call->outputs[1] = qf_onnx_filled(call, QF_I1, 1, qf_value_dims(qf_onnx_graph(call), x), rank);
    }
    return qf_onnx_done(call, x);
}

/* The base's dtype is the result's. A fractional exponent of an integer base is computed in the exponent's dtype. */
qf_onnx_outcome qf_onnx_map_power(qf_onnx_call *call) {
    qf_value base = qf_onnx_in(call, 0), exponent = qf_onnx_in(call, 1);
    qf_dtype result = qf_onnx_dtype_of(call, base), other = qf_onnx_dtype_of(call, exponent);
    if (qf_dtype_is_float(other) && !qf_dtype_is_float(result))
        base = qf_onnx_cast(call, base, other, true);
    else
        exponent = qf_onnx_cast(call, exponent, result, true);
    return qf_onnx_done(
        call, qf_onnx_cast(call, qf_import_binary(qf_onnx_target(call), QF_OP_pow, base, exponent), result, true));
}

qf_onnx_outcome qf_onnx_map_modulo(qf_onnx_call *call) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_mod, attributes);
    attributes[QF_ATTR(mod, fmod)].integer = qf_onnx_int(call, "fmod", 0) != 0;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_mod,
                                           (qf_value[]){qf_onnx_in(call, 0), qf_onnx_in(call, 1)}, 2, attributes));
}

qf_onnx_outcome qf_onnx_map_is_inf(qf_onnx_call *call) {
    bool negative = qf_onnx_int(call, "detect_negative", 1) != 0,
         positive = qf_onnx_int(call, "detect_positive", 1) != 0;
    qf_value x = qf_onnx_in(call, 0), any = qf_import_unary(qf_onnx_target(call), QF_OP_is_inf, x);
    if (negative && positive) return qf_onnx_done(call, any);
    qf_value zero = qf_onnx_number(call, qf_onnx_dtype_of(call, x), 0);
    qf_value side = qf_import_binary(qf_onnx_target(call), positive ? QF_OP_greater : QF_OP_less, x, zero);
    qf_value result = qf_import_binary(qf_onnx_target(call), QF_OP_and, any, side);
    if (!positive && !negative)
        result = qf_import_binary(qf_onnx_target(call), QF_OP_and, result,
                                  qf_import_unary(qf_onnx_target(call), QF_OP_not, any));
    return qf_onnx_done(call, result);
}

qf_onnx_outcome qf_onnx_map_where(qf_onnx_call *call) {
    qf_value sides[] = {qf_onnx_in(call, 1), qf_onnx_in(call, 2)};
    bool mixed = qf_onnx_harmonise(call, sides, 2);
    return qf_onnx_done_mixed(call, qf_import_where(qf_onnx_target(call), qf_onnx_in(call, 0), sides[0], sides[1]),
                              mixed);
}

qf_onnx_outcome qf_onnx_map_clip(qf_onnx_call *call) {
    qf_value all[] = {qf_onnx_in(call, 0), qf_onnx_in(call, 1), qf_onnx_in(call, 2)};
    if (!all[1].id && !all[2].id) return qf_onnx_done(call, all[0]);
    bool mixed = qf_onnx_harmonise(call, all, 3);
    return qf_onnx_done_mixed(call, qf_import_clamp(qf_onnx_target(call), all[0], all[1], all[2]), mixed);
}

/* Before opset 19 there is no FP8 and no attribute; saturation is the default since. */
static qf_onnx_outcome cast_to(qf_onnx_call *call, qf_dtype dtype) {
    if (dtype == QF_DTYPE_NONE) return qf_onnx_decline(call, "its target type is unknown to QFuse");
    if (qf_onnx_dtype_of(call, qf_onnx_in(call, 0)) == QF_DTYPE_NONE)
        return qf_onnx_decline(call, "the type of its input is unknown to QFuse");
    qf_text rounding = qf_onnx_string(call, "round_mode", "up");
    if (dtype == QF_F8E8M0FNU && !qf_text_is(rounding, "nearest"))
        return qf_onnx_decline(call, "it rounds to FLOAT8E8M0 in another way than to nearest");
    bool saturate = call->row->argument == 0 || qf_onnx_int(call, "saturate", 1) != 0;
    return qf_onnx_done(call, qf_onnx_cast(call, qf_onnx_in(call, 0), dtype, saturate));
}

qf_onnx_outcome qf_onnx_map_cast(qf_onnx_call *call) {
    int64_t to = qf_onnx_int(call, "to", 0);
    if (to == 0) return qf_onnx_fault(call, QF_ERROR_VERIFY, "Cast: expected attribute 'to', found none");
    return cast_to(call, qf_onnx_dtype(to));
}

qf_onnx_outcome qf_onnx_map_cast_like(qf_onnx_call *call) {
    return cast_to(call, qf_onnx_dtype_of(call, qf_onnx_in(call, 1)));
}

qf_onnx_outcome qf_onnx_map_bit_cast(qf_onnx_call *call) {
    qf_dtype to = qf_onnx_dtype(qf_onnx_int(call, "to", 0)), from = qf_onnx_dtype_of(call, qf_onnx_in(call, 0));
    if (to == QF_DTYPE_NONE || qf_dtype_bits(to) != qf_dtype_bits(from))
        return qf_onnx_decline(call, "its target type is unknown or of another width");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_bitcast, attributes);
    attributes[QF_ATTR(bitcast, dtype)].integer = to;
    qf_value x = qf_onnx_in(call, 0);
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_bitcast, &x, 1, attributes));
}
