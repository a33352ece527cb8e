/* Owns: shape rules of quantize, dequantize and dynamic_quantize.
 * Does not own: granularity and direction of scales (verify.h).
 * Next: infer_rules.h. */
#include <inttypes.h>
#include <string.h>

#include "ir/infer_rules.h"

static qf_status expect_target(const qf_infer_call *call, qf_dtype dtype, bool narrow) {
    bool integer = qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER;
    if (narrow ? qf_dtype_bits(dtype) <= 8 && (integer || qf_dtype_is_float(dtype)) && dtype != QF_DTYPE_NONE
               : qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_FLOAT)
        return QF_OK;
    return infer_fault(call, "attribute dtype is %s, expected %s", qf_dtype_name(dtype),
                       narrow ? "an 8-bit or 4-bit element type" : "f32, f16, bf16 or f64");
}

/* One number where axis is -1; else one an index of the axis, or one a block of it (as a vector, or beside all other
 * axes). */
static qf_status expect_scale(const qf_infer_call *call, uint32_t axis_attribute, uint32_t group_attribute) {
    qf_context *context = call->graph->context;
    int64_t axis = call->attributes[axis_attribute].integer, group = call->attributes[group_attribute].integer;
    uint32_t scale = 1;
    if (axis < -1 || group < 0)
        return infer_fault(
            call, "attributes axis and group are %" PRId64 " and %" PRId64 ", expected -1 or an axis, and 0 or a size",
            axis, group);
    if (!infer_ranked(call, 0) || !infer_ranked(call, scale)) return QF_OK;
    if (axis == -1) {
        INFER_TRY(infer_expect_rank(call, scale, 0, 1));
        return infer_rank(call, scale) ? infer_agree_axis(call, scale, 0, infer_constant(call, 1)) : QF_OK;
    }
    INFER_TRY(infer_expect_axis(call, "axis", axis, infer_rank(call, 0)));
    if (!group) {
        INFER_TRY(infer_expect_rank(call, scale, 1, 1));
        return infer_agree_axis(call, scale, 0, infer_dims(call, 0)[axis]);
    }
    uint32_t rank = infer_rank(call, 0);
    qf_dim blocks = qf_dim_floor_divide(context, qf_dim_add_constant(context, infer_dims(call, 0)[axis], group - 1),
                                        infer_constant(call, group));
    if (infer_rank(call, scale) == 1) return infer_agree_axis(call, scale, 0, blocks);
    INFER_TRY(infer_expect_rank(call, scale, rank, rank));
    for (uint32_t i = 0; i < rank; i++)
        INFER_TRY(infer_agree_axis(call, scale, i, i == axis ? blocks : infer_dims(call, 0)[i]));
    return QF_OK;
}

/* Data that was quantised already has lost what a second scale would be computed from. */
static qf_status expect_unquantised(const qf_infer_call *call) {
    qf_dtype_kind kind = qf_dtype_kind_of(infer_dtype(call, 0));
    if (kind == QF_DTYPE_KIND_NONE || kind == QF_DTYPE_KIND_FLOAT || kind == QF_DTYPE_KIND_INTEGER) return QF_OK;
    return infer_operand_fault(call, 0, "f32, f16, bf16 or f64: it is quantised already or is no number");
}

qf_status qf_infer_quantize(qf_infer_call *call) {
    qf_dtype dtype = (qf_dtype)call->attributes[QF_ATTR(quantize, dtype)].integer;
    INFER_TRY(expect_target(call, dtype, true));
    INFER_TRY(expect_unquantised(call));
    INFER_TRY(expect_scale(call, QF_ATTR(quantize, axis), QF_ATTR(quantize, group)));
    INFER_TRY(infer_expect_dtype(call, QF_IN(quantize, zero_point), dtype));
    return infer_set_like(call, 0, dtype, 0);
}

qf_status qf_infer_dequantize(qf_infer_call *call) {
    qf_dtype dtype = (qf_dtype)call->attributes[QF_ATTR(dequantize, dtype)].integer;
    INFER_TRY(expect_target(call, dtype, false));
    INFER_TRY(expect_scale(call, QF_ATTR(dequantize, axis), QF_ATTR(dequantize, group)));
    return infer_set_like(call, 0, dtype, 0);
}

qf_status qf_infer_dynamic_quantize(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    qf_dtype dtype = (qf_dtype)call->attributes[QF_ATTR(dynamic_quantize, dtype)].integer;
    int64_t granularity = call->attributes[QF_ATTR(dynamic_quantize, granularity)].integer;
    int64_t group = call->attributes[QF_ATTR(dynamic_quantize, group)].integer;
    qf_dim dims[QF_MAX_RANK];
    INFER_TRY(expect_target(call, dtype, true));
    INFER_TRY(expect_unquantised(call));
    INFER_TRY(infer_expect_rank(call, QF_IN(dynamic_quantize, upper_bound), 0, 1));
    INFER_TRY(infer_one_scale(call, QF_IN(dynamic_quantize, upper_bound)));
    INFER_TRY(infer_set_like(call, QF_OUT(dynamic_quantize, y), dtype, 0));
    if (granularity == QF_VALUE_tensor) return infer_set(call, QF_OUT(dynamic_quantize, scale), QF_F32, NULL, 0);
    INFER_TRY(infer_expect_rank(call, 0, 1, QF_MAX_RANK));
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, QF_OUT(dynamic_quantize, scale), QF_F32);
    uint32_t rank = infer_rank(call, 0);
    memcpy(dims, infer_dims(call, 0), rank * sizeof *dims);
    if (granularity == QF_VALUE_token) {
        dims[rank - 1] = infer_constant(call, 1);
    } else {
        if (group < 1)
            return infer_fault(call, "attribute group is %" PRId64 ", expected 1 or more for granularity group", group);
        qf_dim size = infer_constant(call, group), blocks = qf_dim_floor_divide(context, dims[rank - 1], size);
        INFER_TRY(infer_agree(call, 0, "elements on the last axis", qf_dim_multiply(context, blocks, size),
                              dims[rank - 1], NULL));
        dims[rank - 1] = blocks;
    }
    return infer_set(call, QF_OUT(dynamic_quantize, scale), QF_F32, dims, rank);
}
