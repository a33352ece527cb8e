/* Owns: the arithmetic of attention and paged_attention: scores, softmax, P, P times V, the output.
 * Does not own: shapes and checks (attention_describe.c), the small product (gemm.c).
 * Next: docs/numerics.md, attention.h. */
#include "kernels/cpu/attention.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/sum.h"

/* P of p=kernel is exp2(s - m + 8) with m an integer, so at most 256. */
#define KERNEL_P_OFFSET 8.0f
#define LOG2_E          1.44269504088896340736f
#define LN_2            0.69314718055994530942

#define ROWS  QF_GEMM_ROWS    /* of a tile */
#define PANEL QF_GEMM_COLUMNS /* keys of a panel; equal to QF_SUM_BLOCK, so that sums break at panels */
_Static_assert(PANEL == QF_SUM_BLOCK, "a panel of keys is one block of a sum");

/* What one thread holds: a KV head in f32, and a tile of rows. */
typedef struct workspace {
    float *keys;           /* [panel][depth][PANEL] */
    float *values;         /* [panel of out_depth][key][PANEL] */
    float *scores;         /* [panel][ROWS][PANEL]; then exponentials */
    float *p;              /* [key][ROWS] */
    float *q;              /* [depth][ROWS] */
    float *out;            /* [panel of out_depth][ROWS][PANEL] */
    unsigned char *hidden; /* [ROWS][keys]: masked */
    bool values_finite;
} workspace;

typedef struct job {
    const qf_attention *at;
    size_t stride; /* bytes of a workspace */
} job;

/* One row of a tile. */
typedef struct row {
    int64_t sequence, head, t; /* t: within its sequence */
    int64_t row;               /* of q, out and lse */
    int64_t first, last;       /* keys that causal, windows and lengths leave */
} row;

/* Pointers into `base`, or only sizes where it is NULL. */
static size_t lay_out(const qf_attention *at, char *base, workspace *out) {
    uint64_t key_panels = (uint64_t)(at->keys + PANEL - 1) / PANEL;
    uint64_t out_panels = (uint64_t)(at->out_depth + PANEL - 1) / PANEL;
    const uint64_t counts[] = {key_panels * PANEL * (uint64_t)at->depth,
                               out_panels * PANEL * (uint64_t)at->keys,
                               key_panels * PANEL * ROWS,
                               key_panels * PANEL * ROWS,
                               (uint64_t)at->depth * ROWS + 1,
                               out_panels * PANEL * ROWS,
                               key_panels * PANEL};
    float *pieces[QF_COUNT_OF(counts)] = {NULL};
    size_t total = 0;
    for (size_t i = 0; i < QF_COUNT_OF(counts); i++) {
        if (base) pieces[i] = (float *)(void *)(base + total);
        total = qf_cpu_scratch_add(total, counts[i], sizeof(float));
    }
    *out = (workspace){pieces[0], pieces[1], pieces[2], pieces[3], pieces[4], pieces[5], NULL, true};
    out->hidden = (unsigned char *)pieces[6]; /* a float's bytes a key are ROWS of these */
    return total;
}
_Static_assert(sizeof(float) == ROWS, "hidden has a byte a row and key");

size_t qf_cpu_scratch_attention(const qf_kernel_call *call) {
    qf_attention at;
    qf_kernel_call quiet = *call;
    workspace unused;
    quiet.message = NULL;
    if (qf_attention_describe(&quiet, &at)) return 0; /* refused by the kernel too */
    size_t one = lay_out(&at, NULL, &unused), total = 0;
    for (uint32_t i = 0; i < qf_cpu_thread_count(call); i++) total = qf_cpu_scratch_add(total, one, 1);
    return total;
}

/* --- loading: elements of 8 bits are dequantised in f32, exactly as `dequantize` to f32 does --- */

static float scale_of(const qf_view *scale, int64_t kv_head) {
    return scale ? qf_load_f32(scale->dtype, scale->data, qf_view_count(scale) > 1 ? kv_head : 0) : 1.0f;
}

static void load_line(const qf_view *view, const qf_view *scale, int64_t kv_head, int64_t offset, int64_t count,
                      float *out) {
    qf_load_array_f32(view->dtype, view->data, offset, count, out);
    if (!scale) return;
    float factor = scale_of(scale, kv_head);
    for (int64_t i = 0; i < count; i++) out[i] *= factor;
}

