/* Owns: mappings of activation functions, those without an op of their own written out in f32.
 * Does not own: plain elementwise ops (map_elementwise.c).
 * Next: map_shape.c. */
#include <math.h>

#include "frontends/onnx/maps.h"

static qf_value constant_like(qf_onnx_call *call, qf_value like, double number) {
    return qf_onnx_number(call, qf_onnx_dtype_of(call, like), number);
}

static qf_value times(qf_onnx_call *call, qf_value a, qf_value b) {
    return qf_import_binary(qf_onnx_target(call), QF_OP_mul, a, b);
}

static qf_value plus(qf_onnx_call *call, qf_value x, double number) {
    return qf_import_binary(qf_onnx_target(call), QF_OP_add, x, constant_like(call, x, number));
}

/* negative(x) where x < 0, else x. */
static qf_value below_zero(qf_onnx_call *call, qf_value x, qf_value negative, qf_value otherwise) {
    return qf_import_where(qf_onnx_target(call),
                           qf_import_binary(qf_onnx_target(call), QF_OP_less, x, constant_like(call, x, 0)), negative,
                           otherwise);
}

static qf_onnx_outcome narrow(qf_onnx_call *call, qf_value y) {
    return qf_onnx_done(call, qf_onnx_narrow(call, y, qf_onnx_in(call, 0)));
}

static qf_value wide_input(qf_onnx_call *call) {
    return qf_onnx_widen(call, qf_onnx_in(call, 0));
}

/* Step by step: 1 / (1 + e^-x) where x > 0, e^x / (1 + e^x) elsewhere, so that neither overflows. */
qf_onnx_outcome qf_onnx_map_sigmoid(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    if (!qf_onnx_is_stepwise(call, x))
        return qf_onnx_done(call, qf_import_unary(qf_onnx_target(call), QF_OP_sigmoid, x));
    qf_value decay =
        qf_import_unary(qf_onnx_target(call), QF_OP_exp, qf_import_unary(qf_onnx_target(call), QF_OP_neg, x));
    qf_value growth = qf_import_unary(qf_onnx_target(call), QF_OP_exp, x);
    qf_value right = qf_import_binary(qf_onnx_target(call), QF_OP_div, constant_like(call, x, 1), plus(call, decay, 1));
    qf_value left = qf_import_binary(qf_onnx_target(call), QF_OP_div, growth, plus(call, growth, 1));
    qf_value positive = qf_import_binary(qf_onnx_target(call), QF_OP_greater, x, constant_like(call, x, 0));
    return qf_onnx_done(call, qf_import_where(qf_onnx_target(call), positive, right, left));
}

static qf_value emit_gelu(qf_onnx_call *call, qf_value x, int64_t approximate) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_gelu, attributes);
    attributes[QF_ATTR(gelu, approximate)].integer = approximate;
    return qf_import_op(qf_onnx_target(call), QF_OP_gelu, &x, 1, attributes);
}

qf_onnx_outcome qf_onnx_map_gelu(qf_onnx_call *call) {
    qf_text approximate = qf_onnx_string(call, "approximate", "none");
    if (!qf_text_is(approximate, "none") && !qf_text_is(approximate, "tanh"))
        return qf_onnx_decline(call, "its approximation is neither none nor tanh");
    int64_t mode = qf_text_is(approximate, "tanh") ? QF_VALUE_tanh : QF_VALUE_erf;
    return qf_onnx_done(call, emit_gelu(call, qf_onnx_in(call, 0), mode));
}

qf_onnx_outcome qf_onnx_map_bias_gelu(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), bias = qf_onnx_in(call, 1);
    if (bias.id) x = qf_import_binary(qf_onnx_target(call), QF_OP_add, x, bias);
    return qf_onnx_done(call, emit_gelu(call, x, call->row->argument));
}

qf_onnx_outcome qf_onnx_map_quick_gelu(qf_onnx_call *call) {
    double alpha = qf_onnx_float(call, "alpha", 1.702);
    if ((float)alpha == 1.702f) return qf_onnx_done(call, emit_gelu(call, qf_onnx_in(call, 0), QF_VALUE_quick));
    qf_value x = wide_input(call);
    return narrow(call,
                  times(call, x, qf_import_unary(qf_onnx_target(call), QF_OP_sigmoid, qf_onnx_scale(call, x, alpha))));
}

/* [a | b] = x + bias along the last axis; a * gelu(b). */
qf_onnx_outcome qf_onnx_map_bias_split_gelu(qf_onnx_call *call) {
    qf_value x = qf_import_binary(qf_onnx_target(call), QF_OP_add, qf_onnx_in(call, 0), qf_onnx_in(call, 1));
    uint32_t rank = qf_onnx_rank(call, x);
    int64_t width;
    if (call->import->failed) return QF_ONNX_FAILED;
    if (rank == 0 || rank > QF_MAX_RANK ||
        !qf_dim_is_constant(call->import->context, qf_onnx_dim(call, x, -1), &width) || width % 2)
        return qf_onnx_decline(call, "its last dim is not an even constant");
    qf_dim half = qf_onnx_constant(call, width / 2);
    qf_value a = qf_onnx_slice_axis(call, x, rank - 1, qf_onnx_constant(call, 0), half);
    qf_value b = qf_onnx_slice_axis(call, x, rank - 1, half, qf_onnx_constant(call, width));
    return qf_onnx_done(call, times(call, a, emit_gelu(call, b, QF_VALUE_erf)));
}

