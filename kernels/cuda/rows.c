/* Owns: builders of softmax, log_softmax and layer_norm.
 * Does not own: other reductions (reduce.c), rms_norm.
 * Next: rows.h. */
#include "kernels/cuda/rows.h"

#include <string.h>

#include "kernels/cuda/fast.h"
#include "kernels/cuda/packed.h"

#define LEAST_THREADS 256u
#define MOST_THREADS  1024u

static bool is_aligned(const qf_view *view) {
    uint32_t bytes = QF_ROWS_VECTOR * qf_dtype_bits(view->dtype) / 8;
    return qf_cuda_address(view) % (bytes < 16 ? bytes : 16) == 0;
}

/* Threads a row: a run each up to a warp, then as many as keep the row in registers. Rows whose elements lie apart take
 * a thread each, so that neighbouring threads read neighbouring elements. */
static uint32_t lanes_for(const qf_cuda_recorder *recorder, const qf_rows_params *params) {
    uint32_t lanes = 1;
    bool many = params->count >= (int64_t)recorder->processor_count * LEAST_THREADS;
    if (params->inner > 1 && (many || params->size <= QF_ROWS_CACHED)) return 1;
    while (lanes < 32 && (int64_t)lanes * QF_ROWS_VECTOR < params->size) lanes *= 2;
    while (lanes < MOST_THREADS && (int64_t)lanes * QF_ROWS_CACHED < params->size) lanes *= 2;
    return lanes;
}

static bool fits_registers(const qf_rows_params *params) {
    qf_dtype dtype = (qf_dtype)params->x_dtype;
    bool is_common =
        dtype == QF_F32 || dtype == QF_F16 || dtype == QF_BF16 || dtype == QF_F8E4M3FN || dtype == QF_F8E5M2;
    return is_common && params->aligned && params->size <= (int64_t)params->lanes * QF_ROWS_CACHED;
}

static bool has_runs(uint64_t data, uint32_t dtype) {
    uint64_t bytes = 8 * qf_dtype_bits((qf_dtype)dtype) / 8;
    return qf_cuda_is_fast((qf_dtype)dtype) && data % (bytes < 16 ? bytes : 16) == 0;
}

static bool is_16_bits(uint64_t data, uint32_t dtype) {
    return !data || qf_dtype_bits((qf_dtype)dtype) == 16;
}

static bool has_held_rows(const qf_rows_params *params) {
    return params->inner == 1 && has_runs(params->x, params->x_dtype) && has_runs(params->y, params->y_dtype) &&
           (!params->weight || has_runs(params->weight, params->weight_dtype)) &&
           (!params->bias || has_runs(params->bias, params->bias_dtype)) &&
           qf_cuda_held_lanes(params->count, params->size, QF_HELD_RUNS);
}

static qf_status add_held_rows(qf_cuda_recorder *recorder, const char *kernel, const char *kernel_16,
                               qf_rows_params *params) {
    bool of_16_bits = is_16_bits(params->x, params->x_dtype) && is_16_bits(params->weight, params->weight_dtype) &&
                      is_16_bits(params->bias, params->bias_dtype);
    uint32_t runs = of_16_bits ? QF_HELD_RUNS_16 : QF_HELD_RUNS, beside = (params->weight != 0) + (params->bias != 0);
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "rows", of_16_bits ? kernel_16 : kernel, sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    params->lanes = qf_cuda_held_lanes(params->count, params->size, runs);
    memcpy(launch->params, params, sizeof *params);
    qf_cuda_set_held_geometry(recorder, launch, params->count, params->lanes);
    launch->shared_bytes = beside * launch->block[0] * runs * (of_16_bits ? 16 : 32);
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

static qf_status add_rows(qf_cuda_recorder *recorder, const char *kernel, qf_rows_params *params) {
    params->lanes = lanes_for(recorder, params);
    params->in_registers = fits_registers(params);
    uint32_t threads = params->lanes > LEAST_THREADS ? params->lanes : LEAST_THREADS;
    qf_cuda_launch *launch =
        qf_cuda_add_grid(recorder, "rows", kernel, sizeof *params, (uint64_t)params->count * params->lanes, threads);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, params, sizeof *params);
    return QF_OK;
}

