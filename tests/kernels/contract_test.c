/* Owns: tests of contract, matmul, scaled_matmul and conv against sums in f64.
 * Does not own: attention (attention_test.c).
 * Next: kernel_check.h. */
#include "tests/kernels/kernel_check.h"

/* --- contract: the definition of an einsum, one label at a time --- */

static int64_t einsum_offset(const char *labels, const qf_view *view, const int64_t *at) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < view->rank; i++) offset = offset * view->dims[i] + at[(int)labels[i]];
    return offset;
}

/* Sum over all labels not in the result, by counting through every label. */
static double einsum_element(const char *a, const char *b, const char *y, const kernel_test *test, int64_t *at,
                             const int64_t *sizes) {
    char summed[32] = "";
    int64_t count = 1;
    for (const char *c = a; *c; c++)
        if (!strchr(y, *c) && !strchr(summed, *c)) summed[strlen(summed)] = *c;
    for (const char *c = b; *c; c++)
        if (!strchr(y, *c) && !strchr(summed, *c)) summed[strlen(summed)] = *c;
    for (const char *c = summed; *c; c++) count *= sizes[(int)*c];
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (const char *c = summed; *c; rest /= sizes[(int)*c], c++) at[(int)*c] = rest % sizes[(int)*c];
        sum += qf_load_f64(test->operands[0].dtype, test->operands[0].data, einsum_offset(a, &test->operands[0], at)) *
               qf_load_f64(test->operands[1].dtype, test->operands[1].data, einsum_offset(b, &test->operands[1], at));
    }
    return sum;
}

static shape shape_of_labels(const char *labels, const int64_t *sizes) {
    shape out = {(uint32_t)strlen(labels), {0}};
    for (uint32_t i = 0; i < out.rank; i++) out.dims[i] = sizes[(int)labels[i]];
    return out;
}

static void contract_is_einsum(const char *a, const char *b, const char *y, qf_dtype dtype, random_state *random) {
    kernel_test test;
    char equation[64];
    int64_t sizes[128], at[128] = {0};
    for (int i = 0; i < 128; i++) sizes[i] = 1 + random_below(random, i % 2 ? 5 : 20);
    snprintf(equation, sizeof equation, "%s,%s->%s", a, b, y);
    check_start(&test, QF_OP_contract);
    test.attributes[QF_ATTR(contract, equation)].string = equation;
    check_random_operand(&test, 0, dtype, shape_of_labels(a, sizes), random, 1, 0.3);
    check_random_operand(&test, 1, dtype, shape_of_labels(b, sizes), random, 1, 0.3);
    qf_dtype out = dtype == QF_F64 || dtype == QF_I32 ? dtype : QF_F32;
    const qf_view *result = check_result(&test, 0, out, shape_of_labels(y, sizes));
    check_threads_agree(&test);
    for (int64_t i = 0; i < view_count(result); i++) {
        int64_t rest = i;
        for (size_t l = strlen(y); l-- > 0; rest /= sizes[(int)y[l]]) at[(int)y[l]] = rest % sizes[(int)y[l]];
        double expected = einsum_element(a, b, y, &test, at, sizes), found = result_at(&test, 0, i);
        if (!(fabs(found - expected) <= 2e-4 * (1 + fabs(expected))))
            fail_msg("%s: element %d is %.9g, expected %.9g", equation, (int)i, found, expected);
    }
    check_finish(&test);
}

