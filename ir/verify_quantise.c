/* Owns: checks of quantisation, scaled contractions and norms: granularity, direction, modes, zero points.
 * Does not own: attention (verify_attention.c), dtype sets (verify.def).
 * Next: verify_call.h, docs/numerics.md. */
#include <inttypes.h>

#include "ir/equation.h"
#include "ir/verify_call.h"

/* Granularity of quantize and dequantize: axis -1: one scale; axis with group 0: one an index of the axis; group > 0:
 * one a block of the axis, in a vector (the same for every other index) or in a scale of x's rank. */
static void check_granularity(qf_verify_call *call, uint32_t operand, int64_t axis, int64_t group) {
    qf_context *context = call->graph->context;
    uint32_t rank = qf_verify_rank(call, 0), own = qf_verify_rank(call, operand);
    if (!qf_verify_has(call, operand)) return;
    if (axis < 0) {
        qf_dim one = qf_dim_constant(context, 1);
        if (own == QF_UNRANKED || own == 0 ||
            (own == 1 && !qf_verify_dims_differ(call, qf_verify_dim(call, operand, 0), one)))
            return;
        qf_verify_fault(call, "operand %s: expected one ([] or [1]) with axis=-1, found %s; give axis for more",
                        qf_verify_name(call, operand), qf_verify_type_text(call, qf_verify_type(call, operand)).data);
        return;
    }
    qf_dim size = qf_verify_dim(call, 0, (int32_t)axis);
    if (group == 0) {
        if (qf_verify_operand_rank(call, operand, 1, 1))
            (void)qf_verify_operand_dim(call, operand, 0, size, "one entry an index of axis");
        return;
    }
    qf_dim block = qf_dim_constant(context, group);
    if (own == 1 && rank != 1) {
        (void)qf_verify_operand_dim(call, operand, 0, qf_dim_floor_divide(context, size, block),
                                    "one entry a block of axis");
        return;
    }
    if (rank == QF_UNRANKED || !qf_verify_operand_rank(call, operand, rank, rank)) return;
    for (uint32_t i = 0; own != QF_UNRANKED && i < rank; i++) {
        qf_dim expected = qf_verify_dim(call, 0, (int32_t)i);
        if ((int64_t)i == axis) expected = qf_dim_floor_divide(context, expected, block);
        (void)qf_verify_operand_dim(call, operand, (int32_t)i, expected,
                                    (int64_t)i == axis ? "one entry a block of axis" : "like that of x");
    }
}

static bool check_axis_and_group(qf_verify_call *call, int64_t axis, int64_t group) {
    uint32_t rank = qf_verify_rank(call, 0);
    if (axis < -1 || axis >= (rank == QF_UNRANKED ? QF_MAX_RANK : (int64_t)rank)) {
        qf_verify_fault(call, "attribute axis: expected -1 (one scale) or an axis of x (%s), found %" PRId64,
                        qf_verify_type_text(call, qf_verify_type(call, 0)).data, axis);
        return false;
    }
    if (group < 0 || (group > 0 && axis < 0)) {
        qf_verify_fault(call, "attribute group: expected 0, or at least 1 together with axis, found %" PRId64, group);
        return false;
    }
    qf_dim size = axis >= 0 ? qf_verify_dim(call, 0, (int32_t)axis) : (qf_dim){0};
    if (group > 0 && qf_verify_not_divisible(call, size, qf_dim_constant(call->graph->context, group))) {
        qf_verify_fault(call, "attribute group: %" PRId64 " does not divide axis %" PRId64 " of x (%s)", group, axis,
                        qf_verify_type_text(call, qf_verify_type(call, 0)).data);
        return false;
    }
    return true;
}

static bool is_integer(qf_dtype dtype) {
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER;
}

/* Zero points shift integers only; a float format has its own zero. */
static void check_zero_point(qf_verify_call *call, uint32_t operand, qf_dtype stored, int64_t axis, int64_t group) {
    if (!qf_verify_has(call, operand) || stored == QF_DTYPE_NONE) return;
    qf_dtype own = qf_verify_dtype(call, operand);
    if (!is_integer(stored))
        qf_verify_fault(call, "operand zero_point: expected none beside %s; only integers have a zero point",
                        qf_dtype_name(stored));
    else if (own != QF_DTYPE_NONE && own != stored)
        qf_verify_fault(call, "operand zero_point: expected %s like the stored values, found %s", qf_dtype_name(stored),
                        qf_verify_type_text(call, qf_verify_type(call, operand)).data);
    else
        check_granularity(call, operand, axis, group);
}

