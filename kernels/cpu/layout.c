/* Owns: kernels that move or repeat elements by shape alone: copy, permute, slice, concat, split, expand, pad,
 * triangle. Does not own: moving by index tensors (gather.c), the strided copy (support.c). Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <string.h>

qf_status qf_cpu_copy(const qf_kernel_call *call) {
    size_t bytes = qf_view_bytes(&call->results[0]);
    QF_CPU_EXPECT(call, bytes == qf_view_bytes(&call->operands[0]), "a result with as many bytes as the operand");
    if (bytes) memmove(call->results[0].data, call->operands[0].data, bytes);
    return QF_OK;
}

qf_status qf_cpu_permute(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    qf_view *y = &call->results[0];
    const qf_kernel_attribute *order = &call->attributes[QF_ATTR(permute, order)];
    int64_t x_strides[QF_MAX_RANK], y_strides[QF_MAX_RANK], from[QF_MAX_RANK];
    QF_CPU_EXPECT(call, order->count == x->rank && y->rank == x->rank, "one entry of order an axis");
    qf_view_strides(x, x_strides);
    qf_view_strides(y, y_strides);
    for (uint32_t i = 0; i < y->rank; i++) {
        int64_t axis = order->ints[i];
        QF_CPU_EXPECT(call, axis >= 0 && axis < x->rank && y->dims[i] == x->dims[axis], "a permuted result shape");
        from[i] = x_strides[axis];
    }
    qf_cpu_copy_strided(qf_dtype_bits(y->dtype), y->rank, y->dims, y->data, 0, y_strides, x->data, 0, from);
    return QF_OK;
}

qf_status qf_cpu_slice(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    qf_view *y = &call->results[0];
    const qf_kernel_attribute *starts = &call->attributes[QF_ATTR(slice, starts)];
    const qf_kernel_attribute *steps = &call->attributes[QF_ATTR(slice, steps)];
    int64_t x_strides[QF_MAX_RANK], y_strides[QF_MAX_RANK], offset = 0;
    QF_CPU_EXPECT(call, starts->count == x->rank && steps->count == x->rank && y->rank == x->rank,
                  "one start and one step an axis");
    if (qf_view_count(y) == 0) return QF_OK;
    qf_view_strides(x, x_strides);
    qf_view_strides(y, y_strides);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t start = starts->ints[i], step = steps->ints[i], size = x->dims[i], reach;
        bool fits = start >= 0 && start < size && !__builtin_mul_overflow(step, y->dims[i] - 1, &reach) &&
                    !__builtin_add_overflow(reach, start, &reach) && reach >= 0 && reach < size;
        if (!fits)
            return qf_cpu_fail(call, QF_ERROR_INVALID_ARGUMENT,
                               "slice: %lld elements from %lld by %lld leave axis %u of size %lld",
                               (long long)y->dims[i], (long long)start, (long long)step, i, (long long)size);
        offset += start * x_strides[i];
        x_strides[i] *= step;
    }
    qf_cpu_copy_strided(qf_dtype_bits(y->dtype), y->rank, y->dims, y->data, 0, y_strides, x->data, offset, x_strides);
    return QF_OK;
}

/* True when the views agree on every axis but one. */
static bool agree_except(const qf_view *a, const qf_view *b, int64_t axis) {
    if (a->rank != b->rank || axis < 0 || axis >= a->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (i != axis && a->dims[i] != b->dims[i]) return false;
    return true;
}

qf_status qf_cpu_concat(const qf_kernel_call *call) {
    qf_view *y = &call->results[0];
    int64_t axis = call->attributes[QF_ATTR(concat, axis)].integer, at = 0;
    int64_t y_strides[QF_MAX_RANK], strides[QF_MAX_RANK];
    qf_view_strides(y, y_strides);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        const qf_view *part = &call->operands[i];
        QF_CPU_EXPECT(call, agree_except(part, y, axis) && at + part->dims[axis] <= y->dims[axis],
                      "parts that fill the result along axis");
        qf_view_strides(part, strides);
        qf_cpu_copy_strided(qf_dtype_bits(y->dtype), y->rank, part->dims, y->data, at * y_strides[axis], y_strides,
                            part->data, 0, strides);
        at += part->dims[axis];
    }
    QF_CPU_EXPECT(call, axis >= 0 && axis < y->rank && at == y->dims[axis], "parts that fill the result along axis");
    return QF_OK;
}

