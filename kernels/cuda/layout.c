/* Owns: builders of ops that move or repeat elements by shape alone: permute, slice, concat, split, expand, pad,
 * triangle. Does not own: whole copies (copy.c), moving by index tensors (gather.c), 4-bit elements (packed.c).
 * Next: layout.h. */
#include "kernels/cuda/layout.h"

#include <string.h>

#include "kernels/cuda/packed.h"
#include "kernels/strided.h"

#define THREADS 256u
#define EACH    4u /* elements of a thread at a time in qf_strided */

/* Sides of a tile that are worth the way through shared memory. */
#define LEAST_TILE 8

/* --- strided copies --- */

static qf_status add_strided(qf_cuda_recorder *recorder, const qf_cuda_loops *loops, uint32_t element_bytes,
                             uint32_t repeat, uint64_t from, uint64_t to) {
    qf_cuda_launch *launch = qf_cuda_add_grid(recorder, "layout", "qf_strided", sizeof(qf_strided_params),
                                              ((uint64_t)loops->count + EACH - 1) / EACH, THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    qf_strided_params *params = launch->params;
    *params = (qf_strided_params){from, to, element_bytes, repeat, *loops};
    return QF_OK;
}

/* The loop along which the source lies together, where tiles pay; 0: there is none. */
static uint32_t transposed_loop(const qf_cuda_loops *loops, uint32_t element_bytes) {
    if (loops->rank < 2 || element_bytes > 8 || loops->loop[0].to != 1 || loops->loop[0].size < LEAST_TILE) return 0;
    for (uint32_t i = 1; i < loops->rank; i++)
        if (loops->loop[i].from == 1 && loops->loop[i].size >= LEAST_TILE) return i;
    return 0;
}

/* Whether every run of the tensor along its contiguous loop may be accessed by 4 bytes. */
static bool may_pack(const qf_transpose_params *params, bool source) {
    int64_t pack = 4 / (int64_t)params->element_bytes;
    if (params->element_bytes >= 4 || (source ? params->from : params->to) % 4) return false;
    if ((source ? params->across : params->down) % pack) return false;
    if ((source ? params->down_from : params->across_to) % pack) return false;
    for (uint32_t i = 0; i < params->batch.rank; i++)
        if ((source ? params->batch.loop[i].from : params->batch.loop[i].to) % pack) return false;
    return true;
}

static qf_status add_transpose(qf_cuda_recorder *recorder, const qf_cuda_loops *loops, uint32_t across,
                               uint32_t element_bytes, uint64_t from, uint64_t to) {
    int64_t dims[QF_CUDA_MOST_LOOPS], from_strides[QF_CUDA_MOST_LOOPS], to_strides[QF_CUDA_MOST_LOOPS];
    int64_t tile = QF_TRANSPOSE_TILE((int64_t)element_bytes);
    uint32_t rank = 0;
    for (uint32_t i = loops->rank; i-- > 1;) {
        if (i == across) continue;
        dims[rank] = loops->loop[i].size;
        from_strides[rank] = loops->loop[i].from;
        to_strides[rank++] = loops->loop[i].to;
    }
    qf_transpose_params made = {.from = from,
                                .to = to,
                                .element_bytes = element_bytes,
                                .down = loops->loop[0].size,
                                .across = loops->loop[across].size,
                                .down_from = loops->loop[0].from,
                                .across_to = loops->loop[across].to};
    made.down_tiles = (made.down + tile - 1) / tile;
    made.across_tiles = (made.across + tile - 1) / tile;
    qf_cuda_loops_make(&made.batch, rank, dims, from_strides, to_strides);
    made.packed = (may_pack(&made, true) ? 1u : 0u) | (may_pack(&made, false) ? 2u : 0u);
    uint64_t tiles = (uint64_t)(made.down_tiles * made.across_tiles * made.batch.count);
    qf_cuda_launch *launch =
        qf_cuda_add_grid(recorder, "layout", "qf_transpose", sizeof made, tiles * THREADS, THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, &made, sizeof made);
    return QF_OK;
}

/* Copies dims of elements between strides; offsets in elements. */
static qf_status move(qf_cuda_recorder *recorder, qf_dtype dtype, uint32_t rank, const int64_t *dims, uint64_t from,
                      int64_t from_offset, const int64_t *from_strides, uint64_t to, int64_t to_offset,
                      const int64_t *to_strides) {
    uint32_t bytes = qf_dtype_bits(dtype) / 8, repeat = 1;
    qf_cuda_loops loops;
    from += (uint64_t)(from_offset * bytes);
    to += (uint64_t)(to_offset * bytes);
    qf_cuda_loops_make(&loops, rank, dims, from_strides, to_strides);
    if (loops.count == 0) return QF_OK;
    bytes = qf_cuda_loops_widen(&loops, bytes, from | to);
    if (loops.rank == 0) return qf_cuda_add_copy(recorder, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    if (loops.rank == 1 && loops.loop[0].from == 1 && loops.loop[0].to == 1)
        return qf_cuda_add_copy(recorder, (void *)(uintptr_t)to, (const void *)(uintptr_t)from,
                                (size_t)loops.count * bytes);
    uint32_t across = transposed_loop(&loops, bytes);
    if (across) return add_transpose(recorder, &loops, across, bytes, from, to);
    if (loops.loop[0].from == 0 && loops.loop[0].to == 1) repeat = qf_cuda_loops_repeat(&loops, bytes, to);
    return add_strided(recorder, &loops, bytes, repeat, from, to);
}

static qf_status move_strided(qf_cuda_recorder *recorder, const qf_kernel_step *step, const qf_strided_copy *copy) {
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0];
    return move(recorder, y->dtype, copy->rank, copy->dims, qf_cuda_address(x), copy->from_offset, copy->from,
                qf_cuda_address(y), copy->to_offset, copy->to);
}

qf_status qf_cuda_build_permute(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_permute);
    qf_strided_copy copy;
    qf_status status = qf_strided_permute(&step->call, &copy);
    return status ? status : move_strided(recorder, step, &copy);
}

