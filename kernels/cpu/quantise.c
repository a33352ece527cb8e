/* Owns: quantisation by a scale: quantize, dequantize, dynamic_quantize, and the quantised end of other kernels.
 * Does not own: rounding and saturation of one number (base/convert.h).
 * Next: docs/numerics.md. */
#include "kernels/cpu/cpu.h"

#include <math.h>

/* --- one number --- */

/* The scaled number in `compute` precision. f32 arithmetic on f16 or bf16 operands, rounded once more, equals
 * arithmetic in that type: 24 bits are more than twice 11 plus 2. */
static double scaled(const qf_quantiser *quantiser, double x, double scale) {
    if (quantiser->compute == QF_F64) {
        if (quantiser->mode == QF_VALUE_div) return x / scale;
        return quantiser->mode == QF_VALUE_mul ? x * scale : x * (double)(float)(1.0 / scale);
    }
    qf_dtype compute = quantiser->compute;
    float a = qf_round_f32(compute, (float)x, false), b = (float)scale;
    if (quantiser->mode == QF_VALUE_mul_recip) b = 1.0f / b;
    b = qf_round_f32(compute, b, false);
    return (double)qf_round_f32(compute, quantiser->mode == QF_VALUE_div ? a / b : a * b, false);
}

void qf_quantise_store(const qf_quantiser *quantiser, double x, double scale, double zero_point, void *data,
                       int64_t index) {
    double number = scaled(quantiser, x, scale);
    if (!qf_dtype_is_float(quantiser->dtype)) number = rint(number);
    if (zero_point != 0.0) number += zero_point;
    if (quantiser->compute == QF_F64 || zero_point != 0.0)
        qf_store_f64(quantiser->dtype, data, index, number, quantiser->saturate);
    else /* the number is an f32 */
        qf_store_f32(quantiser->dtype, data, index, (float)number, quantiser->saturate);
}

qf_status qf_output_start(const qf_kernel_call *call, qf_output *output, qf_view *view, const qf_view *out_scale,
                          uint32_t mode, uint32_t compute, uint32_t via) {
    *output = (qf_output){.quantiser = {.dtype = view->dtype, .compute = QF_F32, .saturate = true}, .view = view};
    if (!out_scale) return QF_OK;
    QF_CPU_EXPECT(call, qf_view_count(out_scale) == 1, "a scalar out_scale");
    output->quantises = true;
    output->scale = qf_load_f64(out_scale->dtype, out_scale->data, 0);
    if (mode != UINT32_MAX) output->quantiser.mode = call->attributes[mode].integer;
    if (compute != UINT32_MAX) output->quantiser.compute = (qf_dtype)call->attributes[compute].integer;
    if (via != UINT32_MAX) output->via = (qf_dtype)call->attributes[via].integer;
    return QF_OK;
}

void qf_output_store(const qf_output *output, int64_t index, int64_t count, const float *values) {
    qf_view *y = output->view;
    if (!output->quantises) {
        qf_store_array_f32(y->dtype, y->data, index, count, values, true);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        float value = output->via == QF_DTYPE_NONE ? values[i] : qf_round_f32(output->via, values[i], false);
        qf_quantise_store(&output->quantiser, (double)value, output->scale, 0.0, y->data, index + i);
    }
}

/* --- which scale belongs to which element --- */

/* Strides of a scale (or zero point) tensor over the axes of x; `block` elements of an axis share an entry. */
typedef struct granules {
    int64_t strides[QF_MAX_RANK], blocks[QF_MAX_RANK];
} granules;

static qf_status granules_start(const qf_kernel_call *call, const qf_view *x, const qf_view *scale, int64_t axis,
                                int64_t group, granules *out) {
    int64_t strides[QF_MAX_RANK];
    *out = (granules){{0}, {0}};
    for (uint32_t i = 0; i < QF_MAX_RANK; i++) out->blocks[i] = 1;
    QF_CPU_EXPECT(call, axis < (int64_t)x->rank && group >= 0, "an axis of x and a group that is not negative");
    if (axis >= 0 && group > 0) out->blocks[axis] = group;
    if (qf_view_count(scale) == 1) return QF_OK;
    qf_view_strides(scale, strides);
    if (scale->rank == 1 && axis >= 0) {
        int64_t block = out->blocks[axis];
        QF_CPU_EXPECT(call, scale->dims[0] == (x->dims[axis] + block - 1) / block,
                      "one scale an index or block of axis");
        out->strides[axis] = 1;
        return QF_OK;
    }
    QF_CPU_EXPECT(call, scale->rank == x->rank, "a scale that is a scalar, a vector along axis, or of x's rank");
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t block = out->blocks[i];
        QF_CPU_EXPECT(call, scale->dims[i] == 1 || scale->dims[i] == (x->dims[i] + block - 1) / block,
                      "a scale that broadcasts to x");
        out->strides[i] = scale->dims[i] == 1 ? 0 : strides[i];
    }
    return QF_OK;
}

