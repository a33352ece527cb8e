/* Owns: tests of attention and paged_attention against a reference in f64 that is written from the definition.
 * Does not own: reference values of other kernels (the other files here).
 * Next: docs/numerics.md. */
#include "tests/kernels/kernel_check.h"

/* --- the definition, in f64, one score at a time --- */

/* Everything that spec/ops.def says of one call; q, k, v are numbers after dequantisation. */
typedef struct definition {
    int64_t batch, heads, kv_heads, rows, keys, depth, out_depth; /* rows: most of a sequence */
    const double *q;                                              /* [batch][heads][rows][depth] */
    const double *k;                                              /* [batch][kv_heads][keys][depth] */
    const double *v;                                              /* [batch][kv_heads][keys][out_depth] */
    const double *bias;                                           /* [batch][heads][rows][keys] or NULL */
    const bool *mask;                                             /* likewise */
    const int64_t *lengths, *row_counts;                          /* NULL: all */
    const double *sinks;
    double scale, softcap;
    bool causal, bottom_right, nan_rows;
    int64_t window_left, window_right;
} definition;

static bool is_visible(const definition *d, int64_t b, int64_t h, int64_t t, int64_t s) {
    int64_t length = d->lengths ? d->lengths[b] : d->keys, rows = d->row_counts ? d->row_counts[b] : d->rows;
    int64_t position = d->bottom_right ? t + length - rows : t, at = ((b * d->heads + h) * d->rows + t) * d->keys + s;
    if (s >= length) return false;
    if (d->causal && s > position) return false;
    if (d->window_left >= 0 && s < position - d->window_left) return false;
    if (d->window_right >= 0 && s > position + d->window_right) return false;
    if (d->mask && !d->mask[at]) return false;
    return !d->bias || d->bias[at] != -HUGE_VAL;
}

static double score(const definition *d, int64_t b, int64_t h, int64_t t, int64_t s) {
    int64_t g = h / (d->heads / d->kv_heads);
    double sum = 0;
    for (int64_t i = 0; i < d->depth; i++)
        sum += d->q[((b * d->heads + h) * d->rows + t) * d->depth + i] *
               d->k[((b * d->kv_heads + g) * d->keys + s) * d->depth + i];
    sum *= d->scale;
    if (d->softcap > 0) sum = d->softcap * tanh(sum / d->softcap);
    return d->bias ? sum + d->bias[((b * d->heads + h) * d->rows + t) * d->keys + s] : sum;
}

/* One row: out[out_depth], returns lse. */
static double define_row(const definition *d, int64_t b, int64_t h, int64_t t, double *out) {
    double most = d->sinks ? d->sinks[h] : -HUGE_VAL, sum = 0;
    bool any = false;
    int64_t g = h / (d->heads / d->kv_heads);
    for (int64_t s = 0; s < d->keys; s++) {
        if (!is_visible(d, b, h, t, s)) continue;
        any = true;
        most = fmax(most, score(d, b, h, t, s));
    }
    for (int64_t e = 0; e < d->out_depth; e++) out[e] = any ? 0 : d->nan_rows ? NAN : 0;
    if (!any) return d->sinks ? d->sinks[h] : -HUGE_VAL;
    for (int64_t s = 0; s < d->keys; s++) {
        if (!is_visible(d, b, h, t, s)) continue;
        double weight = exp(score(d, b, h, t, s) - most);
        sum += weight;
        for (int64_t e = 0; e < d->out_depth; e++)
            out[e] += weight * d->v[((b * d->kv_heads + g) * d->keys + s) * d->out_depth + e];
    }
    if (d->sinks) sum += exp(d->sinks[h] - most);
    for (int64_t e = 0; e < d->out_depth; e++) out[e] /= sum;
    return most + log(sum);
}

/* --- random calls --- */

typedef struct case_data {
    definition d;
    double *q, *k, *v, *bias;
    bool *mask;
    int64_t lengths[4], row_counts[4], starts[5];
    double sinks[32];
} case_data;

