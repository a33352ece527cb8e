/* Owns: mappings of quantisation: Q/DQ of every opset and domain, and quantised products.
 * Does not own: attention's own scales (map_attention.c).
 * Next: map_attention.c. */
#include "frontends/onnx/maps.h"

/* What scale's shape and the node's attributes say about granularity. */
typedef struct granularity {
    int64_t axis, group; /* as in ops.def; axis -1: per tensor */
} granularity;

static bool read_granularity(qf_onnx_call *call, qf_value x, qf_value scale, bool has_default_axis, granularity *out) {
    *out = (granularity){-1, 0};
    uint32_t rank = qf_onnx_rank(call, x), scale_rank = qf_onnx_rank(call, scale), axis;
    int64_t block = qf_onnx_int(call, "block_size", 0);
    if (block < 0) {
        (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "%s: block_size is %lld; expected 0 or more", call->row->op_type,
                            (long long)block);
        return false;
    }
    if (block == 0 &&
        (scale_rank == 0 || (scale_rank == 1 && qf_dim_is(call->import->context, qf_onnx_dim(call, scale, 0), 1))))
        return true;
    if (rank > QF_MAX_RANK || scale_rank > QF_MAX_RANK) {
        call->reason = "the shape of its input or scale is unknown";
        return false;
    }
    if (!has_default_axis && !qf_onnx_has(call, "axis")) {
        call->reason = "its scale is no scalar, but it has no axis";
        return false;
    }
    if (rank == 1 && scale_rank == 1 && !qf_onnx_has(call, "axis"))
        axis = 0;
    else if (!qf_onnx_axis(call, qf_onnx_int(call, "axis", 1), rank, &axis))
        return false;
    *out = (granularity){axis, block};
    return true;
}

/* The zero point as an operand: none where it is absent or a float's zero. False: it cannot be carried. */
static bool read_zero_point(qf_onnx_call *call, qf_value zero_point, qf_value *out) {
    *out = zero_point;
    if (!zero_point.id || !qf_dtype_is_float(qf_onnx_dtype_of(call, zero_point))) return true;
    *out = (qf_value){0};
    if (qf_onnx_is_zero(call, zero_point)) return true;
    call->reason = "its floating-point zero point is not known to be zero";
    return false;
}

typedef struct quantise_how {
    granularity granularity;
    qf_dtype dtype, compute;
    bool saturate;
} quantise_how;

static qf_value emit_quantize(qf_onnx_call *call, qf_value x, qf_value scale, qf_value zero_point,
                              const quantise_how *how) {
    if (!qf_dtype_is_float(qf_onnx_dtype_of(call, x))) x = qf_onnx_cast(call, x, QF_F32, true);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_quantize, attributes);
    attributes[QF_ATTR(quantize, dtype)].integer = how->dtype;
    attributes[QF_ATTR(quantize, mode)].integer = QF_VALUE_div;
    attributes[QF_ATTR(quantize, compute)].integer = how->compute;
    attributes[QF_ATTR(quantize, saturate)].integer = how->saturate;
    attributes[QF_ATTR(quantize, axis)].integer = how->granularity.axis;
    attributes[QF_ATTR(quantize, group)].integer = how->granularity.group;
    return qf_import_op(qf_onnx_target(call), QF_OP_quantize, (qf_value[]){x, scale, zero_point}, 3, attributes);
}

static qf_value emit_dequantize(qf_onnx_call *call, qf_value x, qf_value scale, qf_value zero_point, granularity how,
                                qf_dtype dtype) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_dequantize, attributes);
    attributes[QF_ATTR(dequantize, dtype)].integer = dtype;
    attributes[QF_ATTR(dequantize, axis)].integer = how.axis;
    attributes[QF_ATTR(dequantize, group)].integer = how.group;
    return qf_import_op(qf_onnx_target(call), QF_OP_dequantize, (qf_value[]){x, scale, zero_point}, 3, attributes);
}

static bool supported(qf_dtype dtype) {
    return dtype == QF_I8 || dtype == QF_U8 || dtype == QF_F4E2M1FN || qf_dtype_is_float8(dtype);
}

/* Opset 23 divides in y_scale's type unless `precision` says otherwise; before, the specification leaves it open and
 * implementations divide in f32. f8E8M0 scales divide in f32. */
static qf_dtype compute_dtype(qf_onnx_call *call, qf_value scale) {
    if (call->row->argument < 19) return QF_F32;
    int64_t precision = qf_onnx_int(call, "precision", 0);
    qf_dtype dtype = precision ? qf_onnx_dtype(precision) : qf_onnx_dtype_of(call, scale);
    return dtype == QF_F16 || dtype == QF_BF16 ? dtype : QF_F32;
}

