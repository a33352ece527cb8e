/* Owns: launches of rms_norm, add_rms_norm and silu_mul.
 * Does not own: the kernels (activation.cu).
 * Next: activation.h, kernels/cpu/normalise.c. */
#include "kernels/cuda/activation.h"

#include "kernels/cuda/fast.h"

#define WIDTH        8
#define THREADS      256
#define MOST_THREADS 512
#define KEPT_BYTES   40960 /* of shared memory, for rows that are read once */

static bool has_runs(const void *data, qf_dtype dtype) {
    return qf_cuda_is_fast(dtype) && qf_cuda_is_aligned(data, dtype, WIDTH);
}

/* --- rms_norm --- */

/* One run a thread for short rows, up to four for long ones, and more where 512 threads are not enough. */
static uint32_t lanes_of(int64_t runs) {
    uint32_t lanes = 1;
    while (lanes < MOST_THREADS && (int64_t)lanes * (lanes < 32 ? 1 : 4) < runs) lanes *= 2;
    return lanes;
}

static bool norm_has_runs(const qf_norm_params *params) {
    qf_dtype x = (qf_dtype)params->x_dtype;
    return params->size % WIDTH == 0 && has_runs(params->x, x) && has_runs(params->y, (qf_dtype)params->output.dtype) &&
           (!params->residual || has_runs(params->residual, x)) && (!params->sum || has_runs(params->sum, x)) &&
           (!params->weight || has_runs(params->weight, (qf_dtype)params->weight_dtype));
}

/* Rows of aligned runs that a team holds in registers. */
static qf_status add_held_norm(qf_cuda_recorder *recorder, qf_norm_params *params, uint32_t lanes) {
    bool of_16_bits = qf_dtype_bits((qf_dtype)params->x_dtype) == 16 &&
                      (!params->weight || qf_dtype_bits((qf_dtype)params->weight_dtype) == 16);
    qf_cuda_launch *launch = qf_cuda_add_launch(
        recorder, "activation", of_16_bits ? "qf_rms_norm_held_16" : "qf_rms_norm_held", sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    params->lanes = lanes;
    *(qf_norm_params *)launch->params = *params;
    qf_cuda_set_held_geometry(recorder, launch, params->rows, lanes);
    if (params->weight) launch->shared_bytes = launch->block[0] * QF_HELD_RUNS * (of_16_bits ? 16 : 32);
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

static qf_status add_norm(qf_cuda_recorder *recorder, const qf_kernel_step *step, qf_norm_params *params, int64_t axis,
                          double epsilon, const qf_view *weight) {
    const qf_view *x = &step->call.operands[0];
    params->x = x->data;
    params->x_dtype = x->dtype;
    params->y = step->call.results[0].data;
    params->rows = qf_view_extent(x, 0, (uint32_t)axis);
    params->size = qf_view_extent(x, (uint32_t)axis, x->rank);
    params->epsilon = (float)epsilon;
    if (weight && qf_view_count(weight) != params->size)
        return qf_cuda_refuse(step, "%s: expected a weight with the normalised shape", qf_op_name(step->call.op));
    params->weight = weight ? weight->data : NULL;
    params->weight_dtype = weight ? weight->dtype : QF_DTYPE_NONE;
    if (params->rows == 0 || params->size == 0) return QF_OK;
    bool runs = norm_has_runs(params);
    uint32_t lanes = runs ? qf_cuda_held_lanes(params->rows, params->size, QF_HELD_RUNS) : 0;
    if (lanes) return add_held_norm(recorder, params, lanes);
    params->lanes = lanes_of(runs ? params->size / WIDTH : params->size);
    qf_cuda_launch *launch =
        qf_cuda_add_launch(recorder, "activation", runs ? "qf_rms_norm_runs" : "qf_rms_norm", sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    launch->block[0] = params->lanes > 32 ? params->lanes : 128;
    if (runs && qf_dtype_bits(x->dtype) == 16) {
        uint32_t run_bytes = launch->block[0] * 16 * (params->residual ? 2 : 1), most = KEPT_BYTES / run_bytes;
        int64_t of_thread = qf_cuda_divide_up(params->size, (int64_t)params->lanes * WIDTH);
        params->kept_runs = of_thread < (int64_t)most ? (uint32_t)of_thread : most;
        launch->shared_bytes = params->kept_runs * run_bytes;
    }
    *(qf_norm_params *)launch->params = *params;
    launch->grid[0] = qf_cuda_blocks(qf_cuda_divide_up(params->rows, launch->block[0] / params->lanes));
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

qf_status qf_cuda_build_rms_norm(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_kernel_attribute *attributes = step->call.attributes;
    qf_norm_params params = {0};
    qf_status status = qf_cuda_output_of(
        step, &step->call.results[0], qf_call_operand(&step->call, QF_IN(rms_norm, out_scale)),
        QF_ATTR(rms_norm, out_mode), QF_ATTR(rms_norm, out_compute), QF_ATTR(rms_norm, via), &params.output);
    if (status) return status;
    return add_norm(recorder, step, &params, attributes[QF_ATTR(rms_norm, axis)].integer,
                    attributes[QF_ATTR(rms_norm, epsilon)].number,
                    qf_call_operand(&step->call, QF_IN(rms_norm, weight)));
}

qf_status qf_cuda_build_add_rms_norm(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_kernel_attribute *attributes = step->call.attributes;
    const qf_view *total = qf_call_result(&step->call, QF_OUT(add_rms_norm, sum));
    qf_norm_params params = {.residual = step->call.operands[QF_IN(add_rms_norm, residual)].data,
                             .sum = total ? total->data : NULL};
    qf_status status =
        qf_cuda_output_of(step, &step->call.results[0], qf_call_operand(&step->call, QF_IN(add_rms_norm, out_scale)),
                          QF_ATTR(add_rms_norm, out_mode), QF_ATTR(add_rms_norm, out_compute),
                          QF_ATTR(add_rms_norm, via), &params.output);
    if (status) return status;
    return add_norm(recorder, step, &params, attributes[QF_ATTR(add_rms_norm, axis)].integer,
                    attributes[QF_ATTR(add_rms_norm, epsilon)].number,
                    qf_call_operand(&step->call, QF_IN(add_rms_norm, weight)));
}

/* --- silu_mul --- */

qf_status qf_cuda_build_silu_mul(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0];
    qf_silu_params params = {
        .x = x->data, .y = y->data, .count = qf_view_count(y), .size = y->dims[y->rank - 1], .x_dtype = x->dtype};
    qf_status status = qf_cuda_output_of(step, y, qf_call_operand(&step->call, QF_IN(silu_mul, out_scale)),
                                         QF_ATTR(silu_mul, out_mode), QF_ATTR(silu_mul, out_compute),
                                         QF_ATTR(silu_mul, via), &params.output);
    if (status) return status;
    if (params.count == 0) return QF_OK;
    if (params.count < INT32_MAX) qf_cuda_division(params.size, &params.size_magic, &params.size_shift);
    bool runs = params.size % WIDTH == 0 && has_runs(x->data, x->dtype) && has_runs(y->data, y->dtype);
    const char *kernel = !runs                           ? "qf_silu_mul"
                         : qf_dtype_bits(x->dtype) == 16 ? "qf_silu_mul_runs_16"
                                                         : "qf_silu_mul_runs";
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "activation", kernel, sizeof params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    *(qf_silu_params *)launch->params = params;
    launch->block[0] = THREADS;
    launch->grid[0] = qf_cuda_blocks(qf_cuda_divide_up(params.count, THREADS * (runs ? WIDTH * QF_SILU_RUNS : 1)));
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}
