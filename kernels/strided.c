/* Owns: where the elements of permute, expand, slice and pad lie, and what is wrong with their shapes.
 * Does not own: moving them.
 * Next: strided.h. */
#include "kernels/strided.h"

#include <stdio.h>

static qf_status wrong(const qf_kernel_call *call, const char *what) {
    (void)snprintf(call->message, call->message_size, "%s: expected %s", qf_op_name(call->op), what);
    return QF_ERROR_INVALID_ARGUMENT;
}

/* A copy over all of y, whose source is still to be said. */
static void start(const qf_view *y, qf_strided_copy *out) {
    *out = (qf_strided_copy){.rank = y->rank};
    for (uint32_t i = 0; i < y->rank; i++) out->dims[i] = y->dims[i];
    qf_view_strides(y, out->to);
}

qf_status qf_strided_permute(const qf_kernel_call *call, qf_strided_copy *out) {
    const qf_view *x = &call->operands[0], *y = &call->results[0];
    const qf_kernel_attribute *order = &call->attributes[QF_ATTR(permute, order)];
    int64_t strides[QF_MAX_RANK];
    if (order->count != x->rank || y->rank != x->rank) return wrong(call, "one entry of order an axis");
    qf_view_strides(x, strides);
    start(y, out);
    for (uint32_t i = 0; i < y->rank; i++) {
        int64_t axis = order->ints[i];
        if (axis < 0 || axis >= x->rank || y->dims[i] != x->dims[axis]) return wrong(call, "a permuted result shape");
        out->from[i] = strides[axis];
    }
    return QF_OK;
}

qf_status qf_strided_expand(const qf_kernel_call *call, qf_strided_copy *out) {
    const qf_view *x = &call->operands[0], *y = &call->results[0];
    int64_t strides[QF_MAX_RANK];
    if (x->rank > y->rank) return wrong(call, "a result of at least the operand's rank");
    qf_view_strides(x, strides);
    start(y, out);
    for (uint32_t i = 0; i < y->rank; i++) {
        uint32_t missing = y->rank - x->rank;
        int64_t size = i < missing ? 1 : x->dims[i - missing];
        if (size != 1 && size != y->dims[i]) return wrong(call, "a shape that the operand broadcasts to");
        out->from[i] = size == 1 ? 0 : strides[i - missing];
    }
    return QF_OK;
}

qf_status qf_strided_slice(const qf_kernel_call *call, qf_strided_copy *out) {
    const qf_view *x = &call->operands[0], *y = &call->results[0];
    const qf_kernel_attribute *starts = &call->attributes[QF_ATTR(slice, starts)];
    const qf_kernel_attribute *steps = &call->attributes[QF_ATTR(slice, steps)];
    int64_t strides[QF_MAX_RANK];
    if (starts->count != x->rank || steps->count != x->rank || y->rank != x->rank)
        return wrong(call, "one start and one step an axis");
    start(y, out);
    if (qf_view_count(y) == 0) return QF_OK;
    qf_view_strides(x, strides);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t first = starts->ints[i], step = steps->ints[i], size = x->dims[i], reach;
        bool fits = first >= 0 && first < size && !__builtin_mul_overflow(step, y->dims[i] - 1, &reach) &&
                    !__builtin_add_overflow(reach, first, &reach) && reach >= 0 && reach < size;
        if (!fits) {
            (void)snprintf(call->message, call->message_size,
                           "slice: %lld elements from %lld by %lld leave axis %u of size %lld", (long long)y->dims[i],
                           (long long)first, (long long)step, i, (long long)size);
            return QF_ERROR_INVALID_ARGUMENT;
        }
        out->from_offset += first * strides[i];
        out->from[i] = strides[i] * step;
    }
    return QF_OK;
}

qf_status qf_strided_pad(const qf_kernel_call *call, qf_strided_copy *out) {
    const qf_view *x = &call->operands[0], *y = &call->results[0];
    const qf_kernel_attribute *before = &call->attributes[QF_ATTR(pad, before)];
    if (before->count != x->rank || y->rank != x->rank || qf_view_count(&call->operands[1]) != 1)
        return wrong(call, "one count an axis and a scalar value");
    start(y, out);
    qf_view_strides(x, out->from);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t shift = before->ints[i], end = x->dims[i] + shift, first = shift > 0 ? shift : 0;
        if (end > y->dims[i]) end = y->dims[i];
        out->dims[i] = end > first ? end - first : 0; /* 0: everything was cropped */
        out->from_offset += (first - shift) * out->from[i];
        out->to_offset += first * out->to[i];
    }
    return QF_OK;
}

bool qf_views_agree_except(const qf_view *a, const qf_view *b, int64_t axis) {
    if (a->rank != b->rank || axis < 0 || axis >= a->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (i != axis && a->dims[i] != b->dims[i]) return false;
    return true;
}
