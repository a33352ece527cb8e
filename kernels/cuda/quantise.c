/* Owns: launches of quantize, dequantize and dynamic_quantize.
 * Does not own: the kernels (quantise.cu).
 * Next: quantise.h, kernels/cpu/quantise.c. */
#include "kernels/cuda/quantise.h"

#include "kernels/cuda/fast.h"

#define THREADS    256
#define KEPT_BYTES 40960 /* of shared memory, for entries that are read once */

/* --- which scale belongs to which element --- */

/* Strides of a scale or zero point over the axes of x. One entry for all: zero everywhere. */
static qf_status granules_of(const qf_kernel_step *step, const qf_view *x, const qf_view *entries, int64_t axis,
                             int64_t group, int64_t *strides) {
    int64_t stride = 1;
    for (uint32_t i = 0; i < QF_MAX_RANK; i++) strides[i] = 0;
    if (!entries || qf_view_count(entries) == 1) return QF_OK;
    if (entries->rank == 1 && axis >= 0) {
        strides[axis] = 1;
        return QF_OK;
    }
    if (entries->rank != x->rank || (group == 0 && entries->rank > 1 && axis < 0))
        return qf_cuda_refuse(step, "%s: expected a scale that is a scalar, a vector along axis, or of x's rank",
                              qf_op_name(step->call.op));
    for (uint32_t i = x->rank; i-- > 0; stride *= entries->dims[i]) strides[i] = entries->dims[i] == 1 ? 0 : stride;
    return QF_OK;
}

/* Scales in the order of their elements, each for as many neighbours; 0: they are not, or begin again. */
static int64_t granule_of(const qf_quantise_params *params) {
    const int64_t *sizes = params->sizes, *blocks = params->blocks, *strides = params->scale_strides;
    int64_t covered = 1;
    for (uint32_t i = 0; i < params->axis_count; i++) covered *= sizes[i];
    if (covered != params->count) return 0;
    if (params->axis_count == 1) return strides[0] == 1 ? blocks[0] : 0;
    if (params->axis_count != 2 || blocks[0] != 1) return 0;
    if (strides[1] == 0) return strides[0] == 1 ? sizes[1] : 0;
    return strides[1] == 1 && sizes[1] % blocks[1] == 0 && strides[0] == sizes[1] / blocks[1] ? blocks[1] : 0;
}

static void prepare_divisions(qf_quantise_params *params) {
    params->granule = granule_of(params);
    if (params->granule > 0 && params->granule < INT32_MAX)
        qf_cuda_division(params->granule, &params->by_granule.magic, &params->by_granule.shift);
    if (params->count == 0 || params->count >= INT32_MAX) return;
    for (uint32_t i = 0; i < params->axis_count; i++) {
        qf_quantise_divisor *size = &params->by_size[i], *block = &params->by_block[i];
        qf_cuda_division(params->sizes[i], &size->magic, &size->shift);
        /* A block may be larger than its axis. */
        int64_t most = params->blocks[i] < params->sizes[i] ? params->blocks[i] : params->sizes[i];
        qf_cuda_division(most, &block->magic, &block->shift);
    }
}

/* Drops axes of one element, merges neighbours that step as one, and drops outer axes that share their entries. */
static void collapse(qf_quantise_params *params, const qf_view *x, int64_t axis, int64_t group,
                     const int64_t *scale_strides, const int64_t *zero_strides) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t size = x->dims[i], scale = scale_strides[i], zero = zero_strides[i];
        bool shared = scale == 0 && zero == 0;
        int64_t block = (int64_t)i == axis && group > 0 && !shared ? group : 1;
        if (size == 1 || (count == 0 && shared)) continue;
        if (count && block == 1 && params->blocks[count - 1] == 1 && params->scale_strides[count - 1] == scale * size &&
            params->zero_strides[count - 1] == zero * size) {
            params->sizes[count - 1] *= size;
            params->scale_strides[count - 1] = scale;
            params->zero_strides[count - 1] = zero;
            continue;
        }
        params->sizes[count] = size;
        params->blocks[count] = block;
        params->scale_strides[count] = scale;
        params->zero_strides[count++] = zero;
    }
    params->axis_count = count;
    prepare_divisions(params);
}

/* --- quantize and dequantize --- */

/* Runs of elements lie in one line and one block of the last axis, so that they share a scale. */
static bool has_shared_runs(const qf_quantise_params *params) {
    uint32_t last = params->axis_count - 1;
    if (params->axis_count == 0) return true;
    if (params->sizes[last] % QF_QUANTISE_RUN) return false;
    return params->scale_strides[last] == 0 || params->blocks[last] % QF_QUANTISE_RUN == 0;
}

