/* Owns: the builder of top_k: rounds of sorted chunks that keep their first k, or a sort of whole lines in memory.
 * Does not own: the order (top_k.cu), arg_max (reduce.c).
 * Next: top_k.h. */
#include "kernels/cuda/top_k.h"

#include <string.h>

#include "kernels/cuda/packed.h"

/* With at most so many results a round leaves at most half of the entries. */
#define MOST_BY_ROUNDS (QF_TOP_K_CHUNK / 2)

static qf_status add(qf_cuda_recorder *recorder, const char *kernel, const void *params, size_t size, int64_t items) {
    qf_cuda_launch *launch = qf_cuda_add_grid(recorder, "top_k", kernel, size, (uint64_t)items, QF_TOP_K_THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, params, size);
    return QF_OK;
}

static uint64_t entries(qf_cuda_recorder *recorder, int64_t count) {
    return (uint64_t)(uintptr_t)qf_cuda_scratch(recorder, (size_t)count * sizeof(qf_top_k_entry));
}

static qf_status by_rounds(qf_cuda_recorder *recorder, qf_top_k_params params) {
    params.from = 0;
    for (;;) {
        params.chunks = (params.size + QF_TOP_K_CHUNK - 1) / QF_TOP_K_CHUNK;
        params.is_last = params.chunks == 1;
        params.keep = params.k;
        params.to = params.is_last ? 0 : entries(recorder, params.lines * params.chunks * params.keep);
        qf_status status =
            add(recorder, "qf_top_k_chunks", &params, sizeof params, params.lines * params.chunks * QF_TOP_K_THREADS);
        if (status || params.is_last) return status;
        params.from = params.to;
        params.size = params.chunks * params.keep;
    }
}

/* A bitonic sort: runs of `width` are merged from runs of half; what fits a chunk happens in one launch. */
static qf_status by_sorting(qf_cuda_recorder *recorder, qf_top_k_params params) {
    int64_t padded = QF_TOP_K_CHUNK;
    while (padded < params.size) padded *= 2;
    params.chunks = padded / QF_TOP_K_CHUNK;
    params.to = entries(recorder, params.lines * padded);
    qf_status status = add(recorder, "qf_sort_enter", &params, sizeof params, params.lines * padded);
    qf_sort_params step = {.entries = params.to, .size = padded, .lines = params.lines};
    for (step.width = QF_TOP_K_CHUNK; step.width <= padded && !status; step.width *= 2) {
        for (step.distance = step.width / 2; step.distance >= QF_TOP_K_CHUNK && !status; step.distance /= 2) {
            step.within = 0;
            status = add(recorder, "qf_sort_step", &step, sizeof step, params.lines * padded / 2);
        }
        step.within = 1;
        if (!status)
            status = add(recorder, "qf_sort_step", &step, sizeof step, params.lines * params.chunks * QF_TOP_K_THREADS);
    }
    params.from = params.to;
    return status ? status : add(recorder, "qf_sort_leave", &params, sizeof params, params.lines * params.k);
}

qf_status qf_cuda_build_top_k(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *values = qf_call_result(&step->call, 0),
                  *indices = qf_call_result(&step->call, 1);
    int64_t axis = step->call.attributes[QF_ATTR(top_k, axis)].integer,
            k = step->call.attributes[QF_ATTR(top_k, k)].integer;
    QF_CUDA_EXPECT(step, axis >= 0 && axis < x->rank, "an axis of x");
    qf_top_k_params made = {.x = qf_cuda_address(x),
                            .values = values ? qf_cuda_address(values) : 0,
                            .indices = indices ? qf_cuda_address(indices) : 0,
                            .x_dtype = x->dtype,
                            .index_dtype = indices ? indices->dtype : QF_I64,
                            .largest = step->call.attributes[QF_ATTR(top_k, largest)].integer != 0,
                            .size = x->dims[axis],
                            .line = x->dims[axis],
                            .inner = qf_view_extent(x, (uint32_t)axis + 1, x->rank),
                            .k = k};
    made.lines = qf_view_extent(x, 0, (uint32_t)axis) * made.inner;
    QF_CUDA_EXPECT(step, k >= 0 && k <= made.size, "a k within the axis");
    QF_CUDA_EXPECT(step,
                   (!values || qf_view_count(values) == made.lines * k) &&
                       (!indices || qf_view_count(indices) == made.lines * k),
                   "results with k elements along the axis");
    if (made.size >= UINT32_MAX)
        return qf_cuda_refuse(step, "top_k: axis %lld has %lld elements, the kernel numbers them in 32 bits",
                              (long long)axis, (long long)made.size);
    if (made.lines == 0 || k == 0) return QF_OK;
    /* 4-bit values are put together from bytes: two threads would share one. */
    bool packs = values && values->dtype == QF_F4E2M1FN;
    made.value_bits = packs ? 8 : qf_dtype_bits(x->dtype);
    if (packs) made.values = (uint64_t)(uintptr_t)qf_cuda_scratch(recorder, (size_t)(made.lines * k));
    qf_status status = k <= MOST_BY_ROUNDS ? by_rounds(recorder, made) : by_sorting(recorder, made);
    return status || !packs ? status : qf_cuda_add_pack(recorder, made.values, values);
}