static void load_keys(const qf_attention *at, int64_t sequence, int64_t kv_head, int64_t length, workspace *work) {
    float line[PANEL];
    for (int64_t key = 0; key < length; key++) {
        int64_t offset = qf_attention_key_offset(at, &at->k_steps, sequence, kv_head, key);
        float *panel = work->keys + key / PANEL * at->depth * PANEL + key % PANEL;
        for (int64_t d = 0; d < at->depth; d += PANEL) {
            int64_t count = at->depth - d < PANEL ? at->depth - d : PANEL;
            load_line(at->k, at->k_scale, kv_head, offset + d, count, line);
            for (int64_t i = 0; i < count; i++) panel[(d + i) * PANEL] = line[i];
        }
    }
    for (int64_t key = length; key % PANEL; key++)
        for (int64_t d = 0; d < at->depth; d++)
            work->keys[key / PANEL * at->depth * PANEL + d * PANEL + key % PANEL] = 0.0f;
}

static void load_values(const qf_attention *at, int64_t sequence, int64_t kv_head, int64_t length, workspace *work) {
    work->values_finite = true;
    for (int64_t key = 0; key < length; key++) {
        int64_t offset = qf_attention_key_offset(at, &at->v_steps, sequence, kv_head, key);
        for (int64_t e = 0; e < at->out_depth; e += PANEL) {
            int64_t count = at->out_depth - e < PANEL ? at->out_depth - e : PANEL;
            float *line = work->values + e / PANEL * at->keys * PANEL + key * PANEL, zero = 0.0f;
            load_line(at->v, at->v_scale, kv_head, offset + e, count, line);
            for (int64_t i = 0; i < count; i++) zero += line[i] * 0.0f;
            if (zero != 0.0f) work->values_finite = false; /* NaN: an infinity or NaN is among them */
            for (int64_t i = count; i < PANEL; i++) line[i] = 0.0f;
        }
    }
}

/* --- masking --- */

static int64_t clamped_sum(int64_t position, int64_t distance) {
    const int64_t far = (int64_t)1 << 60;
    return position + (distance > far ? far : distance);
}

/* Keys [first, last) that length, causal and windows leave to row t. */
static void visible_range(const qf_attention *at, const qf_attention_sequence *sequence, row *out) {
    int64_t position = at->bottom_right ? out->t + sequence->length - sequence->row_count : out->t;
    out->first = 0;
    out->last = sequence->length;
    if (at->causal && position + 1 < out->last) out->last = position + 1;
    if (at->window_right >= 0 && clamped_sum(position, at->window_right) + 1 < out->last)
        out->last = clamped_sum(position, at->window_right) + 1;
    if (at->window_left >= 0 && -clamped_sum(-position, at->window_left) > out->first)
        out->first = -clamped_sum(-position, at->window_left);
    if (out->last < out->first) out->last = out->first = 0;
}

/* Bias, and marks in `hidden`, for keys [first, first + count) of a row; outside of its range all are hidden. */
static void add_bias_and_mask(const qf_attention *at, const row *of, int64_t first, int64_t count, float *scores,
                              unsigned char *hidden) {
    const qf_attention_steps *steps = &at->bias_steps;
    int64_t bias = of->sequence * steps->sequence + of->head * steps->head + of->t * steps->row;
    for (int64_t j = 0; j < count; j++) hidden[j] = first + j < of->first || first + j >= of->last;
    for (int64_t j = 0; at->bias && j < count; j++) {
        if (hidden[j]) continue;
        float add = qf_load_f32(at->bias->dtype, at->bias->data, bias + (first + j) * steps->key);
        scores[j] += add;
        hidden[j] = add == -INFINITY;
    }
    steps = &at->mask_steps;
    int64_t mask = of->sequence * steps->sequence + of->head * steps->head + of->t * steps->row;
    for (int64_t j = 0; at->mask && j < count; j++)
        if (!hidden[j]) hidden[j] = !qf_load_i64(at->mask->dtype, at->mask->data, mask + (first + j) * steps->key);
}

/* --- a row of P --- */

/* What a row's softmax left behind. */
typedef struct row_sums {
    bool empty;
    float divisor; /* p=kernel: of the result; else 1 */
    float lse;
} row_sums;

/* Largest score of the keys that are not hidden; NaN if one is. *out_any: there is a key. */
static float largest_score(const workspace *work, int64_t i, const row *of, int64_t keys, bool *out_any) {
    float most = -INFINITY;
    *out_any = false;
    for (int64_t key = of->first; key < of->last; key++) {
        float score = work->scores[key / PANEL * ROWS * PANEL + i * PANEL + key % PANEL];
        if (work->hidden[i * keys + key]) continue;
        *out_any = true;
        if (isnan(score)) return score;
        if (score > most) most = score;
    }
    return most;
}