static void contracts(void **state) {
    (void)state;
    static const char *const equations[][3] = {
        {"bhtd", "bhsd", "bhts"}, {"bhts", "bhsd", "bhtd"}, {"bhts", "bhsd", "bthd"}, {"btghd", "bsgd", "bghts"},
        {"ij", "jk", "ki"},       {"ij", "kj", "ik"},       {"ij", "ij", ""},         {"i", "j", "ij"},
        {"i", "i", "i"},          {"abc", "dbe", "ace"},    {"ii", "i", "i"},         {"abcd", "cd", "ab"},
        {"a", "", "a"},           {"btc", "co", "bto"},     {"k", "kn", "n"},         {"mk", "k", "m"},
        {"dhtb", "sdhb", "sbht"}, {"ab", "cd", "a"},
    };
    const qf_dtype dtypes[] = {QF_F32, QF_F64, QF_F16, QF_F8E4M3FN, QF_I32, QF_BF16};
    random_state random = {11};
    for (size_t i = 0; i < QF_COUNT_OF(equations); i++)
        for (size_t d = 0; d < QF_COUNT_OF(dtypes); d++)
            contract_is_einsum(equations[i][0], equations[i][1], equations[i][2], dtypes[d], &random);
}

static void bad_equations_are_refused(void **state) {
    (void)state;
    static const char *const equations[] = {"ij,jk",      "ij->ij", "ij,jk->iz", "ij,jk->ii",
                                            "ijx,jk->ik", "",       "ij,jk->ik "};
    for (size_t i = 0; i < QF_COUNT_OF(equations); i++) {
        kernel_test test;
        check_start(&test, QF_OP_contract);
        test.attributes[0].string = equations[i];
        check_operand(&test, 0, QF_F32, SHAPE(2, 2), NUMBERS(1, 2, 3, 4));
        check_operand(&test, 1, QF_F32, SHAPE(2, 2), NUMBERS(1, 2, 3, 4));
        check_result(&test, 0, QF_F32, SHAPE(2, 2));
        check_refuses(&test, "contract: expected");
    }
}

/* The promise of docs/numerics.md: products rounded, blocks of 64 terms, then the total; bit for bit. */
static void the_order_of_sums_is_the_documented_one(void **state) {
    (void)state;
    random_state random = {12};
    const int64_t shapes[][3] = {{1, 300, 1}, {3, 200, 70}, {70, 129, 5}, {9, 64, 9}, {2, 1, 2}};
    for (size_t i = 0; i < QF_COUNT_OF(shapes); i++) {
        int64_t m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
        kernel_test test;
        check_start(&test, QF_OP_matmul);
        const qf_view *a = check_random_operand(&test, 0, QF_F32, SHAPE(m, k), &random, 1, 0);
        const qf_view *b = check_random_operand(&test, 1, QF_F32, SHAPE(k, n), &random, 1, 0);
        check_result(&test, 0, QF_F32, SHAPE(m, n));
        check_threads_agree(&test);
        for (int64_t row = 0; row < m; row++) {
            for (int64_t column = 0; column < n; column++) {
                float total = 0;
                for (int64_t first = 0; first < k; first += 64) {
                    float block = 0;
                    for (int64_t j = first; j < k && j < first + 64; j++) {
                        volatile float product =
                            qf_load_f32(QF_F32, a->data, row * k + j) * qf_load_f32(QF_F32, b->data, j * n + column);
                        block += product;
                    }
                    total += block;
                }
                assert_true(qf_load_f32(QF_F32, test.results[0].data, row * n + column) == total);
            }
        }
        check_finish(&test);
    }
}

