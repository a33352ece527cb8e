/* Owns: tests of kernel selection: rows, limits, features, reasons.
 * Does not own: kernels themselves (tests/kernels).
 * Next: spec/kernels.c. */
#include "tests/check.h"

#include "spec/kernels.h"

/* A paged attention: q [rows, 32, 128], caches [pages, 64, 8, 128]. */
typedef struct paged_query {
    qf_kernel_tensor operands[12], results[2];
    qf_kernel_value values[16];
    qf_kernel_query query;
} paged_query;

static qf_kernel_tensor tensor(qf_dtype dtype, uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return (qf_kernel_tensor){.dtype = dtype, .present = true, .rank = rank, .dims = {a, b, c, d}};
}

static void make_query(paged_query *out, qf_dtype q, qf_dtype cache) {
    memset(out, 0, sizeof *out);
    out->operands[QF_IN(paged_attention, q)] = tensor(q, 3, -1, 32, 128, 0);
    out->operands[QF_IN(paged_attention, k_cache)] = tensor(cache, 4, -1, 64, 8, 128);
    out->operands[QF_IN(paged_attention, v_cache)] = tensor(cache, 4, -1, 64, 8, 128);
    out->operands[QF_IN(paged_attention, k_scale)] = tensor(QF_F32, 0, 0, 0, 0, 0);
    out->results[0] = tensor(QF_F8E4M3FN, 3, -1, 32, 128, 0);
    out->values[QF_ATTR(paged_attention, layout)].integer = QF_VALUE_nhd;
    out->values[QF_ATTR(paged_attention, align)].integer = QF_VALUE_bottom_right;
    out->values[QF_ATTR(paged_attention, window_left)].integer = -1;
    out->values[QF_ATTR(paged_attention, window_right)].integer = -1;
    out->query = (qf_kernel_query){QF_OP_paged_attention, out->operands, out->results, 12, 1, out->values};
}

#define SET(dtype) (1u << QF_##dtype)

static qf_kernel_row narrow_row(void) {
    return (qf_kernel_row){.number = 1000,
                           .name = "paged_fp8",
                           .op = QF_OP_paged_attention,
                           .targets = 1u << QF_TARGET_sm_90a,
                           .operand_dtypes = SET(F8E4M3FN),
                           .cache_dtypes = SET(F8E4M3FN),
                           .result_dtypes = SET(F8E4M3FN),
                           .head_dim = {64, 256, 16},
                           .page = {16, 128, 0},
                           .group_most = 16,
                           .features = QF_KERNEL_PACKED | QF_KERNEL_WINDOW};
}

static void refuse(const qf_kernel_row *row, const paged_query *query, qf_target target, const char *part) {
    char reason[256] = "";
    assert_null(qf_kernel_select_from(row, 1, target, &query->query, reason, sizeof reason));
    if (!strstr(reason, part)) fail_msg("reason \"%s\" lacks \"%s\"", reason, part);
}

static void cpu_takes_every_op(void **state) {
    (void)state;
    uint32_t count;
    const qf_op_info *ops = qf_op_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].op == QF_OP_return || ops[i].op == QF_OP_opaque) continue;
        qf_kernel_value values[16] = {{0, 0}};
        qf_kernel_query query = {.op = ops[i].op, .attributes = values};
        char reason[128] = "";
        const qf_kernel_row *row = qf_kernel_select(QF_TARGET_cpu, &query, reason, sizeof reason);
        if (!row) fail_msg("%s: %s", ops[i].name, reason);
        assert_int_equal(row->number, ops[i].op);
        assert_ptr_equal(qf_kernel_row_of(row->number), row);
    }
}

static void numbers_are_unique(void **state) {
    (void)state;
    uint32_t count;
    const qf_kernel_row *rows = qf_kernel_table(&count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++) assert_int_not_equal(rows[i].number, rows[j].number);
}

