/* Owns: kernels along axes: reductions, arg_max, cumulative_sum, softmax, log_softmax.
 * Does not own: normalisation with weights (normalise.c), sorting (top_k.c).
 * Next: sum.h. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/sum.h"

#define LINES_PER_THREAD 8

/* --- reductions over any set of axes --- */

typedef struct reduction {
    const qf_kernel_call *call;
    const qf_view *x;
    qf_view *y;
    uint32_t kept_rank, reduced_rank;
    int64_t kept_dims[QF_MAX_RANK], kept_strides[QF_MAX_RANK];
    int64_t reduced_dims[QF_MAX_RANK], reduced_strides[QF_MAX_RANK];
    int64_t reduced_count;
} reduction;

typedef struct accumulator {
    qf_sum_f32 f32;
    qf_sum_f64 f64;
    float product_f32, extreme_f32;
    double product_f64, extreme_f64;
    int64_t i64;
} accumulator;

static accumulator accumulator_start(qf_op op, qf_dtype dtype) {
    bool is_max = op == QF_OP_reduce_max;
    accumulator all = {.product_f32 = 1, .product_f64 = 1};
    all.extreme_f32 = is_max ? -INFINITY : INFINITY;
    all.extreme_f64 = is_max ? -HUGE_VAL : HUGE_VAL;
    if (op == QF_OP_reduce_prod) all.i64 = 1;
    /* The least or greatest value of the integer type, by the clamping of float stores. */
    if (qf_domain_of(dtype) == QF_DOMAIN_I64 && (is_max || op == QF_OP_reduce_min)) {
        unsigned char element[8];
        qf_store_f64(dtype, element, 0, all.extreme_f64, true);
        all.i64 = dtype == QF_I1 ? !is_max : qf_load_i64(dtype, element, 0);
    }
    return all;
}

static inline bool takes_place_f64(double x, double extreme, bool is_max) {
    return isnan(x) || (is_max ? x > extreme : x < extreme);
}

static void accumulate(accumulator *all, qf_op op, qf_domain domain, const void *data, qf_dtype dtype, int64_t index) {
    bool is_max = op == QF_OP_reduce_max;
    if (domain == QF_DOMAIN_F32) {
        float x = qf_load_f32(dtype, data, index);
        if (op == QF_OP_reduce_prod)
            all->product_f32 *= x;
        else if (op == QF_OP_reduce_sum || op == QF_OP_reduce_mean)
            qf_sum_f32_add(&all->f32, x);
        else if (takes_place_f64((double)x, (double)all->extreme_f32, is_max) && !isnan(all->extreme_f32))
            all->extreme_f32 = x;
    } else if (domain == QF_DOMAIN_F64) {
        double x = qf_load_f64(dtype, data, index);
        if (op == QF_OP_reduce_prod)
            all->product_f64 *= x;
        else if (op == QF_OP_reduce_sum || op == QF_OP_reduce_mean)
            qf_sum_f64_add(&all->f64, x);
        else if (takes_place_f64(x, all->extreme_f64, is_max) && !isnan(all->extreme_f64))
            all->extreme_f64 = x;
    } else {
        int64_t x = qf_load_i64(dtype, data, index);
        if (op == QF_OP_reduce_prod)
            all->i64 = (int64_t)((uint64_t)all->i64 * (uint64_t)x);
        else if (op == QF_OP_reduce_sum || op == QF_OP_reduce_mean)
            all->i64 = (int64_t)((uint64_t)all->i64 + (uint64_t)x);
        else if (is_max ? x > all->i64 : x < all->i64)
            all->i64 = x;
    }
}

static void reduce_store(const reduction *job, qf_domain domain, const accumulator *all, int64_t index) {
    qf_op op = job->call->op;
    qf_view *y = job->y;
    int64_t count = job->reduced_count;
    if (domain == QF_DOMAIN_F32) {
        float sum = qf_sum_f32_total(&all->f32);
        float value = op == QF_OP_reduce_prod   ? all->product_f32
                      : op == QF_OP_reduce_sum  ? sum
                      : op == QF_OP_reduce_mean ? sum / (float)count
                                                : all->extreme_f32;
        qf_store_f32(y->dtype, y->data, index, value, true);
    } else if (domain == QF_DOMAIN_F64) {
        double sum = qf_sum_f64_total(&all->f64);
        double value = op == QF_OP_reduce_prod   ? all->product_f64
                       : op == QF_OP_reduce_sum  ? sum
                       : op == QF_OP_reduce_mean ? sum / (double)count
                                                 : all->extreme_f64;
        qf_store_f64(y->dtype, y->data, index, value, true);
    } else {
        int64_t value = all->i64;
        if (op == QF_OP_reduce_mean) value = count ? value / count : 0;
        qf_store_i64(y->dtype, y->data, index, value);
    }
}

