/* Owns: rotary embedding and cache writes: rope, kv_cache_write, rope_quantize_cache_write.
 * Does not own: attention over caches (attention.c), quantisation (quantise.c).
 * Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <string.h>

/* Elements of a head that go through a buffer on the stack at a time. */
#define CHUNK 128

/* --- rotation --- */

typedef struct rotation {
    const qf_view *cos_sin;
    int64_t head_dim, rotary_dim;
    bool interleaved;
} rotation;

/* Element `i` of a rotated head, rounded to the dtype of x. `angles` is the first element of a row of cos_sin. */
static float rotated(const rotation *by, const qf_view *x, int64_t head, int64_t i, int64_t angles) {
    float own = qf_load_f32(x->dtype, x->data, head + i);
    if (i >= by->rotary_dim) return own;
    int64_t half = by->rotary_dim / 2, pair = by->interleaved ? i / 2 : i % half;
    bool is_second = by->interleaved ? i % 2 == 1 : i >= half;
    int64_t distance = by->interleaved ? 1 : half;
    float other = qf_load_f32(x->dtype, x->data, head + i + (is_second ? -distance : distance));
    float cosine = qf_load_f32(by->cos_sin->dtype, by->cos_sin->data, angles + pair);
    float sine = qf_load_f32(by->cos_sin->dtype, by->cos_sin->data, angles + half + pair);
    float turned = is_second ? own * cosine + other * sine : own * cosine - other * sine;
    return qf_round_f32(x->dtype, turned, true);
}

static qf_status start_rotation(const qf_kernel_call *call, const qf_view *x, const qf_view *cos_sin,
                                int64_t rotary_dim, bool interleaved, rotation *out) {
    int64_t head_dim = x->dims[x->rank - 1];
    *out = (rotation){cos_sin, head_dim, rotary_dim ? rotary_dim : head_dim, interleaved};
    QF_CPU_EXPECT(call, out->rotary_dim >= 0 && out->rotary_dim <= head_dim && out->rotary_dim % 2 == 0,
                  "an even rotary_dim within the head");
    QF_CPU_EXPECT(call, cos_sin->rank >= 2 && cos_sin->dims[cos_sin->rank - 1] == out->rotary_dim,
                  "rotary_dim elements in a row of cos_sin");
    return QF_OK;
}

static qf_status angles_at(const qf_kernel_call *call, const rotation *by, int64_t position, int64_t token,
                           int64_t *out) {
    if (position < 0 || position >= by->cos_sin->dims[0])
        return qf_cpu_fail(
            call, QF_ERROR_INVALID_ARGUMENT, "%s: position %lld of token %lld is outside of the %lld rows of cos_sin",
            qf_op_name(call->op), (long long)position, (long long)token, (long long)by->cos_sin->dims[0]);
    *out = position * by->rotary_dim;
    return QF_OK;
}

/* Row of an operand [.., tokens] that broadcasts to the token axes of x. */
static int64_t broadcast_row(const qf_view *x, uint32_t token_axes, const qf_view *operand, uint32_t axes,
                             int64_t token) {
    int64_t row = 0, stride = 1;
    for (uint32_t i = 0; i < token_axes; i++) {
        int64_t size = x->dims[token_axes - 1 - i], at = token % size;
        token /= size;
        if (i >= axes) continue;
        int64_t own = operand->dims[axes - 1 - i];
        row += (own == 1 ? 0 : at) * stride;
        stride *= own;
    }
    return row;
}

static bool broadcasts(const qf_view *x, uint32_t token_axes, const qf_view *operand, uint32_t axes) {
    for (uint32_t i = 0; i < axes; i++) {
        int64_t own = operand->dims[axes - 1 - i];
        if (i >= token_axes || (own != 1 && own != x->dims[token_axes - 1 - i])) return false;
    }
    return true;
}

