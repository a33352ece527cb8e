/* Owns: tests of elementwise kernels, cast, and kernels that create tensors.
 * Does not own: conversions themselves (tests/base/convert_test.c).
 * Next: kernel_check.h. */
#include "tests/kernels/kernel_check.h"

static void unary_gives(qf_op op, qf_dtype dtype, const double *x, const double *expected, double tolerance) {
    kernel_test test;
    check_start(&test, op);
    check_operand(&test, 0, dtype, SHAPE(4), x);
    check_result(&test, 0, op == QF_OP_is_nan || op == QF_OP_is_inf || op == QF_OP_not ? QF_I1 : dtype, SHAPE(4));
    check_gives(&test, expected, tolerance);
}

static void unary_functions(void **state) {
    (void)state;
    const double x[] = {0.5, -1.5, 2.0, NAN}, odd[] = {-INFINITY, INFINITY, -2.5, 3.5};
    unary_gives(QF_OP_neg, QF_F32, x, NUMBERS(-0.5, 1.5, -2, NAN), 0);
    unary_gives(QF_OP_abs, QF_F32, x, NUMBERS(0.5, 1.5, 2, NAN), 0);
    unary_gives(QF_OP_exp, QF_F32, x, NUMBERS(exp(0.5), exp(-1.5), exp(2.0), NAN), 1e-6);
    unary_gives(QF_OP_log, QF_F32, x, NUMBERS(log(0.5), NAN, log(2.0), NAN), 1e-6);
    unary_gives(QF_OP_sqrt, QF_F32, x, NUMBERS(sqrt(0.5), NAN, sqrt(2.0), NAN), 1e-7);
    unary_gives(QF_OP_rsqrt, QF_F64, x, NUMBERS(1 / sqrt(0.5), NAN, 1 / sqrt(2.0), NAN), 1e-15);
    unary_gives(QF_OP_reciprocal, QF_F32, x, NUMBERS(2, 1 / -1.5, 0.5, NAN), 1e-7);
    unary_gives(QF_OP_tanh, QF_F64, x, NUMBERS(tanh(0.5), tanh(-1.5), tanh(2.0), NAN), 1e-15);
    unary_gives(QF_OP_sigmoid, QF_F32, x, NUMBERS(1 / (1 + exp(-0.5)), 1 / (1 + exp(1.5)), 1 / (1 + exp(-2.0)), NAN),
                1e-6);
    unary_gives(QF_OP_erf, QF_F32, x, NUMBERS(erf(0.5), erf(-1.5), erf(2.0), NAN), 1e-6);
    unary_gives(QF_OP_sin, QF_F32, x, NUMBERS(sin(0.5), sin(-1.5), sin(2.0), NAN), 1e-6);
    unary_gives(QF_OP_cos, QF_F32, x, NUMBERS(cos(0.5), cos(-1.5), cos(2.0), NAN), 1e-6);
    unary_gives(QF_OP_floor, QF_F32, odd, NUMBERS(-INFINITY, INFINITY, -3, 3), 0);
    unary_gives(QF_OP_ceil, QF_F32, odd, NUMBERS(-INFINITY, INFINITY, -2, 4), 0);
    unary_gives(QF_OP_round, QF_F32, odd, NUMBERS(-INFINITY, INFINITY, -2, 4), 0);
    unary_gives(QF_OP_sign, QF_F32, x, NUMBERS(1, -1, 1, NAN), 0);
    unary_gives(QF_OP_relu, QF_F32, x, NUMBERS(0.5, 0, 2, NAN), 0);
    unary_gives(QF_OP_silu, QF_F32, x, NUMBERS(0.5 / (1 + exp(-0.5)), -1.5 / (1 + exp(1.5)), 2 / (1 + exp(-2.0)), NAN),
                1e-6);
    unary_gives(QF_OP_gelu, QF_F32, x,
                NUMBERS(0.25 * (1 + erf(0.5 / sqrt(2))), -0.75 * (1 + erf(-1.5 / sqrt(2))), 1 + erf(sqrt(2)), NAN),
                1e-6);
    unary_gives(QF_OP_is_nan, QF_F16, x, NUMBERS(0, 0, 0, 1), 0);
    unary_gives(QF_OP_is_inf, QF_F32, odd, NUMBERS(1, 1, 0, 0), 0);
    unary_gives(QF_OP_not, QF_I1, NUMBERS(0, 1, 1, 0), NUMBERS(1, 0, 0, 1), 0);
    unary_gives(QF_OP_neg, QF_I8, NUMBERS(-128, 127, 0, 5), NUMBERS(-128, -127, 0, -5), 0);
    unary_gives(QF_OP_abs, QF_I32, NUMBERS(-2147483648.0, -1, 0, 5), NUMBERS(-2147483648.0, 1, 0, 5), 0);
    unary_gives(QF_OP_sign, QF_I64, NUMBERS(-9, 0, 3, 1), NUMBERS(-1, 0, 1, 1), 0);
}

