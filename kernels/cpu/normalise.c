/* Owns: layer_norm, rms_norm, add_rms_norm, silu_mul.
 * Does not own: their quantised end (quantise.c), softmax (reduce.c).
 * Next: sum.h. */
#include "kernels/cpu/cpu.h"

#include <math.h>

#include "kernels/cpu/sum.h"

/* Elements that go through f32 buffers at a time. */
#define CHUNK 256

typedef struct normalisation {
    const qf_view *x, *weight, *bias, *residual;
    qf_view *y, *sum; /* sum: x + residual, which is normalised instead of x */
    qf_output output;
    double epsilon;
    int64_t size; /* elements normalised together */
} normalisation;

static qf_status start(const qf_kernel_call *call, int64_t axis, const qf_view *weight, const qf_view *bias,
                       normalisation *job) {
    *job = (normalisation){.x = &call->operands[0], .weight = weight, .bias = bias, .y = &call->results[0]};
    QF_CPU_EXPECT(call, axis >= 0 && axis < job->x->rank && qf_view_count(job->x) == qf_view_count(job->y),
                  "an axis of x and a result of its shape");
    job->size = qf_view_extent(job->x, (uint32_t)axis, job->x->rank);
    QF_CPU_EXPECT(call, !weight || qf_view_count(weight) == job->size, "a weight with the normalised shape");
    QF_CPU_EXPECT(call, !bias || qf_view_count(bias) == job->size, "a bias with the normalised shape");
    return QF_OK;
}

static int64_t row_count(const normalisation *job) {
    return job->size ? qf_view_count(job->x) / job->size : 0;
}

static int64_t grain(const normalisation *job) {
    return 8192 / (job->size + 1) + 1;
}

static int64_t chunk_size(const normalisation *job, int64_t at) {
    return job->size - at < CHUNK ? job->size - at : CHUNK;
}

#define FOR_EACH_CHUNK(job, at) for (int64_t at = 0; at < (job)->size; at += CHUNK)

/* --- layer norm: f64 stays f64, everything else is computed in f32 --- */

#define DEFINE_LAYER_NORM(type, name, f)                                                                               \
    static void layer_norm_##name(const normalisation *job, int64_t row) {                                             \
        qf_sum_##name sum = {0}, squares = {0};                                                                        \
        const qf_view *x = job->x;                                                                                     \
        int64_t first = row * job->size;                                                                               \
        for (int64_t i = 0; i < job->size; i++)                                                                        \
            qf_sum_##name##_add(&sum, qf_load_##name(x->dtype, x->data, first + i));                                   \
        type mean = qf_sum_##name##_total(&sum) / (type)job->size;                                                     \
        for (int64_t i = 0; i < job->size; i++) {                                                                      \
            type difference = qf_load_##name(x->dtype, x->data, first + i) - mean;                                     \
            qf_sum_##name##_add(&squares, difference *difference);                                                     \
        }                                                                                                              \
        type deviation = sqrt##f(qf_sum_##name##_total(&squares) / (type)job->size + (type)job->epsilon);              \
        for (int64_t i = 0; i < job->size; i++) {                                                                      \
            type y = (qf_load_##name(x->dtype, x->data, first + i) - mean) / deviation;                                \
            if (job->weight) y *= qf_load_##name(job->weight->dtype, job->weight->data, i);                            \
            if (job->bias) y += qf_load_##name(job->bias->dtype, job->bias->data, i);                                  \
            qf_store_##name(job->y->dtype, job->y->data, first + i, y, true);                                          \
        }                                                                                                              \
    }

DEFINE_LAYER_NORM(float, f32, f)
DEFINE_LAYER_NORM(double, f64, )

static void layer_norm_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const normalisation *job = context;
    (void)thread;
    for (int64_t row = first; row < last; row++) {
        if (job->x->dtype == QF_F64)
            layer_norm_f64(job, row);
        else
            layer_norm_f32(job, row);
    }
}

qf_status qf_cpu_layer_norm(const qf_kernel_call *call) {
    normalisation job;
    qf_status status =
        start(call, call->attributes[QF_ATTR(layer_norm, axis)].integer,
              qf_call_operand(call, QF_IN(layer_norm, weight)), qf_call_operand(call, QF_IN(layer_norm, bias)), &job);
    if (status) return status;
    job.epsilon = call->attributes[QF_ATTR(layer_norm, epsilon)].number;
    qf_cpu_parallel(call->thread_count, row_count(&job), grain(&job), layer_norm_body, &job);
    return QF_OK;
}

/* --- rms norm, in f32 --- */

/* x, or x + residual rounded to its dtype, which is stored on the way. */
static void load_row(const normalisation *job, int64_t index, int64_t count, float *x) {
    float residual[CHUNK];
    qf_load_array_f32(job->x->dtype, job->x->data, index, count, x);
    if (!job->residual) return;
    qf_load_array_f32(job->residual->dtype, job->residual->data, index, count, residual);
    for (int64_t i = 0; i < count; i++) x[i] = qf_round_f32(job->x->dtype, x[i] + residual[i], true);
    if (job->sum) qf_store_array_f32(job->sum->dtype, job->sum->data, index, count, x, true);
}