qf_status qf_cpu_rope(const qf_kernel_call *call) {
    const qf_view *x = &call->operands[0], *cos_sin = &call->operands[QF_IN(rope, cos_sin)];
    const qf_view *positions = qf_call_operand(call, QF_IN(rope, positions));
    qf_view *y = &call->results[0];
    rotation by;
    QF_CPU_EXPECT(call, x->rank >= 3 && qf_view_count(x) == qf_view_count(y), "x of rank 3 or more");
    qf_status status = start_rotation(call, x, cos_sin, call->attributes[QF_ATTR(rope, rotary_dim)].integer,
                                      call->attributes[QF_ATTR(rope, interleaved)].integer != 0, &by);
    if (status) return status;
    uint32_t axes = x->rank - 2;
    QF_CPU_EXPECT(call,
                  positions ? broadcasts(x, axes, positions, positions->rank) && cos_sin->rank == 2
                            : broadcasts(x, axes, cos_sin, cos_sin->rank - 1),
                  "positions, or rows of cos_sin, that broadcast to the tokens of x");
    int64_t tokens = qf_view_extent(x, 0, axes), heads = x->dims[axes], angles = 0;
    for (int64_t token = 0; token < tokens; token++) {
        if (positions) {
            int64_t at = broadcast_row(x, axes, positions, positions->rank, token);
            status = angles_at(call, &by, qf_load_i64(positions->dtype, positions->data, at), token, &angles);
            if (status) return status;
        } else {
            angles = broadcast_row(x, axes, cos_sin, cos_sin->rank - 1, token) * by.rotary_dim;
        }
        for (int64_t head = token * heads; head < (token + 1) * heads; head++)
            for (int64_t i = 0; i < by.head_dim; i++)
                qf_store_f32(y->dtype, y->data, head * by.head_dim + i, rotated(&by, x, head * by.head_dim, i, angles),
                             true);
    }
    return QF_OK;
}

/* --- cache writes --- */

typedef struct cache_write {
    const qf_view *rows, *slots, *scale; /* rows [n, G, D]; scale NULL: stored as they are */
    qf_view *cache;
    int64_t page, slot_count, heads, head_dim;
    bool tokens_first;
} cache_write;

static qf_status start_write(const qf_kernel_call *call, const qf_view *before, qf_view *cache, const qf_view *rows,
                             const qf_view *slots, const qf_view *scale, int64_t layout, cache_write *out) {
    *out = (cache_write){.rows = rows, .slots = slots, .cache = cache, .tokens_first = layout == QF_VALUE_nhd};
    QF_CPU_EXPECT(call, cache->rank == 4 && rows->rank == 3, "a cache of rank 4 and rows of rank 3");
    out->page = cache->dims[out->tokens_first ? 1 : 2];
    out->heads = cache->dims[out->tokens_first ? 2 : 1];
    out->head_dim = cache->dims[3];
    out->slot_count = cache->dims[0] * out->page;
    QF_CPU_EXPECT(
        call, rows->dims[1] == out->heads && rows->dims[2] == out->head_dim && qf_view_count(slots) == rows->dims[0],
        "rows with the cache's heads and head dim, and a slot for each");
    QF_CPU_EXPECT(call, qf_view_bytes(before) == qf_view_bytes(cache), "a result of the cache's type");
    if (rows->dtype != cache->dtype) {
        QF_CPU_EXPECT(call, scale && (qf_view_count(scale) == 1 || qf_view_count(scale) == out->heads),
                      "one scale, or one a head, for rows of another type than the cache");
        out->scale = scale;
    }
    for (int64_t i = 0; i < rows->dims[0]; i++) {
        int64_t slot = qf_load_i64(slots->dtype, slots->data, i);
        if (slot < -1 || slot >= out->slot_count)
            return qf_cpu_fail(call, QF_ERROR_INVALID_ARGUMENT, "%s: slots[%lld] is %lld, expected -1 to %lld",
                               qf_op_name(call->op), (long long)i, (long long)slot, (long long)out->slot_count - 1);
    }
    /* The planner may let the result lie in the operand's memory. */
    if (cache->data != before->data && qf_view_bytes(before)) memcpy(cache->data, before->data, qf_view_bytes(before));
    return QF_OK;
}

/* First element of a head in a slot. */
static int64_t slot_offset(const cache_write *job, int64_t slot, int64_t head) {
    int64_t page = slot / job->page, token = slot % job->page;
    int64_t line = job->tokens_first ? (page * job->page + token) * job->heads + head
                                     : (page * job->heads + head) * job->page + token;
    return line * job->head_dim;
}

/* Row `row` into its slot; rotated by `by` where that is not NULL. */
static void write_row(const cache_write *job, const rotation *by, int64_t row, int64_t angles) {
    const qf_quantiser quantiser = {job->cache->dtype, QF_F32, QF_VALUE_div, true};
    int64_t slot = qf_load_i64(job->slots->dtype, job->slots->data, row);
    for (int64_t head = 0; slot >= 0 && head < job->heads; head++) {
        int64_t from = (row * job->heads + head) * job->head_dim, to = slot_offset(job, slot, head);
        if (!job->scale && !by) {
            qf_cpu_copy_run(qf_dtype_bits(job->cache->dtype), job->cache->data, to, job->rows->data, from,
                            job->head_dim);
            continue;
        }
        double scale = job->scale
                           ? qf_load_f64(job->scale->dtype, job->scale->data, qf_view_count(job->scale) > 1 ? head : 0)
                           : 1.0;
        for (int64_t i = 0; i < job->head_dim; i++) {
            float x =
                by ? rotated(by, job->rows, from, i, angles) : qf_load_f32(job->rows->dtype, job->rows->data, from + i);
            if (job->scale)
                qf_quantise_store(&quantiser, (double)x, scale, 0.0, job->cache->data, to + i);
            else
                qf_store_f32(job->cache->dtype, job->cache->data, to + i, x, true);
        }
    }
}