static void matmul_follows_numpy(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_matmul);
    check_operand(&test, 0, QF_F32, SHAPE(2), NUMBERS(1, 2));
    check_operand(&test, 1, QF_F32, SHAPE(2), NUMBERS(3, 4));
    check_result(&test, 0, QF_F32, SCALAR);
    check_gives(&test, NUMBERS(11), 0);
    check_start(&test, QF_OP_matmul);
    check_operand(&test, 0, QF_F32, SHAPE(2, 1, 1, 2), NUMBERS(1, 2, 3, 4));
    check_operand(&test, 1, QF_F32, SHAPE(2, 2, 1), NUMBERS(1, 10, 100, 1000));
    check_result(&test, 0, QF_F32, SHAPE(2, 2, 1, 1));
    check_gives(&test, NUMBERS(21, 2100, 43, 4300), 0);
    check_start(&test, QF_OP_matmul);
    check_operand(&test, 0, QF_F32, SHAPE(2), NUMBERS(1, 2));
    check_operand(&test, 1, QF_F32, SHAPE(2, 2, 3), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    check_result(&test, 0, QF_F32, SHAPE(2, 3));
    check_gives(&test, NUMBERS(9, 12, 15, 27, 30, 33), 0);
    check_start(&test, QF_OP_matmul);
    check_operand(&test, 0, QF_I64, SHAPE(1, 2), NUMBERS(4294967296.0, 3));
    check_operand(&test, 1, QF_I64, SHAPE(2, 1), NUMBERS(4294967296.0, 5));
    check_result(&test, 0, QF_I64, SHAPE(1, 1));
    check_gives(&test, NUMBERS(15), 0); /* 2^64 wraps */
    check_start(&test, QF_OP_matmul);
    check_operand(&test, 0, QF_F32, SHAPE(2, 0), NULL);
    check_operand(&test, 1, QF_F32, SHAPE(0, 2), NULL);
    check_result(&test, 0, QF_F32, SHAPE(2, 2));
    check_gives(&test, NUMBERS(0, 0, 0, 0), 0);
    check_start(&test, QF_OP_matmul);
    check_operand(&test, 0, QF_F32, SHAPE(2, 3), NULL);
    check_operand(&test, 1, QF_F32, SHAPE(2, 2), NULL);
    check_result(&test, 0, QF_F32, SHAPE(2, 2));
    check_refuses(&test, "equal inner axes");
}

static void scaled_matmul_scales_rows_and_columns(void **state) {
    (void)state;
    kernel_test test;
    for (int quantised = 0; quantised < 2; quantised++) {
        check_start(&test, QF_OP_scaled_matmul);
        check_operand(&test, 0, QF_F8E4M3FN, SHAPE(1, 2, 2), NUMBERS(1, 2, 3, 4));
        check_operand(&test, 1, QF_F8E4M3FN, SHAPE(2, 3), NUMBERS(1, 0, 1, 0, 1, 1));
        check_operand(&test, QF_IN(scaled_matmul, a_scale), QF_F32, SHAPE(1, 2, 1), NUMBERS(0.5, 2));
        check_operand(&test, QF_IN(scaled_matmul, b_scale), QF_F32, SHAPE(1, 3), NUMBERS(1, 4, 8));
        check_operand(&test, QF_IN(scaled_matmul, bias), QF_F32, SHAPE(3), NUMBERS(100, 0, -1));
        if (quantised) check_operand(&test, QF_IN(scaled_matmul, out_scale), QF_F32, SCALAR, NUMBERS(0.25));
        check_result(&test, 0, quantised ? QF_F8E4M3FN : QF_F32, SHAPE(1, 2, 3));
        /* Quantised: 402 is 416 in e4m3 (steps of 32: 416 is nearer than 384), 424 ties to 416? No: 106 / 0.25 = 424 ->
         * 416. */
        check_gives(&test, quantised ? NUMBERS(416, 16, 44, 416, 128, 448) : NUMBERS(100.5, 4, 11, 106, 32, 111), 0);
    }
    check_start(&test, QF_OP_scaled_matmul);
    check_operand(&test, 0, QF_F8E4M3FN, SHAPE(2, 2), NUMBERS(1, 2, 3, 4));
    check_operand(&test, 1, QF_F8E4M3FN, SHAPE(2, 3), NUMBERS(1, 0, 1, 0, 1, 1));
    check_operand(&test, QF_IN(scaled_matmul, a_scale), QF_F32, SHAPE(3), NUMBERS(1, 1, 1));
    check_operand(&test, QF_IN(scaled_matmul, b_scale), QF_F32, SCALAR, NUMBERS(1));
    check_result(&test, 0, QF_F32, SHAPE(2, 3));
    check_refuses(&test, "a_scale");
}

