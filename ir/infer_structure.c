/* Owns: shape rules of ops that make values from attributes, and of ops whose types are given.
 * Does not own: everything that reads operands' shapes beyond shape_of.
 * Next: infer_rules.h. */
#include <inttypes.h>

#include "ir/infer_rules.h"

qf_status qf_infer_nothing(qf_infer_call *call) {
    (void)call;
    return QF_OK;
}

qf_status qf_infer_given(qf_infer_call *call) {
    for (uint32_t i = 0; i < call->result_count; i++)
        if (!call->out_types[i].id)
            return infer_fault(call,
                               "the type of result %" PRIu32 " is missing: this op's types are given, not inferred", i);
    return QF_OK;
}

qf_status qf_infer_constant(qf_infer_call *call) {
    const qf_literal *literal = call->attributes[QF_ATTR(constant, value)].literal;
    if (!literal) return infer_fault(call, "attribute value is missing: expected a tensor literal");
    call->out_types[0] = literal->type;
    return QF_OK;
}

qf_status qf_infer_symbolic(qf_infer_call *call) {
    const qf_attribute *values = &call->attributes[QF_ATTR(symbolic, values)];
    const qf_attribute *shape = &call->attributes[QF_ATTR(symbolic, shape)];
    qf_dim dims[QF_MAX_RANK];
    uint64_t count = 1;
    if (shape->count > 1)
        return infer_fault(call, "attribute shape has %" PRIu32 " entries, expected 0 or 1", shape->count);
    for (uint32_t i = 0; i < shape->count; i++) {
        if (shape->ints[i] < 0)
            return infer_fault(call, "attribute shape holds %" PRId64 ", expected 0 or more", shape->ints[i]);
        count = (uint64_t)shape->ints[i];
        dims[i] = infer_constant(call, shape->ints[i]);
    }
    if (count != values->count)
        return infer_fault(call, "attribute values has %" PRIu32 " entries, expected %" PRIu64 " for the shape",
                           values->count, count);
    return infer_set(call, 0, QF_I64, dims, shape->count);
}

/* As a slice clamps: negative positions count from the end. */
static int64_t clamp_position(int64_t position, uint32_t rank) {
    if (position < 0) position += rank;
    return position < 0 ? 0 : position > rank ? rank : position;
}

qf_status qf_infer_shape_of(qf_infer_call *call) {
    int64_t start = call->attributes[QF_ATTR(shape_of, start)].integer;
    int64_t end = call->attributes[QF_ATTR(shape_of, end)].integer;
    if (!infer_ranked(call, 0)) return infer_set_unranked(call, 0, QF_I64);
    start = clamp_position(start, infer_rank(call, 0));
    end = clamp_position(end, infer_rank(call, 0));
    qf_dim count = infer_constant(call, end > start ? end - start : 0);
    return infer_set(call, 0, QF_I64, &count, 1);
}

qf_status qf_infer_iota(qf_infer_call *call) {
    const qf_attribute *shape = &call->attributes[QF_ATTR(iota, shape)];
    qf_dtype dtype = (qf_dtype)call->attributes[QF_ATTR(iota, dtype)].integer;
    if (!qf_dtype_bits(dtype))
        return infer_fault(call, "attribute dtype is %s, expected an element type", qf_dtype_name(dtype));
    INFER_TRY(infer_expect_axis(call, "axis", call->attributes[QF_ATTR(iota, axis)].integer, shape->count));
    return infer_set(call, 0, dtype, shape->dims, shape->count);
}

qf_status qf_infer_full(qf_infer_call *call) {
    const qf_attribute *shape = &call->attributes[QF_ATTR(full, shape)];
    INFER_TRY(infer_expect_rank(call, 0, 0, 0));
    return infer_set(call, 0, infer_dtype(call, 0), shape->dims, shape->count);
}
