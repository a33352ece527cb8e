/* Owns: shape rules of elementwise ops, casts, and rules that keep the shape of their first operand.
 * Does not own: layout (infer_layout.c).
 * Next: infer_rules.h. */
#include "ir/infer_rules.h"

qf_status qf_infer_same(qf_infer_call *call) {
    return infer_set_like(call, 0, infer_dtype(call, 0), 0);
}

qf_status qf_infer_logical(qf_infer_call *call) {
    INFER_TRY(infer_expect_dtype(call, 0, QF_I1));
    return infer_set_like(call, 0, QF_I1, 0);
}

qf_status qf_infer_predicate(qf_infer_call *call) {
    qf_dtype dtype = infer_dtype(call, 0);
    if (dtype != QF_DTYPE_NONE && !qf_dtype_is_float(dtype))
        return infer_operand_fault(call, 0, "a floating-point element type");
    return infer_set_like(call, 0, QF_I1, 0);
}

qf_status qf_infer_cast(qf_infer_call *call) {
    qf_dtype dtype = (qf_dtype)call->attributes[QF_ATTR(cast, dtype)].integer;
    if (!qf_dtype_bits(dtype))
        return infer_fault(call, "attribute dtype is %s, expected an element type", qf_dtype_name(dtype));
    return infer_set_like(call, 0, dtype, 0);
}

qf_status qf_infer_bitcast(qf_infer_call *call) {
    qf_dtype dtype = (qf_dtype)call->attributes[QF_ATTR(bitcast, dtype)].integer;
    uint32_t from = qf_dtype_bits(infer_dtype(call, 0)), to = qf_dtype_bits(dtype);
    if (!to || (infer_dtype(call, 0) != QF_DTYPE_NONE && from != to))
        return infer_operand_fault(call, 0, "an element type as wide as %s", qf_dtype_name(dtype));
    return infer_set_like(call, 0, dtype, 0);
}

/* The broadcast shape of operands first to end, of which absent ones do not count; unranked where one is unranked. */
static qf_status set_broadcast(qf_infer_call *call, uint32_t end, qf_dtype dtype) {
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank = 0;
    bool alike = true;
    for (uint32_t i = 0; i < end; i++) {
        if (!infer_has(call, i)) continue;
        if (!infer_ranked(call, i)) return infer_set_unranked(call, 0, dtype);
        alike &= infer_type(call, i).id == infer_type(call, 0).id;
    }
    if (alike) return infer_set_like(call, 0, dtype, 0);
    for (uint32_t i = 0; i < end; i++)
        if (infer_has(call, i)) INFER_TRY(infer_broadcast_onto(call, dims, &rank, i));
    return infer_set(call, 0, dtype, dims, rank);
}

qf_status qf_infer_broadcast(qf_infer_call *call) {
    qf_dtype dtype;
    INFER_TRY(infer_same_dtype(call, 0, 2, &dtype));
    return set_broadcast(call, 2, dtype);
}

qf_status qf_infer_broadcast_logical(qf_infer_call *call) {
    INFER_TRY(infer_expect_dtype(call, 0, QF_I1));
    INFER_TRY(infer_expect_dtype(call, 1, QF_I1));
    return set_broadcast(call, 2, QF_I1);
}

qf_status qf_infer_compare(qf_infer_call *call) {
    qf_dtype dtype;
    INFER_TRY(infer_same_dtype(call, 0, 2, &dtype));
    return set_broadcast(call, 2, QF_I1);
}

qf_status qf_infer_where(qf_infer_call *call) {
    qf_dtype dtype;
    INFER_TRY(infer_expect_dtype(call, QF_IN(where, condition), QF_I1));
    INFER_TRY(infer_same_dtype(call, QF_IN(where, a), QF_IN(where, b) + 1, &dtype));
    return set_broadcast(call, 3, dtype);
}

qf_status qf_infer_clamp(qf_infer_call *call) {
    qf_dtype dtype;
    INFER_TRY(infer_same_dtype(call, 0, 3, &dtype));
    return set_broadcast(call, 3, dtype);
}
