/* Owns: builders of ops that move elements by index tensors.
 * Does not own: moving by shape alone (layout.c), 4-bit elements (packed.c).
 * Next: gather.h. */
#include "kernels/cuda/gather.h"

#include <string.h>

#include "kernels/cuda/packed.h"

#define THREADS 256u

/* Up to so many updates are compared with each other; more are entered with their targets. */
#define FEW_UPDATES 128

/* Elements that lie together as units of up to 16 bytes; *inner becomes their number. */
static uint32_t unit_of(qf_dtype dtype, int64_t *inner, uint64_t addresses) {
    uint32_t bytes = qf_dtype_bits(dtype) / 8;
    while (bytes < 16 && *inner % 2 == 0 && addresses % (bytes * 2) == 0) {
        bytes *= 2;
        *inner /= 2;
    }
    return bytes;
}

static qf_status add(qf_cuda_recorder *recorder, const char *kernel, const void *params, size_t size, int64_t items) {
    qf_cuda_launch *launch = qf_cuda_add_grid(recorder, "gather", kernel, size, (uint64_t)items, THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, params, size);
    return QF_OK;
}

qf_status qf_cuda_build_gather(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_gather);
    const qf_view *x = &step->call.operands[0], *indices = &step->call.operands[1], *y = &step->call.results[0];
    int64_t axis = step->call.attributes[QF_ATTR(gather, axis)].integer;
    QF_CUDA_EXPECT(step, axis >= 0 && axis < x->rank, "an axis of x");
    int64_t outer = qf_view_extent(x, 0, (uint32_t)axis), inner = qf_view_extent(x, (uint32_t)axis + 1, x->rank);
    int64_t count = qf_view_count(indices), none[3] = {0};
    QF_CUDA_EXPECT(step, qf_view_count(y) == outer * count * inner, "the shape of x with axis replaced by indices'");
    if (qf_view_count(y) == 0) return QF_OK;
    qf_gather_params made = {.x = qf_cuda_address(x),
                             .indices = qf_cuda_address(indices),
                             .y = qf_cuda_address(y),
                             .index_dtype = indices->dtype,
                             .size = x->dims[axis]};
    made.unit_bytes = unit_of(x->dtype, &inner, made.x | made.y);
    int64_t dims[] = {outer, count, inner};
    qf_cuda_loops_keep(&made.loops, 3, dims, none, none);
    return add(recorder, "qf_gather", &made, sizeof made, made.loops.count);
}

/* --- one element an index --- */

static bool is_elementwise_index(const qf_view *x, const qf_view *indices, int64_t axis) {
    if (axis < 0 || axis >= x->rank || indices->rank != x->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (i != axis && indices->dims[i] > x->dims[i]) return false;
    return true;
}

/* Loops over the indices; what they address has the dims of `addressed`. */
static void describe_elements(const qf_view *addressed, const qf_view *indices, int64_t axis,
                              qf_elements_params *params) {
    int64_t strides[QF_MAX_RANK], from[QF_MAX_RANK], to[QF_MAX_RANK];
    qf_view_strides(addressed, strides);
    qf_view_strides(indices, to);
    for (uint32_t i = 0; i < addressed->rank; i++) from[i] = i == axis ? 0 : strides[i];
    qf_cuda_loops_make(&params->loops, indices->rank, indices->dims, from, to);
    params->indices = qf_cuda_address(indices);
    params->index_dtype = indices->dtype;
    params->element_bytes = qf_dtype_bits(addressed->dtype) / 8;
    params->size = addressed->dims[axis];
    params->axis_stride = strides[axis];
    params->index_stride = to[axis];
    params->axis_count = indices->dims[axis];
}

qf_status qf_cuda_build_gather_elements(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_gather_elements);
    const qf_view *x = &step->call.operands[0], *indices = &step->call.operands[1], *y = &step->call.results[0];
    int64_t axis = step->call.attributes[QF_ATTR(gather_elements, axis)].integer, count = qf_view_count(indices);
    QF_CUDA_EXPECT(step, is_elementwise_index(x, indices, axis) && qf_view_count(y) == count,
                   "indices of x's rank, within x but for axis");
    if (count == 0) return QF_OK;
    qf_elements_params made = {.x = qf_cuda_address(x), .y = qf_cuda_address(y)};
    describe_elements(x, indices, axis, &made);
    return add(recorder, "qf_gather_elements", &made, sizeof made, count);
}

/* The result starts as x; both may be one buffer. */
static qf_status start_scatter(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0];
    QF_CUDA_EXPECT(step, qf_view_bytes(x) == qf_view_bytes(y), "a result of x's shape");
    return qf_cuda_add_copy(recorder, y->data, x->data, qf_view_bytes(x));
}

static qf_status check_update_count(const qf_kernel_step *step, int64_t count) {
    if (count < INT32_MAX) return QF_OK;
    return qf_cuda_refuse(step, "%s: %lld updates, the kernel numbers them in 31 bits", qf_op_name(step->call.op),
                          (long long)count);
}

