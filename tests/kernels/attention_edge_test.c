/* Owns: tests of attention at its edges: rows without keys, masks that do not mask, caps, NaN behind masks, odd sizes,
 * windows, values out of range. Does not own: FP8 sides (attention_fp8_test.c), shapes and layouts (attention_test.c).
 * Next: docs/numerics.md. */
#include "tests/kernels/attention_site.h"

/* One row over four keys that all carry the same bias. */
static void equal_biases_give(double bias, int64_t empty, int64_t p, double expected) {
    kernel_test test;
    check_start(&test, QF_OP_attention);
    test.attributes[QF_ATTR(attention, scale)].number = 1;
    test.attributes[QF_ATTR(attention, empty_row)].integer = empty;
    test.attributes[QF_ATTR(attention, p)].integer = p;
    check_operand(&test, 0, QF_F32, SHAPE(1, 1, 1, 1), NUMBERS(1));
    check_operand(&test, 1, QF_F32, SHAPE(1, 1, 4, 1), NUMBERS(1, 2, 3, 4));
    check_operand(&test, 2, QF_F32, SHAPE(1, 1, 4, 1), NUMBERS(1, 2, 3, 6));
    check_operand(&test, QF_IN(attention, bias), QF_F32, SHAPE(1), &bias);
    check_result(&test, 0, QF_F32, SHAPE(1, 1, 1, 1));
    check_gives(&test, &expected, 1e-6);
}

static void fault_63_an_empty_row_is_what_the_attribute_says(void **state) {
    (void)state;
    equal_biases_give(-INFINITY, QF_VALUE_zero, QF_VALUE_none, 0);
    equal_biases_give(-INFINITY, QF_VALUE_nan, QF_VALUE_none, NAN);
}

/* Beside such a bias the scores vanish: a uniform average. */
static void fault_71_finite_masks_never_mask(void **state) {
    (void)state;
    const double masks[] = {-3.4028234663852886e38, -1e30, -2.38e38};
    for (int i = 0; i < 3; i++)
        for (int64_t empty = QF_VALUE_zero; empty <= QF_VALUE_nan; empty++) {
            equal_biases_give(masks[i], empty, QF_VALUE_none, 3);
            equal_biases_give(masks[i], empty, QF_VALUE_kernel, 3);
        }
}

/* A cap small enough to matter, against the formula; and before the mask. */
static void fault_49_the_soft_cap_counts(void **state) {
    (void)state;
    kernel_test test;
    double a = 2 * tanh(5 / 2.0), b = 2 * tanh(1 / 2.0), c = 2 * tanh(100 / 2.0);
    check_start(&test, QF_OP_attention);
    test.attributes[QF_ATTR(attention, scale)].number = 1;
    test.attributes[QF_ATTR(attention, softcap)].number = 2;
    check_operand(&test, 0, QF_F32, SHAPE(1, 1, 1, 1), NUMBERS(1));
    check_operand(&test, 1, QF_F32, SHAPE(1, 1, 3, 1), NUMBERS(5, 1, 100));
    check_operand(&test, 2, QF_F32, SHAPE(1, 1, 3, 1), NUMBERS(1, 10, 100));
    check_operand(&test, QF_IN(attention, bias), QF_F32, SHAPE(3), NUMBERS(0, 0, -1));
    check_result(&test, 0, QF_F32, SHAPE(1, 1, 1, 1));
    c -= 1;
    check_gives(&test, NUMBERS((exp(a) + 10 * exp(b) + 100 * exp(c)) / (exp(a) + exp(b) + exp(c))), 1e-5);
}