static bool takes_runs(const qf_quantise_params *params) {
    qf_dtype x = (qf_dtype)params->x_dtype, y = (qf_dtype)params->y_dtype;
    return qf_cuda_is_fast(x) && qf_cuda_is_fast(y) && qf_cuda_is_aligned(params->x, x, QF_QUANTISE_RUN) &&
           qf_cuda_is_aligned(params->y, y, QF_QUANTISE_RUN) && !params->zero_point && params->saturate &&
           params->compute != QF_F64 && has_shared_runs(params);
}

static qf_status add_scaling(qf_cuda_recorder *recorder, const qf_quantise_params *params, bool back) {
    if (params->count == 0) return QF_OK;
    bool runs = takes_runs(params), of_16_bits = qf_dtype_bits((qf_dtype)params->x_dtype) == 16;
    bool one = params->axis_count == 0 && params->count < INT32_MAX;
    bool granules = params->granule > 0 && params->scale_dtype == QF_F32 && params->count < INT32_MAX;
    static const char *const kernels[][3] = {
        {"qf_quantize_runs", "qf_quantize_runs_16", "qf_dequantize_runs"},
        {"qf_quantize_granules", "qf_quantize_granules_16", "qf_dequantize_granules"},
        {"qf_quantize_one", "qf_quantize_one_16", "qf_dequantize_one"}};
    const char *kernel = back ? "qf_dequantize" : "qf_quantize";
    if (runs) kernel = kernels[one ? 2 : granules ? 1 : 0][back ? 2 : of_16_bits ? 1 : 0];
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "quantise", kernel, sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    *(qf_quantise_params *)launch->params = *params;
    launch->block[0] = THREADS;
    int64_t each = runs ? QF_QUANTISE_RUN * QF_QUANTISE_RUNS : 2;
    launch->grid[0] = qf_cuda_blocks(qf_cuda_divide_up(params->count, THREADS * each));
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

static qf_quantise_params start_scaling(const qf_view *x, const qf_view *scale, const qf_view *y) {
    return (qf_quantise_params){.x = x->data,
                                .y = y->data,
                                .scale = scale->data,
                                .count = qf_view_count(x),
                                .x_dtype = x->dtype,
                                .y_dtype = y->dtype,
                                .scale_dtype = scale->dtype,
                                .mode = QF_VALUE_div,
                                .compute = QF_F32,
                                .saturate = true};
}

static qf_status build_scaling(const qf_kernel_step *step, int64_t axis, int64_t group, qf_quantise_params *params) {
    const qf_view *x = &step->call.operands[0], *scale = &step->call.operands[1];
    const qf_view *zero_point = qf_call_operand(&step->call, QF_IN(quantize, zero_point));
    int64_t scale_strides[QF_MAX_RANK], zero_strides[QF_MAX_RANK];
    *params = start_scaling(x, scale, &step->call.results[0]);
    if (zero_point) {
        params->zero_point = zero_point->data;
        params->zero_dtype = zero_point->dtype;
    }
    qf_status status = granules_of(step, x, scale, axis, group, scale_strides);
    if (!status) status = granules_of(step, x, zero_point, axis, group, zero_strides);
    if (!status) collapse(params, x, axis, group, scale_strides, zero_strides);
    return status;
}

qf_status qf_cuda_build_quantize(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_kernel_attribute *attributes = step->call.attributes;
    qf_quantise_params params;
    qf_status status = build_scaling(step, attributes[QF_ATTR(quantize, axis)].integer,
                                     attributes[QF_ATTR(quantize, group)].integer, &params);
    if (status) return status;
    params.mode = (uint32_t)attributes[QF_ATTR(quantize, mode)].integer;
    params.compute = (uint32_t)attributes[QF_ATTR(quantize, compute)].integer;
    params.saturate = attributes[QF_ATTR(quantize, saturate)].integer != 0;
    return add_scaling(recorder, &params, false);
}

qf_status qf_cuda_build_dequantize(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_kernel_attribute *attributes = step->call.attributes;
    qf_quantise_params params;
    qf_status status = build_scaling(step, attributes[QF_ATTR(dequantize, axis)].integer,
                                     attributes[QF_ATTR(dequantize, group)].integer, &params);
    return status ? status : add_scaling(recorder, &params, true);
}

/* --- dynamic_quantize --- */

static float largest_of(qf_dtype dtype) {
    if (qf_dtype_is_float(dtype)) return (float)qf_dtype_largest(dtype);
    return dtype == QF_U8 ? 255.0f : 127.0f;
}

/* Up to four runs of eight a thread. */
static uint32_t lanes_of(int64_t size) {
    uint32_t lanes = 1;
    while (lanes < 512 && (int64_t)lanes * 8 * (lanes < 32 ? 1 : 4) < size) lanes *= 2;
    return lanes;
}

/* Entries of aligned runs that a team holds in registers. */
static qf_status add_held_dynamic(qf_cuda_recorder *recorder, qf_dynamic_params *params) {
    bool of_16_bits = qf_dtype_bits((qf_dtype)params->x_dtype) == 16;
    qf_cuda_launch *launch = qf_cuda_add_launch(
        recorder, "quantise", of_16_bits ? "qf_dynamic_quantize_held_16" : "qf_dynamic_quantize_held", sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    params->lanes = qf_cuda_held_lanes(params->entries, params->size, of_16_bits ? QF_HELD_RUNS_16 : QF_HELD_RUNS);
    *(qf_dynamic_params *)launch->params = *params;
    qf_cuda_set_held_geometry(recorder, launch, params->entries, params->lanes);
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

/* The scale of the whole tensor, or (fused with quantisation where `params->y` is given) one for each entry. */
static qf_status add_dynamic(qf_cuda_recorder *recorder, qf_dynamic_params *params, bool whole) {
    params->lanes = lanes_of(params->size);
    params->run = params->is_fast ? QF_DYNAMIC_RUN : QF_DYNAMIC_PAIR;
    uint32_t threads = whole ? 512 : params->lanes > 32 ? params->lanes : THREADS;
    if (!whole && params->is_fast && qf_dtype_bits((qf_dtype)params->x_dtype) == 16) {
        int64_t runs = qf_cuda_divide_up(params->size, (int64_t)params->lanes * 8);
        if (runs * threads * 16 <= KEPT_BYTES) params->kept_runs = (uint32_t)runs;
    }
    qf_cuda_launch *launch =
        qf_cuda_add_launch(recorder, "quantise", whole ? "qf_dynamic_scale" : "qf_dynamic_quantize", sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    if (whole) params->maximum = qf_cuda_zeroed(recorder, 2 * sizeof *params->maximum);
    *(qf_dynamic_params *)launch->params = *params;
    launch->block[0] = threads;
    launch->shared_bytes = params->kept_runs * threads * 16;
    int64_t useful = whole ? qf_cuda_divide_up(params->count, (int64_t)512 * 16)
                           : qf_cuda_divide_up(params->entries, launch->block[0] / params->lanes);
    int64_t most = whole ? (int64_t)recorder->processor_count * 4 : QF_CUDA_MOST_BLOCKS;
    launch->grid[0] = qf_cuda_blocks(useful < most ? useful : most);
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

qf_status qf_cuda_build_dynamic_quantize(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0], *scale = &step->call.results[1];
    const qf_view *bound = qf_call_operand(&step->call, QF_IN(dynamic_quantize, upper_bound));
    QF_CUDA_EXPECT(step, !bound || qf_view_count(bound) == 1, "a scalar upper_bound");
    int64_t granularity = step->call.attributes[QF_ATTR(dynamic_quantize, granularity)].integer;
    int64_t count = qf_view_count(x), entries = qf_view_count(scale), size = entries ? count / entries : 0;
    bool whole = granularity == QF_VALUE_tensor;
    /* Entries of an odd number of 4-bit elements share bytes with their neighbours. */
    bool fused = !whole && (qf_dtype_bits(y->dtype) >= 8 || size % 2 == 0);
    bool aligned_x = qf_cuda_is_fast(x->dtype) && qf_cuda_is_aligned(x->data, x->dtype, 8);
    bool aligned_y = qf_cuda_is_fast(y->dtype) && qf_cuda_is_aligned(y->data, y->dtype, 8);
    qf_dynamic_params params = {.x = x->data,
                                .y = fused ? y->data : NULL,
                                .scale = scale->data,
                                .upper_bound = bound ? bound->data : NULL,
                                .count = count,
                                .size = size,
                                .entries = entries,
                                .largest = largest_of(y->dtype),
                                .x_dtype = x->dtype,
                                .y_dtype = y->dtype,
                                .bound_dtype = bound ? bound->dtype : QF_DTYPE_NONE,
                                .is_fast = aligned_x && (whole || (size % 8 == 0 && (aligned_y || !fused)))};
    if (entries == 0) return QF_OK;
    bool held = params.is_fast && fused && qf_cuda_held_lanes(entries, size, QF_HELD_RUNS);
    qf_status status = held ? add_held_dynamic(recorder, &params) : add_dynamic(recorder, &params, whole);
    if (status || fused) return status;
    qf_quantise_params second = start_scaling(x, scale, y);
    if (!whole) {
        second.axis_count = 1;
        second.sizes[0] = count;
        second.blocks[0] = size;
        second.scale_strides[0] = 1;
        prepare_divisions(&second);
    }
    return add_scaling(recorder, &second, false);
}