/* ln(e^a + e^b) in f64; a may be -inf. */
static double log_add(double a, double b) {
    double most = a > b ? a : b;
    return most == -HUGE_VAL ? most : most + log(exp(a - most) + exp(b - most));
}

/* Normalised P, quantised and dequantised for p=graph. The sink is the term after the last key. */
static row_sums normalised_row(const qf_attention *at, workspace *work, int64_t i, const row *of, int64_t begin,
                               int64_t end, float most) {
    qf_sum_f32 sum = {0};
    float sink = at->sinks ? qf_load_f32(at->sinks->dtype, at->sinks->data, of->head) : -INFINITY;
    if (at->sinks && (isnan(sink) || sink > most)) most = sink;
    for (int64_t key = begin; key < end; key++) {
        float *score = &work->scores[key / PANEL * ROWS * PANEL + i * PANEL + key % PANEL];
        *score = work->hidden[i * at->keys + key] ? 0.0f : expf(*score - most);
        qf_sum_f32_add(&sum, *score);
    }
    if (at->sinks) qf_sum_f32_add(&sum, expf(sink - most));
    float total = qf_sum_f32_total(&sum);
    for (int64_t key = begin; key < end; key++) {
        float p = work->scores[key / PANEL * ROWS * PANEL + i * PANEL + key % PANEL] / total;
        if (work->hidden[i * at->keys + key])
            p = 0.0f;
        else if (at->p_mode == QF_VALUE_graph)
            p = qf_round_f32(at->p_dtype, p / at->p_scale, true) * at->p_scale;
        work->p[key * ROWS + i] = p;
    }
    return (row_sums){false, 1.0f, most + logf(total)};
}

/* A score in the log2 domain. Finite ones stay finite, so that a finite mask never masks. */
static float log2_score(float score) {
    float scaled = score * LOG2_E;
    return isinf(scaled) && !isinf(score) ? copysignf(FLT_MAX, score) : scaled;
}

/* P = exp2(s * log2(e) - m + 8) rounded to p_dtype, m the largest s * log2(e) rounded up to an integer; the divisor is
 * the sum of the rounded P, and of the sink in the same units. */
static row_sums kernel_row(const qf_attention *at, workspace *work, int64_t i, const row *of, int64_t begin,
                           int64_t end, float most) {
    qf_sum_f32 sum = {0};
    float reference = ceilf(log2_score(most));
    for (int64_t key = begin; key < end; key++) {
        float score = work->scores[key / PANEL * ROWS * PANEL + i * PANEL + key % PANEL], p = 0.0f;
        if (!work->hidden[i * at->keys + key])
            p = qf_round_f32(at->p_dtype, exp2f(log2_score(score) - reference + KERNEL_P_OFFSET), true);
        work->p[key * ROWS + i] = p;
        qf_sum_f32_add(&sum, p);
    }
    float total = qf_sum_f32_total(&sum);
    double lse = ((double)reference - (double)KERNEL_P_OFFSET) * LN_2 + log((double)total);
    if (at->sinks) {
        float sink = qf_load_f32(at->sinks->dtype, at->sinks->data, of->head);
        total += exp2f(sink * LOG2_E - reference + KERNEL_P_OFFSET);
        lse = log_add(lse, (double)sink);
    }
    return (row_sums){false, total, (float)lse};
}

/* begin and end are the tile's keys, begin at a panel's start; a row has zeros where it has no key of its own. */
static row_sums make_row(const qf_attention *at, workspace *work, int64_t i, const row *of, int64_t begin,
                         int64_t end) {
    bool any;
    float most = largest_score(work, i, of, at->keys, &any);
    if (any)
        return at->p_mode == QF_VALUE_kernel ? kernel_row(at, work, i, of, begin, end, most)
                                             : normalised_row(at, work, i, of, begin, end, most);
    for (int64_t key = begin; key < end; key++) work->p[key * ROWS + i] = 0.0f;
    float sink = at->sinks ? qf_load_f32(at->sinks->dtype, at->sinks->data, of->head) : -INFINITY;
    return (row_sums){true, 1.0f, sink};
}

/* --- P times V --- */

/* Without touching the values of hidden keys, which may be NaN; the same sums as the product's. */
static void weigh_carefully(const qf_attention *at, workspace *work, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t e = 0; e < at->out_depth; e++) {
            const float *values = work->values + e / PANEL * at->keys * PANEL + e % PANEL;
            qf_sum_f32 sum = {0};
            for (int64_t key = begin; key < end; key++) {
                bool hidden = work->hidden[i * at->keys + key];
                qf_sum_f32_add(&sum, hidden ? 0.0f : work->p[key * ROWS + i] * values[key * PANEL]);
            }
            work->out[e / PANEL * ROWS * PANEL + i * PANEL + e % PANEL] = qf_sum_f32_total(&sum);
        }
    }
}