/* The definition of a two-dimensional convolution with groups. */
static void conv_is_the_definition(void **state) {
    (void)state;
    random_state random = {13};
    for (int round = 0; round < 12; round++) {
        int64_t images = 1 + random_below(&random, 2), groups = 1 + random_below(&random, 2);
        int64_t in = 1 + random_below(&random, 3), out = 1 + random_below(&random, 6),
                height = 4 + random_below(&random, 9);
        int64_t width = 4 + random_below(&random, 9),
                kernel[2] = {1 + random_below(&random, 3), 1 + random_below(&random, 3)};
        int64_t strides[2] = {1 + random_below(&random, 2), 1 + random_below(&random, 2)};
        int64_t before[2] = {random_below(&random, 2), random_below(&random, 2)},
                after[2] = {random_below(&random, 2), 0};
        int64_t dilations[2] = {1, 1 + random_below(&random, 2)}, size[2];
        for (int i = 0; i < 2; i++)
            size[i] =
                ((i ? width : height) + before[i] + after[i] - dilations[i] * (kernel[i] - 1) - 1) / strides[i] + 1;
        if (size[0] < 1 || size[1] < 1) continue;
        kernel_test test;
        check_start(&test, QF_OP_conv);
        check_ints(&test, QF_ATTR(conv, strides), strides, 2);
        check_ints(&test, QF_ATTR(conv, pads_before), before, 2);
        check_ints(&test, QF_ATTR(conv, pads_after), after, 2);
        check_ints(&test, QF_ATTR(conv, dilations), dilations, 2);
        test.attributes[QF_ATTR(conv, groups)].integer = groups;
        const qf_view *x =
            check_random_operand(&test, 0, QF_F16, SHAPE(images, groups * in, height, width), &random, 1, 0);
        const qf_view *w =
            check_random_operand(&test, 1, QF_F16, SHAPE(groups * out, in, kernel[0], kernel[1]), &random, 1, 0);
        const qf_view *bias = check_random_operand(&test, 2, QF_F16, SHAPE(groups * out), &random, 1, 0);
        check_result(&test, 0, QF_F32, SHAPE(images, groups * out, size[0], size[1]));
        check_threads_agree(&test);
        int64_t at = 0;
        for (int64_t n = 0; n < images; n++)
            for (int64_t m = 0; m < groups * out; m++)
                for (int64_t r = 0; r < size[0]; r++)
                    for (int64_t c = 0; c < size[1]; c++, at++) {
                        double sum = qf_load_f64(QF_F16, bias->data, m);
                        for (int64_t i = 0; i < in; i++)
                            for (int64_t p = 0; p < kernel[0]; p++)
                                for (int64_t q = 0; q < kernel[1]; q++) {
                                    int64_t row = r * strides[0] - before[0] + p * dilations[0];
                                    int64_t column = c * strides[1] - before[1] + q * dilations[1];
                                    if (row < 0 || row >= height || column < 0 || column >= width) continue;
                                    sum += qf_load_f64(QF_F16, x->data,
                                                       ((n * groups * in + m / out * in + i) * height + row) * width +
                                                           column) *
                                           qf_load_f64(QF_F16, w->data, ((m * in + i) * kernel[0] + p) * kernel[1] + q);
                                }
                        assert_true(fabs(result_at(&test, 0, at) - sum) < 1e-5 * (1 + fabs(sum)));
                    }
        check_finish(&test);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contracts),
        cmocka_unit_test(bad_equations_are_refused),
        cmocka_unit_test(the_order_of_sums_is_the_documented_one),
        cmocka_unit_test(matmul_follows_numpy),
        cmocka_unit_test(scaled_matmul_scales_rows_and_columns),
        cmocka_unit_test(conv_is_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
