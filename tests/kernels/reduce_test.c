/* Owns: tests of reductions, softmax, running sums, sorting and normalisation.
 * Does not own: quantised results of norms (quantise_test.c).
 * Next: kernel_check.h. */
#include "tests/kernels/kernel_check.h"

static void reduce_gives(qf_op op, qf_dtype dtype, const double *x, const double *expected) {
    static const int64_t axes[] = {0, 2};
    kernel_test test;
    check_start(&test, op);
    check_ints(&test, QF_ATTR(reduce_sum, axes), axes, 2);
    check_operand(&test, 0, dtype, SHAPE(2, 2, 2), x);
    check_result(&test, 0, dtype, SHAPE(1, 2, 1));
    check_gives(&test, expected, 1e-6);
}

static void reductions(void **state) {
    (void)state;
    const double x[] = {1, 2, 3, NAN, 5, -6, 7, 8}, whole[] = {1, 2, 3, 4, 5, 6, 7, 8};
    reduce_gives(QF_OP_reduce_sum, QF_F32, x, NUMBERS(2, NAN));
    reduce_gives(QF_OP_reduce_max, QF_F32, x, NUMBERS(5, NAN));
    reduce_gives(QF_OP_reduce_min, QF_F64, x, NUMBERS(-6, NAN));
    reduce_gives(QF_OP_reduce_mean, QF_BF16, x, NUMBERS(0.5, NAN));
    reduce_gives(QF_OP_reduce_prod, QF_F16, x, NUMBERS(-60, NAN));
    reduce_gives(QF_OP_reduce_sum, QF_I64, whole, NUMBERS(14, 22));
    reduce_gives(QF_OP_reduce_mean, QF_I32, whole, NUMBERS(3, 5));
    reduce_gives(QF_OP_reduce_max, QF_I32, whole, NUMBERS(6, 8));
    reduce_gives(QF_OP_reduce_min, QF_U8, whole, NUMBERS(1, 3));
    reduce_gives(QF_OP_reduce_prod, QF_I8, whole, NUMBERS(60, -96)); /* 3 * 4 * 7 * 8 = 672, wrapped */
    reduce_gives(QF_OP_reduce_max, QF_I1, NUMBERS(0, 0, 0, 1, 0, 0, 0, 0), NUMBERS(0, 1));
    reduce_gives(QF_OP_reduce_min, QF_I1, NUMBERS(1, 1, 1, 1, 1, 0, 1, 1), NUMBERS(0, 1));
}

static void empty_reductions_give_the_neutral_element(void **state) {
    (void)state;
    static const int64_t axis = 0;
    const qf_op ops[] = {QF_OP_reduce_sum, QF_OP_reduce_prod, QF_OP_reduce_max, QF_OP_reduce_min, QF_OP_reduce_mean};
    const double expected[] = {0, 1, -INFINITY, INFINITY, NAN};
    for (size_t i = 0; i < QF_COUNT_OF(ops); i++) {
        kernel_test test;
        check_start(&test, ops[i]);
        check_ints(&test, QF_ATTR(reduce_sum, axes), &axis, 1);
        check_operand(&test, 0, QF_F32, SHAPE(0), NULL);
        check_result(&test, 0, QF_F32, SHAPE(1));
        check_gives(&test, &expected[i], 0);
    }
}

static void long_sums_stay_accurate(void **state) {
    (void)state;
    static const int64_t axis = 0;
    const int64_t count = 1 << 18;
    kernel_test test;
    check_start(&test, QF_OP_reduce_sum);
    check_ints(&test, QF_ATTR(reduce_sum, axes), &axis, 1);
    qf_view *x = check_operand(&test, 0, QF_F32, SHAPE(count), NULL);
    for (int64_t i = 0; i < count; i++) qf_store_f32(QF_F32, x->data, i, 0.1f, true);
    check_result(&test, 0, QF_F32, SHAPE(1));
    double expected = (double)count * (double)0.1f;
    check_succeeds(&test);
    assert_true(fabs(result_at(&test, 0, 0) / expected - 1) < 2e-4);
    check_finish(&test);
}