/* x, scale and an optional zero point, whose dtype is the result's; else `output_dtype` is, else `dtype`. */
static qf_onnx_outcome map_quantize(qf_onnx_call *call, qf_dtype dtype, qf_dtype compute, bool has_default_axis) {
    qf_value x = qf_onnx_in(call, 0), scale = qf_onnx_in(call, 1), zero_point;
    quantise_how how = {.dtype = dtype, .compute = compute, .saturate = qf_onnx_int(call, "saturate", 1) != 0};
    int64_t output_dtype = qf_onnx_int(call, "output_dtype", 0);
    if (qf_onnx_in(call, 2).id)
        how.dtype = qf_onnx_dtype_of(call, qf_onnx_in(call, 2));
    else if (output_dtype)
        how.dtype = qf_onnx_dtype(output_dtype);
    if (!supported(how.dtype)) return qf_onnx_decline(call, "its result has an element type that QFuse lacks");
    if (!read_zero_point(call, qf_onnx_in(call, 2), &zero_point) ||
        !read_granularity(call, x, scale, has_default_axis, &how.granularity))
        return qf_onnx_decline(call, call->reason);
    return qf_onnx_done(call, emit_quantize(call, x, scale, zero_point, &how));
}

qf_onnx_outcome qf_onnx_map_quantize_linear(qf_onnx_call *call) {
    return map_quantize(call, QF_U8, compute_dtype(call, qf_onnx_in(call, 1)), !*call->row->domain);
}

qf_onnx_outcome qf_onnx_map_dequantize_linear(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), scale = qf_onnx_in(call, 1), zero_point;
    granularity how;
    qf_dtype dtype = qf_onnx_dtype_of(call, scale), from = qf_onnx_dtype_of(call, x);
    int64_t output_dtype = qf_onnx_int(call, "output_dtype", 0);
    if (output_dtype) dtype = qf_onnx_dtype(output_dtype);
    if ((!supported(from) && from != QF_I32) || !qf_dtype_is_float(dtype))
        return qf_onnx_decline(call, "its input or result has an element type that QFuse lacks");
    if (!read_zero_point(call, qf_onnx_in(call, 2), &zero_point) ||
        !read_granularity(call, x, scale, !*call->row->domain, &how))
        return qf_onnx_decline(call, call->reason);
    return qf_onnx_done(call, emit_dequantize(call, x, scale, zero_point, how, dtype));
}

/* TensorRT's custom ops. They declare their FP8 results as UINT8, which is not believed: FP8 E4M3 unless a zero point
 * or attribute says otherwise. They divide in f32 and saturate. */
qf_onnx_outcome qf_onnx_map_trt_quantize(qf_onnx_call *call) {
    return map_quantize(call, QF_F8E4M3FN, QF_F32, true);
}

/* What it reads decides: a tensor that the file stores as bytes is FP8 E4M3 to TRT_FP8DequantizeLinear. */
qf_onnx_outcome qf_onnx_map_trt_dequantize(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), scale = qf_onnx_in(call, 1), zero_point;
    granularity how;
    qf_dtype from = qf_onnx_dtype_of(call, x), dtype = qf_onnx_dtype_of(call, scale);
    int64_t output_dtype = qf_onnx_int(call, "output_dtype", 0);
    if (output_dtype) dtype = qf_onnx_dtype(output_dtype);
    bool bytes = from == QF_U8 || from == QF_I8;
    if (bytes && qf_text_is(qf_text_of(call->row->op_type), "TRT_FP8DequantizeLinear")) {
        qf_attribute attributes[QF_MAX_ATTRIBUTES];
        qf_attributes_default(qf_onnx_graph(call), QF_OP_bitcast, attributes);
        attributes[QF_ATTR(bitcast, dtype)].integer = QF_F8E4M3FN;
        x = qf_import_op(qf_onnx_target(call), QF_OP_bitcast, &x, 1, attributes);
        from = QF_F8E4M3FN;
    }
    if (!supported(from) || !qf_dtype_is_float(dtype))
        return qf_onnx_decline(call, "its input or result has an element type that QFuse lacks");
    if (!read_zero_point(call, qf_onnx_in(call, 2), &zero_point) || !read_granularity(call, x, scale, true, &how))
        return qf_onnx_decline(call, call->reason);
    return qf_onnx_done(call, emit_dequantize(call, x, scale, zero_point, how, dtype));
}

/* --- quantised products --- */
/* Granularity of an operand or result of QLinearMatMul: a scalar, or one entry a row (a) or a column (b). */
static bool matrix_granularity(qf_onnx_call *call, qf_value x, qf_value scale, uint32_t from_end, granularity *out) {
    uint32_t scale_rank = qf_onnx_rank(call, scale), rank = qf_onnx_rank(call, x);
    *out = (granularity){-1, 0};
    if (scale_rank == 0 || (scale_rank == 1 && qf_dim_is(call->import->context, qf_onnx_dim(call, scale, 0), 1)))
        return true;
    if (scale_rank != 1 || rank < from_end || rank > QF_MAX_RANK) return false;
    out->axis = rank - from_end;
    return true;
}