static void reduce_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const reduction *job = context;
    qf_domain domain = qf_domain_of(job->x->dtype);
    (void)thread;
    for (int64_t index = first; index < last; index++) {
        accumulator all = accumulator_start(job->call->op, job->x->dtype);
        int64_t offset = 0, rest = index, at[QF_MAX_RANK] = {0};
        for (uint32_t i = job->kept_rank; i-- > 0; rest /= job->kept_dims[i])
            offset += rest % job->kept_dims[i] * job->kept_strides[i];
        for (int64_t n = 0; n < job->reduced_count; n++) {
            accumulate(&all, job->call->op, domain, job->x->data, job->x->dtype, offset);
            for (uint32_t i = job->reduced_rank; i-- > 0;) {
                offset += job->reduced_strides[i];
                if (++at[i] < job->reduced_dims[i]) break;
                offset -= job->reduced_strides[i] * job->reduced_dims[i];
                at[i] = 0;
            }
        }
        reduce_store(job, domain, &all, index);
    }
}

qf_status qf_cpu_reduce(const qf_kernel_call *call) {
    reduction job = {.call = call, .x = &call->operands[0], .y = &call->results[0], .reduced_count = 1};
    const qf_kernel_attribute *axes = &call->attributes[QF_ATTR(reduce_sum, axes)];
    int64_t strides[QF_MAX_RANK], kept = 1;
    bool reduced[QF_MAX_RANK] = {false};
    for (uint64_t i = 0; i < axes->count; i++) {
        QF_CPU_EXPECT(call, axes->ints[i] >= 0 && axes->ints[i] < job.x->rank, "axes of x");
        reduced[axes->ints[i]] = true;
    }
    qf_view_strides(job.x, strides);
    for (uint32_t i = 0; i < job.x->rank; i++) {
        if (reduced[i]) {
            job.reduced_dims[job.reduced_rank] = job.x->dims[i];
            job.reduced_strides[job.reduced_rank++] = strides[i];
            job.reduced_count *= job.x->dims[i];
        } else {
            job.kept_dims[job.kept_rank] = job.x->dims[i];
            job.kept_strides[job.kept_rank++] = strides[i];
            kept *= job.x->dims[i];
        }
    }
    QF_CPU_EXPECT(call, qf_view_count(job.y) == kept, "one result a kept position");
    qf_cpu_parallel(call->thread_count, kept, 4096 / (job.reduced_count + 1) + 1, reduce_body, &job);
    return QF_OK;
}

/* --- lines along one axis --- */

typedef struct lines {
    const qf_kernel_call *call;
    const qf_view *x;
    qf_view *y;
    int64_t size, inner, count; /* elements of a line, their stride, lines */
    bool exclusive, reverse, logarithm, keeps_last;
} lines;

static qf_status start_lines(const qf_kernel_call *call, int64_t axis, lines *job) {
    *job = (lines){.call = call, .x = &call->operands[0], .y = &call->results[0]};
    const qf_view *x = job->x;
    QF_CPU_EXPECT(call, axis >= 0 && axis < x->rank, "an axis of x");
    job->size = x->dims[axis];
    job->inner = qf_view_extent(x, (uint32_t)axis + 1, x->rank);
    job->count = qf_view_extent(x, 0, (uint32_t)axis) * job->inner;
    return QF_OK;
}

static bool has_shape_of_x(const lines *job) {
    return job->y->rank == job->x->rank && memcmp(job->y->dims, job->x->dims, job->x->rank * sizeof *job->x->dims) == 0;
}

static int64_t line_start(const lines *job, int64_t line) {
    return line / job->inner * job->size * job->inner + line % job->inner;
}

#define DEFINE_LINES(type, name, f)                                                                                    \
    static void softmax_##name(const lines *job, int64_t start) {                                                      \
        type most = -HUGE_VAL;                                                                                         \
        qf_sum_##name sum = {0};                                                                                       \
        for (int64_t i = 0; i < job->size; i++) {                                                                      \
            type x = qf_load_##name(job->x->dtype, job->x->data, start + i * job->inner);                              \
            if (isnan(x) || x > most) most = x;                                                                        \
            if (isnan(most)) break;                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < job->size; i++) {                                                                      \
            type x = qf_load_##name(job->x->dtype, job->x->data, start + i * job->inner);                              \
            qf_sum_##name##_add(&sum, exp##f(x - most));                                                               \
        }                                                                                                              \
        type total = qf_sum_##name##_total(&sum), shift = job->logarithm ? log##f(total) : 0;                          \
        for (int64_t i = 0; i < job->size; i++) {                                                                      \
            type x = qf_load_##name(job->x->dtype, job->x->data, start + i * job->inner);                              \
            type y = job->logarithm ? x - most - shift : exp##f(x - most) / total;                                     \
            qf_store_##name(job->y->dtype, job->y->data, start + i * job->inner, y, true);                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void running_sum_##name(const lines *job, int64_t start) {                                                  \
        type sum = 0;                                                                                                  \
        for (int64_t n = 0; n < job->size; n++) {                                                                      \
            int64_t at = start + (job->reverse ? job->size - 1 - n : n) * job->inner;                                  \
            type x = qf_load_##name(job->x->dtype, job->x->data, at), next = sum + x;                                  \
            qf_store_##name(job->y->dtype, job->y->data, at, job->exclusive ? sum : next, true);                       \
            sum = next;                                                                                                \
        }                                                                                                              \
    }