static void softmax_is_the_definition_on_every_axis(void **state) {
    (void)state;
    random_state random = {7};
    for (int64_t axis = 0; axis < 3; axis++) {
        for (int logarithm = 0; logarithm < 2; logarithm++) {
            kernel_test test;
            check_start(&test, logarithm ? QF_OP_log_softmax : QF_OP_softmax);
            test.attributes[0].integer = axis;
            const qf_view *x = check_random_operand(&test, 0, axis ? QF_F32 : QF_F64, SHAPE(5, 70, 9), &random, 3, 100);
            check_result(&test, 0, x->dtype, SHAPE(5, 70, 9));
            check_threads_agree(&test);
            int64_t inner = axis == 0 ? 630 : axis == 1 ? 9 : 1, size = x->dims[axis];
            for (int64_t i = 0; i < 5 * 70 * 9; i++) {
                int64_t start = i - i / inner % size * inner;
                double sum = 0, own = qf_load_f64(x->dtype, x->data, i);
                for (int64_t k = 0; k < size; k++) sum += exp(qf_load_f64(x->dtype, x->data, start + k * inner) - own);
                double expected = logarithm ? -log(sum) : 1 / sum;
                assert_true(fabs(result_at(&test, 0, i) - expected) < 3e-5 * (0.01 + fabs(expected)));
            }
            check_finish(&test);
        }
    }
}

static void softmax_of_odd_rows(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_softmax);
    test.attributes[0].integer = 1;
    check_operand(&test, 0, QF_F32, SHAPE(4, 2), NUMBERS(-INFINITY, -INFINITY, -INFINITY, 0, NAN, 1, 3.4e38, 3.4e38));
    check_result(&test, 0, QF_F32, SHAPE(4, 2));
    check_gives(&test, NUMBERS(NAN, NAN, 0, 1, NAN, NAN, 0.5, 0.5), 0);
}

static void running_sums(void **state) {
    (void)state;
    const struct {
        int64_t exclusive, reverse;
        double y[3];
    } cases[] = {{0, 0, {1, 3, 6}}, {1, 0, {0, 1, 3}}, {0, 1, {6, 5, 3}}, {1, 1, {5, 3, 0}}};
    for (size_t i = 0; i < 4; i++) {
        for (int integer = 0; integer < 2; integer++) {
            kernel_test test;
            check_start(&test, QF_OP_cumulative_sum);
            test.attributes[QF_ATTR(cumulative_sum, axis)].integer = 0;
            test.attributes[QF_ATTR(cumulative_sum, exclusive)].integer = cases[i].exclusive;
            test.attributes[QF_ATTR(cumulative_sum, reverse)].integer = cases[i].reverse;
            check_operand(&test, 0, integer ? QF_I64 : QF_F32, SHAPE(3, 1), NUMBERS(1, 2, 3));
            check_result(&test, 0, integer ? QF_I64 : QF_F32, SHAPE(3, 1));
            check_gives(&test, cases[i].y, 0);
        }
    }
}

static void arg_max_and_top_k(void **state) {
    (void)state;
    kernel_test test;
    for (int64_t last = 0; last < 2; last++) {
        check_start(&test, QF_OP_arg_max);
        test.attributes[QF_ATTR(arg_max, axis)].integer = 1;
        test.attributes[QF_ATTR(arg_max, last)].integer = last;
        check_operand(&test, 0, QF_F32, SHAPE(2, 4), NUMBERS(1, 5, 5, 2, NAN, 7, 3, 4));
        check_result(&test, 0, QF_I64, SHAPE(2, 1));
        check_gives(&test, last ? NUMBERS(2, 0) : NUMBERS(1, 0), 0);
    }
    for (int64_t largest = 0; largest < 2; largest++) {
        check_start(&test, QF_OP_top_k);
        test.attributes[QF_ATTR(top_k, axis)].integer = 0;
        test.attributes[QF_ATTR(top_k, k)].integer = 3;
        test.attributes[QF_ATTR(top_k, largest)].integer = largest;
        check_operand(&test, 0, QF_F32, SHAPE(5, 1), NUMBERS(2, 7, 2, 9, 7));
        check_result(&test, 0, QF_F32, SHAPE(3, 1));
        check_result(&test, 1, QF_I64, SHAPE(3, 1));
        check_succeeds(&test);
        check_numbers_of(&test, 0, largest ? NUMBERS(9, 7, 7) : NUMBERS(2, 2, 7), 0);
        check_numbers_of(&test, 1, largest ? NUMBERS(3, 1, 4) : NUMBERS(0, 2, 1), 0);
        check_finish(&test);
    }
    check_start(&test, QF_OP_top_k);
    test.attributes[QF_ATTR(top_k, k)].integer = 3;
    check_operand(&test, 0, QF_I64, SHAPE(2), NUMBERS(2, 7));
    check_result(&test, 0, QF_I64, SHAPE(3));
    check_refuses(&test, "k is 3");
}