static double *random_numbers(random_state *random, int64_t count, double deviation, double mean) {
    double *numbers = malloc((size_t)count * sizeof *numbers + 1);
    assert_non_null(numbers);
    for (int64_t i = 0; i < count; i++) numbers[i] = (double)(float)(random_normal(random) * deviation + mean);
    return numbers;
}

static void make_case(random_state *random, case_data *out, bool packed) {
    static const int64_t groups[] = {1, 2, 3, 4, 5, 8, 16};
    definition *d = &out->d;
    memset(out, 0, sizeof *out);
    d->batch = 1 + random_below(random, 3);
    d->kv_heads = 1 + random_below(random, 2);
    d->heads = d->kv_heads * groups[random_below(random, 7)];
    d->rows = 1 + random_below(random, 9);
    d->keys = 1 + random_below(random, 150);
    d->depth = 1 + random_below(random, 70);
    d->out_depth = 1 + random_below(random, 70);
    d->q = out->q = random_numbers(random, d->batch * d->heads * d->rows * d->depth, 1, 0);
    d->k = out->k = random_numbers(random, d->batch * d->kv_heads * d->keys * d->depth, 1, 0);
    d->v = out->v = random_numbers(random, d->batch * d->kv_heads * d->keys * d->out_depth, 1, 0.25);
    d->scale = (double)(float)(random_below(random, 4) ? 1.0 / sqrt((double)d->depth) : -0.3);
    d->softcap = random_below(random, 3) ? 0 : 1.5;
    d->causal = random_below(random, 2);
    d->bottom_right = random_below(random, 2);
    d->nan_rows = random_below(random, 2);
    d->window_left = random_below(random, 3) ? -1 : (int64_t)random_below(random, 20);
    d->window_right = random_below(random, 3) ? -1 : (int64_t)random_below(random, 20);
    for (int64_t b = 0; b < d->batch; b++) {
        out->lengths[b] = random_below(random, (uint32_t)d->keys + 1);
        out->row_counts[b] = packed ? (int64_t)random_below(random, (uint32_t)d->rows + 1) : d->rows;
        out->starts[b + 1] = out->starts[b] + out->row_counts[b];
    }
    if (packed || random_below(random, 2)) d->lengths = out->lengths;
    if (packed) d->row_counts = out->row_counts;
    if (random_below(random, 2)) {
        for (int64_t h = 0; h < d->heads; h++) out->sinks[h] = (double)(float)random_normal(random);
        d->sinks = out->sinks;
    }
    int64_t scores = d->batch * d->heads * d->rows * d->keys;
    if (random_below(random, 2)) {
        d->bias = out->bias = random_numbers(random, scores, 1, 0);
        for (int64_t i = 0; i < scores; i++)
            if (random_below(random, 5) == 0) out->bias[i] = -HUGE_VAL;
    }
    if (random_below(random, 2)) {
        out->mask = malloc((size_t)scores);
        assert_non_null(out->mask);
        for (int64_t i = 0; i < scores; i++) out->mask[i] = random_below(random, 4) != 0;
        d->mask = out->mask;
    }
}

static void free_case(case_data *data) {
    free(data->q);
    free(data->k);
    free(data->v);
    free(data->bias);
    free(data->mask);
}

static void set_attributes(kernel_test *test, const definition *d) {
    test->attributes[QF_ATTR(attention, scale)].number = d->scale;
    test->attributes[QF_ATTR(attention, softcap)].number = d->softcap;
    test->attributes[QF_ATTR(attention, causal)].integer = d->causal;
    test->attributes[QF_ATTR(attention, align)].integer = d->bottom_right ? QF_VALUE_bottom_right : QF_VALUE_top_left;
    test->attributes[QF_ATTR(attention, empty_row)].integer = d->nan_rows ? QF_VALUE_nan : QF_VALUE_zero;
    test->attributes[QF_ATTR(attention, window_left)].integer = d->window_left;
    test->attributes[QF_ATTR(attention, window_right)].integer = d->window_right;
}

/* [batch][heads][tokens][depth] numbers, as they are or with heads after tokens. */
static void put_layout(qf_view *view, bool heads_first, int64_t batch, int64_t heads, int64_t tokens, int64_t depth,
                       const double *numbers) {
    int64_t i = 0;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < tokens; t++)
                for (int64_t e = 0; e < depth; e++, i++) {
                    int64_t line = heads_first ? (b * heads + h) * tokens + t : (b * tokens + t) * heads + h;
                    qf_store_f64(view->dtype, view->data, line * depth + e, numbers[i], true);
                }
}