qf_status qf_cpu_split(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    int64_t axis = call->attributes[QF_ATTR(split, axis)].integer, at = 0;
    int64_t x_strides[QF_MAX_RANK], strides[QF_MAX_RANK];
    qf_view_strides(x, x_strides);
    for (uint32_t i = 0; i < call->result_count; i++) {
        qf_view *part = &call->results[i];
        QF_CPU_EXPECT(call, agree_except(part, x, axis) && at + part->dims[axis] <= x->dims[axis],
                      "parts within the operand along axis");
        qf_view_strides(part, strides);
        if (part->data)
            qf_cpu_copy_strided(qf_dtype_bits(x->dtype), x->rank, part->dims, part->data, 0, strides, x->data,
                                at * x_strides[axis], x_strides);
        at += part->dims[axis];
    }
    return QF_OK;
}

qf_status qf_cpu_expand(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    qf_view *y = &call->results[0];
    int64_t x_strides[QF_MAX_RANK], y_strides[QF_MAX_RANK], from[QF_MAX_RANK];
    QF_CPU_EXPECT(call, x->rank <= y->rank, "a result of at least the operand's rank");
    qf_view_strides(x, x_strides);
    qf_view_strides(y, y_strides);
    for (uint32_t i = 0; i < y->rank; i++) {
        uint32_t missing = y->rank - x->rank;
        int64_t size = i < missing ? 1 : x->dims[i - missing];
        QF_CPU_EXPECT(call, size == 1 || size == y->dims[i], "a shape that the operand broadcasts to");
        from[i] = size == 1 ? 0 : x_strides[i - missing];
    }
    qf_cpu_copy_strided(qf_dtype_bits(y->dtype), y->rank, y->dims, y->data, 0, y_strides, x->data, 0, from);
    return QF_OK;
}

qf_status qf_cpu_pad(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    qf_view *y = &call->results[0];
    const qf_kernel_attribute *before = &call->attributes[QF_ATTR(pad, before)];
    int64_t x_strides[QF_MAX_RANK], y_strides[QF_MAX_RANK], kept[QF_MAX_RANK], x_offset = 0, y_offset = 0;
    uint32_t bits = qf_dtype_bits(y->dtype);
    QF_CPU_EXPECT(call, before->count == x->rank && y->rank == x->rank && qf_view_count(&call->operands[1]) == 1,
                  "one count an axis and a scalar value");
    qf_cpu_fill(bits, y->data, 0, qf_view_count(y), call->operands[1].data);
    qf_view_strides(x, x_strides);
    qf_view_strides(y, y_strides);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t shift = before->ints[i], end = x->dims[i] + shift, first = shift > 0 ? shift : 0;
        if (end > y->dims[i]) end = y->dims[i];
        if (end <= first) return QF_OK; /* everything was cropped */
        kept[i] = end - first;
        x_offset += (first - shift) * x_strides[i];
        y_offset += first * y_strides[i];
    }
    qf_cpu_copy_strided(bits, y->rank, kept, y->data, y_offset, y_strides, x->data, x_offset, x_strides);
    return QF_OK;
}

qf_status qf_cpu_triangle(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    qf_view *y = &call->results[0];
    bool upper = call->attributes[QF_ATTR(triangle, upper)].integer != 0;
    int64_t diagonal = call->attributes[QF_ATTR(triangle, diagonal)].integer;
    const uint64_t zero = 0;
    uint32_t bits = qf_dtype_bits(y->dtype);
    QF_CPU_EXPECT(call, x->rank >= 2 && qf_view_count(x) == qf_view_count(y), "an operand of rank 2 or more");
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1],
            lines = columns ? qf_view_count(x) / columns : 0;
    if (diagonal > columns) diagonal = columns;
    if (diagonal < -rows) diagonal = -rows;
    for (int64_t line = 0; line < lines; line++) {
        /* The lower triangle keeps [0, edge), the upper one [edge, columns). */
        int64_t edge = line % rows + diagonal + !upper, start = line * columns;
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        int64_t kept = upper ? edge : 0, count = upper ? columns - edge : edge;
        qf_cpu_fill(bits, y->data, start + (upper ? 0 : edge), columns - count, &zero);
        qf_cpu_copy_run(bits, y->data, start + kept, x->data, start + kept, count);
    }
    return QF_OK;
}
