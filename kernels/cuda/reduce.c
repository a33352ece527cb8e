/* Owns: builders of ops along axes: reductions, arg_max, cumulative_sum.
 * Does not own: softmax and norms (rows.c), sorting (top_k.c).
 * Next: reduce.h. */
#include "kernels/cuda/reduce.h"

#include <string.h>

#include "base/convert.h"
#include "kernels/cuda/packed.h"

#define VECTOR           4
#define BLOCKS           4  /* that a processor should get before results are cut into parts */
#define LEAST_OF_LANE    32 /* elements that a thread takes at least when they are cut */
#define MOST_PARTS       1024
#define LINES_FOR_THREAD 2048 /* running sums: enough lines for a thread each */
#define SHORT_LINE       64

static uint32_t power_of_two(int64_t least, uint32_t most) {
    uint32_t power = 1;
    while (power < most && power < least) power *= 2;
    return power;
}

static int64_t identity(qf_op op, qf_dtype dtype) {
    bool is_max = op == QF_OP_reduce_max;
    int64_t value = 0;
    unsigned char element[8];
    if (qf_domain_of(dtype) != QF_DOMAIN_I64) return value;
    if (dtype == QF_I1) return !is_max;
    qf_store_f64(dtype, element, 0, is_max ? -1e300 : 1e300, true);
    return qf_load_i64(dtype, element, 0);
}

/* Axes that are reduced and those that stay, as loops over x. */
static qf_status describe(const qf_kernel_step *step, qf_reduce_params *params) {
    const qf_view *x = &step->call.operands[0];
    const qf_kernel_attribute *axes = &step->call.attributes[QF_ATTR(reduce_sum, axes)];
    int64_t strides[QF_MAX_RANK], dims[2][QF_MAX_RANK], from[2][QF_MAX_RANK];
    bool reduced[QF_MAX_RANK] = {false};
    uint32_t rank[2] = {0, 0};
    for (uint64_t i = 0; i < axes->count; i++) {
        QF_CUDA_EXPECT(step, axes->ints[i] >= 0 && axes->ints[i] < x->rank, "axes of x");
        reduced[axes->ints[i]] = true;
    }
    qf_view_strides(x, strides);
    for (uint32_t i = 0; i < x->rank; i++) {
        uint32_t at = rank[reduced[i]]++;
        dims[reduced[i]][at] = x->dims[i];
        from[reduced[i]][at] = strides[i];
    }
    qf_cuda_loops_make(&params->kept, rank[0], dims[0], from[0], from[0]);
    qf_cuda_loops_make(&params->reduced, rank[1], dims[1], from[1], from[1]);
    QF_CUDA_EXPECT(step, qf_view_count(&step->call.results[0]) == params->kept.count, "one result a kept position");
    return QF_OK;
}

static bool may_load_vectors(const qf_reduce_params *params) {
    uint32_t bytes = qf_dtype_bits((qf_dtype)params->x_dtype) / 2;
    const qf_cuda_loops *reduced = &params->reduced;
    bool is_common = params->x_dtype == QF_F32 || params->x_dtype == QF_F16 || params->x_dtype == QF_BF16 ||
                     params->x_dtype == QF_F8E4M3FN || params->x_dtype == QF_F8E5M2;
    if (!is_common || reduced->rank != 1 || reduced->loop[0].from != 1 || reduced->count % VECTOR) return false;
    for (uint32_t i = 0; i < params->kept.rank; i++)
        if (params->kept.loop[i].from % VECTOR) return false;
    return params->x % (bytes < 16 ? bytes : 16) == 0;
}

/* Threads a result and elements a part, so that the device is busy with few results of many elements, too. Returns the
 * number of parts. */
static int64_t cut(const qf_cuda_recorder *recorder, qf_reduce_params *params) {
    int64_t count = params->reduced.count;
    bool lies_together = params->reduced.rank && params->reduced.loop[0].from == 1;
    params->vector = may_load_vectors(params);
    params->lanes = lies_together ? power_of_two((count + 15) / 16, QF_REDUCE_THREADS) : 1;
    int64_t blocks = (params->kept.count * params->lanes + QF_REDUCE_THREADS - 1) / QF_REDUCE_THREADS;
    int64_t wanted = (int64_t)recorder->processor_count * BLOCKS;
    int64_t parts = blocks ? (wanted + blocks - 1) / blocks : 1, most = count / (params->lanes * LEAST_OF_LANE);
    if (parts > most) parts = most;
    if (parts > MOST_PARTS) parts = MOST_PARTS;
    if (parts < 1) parts = 1;
    params->part = (count + parts - 1) / parts;
    params->part = (params->part + VECTOR - 1) / VECTOR * VECTOR;
    if (params->part < 1) params->part = 1;
    return count ? (count + params->part - 1) / params->part : 1;
}