void qf_verify_quantize(qf_verify_call *call) {
    int64_t axis = QF_VERIFY_INTEGER(call, quantize, axis), group = QF_VERIFY_INTEGER(call, quantize, group);
    qf_dtype dtype = (qf_dtype)QF_VERIFY_INTEGER(call, quantize, dtype);
    if (is_integer(dtype) && !QF_VERIFY_INTEGER(call, quantize, saturate))
        qf_verify_fault(call, "attribute saturate: integers saturate always; leave it out for dtype=%s",
                        qf_dtype_name(dtype));
    if (QF_VERIFY_INTEGER(call, quantize, mode) == QF_VALUE_mul_recip &&
        QF_VERIFY_INTEGER(call, quantize, compute) != QF_F32)
        qf_verify_fault(call, "attribute compute: mul_recip multiplies by an f32 reciprocal, found compute=%s",
                        qf_dtype_name((qf_dtype)QF_VERIFY_INTEGER(call, quantize, compute)));
    if (!check_axis_and_group(call, axis, group)) return;
    check_granularity(call, QF_IN(quantize, scale), axis, group);
    check_zero_point(call, QF_IN(quantize, zero_point), dtype, axis, group);
}

void qf_verify_dequantize(qf_verify_call *call) {
    int64_t axis = QF_VERIFY_INTEGER(call, dequantize, axis), group = QF_VERIFY_INTEGER(call, dequantize, group);
    if (!check_axis_and_group(call, axis, group)) return;
    check_granularity(call, QF_IN(dequantize, scale), axis, group);
    check_zero_point(call, QF_IN(dequantize, zero_point), qf_verify_dtype(call, QF_IN(dequantize, x)), axis, group);
}

void qf_verify_dynamic_quantize(qf_verify_call *call) {
    int64_t group = QF_VERIFY_INTEGER(call, dynamic_quantize, group);
    bool grouped = QF_VERIFY_INTEGER(call, dynamic_quantize, granularity) == QF_VALUE_group;
    qf_dim last = qf_verify_dim(call, QF_IN(dynamic_quantize, x), -1);
    if (grouped != (group > 0) || group < 0)
        qf_verify_fault(call, "attribute group: expected %s, found %" PRId64,
                        grouped ? "at least 1 with granularity=group" : "0 without granularity=group", group);
    else if (grouped && qf_verify_not_divisible(call, last, qf_dim_constant(call->graph->context, group)))
        qf_verify_fault(call, "attribute group: %" PRId64 " does not divide the last axis of x (%s)", group,
                        qf_verify_type_text(call, qf_verify_type(call, QF_IN(dynamic_quantize, x))).data);
    if (qf_verify_has(call, QF_IN(dynamic_quantize, upper_bound)))
        (void)qf_verify_scale(call, QF_IN(dynamic_quantize, upper_bound), (qf_dim){0});
}

void qf_verify_scaled_matmul(qf_verify_call *call) {
    qf_context *context = call->graph->context;
    uint32_t rank = qf_verify_rank(call, QF_IN(scaled_matmul, a));
    qf_dim dims[QF_MAX_RANK] = {{0}}, one = qf_dim_constant(context, 1);
    qf_dim columns = qf_verify_dim(call, QF_IN(scaled_matmul, b), 1);
    const qf_verify_output output = {.out_scale = QF_IN(scaled_matmul, out_scale),
                                     .out = QF_ATTR(scaled_matmul, out),
                                     .out_mode = QF_ATTR(scaled_matmul, out_mode),
                                     .out_compute = -1,
                                     .via = -1};
    qf_dim inner = qf_verify_dim(call, QF_IN(scaled_matmul, b), 0);
    if (inner.id) (void)qf_verify_operand_dim(call, QF_IN(scaled_matmul, a), -1, inner, "summed with axis 0 of b");
    for (uint32_t i = 0; rank != QF_UNRANKED && i < rank; i++)
        dims[i] = i + 1 < rank ? qf_verify_dim(call, QF_IN(scaled_matmul, a), (int32_t)i) : one;
    if (rank != QF_UNRANKED)
        (void)qf_verify_broadcasts_to(call, QF_IN(scaled_matmul, a_scale), dims, rank, "one scale or one a row");
    const qf_dim by_column[] = {one, columns};
    (void)qf_verify_broadcasts_to(call, QF_IN(scaled_matmul, b_scale), by_column, 2, "one scale or one a column");
    if (qf_verify_has(call, QF_IN(scaled_matmul, bias)))
        (void)qf_verify_broadcasts_to(call, QF_IN(scaled_matmul, bias), &columns, 1, "the columns");
    if (!QF_VERIFY_INTEGER(call, scaled_matmul, out))
        qf_verify_fault(call, "attribute out: expected a type, found none");
    qf_verify_output_quantisation(call, &output);
}