static shape layout_shape(bool heads_first, int64_t batch, int64_t heads, int64_t tokens, int64_t depth) {
    return heads_first ? SHAPE(batch, heads, tokens, depth) : SHAPE(batch, tokens, heads, depth);
}

static void put_common(kernel_test *test, const case_data *data) {
    const definition *d = &data->d;
    double lengths[4], starts[5];
    for (int i = 0; i < 4; i++) lengths[i] = (double)data->lengths[i];
    for (int i = 0; i < 5; i++) starts[i] = (double)data->starts[i];
    if (d->lengths) check_operand(test, QF_IN(attention, kv_lens), QF_I32, SHAPE(d->batch), lengths);
    if (d->row_counts) check_operand(test, QF_IN(attention, q_start), QF_I32, SHAPE(d->batch + 1), starts);
    if (d->sinks) check_operand(test, QF_IN(attention, sinks), QF_F32, SHAPE(d->heads), d->sinks);
}

/* Compares out and lse with the definition. `row_of` gives the line of (b, h, t) in out and in lse. */
static void check_against_definition(const kernel_test *test, const definition *d, bool heads_first,
                                     const int64_t *starts) {
    double expected[80];
    for (int64_t b = 0; b < d->batch; b++) {
        for (int64_t h = 0; h < d->heads; h++) {
            for (int64_t t = 0; t < (d->row_counts ? d->row_counts[b] : d->rows); t++) {
                double lse = define_row(d, b, h, t, expected);
                int64_t line = heads_first ? (b * d->heads + h) * d->rows + t : (b * d->rows + t) * d->heads + h;
                int64_t lse_at = (b * d->heads + h) * d->rows + t;
                if (starts) line = lse_at = (starts[b] + t) * d->heads + h;
                for (int64_t e = 0; e < d->out_depth; e++) {
                    double found = result_at(test, 0, line * d->out_depth + e);
                    if (!same_number(found, expected[e]) &&
                        !(fabs(found - expected[e]) < 2e-5 * (1 + fabs(expected[e]))))
                        fail_msg("row (%d, %d, %d) element %d is %.9g, expected %.9g", (int)b, (int)h, (int)t, (int)e,
                                 found, expected[e]);
                }
                double found = result_at(test, 1, lse_at);
                if (!same_number(found, lse) && !(fabs(found - lse) < 1e-5 * (1 + fabs(lse))))
                    fail_msg("lse of (%d, %d, %d) is %.9g, expected %.9g", (int)b, (int)h, (int)t, found, lse);
            }
        }
    }
}

static void dense_agrees_with_the_definition(void **state) {
    (void)state;
    random_state random = {1};
    for (int round = 0; round < 60; round++) {
        case_data data;
        kernel_test test;
        make_case(&random, &data, false);
        const definition *d = &data.d;
        bool heads_first = round % 2;
        check_start(&test, QF_OP_attention);
        set_attributes(&test, d);
        test.attributes[QF_ATTR(attention, layout)].integer = heads_first ? QF_VALUE_bhsd : QF_VALUE_bshd;
        put_layout(
            check_operand(&test, 0, QF_F32, layout_shape(heads_first, d->batch, d->heads, d->rows, d->depth), NULL),
            heads_first, d->batch, d->heads, d->rows, d->depth, d->q);
        put_layout(
            check_operand(&test, 1, QF_F32, layout_shape(heads_first, d->batch, d->kv_heads, d->keys, d->depth), NULL),
            heads_first, d->batch, d->kv_heads, d->keys, d->depth, d->k);
        put_layout(check_operand(&test, 2, QF_F32,
                                 layout_shape(heads_first, d->batch, d->kv_heads, d->keys, d->out_depth), NULL),
                   heads_first, d->batch, d->kv_heads, d->keys, d->out_depth, d->v);
        put_common(&test, &data);
        if (d->bias)
            check_operand(&test, QF_IN(attention, bias), QF_F32, SHAPE(d->batch, d->heads, d->rows, d->keys), d->bias);
        if (d->mask) {
            qf_view *mask =
                check_operand(&test, QF_IN(attention, mask), QF_I1, SHAPE(d->batch, d->heads, d->rows, d->keys), NULL);
            for (int64_t i = 0; i < view_count(mask); i++) qf_store_i64(QF_I1, mask->data, i, d->mask[i]);
        }
        check_result(&test, 0, QF_F32, layout_shape(heads_first, d->batch, d->heads, d->rows, d->out_depth));
        check_result(&test, 1, QF_F32, SHAPE(d->batch, d->heads, d->rows));
        check_threads_agree(&test);
        check_against_definition(&test, d, heads_first, NULL);
        check_finish(&test);
        free_case(&data);
    }
}