static void weigh_values(const qf_attention *at, workspace *work, int64_t begin, int64_t end) {
    if (!work->values_finite) {
        weigh_carefully(at, work, begin, end);
        return;
    }
    for (int64_t e = 0; e < at->out_depth; e += QF_GEMM_TILE_COLUMNS)
        qf_gemm_multiply_tile(work->p + begin * ROWS,
                              work->values + e / PANEL * at->keys * PANEL + begin * PANEL + e % PANEL, end - begin,
                              work->out + e / PANEL * ROWS * PANEL + e % PANEL);
}

static void store_row(const qf_attention *at, workspace *work, int64_t i, const row *of, const row_sums *sums) {
    int64_t offset =
        of->sequence * at->out_steps.sequence + of->head * at->out_steps.head + of->row * at->out_steps.row;
    for (int64_t e = 0; e < at->out_depth; e += PANEL) {
        int64_t count = at->out_depth - e < PANEL ? at->out_depth - e : PANEL;
        float *values = work->out + e / PANEL * ROWS * PANEL + i * PANEL;
        for (int64_t j = 0; j < count; j++) {
            if (sums->empty) values[j] = at->empty_is_nan ? NAN : 0.0f;
            if (at->p_mode == QF_VALUE_kernel) values[j] /= sums->divisor;
        }
        qf_output_store(&at->output, offset + e, count, values);
    }
    if (!at->lse) return;
    offset = of->sequence * at->lse_steps.sequence + of->head * at->lse_steps.head + of->row * at->lse_steps.row;
    qf_store_f32(at->lse->dtype, at->lse->data, offset, sums->lse, true);
}

/* --- tiles --- */

static void load_queries(const qf_attention *at, workspace *work, const row *rows, int64_t count) {
    float line[PANEL];
    int64_t group = at->heads / at->kv_heads;
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t d = 0; d < at->depth; d += PANEL) {
            int64_t size = at->depth - d < PANEL ? at->depth - d : PANEL;
            memset(line, 0, sizeof line);
            if (i < count) {
                int64_t offset = rows[i].sequence * at->q_steps.sequence + rows[i].head * at->q_steps.head +
                                 rows[i].row * at->q_steps.row + d;
                load_line(at->q, at->q_scale, rows[i].head / group, offset, size, line);
            }
            for (int64_t j = 0; j < size; j++) work->q[(d + j) * ROWS + i] = line[j];
        }
    }
}

/* Scaled, capped, biased scores and marks of the keys [begin, end) of every row. */
static void make_scores(const qf_attention *at, workspace *work, const row *rows, int64_t count, int64_t begin,
                        int64_t end) {
    for (int64_t key = begin; key < end; key += PANEL) {
        float *panel = work->scores + key / PANEL * ROWS * PANEL;
        int64_t size = end - key < PANEL ? end - key : PANEL;
        for (int64_t j = 0; j < size; j += QF_GEMM_TILE_COLUMNS)
            qf_gemm_multiply_tile(work->q, work->keys + key / PANEL * at->depth * PANEL + j, at->depth, panel + j);
        for (int64_t i = 0; i < count; i++) {
            float *scores = panel + i * PANEL;
            for (int64_t j = 0; j < size; j++) scores[j] *= at->scale;
            for (int64_t j = 0; at->softcap > 0.0f && j < size; j++)
                scores[j] = at->softcap * tanhf(scores[j] / at->softcap);
            add_bias_and_mask(at, &rows[i], key, size, scores, work->hidden + i * at->keys + key);
        }
    }
}

static void attend_tile(const qf_attention *at, workspace *work, const row *rows, int64_t count) {
    row_sums sums[ROWS];
    int64_t begin = INT64_MAX, end = 0;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i].last == rows[i].first) continue;
        if (rows[i].first < begin) begin = rows[i].first;
        if (rows[i].last > end) end = rows[i].last;
    }
    begin = begin < end ? begin / PANEL * PANEL : end;
    load_queries(at, work, rows, count);
    make_scores(at, work, rows, count, begin, end);
    for (int64_t i = 0; i < ROWS; i++) {
        if (i < count) {
            sums[i] = make_row(at, work, i, &rows[i], begin, end);
        } else {
            for (int64_t key = begin; key < end; key++) work->p[key * ROWS + i] = 0.0f;
            memset(work->hidden + i * at->keys + begin, 1, (size_t)(end - begin));
        }
    }
    weigh_values(at, work, begin, end);
    for (int64_t i = 0; i < count; i++) store_row(at, work, i, &rows[i], &sums[i]);
}