static void layer_norm_is_the_definition(void **state) {
    (void)state;
    random_state random = {8};
    kernel_test test;
    check_start(&test, QF_OP_layer_norm);
    test.attributes[QF_ATTR(layer_norm, axis)].integer = 1;
    test.attributes[QF_ATTR(layer_norm, epsilon)].number = 1e-3;
    const qf_view *x = check_random_operand(&test, 0, QF_F32, SHAPE(40, 3, 50), &random, 2, 10);
    const qf_view *weight = check_random_operand(&test, 1, QF_F32, SHAPE(3, 50), &random, 1, 1);
    const qf_view *bias = check_random_operand(&test, 2, QF_F32, SHAPE(3, 50), &random, 1, 0);
    check_result(&test, 0, QF_F32, SHAPE(40, 3, 50));
    check_threads_agree(&test);
    for (int64_t row = 0; row < 40; row++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < 150; i++) mean += qf_load_f64(QF_F32, x->data, row * 150 + i) / 150;
        for (int64_t i = 0; i < 150; i++) variance += pow(qf_load_f64(QF_F32, x->data, row * 150 + i) - mean, 2) / 150;
        for (int64_t i = 0; i < 150; i++) {
            double expected = (qf_load_f64(QF_F32, x->data, row * 150 + i) - mean) / sqrt(variance + 1e-3) *
                                  qf_load_f64(QF_F32, weight->data, i) +
                              qf_load_f64(QF_F32, bias->data, i);
            assert_true(fabs(result_at(&test, 0, row * 150 + i) - expected) < 1e-5 * (1 + fabs(expected)));
        }
    }
    check_finish(&test);
}

static void rms_norm_and_its_sum(void **state) {
    (void)state;
    random_state random = {9};
    kernel_test test;
    check_start(&test, QF_OP_add_rms_norm);
    test.attributes[QF_ATTR(add_rms_norm, axis)].integer = 1;
    const qf_view *x = check_random_operand(&test, 0, QF_BF16, SHAPE(30, 300), &random, 2, 0);
    const qf_view *residual = check_random_operand(&test, 1, QF_BF16, SHAPE(30, 300), &random, 1, 0);
    const qf_view *weight = check_random_operand(&test, 2, QF_BF16, SHAPE(300), &random, 1, 1);
    check_result(&test, 0, QF_BF16, SHAPE(30, 300));
    check_result(&test, 1, QF_BF16, SHAPE(30, 300));
    check_threads_agree(&test);
    for (int64_t row = 0; row < 30; row++) {
        double squares = 0;
        for (int64_t i = 0; i < 300; i++) {
            float sum =
                qf_load_f32(QF_BF16, x->data, row * 300 + i) + qf_load_f32(QF_BF16, residual->data, row * 300 + i);
            assert_true(result_at(&test, 1, row * 300 + i) == (double)qf_round_f32(QF_BF16, sum, true));
            squares += pow(result_at(&test, 1, row * 300 + i), 2);
        }
        for (int64_t i = 0; i < 300; i++) {
            double expected =
                result_at(&test, 1, row * 300 + i) / sqrt(squares / 300 + 1e-5) * qf_load_f64(QF_BF16, weight->data, i);
            assert_true(fabs(result_at(&test, 0, row * 300 + i) - expected) <= fabs(expected) / 255);
        }
    }
    check_finish(&test);
    check_start(&test, QF_OP_rms_norm);
    test.attributes[QF_ATTR(rms_norm, axis)].integer = 0;
    check_operand(&test, 0, QF_F32, SHAPE(2), NUMBERS(3, 4));
    check_result(&test, 0, QF_F32, SHAPE(2));
    check_gives(&test, NUMBERS(3 / sqrt(12.50001), 4 / sqrt(12.50001)), 1e-6);
}

static void silu_mul_takes_halves(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_silu_mul);
    check_operand(&test, 0, QF_F32, SHAPE(2, 4), NUMBERS(1, -1, 3, 4, 2, 0, 5, 6));
    check_result(&test, 0, QF_F32, SHAPE(2, 2));
    check_gives(&test, NUMBERS(3 / (1 + exp(-1)), -4 / (1 + exp(1)), 10 / (1 + exp(-2)), 0), 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(empty_reductions_give_the_neutral_element),
        cmocka_unit_test(long_sums_stay_accurate),
        cmocka_unit_test(softmax_is_the_definition_on_every_axis),
        cmocka_unit_test(softmax_of_odd_rows),
        cmocka_unit_test(running_sums),
        cmocka_unit_test(arg_max_and_top_k),
        cmocka_unit_test(layer_norm_is_the_definition),
        cmocka_unit_test(rms_norm_and_its_sum),
        cmocka_unit_test(silu_mul_takes_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