/* --- norms and activations --- */

/* Weights over the axes of x from `axis` on. */
static void check_norm_operand(qf_verify_call *call, uint32_t operand, int64_t axis) {
    uint32_t rank = qf_verify_rank(call, 0);
    qf_dim dims[QF_MAX_RANK];
    if (rank == QF_UNRANKED || !qf_verify_has(call, operand)) return;
    for (uint32_t i = (uint32_t)axis; i < rank; i++) dims[i - (uint32_t)axis] = qf_verify_dim(call, 0, (int32_t)i);
    (void)qf_verify_broadcasts_to(call, operand, dims, rank - (uint32_t)axis, "the normalised axes of x");
}

static void check_epsilon(qf_verify_call *call, uint32_t attribute) {
    double epsilon = call->attributes[attribute].number;
    if (!(epsilon >= 0) || epsilon - epsilon != 0)
        qf_verify_fault(call, "attribute epsilon: expected a finite number of at least 0, found %g", epsilon);
}

void qf_verify_layer_norm(qf_verify_call *call) {
    check_epsilon(call, QF_ATTR(layer_norm, epsilon));
    check_norm_operand(call, QF_IN(layer_norm, weight), QF_VERIFY_INTEGER(call, layer_norm, axis));
    check_norm_operand(call, QF_IN(layer_norm, bias), QF_VERIFY_INTEGER(call, layer_norm, axis));
}

#define OUTPUT_OF(op)                                                                                                  \
    ((qf_verify_output){.out_scale = QF_IN(op, out_scale),                                                             \
                        .out = QF_ATTR(op, out),                                                                       \
                        .out_mode = QF_ATTR(op, out_mode),                                                             \
                        .out_compute = QF_ATTR(op, out_compute),                                                       \
                        .via = QF_ATTR(op, via)})

void qf_verify_rms_norm(qf_verify_call *call) {
    const qf_verify_output output = OUTPUT_OF(rms_norm);
    check_epsilon(call, QF_ATTR(rms_norm, epsilon));
    check_norm_operand(call, QF_IN(rms_norm, weight), QF_VERIFY_INTEGER(call, rms_norm, axis));
    qf_verify_output_quantisation(call, &output);
}

void qf_verify_add_rms_norm(qf_verify_call *call) {
    const qf_verify_output output = OUTPUT_OF(add_rms_norm);
    check_epsilon(call, QF_ATTR(add_rms_norm, epsilon));
    check_norm_operand(call, QF_IN(add_rms_norm, weight), QF_VERIFY_INTEGER(call, add_rms_norm, axis));
    qf_verify_output_quantisation(call, &output);
}

void qf_verify_silu_mul(qf_verify_call *call) {
    const qf_verify_output output = OUTPUT_OF(silu_mul);
    if (qf_verify_not_divisible(call, qf_verify_dim(call, QF_IN(silu_mul, x), -1),
                                qf_dim_constant(call->graph->context, 2)))
        qf_verify_fault(call, "operand x: expected an even last axis (gate | up), found %s",
                        qf_verify_type_text(call, qf_verify_type(call, QF_IN(silu_mul, x))).data);
    qf_verify_output_quantisation(call, &output);
}

void qf_verify_contract(qf_verify_call *call) {
    qf_text text = qf_string_text(call->graph->context, call->attributes[QF_ATTR(contract, equation)].string);
    qf_equation equation;
    const char *wrong = qf_equation_parse(text, &equation);
    if (wrong)
        qf_verify_fault(call, "attribute equation: expected labels such as \"bhtd,bhsd->bhts\", found \"%.*s\": %s",
                        (int)(text.size > 100 ? 100 : text.size), text.data, wrong);
    if (!qf_class_holds(QF_CLASS_NUMBER, (qf_dtype)QF_VERIFY_INTEGER(call, contract, out)))
        qf_verify_fault(call, "attribute out: expected floats or integers, found %s",
                        qf_dtype_name((qf_dtype)QF_VERIFY_INTEGER(call, contract, out)));
}