DEFINE_LINES(float, f32, f)
DEFINE_LINES(double, f64, )

static void softmax_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const lines *job = context;
    (void)thread;
    for (int64_t line = first; line < last; line++) {
        if (job->x->dtype == QF_F64)
            softmax_f64(job, line_start(job, line));
        else
            softmax_f32(job, line_start(job, line));
    }
}

qf_status qf_cpu_softmax(const qf_kernel_call *call) {
    lines job;
    qf_status status = start_lines(call, call->attributes[QF_ATTR(softmax, axis)].integer, &job);
    if (status) return status;
    QF_CPU_EXPECT(call, qf_dtype_is_float(job.x->dtype), "a floating-point operand");
    QF_CPU_EXPECT(call, has_shape_of_x(&job), "a result of the operand's shape");
    job.logarithm = call->op == QF_OP_log_softmax;
    qf_cpu_parallel(call->thread_count, job.count, LINES_PER_THREAD, softmax_body, &job);
    return QF_OK;
}

static void running_sum_i64(const lines *job, int64_t start) {
    uint64_t sum = 0;
    for (int64_t n = 0; n < job->size; n++) {
        int64_t at = start + (job->reverse ? job->size - 1 - n : n) * job->inner;
        uint64_t next = sum + (uint64_t)qf_load_i64(job->x->dtype, job->x->data, at);
        qf_store_i64(job->y->dtype, job->y->data, at, (int64_t)(job->exclusive ? sum : next));
        sum = next;
    }
}

qf_status qf_cpu_cumulative_sum(const qf_kernel_call *call) {
    lines job;
    qf_status status = start_lines(call, call->attributes[QF_ATTR(cumulative_sum, axis)].integer, &job);
    if (status) return status;
    QF_CPU_EXPECT(call, has_shape_of_x(&job), "a result of the operand's shape");
    job.exclusive = call->attributes[QF_ATTR(cumulative_sum, exclusive)].integer != 0;
    job.reverse = call->attributes[QF_ATTR(cumulative_sum, reverse)].integer != 0;
    for (int64_t line = 0; line < job.count; line++) {
        switch (qf_domain_of(job.x->dtype)) {
        case QF_DOMAIN_F32: running_sum_f32(&job, line_start(&job, line)); break;
        case QF_DOMAIN_F64: running_sum_f64(&job, line_start(&job, line)); break;
        case QF_DOMAIN_I64: running_sum_i64(&job, line_start(&job, line)); break;
        }
    }
    return QF_OK;
}

/* NaN counts as larger than every number, so that the first NaN wins. */
static int64_t position_of_maximum(const lines *job, int64_t start) {
    int64_t best = 0;
    bool is_integer = qf_domain_of(job->x->dtype) == QF_DOMAIN_I64;
    for (int64_t i = 1; i < job->size; i++) {
        int64_t at = start + i * job->inner, best_at = start + best * job->inner;
        bool larger, equal;
        if (is_integer) {
            int64_t x = qf_load_i64(job->x->dtype, job->x->data, at),
                    most = qf_load_i64(job->x->dtype, job->x->data, best_at);
            larger = x > most, equal = x == most;
        } else {
            double x = qf_load_f64(job->x->dtype, job->x->data, at),
                   most = qf_load_f64(job->x->dtype, job->x->data, best_at);
            larger = x > most || (isnan(x) && !isnan(most)), equal = x == most || (isnan(x) && isnan(most));
        }
        if (larger || (equal && job->keeps_last)) best = i;
    }
    return best;
}

qf_status qf_cpu_arg_max(const qf_kernel_call *call) {
    lines job;
    qf_status status = start_lines(call, call->attributes[QF_ATTR(arg_max, axis)].integer, &job);
    if (status) return status;
    job.keeps_last = call->attributes[QF_ATTR(arg_max, last)].integer != 0;
    QF_CPU_EXPECT(call, qf_view_count(job.y) == job.count && (job.size > 0 || job.count == 0), "a non-empty axis");
    for (int64_t line = 0; line < job.count; line++)
        qf_store_i64(job.y->dtype, job.y->data, line, position_of_maximum(&job, line_start(&job, line)));
    return QF_OK;
}