/* 51, 57: NaN in masked keys and values, and poisoned results, leave no trace. */
static void fault_51_57_hidden_keys_may_be_nan(void **state) {
    (void)state;
    for (int64_t p = QF_VALUE_none; p <= QF_VALUE_kernel; p++) {
        kernel_test clean, dirty;
        for (int poisoned = 0; poisoned < 2; poisoned++) {
            kernel_test *test = poisoned ? &dirty : &clean;
            start_site(test, &plain, 45, QF_F32);
            test->attributes[QF_ATTR(attention, p)].integer = p;
            if (p == QF_VALUE_graph) check_operand(test, QF_IN(attention, p_scale), QF_F32, SCALAR, NUMBERS(0.01));
            qf_view *mask = check_operand(test, QF_IN(attention, mask), QF_I1, SHAPE(5, 130), NULL);
            for (int64_t i = 0; i < 650; i++) qf_store_i64(QF_I1, mask->data, i, i % 130 % 7 != 3);
            for (int64_t s = 3; poisoned && s < 130; s += 7)
                for (int64_t i = 0; i < 32; i++)
                    for (int64_t g = 0; g < 2; g++)
                        for (uint32_t operand = 1; operand <= 2; operand++)
                            qf_store_f32(QF_F32, test->operands[operand].data, (g * 130 + s) * 32 + i,
                                         i % 2 ? NAN : INFINITY, true);
            check_threads_agree(test);
        }
        assert_memory_equal(clean.results[0].data, dirty.results[0].data, view_bytes(&clean.results[0]));
        check_finish(&clean);
        check_finish(&dirty);
    }
}

/* 46, 53, 54, 59: size-1 heads and rows, no keys at all, few rows over many keys, unusual head dims. */
static void fault_46_53_54_59_odd_sizes(void **state) {
    (void)state;
    const int64_t depths[] = {1, 80, 96, 112, 192, 200};
    for (int i = 0; i < 6; i++) {
        const site at = {8, 1, 4, 4096 / 16, depths[i], QF_F32, 1, 1, 1, 1};
        kernel_test test;
        start_site(&test, &at, 46, QF_F32);
        test.attributes[QF_ATTR(attention, causal)].integer = 1;
        check_threads_agree(&test);
        /* Row 0 of 4 over 256 keys stands at key 252: its value for key 255 does not count. */
        kernel_test cut;
        start_site(&cut, &at, 46, QF_F32);
        check_operand(&cut, QF_IN(attention, kv_lens), QF_I32, SHAPE(1), NUMBERS(253));
        check_succeeds(&cut);
        for (int64_t e = 0; e < depths[i]; e++) assert_true(result_at(&test, 0, e) == result_at(&cut, 0, e));
        check_finish(&test);
        check_finish(&cut);
    }
    kernel_test test;
    const site none = {2, 1, 3, 0, 8, QF_F32, 1, 1, 1, 1};
    start_site(&test, &none, 47, QF_F32);
    check_result(&test, 1, QF_F32, SHAPE(1, 2, 3));
    check_succeeds(&test);
    for (int i = 0; i < 48; i++) assert_true(result_at(&test, 0, i) == 0);
    for (int i = 0; i < 6; i++) assert_true(result_at(&test, 1, i) == -INFINITY);
    check_finish(&test);
}

/* Windows over lengths around block edges end, and equal the mask they stand for. */
static void fault_52_windows_equal_their_masks(void **state) {
    (void)state;
    for (int64_t keys = 1; keys <= 300; keys += keys < 10 || (keys > 60 && keys < 70) || keys > 250 ? 1 : 13) {
        for (int64_t window = 0; window <= 8; window += 4) {
            const site at = {2, 2, 1 + keys % 5, keys, 8, QF_F32, 1, 1, 1, 1};
            kernel_test by_window, by_mask;
            start_site(&by_window, &at, 48, QF_F32);
            by_window.attributes[QF_ATTR(attention, causal)].integer = 1;
            by_window.attributes[QF_ATTR(attention, window_left)].integer = window;
            start_site(&by_mask, &at, 48, QF_F32);
            qf_view *mask = check_operand(&by_mask, QF_IN(attention, mask), QF_I1, SHAPE(at.rows, keys), NULL);
            for (int64_t t = 0; t < at.rows; t++)
                for (int64_t s = 0; s < keys; s++) {
                    int64_t position = t + keys - at.rows;
                    qf_store_i64(QF_I1, mask->data, t * keys + s, s <= position && s >= position - window);
                }
            check_succeeds(&by_window);
            check_succeeds(&by_mask);
            assert_memory_equal(by_window.results[0].data, by_mask.results[0].data, view_bytes(&by_mask.results[0]));
            check_finish(&by_window);
            check_finish(&by_mask);
        }
    }
}

