/* Owns: the blocked and threaded f32 product, and the plain one for f64 and integers.
 * Does not own: what is multiplied (contract.c, conv.c).
 * Next: gemm.h, sum.h. */
#include "kernels/cpu/gemm.h"

#include <string.h>

#include "kernels/cpu/sum.h"

#define VECTOR 4
_Static_assert(QF_GEMM_TILE_COLUMNS == 2 * VECTOR, "a tile is two vectors wide");
typedef float vector __attribute__((vector_size(VECTOR * sizeof(float))));

static int64_t extent_of(const qf_gemm_axes *axes) {
    int64_t count = 1;
    for (uint32_t i = 0; i < axes->rank; i++) count *= axes->axis[i].size;
    return count;
}

void qf_gemm_add_axis(qf_gemm_axes *axes, qf_gemm_axis axis) {
    axes->axis[axes->rank++] = axis;
}

static int64_t offset_of(const qf_gemm_axes *axes, int64_t index, int slot) {
    int64_t offset = 0;
    for (uint32_t i = axes->rank; i-- > 0; index /= axes->axis[i].size)
        offset += index % axes->axis[i].size * axes->axis[i].stride[slot];
    return offset;
}

static void exchange_slots(qf_gemm_axes *axes) {
    for (uint32_t i = 0; i < axes->rank; i++) {
        int64_t *stride = axes->axis[i].stride, a = stride[QF_GEMM_A], scale = stride[QF_GEMM_A_SCALE];
        stride[QF_GEMM_A] = stride[QF_GEMM_B];
        stride[QF_GEMM_B] = a;
        stride[QF_GEMM_A_SCALE] = stride[QF_GEMM_B_SCALE];
        stride[QF_GEMM_B_SCALE] = scale;
    }
}

void qf_gemm_orient(qf_gemm *gemm) {
    if (extent_of(&gemm->m) <= extent_of(&gemm->n)) return;
    qf_gemm_axes rows = gemm->m;
    const qf_view *a = gemm->a, *scale = gemm->a_scale;
    gemm->m = gemm->n;
    gemm->n = rows;
    gemm->a = gemm->b;
    gemm->b = a;
    gemm->a_scale = gemm->b_scale;
    gemm->b_scale = scale;
    exchange_slots(&gemm->batch);
    exchange_slots(&gemm->m);
    exchange_slots(&gemm->n);
    exchange_slots(&gemm->k);
}

static qf_domain domain_of(const qf_gemm *gemm) {
    qf_domain a = qf_domain_of(gemm->a->dtype), b = qf_domain_of(gemm->b->dtype);
    if (a == QF_DOMAIN_F64 || b == QF_DOMAIN_F64) return QF_DOMAIN_F64;
    return a == QF_DOMAIN_I64 && b == QF_DOMAIN_I64 ? QF_DOMAIN_I64 : QF_DOMAIN_F32;
}

/* --- packing: columns `first` .. of an operand become panel[k * width + column], in f32, scaled; missing columns are
 * zero --- */

typedef struct source {
    const qf_view *view, *scale;
    int slot, scale_slot;
    const qf_gemm_axes *columns, *k;
} source;

static void pack_line(const source *from, int64_t offset, int64_t stride, int64_t count, int64_t width, float *panel) {
    float run[256];
    const qf_view *view = from->view;
    for (int64_t done = 0; done < count; done += 256) {
        int64_t now = count - done < 256 ? count - done : 256;
        if (stride == 1)
            qf_load_array_f32(view->dtype, view->data, offset + done, now, run);
        else
            for (int64_t i = 0; i < now; i++)
                run[i] = qf_load_f32(view->dtype, view->data, offset + (done + i) * stride);
        for (int64_t i = 0; i < now; i++) panel[(done + i) * width] = run[i];
    }
}

/* The other way round, where neighbouring columns are neighbours in memory. */
static void pack_across(const source *from, int64_t offset, int64_t first, int64_t count, int64_t width, float *panel) {
    int64_t depth = extent_of(from->k), inner = from->columns->axis[from->columns->rank - 1].size;
    for (int64_t j = 0; j < count;) {
        int64_t run = inner - (first + j) % inner, column = offset + offset_of(from->columns, first + j, from->slot);
        if (run > count - j) run = count - j;
        for (int64_t k = 0; k < depth; k++)
            qf_load_array_f32(from->view->dtype, from->view->data, column + offset_of(from->k, k, from->slot), run,
                              panel + k * width + j);
        j += run;
    }
}