static qf_rows_params describe(const qf_view *x, const qf_view *y, uint32_t first, uint32_t last) {
    qf_rows_params params = {.x = qf_cuda_address(x),
                             .y = qf_cuda_address(y),
                             .x_dtype = x->dtype,
                             .y_dtype = y->dtype,
                             .size = qf_view_extent(x, first, last),
                             .inner = qf_view_extent(x, last, x->rank)};
    params.count = qf_view_extent(x, 0, first) * params.inner;
    params.aligned = params.inner == 1 && params.size % QF_ROWS_VECTOR == 0 && is_aligned(x) && is_aligned(y);
    return params;
}

qf_status qf_cuda_build_softmax(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0];
    int64_t axis = step->call.attributes[QF_ATTR(softmax, axis)].integer;
    qf_view y;
    qf_cuda_start_rounded(recorder, &step->call.results[0], &y);
    QF_CUDA_EXPECT(step, axis >= 0 && axis < x->rank, "an axis of x");
    QF_CUDA_EXPECT(step, qf_dtype_is_float(x->dtype), "a floating-point operand");
    QF_CUDA_EXPECT(step, qf_view_count(&y) == qf_view_count(x), "a result of the operand's shape");
    if (qf_view_count(x) == 0) return QF_OK;
    qf_rows_params made = describe(x, &y, (uint32_t)axis, (uint32_t)axis + 1);
    made.logarithm = step->call.op == QF_OP_log_softmax;
    qf_status status = has_held_rows(&made) ? add_held_rows(recorder, "qf_softmax_held", "qf_softmax_held_16", &made)
                                            : add_rows(recorder, "qf_softmax", &made);
    return status ? status : qf_cuda_finish_rounded(recorder, &y, &step->call.results[0]);
}

qf_status qf_cuda_build_layer_norm(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *weight = qf_call_operand(&step->call, QF_IN(layer_norm, weight)),
                  *bias = qf_call_operand(&step->call, QF_IN(layer_norm, bias));
    int64_t axis = step->call.attributes[QF_ATTR(layer_norm, axis)].integer;
    qf_view y;
    qf_cuda_start_rounded(recorder, &step->call.results[0], &y);
    QF_CUDA_EXPECT(step, axis >= 0 && axis < x->rank && qf_view_count(&y) == qf_view_count(x),
                   "an axis of x and a result of its shape");
    qf_rows_params made = describe(x, &y, (uint32_t)axis, x->rank);
    QF_CUDA_EXPECT(step, !weight || qf_view_count(weight) == made.size, "a weight with the normalised shape");
    QF_CUDA_EXPECT(step, !bias || qf_view_count(bias) == made.size, "a bias with the normalised shape");
    if (qf_view_count(x) == 0) return QF_OK;
    made.epsilon = step->call.attributes[QF_ATTR(layer_norm, epsilon)].number;
    if (weight) {
        made.weight = qf_cuda_address(weight);
        made.weight_dtype = weight->dtype;
        made.aligned = made.aligned && is_aligned(weight);
    }
    if (bias) {
        made.bias = qf_cuda_address(bias);
        made.bias_dtype = bias->dtype;
        made.aligned = made.aligned && is_aligned(bias);
    }
    qf_status status = has_held_rows(&made)
                           ? add_held_rows(recorder, "qf_layer_norm_held", "qf_layer_norm_held_16", &made)
                           : add_rows(recorder, "qf_layer_norm", &made);
    return status ? status : qf_cuda_finish_rounded(recorder, &y, &step->call.results[0]);
}