/* A window of 8 changes nothing over 8 keys and something over 20. */
static void fault_72_a_window_shows_only_past_its_size(void **state) {
    (void)state;
    for (int64_t keys = 8; keys <= 20; keys += 12) {
        const site at = {2, 2, 3, keys, 8, QF_F32, 1, 1, 1, 1};
        kernel_test windowed, whole;
        start_site(&windowed, &at, 72, QF_F32);
        start_site(&whole, &at, 72, QF_F32);
        windowed.attributes[QF_ATTR(attention, window_left)].integer = 8;
        check_succeeds(&windowed);
        check_succeeds(&whole);
        bool equal = memcmp(windowed.results[0].data, whole.results[0].data, view_bytes(&whole.results[0])) == 0;
        assert_true(equal == (keys == 8));
        check_finish(&windowed);
        check_finish(&whole);
    }
}

static void values_out_of_range_are_refused(void **state) {
    (void)state;
    const double lengths[] = {-1, 131};
    for (int i = 0; i < 2; i++) {
        kernel_test test;
        start_site(&test, &plain, 49, QF_F32);
        check_operand(&test, QF_IN(attention, kv_lens), QF_I32, SHAPE(1), &lengths[i]);
        check_refuses(&test, "kv_lens[0] is");
    }
    const double starts[][3] = {{0, 3, 2}, {-1, 1, 2}, {0, 1, 99}};
    const double tables[][4] = {{0, 1, 2, 3}, {0, 4, 0, 0}, {-1, 0, 0, 0}, {0, 0, 2147483647.0, 0}};
    for (int i = 0; i < 7; i++) {
        kernel_test test;
        check_start(&test, QF_OP_paged_attention);
        check_operand(&test, 0, QF_F32, SHAPE(3, 1, 2), NUMBERS(1, 2, 3, 4, 5, 6));
        for (uint32_t cache = 1; cache <= 2; cache++)
            check_operand(&test, cache, QF_F32, SHAPE(4, 2, 1, 2),
                          NUMBERS(1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7));
        check_operand(&test, QF_IN(paged_attention, block_table), QF_I32, SHAPE(2, 2), tables[i < 3 ? 0 : i - 3]);
        check_operand(&test, QF_IN(paged_attention, kv_lens), QF_I32, SHAPE(2), NUMBERS(3, 4));
        check_operand(&test, QF_IN(paged_attention, q_start), QF_I32, SHAPE(3), i < 3 ? starts[i] : NUMBERS(0, 1, 3));
        check_result(&test, 0, QF_F32, SHAPE(3, 1, 2));
        if (i == 3) {
            check_succeeds(&test);
            check_finish(&test);
        } else {
            check_refuses(&test, i < 3 ? "q_start[" : "block_table[");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_63_an_empty_row_is_what_the_attribute_says),
        cmocka_unit_test(fault_71_finite_masks_never_mask),
        cmocka_unit_test(fault_49_the_soft_cap_counts),
        cmocka_unit_test(fault_51_57_hidden_keys_may_be_nan),
        cmocka_unit_test(fault_46_53_54_59_odd_sizes),
        cmocka_unit_test(fault_52_windows_equal_their_masks),
        cmocka_unit_test(fault_72_a_window_shows_only_past_its_size),
        cmocka_unit_test(values_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