static void approximations_of_gelu(void **state) {
    (void)state;
    const double x[] = {0.5, -1.5, 2.0, -0.25};
    for (int64_t kind = QF_VALUE_tanh; kind <= QF_VALUE_quick; kind++) {
        kernel_test test;
        double expected[4];
        for (int i = 0; i < 4; i++)
            expected[i] = kind == QF_VALUE_quick
                              ? x[i] / (1 + exp(-1.702 * x[i]))
                              : 0.5 * x[i] * (1 + tanh(sqrt(2 / acos(-1)) * (x[i] + 0.044715 * pow(x[i], 3))));
        check_start(&test, QF_OP_gelu);
        test.attributes[QF_ATTR(gelu, approximate)].integer = kind;
        check_operand(&test, 0, QF_F32, SHAPE(4), x);
        check_result(&test, 0, QF_F32, SHAPE(4));
        check_gives(&test, expected, 1e-6);
    }
}

static void binary_gives(qf_op op, qf_dtype dtype, const double *a, const double *b, const double *expected) {
    kernel_test test;
    check_start(&test, op);
    check_operand(&test, 0, dtype, SHAPE(4), a);
    check_operand(&test, 1, dtype, SHAPE(4), b);
    check_result(&test, 0, op >= QF_OP_equal && op <= QF_OP_greater_equal ? QF_I1 : dtype, SHAPE(4));
    check_gives(&test, expected, 1e-6);
}

static void binary_functions(void **state) {
    (void)state;
    const double a[] = {5, -5, NAN, 2}, b[] = {3, 3, 1, NAN};
    binary_gives(QF_OP_add, QF_F32, a, b, NUMBERS(8, -2, NAN, NAN));
    binary_gives(QF_OP_sub, QF_F16, a, b, NUMBERS(2, -8, NAN, NAN));
    binary_gives(QF_OP_mul, QF_BF16, a, b, NUMBERS(15, -15, NAN, NAN));
    binary_gives(QF_OP_div, QF_F32, a, b, NUMBERS(5.0 / 3, -5.0 / 3, NAN, NAN));
    binary_gives(QF_OP_pow, QF_F64, a, b, NUMBERS(125, -125, NAN, NAN));
    binary_gives(QF_OP_mod, QF_F32, a, b, NUMBERS(2, 1, NAN, NAN));
    binary_gives(QF_OP_minimum, QF_F32, a, b, NUMBERS(3, -5, NAN, NAN));
    binary_gives(QF_OP_maximum, QF_F32, a, b, NUMBERS(5, 3, NAN, NAN));
    binary_gives(QF_OP_equal, QF_F32, a, NUMBERS(5, 5, NAN, 2), NUMBERS(1, 0, 0, 1));
    binary_gives(QF_OP_less, QF_F32, a, b, NUMBERS(0, 1, 0, 0));
    binary_gives(QF_OP_less_equal, QF_I32, NUMBERS(1, 2, 3, 4), NUMBERS(1, 1, 4, 4), NUMBERS(1, 0, 1, 1));
    binary_gives(QF_OP_greater, QF_F32, a, b, NUMBERS(1, 0, 0, 0));
    binary_gives(QF_OP_greater_equal, QF_F32, a, b, NUMBERS(1, 0, 0, 0));
    binary_gives(QF_OP_and, QF_I1, NUMBERS(0, 0, 1, 1), NUMBERS(0, 1, 0, 1), NUMBERS(0, 0, 0, 1));
    binary_gives(QF_OP_or, QF_I1, NUMBERS(0, 0, 1, 1), NUMBERS(0, 1, 0, 1), NUMBERS(0, 1, 1, 1));
    binary_gives(QF_OP_xor, QF_I1, NUMBERS(0, 0, 1, 1), NUMBERS(0, 1, 0, 1), NUMBERS(0, 1, 1, 0));
}