qf_status qf_cuda_build_scatter_elements(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_scatter_elements);
    const qf_view *x = &step->call.operands[0], *indices = &step->call.operands[1], *updates = &step->call.operands[2],
                  *y = &step->call.results[0];
    int64_t axis = step->call.attributes[QF_ATTR(scatter_elements, axis)].integer, count = qf_view_count(indices);
    QF_CUDA_EXPECT(step, is_elementwise_index(x, indices, axis) && qf_view_count(updates) == count,
                   "indices of x's rank, within x but for axis, and as many updates");
    qf_status status = start_scatter(recorder, step);
    if (status || count == 0) return status;
    qf_elements_params made = {.x = qf_cuda_address(updates), .y = qf_cuda_address(y)};
    describe_elements(x, indices, axis, &made);
    if (made.axis_count <= FEW_UPDATES) return add(recorder, "qf_scatter_elements", &made, sizeof made, count);
    status = check_update_count(step, count);
    made.owners = (uint64_t)(uintptr_t)qf_cuda_scratch(recorder, (size_t)qf_view_count(x) * sizeof(int32_t));
    for (made.phase = QF_SCATTER_CLEAR; made.phase <= QF_SCATTER_WRITE && !status; made.phase++)
        status = add(recorder, "qf_scatter_elements", &made, sizeof made, count);
    return status;
}

/* --- tuples of indices --- */

static qf_status describe_tuples(const qf_kernel_step *step, int64_t batch, qf_tuples_params *out) {
    const qf_view *x = &step->call.operands[0], *indices = &step->call.operands[1];
    QF_CUDA_EXPECT(step, indices->rank >= 1 && batch >= 0 && batch < indices->rank,
                   "batch_dims under the rank of indices");
    int64_t depth = indices->dims[indices->rank - 1];
    QF_CUDA_EXPECT(step, depth >= 0 && batch + depth <= x->rank, "tuples no longer than x has axes");
    uint32_t first = (uint32_t)batch, last = (uint32_t)(batch + depth);
    for (uint32_t i = 0; i < first; i++) QF_CUDA_EXPECT(step, x->dims[i] == indices->dims[i], "equal batch dims");
    *out = (qf_tuples_params){.indices = qf_cuda_address(indices),
                              .index_dtype = indices->dtype,
                              .depth = (uint32_t)depth,
                              .count = qf_view_extent(indices, 0, indices->rank - 1),
                              .per_batch = qf_view_extent(indices, first, indices->rank - 1),
                              .slices = qf_view_extent(x, first, last),
                              .inner = qf_view_extent(x, last, x->rank)};
    for (uint32_t k = first; k < last; k++) out->dims[k - first] = x->dims[k];
    return QF_OK;
}

qf_status qf_cuda_build_gather_nd(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_gather_nd);
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0];
    qf_tuples_params made = {0};
    qf_status status = describe_tuples(step, step->call.attributes[QF_ATTR(gather_nd, batch_dims)].integer, &made);
    if (status) return status;
    QF_CUDA_EXPECT(step, qf_view_count(y) == made.count * made.inner, "a slice of x for each tuple");
    if (qf_view_count(y) == 0) return QF_OK;
    made.x = qf_cuda_address(x);
    made.y = qf_cuda_address(y);
    made.unit_bytes = unit_of(x->dtype, &made.inner, made.x | made.y);
    return add(recorder, "qf_gather_tuples", &made, sizeof made, made.count * made.inner);
}

qf_status qf_cuda_build_scatter_nd(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_scatter_nd);
    const qf_view *updates = &step->call.operands[2], *y = &step->call.results[0];
    qf_tuples_params made = {0};
    qf_status status = describe_tuples(step, 0, &made);
    if (status) return status;
    QF_CUDA_EXPECT(step, qf_view_count(updates) == made.count * made.inner, "a slice of updates for each tuple");
    status = start_scatter(recorder, step);
    if (status || qf_view_count(updates) == 0) return status;
    made.x = qf_cuda_address(updates);
    made.y = qf_cuda_address(y);
    made.unit_bytes = unit_of(updates->dtype, &made.inner, made.x | made.y);
    if (made.count <= FEW_UPDATES)
        return add(recorder, "qf_scatter_tuples", &made, sizeof made, made.count * (int64_t)THREADS);
    status = check_update_count(step, made.count);
    made.owners = (uint64_t)(uintptr_t)qf_cuda_scratch(recorder, (size_t)made.slices * sizeof(int32_t));
    for (made.phase = QF_SCATTER_CLEAR; made.phase <= QF_SCATTER_ENTER && !status; made.phase++)
        status = add(recorder, "qf_scatter_enter", &made, sizeof made, made.count);
    return status ? status : add(recorder, "qf_scatter_tuples", &made, sizeof made, made.count * made.inner);
}

qf_status qf_cuda_build_one_hot(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_one_hot);
    const qf_view *indices = &step->call.operands[0], *values = &step->call.operands[1], *y = &step->call.results[0];
    int64_t depth = step->call.attributes[QF_ATTR(one_hot, depth)].integer;
    int64_t axis = step->call.attributes[QF_ATTR(one_hot, axis)].integer, none[3] = {0};
    if (axis < 0) axis += indices->rank + 1;
    QF_CUDA_EXPECT(step, axis >= 0 && axis <= indices->rank && qf_view_count(values) == 2,
                   "an axis of y and two values");
    int64_t inner = qf_view_extent(indices, (uint32_t)axis, indices->rank), count = qf_view_count(indices);
    QF_CUDA_EXPECT(step, depth >= 0 && qf_view_count(y) == count * depth, "a new axis of size depth");
    if (qf_view_count(y) == 0) return QF_OK;
    qf_one_hot_params made = {.indices = qf_cuda_address(indices),
                              .values = qf_cuda_address(values),
                              .y = qf_cuda_address(y),
                              .index_dtype = indices->dtype,
                              .element_bytes = qf_dtype_bits(y->dtype) / 8};
    int64_t dims[] = {count / inner, depth, inner};
    qf_cuda_loops_keep(&made.loops, 3, dims, none, none);
    return add(recorder, "qf_one_hot", &made, sizeof made, made.loops.count);
}