static void pack(const source *from, int64_t offset, int64_t scale_offset, int64_t first, int64_t count, int64_t width,
                 float *panel) {
    int64_t depth = extent_of(from->k);
    const qf_gemm_axis *last = from->k->rank ? &from->k->axis[from->k->rank - 1] : NULL;
    int64_t run = last ? last->size : 1, stride = last ? last->stride[from->slot] : 1;
    bool across =
        stride != 1 && from->columns->rank && from->columns->axis[from->columns->rank - 1].stride[from->slot] == 1;
    if (across) pack_across(from, offset, first, count, width, panel);
    for (int64_t j = 0; j < count; j++) {
        int64_t column = offset + offset_of(from->columns, first + j, from->slot);
        for (int64_t k = 0; !across && k < depth; k += run)
            pack_line(from, column + offset_of(from->k, k, from->slot), stride, run, width, panel + k * width + j);
        if (!from->scale) continue;
        int64_t at = scale_offset + offset_of(from->columns, first + j, from->scale_slot);
        float scale = qf_load_f32(from->scale->dtype, from->scale->data, at);
        for (int64_t k = 0; k < depth; k++) panel[k * width + j] *= scale;
    }
    for (int64_t j = count; j < width; j++)
        for (int64_t k = 0; k < depth; k++) panel[k * width + j] = 0.0f;
}

/* --- f32 --- */

typedef struct product {
    const qf_gemm *gemm;
    int64_t batches, rows, columns, depth, row_tiles, column_blocks;
    float *tiles;  /* [batch][row tile][k][QF_GEMM_ROWS] */
    float *panels; /* a panel for each thread */
    size_t panel_stride;
} product;

static void measure(const qf_gemm *gemm, product *out) {
    *out = (product){.gemm = gemm, .batches = extent_of(&gemm->batch), .rows = extent_of(&gemm->m)};
    out->columns = extent_of(&gemm->n);
    out->depth = extent_of(&gemm->k);
    out->row_tiles = (out->rows + QF_GEMM_ROWS - 1) / QF_GEMM_ROWS;
    out->column_blocks = (out->columns + QF_GEMM_COLUMNS - 1) / QF_GEMM_COLUMNS;
}

static size_t tiles_size(const product *job) {
    uint64_t floats;
    if (__builtin_mul_overflow((uint64_t)job->batches * (uint64_t)job->row_tiles, (uint64_t)job->depth * QF_GEMM_ROWS,
                               &floats))
        return SIZE_MAX;
    return qf_cpu_scratch_add(64, floats, sizeof(float)); /* never nothing, so that scratch is never NULL */
}

size_t qf_gemm_scratch(const qf_gemm *gemm, uint32_t thread_count) {
    product job;
    measure(gemm, &job);
    if (domain_of(gemm) != QF_DOMAIN_F32) return 0;
    size_t total = tiles_size(&job);
    for (uint32_t i = 0; i < thread_count; i++)
        total = qf_cpu_scratch_add(total, (uint64_t)job.depth * QF_GEMM_COLUMNS, sizeof(float));
    return total;
}

static void pack_rows_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const product *job = context;
    const qf_gemm *gemm = job->gemm;
    source from = {gemm->a, gemm->a_scale, QF_GEMM_A, QF_GEMM_A_SCALE, &gemm->m, &gemm->k};
    (void)thread;
    for (int64_t index = first; index < last; index++) {
        int64_t batch = index / job->row_tiles, row = index % job->row_tiles * QF_GEMM_ROWS;
        int64_t count = job->rows - row < QF_GEMM_ROWS ? job->rows - row : QF_GEMM_ROWS;
        pack(&from, offset_of(&gemm->batch, batch, QF_GEMM_A), offset_of(&gemm->batch, batch, QF_GEMM_A_SCALE), row,
             count, QF_GEMM_ROWS, job->tiles + index * job->depth * QF_GEMM_ROWS);
    }
}