static void integers_wrap_and_never_trap(void **state) {
    (void)state;
    const double least = -9223372036854775808.0;
    binary_gives(QF_OP_add, QF_I32, NUMBERS(2147483647, -2147483648.0, 1, 2), NUMBERS(1, -1, 1, 1),
                 NUMBERS(-2147483648.0, 2147483647, 2, 3));
    binary_gives(QF_OP_mul, QF_I8, NUMBERS(127, -128, 16, 3), NUMBERS(2, -1, 16, 4), NUMBERS(-2, -128, 0, 12));
    binary_gives(QF_OP_sub, QF_U8, NUMBERS(0, 5, 255, 1), NUMBERS(1, 5, 0, 2), NUMBERS(255, 0, 255, 255));
    binary_gives(QF_OP_div, QF_I64, NUMBERS(least, 7, -7, 9), NUMBERS(-1, 0, 2, -2), NUMBERS(least, 0, -3, -4));
    binary_gives(QF_OP_mod, QF_I64, NUMBERS(least, 7, -7, 7), NUMBERS(-1, 0, 3, -3), NUMBERS(0, 0, 2, -2));
    binary_gives(QF_OP_pow, QF_I32, NUMBERS(2, -1, 0, 3), NUMBERS(10, -3, 0, -1), NUMBERS(1024, -1, 1, 0));
    kernel_test test;
    check_start(&test, QF_OP_mod);
    test.attributes[QF_ATTR(mod, fmod)].integer = 1;
    check_operand(&test, 0, QF_I32, SHAPE(2), NUMBERS(-7, 7));
    check_operand(&test, 1, QF_I32, SHAPE(2), NUMBERS(3, -3));
    check_result(&test, 0, QF_I32, SHAPE(2));
    check_gives(&test, NUMBERS(-1, 1), 0);
}

static void sixteen_bit_results_round_once(void **state) {
    (void)state;
    kernel_test test;
    /* 1 + 2^-9 is exact in f32; to bf16 it rounds down once. Through a bf16 product first it would be lost sooner. */
    check_start(&test, QF_OP_mul);
    check_operand(&test, 0, QF_BF16, SHAPE(1), NUMBERS(1.0078125));
    check_operand(&test, 1, QF_BF16, SHAPE(1), NUMBERS(1.0078125));
    check_result(&test, 0, QF_BF16, SHAPE(1));
    check_gives(&test, NUMBERS(1.015625), 0);
}

static void operands_broadcast(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_add);
    check_operand(&test, 0, QF_F32, SHAPE(2, 1, 3), NUMBERS(1, 2, 3, 4, 5, 6));
    check_operand(&test, 1, QF_F32, SHAPE(2, 1), NUMBERS(10, 20));
    check_result(&test, 0, QF_F32, SHAPE(2, 2, 3));
    check_gives(&test, NUMBERS(11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26), 0);
    check_start(&test, QF_OP_sub);
    check_operand(&test, 0, QF_F32, SCALAR, NUMBERS(1));
    check_operand(&test, 1, QF_F32, SHAPE(3), NUMBERS(1, 2, 3));
    check_result(&test, 0, QF_F32, SHAPE(3));
    check_gives(&test, NUMBERS(0, -1, -2), 0);
    check_start(&test, QF_OP_add);
    check_operand(&test, 0, QF_F32, SHAPE(2), NUMBERS(1, 2));
    check_operand(&test, 1, QF_F32, SHAPE(3), NUMBERS(1, 2, 3));
    check_result(&test, 0, QF_F32, SHAPE(3));
    check_refuses(&test, "does not broadcast");
}