/* Entry for the first element of a line of the last axis. */
static int64_t granule_of_line(const granules *all, const qf_view *x, int64_t line) {
    int64_t offset = 0;
    for (uint32_t i = x->rank ? x->rank - 1 : 0; i-- > 0; line /= x->dims[i])
        if (all->strides[i])
            offset += line % x->dims[i] / all->blocks[i] * all->strides[i]; /* an absent tensor has no blocks */
    return offset;
}

static int64_t granule_in_line(const granules *all, const qf_view *x, int64_t offset, int64_t i) {
    if (x->rank == 0 || all->strides[x->rank - 1] == 0) return offset;
    return offset + i / all->blocks[x->rank - 1] * all->strides[x->rank - 1];
}

/* --- quantize and dequantize --- */

typedef struct scaling {
    const qf_view *x, *scale, *zero_point;
    qf_view *y;
    granules scales, zero_points;
    qf_quantiser quantiser; /* quantize only */
    int64_t line;           /* elements of the last axis */
} scaling;

static double zero_point_of(const scaling *job, int64_t offset, int64_t i) {
    if (!job->zero_point) return 0.0;
    return qf_load_f64(job->zero_point->dtype, job->zero_point->data,
                       granule_in_line(&job->zero_points, job->x, offset, i));
}

/* Where a line of x finds its scales and zero points. */
typedef struct line_offsets {
    int64_t scale, zero_point;
} line_offsets;

static line_offsets offsets_of_line(const scaling *job, int64_t line) {
    return (line_offsets){granule_of_line(&job->scales, job->x, line),
                          job->zero_point ? granule_of_line(&job->zero_points, job->x, line) : 0};
}

static double scale_of(const scaling *job, int64_t offset, int64_t i) {
    return qf_load_f64(job->scale->dtype, job->scale->data, granule_in_line(&job->scales, job->x, offset, i));
}

static void quantize_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const scaling *job = context;
    (void)thread;
    for (int64_t line = first; line < last; line++) {
        line_offsets at = offsets_of_line(job, line);
        for (int64_t i = 0; i < job->line; i++) {
            int64_t index = line * job->line + i;
            qf_quantise_store(&job->quantiser, qf_load_f64(job->x->dtype, job->x->data, index),
                              scale_of(job, at.scale, i), zero_point_of(job, at.zero_point, i), job->y->data, index);
        }
    }
}

static void dequantize_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const scaling *job = context;
    (void)thread;
    for (int64_t line = first; line < last; line++) {
        line_offsets at = offsets_of_line(job, line);
        for (int64_t i = 0; i < job->line; i++) {
            int64_t index = line * job->line + i;
            double scale = scale_of(job, at.scale, i);
            double x = qf_load_f64(job->x->dtype, job->x->data, index) - zero_point_of(job, at.zero_point, i);
            if (job->y->dtype == QF_F64)
                qf_store_f64(QF_F64, job->y->data, index, x * scale, true);
            else
                qf_store_f32(job->y->dtype, job->y->data, index, (float)x * (float)scale, true);
        }
    }
}

static qf_status start_scaling(const qf_kernel_call *call, int64_t axis, int64_t group, scaling *job) {
    *job = (scaling){.x = &call->operands[0], .scale = &call->operands[1], .y = &call->results[0]};
    job->zero_point = qf_call_operand(call, 2);
    job->line = job->x->rank ? job->x->dims[job->x->rank - 1] : 1;
    QF_CPU_EXPECT(call, qf_view_count(job->x) == qf_view_count(job->y), "a result of x's shape");
    qf_status status = granules_start(call, job->x, job->scale, axis, group, &job->scales);
    if (!status && job->zero_point)
        status = granules_start(call, job->x, job->zero_point, axis, group, &job->zero_points);
    return status;
}

