/* Owns: shape rules of contract, matmul and scaled_matmul.
 * Does not own: the equation's text (equation.h).
 * Next: equation.h, infer_rules.h. */
#include <stdio.h>
#include <string.h>

#include "ir/equation.h"
#include "ir/infer_rules.h"

/* Both operands have one dtype, or both are FP8 or both integers, which may be mixed. */
static qf_status contraction_dtype(const qf_infer_call *call, uint32_t attribute, qf_dtype *out) {
    qf_dtype a = infer_dtype(call, 0), b = infer_dtype(call, 1);
    qf_dtype_kind kind = qf_dtype_kind_of(a);
    *out = (qf_dtype)call->attributes[attribute].integer;
    if (*out == QF_DTYPE_NONE) *out = a;
    if (a == b || a == QF_DTYPE_NONE || b == QF_DTYPE_NONE) return QF_OK;
    if (kind == qf_dtype_kind_of(b) && (kind == QF_DTYPE_KIND_FLOAT8 || kind == QF_DTYPE_KIND_INTEGER)) return QF_OK;
    return infer_operand_fault(call, 1, "element type %s as operand a has", qf_dtype_name(a));
}

qf_status qf_infer_contract(qf_infer_call *call) {
    qf_context *context = call->graph->context;
    qf_text text = qf_string_text(context, call->attributes[QF_ATTR(contract, equation)].string);
    qf_equation equation;
    qf_dtype dtype;
    qf_dim dims[QF_MAX_RANK];
    const char *fault = qf_equation_parse(text, &equation);
    if (fault)
        return infer_fault(call, "attribute equation is \"%.*s\": %s", (int)(text.size < 60 ? text.size : 60),
                           text.data, fault);
    INFER_TRY(contraction_dtype(call, QF_ATTR(contract, out), &dtype));
    INFER_TRY(infer_expect_rank(call, 0, equation.a.count, equation.a.count));
    INFER_TRY(infer_expect_rank(call, 1, equation.b.count, equation.b.count));
    if (!infer_ranked(call, 0) || !infer_ranked(call, 1)) return infer_set_unranked(call, 0, dtype);
    for (uint32_t i = 0; i < equation.b.count; i++) {
        int32_t axis = qf_labels_axis(&equation.a, equation.b.at[i]);
        char what[40];
        if (axis < 0 || qf_dim_equal(infer_dims(call, 0)[axis], infer_dims(call, 1)[i])) continue;
        (void)snprintf(what, sizeof what, "elements for label %c", equation.b.at[i]);
        INFER_TRY(infer_agree(call, 1, what, infer_dims(call, 0)[axis], infer_dims(call, 1)[i], NULL));
    }
    for (uint32_t i = 0; i < equation.result.count; i++) {
        int32_t in_a = qf_labels_axis(&equation.a, equation.result.at[i]);
        int32_t in_b = qf_labels_axis(&equation.b, equation.result.at[i]);
        dims[i] = in_a >= 0 ? infer_dims(call, 0)[in_a] : infer_dims(call, 1)[in_b];
        /* Where both were only assumed equal, a constant says more. */
        if (in_a >= 0 && in_b >= 0 && qf_dim_is_constant(context, infer_dims(call, 1)[in_b], NULL))
            dims[i] = infer_dims(call, 1)[in_b];
    }
    return infer_set(call, 0, dtype, dims, equation.result.count);
}