qf_onnx_outcome qf_onnx_map_qlinear_matmul(qf_onnx_call *call) {
    qf_value a = qf_onnx_in(call, 0), b = qf_onnx_in(call, 3), zero_points[3];
    granularity for_a, for_b;
    quantise_how how = {.compute = QF_F32, .saturate = true};
    uint32_t a_rank = qf_onnx_rank(call, a), b_rank = qf_onnx_rank(call, b);
    if (a_rank == 0 || a_rank > QF_MAX_RANK || b_rank == 0 || b_rank > QF_MAX_RANK)
        return qf_onnx_decline(call, "the shape of its input is unknown");
    for (uint32_t i = 0; i < 3; i++)
        if (!read_zero_point(call, qf_onnx_in(call, 3 * i + 2 - (i == 2 ? 1 : 0)), &zero_points[i]))
            return qf_onnx_decline(call, call->reason);
    how.dtype = qf_onnx_dtype_of(call, qf_onnx_in(call, 7));
    qf_value y_scale = qf_onnx_in(call, 6);
    if (!supported(how.dtype) || !supported(qf_onnx_dtype_of(call, a)) || !supported(qf_onnx_dtype_of(call, b)))
        return qf_onnx_decline(call, "an operand has an element type that QFuse lacks");
    if (!matrix_granularity(call, a, qf_onnx_in(call, 1), 2, &for_a) ||
        !matrix_granularity(call, b, qf_onnx_in(call, 4), 1, &for_b))
        return qf_onnx_decline(call, "its scales have a granularity that QFuse lacks");
    qf_value left = emit_dequantize(call, a, qf_onnx_in(call, 1), zero_points[0], for_a, QF_F32);
    qf_value right = emit_dequantize(call, b, qf_onnx_in(call, 4), zero_points[1], for_b, QF_F32);
    qf_value product = qf_import_matmul(qf_onnx_target(call), left, right, false, false);
    if (call->import->failed) return QF_ONNX_FAILED;
    if (!matrix_granularity(call, product, y_scale, 2, &how.granularity))
        return qf_onnx_decline(call, "its scales have a granularity that QFuse lacks");
    return qf_onnx_done(call, emit_quantize(call, product, y_scale, zero_points[2], &how));
}

/* The bias of a QGemm: whole numbers count in units of the product of both scales, floating-point ones are as they are.
 */
static qf_value gemm_bias(qf_onnx_call *call, qf_value bias, qf_value a_scale, qf_value b_scale, double alpha) {
    bool whole = qf_dtype_kind_of(qf_onnx_dtype_of(call, bias)) == QF_DTYPE_KIND_INTEGER;
    bias = qf_onnx_cast(call, bias, QF_F32, true);
    if (!whole) return bias;
    qf_value unit = qf_import_binary(qf_onnx_target(call), QF_OP_mul, qf_onnx_cast(call, a_scale, QF_F32, true),
                                     qf_onnx_cast(call, b_scale, QF_F32, true));
    return qf_onnx_scale(call, qf_import_binary(qf_onnx_target(call), QF_OP_mul, bias, unit), alpha);
}

