/* Owns: kernels that move or repeat elements by shape alone: copy, permute, slice, concat, split, expand, pad,
 * triangle. Does not own: moving by index tensors (gather.c), the strided copy (support.c). Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <string.h>

#include "kernels/strided.h"

qf_status qf_cpu_copy(const qf_kernel_call *call) {
    size_t bytes = qf_view_bytes(&call->results[0]);
    QF_CPU_EXPECT(call, bytes == qf_view_bytes(&call->operands[0]), "a result with as many bytes as the operand");
    if (bytes) memmove(call->results[0].data, call->operands[0].data, bytes);
    return QF_OK;
}

static void copy_strided(const qf_kernel_call *call, const qf_strided_copy *copy) {
    const qf_view *y = &call->results[0];
    qf_cpu_copy_strided(qf_dtype_bits(y->dtype), copy->rank, copy->dims, y->data, copy->to_offset, copy->to,
                        call->operands[0].data, copy->from_offset, copy->from);
}

/* An op that is one strided copy, as `describe` describes it. */
static qf_status copy_as(const qf_kernel_call *call, qf_status describe(const qf_kernel_call *, qf_strided_copy *)) {
    qf_strided_copy copy;
    qf_status status = describe(call, &copy);
    if (status == QF_OK) copy_strided(call, &copy);
    return status;
}

qf_status qf_cpu_permute(const qf_kernel_call *call) {
    return copy_as(call, qf_strided_permute);
}

qf_status qf_cpu_slice(const qf_kernel_call *call) {
    return copy_as(call, qf_strided_slice);
}

qf_status qf_cpu_concat(const qf_kernel_call *call) {
    qf_view *y = &call->results[0];
    int64_t axis = call->attributes[QF_ATTR(concat, axis)].integer, at = 0;
    int64_t y_strides[QF_MAX_RANK], strides[QF_MAX_RANK];
    qf_view_strides(y, y_strides);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        const qf_view *part = &call->operands[i];
        QF_CPU_EXPECT(call, qf_views_agree_except(part, y, axis) && at + part->dims[axis] <= y->dims[axis],
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
        QF_CPU_EXPECT(call, qf_views_agree_except(part, x, axis) && at + part->dims[axis] <= x->dims[axis],
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
    return copy_as(call, qf_strided_expand);
}

qf_status qf_cpu_pad(const qf_kernel_call *call) {
    qf_view *y = &call->results[0];
    qf_strided_copy copy;
    qf_status status = qf_strided_pad(call, &copy);
    if (status != QF_OK) return status;
    qf_cpu_fill(qf_dtype_bits(y->dtype), y->data, 0, qf_view_count(y), call->operands[1].data);
    copy_strided(call, &copy);
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