/* NumPy: the last two axes multiply, the others broadcast, a vector gains an axis and loses it again. */
qf_status qf_infer_matmul(qf_infer_call *call) {
    qf_dtype dtype;
    qf_dim dims[QF_MAX_RANK], batch[QF_MAX_RANK];
    INFER_TRY(contraction_dtype(call, QF_ATTR(matmul, out), &dtype));
    INFER_TRY(infer_expect_rank(call, 0, 1, QF_MAX_RANK));
    INFER_TRY(infer_expect_rank(call, 1, 1, QF_MAX_RANK));
    if (!infer_ranked(call, 0) || !infer_ranked(call, 1)) return infer_set_unranked(call, 0, dtype);
    uint32_t a_rank = infer_rank(call, 0), b_rank = infer_rank(call, 1);
    uint32_t a_batch = a_rank > 2 ? a_rank - 2 : 0, b_batch = b_rank > 2 ? b_rank - 2 : 0;
    const qf_dim *a = infer_dims(call, 0), *b = infer_dims(call, 1);
    INFER_TRY(infer_agree_axis(call, 1, b_rank < 2 ? 0 : b_rank - 2, a[a_rank - 1]));
    uint32_t rank = a_batch > b_batch ? a_batch : b_batch;
    for (uint32_t i = 0; i < rank; i++) {
        bool in_a = i + a_batch >= rank, in_b = i + b_batch >= rank;
        qf_dim left = in_a ? a[i + a_batch - rank] : infer_constant(call, 1);
        qf_dim right = in_b ? b[i + b_batch - rank] : infer_constant(call, 1);
        batch[i] = qf_dim_is(call->graph->context, left, 1) ? right : left;
        if (!qf_dim_is(call->graph->context, left, 1) && !qf_dim_is(call->graph->context, right, 1))
            INFER_TRY(infer_agree(call, 1, "elements on a batch axis", left, right, &batch[i]));
    }
    memcpy(dims, batch, rank * sizeof *dims);
    if (a_rank > 1) dims[rank++] = a[a_rank - 2];
    if (b_rank > 1) dims[rank++] = b[b_rank - 1];
    return infer_set(call, 0, dtype, dims, rank);
}

/* A scale is one number, or one an index of the last axis but one (tokens) or of the last axis (channels). */
static qf_status expect_scale(const qf_infer_call *call, uint32_t operand, const qf_dim *target, uint32_t rank) {
    INFER_TRY(infer_expect_dtype(call, operand, QF_F32));
    return infer_broadcasts_to(call, operand, target, rank);
}

qf_status qf_infer_scaled_matmul(qf_infer_call *call) {
    const uint32_t a_scale = QF_IN(scaled_matmul, a_scale), b_scale = QF_IN(scaled_matmul, b_scale);
    const uint32_t bias = QF_IN(scaled_matmul, bias), out_scale = QF_IN(scaled_matmul, out_scale);
    qf_dtype dtype = (qf_dtype)call->attributes[QF_ATTR(scaled_matmul, out)].integer;
    qf_dim dims[QF_MAX_RANK], scales[QF_MAX_RANK];
    if (!qf_dtype_is_float(dtype))
        return infer_fault(call, "attribute out is %s, expected a floating-point element type", qf_dtype_name(dtype));
    if (qf_dtype_is_float8(dtype) && !infer_has(call, out_scale))
        return infer_fault(call, "operand out_scale is missing: a result of type %s needs it", qf_dtype_name(dtype));
    INFER_TRY(infer_expect_rank(call, 0, 2, QF_MAX_RANK));
    INFER_TRY(infer_expect_rank(call, 1, 2, 2));
    INFER_TRY(infer_expect_rank(call, out_scale, 0, 1));
    INFER_TRY(infer_one_scale(call, out_scale));
    if (!infer_ranked(call, 0) || !infer_ranked(call, 1)) return infer_set_unranked(call, 0, dtype);
    uint32_t rank = infer_rank(call, 0);
    INFER_TRY(infer_agree_axis(call, 1, 0, infer_dims(call, 0)[rank - 1]));
    memcpy(dims, infer_dims(call, 0), rank * sizeof *dims);
    memcpy(scales, dims, rank * sizeof *dims);
    dims[rank - 1] = infer_dims(call, 1)[1];
    scales[rank - 1] = infer_constant(call, 1);
    INFER_TRY(expect_scale(call, a_scale, scales, rank));
    scales[0] = infer_constant(call, 1);
    scales[1] = dims[rank - 1];
    INFER_TRY(expect_scale(call, b_scale, scales, 2));
    INFER_TRY(infer_broadcasts_to(call, bias, dims + rank - 1, 1));
    return infer_set(call, 0, dtype, dims, rank);
}
