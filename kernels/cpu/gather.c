/* Owns: kernels that move elements by index tensors: gather, scatter and their variants, one_hot.
 * Does not own: moving by shape alone (layout.c).
 * Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <string.h>

/* The index at `position`, brought into [0, size); a fault otherwise. */
static qf_status index_at(const qf_kernel_call *call, const qf_view *indices, int64_t position, int64_t size,
                          uint32_t axis, int64_t *out_index) {
    int64_t index = qf_load_i64(indices->dtype, indices->data, position);
    *out_index = index < 0 ? index + size : index;
    if (*out_index >= 0 && *out_index < size) return QF_OK;
    return qf_cpu_fail(call, QF_ERROR_INVALID_ARGUMENT,
                       "%s: index %lld at position %lld is outside of axis %u of size %lld", qf_op_name(call->op),
                       (long long)index, (long long)position, axis, (long long)size);
}

qf_status qf_cpu_gather(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0], *indices = &call->operands[1];
    qf_view *y = &call->results[0];
    int64_t axis = call->attributes[QF_ATTR(gather, axis)].integer, index;
    QF_CPU_EXPECT(call, axis >= 0 && axis < x->rank, "an axis of x");
    uint32_t at = (uint32_t)axis, bits = qf_dtype_bits(x->dtype);
    int64_t outer = qf_view_extent(x, 0, at), size = x->dims[at], inner = qf_view_extent(x, at + 1, x->rank);
    int64_t count = qf_view_count(indices);
    QF_CPU_EXPECT(call, qf_view_count(y) == outer * count * inner, "the shape of x with axis replaced by indices'");
    for (int64_t i = 0; i < count; i++) {
        qf_status status = index_at(call, indices, i, size, at, &index);
        if (status) return status;
        for (int64_t o = 0; o < outer; o++)
            qf_cpu_copy_run(bits, y->data, (o * count + i) * inner, x->data, (o * size + index) * inner, inner);
    }
    return QF_OK;
}

/* For gather_elements and scatter_elements: the element of x that position `i` of `indices` addresses. */
static qf_status element_at(const qf_kernel_call *call, const qf_view *x, const qf_view *indices, uint32_t axis,
                            int64_t i, int64_t *out_offset) {
    int64_t rest = i, stride = 1, offset = 0, index;
    qf_status status = index_at(call, indices, i, x->dims[axis], axis, &index);
    if (status) return status;
    for (uint32_t k = x->rank; k-- > 0;) {
        int64_t coordinate = rest % indices->dims[k];
        rest /= indices->dims[k];
        offset += (k == axis ? index : coordinate) * stride;
        stride *= x->dims[k];
    }
    *out_offset = offset;
    return QF_OK;
}

/* Indices have x's rank and, but for axis, no larger dims. */
static bool is_elementwise_index(const qf_view *x, const qf_view *indices, int64_t axis) {
    if (axis < 0 || axis >= x->rank || indices->rank != x->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (i != axis && indices->dims[i] > x->dims[i]) return false;
    return true;
}

qf_status qf_cpu_gather_elements(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0], *indices = &call->operands[1];
    qf_view *y = &call->results[0];
    int64_t axis = call->attributes[QF_ATTR(gather_elements, axis)].integer, count = qf_view_count(indices), offset;
    QF_CPU_EXPECT(call, is_elementwise_index(x, indices, axis) && qf_view_count(y) == count,
                  "indices of x's rank, within x but for axis");
    for (int64_t i = 0; i < count; i++) {
        qf_status status = element_at(call, x, indices, (uint32_t)axis, i, &offset);
        if (status) return status;
        qf_cpu_copy_run(qf_dtype_bits(x->dtype), y->data, i, x->data, offset, 1);
    }
    return QF_OK;
}

/* The result starts as x; both may be one buffer. */
static qf_status start_scatter(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0];
    QF_CPU_EXPECT(call, qf_view_bytes(x) == qf_view_bytes(&call->results[0]), "a result of x's shape");
    if (x->data != call->results[0].data && qf_view_bytes(x)) memcpy(call->results[0].data, x->data, qf_view_bytes(x));
    return QF_OK;
}

qf_status qf_cpu_scatter_elements(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0], *indices = &call->operands[1], *updates = &call->operands[2];
    int64_t axis = call->attributes[QF_ATTR(scatter_elements, axis)].integer, count = qf_view_count(indices), offset;
    QF_CPU_EXPECT(call, is_elementwise_index(x, indices, axis) && qf_view_count(updates) == count,
                  "indices of x's rank, within x but for axis, and as many updates");
    qf_status status = start_scatter(call);
    for (int64_t i = 0; i < count && !status; i++) {
        status = element_at(call, x, indices, (uint32_t)axis, i, &offset);
        if (!status) qf_cpu_copy_run(qf_dtype_bits(x->dtype), call->results[0].data, offset, updates->data, i, 1);
    }
    return status;
}