static inline vector load_vector(const float *from) {
    vector loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

void qf_gemm_multiply_tile(const float *a, const float *b, int64_t depth, float *out) {
    vector total[QF_GEMM_ROWS][2] = {{{0}}};
    for (int64_t k = 0; k < depth;) {
        int64_t end = depth - k < QF_SUM_BLOCK ? depth : k + QF_SUM_BLOCK;
        vector sum[QF_GEMM_ROWS][2] = {{{0}}};
        for (; k < end; k++) {
            vector left = load_vector(b + k * QF_GEMM_COLUMNS), right = load_vector(b + k * QF_GEMM_COLUMNS + VECTOR);
            for (int i = 0; i < QF_GEMM_ROWS; i++) {
                float factor = a[k * QF_GEMM_ROWS + i];
                vector factors = {factor, factor, factor, factor};
                sum[i][0] += factors * left;
                sum[i][1] += factors * right;
            }
        }
        for (int i = 0; i < QF_GEMM_ROWS; i++) total[i][0] += sum[i][0], total[i][1] += sum[i][1];
    }
    for (int i = 0; i < QF_GEMM_ROWS; i++) memcpy(out + i * QF_GEMM_COLUMNS, total[i], sizeof total[i]);
}

/* One row of a block: bias, then the output's rounding; runs of neighbouring results together. */
static void store_row(const qf_gemm *gemm, int64_t y, int64_t bias, int64_t count, const int64_t *y_offsets,
                      const int64_t *bias_offsets, float *values) {
    if (gemm->bias)
        for (int64_t j = 0; j < count; j++)
            values[j] += qf_load_f32(gemm->bias->dtype, gemm->bias->data, bias + bias_offsets[j]);
    for (int64_t j = 0; j < count;) {
        int64_t run = 1;
        while (j + run < count && y_offsets[j + run] == y_offsets[j] + run) run++;
        qf_output_store(&gemm->output, y + y_offsets[j], run, values + j);
        j += run;
    }
}

static void multiply_block(const product *job, int64_t batch, int64_t column, const float *panel) {
    const qf_gemm *gemm = job->gemm;
    int64_t count = job->columns - column < QF_GEMM_COLUMNS ? job->columns - column : QF_GEMM_COLUMNS;
    int64_t y_offsets[QF_GEMM_COLUMNS], bias_offsets[QF_GEMM_COLUMNS];
    int64_t y = offset_of(&gemm->batch, batch, QF_GEMM_Y), bias = offset_of(&gemm->batch, batch, QF_GEMM_BIAS);
    float values[QF_GEMM_ROWS * QF_GEMM_COLUMNS];
    for (int64_t j = 0; j < count; j++) {
        y_offsets[j] = offset_of(&gemm->n, column + j, QF_GEMM_Y);
        bias_offsets[j] = offset_of(&gemm->n, column + j, QF_GEMM_BIAS);
    }
    for (int64_t tile = 0; tile < job->row_tiles; tile++) {
        const float *a = job->tiles + (batch * job->row_tiles + tile) * job->depth * QF_GEMM_ROWS;
        for (int64_t j = 0; j < count; j += QF_GEMM_TILE_COLUMNS)
            qf_gemm_multiply_tile(a, panel + j, job->depth, values + j);
        for (int64_t i = 0; i < QF_GEMM_ROWS && tile * QF_GEMM_ROWS + i < job->rows; i++) {
            int64_t row = tile * QF_GEMM_ROWS + i;
            store_row(gemm, y + offset_of(&gemm->m, row, QF_GEMM_Y), bias + offset_of(&gemm->m, row, QF_GEMM_BIAS),
                      count, y_offsets, bias_offsets, values + i * QF_GEMM_COLUMNS);
        }
    }
}

static void multiply_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const product *job = context;
    const qf_gemm *gemm = job->gemm;
    float *panel = job->panels + thread * job->panel_stride;
    source from = {gemm->b, gemm->b_scale, QF_GEMM_B, QF_GEMM_B_SCALE, &gemm->n, &gemm->k};
    for (int64_t index = first; index < last; index++) {
        int64_t batch = index / job->column_blocks, column = index % job->column_blocks * QF_GEMM_COLUMNS;
        int64_t count = job->columns - column < QF_GEMM_COLUMNS ? job->columns - column : QF_GEMM_COLUMNS;
        if (gemm->pack_columns)
            gemm->pack_columns(gemm->pack_user, batch, column, count, panel);
        else
            pack(&from, offset_of(&gemm->batch, batch, QF_GEMM_B), offset_of(&gemm->batch, batch, QF_GEMM_B_SCALE),
                 column, count, QF_GEMM_COLUMNS, panel);
        multiply_block(job, batch, column, panel);
    }
}

