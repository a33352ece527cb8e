/* Owns: launches of rope, kv_cache_write and rope_quantize_cache_write.
 * Does not own: the kernel (cache.cu).
 * Next: cache.h, kernels/cpu/cache.c. */
#include "kernels/cuda/cache.h"

#include "kernels/cuda/fast.h"

#define WIDTH                8 /* elements of a run in the kernel for vectors */
#define BLOCKS_PER_PROCESSOR 8 /* of the kernel that keeps units, two of which run at a time */
#define MOST_UNITS           (QF_CACHE_UNITS * 65535)

/* --- streams: rows of heads and where they go --- */

static qf_cache_stream dense_stream(const qf_view *from, const qf_view *to, const qf_view *scale, int64_t rotary_dim) {
    uint32_t rank = from->rank;
    return (qf_cache_stream){.from = from->data,
                             .to = to->data,
                             .scale = scale ? scale->data : NULL,
                             .scale_dtype = scale ? scale->dtype : QF_DTYPE_NONE,
                             .from_dtype = from->dtype,
                             .to_dtype = to->dtype,
                             .heads = (uint32_t)from->dims[rank - 2],
                             .head_dim = (uint32_t)from->dims[rank - 1],
                             .rotary_dim = (uint32_t)rotary_dim};
}

/* Rows of the cache's own dtype need no scale, and without a rotation they are copied as they are. */
static qf_cache_stream cache_stream(const qf_view *rows, const qf_view *cache, const qf_view *scale, int64_t layout,
                                    int64_t rotary_dim) {
    bool quantises = rows->dtype != cache->dtype;
    qf_cache_stream stream = dense_stream(rows, cache, quantises ? scale : NULL, rotary_dim);
    int64_t page = cache->dims[layout == QF_VALUE_nhd ? 1 : 2], heads = rows->dims[1], head_dim = rows->dims[2];
    stream.is_cache = true;
    stream.is_copy = !quantises && rotary_dim == 0;
    stream.scale_stride = stream.scale && qf_view_count(scale) > 1;
    stream.page_stride = page * heads * head_dim;
    stream.token_stride = layout == QF_VALUE_nhd ? heads * head_dim : head_dim;
    stream.head_stride = layout == QF_VALUE_nhd ? head_dim : page * head_dim;
    return stream;
}

/* Every run of eight elements of the stream is aligned and of the compact dtypes. */
static bool has_aligned_runs(const qf_cache_params *params, const qf_cache_stream *stream) {
    qf_dtype from = (qf_dtype)stream->from_dtype, to = (qf_dtype)stream->to_dtype;
    uint32_t rotary_dim = stream->rotary_dim;
    if (!qf_cuda_is_fast(from) || !qf_cuda_is_fast(to)) return false;
    if (!qf_cuda_is_aligned(stream->from, from, WIDTH) || !qf_cuda_is_aligned(stream->to, to, WIDTH)) return false;
    if (stream->head_dim % (2 * WIDTH) || rotary_dim % (2 * WIDTH)) return false;
    return rotary_dim == 0 || (qf_cuda_is_fast((qf_dtype)params->angle_dtype) &&
                               qf_cuda_is_aligned(params->cos_sin, (qf_dtype)params->angle_dtype, WIDTH));
}

static void cut_into_units(qf_cache_stream *stream, uint32_t width) {
    uint32_t rest = stream->head_dim - stream->rotary_dim;
    stream->rotated_units = stream->rotary_dim / (2 * width);
    stream->units = stream->rotated_units + rest / (2 * width) + (rest % (2 * width) != 0);
    if (stream->units) qf_cuda_division(stream->units, &stream->unit_magic, &stream->unit_shift);
}

/* --- the launch --- */

static int64_t units_of(const qf_cache_params *params) {
    int64_t units = 0;
    for (uint32_t i = 0; i < params->stream_count; i++)
        units += (int64_t)params->streams[i].heads * params->streams[i].units;
    return units;
}

/* A multiple of a head's units, so that threads keep their angles, of about 128 threads. */
static uint32_t threads_of(const qf_cache_params *params) {
    int64_t units = units_of(params), of_head = params->streams[0].units;
    if (units <= 32 || of_head == 0 || of_head > QF_CACHE_THREADS) return qf_cuda_threads(units, QF_CACHE_THREADS);
    int64_t heads = units < 128 ? units / of_head : 128 / of_head;
    return (uint32_t)(heads > 1 ? heads * of_head : of_head);
}

