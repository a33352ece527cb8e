/* Owns: tests of the rows of attention on GPUs: which kernel each kind of step gets on which target.
 * Does not own: selection itself (kernels_test.c), what the kernels' builders do (tests/kernels/cuda_attention_test.c).
 * Next: spec/kernels.def. */
#include "tests/check.h"

#include "spec/kernels.h"

typedef struct attention_query {
    qf_kernel_tensor operands[16], results[2];
    qf_kernel_value values[24];
    qf_kernel_query query;
} attention_query;

static qf_kernel_tensor tensor(qf_dtype dtype, uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return (qf_kernel_tensor){.dtype = dtype, .present = true, .rank = rank, .dims = {a, b, c, d}};
}

/* q [?, 32, depth], caches [?, page, 8, depth]. */
static void paged(attention_query *out, qf_dtype q, qf_dtype cache, qf_dtype result, int64_t depth, int64_t page) {
    memset(out, 0, sizeof *out);
    out->operands[QF_IN(paged_attention, q)] = tensor(q, 3, -1, 32, depth, 0);
    out->operands[QF_IN(paged_attention, k_cache)] = tensor(cache, 4, -1, page, 8, depth);
    out->operands[QF_IN(paged_attention, v_cache)] = tensor(cache, 4, -1, page, 8, depth);
    out->operands[QF_IN(paged_attention, kv_lens)] = tensor(QF_I32, 1, -1, 0, 0, 0);
    out->results[0] = tensor(result, 3, -1, 32, depth, 0);
    out->values[QF_ATTR(paged_attention, layout)].integer = QF_VALUE_nhd;
    out->values[QF_ATTR(paged_attention, causal)].integer = 1;
    out->values[QF_ATTR(paged_attention, align)].integer = QF_VALUE_bottom_right;
    out->values[QF_ATTR(paged_attention, window_left)].integer = -1;
    out->values[QF_ATTR(paged_attention, window_right)].integer = -1;
    out->values[QF_ATTR(paged_attention, p)].integer = QF_VALUE_kernel;
    out->query = (qf_kernel_query){QF_OP_paged_attention, out->operands, out->results, 12, 2, out->values};
}

/* q [?, 32, ?, depth], k and v [?, 8, ?, depth]. */
static void dense(attention_query *out, qf_dtype operands, qf_dtype result, int64_t depth) {
    paged(out, operands, operands, result, depth, 64);
    out->operands[QF_IN(attention, q)] = tensor(operands, 4, -1, 32, -1, depth);
    for (uint32_t i = 1; i < 3; i++) out->operands[i] = tensor(operands, 4, -1, 8, -1, depth);
    memset(&out->operands[3], 0, sizeof out->operands - 3 * sizeof out->operands[0]);
    out->values[QF_ATTR(attention, layout)].integer = QF_VALUE_bhsd;
    out->query.op = QF_OP_attention;
    out->query.operand_count = 13;
}

static void expect_row(const attention_query *query, qf_target target, uint32_t number) {
    char reason[256] = "";
    const qf_kernel_row *row = qf_kernel_select(target, &query->query, reason, sizeof reason);
    if (!row) fail_msg("no row where %u was expected: %s", number, reason);
    if (row->number != number) fail_msg("row %u (%s), expected %u", row->number, row->name, number);
}

static void paged_steps_by_type_and_size(void **state) {
    (void)state;
    static const struct {
        qf_dtype q, cache, result;
        int64_t depth, page;
        uint32_t number;
    } cases[] = {{QF_F8E4M3FN, QF_F8E4M3FN, QF_F8E4M3FN, 128, 64, 2000},
                 {QF_BF16, QF_F8E4M3FN, QF_BF16, 64, 16, 2000},
                 {QF_F16, QF_F8E4M3FN, QF_F8E5M2, 256, 128, 2000},
                 {QF_BF16, QF_F8E5M2, QF_F16, 128, 32, 2001},
                 {QF_BF16, QF_BF16, QF_F8E4M3FN, 128, 64, 2002},
                 {QF_F16, QF_BF16, QF_F8E4M3FN, 128, 64, 1141},
                 {QF_F16, QF_F16, QF_F16, 128, 64, 2015},
                 {QF_F16, QF_F16, QF_F16, 128, 256, 1141},
                 {QF_F32, QF_F8E4M3FN, QF_F32, 128, 64, 1141},
                 {QF_F8E5M2, QF_F8E5M2, QF_F8E4M3FN, 128, 64, 1141},
                 {QF_BF16, QF_F8E4M3FN, QF_BF16, 96, 64, 1141},
                 {QF_BF16, QF_F8E4M3FN, QF_BF16, 320, 64, 1141},
                 {QF_BF16, QF_F8E4M3FN, QF_BF16, 128, 8, 1141},
                 {QF_BF16, QF_F8E4M3FN, QF_F32, 128, 64, 1141},
                 {QF_F8E4M3FN, QF_F8E4M3FN, QF_F8E4M3FN, 128, -1, 1141}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attention_query query;
        paged(&query, cases[i].q, cases[i].cache, cases[i].result, cases[i].depth, cases[i].page);
        expect_row(&query, QF_TARGET_sm_90a, cases[i].number);
        expect_row(&query, QF_TARGET_sm_89, 1141);
        expect_row(&query, QF_TARGET_sm_100a, 1141);
    }
}