/* Rows of all sequences one after another, with one padded row at the end. */
static void put_packed(kernel_test *test, const case_data *data) {
    const definition *d = &data->d;
    int64_t rows = data->starts[d->batch] + 1;
    qf_view *q = check_operand(test, 0, QF_F32, SHAPE(rows, d->heads, d->depth), NULL);
    memset(q->data, 0, view_bytes(q));
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t t = 0; t < d->row_counts[b]; t++)
            for (int64_t h = 0; h < d->heads; h++)
                for (int64_t i = 0; i < d->depth; i++)
                    qf_store_f64(QF_F32, q->data, ((data->starts[b] + t) * d->heads + h) * d->depth + i,
                                 d->q[((b * d->heads + h) * d->rows + t) * d->depth + i], true);
    check_result(test, 0, QF_F32, SHAPE(rows, d->heads, d->out_depth));
    check_result(test, 1, QF_F32, SHAPE(rows, d->heads));
}

static void packed_agrees_with_the_definition(void **state) {
    (void)state;
    random_state random = {2};
    for (int round = 0; round < 30; round++) {
        case_data data;
        kernel_test test;
        make_case(&random, &data, true);
        definition *d = &data.d;
        check_start(&test, QF_OP_attention);
        set_attributes(&test, d);
        put_packed(&test, &data);
        put_layout(check_operand(&test, 1, QF_F32, SHAPE(d->batch, d->kv_heads, d->keys, d->depth), NULL), true,
                   d->batch, d->kv_heads, d->keys, d->depth, d->k);
        put_layout(check_operand(&test, 2, QF_F32, SHAPE(d->batch, d->kv_heads, d->keys, d->out_depth), NULL), true,
                   d->batch, d->kv_heads, d->keys, d->out_depth, d->v);
        put_common(&test, &data);
        if (d->bias)
            check_operand(&test, QF_IN(attention, bias), QF_F32, SHAPE(d->batch, d->heads, d->rows, d->keys), d->bias);
        d->mask = NULL;
        check_threads_agree(&test);
        check_against_definition(&test, d, true, data.starts);
        /* The padded row belongs to no sequence: it has no key. */
        double padded = result_at(&test, 0, data.starts[d->batch] * d->heads * d->out_depth);
        assert_true(d->nan_rows ? isnan(padded) : padded == 0);
        check_finish(&test);
        free_case(&data);
    }
}