static qf_status add_reduce(qf_cuda_recorder *recorder, const qf_reduce_params *params, int64_t parts) {
    qf_cuda_launch *launch = qf_cuda_add_grid(recorder, "reduce", "qf_reduce", sizeof *params,
                                              (uint64_t)params->kept.count * params->lanes, QF_REDUCE_THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    launch->grid[1] = (uint32_t)parts;
    memcpy(launch->params, params, sizeof *params);
    return QF_OK;
}

/* Parts [parts][kept] in the arithmetic's own type become results. */
static qf_status add_second(qf_cuda_recorder *recorder, const qf_reduce_params *first, int64_t parts, uint64_t partial,
                            const qf_view *y) {
    static const qf_dtype own[] = {[QF_DOMAIN_F32] = QF_F32, [QF_DOMAIN_F64] = QF_F64, [QF_DOMAIN_I64] = QF_I64};
    int64_t kept = first->kept.count, one = 1;
    qf_reduce_params second = *first;
    second.x = partial;
    second.y = qf_cuda_address(y);
    second.x_dtype = own[first->domain];
    second.lanes = 1;
    second.vector = 0;
    second.is_last = 1;
    second.part = parts;
    qf_cuda_loops_make(&second.kept, 1, &kept, &one, &one);
    qf_cuda_loops_make(&second.reduced, 1, &parts, &kept, &kept);
    return add_reduce(recorder, &second, 1);
}

static qf_status reduce_to(qf_cuda_recorder *recorder, const qf_kernel_step *step, const qf_view *y) {
    const qf_view *x = &step->call.operands[0];
    qf_reduce_params made = {.x = qf_cuda_address(x),
                             .y = qf_cuda_address(y),
                             .x_dtype = x->dtype,
                             .y_dtype = y->dtype,
                             .op = step->call.op,
                             .domain = qf_domain_of(x->dtype),
                             .is_last = 1,
                             .identity = identity(step->call.op, x->dtype)};
    qf_status status = describe(step, &made);
    if (status || made.kept.count == 0) return status;
    made.divisor = made.reduced.count;
    int64_t parts = cut(recorder, &made);
    if (parts == 1) return add_reduce(recorder, &made, 1);
    made.is_last = 0;
    made.y = (uint64_t)(uintptr_t)qf_cuda_scratch(recorder, (size_t)(parts * made.kept.count) * sizeof(int64_t));
    status = add_reduce(recorder, &made, parts);
    return status ? status : add_second(recorder, &made, parts, made.y, y);
}

qf_status qf_cuda_build_reduce(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    qf_view y;
    qf_cuda_start_rounded(recorder, &step->call.results[0], &y);
    qf_status status = reduce_to(recorder, step, &y);
    return status || qf_view_count(&y) == 0 ? status : qf_cuda_finish_rounded(recorder, &y, &step->call.results[0]);
}

/* --- lines along one axis --- */

static qf_status describe_lines(const qf_kernel_step *step, int64_t axis, const qf_view *y, qf_lines_params *params) {
    const qf_view *x = &step->call.operands[0];
    QF_CUDA_EXPECT(step, axis >= 0 && axis < x->rank, "an axis of x");
    *params = (qf_lines_params){.x = qf_cuda_address(x),
                                .y = qf_cuda_address(y),
                                .x_dtype = x->dtype,
                                .y_dtype = y->dtype,
                                .domain = qf_domain_of(x->dtype),
                                .size = x->dims[axis],
                                .inner = qf_view_extent(x, (uint32_t)axis + 1, x->rank)};
    params->count = qf_view_extent(x, 0, (uint32_t)axis) * params->inner;
    return QF_OK;
}

static qf_status add_lines(qf_cuda_recorder *recorder, const char *kernel, const qf_lines_params *params) {
    qf_cuda_launch *launch = qf_cuda_add_grid(recorder, "reduce", kernel, sizeof *params,
                                              (uint64_t)params->count * params->lanes, QF_REDUCE_THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, params, sizeof *params);
    return QF_OK;
}

qf_status qf_cuda_build_arg_max(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *y = &step->call.results[0];
    qf_lines_params made = {0};
    qf_status status = describe_lines(step, step->call.attributes[QF_ATTR(arg_max, axis)].integer, y, &made);
    if (status) return status;
    QF_CUDA_EXPECT(step, qf_view_count(y) == made.count && (made.size > 0 || made.count == 0), "a non-empty axis");
    if (made.count == 0) return QF_OK;
    made.keeps_last = step->call.attributes[QF_ATTR(arg_max, last)].integer != 0;
    bool few = made.count < (int64_t)recorder->processor_count * QF_REDUCE_THREADS;
    made.lanes = made.inner == 1 || few ? power_of_two((made.size + 7) / 8, QF_REDUCE_THREADS) : 1;
    return add_lines(recorder, "qf_arg_max", &made);
}

qf_status qf_cuda_build_cumulative_sum(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    qf_lines_params made = {0};
    qf_view y;
    qf_cuda_start_rounded(recorder, &step->call.results[0], &y);
    qf_status status = describe_lines(step, step->call.attributes[QF_ATTR(cumulative_sum, axis)].integer, &y, &made);
    if (status) return status;
    QF_CUDA_EXPECT(step, qf_view_count(&y) == qf_view_count(&step->call.operands[0]),
                   "a result of the operand's shape");
    if (made.count == 0 || made.size == 0) return QF_OK;
    made.exclusive = step->call.attributes[QF_ATTR(cumulative_sum, exclusive)].integer != 0;
    made.reverse = step->call.attributes[QF_ATTR(cumulative_sum, reverse)].integer != 0;
    made.lanes = made.count >= LINES_FOR_THREAD || made.size <= SHORT_LINE ? 1 : QF_REDUCE_THREADS;
    status = add_lines(recorder, "qf_running_sum", &made);
    return status ? status : qf_cuda_finish_rounded(recorder, &y, &step->call.results[0]);
}