/* FP8 codes of 16-bit rows, or the rows' own bits. */
static bool keeps_or_narrows(const qf_cache_stream *stream) {
    bool narrows = stream->to_dtype == QF_F8E4M3FN || stream->to_dtype == QF_F8E5M2;
    return qf_dtype_bits((qf_dtype)stream->from_dtype) == 16 && (narrows || stream->to_dtype == stream->from_dtype);
}

static qf_status add_slot_launch(qf_cuda_recorder *recorder, const char *kernel, const qf_cache_params *params) {
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "cache", kernel, sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    *(qf_cache_params *)launch->params = *params;
    launch->block[0] = 256;
    launch->grid[0] = qf_cuda_blocks(qf_cuda_divide_up(params->rows, 256));
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

/* Many rows: the last row of each slot is noted first, then every row's place. */
static qf_status find_places(qf_cuda_recorder *recorder, qf_cache_params *params) {
    params->winners = qf_cuda_zeroed(recorder, (size_t)params->slot_count * sizeof *params->winners);
    params->places = qf_cuda_scratch(recorder, (size_t)params->rows * sizeof *params->places);
    qf_status status = add_slot_launch(recorder, "qf_cache_winners", params);
    return status ? status : add_slot_launch(recorder, "qf_cache_places", params);
}

/* A thread a unit, over as many blocks as a row needs; blocks step over rows, a few each where there are many. */
static void set_geometry_of_units(const qf_cuda_recorder *recorder, const qf_cache_params *params,
                                  qf_cuda_launch *launch) {
    int64_t units = units_of(params), blocks = (units - 1) / QF_CACHE_UNITS + 1; /* there is a unit */
    int64_t rows = (int64_t)recorder->processor_count * BLOCKS_PER_PROCESSOR / blocks;
    launch->block[0] = qf_cuda_threads(qf_cuda_divide_up(units, blocks), QF_CACHE_UNITS);
    launch->grid[0] = qf_cuda_blocks(params->rows < rows ? params->rows : rows);
    launch->grid[1] = (uint32_t)blocks;
    if (params->cos_sin) /* of two rows */
        launch->shared_bytes =
            2 * (uint32_t)qf_dtype_bytes((qf_dtype)params->angle_dtype, params->streams[0].rotary_dim);
}

/* A row a block; of few rows the units over several blocks. */
static void set_geometry_of_rows(const qf_cuda_recorder *recorder, const qf_cache_params *params,
                                 qf_cuda_launch *launch) {
    launch->block[0] = threads_of(params);
    launch->grid[0] = qf_cuda_blocks(params->rows);
    if (params->rows >= 4 * (int64_t)recorder->processor_count) return;
    int64_t passes = qf_cuda_divide_up(units_of(params), launch->block[0]);
    launch->grid[1] = passes > 65535 ? 65535 : (uint32_t)passes;
}

static qf_status add_launch(qf_cuda_recorder *recorder, const qf_kernel_step *step, qf_cache_params *params) {
    bool by_runs = true, of_16_bits = true;
    for (uint32_t i = 0; i < params->stream_count; i++) {
        by_runs = by_runs && has_aligned_runs(params, &params->streams[i]);
        of_16_bits = of_16_bits && keeps_or_narrows(&params->streams[i]);
    }
    for (uint32_t i = 0; i < params->stream_count; i++) cut_into_units(&params->streams[i], by_runs ? WIDTH : 1);
    if (params->rows == 0 || units_of(params) == 0) return QF_OK;
    if (units_of(params) > INT32_MAX || params->rows >= UINT32_MAX)
        return qf_cuda_refuse(step, "%s: expected rows of fewer than 2^32 elements and fewer than 2^32 - 1 of them",
                              qf_op_name(step->call.op));
    qf_status status = params->slots && params->rows > QF_CACHE_SEARCHED_ROWS ? find_places(recorder, params) : QF_OK;
    if (status) return status;
    /* Angles of that kernel are 16 or 32 bits wide. */
    bool by_units = by_runs && of_16_bits && units_of(params) <= MOST_UNITS && params->rows <= INT32_MAX &&
                    (!params->cos_sin || qf_dtype_bits((qf_dtype)params->angle_dtype) >= 16);
    const char *kernel = by_units ? "qf_cache_vectors" : by_runs ? "qf_cache_vectors_any" : "qf_cache_elements";
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "cache", kernel, sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    *(qf_cache_params *)launch->params = *params;
    (by_units ? set_geometry_of_units : set_geometry_of_rows)(recorder, params, launch);
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

/* --- operands --- */

static qf_status expect_heads(const qf_kernel_step *step, const qf_view *rows) {
    if (rows->dims[rows->rank - 2] <= INT32_MAX && rows->dims[rows->rank - 1] <= INT32_MAX) return QF_OK;
    return qf_cuda_refuse(step, "%s: expected fewer than 2^31 heads of fewer than 2^31 elements",
                          qf_op_name(step->call.op));
}

/* Rows of another type than the cache are quantised by one scale, or by one a head. */
static qf_status expect_scale(const qf_kernel_step *step, const qf_view *rows, const qf_view *cache,
                              const qf_view *scale) {
    QF_CUDA_EXPECT(step,
                   rows->dtype == cache->dtype ||
                       (scale && (qf_view_count(scale) == 1 || qf_view_count(scale) == rows->dims[1])),
                   "one scale, or one a head, for rows of another type than the cache");
    return QF_OK;
}

static void set_slots(qf_cache_params *params, const qf_view *slots, const qf_view *cache, int64_t layout) {
    params->slots = slots->data;
    params->slot_dtype = slots->dtype;
    params->page = cache->dims[layout == QF_VALUE_nhd ? 1 : 2];
    params->slot_count = cache->dims[0] * params->page;
    if (params->page > 0 && params->slot_count < INT32_MAX)
        qf_cuda_division(params->page, &params->page_magic, &params->page_shift);
}

/* A result beside its operand begins as a copy of it. */
static qf_status copy_cache(qf_cuda_recorder *recorder, const qf_view *before, const qf_view *after) {
    size_t size = (size_t)qf_dtype_bytes(before->dtype, (uint64_t)qf_view_count(before));
    return qf_cuda_add_copy(recorder, after->data, before->data, size);
}

qf_status qf_cuda_build_kv_cache_write(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *cache = &step->call.operands[QF_IN(kv_cache_write, cache)];
    const qf_view *rows = &step->call.operands[QF_IN(kv_cache_write, new)], *after = &step->call.results[0];
    int64_t layout = step->call.attributes[QF_ATTR(kv_cache_write, layout)].integer;
    qf_cache_params params = {.stream_count = 1, .rows = rows->dims[0]};
    const qf_view *scale = qf_call_operand(&step->call, QF_IN(kv_cache_write, scale));
    qf_status status = expect_heads(step, rows);
    if (!status) status = expect_scale(step, rows, cache, scale);
    if (!status) status = copy_cache(recorder, cache, after);
    if (status) return status;
    set_slots(&params, &step->call.operands[QF_IN(kv_cache_write, slots)], cache, layout);
    params.streams[0] = cache_stream(rows, after, scale, layout, 0);
    return add_launch(recorder, step, &params);
}

/* Axes of tokens, and the stride of each in an operand that broadcasts to them; neighbours that step as one are merged.
 */
static void set_token_axes(qf_cache_params *params, const qf_view *x, const qf_view *operand, uint32_t operand_axes) {
    uint32_t axes = x->rank - 2;
    int64_t strides[QF_MAX_RANK], stride = 1;
    for (uint32_t i = 0; i < axes; i++) {
        uint32_t axis = axes - 1 - i;
        int64_t own = i < operand_axes ? operand->dims[operand_axes - 1 - i] : 1;
        strides[axis] = own == 1 ? 0 : stride;
        stride *= own;
    }
    for (uint32_t i = 0; i < axes; i++) {
        uint32_t last = params->axis_count ? params->axis_count - 1 : 0;
        if (x->dims[i] == 1) continue;
        if (params->axis_count && params->axis_strides[last] == strides[i] * x->dims[i]) {
            params->axis_sizes[last] *= x->dims[i];
            params->axis_strides[last] = strides[i];
            continue;
        }
        params->axis_sizes[params->axis_count] = x->dims[i];
        params->axis_strides[params->axis_count++] = strides[i];
    }
}

static void set_rotation(qf_cache_params *params, const qf_view *cos_sin, const qf_view *positions, bool interleaved) {
    params->cos_sin = cos_sin->data;
    params->angle_dtype = cos_sin->dtype;
    params->position_count = cos_sin->dims[0];
    params->positions = positions ? positions->data : NULL;
    params->position_dtype = positions ? positions->dtype : QF_DTYPE_NONE;
    params->interleaved = interleaved;
}

qf_status qf_cuda_build_rope(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *x = &step->call.operands[0], *cos_sin = &step->call.operands[QF_IN(rope, cos_sin)];
    const qf_view *positions = qf_call_operand(&step->call, QF_IN(rope, positions));
    int64_t rotary_dim = step->call.attributes[QF_ATTR(rope, rotary_dim)].integer;
    qf_status status = expect_heads(step, x);
    if (status) return status;
    qf_cache_params params = {.stream_count = 1, .rows = qf_view_extent(x, 0, x->rank - 2)};
    set_rotation(&params, cos_sin, positions, step->call.attributes[QF_ATTR(rope, interleaved)].integer != 0);
    set_token_axes(&params, x, positions ? positions : cos_sin, positions ? positions->rank : cos_sin->rank - 1);
    params.streams[0] = dense_stream(x, &step->call.results[0], NULL, rotary_dim ? rotary_dim : x->dims[x->rank - 1]);
    return add_launch(recorder, step, &params);
}

#define FUSED(name)           QF_IN(rope_quantize_cache_write, name)
#define FUSED_ATTRIBUTE(name) QF_ATTR(rope_quantize_cache_write, name)

qf_status qf_cuda_build_rope_quantize_cache_write(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *operands = step->call.operands, *results = step->call.results, *q = &operands[FUSED(q)];
    const qf_kernel_attribute *attributes = step->call.attributes;
    int64_t layout = attributes[FUSED_ATTRIBUTE(layout)].integer;
    int64_t rotary_dim = attributes[FUSED_ATTRIBUTE(rotary_dim)].integer;
    if (!rotary_dim) rotary_dim = q->dims[2];
    qf_cache_params params = {.stream_count = 3, .rows = q->dims[0]};
    const qf_view *q_scale = qf_call_operand(&step->call, FUSED(q_scale));
    const qf_view *k_scale = qf_call_operand(&step->call, FUSED(k_scale));
    const qf_view *v_scale = qf_call_operand(&step->call, FUSED(v_scale));
    QF_CUDA_EXPECT(step, !q_scale || qf_view_count(q_scale) == 1, "a scalar q_scale");
    qf_status status = expect_heads(step, q);
    if (!status) status = expect_heads(step, &operands[FUSED(k)]);
    if (!status) status = expect_heads(step, &operands[FUSED(v)]);
    if (!status) status = expect_scale(step, &operands[FUSED(k)], &operands[FUSED(k_cache)], k_scale);
    if (!status) status = expect_scale(step, &operands[FUSED(v)], &operands[FUSED(v_cache)], v_scale);
    if (!status) status = copy_cache(recorder, &operands[FUSED(k_cache)], &results[1]);
    if (!status) status = copy_cache(recorder, &operands[FUSED(v_cache)], &results[2]);
    if (status) return status;
    set_rotation(&params, &operands[FUSED(cos_sin)], &operands[FUSED(positions)],
                 attributes[FUSED_ATTRIBUTE(interleaved)].integer != 0);
    params.axis_count = 1;
    params.axis_sizes[0] = q->dims[0];
    params.axis_strides[0] = 1;
    set_slots(&params, &operands[FUSED(slots)], &operands[FUSED(k_cache)], layout);
    params.streams[0] = dense_stream(q, &results[0], q_scale, rotary_dim);
    params.streams[1] = cache_stream(&operands[FUSED(k)], &results[1], k_scale, layout, rotary_dim);
    params.streams[2] = cache_stream(&operands[FUSED(v)], &results[2], v_scale, layout, 0);
    return add_launch(recorder, step, &params);
}