static void run_scaling(const qf_kernel_call *call, scaling *job, qf_cpu_body body) {
    int64_t count = qf_view_count(job->x), lines = job->line ? count / job->line : 0;
    /* Lines of an odd number of 4-bit elements share bytes: one thread. */
    uint32_t threads = qf_dtype_bits(job->y->dtype) == 4 && job->line % 2 ? 1 : call->thread_count;
    qf_cpu_parallel(threads, lines, 4096 / (job->line + 1) + 1, body, job);
}

qf_status qf_cpu_quantize(const qf_kernel_call *call) {
    scaling job;
    qf_status status = start_scaling(call, call->attributes[QF_ATTR(quantize, axis)].integer,
                                     call->attributes[QF_ATTR(quantize, group)].integer, &job);
    if (status) return status;
    job.quantiser.dtype = job.y->dtype;
    job.quantiser.compute = (qf_dtype)call->attributes[QF_ATTR(quantize, compute)].integer;
    job.quantiser.mode = call->attributes[QF_ATTR(quantize, mode)].integer;
    job.quantiser.saturate = call->attributes[QF_ATTR(quantize, saturate)].integer != 0;
    QF_CPU_EXPECT(call, qf_dtype_kind_of(job.quantiser.compute) == QF_DTYPE_KIND_FLOAT,
                  "compute of f32, f16, bf16 or f64");
    run_scaling(call, &job, quantize_body);
    return QF_OK;
}

qf_status qf_cpu_dequantize(const qf_kernel_call *call) {
    scaling job;
    qf_status status = start_scaling(call, call->attributes[QF_ATTR(dequantize, axis)].integer,
                                     call->attributes[QF_ATTR(dequantize, group)].integer, &job);
    if (status) return status;
    run_scaling(call, &job, dequantize_body);
    return QF_OK;
}

/* --- dynamic quantisation --- */

static float largest_of(qf_dtype dtype) {
    if (qf_dtype_is_float(dtype)) return (float)qf_dtype_largest(dtype);
    return dtype == QF_U8 ? 255.0f : 127.0f;
}

/* NaN elements do not count toward the maximum; they stay NaN. */
static float block_scale(const qf_view *x, int64_t first, int64_t count, float bound, float largest) {
    float most = 0.0f;
    for (int64_t i = first; i < first + count; i++) {
        float magnitude = fabsf(qf_load_f32(x->dtype, x->data, i));
        if (magnitude > most) most = magnitude;
    }
    if (most > bound) most = bound;
    float scale = most / largest;
    return scale > 0.0f ? scale : 1.0f;
}

qf_status qf_cpu_dynamic_quantize(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0], *upper_bound = qf_call_operand(call, 1);
    qf_view *y = &call->results[0], *scales = &call->results[1];
    int64_t granularity = call->attributes[QF_ATTR(dynamic_quantize, granularity)].integer;
    int64_t group = call->attributes[QF_ATTR(dynamic_quantize, group)].integer;
    int64_t count = qf_view_count(x), line = x->rank ? x->dims[x->rank - 1] : 1, block = count;
    if (granularity == QF_VALUE_token) block = line;
    if (granularity == QF_VALUE_group) block = group;
    QF_CPU_EXPECT(call, granularity != QF_VALUE_group || group > 0, "a positive group");
    QF_CPU_EXPECT(call, qf_view_count(y) == count && (!upper_bound || qf_view_count(upper_bound) == 1),
                  "a result of x's shape and a scalar upper_bound");
    float bound = upper_bound ? qf_load_f32(upper_bound->dtype, upper_bound->data, 0) : INFINITY;
    qf_quantiser quantiser = {.dtype = y->dtype, .compute = QF_F32, .mode = QF_VALUE_div, .saturate = true};
    int64_t first = 0, entries = qf_view_count(scales);
    for (int64_t entry = 0; entry < entries; entry++) {
        int64_t left = count - first, left_in_line = line ? line - first % line : 0;
        if (granularity != QF_VALUE_tensor && left_in_line < left) left = left_in_line;
        int64_t size = block < left ? block : left;
        qf_store_f32(scales->dtype, scales->data, entry, block_scale(x, first, size, bound, largest_of(y->dtype)),
                     true);
        double scale = qf_load_f64(scales->dtype, scales->data, entry);
        for (int64_t i = first; i < first + size; i++)
            qf_quantise_store(&quantiser, qf_load_f64(x->dtype, x->data, i), scale, 0.0, y->data, i);
        first += size;
    }
    QF_CPU_EXPECT(call, first == count, "one scale a block");
    return QF_OK;
}
