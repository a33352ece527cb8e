/* Owns: kernels without tensor operands or that only read shapes: constant, symbolic, shape_of, iota, full.
 * Does not own: moving elements (layout.c).
 * Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <string.h>

qf_status qf_cpu_constant(const qf_kernel_call *call) {
    qf_view *y = &call->results[0];
    if (call->op == QF_OP_parameter)
        return qf_cpu_fail(call, QF_ERROR_UNSUPPORTED, "parameter \"%s\" has no bytes bound to it; bind it by name",
                           call->attributes[QF_ATTR(parameter, name)].string);
    const qf_kernel_attribute *value = &call->attributes[QF_ATTR(constant, value)];
    QF_CPU_EXPECT(call, value->count == qf_view_bytes(y), "as many literal bytes as the result has");
    if (value->count) memcpy(y->data, value->bytes, (size_t)value->count);
    return QF_OK;
}

qf_status qf_cpu_symbolic(const qf_kernel_call *call) {
    const qf_kernel_attribute *values = &call->attributes[QF_ATTR(symbolic, values)];
    QF_CPU_EXPECT(call, (int64_t)values->count == qf_view_count(&call->results[0]), "one dim an element");
    qf_store_array_i64(call->results[0].dtype, call->results[0].data, 0, (int64_t)values->count, values->ints);
    return QF_OK;
}

/* A slice bound: negative counts from the end; clipped to [0, rank]. */
static int64_t bound(int64_t at, int64_t rank) {
    if (at < 0) at += rank;
    return at < 0 ? 0 : at > rank ? rank : at;
}

qf_status qf_cpu_shape_of(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    int64_t first = bound(call->attributes[QF_ATTR(shape_of, start)].integer, x->rank);
    int64_t last = bound(call->attributes[QF_ATTR(shape_of, end)].integer, x->rank);
    int64_t count = last > first ? last - first : 0;
    QF_CPU_EXPECT(call, count == qf_view_count(&call->results[0]), "one element a selected dim");
    qf_store_array_i64(call->results[0].dtype, call->results[0].data, 0, count, x->dims + first);
    return QF_OK;
}

qf_status qf_cpu_iota(const qf_kernel_call *call) {
    qf_view *y = &call->results[0];
    int64_t axis = call->attributes[QF_ATTR(iota, axis)].integer;
    uint64_t start = (uint64_t)call->attributes[QF_ATTR(iota, start)].integer;
    uint64_t step = (uint64_t)call->attributes[QF_ATTR(iota, step)].integer;
    QF_CPU_EXPECT(call, axis >= 0 && (axis < y->rank || y->rank == 0), "an axis of the result");
    int64_t size = y->rank ? y->dims[axis] : 1, inner = y->rank ? qf_view_extent(y, (uint32_t)axis + 1, y->rank) : 1;
    int64_t count = qf_view_count(y);
    for (int64_t i = 0; i < count; i++)
        qf_store_i64(y->dtype, y->data, i, (int64_t)(start + step * (uint64_t)(i / inner % size)));
    return QF_OK;
}

qf_status qf_cpu_full(const qf_kernel_call *call) {
    qf_view *y = &call->results[0];
    QF_CPU_EXPECT(call, qf_view_count(&call->operands[0]) == 1, "a scalar value");
    qf_cpu_fill(qf_dtype_bits(y->dtype), y->data, 0, qf_view_count(y), call->operands[0].data);
    return QF_OK;
}