qf_status qf_cpu_kv_cache_write(const qf_kernel_call *call) {
    cache_write job;
    const qf_view *rows = &call->operands[QF_IN(kv_cache_write, new)];
    qf_status status =
        start_write(call, &call->operands[0], &call->results[0], rows, &call->operands[QF_IN(kv_cache_write, slots)],
                    qf_call_operand(call, QF_IN(kv_cache_write, scale)),
                    call->attributes[QF_ATTR(kv_cache_write, layout)].integer, &job);
    if (status) return status;
    for (int64_t row = 0; row < rows->dims[0]; row++) write_row(&job, NULL, row, 0);
    return QF_OK;
}

#define FUSED(name)           QF_IN(rope_quantize_cache_write, name)
#define FUSED_ATTRIBUTE(name) QF_ATTR(rope_quantize_cache_write, name)

/* All heads of one row of q; padded rows (slot -1) are computed like any other. */
static void write_query(const qf_view *q, const rotation *by, const qf_output *output, int64_t row, int64_t angles) {
    float line[CHUNK];
    int64_t heads = q->dims[1];
    for (int64_t head = row * heads; head < (row + 1) * heads; head++) {
        for (int64_t i = 0; i < by->head_dim; i += CHUNK) {
            int64_t count = by->head_dim - i < CHUNK ? by->head_dim - i : CHUNK;
            for (int64_t j = 0; j < count; j++) line[j] = rotated(by, q, head * by->head_dim, i + j, angles);
            qf_output_store(output, head * by->head_dim + i, count, line);
        }
    }
}

qf_status qf_cpu_rope_quantize_cache_write(const qf_kernel_call *call) {
    const qf_view *q = &call->operands[FUSED(q)], *k = &call->operands[FUSED(k)], *v = &call->operands[FUSED(v)];
    const qf_view *slots = &call->operands[FUSED(slots)], *positions = &call->operands[FUSED(positions)];
    int64_t layout = call->attributes[FUSED_ATTRIBUTE(layout)].integer, angles = 0;
    int64_t rotary_dim = call->attributes[FUSED_ATTRIBUTE(rotary_dim)].integer;
    bool interleaved = call->attributes[FUSED_ATTRIBUTE(interleaved)].integer != 0;
    cache_write k_job, v_job;
    qf_output output;
    rotation by;
    QF_CPU_EXPECT(call,
                  q->rank == 3 && k->rank == 3 && q->dims[2] == k->dims[2] && q->dims[0] == k->dims[0] &&
                      v->rank == 3 && v->dims[0] == q->dims[0] && qf_view_count(positions) == q->dims[0],
                  "q, k, v of rank 3 with as many rows as positions");
    QF_CPU_EXPECT(call, qf_view_count(&call->results[0]) == qf_view_count(q), "a result as large as q");
    qf_status status = start_rotation(call, q, &call->operands[FUSED(cos_sin)], rotary_dim, interleaved, &by);
    for (int64_t row = 0; row < q->dims[0] && !status; row++)
        status = angles_at(call, &by, qf_load_i64(positions->dtype, positions->data, row), row, &angles);
    if (!status)
        status = qf_output_start(call, &output, &call->results[0], qf_call_operand(call, FUSED(q_scale)), UINT32_MAX,
                                 UINT32_MAX, UINT32_MAX);
    if (!status)
        status = start_write(call, &call->operands[FUSED(k_cache)], &call->results[1], k, slots,
                             qf_call_operand(call, FUSED(k_scale)), layout, &k_job);
    if (!status)
        status = start_write(call, &call->operands[FUSED(v_cache)], &call->results[2], v, slots,
                             qf_call_operand(call, FUSED(v_scale)), layout, &v_job);
    for (int64_t row = 0; row < q->dims[0] && !status; row++) {
        status = angles_at(call, &by, qf_load_i64(positions->dtype, positions->data, row), row, &angles);
        if (status) break;
        write_query(q, &by, &output, row, angles);
        write_row(&k_job, &by, row, angles);
        write_row(&v_job, NULL, row, 0);
    }
    return status;
}