static void paged_steps_by_feature(void **state) {
    (void)state;
    attention_query query;
    paged(&query, QF_F8E4M3FN, QF_F8E4M3FN, QF_F8E4M3FN, 128, 64);
    query.operands[QF_IN(paged_attention, q_start)] = tensor(QF_I32, 1, -1, 0, 0, 0);
    query.operands[QF_IN(paged_attention, sinks)] = tensor(QF_F32, 1, 32, 0, 0, 0);
    query.operands[QF_IN(paged_attention, k_scale)] = tensor(QF_F32, 1, 8, 0, 0, 0);
    query.values[QF_ATTR(paged_attention, softcap)].number = 30;
    query.values[QF_ATTR(paged_attention, window_left)].integer = 4096;
    query.values[QF_ATTR(paged_attention, via)].integer = QF_BF16;
    query.results[1] = tensor(QF_F32, 2, -1, 32, 0, 0);
    expect_row(&query, QF_TARGET_sm_90a, 2000);
    /* Rows without a key, and places at the top left, are what prefill has and decode has not. */
    query.values[QF_ATTR(paged_attention, empty_row)].integer = QF_VALUE_nan;
    expect_row(&query, QF_TARGET_sm_90a, 2011);
    query.values[QF_ATTR(paged_attention, empty_row)].integer = QF_VALUE_zero;
    query.values[QF_ATTR(paged_attention, align)].integer = QF_VALUE_top_left;
    expect_row(&query, QF_TARGET_sm_90a, 2011);
    for (int i = 1; i < 3; i++) query.operands[i].dtype = QF_BF16;
    query.operands[QF_IN(paged_attention, q)].dtype = QF_BF16;
    expect_row(&query, QF_TARGET_sm_90a, 2013);
    query.values[QF_ATTR(paged_attention, align)].integer = QF_VALUE_bottom_right;
    query.values[QF_ATTR(paged_attention, p)].integer = QF_VALUE_graph;
    expect_row(&query, QF_TARGET_sm_90a, 1141);
}

static void dense_steps(void **state) {
    (void)state;
    attention_query query;
    dense(&query, QF_F8E4M3FN, QF_F8E4M3FN, 128);
    expect_row(&query, QF_TARGET_sm_90a, 2010);
    expect_row(&query, QF_TARGET_sm_89, 1140);
    query.operands[QF_IN(attention, kv_lens)] = tensor(QF_I32, 1, -1, 0, 0, 0);
    query.values[QF_ATTR(attention, align)].integer = QF_VALUE_top_left;
    expect_row(&query, QF_TARGET_sm_90a, 2010);
    query.operands[QF_IN(attention, mask)] = tensor(QF_I1, 2, -1, -1, 0, 0);
    expect_row(&query, QF_TARGET_sm_90a, 1140);
    dense(&query, QF_F8E4M3FN, QF_F8E4M3FN, 128);
    query.operands[QF_IN(attention, bias)] = tensor(QF_F32, 2, -1, -1, 0, 0);
    expect_row(&query, QF_TARGET_sm_90a, 1140);
    dense(&query, QF_F8E4M3FN, QF_F32, 128);
    expect_row(&query, QF_TARGET_sm_90a, 1140);
    dense(&query, QF_F8E4M3FN, QF_F8E4M3FN, 80);
    expect_row(&query, QF_TARGET_sm_90a, 1140);
    dense(&query, QF_BF16, QF_F8E4M3FN, 128);
    expect_row(&query, QF_TARGET_sm_90a, 2012);
    expect_row(&query, QF_TARGET_sm_100a, 1140);
    query.values[QF_ATTR(attention, p)].integer = QF_VALUE_none;
    expect_row(&query, QF_TARGET_sm_90a, 2012);
    dense(&query, QF_F16, QF_F16, 256);
    expect_row(&query, QF_TARGET_sm_90a, 2014);
    query.operands[QF_IN(attention, v)].dtype = QF_BF16;
    expect_row(&query, QF_TARGET_sm_90a, 1140);
}

/* The general kernel is the last of its op, and takes what the others refuse. */
static void general_rows_stand_last(void **state) {
    (void)state;
    uint32_t count;
    const qf_kernel_row *rows = qf_kernel_table(&count), *last[2] = {NULL, NULL};
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].targets >> QF_TARGET_sm_90a & 1u) {
            if (rows[i].op == QF_OP_attention) last[0] = &rows[i];
            if (rows[i].op == QF_OP_paged_attention) last[1] = &rows[i];
        }
    for (uint32_t i = 0; i < 2; i++) {
        assert_non_null(last[i]);
        assert_int_equal(last[i]->number, 1140 + i);
        assert_int_equal(last[i]->features, QF_KERNEL_EVERYTHING);
        assert_int_equal(last[i]->head_dim.most, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(paged_steps_by_type_and_size),
                                       cmocka_unit_test(paged_steps_by_feature), cmocka_unit_test(dense_steps),
                                       cmocka_unit_test(general_rows_stand_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
