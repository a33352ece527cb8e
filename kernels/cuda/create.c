/* Owns: builders of ops whose result is known when a plan is prepared (constant, symbolic, shape_of), and of iota and
 * full. Does not own: constants and weights that the executor places, for which there is no step (runtime/memory.c).
 * Next: create.h. */
#include "kernels/cuda/create.h"

#include <string.h>

#include "base/convert.h"
#include "kernels/cuda/builder.h"

/* Bytes of the host, by as many launches as their parameters take. */
static qf_status add_literal(qf_cuda_recorder *recorder, const qf_view *y, const void *bytes, size_t size) {
    for (size_t at = 0; at < size; at += QF_LITERAL_BYTES) {
        size_t part = size - at < QF_LITERAL_BYTES ? size - at : QF_LITERAL_BYTES;
        qf_cuda_launch *launch =
            qf_cuda_add_grid(recorder, "create", "qf_literal", sizeof(qf_literal_params), part, 128);
        if (!launch) return QF_ERROR_OUT_OF_MEMORY;
        qf_literal_params *params = launch->params;
        params->to = qf_cuda_address(y) + at;
        params->size = (uint32_t)part;
        memcpy(params->bytes, (const char *)bytes + at, part);
    }
    return QF_OK;
}

static qf_status add_integers(qf_cuda_recorder *recorder, const qf_view *y, const int64_t *integers, int64_t count) {
    size_t size = qf_view_bytes(y);
    unsigned char *bytes = qf_arena_allocate(recorder->arena, size ? size : 1);
    if (!bytes) return QF_ERROR_OUT_OF_MEMORY;
    qf_store_array_i64(y->dtype, bytes, 0, count, integers);
    return add_literal(recorder, y, bytes, size);
}

qf_status qf_cuda_build_constant(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *y = &step->call.results[0];
    const qf_kernel_attribute *value = &step->call.attributes[QF_ATTR(constant, value)];
    QF_CUDA_EXPECT(step, value->count == qf_view_bytes(y), "as many literal bytes as the result has");
    return add_literal(recorder, y, value->bytes, (size_t)value->count);
}

qf_status qf_cuda_build_parameter(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    (void)recorder;
    return qf_cuda_refuse(step, "parameter \"%s\" has no bytes bound to it; bind it by name",
                          step->call.attributes[QF_ATTR(parameter, name)].string);
}

qf_status qf_cuda_build_symbolic(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *y = &step->call.results[0];
    const qf_kernel_attribute *values = &step->call.attributes[QF_ATTR(symbolic, values)];
    QF_CUDA_EXPECT(step, (int64_t)values->count == qf_view_count(y), "one dim an element");
    return add_integers(recorder, y, values->ints, (int64_t)values->count);
}

/* A slice bound: negative counts from the end; clipped to [0, rank]. */
static int64_t bound(int64_t at, int64_t rank) {
    if (at < 0) at += rank;
    return at < 0 ? 0 : at > rank ? rank : at;
}

qf_status qf_cuda_build_shape_of(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0];
    int64_t first = bound(step->call.attributes[QF_ATTR(shape_of, start)].integer, x->rank);
    int64_t last = bound(step->call.attributes[QF_ATTR(shape_of, end)].integer, x->rank);
    int64_t count = last > first ? last - first : 0;
    QF_CUDA_EXPECT(step, count == qf_view_count(y), "one element a selected dim");
    return add_integers(recorder, y, x->dims + first, count);
}

qf_status qf_cuda_build_iota(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *y = &step->call.results[0];
    int64_t axis = step->call.attributes[QF_ATTR(iota, axis)].integer, count = qf_view_count(y);
    QF_CUDA_EXPECT(step, axis >= 0 && (axis < y->rank || y->rank == 0), "an axis of the result");
    if (count == 0) return QF_OK;
    qf_cuda_launch *launch =
        qf_cuda_add_grid(recorder, "create", "qf_iota", sizeof(qf_iota_params), ((uint64_t)count + 3) / 4, 256);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    qf_iota_params *params = launch->params;
    params->to = qf_cuda_address(y);
    params->dtype = y->dtype;
    params->aligned = params->to % (qf_dtype_bits(y->dtype) / 2 < 16 ? qf_dtype_bits(y->dtype) / 2 : 16) == 0;
    params->count = count;
    params->inner = y->rank ? qf_view_extent(y, (uint32_t)axis + 1, y->rank) : 1;
    params->size = y->rank ? y->dims[axis] : 1;
    params->start = step->call.attributes[QF_ATTR(iota, start)].integer;
    params->step = step->call.attributes[QF_ATTR(iota, step)].integer;
    return QF_OK;
}

qf_status qf_cuda_build_full(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *value = &step->call.operands[0], *y = &step->call.results[0];
    QF_CUDA_EXPECT(step, qf_view_count(value) == 1, "a scalar value");
    size_t size = qf_view_bytes(y);
    if (size == 0) return QF_OK;
    uint32_t unit = 16, bits = qf_dtype_bits(y->dtype);
    while (unit > 1 && unit * 8 > bits && (size % unit || qf_cuda_address(y) % unit)) unit /= 2;
    qf_cuda_launch *launch = qf_cuda_add_grid(recorder, "create", "qf_full", sizeof(qf_full_params), size / unit, 256);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    qf_full_params *params = launch->params;
    *params = (qf_full_params){qf_cuda_address(value), qf_cuda_address(y), bits, unit, (int64_t)(size / unit)};
    return QF_OK;
}