/* Pages in random order; everything that no key lies in is NaN, and unused entries of the table are wild. */
static void put_pages(kernel_test *test, const case_data *data, bool tokens_first, random_state *random, int64_t page) {
    const definition *d = &data->d;
    int64_t most = (d->keys + page - 1) / page, pages = d->batch * most + 2, order[1024];
    assert_true(pages <= 1024);
    for (int64_t i = 0; i < pages; i++) order[i] = i;
    for (int64_t i = pages - 1; i > 0; i--) {
        int64_t j = random_below(random, (uint32_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    qf_view *table = check_operand(test, QF_IN(paged_attention, block_table), QF_I32, SHAPE(d->batch, most), NULL);
    for (uint32_t cache = 1; cache <= 2; cache++) {
        int64_t depth = cache == 1 ? d->depth : d->out_depth;
        const double *numbers = cache == 1 ? d->k : d->v;
        shape dims = tokens_first ? SHAPE(pages, page, d->kv_heads, depth) : SHAPE(pages, d->kv_heads, page, depth);
        qf_view *view = check_operand(test, cache, QF_F32, dims, NULL);
        for (int64_t i = 0; i < view_count(view); i++) qf_store_f64(QF_F32, view->data, i, NAN, true);
        for (int64_t b = 0; b < d->batch; b++) {
            for (int64_t i = 0; i < most; i++)
                qf_store_i64(QF_I32, table->data, b * most + i,
                             i * page < data->lengths[b] ? order[b * most + i] : -7000000);
            for (int64_t s = 0; s < data->lengths[b]; s++)
                for (int64_t g = 0; g < d->kv_heads; g++)
                    for (int64_t e = 0; e < depth; e++) {
                        int64_t at = order[b * most + s / page], token = s % page;
                        int64_t line = tokens_first ? (at * page + token) * d->kv_heads + g
                                                    : (at * d->kv_heads + g) * page + token;
                        qf_store_f64(QF_F32, view->data, line * depth + e,
                                     numbers[((b * d->kv_heads + g) * d->keys + s) * depth + e], true);
                    }
        }
    }
}

static void fault_47_51_paged_equals_dense_in_both_layouts(void **state) {
    (void)state;
    random_state random = {3};
    for (int round = 0; round < 30; round++) {
        case_data data;
        kernel_test test;
        make_case(&random, &data, true);
        definition *d = &data.d;
        bool tokens_first = round % 2;
        d->bias = NULL;
        d->mask = NULL;
        check_start(&test, QF_OP_paged_attention);
        test.attributes[QF_ATTR(paged_attention, scale)].number = d->scale;
        test.attributes[QF_ATTR(paged_attention, softcap)].number = d->softcap;
        test.attributes[QF_ATTR(paged_attention, causal)].integer = d->causal;
        test.attributes[QF_ATTR(paged_attention, align)].integer = d->bottom_right;
        test.attributes[QF_ATTR(paged_attention, empty_row)].integer = d->nan_rows;
        test.attributes[QF_ATTR(paged_attention, window_left)].integer = d->window_left;
        test.attributes[QF_ATTR(paged_attention, window_right)].integer = d->window_right;
        test.attributes[QF_ATTR(paged_attention, layout)].integer = tokens_first ? QF_VALUE_nhd : QF_VALUE_hnd;
        put_packed(&test, &data);
        put_pages(&test, &data, tokens_first, &random, 1 + random_below(&random, 32));
        double numbers[5];
        for (int i = 0; i < 4; i++) numbers[i] = (double)data.lengths[i];
        check_operand(&test, QF_IN(paged_attention, kv_lens), QF_I32, SHAPE(d->batch), numbers);
        for (int i = 0; i < 5; i++) numbers[i] = (double)data.starts[i];
        check_operand(&test, QF_IN(paged_attention, q_start), QF_I32, SHAPE(d->batch + 1), numbers);
        if (d->sinks) check_operand(&test, QF_IN(paged_attention, sinks), QF_F32, SHAPE(d->heads), d->sinks);
        check_threads_agree(&test);
        check_against_definition(&test, d, true, data.starts);

        /* The same bits from contiguous keys. */
        kernel_test dense;
        check_start(&dense, QF_OP_attention);
        set_attributes(&dense, d);
        put_packed(&dense, &data);
        check_operand(&dense, 1, QF_F32, SHAPE(d->batch, d->kv_heads, d->keys, d->depth), d->k);
        check_operand(&dense, 2, QF_F32, SHAPE(d->batch, d->kv_heads, d->keys, d->out_depth), d->v);
        put_common(&dense, &data);
        check_succeeds(&dense);
        assert_memory_equal(dense.results[0].data, test.results[0].data, view_bytes(&dense.results[0]));
        assert_memory_equal(dense.results[1].data, test.results[1].data, view_bytes(&dense.results[1]));
        check_finish(&dense);
        check_finish(&test);
        free_case(&data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_agrees_with_the_definition),
        cmocka_unit_test(packed_agrees_with_the_definition),
        cmocka_unit_test(fault_47_51_paged_equals_dense_in_both_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