qf_status qf_cuda_build_expand(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_expand);
    qf_strided_copy copy;
    qf_status status = qf_strided_expand(&step->call, &copy);
    return status ? status : move_strided(recorder, step, &copy);
}

qf_status qf_cuda_build_slice(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_slice);
    qf_strided_copy copy;
    qf_status status = qf_strided_slice(&step->call, &copy);
    return status ? status : move_strided(recorder, step, &copy);
}

qf_status qf_cuda_build_concat(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_concat);
    const qf_view *y = &step->call.results[0];
    int64_t axis = step->call.attributes[QF_ATTR(concat, axis)].integer, at = 0;
    int64_t y_strides[QF_MAX_RANK], strides[QF_MAX_RANK];
    qf_view_strides(y, y_strides);
    for (uint32_t i = 0; i < step->call.operand_count; i++) {
        const qf_view *part = &step->call.operands[i];
        QF_CUDA_EXPECT(step, qf_views_agree_except(part, y, axis) && at + part->dims[axis] <= y->dims[axis],
                       "parts that fill the result along axis");
        qf_view_strides(part, strides);
        qf_status status = move(recorder, y->dtype, y->rank, part->dims, qf_cuda_address(part), 0, strides,
                                qf_cuda_address(y), at * y_strides[axis], y_strides);
        if (status) return status;
        at += part->dims[axis];
    }
    QF_CUDA_EXPECT(step, axis >= 0 && axis < y->rank && at == y->dims[axis], "parts that fill the result along axis");
    return QF_OK;
}

qf_status qf_cuda_build_split(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_split);
    const qf_view *x = &step->call.operands[0];
    int64_t axis = step->call.attributes[QF_ATTR(split, axis)].integer, at = 0;
    int64_t x_strides[QF_MAX_RANK], strides[QF_MAX_RANK];
    qf_view_strides(x, x_strides);
    for (uint32_t i = 0; i < step->call.result_count; i++) {
        const qf_view *part = &step->call.results[i];
        QF_CUDA_EXPECT(step, qf_views_agree_except(part, x, axis) && at + part->dims[axis] <= x->dims[axis],
                       "parts within the operand along axis");
        qf_view_strides(part, strides);
        qf_status status = part->data ? move(recorder, x->dtype, x->rank, part->dims, qf_cuda_address(x),
                                             at * x_strides[axis], x_strides, qf_cuda_address(part), 0, strides)
                                      : QF_OK;
        if (status) return status;
        at += part->dims[axis];
    }
    return QF_OK;
}

/* --- pad --- */