static void large_broadcasts_agree_with_indexing(void **state) {
    (void)state;
    random_state random = {5};
    kernel_test test;
    check_start(&test, QF_OP_sub);
    check_random_operand(&test, 0, QF_F16, SHAPE(7, 1, 90, 1), &random, 1, 0);
    check_random_operand(&test, 1, QF_F16, SHAPE(13, 1, 21), &random, 1, 0);
    check_result(&test, 0, QF_F16, SHAPE(7, 13, 90, 21));
    check_threads_agree(&test);
    for (int64_t i = 0; i < 7 * 13 * 90 * 21; i++) {
        double a = qf_load_f64(QF_F16, test.operands[0].data, i / (13 * 90 * 21) * 90 + i / 21 % 90);
        double b = qf_load_f64(QF_F16, test.operands[1].data, i / (90 * 21) % 13 * 21 + i % 21);
        assert_true(result_at(&test, 0, i) == (double)qf_round_f32(QF_F16, (float)(a - b), true));
    }
    check_finish(&test);
}

static void where_and_clamp(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_where);
    check_operand(&test, 0, QF_I1, SHAPE(2, 1), NUMBERS(1, 0));
    check_operand(&test, 1, QF_F32, SHAPE(2), NUMBERS(1, NAN));
    check_operand(&test, 2, QF_F32, SCALAR, NUMBERS(-INFINITY));
    check_result(&test, 0, QF_F32, SHAPE(2, 2));
    check_gives(&test, NUMBERS(1, NAN, -INFINITY, -INFINITY), 0);
    check_start(&test, QF_OP_where);
    check_operand(&test, 0, QF_I1, SHAPE(2), NUMBERS(1, 0));
    check_operand(&test, 1, QF_I64, SHAPE(2), NUMBERS(5, 6));
    check_operand(&test, 2, QF_I64, SHAPE(2), NUMBERS(7, 8));
    check_result(&test, 0, QF_I64, SHAPE(2));
    check_gives(&test, NUMBERS(5, 8), 0);
    check_start(&test, QF_OP_clamp);
    check_operand(&test, 0, QF_F32, SHAPE(5), NUMBERS(-1000, 0.5, 1000, NAN, INFINITY));
    check_operand(&test, 1, QF_F32, SCALAR, NUMBERS(-448));
    check_operand(&test, 2, QF_F32, SCALAR, NUMBERS(448));
    check_result(&test, 0, QF_F32, SHAPE(5));
    check_gives(&test, NUMBERS(-448, 0.5, 448, NAN, 448), 0);
    check_start(&test, QF_OP_clamp);
    check_operand(&test, 0, QF_I32, SHAPE(2), NUMBERS(-5, 5));
    check_operand(&test, 2, QF_I32, SCALAR, NUMBERS(1));
    check_result(&test, 0, QF_I32, SHAPE(2));
    check_gives(&test, NUMBERS(-5, 1), 0);
}

static void fault_33_a_cast_saturates_or_overflows_as_asked(void **state) {
    (void)state;
    for (int64_t saturate = 0; saturate < 2; saturate++) {
        kernel_test test;
        check_start(&test, QF_OP_cast);
        test.attributes[QF_ATTR(cast, dtype)].integer = QF_F8E4M3FN;
        test.attributes[QF_ATTR(cast, saturate)].integer = saturate;
        check_operand(&test, 0, QF_F32, SHAPE(4), NUMBERS(1e5, -INFINITY, NAN, 17));
        check_result(&test, 0, QF_F8E4M3FN, SHAPE(4));
        check_gives(&test, saturate ? NUMBERS(448, -448, NAN, 16) : NUMBERS(NAN, NAN, NAN, 16), 0);
    }
    kernel_test test;
    check_start(&test, QF_OP_cast);
    check_operand(&test, 0, QF_F32, SHAPE(3), NUMBERS(-3.4028234663852886e38, 65504, 1));
    check_result(&test, 0, QF_F16, SHAPE(3));
    test.attributes[QF_ATTR(cast, saturate)].integer = 1;
    check_gives(&test, NUMBERS(-INFINITY, 65504, 1), 0);
}