/* alpha * A' B' + bias, quantised where a scale for the result is given. */
qf_onnx_outcome qf_onnx_map_qgemm(qf_onnx_call *call) {
    qf_value a = qf_onnx_in(call, 0), b = qf_onnx_in(call, 3), bias = qf_onnx_in(call, 6),
             y_scale = qf_onnx_in(call, 7);
    qf_value a_scale = qf_onnx_in(call, 1), b_scale = qf_onnx_in(call, 4), zero_points[3];
    bool swap_a = qf_onnx_int(call, "transA", 0) != 0, swap_b = qf_onnx_int(call, "transB", 0) != 0;
    double alpha = qf_onnx_float(call, "alpha", 1);
    granularity for_a, for_b;
    quantise_how how = {.granularity = {-1, 0}, .compute = QF_F32, .saturate = true};
    if (qf_onnx_rank(call, a) != 2 || qf_onnx_rank(call, b) != 2)
        return qf_onnx_decline(call, "its operands are no matrices");
    for (uint32_t i = 0; i < 3; i++)
        if (!read_zero_point(call, qf_onnx_in(call, 3 * i + 2), &zero_points[i]))
            return qf_onnx_decline(call, call->reason);
    if (!supported(qf_onnx_dtype_of(call, a)) || !supported(qf_onnx_dtype_of(call, b)))
        return qf_onnx_decline(call, "an operand has an element type that QFuse lacks");
    if (!matrix_granularity(call, a, a_scale, 2, &for_a) || for_a.axis >= 0 ||
        !matrix_granularity(call, b, b_scale, swap_b ? 2 : 1, &for_b))
        return qf_onnx_decline(call, "its scales have a granularity that QFuse lacks");
    qf_value left = emit_dequantize(call, a, a_scale, zero_points[0], for_a, QF_F32);
    qf_value right = emit_dequantize(call, b, b_scale, zero_points[1], for_b, QF_F32);
    qf_value sum = qf_onnx_scale(call, qf_import_matmul(qf_onnx_target(call), left, right, swap_a, swap_b), alpha);
    if (bias.id)
        sum = qf_import_binary(qf_onnx_target(call), QF_OP_add, sum, gemm_bias(call, bias, a_scale, b_scale, alpha));
    if (call->import->failed) return QF_ONNX_FAILED;
    if (!y_scale.id) return qf_onnx_done(call, sum);
    how.dtype = qf_onnx_in(call, 8).id ? qf_onnx_dtype_of(call, qf_onnx_in(call, 8)) : qf_onnx_dtype_of(call, a);
    if (!supported(how.dtype) || !matrix_granularity(call, sum, y_scale, 2, &how.granularity) ||
        how.granularity.axis >= 0)
        return qf_onnx_decline(call, "its result has an element type or granularity that QFuse lacks");
    return qf_onnx_done(call, emit_quantize(call, sum, y_scale, zero_points[2], &how));
}

/* a and b widened to i32, less their zero points. Per-row zero points of a stand along its rows. */
qf_onnx_outcome qf_onnx_map_matmul_integer(qf_onnx_call *call) {
    qf_value sides[2];
    for (uint32_t i = 0; i < 2; i++) {
        qf_value x = qf_onnx_in(call, i), zero = qf_onnx_in(call, 2 + i);
        uint32_t rank = qf_onnx_rank(call, x);
        if (rank == 0 || rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
        if (!supported(qf_onnx_dtype_of(call, x)))
            return qf_onnx_decline(call, "an operand has an element type that QFuse lacks");
        sides[i] = qf_onnx_cast(call, x, QF_I32, true);
        if (!zero.id) continue;
        zero = qf_onnx_cast(call, zero, QF_I32, true);
        if (i == 0 && qf_onnx_rank(call, zero) == 1 && rank > 1)
            zero = qf_import_view(qf_onnx_target(call), zero,
                                  (qf_dim[]){qf_onnx_dim(call, zero, 0), qf_onnx_constant(call, 1)}, 2);
        sides[i] = qf_import_binary(qf_onnx_target(call), QF_OP_sub, sides[i], zero);
    }
    if (call->import->failed) return QF_ONNX_FAILED;
    return qf_onnx_done(call, qf_import_matmul(qf_onnx_target(call), sides[0], sides[1], false, false));
}

/* y_scale = (max(x, 0) - min(x, 0)) / 255; zero point = clamp(round(-min / scale), 0, 255). */
qf_onnx_outcome qf_onnx_map_dynamic_quantize_linear(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK || qf_onnx_dtype_of(call, x) != QF_F32)
        return qf_onnx_decline(call, "the shape of its input is unknown");
    int64_t axes[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) axes[i] = i;
    qf_value zero = qf_onnx_number(call, QF_F32, 0), full = qf_onnx_number(call, QF_F32, 255);
    qf_value high = rank ? qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_max, x, axes, rank, false) : x;
    qf_value low = rank ? qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_min, x, axes, rank, false) : x;
    high = qf_import_binary(qf_onnx_target(call), QF_OP_maximum, high, zero);
    low = qf_import_binary(qf_onnx_target(call), QF_OP_minimum, low, zero);
    qf_value scale = qf_import_binary(qf_onnx_target(call), QF_OP_div,
                                      qf_import_binary(qf_onnx_target(call), QF_OP_sub, high, low), full);
    qf_value shift =
        qf_import_binary(qf_onnx_target(call), QF_OP_div, qf_import_unary(qf_onnx_target(call), QF_OP_neg, low), scale);
    shift =
        qf_import_unary(qf_onnx_target(call), QF_OP_round, qf_import_clamp(qf_onnx_target(call), shift, zero, full));
    qf_value zero_point = qf_onnx_cast(call, shift, QF_U8, true);
    if (call->output_count > 1) call->outputs[1] = scale;
    if (call->output_count > 2) call->outputs[2] = zero_point;
    quantise_how how = {.granularity = {-1, 0}, .dtype = QF_U8, .compute = QF_F32, .saturate = true};
    return qf_onnx_done(call, emit_quantize(call, x, scale, zero_point, &how));
}