static void limits_refuse_with_both_numbers(void **state) {
    (void)state;
    qf_kernel_row row = narrow_row();
    paged_query query;
    make_query(&query, QF_F8E4M3FN, QF_F8E4M3FN);
    assert_ptr_equal(qf_kernel_select_from(&row, 1, QF_TARGET_sm_90a, &query.query, NULL, 0), &row);
    query.operands[QF_IN(paged_attention, q)].dims[2] = 512;
    refuse(&row, &query, QF_TARGET_sm_90a, "head dim is 512; kernel paged_fp8 takes 64 to 256");
    query.operands[QF_IN(paged_attention, q)].dims[2] = 72;
    refuse(&row, &query, QF_TARGET_sm_90a, "head dim is 72");
    query.operands[QF_IN(paged_attention, q)].dims[2] = -1;
    refuse(&row, &query, QF_TARGET_sm_90a, "known at compile time");
    make_query(&query, QF_F8E4M3FN, QF_F8E4M3FN);
    query.operands[QF_IN(paged_attention, k_cache)].dims[1] = 8;
    refuse(&row, &query, QF_TARGET_sm_90a, "page size is 8");
    make_query(&query, QF_F8E4M3FN, QF_F8E4M3FN);
    query.operands[QF_IN(paged_attention, q)].dims[1] = 256;
    refuse(&row, &query, QF_TARGET_sm_90a, "32 query heads share a KV head");
}

static void features_refuse_by_name(void **state) {
    (void)state;
    qf_kernel_row row = narrow_row();
    paged_query query;
    make_query(&query, QF_F8E4M3FN, QF_F8E4M3FN);
    query.values[QF_ATTR(paged_attention, window_left)].integer = 128;
    assert_ptr_equal(qf_kernel_select_from(&row, 1, QF_TARGET_sm_90a, &query.query, NULL, 0), &row);
    query.values[QF_ATTR(paged_attention, softcap)].number = 30.0;
    refuse(&row, &query, QF_TARGET_sm_90a, "a soft cap");
    query.values[QF_ATTR(paged_attention, softcap)].number = 0;
    query.operands[QF_IN(paged_attention, sinks)] = tensor(QF_F32, 1, 32, 0, 0, 0);
    refuse(&row, &query, QF_TARGET_sm_90a, "sinks");
    query.operands[QF_IN(paged_attention, sinks)].present = false;
    query.operands[QF_IN(paged_attention, k_scale)] = tensor(QF_F32, 1, 8, 0, 0, 0);
    refuse(&row, &query, QF_TARGET_sm_90a, "scales by head");
}

/* An FP8 query where the architecture has none: refused before anything runs, whatever kernels there are. */
static void fault_43_unsupported_pair_on_an_architecture(void **state) {
    (void)state;
    qf_kernel_row row = narrow_row();
    row.targets |= 1u << QF_TARGET_sm_80;
    paged_query query;
    make_query(&query, QF_F8E4M3FN, QF_F8E4M3FN);
    refuse(&row, &query, QF_TARGET_sm_80, "target sm_80 has no FP8 query: q is f8E4M3FN");
    make_query(&query, QF_BF16, QF_F8E5M2);
    refuse(&row, &query, QF_TARGET_sm_90a, "does not take bf16 operands");
    row.operand_dtypes |= SET(BF16);
    refuse(&row, &query, QF_TARGET_sm_90a, "does not take f8E5M2 keys and values");
    make_query(&query, QF_BF16, QF_F8E4M3FN);
    assert_ptr_equal(qf_kernel_select_from(&row, 1, QF_TARGET_sm_90a, &query.query, NULL, 0), &row);
    refuse(&row, &query, QF_TARGET_sm_89, "target sm_89 has no kernel for paged_attention");
}

static void targets_by_name(void **state) {
    (void)state;
    assert_int_equal(qf_target_from_name(QF_TEXT("sm_90a"))->target, QF_TARGET_sm_90a);
    assert_null(qf_target_from_name(QF_TEXT("SM_90A")));
    assert_null(qf_target_from_name(QF_TEXT("")));
    assert_null(qf_target_info_of(99));
    assert_int_equal(qf_kernel_in_place_operand(QF_OP_kv_cache_write, 0), 0);
    assert_int_equal(qf_kernel_in_place_operand(QF_OP_rope_quantize_cache_write, 1),
                     QF_IN(rope_quantize_cache_write, k_cache));
    assert_int_equal(qf_kernel_in_place_operand(QF_OP_add, 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cpu_takes_every_op),
                                       cmocka_unit_test(numbers_are_unique),
                                       cmocka_unit_test(limits_refuse_with_both_numbers),
                                       cmocka_unit_test(features_refuse_by_name),
                                       cmocka_unit_test(fault_43_unsupported_pair_on_an_architecture),
                                       cmocka_unit_test(targets_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