static void packed_casts_agree_across_threads(void **state) {
    (void)state;
    random_state random = {6};
    kernel_test test;
    check_start(&test, QF_OP_cast);
    check_random_operand(&test, 0, QF_F32, SHAPE(20001), &random, 2, 0);
    check_result(&test, 0, QF_F4E2M1FN, SHAPE(20001));
    memset(test.results[0].data, 0, view_bytes(&test.results[0]));
    check_threads_agree(&test);
    for (int64_t i = 0; i < 20001; i++)
        assert_true(result_at(&test, 0, i) ==
                    (double)qf_round_f32(QF_F4E2M1FN, qf_load_f32(QF_F32, test.operands[0].data, i), true));
    check_finish(&test);
}

static void created_tensors(void **state) {
    (void)state;
    kernel_test test;
    const float literal[] = {1.5f, -2.0f};
    const int64_t dims[] = {7, -3, 1};
    check_start(&test, QF_OP_constant);
    test.attributes[0].bytes = literal;
    test.attributes[0].count = sizeof literal;
    check_result(&test, 0, QF_F32, SHAPE(2));
    check_gives(&test, NUMBERS(1.5, -2), 0);
    check_start(&test, QF_OP_symbolic);
    check_ints(&test, QF_ATTR(symbolic, values), dims, 3);
    check_result(&test, 0, QF_I64, SHAPE(3));
    check_gives(&test, NUMBERS(7, -3, 1), 0);
    check_start(&test, QF_OP_shape_of);
    check_operand(&test, 0, QF_F16, SHAPE(3, 4, 5), NULL);
    test.attributes[QF_ATTR(shape_of, start)].integer = -2;
    check_result(&test, 0, QF_I64, SHAPE(2));
    check_gives(&test, NUMBERS(4, 5), 0);
    check_start(&test, QF_OP_iota);
    test.attributes[QF_ATTR(iota, axis)].integer = 1;
    test.attributes[QF_ATTR(iota, start)].integer = 10;
    test.attributes[QF_ATTR(iota, step)].integer = -2;
    check_result(&test, 0, QF_I32, SHAPE(2, 3));
    check_gives(&test, NUMBERS(10, 8, 6, 10, 8, 6), 0);
    check_start(&test, QF_OP_full);
    check_operand(&test, 0, QF_BF16, SCALAR, NUMBERS(-1.5));
    check_result(&test, 0, QF_BF16, SHAPE(3));
    check_gives(&test, NUMBERS(-1.5, -1.5, -1.5), 0);
    check_start(&test, QF_OP_full);
    check_operand(&test, 0, QF_F4E2M1FN, SHAPE(1), NUMBERS(-1.5));
    check_result(&test, 0, QF_F4E2M1FN, SHAPE(5));
    check_gives(&test, NUMBERS(-1.5, -1.5, -1.5, -1.5, -1.5), 0);
    check_start(&test, QF_OP_parameter);
    test.attributes[QF_ATTR(parameter, name)].string = "layer.weight";
    check_result(&test, 0, QF_F32, SHAPE(1));
    check_refuses(&test, "layer.weight");
}

static void every_op_of_the_table_has_its_kernel(void **state) {
    (void)state;
    uint32_t count, with_kernel = 0;
    const qf_op_info *table = qf_op_table(&count);
    for (uint32_t i = 0; i < count; i++) with_kernel += qf_cpu_kernel_of(table[i].op) != NULL;
    assert_int_equal(with_kernel, count - 2);
    assert_null(qf_cpu_kernel_of(QF_OP_return));
    assert_null(qf_cpu_kernel_of(QF_OP_opaque));
    assert_null(qf_cpu_kernel_of((qf_op)9999));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_functions),
        cmocka_unit_test(approximations_of_gelu),
        cmocka_unit_test(binary_functions),
        cmocka_unit_test(integers_wrap_and_never_trap),
        cmocka_unit_test(sixteen_bit_results_round_once),
        cmocka_unit_test(operands_broadcast),
        cmocka_unit_test(large_broadcasts_agree_with_indexing),
        cmocka_unit_test(where_and_clamp),
        cmocka_unit_test(fault_33_a_cast_saturates_or_overflows_as_asked),
        cmocka_unit_test(packed_casts_agree_across_threads),
        cmocka_unit_test(created_tensors),
        cmocka_unit_test(every_op_of_the_table_has_its_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