/* max(x, 0) + log(1 + e^-|x|): exact for large |x| as well. */
static qf_value soft_plus(qf_onnx_call *call, qf_value x) {
    qf_value decay = qf_import_unary(
        qf_onnx_target(call), QF_OP_exp,
        qf_import_unary(qf_onnx_target(call), QF_OP_neg, qf_import_unary(qf_onnx_target(call), QF_OP_abs, x)));
    qf_value tail = qf_import_unary(qf_onnx_target(call), QF_OP_log, plus(call, decay, 1));
    return qf_import_binary(qf_onnx_target(call), QF_OP_add, qf_import_unary(qf_onnx_target(call), QF_OP_relu, x),
                            tail);
}

qf_onnx_outcome qf_onnx_map_softplus(qf_onnx_call *call) {
    return narrow(call, soft_plus(call, wide_input(call)));
}

qf_onnx_outcome qf_onnx_map_mish(qf_onnx_call *call) {
    qf_value x = wide_input(call);
    return narrow(call, times(call, x, qf_import_unary(qf_onnx_target(call), QF_OP_tanh, soft_plus(call, x))));
}

qf_onnx_outcome qf_onnx_map_softsign(qf_onnx_call *call) {
    qf_value x = wide_input(call);
    return narrow(call, qf_import_binary(qf_onnx_target(call), QF_OP_div, x,
                                         plus(call, qf_import_unary(qf_onnx_target(call), QF_OP_abs, x), 1)));
}

static qf_value hard_sigmoid(qf_onnx_call *call, qf_value x, double alpha, double beta) {
    qf_value line = plus(call, qf_onnx_scale(call, x, alpha), beta);
    return qf_import_clamp(qf_onnx_target(call), line, constant_like(call, x, 0), constant_like(call, x, 1));
}

qf_onnx_outcome qf_onnx_map_hard_sigmoid(qf_onnx_call *call) {
    double alpha = qf_onnx_float(call, "alpha", 0.2f), beta = qf_onnx_float(call, "beta", 0.5);
    return narrow(call, hard_sigmoid(call, wide_input(call), alpha, beta));
}

qf_onnx_outcome qf_onnx_map_hard_swish(qf_onnx_call *call) {
    qf_value x = wide_input(call);
    return narrow(call, times(call, x, hard_sigmoid(call, x, (double)(1.0f / 6.0f), 0.5)));
}

qf_onnx_outcome qf_onnx_map_leaky_relu(qf_onnx_call *call) {
    qf_value x = wide_input(call);
    qf_value slope = qf_onnx_in(call, 1).id ? qf_onnx_widen(call, qf_onnx_in(call, 1))
                                            : constant_like(call, x, qf_onnx_float(call, "alpha", 0.01f));
    return narrow(call, below_zero(call, x, times(call, x, slope), x));
}

/* e^x - 1 */
static qf_value exp_minus_one(qf_onnx_call *call, qf_value x) {
    return plus(call, qf_import_unary(qf_onnx_target(call), QF_OP_exp, x), -1);
}

qf_onnx_outcome qf_onnx_map_elu(qf_onnx_call *call) {
    qf_value x = wide_input(call);
    return narrow(call,
                  below_zero(call, x, qf_onnx_scale(call, exp_minus_one(call, x), qf_onnx_float(call, "alpha", 1)), x));
}

qf_onnx_outcome qf_onnx_map_selu(qf_onnx_call *call) {
    double alpha = qf_onnx_float(call, "alpha", 1.67326319217681884765625);
    double gamma = qf_onnx_float(call, "gamma", 1.05070102214813232421875);
    qf_value x = wide_input(call);
    qf_value y = below_zero(call, x, qf_onnx_scale(call, exp_minus_one(call, x), alpha), x);
    return narrow(call, qf_onnx_scale(call, y, gamma));
}

qf_onnx_outcome qf_onnx_map_celu(qf_onnx_call *call) {
    double alpha = qf_onnx_float(call, "alpha", 1);
    if (alpha == 0) return qf_onnx_decline(call, "its alpha is zero");
    qf_value x = wide_input(call);
    qf_value negative = qf_onnx_scale(call, exp_minus_one(call, qf_onnx_scale(call, x, 1 / alpha)), alpha);
    return narrow(call, below_zero(call, x, negative, x));
}

qf_onnx_outcome qf_onnx_map_swish(qf_onnx_call *call) {
    double alpha = qf_onnx_float(call, "alpha", 1);
    if (alpha == 1) return qf_onnx_done(call, qf_import_unary(qf_onnx_target(call), QF_OP_silu, qf_onnx_in(call, 0)));
    qf_value x = wide_input(call);
    return narrow(call,
                  times(call, x, qf_import_unary(qf_onnx_target(call), QF_OP_sigmoid, qf_onnx_scale(call, x, alpha))));
}

qf_onnx_outcome qf_onnx_map_thresholded_relu(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    qf_value above = qf_import_binary(qf_onnx_target(call), QF_OP_greater, x,
                                      constant_like(call, x, qf_onnx_float(call, "alpha", 1)));
    return qf_onnx_done(call, qf_import_where(qf_onnx_target(call), above, x, constant_like(call, x, 0)));
}

qf_onnx_outcome qf_onnx_map_tangent(qf_onnx_call *call) {
    qf_value x = wide_input(call);
    return narrow(call,
                  qf_import_binary(qf_onnx_target(call), QF_OP_div, qf_import_unary(qf_onnx_target(call), QF_OP_sin, x),
                                   qf_import_unary(qf_onnx_target(call), QF_OP_cos, x)));
}