/* Rows [first, last) of one KV head of one sequence: its query heads one after another. */
static void attend_head(const qf_attention *at, workspace *work, int64_t sequence, int64_t kv_head, int64_t first,
                        int64_t last) {
    qf_attention_sequence extent = qf_attention_sequence_at(at, sequence);
    int64_t group = at->heads / at->kv_heads;
    load_keys(at, sequence, kv_head, extent.length, work);
    load_values(at, sequence, kv_head, extent.length, work);
    for (int64_t r = first; r < last; r += ROWS) {
        row rows[ROWS];
        int64_t count = last - r < ROWS ? last - r : ROWS;
        for (int64_t i = 0; i < count; i++) {
            int64_t t = (r + i) % extent.row_count;
            rows[i] = (row){sequence, kv_head * group + (r + i) / extent.row_count, t, extent.first_row + t, 0, 0};
            visible_range(at, &extent, &rows[i]);
        }
        attend_tile(at, work, rows, count);
    }
}

/* Items are rows, counted over sequences, KV heads, query heads of a KV head, rows of a sequence. */
static void attend_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const job *all = context;
    const qf_attention *at = all->at;
    workspace work;
    (void)lay_out(at, (char *)at->call->scratch + thread * all->stride, &work);
    int64_t start = 0, group = at->heads / at->kv_heads;
    for (int64_t sequence = 0; sequence < at->sequences && start < last; sequence++) {
        int64_t rows = qf_attention_sequence_at(at, sequence).row_count * group;
        for (int64_t head = 0; head < at->kv_heads && start < last; head++, start += rows) {
            int64_t from = first > start ? first - start : 0, to = last - start < rows ? last - start : rows;
            if (from < to) attend_head(at, &work, sequence, head, from, to);
        }
    }
}

/* Packed rows that belong to no sequence have no key. */
static void attend_to_nothing(const qf_attention *at, int64_t first, int64_t last) {
    workspace work;
    const row_sums sums = {true, 1.0f, -INFINITY};
    (void)lay_out(at, at->call->scratch, &work);
    for (int64_t r = first; r < last; r++) {
        for (int64_t head = 0; head < at->heads; head++) {
            row of = {0, head, 0, r, 0, 0};
            store_row(at, &work, 0, &of, &sums);
        }
    }
}

static qf_status attend(const qf_kernel_call *call, const qf_view *p_scale, const qf_view *out_scale, uint32_t out_mode,
                        uint32_t out_compute, uint32_t via) {
    qf_attention at;
    workspace unused;
    qf_status status = qf_attention_describe(call, &at);
    if (!status) status = qf_attention_check_values(&at);
    if (!status) status = qf_output_start(call, &at.output, &call->results[0], out_scale, out_mode, out_compute, via);
    if (status) return status;
    at.lse = qf_call_result(call, 1);
    at.p_scale = p_scale ? qf_load_f32(p_scale->dtype, p_scale->data, 0) : 1.0f;
    int64_t rows = 0, covered = 0;
    for (int64_t sequence = 0; sequence < at.sequences; sequence++) {
        qf_attention_sequence extent = qf_attention_sequence_at(&at, sequence);
        rows += extent.row_count * at.heads;
        if (!at.packed) continue;
        attend_to_nothing(&at, covered, extent.first_row);
        covered = extent.first_row + extent.row_count;
    }
    if (at.packed) attend_to_nothing(&at, covered, at.rows);
    uint32_t threads = qf_dtype_bits(call->results[0].dtype) < 8 ? 1 : qf_cpu_thread_count(call);
    job all = {&at, qf_cpu_scratch_add(0, lay_out(&at, NULL, &unused), 1)};
    qf_cpu_parallel(threads, rows, 1 + 100000 / ((at.keys + 1) * (at.depth + at.out_depth + 1)), attend_body, &all);
    return QF_OK;
}

qf_status qf_cpu_attention(const qf_kernel_call *call) {
    return attend(call, qf_call_operand(call, QF_IN(attention, p_scale)),
                  qf_call_operand(call, QF_IN(attention, out_scale)), QF_ATTR(attention, out_mode),
                  QF_ATTR(attention, out_compute), QF_ATTR(attention, via));
}

qf_status qf_cpu_paged_attention(const qf_kernel_call *call) {
    return attend(call, qf_call_operand(call, QF_IN(paged_attention, p_scale)),
                  qf_call_operand(call, QF_IN(paged_attention, out_scale)), QF_ATTR(paged_attention, out_mode),
                  QF_ATTR(paged_attention, out_compute), QF_ATTR(paged_attention, via));
}