/* The leading axes of x that a tuple of indices addresses. */
typedef struct tuples {
    const qf_view *x, *indices;
    uint32_t batch, depth;                  /* axes in common; indices in a tuple */
    int64_t count, per_batch, slice, inner; /* tuples; tuples a batch; elements of the addressed axes; elements moved */
} tuples;

static qf_status start_tuples(const qf_kernel_call *call, int64_t batch, tuples *out) {
    const qf_view *x = &call->operands[0], *indices = &call->operands[1];
    QF_CPU_EXPECT(call, indices->rank >= 1 && batch >= 0 && batch < indices->rank,
                  "batch_dims under the rank of indices");
    int64_t depth = indices->dims[indices->rank - 1];
    QF_CPU_EXPECT(call, depth >= 0 && batch + depth <= x->rank, "tuples no longer than x has axes");
    for (uint32_t i = 0; i < (uint32_t)batch; i++)
        QF_CPU_EXPECT(call, x->dims[i] == indices->dims[i], "equal batch dims");
    *out =
        (tuples){x, indices, (uint32_t)batch, (uint32_t)depth, qf_view_extent(indices, 0, indices->rank - 1), 0, 0, 0};
    out->per_batch = qf_view_extent(indices, out->batch, indices->rank - 1);
    out->slice = qf_view_extent(x, out->batch, out->batch + out->depth);
    out->inner = qf_view_extent(x, out->batch + out->depth, x->rank);
    return QF_OK;
}

/* First element of the slice of x that tuple `i` addresses. */
static qf_status tuple_at(const qf_kernel_call *call, const tuples *all, int64_t i, int64_t *out_offset) {
    int64_t offset = 0, index;
    for (uint32_t k = 0; k < all->depth; k++) {
        uint32_t axis = all->batch + k;
        qf_status status = index_at(call, all->indices, i * all->depth + k, all->x->dims[axis], axis, &index);
        if (status) return status;
        offset = offset * all->x->dims[axis] + index;
    }
    *out_offset = (i / all->per_batch * all->slice + offset) * all->inner;
    return QF_OK;
}

qf_status qf_cpu_gather_nd(const qf_kernel_call *call) {
    tuples all = {0};
    int64_t offset;
    qf_status status = start_tuples(call, call->attributes[QF_ATTR(gather_nd, batch_dims)].integer, &all);
    if (status) return status;
    QF_CPU_EXPECT(call, qf_view_count(&call->results[0]) == all.count * all.inner, "a slice of x for each tuple");
    for (int64_t i = 0; i < all.count && !status; i++) {
        status = tuple_at(call, &all, i, &offset);
        if (!status)
            qf_cpu_copy_run(qf_dtype_bits(all.x->dtype), call->results[0].data, i * all.inner, all.x->data, offset,
                            all.inner);
    }
    return status;
}

qf_status qf_cpu_scatter_nd(const qf_kernel_call *call) {
    tuples all = {0};
    int64_t offset;
    const qf_view *updates = &call->operands[2];
    qf_status status = start_tuples(call, 0, &all);
    if (status) return status;
    QF_CPU_EXPECT(call, qf_view_count(updates) == all.count * all.inner, "a slice of updates for each tuple");
    status = start_scatter(call);
    for (int64_t i = 0; i < all.count && !status; i++) {
        status = tuple_at(call, &all, i, &offset);
        if (!status)
            qf_cpu_copy_run(qf_dtype_bits(all.x->dtype), call->results[0].data, offset, updates->data, i * all.inner,
                            all.inner);
    }
    return status;
}

qf_status qf_cpu_one_hot(const qf_kernel_call *call) {
    const qf_view *indices = &call->operands[0], *values = &call->operands[1];
    qf_view *y = &call->results[0];
    int64_t depth = call->attributes[QF_ATTR(one_hot, depth)].integer;
    int64_t axis = call->attributes[QF_ATTR(one_hot, axis)].integer;
    uint32_t bits = qf_dtype_bits(y->dtype);
    if (axis < 0) axis += indices->rank + 1;
    QF_CPU_EXPECT(call, axis >= 0 && axis <= indices->rank && qf_view_count(values) == 2,
                  "an axis of y and two values");
    int64_t inner = qf_view_extent(indices, (uint32_t)axis, indices->rank), count = qf_view_count(indices);
    QF_CPU_EXPECT(call, depth >= 0 && qf_view_count(y) == count * depth, "a new axis of size depth");
    qf_cpu_fill(bits, y->data, 0, count * depth, values->data);
    for (int64_t i = 0; i < count; i++) {
        int64_t index = qf_load_i64(indices->dtype, indices->data, i);
        if (index < 0) index += depth;
        /* As the doc says: an index outside of depth marks nothing. */
        if (index < 0 || index >= depth) continue;
        qf_cpu_copy_run(bits, y->data, (i / inner * depth + index) * inner + i % inner, values->data, 1, 1);
    }
    return QF_OK;
}