static void run_f32(const qf_kernel_call *call, const qf_gemm *gemm) {
    product job;
    measure(gemm, &job);
    uint32_t threads = qf_cpu_thread_count(call);
    if (qf_dtype_bits(gemm->y->dtype) < 8) threads = 1; /* neighbours share bytes */
    job.tiles = call->scratch;
    job.panels = (float *)(void *)((char *)call->scratch + tiles_size(&job));
    job.panel_stride = qf_cpu_scratch_add(0, (uint64_t)job.depth * QF_GEMM_COLUMNS, sizeof(float)) / sizeof(float);
    qf_cpu_parallel(threads, job.batches * job.row_tiles, 16384 / (job.depth + 1) + 1, pack_rows_body, &job);
    int64_t work = job.depth * QF_GEMM_COLUMNS * (job.rows + 16); /* operations of a block */
    qf_cpu_parallel(threads, job.batches * job.column_blocks, 200000 / (work + 1) + 1, multiply_body, &job);
}

/* --- f64 and integers, one result at a time --- */

static void plain_element(const qf_gemm *gemm, int64_t a, int64_t b, int64_t y) {
    int64_t depth = extent_of(&gemm->k);
    bool is_integer = domain_of(gemm) == QF_DOMAIN_I64;
    qf_sum_f64 sum = {0};
    uint64_t integer = 0;
    for (int64_t k = 0; k < depth; k++) {
        int64_t at_a = a + offset_of(&gemm->k, k, QF_GEMM_A), at_b = b + offset_of(&gemm->k, k, QF_GEMM_B);
        if (is_integer)
            integer += (uint64_t)qf_load_i64(gemm->a->dtype, gemm->a->data, at_a) *
                       (uint64_t)qf_load_i64(gemm->b->dtype, gemm->b->data, at_b);
        else
            qf_sum_f64_add(&sum, qf_load_f64(gemm->a->dtype, gemm->a->data, at_a) *
                                     qf_load_f64(gemm->b->dtype, gemm->b->data, at_b));
    }
    if (is_integer)
        qf_store_i64(gemm->y->dtype, gemm->y->data, y, (int64_t)integer);
    else
        qf_store_f64(gemm->y->dtype, gemm->y->data, y, qf_sum_f64_total(&sum), true);
}

static void plain_body(void *context, uint32_t thread, int64_t first, int64_t last) {
    const qf_gemm *gemm = context;
    int64_t rows = extent_of(&gemm->m), columns = extent_of(&gemm->n);
    (void)thread;
    for (int64_t index = first; index < last; index++) {
        int64_t batch = index / rows / columns, row = index / columns % rows, column = index % columns, at[3];
        for (int slot = QF_GEMM_A; slot <= QF_GEMM_Y; slot++)
            at[slot] = offset_of(&gemm->batch, batch, slot) + offset_of(&gemm->m, row, slot) +
                       offset_of(&gemm->n, column, slot);
        plain_element(gemm, at[QF_GEMM_A], at[QF_GEMM_B], at[QF_GEMM_Y]);
    }
}

qf_status qf_gemm_run(const qf_kernel_call *call, const qf_gemm *gemm) {
    int64_t results = extent_of(&gemm->batch) * extent_of(&gemm->m) * extent_of(&gemm->n);
    if (domain_of(gemm) == QF_DOMAIN_F32) {
        run_f32(call, gemm);
        return QF_OK;
    }
    if (gemm->a_scale || gemm->b_scale || gemm->bias || gemm->output.quantises || gemm->pack_columns)
        return qf_cpu_fail(call, QF_ERROR_UNSUPPORTED, "%s of f64 or integers", qf_op_name(call->op));
    qf_gemm plain = *gemm;
    qf_cpu_parallel(call->thread_count, results, 256, plain_body, &plain);
    return QF_OK;
}
