/* Owns: shape rules of reductions, normalisations and their fused forms, and convolution.
 * Does not own: contractions (infer_contraction.c).
 * Next: infer_rules.h. */
#include <inttypes.h>
#include <string.h>

#include "ir/infer_rules.h"

qf_status qf_infer_reduce(qf_infer_call *call) {
    const qf_attribute *axes = &call->attributes[QF_ATTR(reduce_sum, axes)];
    bool keep = call->attributes[QF_ATTR(reduce_sum, keep)].integer != 0;
    qf_dim dims[QF_MAX_RANK];
    uint32_t reduced = 0, kept = 0;
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, 0, infer_dtype(call, 0));
    for (uint32_t i = 0; i < axes->count; i++) {
        INFER_TRY(infer_expect_axis(call, "axes", axes->ints[i], infer_rank(call, 0)));
        if (reduced >> axes->ints[i] & 1)
            return infer_fault(call, "attribute axes names axis %" PRId64 " twice, expected each axis once",
                               axes->ints[i]);
        reduced |= 1u << axes->ints[i];
    }
    for (uint32_t i = 0; i < infer_rank(call, 0); i++)
        if (!(reduced >> i & 1))
            dims[kept++] = infer_dims(call, 0)[i];
        else if (keep)
            dims[kept++] = infer_constant(call, 1);
    return infer_set(call, 0, infer_dtype(call, 0), dims, kept);
}

/* The result type of an op that can quantise its result. */
static qf_status out_dtype(const qf_infer_call *call, uint32_t attribute, uint32_t out_scale, qf_dtype *out) {
    *out = (qf_dtype)call->attributes[attribute].integer;
    if (*out == QF_DTYPE_NONE) *out = infer_dtype(call, 0);
    if (qf_dtype_is_float8(*out) && !infer_has(call, out_scale))
        return infer_fault(call, "operand out_scale is missing: a result of type %s needs it", qf_dtype_name(*out));
    return infer_one_scale(call, out_scale);
}

/* weight covers the axes of x from `axis` on. */
static qf_status expect_norm_weight(const qf_infer_call *call, uint32_t weight, int64_t axis) {
    if (!infer_ranked(call, 0)) return QF_OK;
    INFER_TRY(infer_expect_axis(call, "axis", axis, infer_rank(call, 0)));
    return infer_broadcasts_to(call, weight, infer_dims(call, 0) + axis, infer_rank(call, 0) - (uint32_t)axis);
}

qf_status qf_infer_norm_out(qf_infer_call *call) {
    qf_dtype dtype;
    INFER_TRY(expect_norm_weight(call, QF_IN(rms_norm, weight), call->attributes[QF_ATTR(rms_norm, axis)].integer));
    INFER_TRY(out_dtype(call, QF_ATTR(rms_norm, out), QF_IN(rms_norm, out_scale), &dtype));
    return infer_set_like(call, 0, dtype, 0);
}

qf_status qf_infer_add_norm_out(qf_infer_call *call) {
    qf_dtype dtype, sum;
    INFER_TRY(infer_same_dtype(call, 0, 2, &sum));
    INFER_TRY(
        expect_norm_weight(call, QF_IN(add_rms_norm, weight), call->attributes[QF_ATTR(add_rms_norm, axis)].integer));
    INFER_TRY(out_dtype(call, QF_ATTR(add_rms_norm, out), QF_IN(add_rms_norm, out_scale), &dtype));
    if (infer_ranked(call, 0) && infer_ranked(call, 1)) {
        uint32_t rank = infer_rank(call, 0);
        INFER_TRY(infer_expect_rank(call, QF_IN(add_rms_norm, residual), rank, rank));
        for (uint32_t i = 0; i < rank; i++)
            INFER_TRY(infer_agree_axis(call, QF_IN(add_rms_norm, residual), i, infer_dims(call, 0)[i]));
    }
    INFER_TRY(infer_set_like(call, QF_OUT(add_rms_norm, y), dtype, 0));
    return infer_set_like(call, QF_OUT(add_rms_norm, sum), sum, 0);
}

qf_status qf_infer_silu_mul(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    qf_dim dims[QF_MAX_RANK], two = infer_constant(call, 2);
    qf_dtype dtype;
    INFER_TRY(out_dtype(call, QF_ATTR(silu_mul, out), QF_IN(silu_mul, out_scale), &dtype));
    INFER_TRY(infer_expect_rank(call, 0, 1, QF_MAX_RANK));
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, 0, dtype);
    uint32_t rank = infer_rank(call, 0);
    memcpy(dims, infer_dims(call, 0), rank * sizeof *dims);
    qf_dim half = qf_dim_floor_divide(context, dims[rank - 1], two);
    INFER_TRY(
        infer_agree(call, 0, "elements on the last axis", qf_dim_multiply(context, half, two), dims[rank - 1], NULL));
    dims[rank - 1] = half;
    return infer_set(call, 0, dtype, dims, rank);
}