/* An axis that is not padded joins the next outer one. Outermost first in, innermost first out; strides[i] are x's. */
static uint32_t merge_axes(const qf_view *x, const qf_view *y, const int64_t *before, qf_pad_axis *axes, int64_t *sizes,
                           int64_t *strides) {
    uint32_t rank = 0;
    int64_t stride = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        qf_pad_axis *inner = rank ? &axes[rank - 1] : NULL;
        if (inner && inner->before == 0 && inner->size == sizes[rank - 1]) {
            inner->before = before[i] * inner->size;
            inner->size *= x->dims[i];
            sizes[rank - 1] *= y->dims[i];
        } else {
            axes[rank] = (qf_pad_axis){before[i], x->dims[i]};
            sizes[rank] = y->dims[i];
            strides[rank++] = stride;
        }
        stride *= x->dims[i];
    }
    return rank;
}

/* Elements that can be moved together: all of them lie in x, or none. */
static uint32_t pad_unit(uint32_t rank, const qf_pad_axis *axes, const int64_t *sizes, const int64_t *strides,
                         uint32_t element_bytes, uint64_t addresses) {
    uint32_t unit = 1;
    while (rank && unit * 2 * element_bytes <= 16) {
        int64_t next = unit * 2;
        bool fits = axes[0].before % next == 0 && axes[0].size % next == 0 && sizes[0] % next == 0 &&
                    addresses % (unit * 2 * element_bytes) == 0;
        for (uint32_t i = 1; i < rank; i++) fits = fits && strides[i] % next == 0;
        if (!fits) break;
        unit *= 2;
    }
    return unit;
}

qf_status qf_cuda_build_pad(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_pad);
    const qf_view *x = &step->call.operands[0], *value = &step->call.operands[1], *y = &step->call.results[0];
    const qf_kernel_attribute *before = &step->call.attributes[QF_ATTR(pad, before)];
    int64_t sizes[QF_MAX_RANK], strides[QF_MAX_RANK], dims[QF_MAX_RANK], from[QF_MAX_RANK], to[QF_MAX_RANK] = {0};
    qf_pad_params made = {.from = qf_cuda_address(x), .to = qf_cuda_address(y), .value = qf_cuda_address(value)};
    qf_strided_copy copy;
    qf_status status = qf_strided_pad(&step->call, &copy);
    if (status || qf_view_count(y) == 0) return status;
    uint32_t rank = merge_axes(x, y, before->ints, made.axes, sizes, strides);
    made.element_bytes = qf_dtype_bits(y->dtype) / 8;
    uint32_t unit = pad_unit(rank, made.axes, sizes, strides, made.element_bytes, made.from | made.to);
    made.unit_bytes = unit * made.element_bytes;
    for (uint32_t i = 0; i < rank; i++) {
        dims[rank - 1 - i] = i ? sizes[i] : sizes[i] / unit;
        from[rank - 1 - i] = i ? strides[i] / unit : strides[i];
    }
    if (rank) {
        made.axes[0].before /= unit;
        made.axes[0].size /= unit;
    }
    qf_cuda_loops_keep(&made.loops, rank, dims, from, to);
    qf_cuda_launch *launch =
        qf_cuda_add_grid(recorder, "layout", "qf_pad", sizeof made, (uint64_t)made.loops.count, THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, &made, sizeof made);
    return QF_OK;
}

/* --- triangle --- */

qf_status qf_cuda_build_triangle(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    if (qf_cuda_is_packed(step)) return qf_cuda_build_unpacked(recorder, step, qf_cuda_build_triangle);
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0];
    QF_CUDA_EXPECT(step, x->rank >= 2 && qf_view_count(x) == qf_view_count(y), "an operand of rank 2 or more");
    if (qf_view_count(y) == 0) return QF_OK;
    uint32_t bytes = qf_dtype_bits(y->dtype) / 8, vector = 16 / bytes;
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    if (columns % vector || (qf_cuda_address(x) | qf_cuda_address(y)) % 16) vector = 1;
    qf_triangle_params made = {.from = qf_cuda_address(x),
                               .to = qf_cuda_address(y),
                               .element_bytes = bytes,
                               .vector = vector,
                               .upper = step->call.attributes[QF_ATTR(triangle, upper)].integer != 0,
                               .diagonal = step->call.attributes[QF_ATTR(triangle, diagonal)].integer};
    int64_t dims[] = {qf_view_extent(x, 0, x->rank - 2), rows, columns / vector}, none[3] = {0};
    qf_cuda_loops_keep(&made.loops, 3, dims, none, none);
    qf_cuda_launch *launch =
        qf_cuda_add_grid(recorder, "layout", "qf_triangle", sizeof made, (uint64_t)made.loops.count, THREADS);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, &made, sizeof made);
    return QF_OK;
}