static void rms_norm_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const normalisation *job = context;
    float x[CHUNK], weight[CHUNK];
    (void)thread;
    for (int64_t row = first; row < last; row++) {
        qf_sum_f32 squares = {0};
        FOR_EACH_CHUNK(job, at) {
            int64_t count = chunk_size(job, at);
            load_row(job, row * job->size + at, count, x);
            for (int64_t i = 0; i < count; i++) qf_sum_f32_add(&squares, x[i] * x[i]);
        }
        float root = sqrtf(qf_sum_f32_total(&squares) / (float)job->size + (float)job->epsilon);
        FOR_EACH_CHUNK(job, at) {
            int64_t count = chunk_size(job, at);
            load_row(job, row * job->size + at, count, x);
            if (job->weight) qf_load_array_f32(job->weight->dtype, job->weight->data, at, count, weight);
            for (int64_t i = 0; i < count; i++) x[i] = job->weight ? x[i] / root * weight[i] : x[i] / root;
            qf_output_store(&job->output, row * job->size + at, count, x);
        }
    }
}

qf_status qf_cpu_rms_norm(const qf_kernel_call *call) {
    normalisation job;
    qf_status status = start(call, call->attributes[QF_ATTR(rms_norm, axis)].integer,
                             qf_call_operand(call, QF_IN(rms_norm, weight)), NULL, &job);
    if (!status)
        status = qf_output_start(call, &job.output, job.y, qf_call_operand(call, QF_IN(rms_norm, out_scale)),
                                 QF_ATTR(rms_norm, out_mode), QF_ATTR(rms_norm, out_compute), QF_ATTR(rms_norm, via));
    if (status) return status;
    job.epsilon = call->attributes[QF_ATTR(rms_norm, epsilon)].number;
    qf_cpu_parallel(call->thread_count, row_count(&job), grain(&job), rms_norm_body, &job);
    return QF_OK;
}

qf_status qf_cpu_add_rms_norm(const qf_kernel_call *call) {
    normalisation job;
    const qf_view *residual = &call->operands[QF_IN(add_rms_norm, residual)];
    qf_status status = start(call, call->attributes[QF_ATTR(add_rms_norm, axis)].integer,
                             qf_call_operand(call, QF_IN(add_rms_norm, weight)), NULL, &job);
    if (!status)
        status = qf_output_start(call, &job.output, job.y, qf_call_operand(call, QF_IN(add_rms_norm, out_scale)),
                                 QF_ATTR(add_rms_norm, out_mode), QF_ATTR(add_rms_norm, out_compute),
                                 QF_ATTR(add_rms_norm, via));
    if (status) return status;
    QF_CPU_EXPECT(call, qf_view_count(residual) == qf_view_count(job.x) && residual->dtype == job.x->dtype,
                  "a residual of x's type");
    job.residual = residual;
    job.sum = qf_call_result(call, QF_OUT(add_rms_norm, sum));
    job.epsilon = call->attributes[QF_ATTR(add_rms_norm, epsilon)].number;
    qf_cpu_parallel(call->thread_count, row_count(&job), grain(&job), rms_norm_body, &job);
    return QF_OK;
}

/* --- silu(gate) * up --- */

static void silu_mul_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const normalisation *job = context;
    float gate[CHUNK], up[CHUNK];
    (void)thread;
    for (int64_t row = first; row < last; row++) {
        FOR_EACH_CHUNK(job, at) {
            int64_t count = chunk_size(job, at), start_of_row = row * 2 * job->size + at;
            qf_load_array_f32(job->x->dtype, job->x->data, start_of_row, count, gate);
            qf_load_array_f32(job->x->dtype, job->x->data, start_of_row + job->size, count, up);
            for (int64_t i = 0; i < count; i++) gate[i] = gate[i] * (1.0f / (1.0f + expf(-gate[i]))) * up[i];
            qf_output_store(&job->output, row * job->size + at, count, gate);
        }
    }
}

qf_status qf_cpu_silu_mul(const qf_kernel_call *call) {
    normalisation job = {.x = &call->operands[0], .y = &call->results[0]};
    const qf_view *x = job.x;
    QF_CPU_EXPECT(call, x->rank >= 1 && x->dims[x->rank - 1] % 2 == 0 && qf_view_count(job.y) * 2 == qf_view_count(x),
                  "an even last axis and a result of half its size");
    job.size = x->dims[x->rank - 1] / 2;
    qf_status status =
        qf_output_start(call, &job.output, job.y, qf_call_operand(call, QF_IN(silu_mul, out_scale)),
                        QF_ATTR(silu_mul, out_mode), QF_ATTR(silu_mul, out_compute), QF_ATTR(silu_mul, via));
    if (status) return status;
    int64_t rows = job.size ? qf_view_count(job.y) / job.size : 0;
    qf_cpu_parallel(call->thread_count, rows, grain(&job), silu_mul_body, &job);
    return QF_OK;
}