/* floor((in + before + after - dilation * (kernel - 1) - 1) / stride) + 1 */
static qf_dim conv_extent(const qf_infer_call *call, uint32_t axis) {
    qf_context *context = call->graph->context;
    int64_t stride = call->attributes[QF_ATTR(conv, strides)].ints[axis];
    qf_dim dilation = infer_constant(call, call->attributes[QF_ATTR(conv, dilations)].ints[axis]);
    qf_dim kernel = qf_dim_add_constant(context, infer_dims(call, 1)[axis + 2], -1);
    qf_dim extent = qf_dim_add_constant(context, infer_dims(call, 0)[axis + 2],
                                        call->attributes[QF_ATTR(conv, pads_before)].ints[axis]);
    extent = qf_dim_add_constant(context, extent, call->attributes[QF_ATTR(conv, pads_after)].ints[axis]);
    extent =
        qf_dim_add_constant(context, qf_dim_subtract(context, extent, qf_dim_multiply(context, dilation, kernel)), -1);
    return qf_dim_add_constant(context, qf_dim_floor_divide(context, extent, infer_constant(call, stride)), 1);
}

static qf_status expect_conv_attributes(const qf_infer_call *call, uint32_t spatial) {
    static const struct {
        uint32_t attribute;
        int64_t least;
    } lists[] = {{QF_ATTR(conv, strides), 1},
                 {QF_ATTR(conv, pads_before), 0},
                 {QF_ATTR(conv, pads_after), 0},
                 {QF_ATTR(conv, dilations), 1}};
    for (size_t l = 0; l < QF_COUNT_OF(lists); l++) {
        const qf_attribute *list = &call->attributes[lists[l].attribute];
        const char *name = call->info->attributes[lists[l].attribute].name;
        if (list->count != spatial)
            return infer_fault(call,
                               "attribute %s has %" PRIu32 " entries, expected %" PRIu32 ": one a spatial axis of x",
                               name, list->count, spatial);
        for (uint32_t i = 0; i < spatial; i++)
            if (list->ints[i] < lists[l].least)
                return infer_fault(call, "attribute %s holds %" PRId64 ", expected %" PRId64 " or more", name,
                                   list->ints[i], lists[l].least);
    }
    return QF_OK;
}

qf_status qf_infer_conv(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    const uint32_t bias = QF_IN(conv, bias);
    qf_dim dims[QF_MAX_RANK], groups = infer_constant(call, call->attributes[QF_ATTR(conv, groups)].integer);
    qf_dtype dtype;
    INFER_TRY(infer_same_dtype(call, 0, 3, &dtype));
    INFER_TRY(infer_expect_rank(call, 0, 3, QF_MAX_RANK));
    if (!infer_ranked(call, 0) || !infer_ranked(call, 1)) return infer_set_unranked(call, 0, dtype);
    uint32_t rank = infer_rank(call, 0);
    INFER_TRY(infer_expect_rank(call, 1, rank, rank));
    INFER_TRY(infer_expect_rank(call, bias, 1, 1));
    INFER_TRY(expect_conv_attributes(call, rank - 2));
    if (call->attributes[QF_ATTR(conv, groups)].integer < 1)
        return infer_fault(call, "attribute groups is %" PRId64 ", expected 1 or more",
                           call->attributes[QF_ATTR(conv, groups)].integer);
    INFER_TRY(infer_agree(call, 0, "channels", qf_dim_multiply(context, infer_dims(call, 1)[1], groups),
                          infer_dims(call, 0)[1], NULL));
    if (infer_ranked(call, bias)) INFER_TRY(infer_agree_axis(call, bias, 0, infer_dims(call, 1)[0]));
    dims[0] = infer_dims(call, 0)[0];
    dims[1] = infer_dims(call, 1)[0];
    for (uint32_t i = 2; i < rank; i++) {
        int64_t bound;
        dims[i] = conv_extent(call, i - 2);
        if (qf_dim_upper_bound(context, NULL, dims[i], &bound) && bound < 0)
            return infer_operand_fault(call, 0, "axis %" PRIu32 " to hold the kernel", i);
    }
    return infer_set(call, 0, dtype, dims, rank);
}
