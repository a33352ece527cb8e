/* Owns: tests of quantize, dequantize, dynamic_quantize, and of the quantised ends of norms.
 * Does not own: attention's quantised end (attention_fp8_test.c), codes of single numbers (tests/base/convert_test.c).
 * Next: kernel_check.h. */
#include "tests/kernels/kernel_check.h"

/* --- the definition: nearest e4m3 or e5m2 number by search over all codes, saturating --- */

static double nearest_code(qf_dtype dtype, double number) {
    double best = 0, distance = INFINITY, largest = qf_dtype_largest(dtype);
    if (isnan(number)) return NAN;
    if (fabs(number) >= largest) return copysign(largest, number);
    for (uint32_t code = 0; code < 256; code++) {
        double value = qf_decode(dtype, code), off = fabs(value - number);
        if (!isfinite(value)) continue;
        if (off < distance || (off == distance && !(code & 1))) best = value, distance = off;
    }
    return best;
}

static void set_quantize(kernel_test *test, qf_dtype dtype, int64_t mode, qf_dtype compute) {
    check_start(test, QF_OP_quantize);
    test->attributes[QF_ATTR(quantize, dtype)].integer = dtype;
    test->attributes[QF_ATTR(quantize, mode)].integer = mode;
    test->attributes[QF_ATTR(quantize, compute)].integer = compute;
}

/* 27: the reference divides, as the definition says, and both directions of the scale are probed. */
static void fault_27_the_scale_divides(void **state) {
    (void)state;
    const double scales[] = {0.125, 8};
    random_state random = {21};
    for (int i = 0; i < 2; i++) {
        for (qf_dtype dtype = QF_F8E4M3FN; dtype <= QF_F8E5M2; dtype++) {
            kernel_test test;
            set_quantize(&test, dtype, QF_VALUE_div, QF_F32);
            const qf_view *x = check_random_operand(&test, 0, QF_F32, SHAPE(100, 99), &random, 20, 0);
            check_operand(&test, 1, QF_F32, SCALAR, &scales[i]);
            check_result(&test, 0, dtype, SHAPE(100, 99));
            check_threads_agree(&test);
            for (int64_t k = 0; k < 9900; k++)
                assert_true(result_at(&test, 0, k) == nearest_code(dtype, qf_load_f64(QF_F32, x->data, k) / scales[i]));
            check_finish(&test);
        }
    }
}

/* 9: x / s, x * (1/s as the graph rounded it) and x * f32(1/s) differ on some number, and each is what it says. */
static void fault_9_modes_stay_apart(void **state) {
    (void)state;
    random_state random = {22};
    const float scale = 0.0437f;
    int div_differs = 0;
    for (int64_t mode = QF_VALUE_div; mode <= QF_VALUE_mul_recip; mode++) {
        kernel_test test;
        double given = mode == QF_VALUE_mul ? (double)qf_round_f32(QF_F16, 1.0f / scale, true) : (double)scale;
        set_quantize(&test, QF_F8E4M3FN, mode, QF_F32);
        const qf_view *x = check_operand(&test, 0, QF_F32, SHAPE(4096), NULL);
        for (int64_t i = 0; i < 4096; i++) /* next to the middles between codes */
            qf_store_f32(QF_F32, x->data, i,
                         nextafterf((8.5f + (float)(i % 8)) * scale, (float)random_below(&random, 2) * 100), true);
        check_operand(&test, 1, QF_F32, SCALAR, &given);
        check_result(&test, 0, QF_F8E4M3FN, SHAPE(4096));
        check_succeeds(&test);
        for (int64_t i = 0; i < 4096; i++) {
            float number = qf_load_f32(QF_F32, x->data, i), reciprocal = 1.0f / scale;
            float expected = mode == QF_VALUE_div   ? number / scale
                             : mode == QF_VALUE_mul ? number * (float)given
                                                    : number * reciprocal;
            assert_true(result_at(&test, 0, i) == nearest_code(QF_F8E4M3FN, (double)expected));
            div_differs += mode == QF_VALUE_mul_recip &&
                           result_at(&test, 0, i) != nearest_code(QF_F8E4M3FN, (double)(number / scale));
        }
        check_finish(&test);
    }
    assert_true(div_differs > 0);
}

static void computing_in_bf16_rounds_the_quotient_first(void **state) {
    (void)state;
    random_state random = {23};
    const qf_dtype computes[] = {QF_BF16, QF_F16};
    for (int c = 0; c < 2; c++) {
        kernel_test test;
        int differs = 0;
        set_quantize(&test, QF_F8E4M3FN, QF_VALUE_div, computes[c]);
        const double scale = 0.7109375; /* exact in both, and no small fraction */
        const qf_view *x = check_random_operand(&test, 0, computes[c], SHAPE(20000), &random, 30, 0);
        check_operand(&test, 1, QF_F32, SCALAR, &scale);
        check_result(&test, 0, QF_F8E4M3FN, SHAPE(20000));
        check_succeeds(&test);
        for (int64_t i = 0; i < 20000; i++) {
            double number = qf_load_f64(computes[c], x->data, i);
            double quotient = qf_decode(computes[c], qf_encode_f64(computes[c], number / scale, false));
            assert_true(result_at(&test, 0, i) == nearest_code(QF_F8E4M3FN, quotient));
            differs += nearest_code(QF_F8E4M3FN, number / scale) != nearest_code(QF_F8E4M3FN, quotient);
        }
        assert_true(c == 1 || differs > 0);
        check_finish(&test);
    }
}

static void fault_36_odd_scales_do_what_the_division_does(void **state) {
    (void)state;
    const double scales[] = {0, -2, NAN, INFINITY, 1e-40};
    const double expected[][4] = {
        {448, -448, NAN, NAN}, {-0.5, 0.5, 0, NAN}, {NAN, NAN, NAN, NAN}, {0, 0, 0, NAN}, {448, -448, NAN, NAN}};
    for (int i = 0; i < 5; i++) {
        kernel_test test;
        double row[4];
        memcpy(row, expected[i], sizeof row);
        if (i == 4) row[2] = 0; /* 0 over a denormal is 0 */
        set_quantize(&test, QF_F8E4M3FN, QF_VALUE_div, QF_F32);
        check_operand(&test, 0, QF_F32, SHAPE(4), NUMBERS(1, -1, 0, NAN));
        check_operand(&test, 1, QF_F32, SHAPE(1), &scales[i]);
        check_result(&test, 0, QF_F8E4M3FN, SHAPE(4));
        check_gives(&test, row, 0);
    }
}

static void fault_37_overflow_saturates_or_is_the_formats(void **state) {
    (void)state;
    for (int64_t saturate = 0; saturate < 2; saturate++) {
        for (qf_dtype dtype = QF_F8E4M3FN; dtype <= QF_F8E5M2; dtype++) {
            kernel_test test;
            double largest = qf_dtype_largest(dtype), past = saturate ? largest : dtype == QF_F8E5M2 ? INFINITY : NAN;
            set_quantize(&test, dtype, QF_VALUE_div, QF_F32);
            test.attributes[QF_ATTR(quantize, saturate)].integer = saturate;
            check_operand(&test, 0, QF_F32, SHAPE(4), NUMBERS(1e9, INFINITY, NAN, -1e9));
            check_operand(&test, 1, QF_F32, SCALAR, NUMBERS(0.5));
            check_result(&test, 0, dtype, SHAPE(4));
            check_gives(&test, NUMBERS(past, past, NAN, -past), 0);
        }
    }
}

static void granularities(void **state) {
    (void)state;
    const double x[] = {8, 16, 24, 32, 40, 48, 56, 64};
    kernel_test test;
    set_quantize(&test, QF_F8E4M3FN, QF_VALUE_div, QF_F32);
    test.attributes[QF_ATTR(quantize, axis)].integer = 0;
    check_operand(&test, 0, QF_F32, SHAPE(2, 4), x);
    check_operand(&test, 1, QF_F32, SHAPE(2), NUMBERS(8, 4));
    check_result(&test, 0, QF_F8E4M3FN, SHAPE(2, 4));
    check_gives(&test, NUMBERS(1, 2, 3, 4, 10, 12, 14, 16), 0);
    set_quantize(&test, QF_F8E4M3FN, QF_VALUE_div, QF_F32);
    test.attributes[QF_ATTR(quantize, axis)].integer = 1;
    test.attributes[QF_ATTR(quantize, group)].integer = 3;
    check_operand(&test, 0, QF_F32, SHAPE(2, 4), x);
    check_operand(&test, 1, QF_F32, SHAPE(2), NUMBERS(8, 4));
    check_result(&test, 0, QF_F8E4M3FN, SHAPE(2, 4));
    check_gives(&test, NUMBERS(1, 2, 3, 8, 5, 6, 7, 16), 0);
    set_quantize(&test, QF_F8E4M3FN, QF_VALUE_div, QF_F32);
    test.attributes[QF_ATTR(quantize, axis)].integer = 1;
    test.attributes[QF_ATTR(quantize, group)].integer = 2;
    check_operand(&test, 0, QF_F32, SHAPE(2, 4), x);
    check_operand(&test, 1, QF_F32, SHAPE(2, 2), NUMBERS(8, 4, 2, 1));
    check_result(&test, 0, QF_F8E4M3FN, SHAPE(2, 4));
    check_gives(&test, NUMBERS(1, 2, 6, 8, 20, 24, 56, 64), 0);
    check_start(&test, QF_OP_dequantize);
    test.attributes[QF_ATTR(dequantize, axis)].integer = 1;
    check_operand(&test, 0, QF_F8E5M2, SHAPE(2, 2), NUMBERS(1, 2, 3, 4));
    check_operand(&test, 1, QF_F32, SHAPE(2), NUMBERS(0.1, -2));
    check_result(&test, 0, QF_F32, SHAPE(2, 2));
    check_gives(&test, NUMBERS((double)0.1f, -4, (double)(3 * 0.1f), -8), 0);
    set_quantize(&test, QF_F8E4M3FN, QF_VALUE_div, QF_F32);
    test.attributes[QF_ATTR(quantize, axis)].integer = 1;
    check_operand(&test, 0, QF_F32, SHAPE(2, 4), x);
    check_operand(&test, 1, QF_F32, SHAPE(3), NUMBERS(8, 4, 1));
    check_result(&test, 0, QF_F8E4M3FN, SHAPE(2, 4));
    check_refuses(&test, "one scale an index or block of axis");
}

static void integers_take_zero_points(void **state) {
    (void)state;
    kernel_test test;
    set_quantize(&test, QF_U8, QF_VALUE_div, QF_F32);
    check_operand(&test, 0, QF_F32, SHAPE(6), NUMBERS(0, 2.5, 3.5, -300, 1000, NAN));
    check_operand(&test, 1, QF_F32, SCALAR, NUMBERS(1));
    check_operand(&test, 2, QF_U8, SCALAR, NUMBERS(128));
    check_result(&test, 0, QF_U8, SHAPE(6));
    check_gives(&test, NUMBERS(128, 130, 132, 0, 255, 0), 0);
    check_start(&test, QF_OP_dequantize);
    check_operand(&test, 0, QF_U8, SHAPE(3), NUMBERS(0, 128, 255));
    check_operand(&test, 1, QF_F32, SCALAR, NUMBERS(0.5));
    check_operand(&test, 2, QF_U8, SCALAR, NUMBERS(128));
    check_result(&test, 0, QF_BF16, SHAPE(3));
    check_gives(&test, NUMBERS(-64, 0, 63.5), 0);
}

/* 28: what quantize divides by, dequantize multiplies by; for NVFP4-like numbers too. */
static void fault_28_scales_have_one_direction(void **state) {
    (void)state;
    const qf_dtype dtypes[] = {QF_F8E4M3FN, QF_F8E5M2, QF_F4E2M1FN, QF_I8};
    for (int i = 0; i < 4; i++) {
        kernel_test down, up;
        set_quantize(&down, dtypes[i], QF_VALUE_div, QF_F32);
        check_operand(&down, 0, QF_F32, SHAPE(5), NUMBERS(0.25, -0.5, 0.75, 1, -1.5));
        check_operand(&down, 1, QF_F32, SCALAR, NUMBERS(0.25));
        check_result(&down, 0, dtypes[i], SHAPE(5));
        check_succeeds(&down);
        check_start(&up, QF_OP_dequantize);
        qf_view *codes = check_operand(&up, 0, dtypes[i], SHAPE(5), NULL);
        memcpy(codes->data, down.results[0].data, view_bytes(codes));
        check_operand(&up, 1, QF_F32, SCALAR, NUMBERS(0.25));
        check_result(&up, 0, QF_F32, SHAPE(5));
        check_gives(&up, NUMBERS(0.25, -0.5, 0.75, 1, -1.5), 0);
        check_finish(&down);
    }
}

static void fault_40_fnuz_codes_are_halved(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_dequantize);
    qf_view *codes = check_operand(&test, 0, QF_F8E4M3FNUZ, SHAPE(1), NULL);
    memset(codes->data, qf_encode_f32(QF_F8E4M3FN, 3.0f, true), 1);
    check_operand(&test, 1, QF_F32, SCALAR, NUMBERS(2));
    check_result(&test, 0, QF_F32, SHAPE(1));
    check_gives(&test, NUMBERS(3), 0);
}

static void dynamic_scales(void **state) {
    (void)state;
    const double x[] = {1, -4, 2, NAN, 0, 0, 0, 0};
    const struct {
        int64_t granularity, group, scales;
        double scale[4], y[8];
    } cases[] = {{QF_VALUE_tensor, 0, 1, {4 / 448.0}, {112, -448, 224, NAN, 0, 0, 0, 0}},
                 {QF_VALUE_token, 0, 2, {4 / 448.0, 1}, {112, -448, 224, NAN, 0, 0, 0, 0}},
                 {QF_VALUE_group, 2, 4, {4 / 448.0, 2 / 448.0, 1, 1}, {112, -448, 448, NAN, 0, 0, 0, 0}}};
    for (int i = 0; i < 3; i++) {
        kernel_test test;
        check_start(&test, QF_OP_dynamic_quantize);
        test.attributes[QF_ATTR(dynamic_quantize, granularity)].integer = cases[i].granularity;
        test.attributes[QF_ATTR(dynamic_quantize, group)].integer = cases[i].group;
        check_operand(&test, 0, QF_F32, SHAPE(2, 4), x);
        check_result(&test, 0, QF_F8E4M3FN, SHAPE(2, 4));
        check_result(&test, 1, QF_F32, cases[i].scales == 1 ? SCALAR : SHAPE(2, cases[i].scales / 2));
        check_succeeds(&test);
        check_numbers_of(&test, 0, cases[i].y, 0);
        check_numbers_of(&test, 1, cases[i].scale, 1e-7);
        check_finish(&test);
    }
    kernel_test test;
    check_start(&test, QF_OP_dynamic_quantize);
    check_operand(&test, 0, QF_F32, SHAPE(2), NUMBERS(1000, 1));
    check_operand(&test, 1, QF_F32, SCALAR, NUMBERS(4.48));
    check_result(&test, 0, QF_F8E4M3FN, SHAPE(2));
    check_result(&test, 1, QF_F32, SCALAR);
    check_gives(&test, NUMBERS(448, 96), 0);
}

/* A norm with out_scale gives the codes of the norm followed by quantize: class exact. */
static void norms_end_as_the_chain_does(void **state) {
    (void)state;
    random_state random = {25};
    const qf_dtype vias[] = {QF_DTYPE_NONE, QF_BF16, QF_F16};
    for (int i = 0; i < 9; i++) {
        qf_dtype via = vias[i % 3], plain = via == QF_DTYPE_NONE ? QF_F32 : via;
        kernel_test fused, norm, quantise;
        const double scale = 0.0123;
        qf_op op = i < 3 ? QF_OP_rms_norm : i < 6 ? QF_OP_silu_mul : QF_OP_add_rms_norm;
        shape in = SHAPE(9, 130), out = op == QF_OP_silu_mul ? SHAPE(9, 65) : in;
        int64_t mode = i % 3;
        check_start(&fused, op);
        check_start(&norm, op);
        random_state again = random;
        for (uint32_t operand = 0; operand < (op == QF_OP_add_rms_norm ? 2u : 1u); operand++) {
            check_random_operand(&fused, operand, QF_BF16, in, &random, 1, 0);
            check_random_operand(&norm, operand, QF_BF16, in, &again, 1, 0);
        }
        uint32_t out_scale = op == QF_OP_rms_norm   ? QF_IN(rms_norm, out_scale)
                             : op == QF_OP_silu_mul ? QF_IN(silu_mul, out_scale)
                                                    : QF_IN(add_rms_norm, out_scale);
        uint32_t base = op == QF_OP_silu_mul ? 0 : 2; /* out, out_mode, out_compute, via follow axis and epsilon */
        if (base) fused.attributes[0].integer = norm.attributes[0].integer = 1;
        fused.attributes[base + 1].integer = mode;
        fused.attributes[base + 2].integer = QF_BF16;
        fused.attributes[base + 3].integer = via;
        check_operand(&fused, out_scale, QF_F32, SCALAR, &scale);
        check_result(&fused, 0, QF_F8E4M3FN, out);
        check_result(&norm, 0, plain, out);
        if (op == QF_OP_add_rms_norm) check_result(&fused, 1, QF_BF16, in), check_result(&norm, 1, QF_BF16, in);
        check_threads_agree(&fused);
        check_succeeds(&norm);
        set_quantize(&quantise, QF_F8E4M3FN, mode, QF_BF16);
        memcpy(check_operand(&quantise, 0, plain, out, NULL)->data, norm.results[0].data, view_bytes(&norm.results[0]));
        check_operand(&quantise, 1, QF_F32, SCALAR, &scale);
        check_result(&quantise, 0, QF_F8E4M3FN, out);
        check_succeeds(&quantise);
        assert_memory_equal(fused.results[0].data, quantise.results[0].data, view_bytes(&fused.results[0]));
        check_finish(&fused);
        check_finish(&norm);
        check_finish(&quantise);
    }
    assert_int_equal(QF_ATTR(rms_norm, via), 5);
    assert_int_equal(QF_ATTR(add_rms_norm, via), 5);
    assert_int_equal(QF_ATTR(silu_mul, via), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_27_the_scale_divides),
        cmocka_unit_test(fault_9_modes_stay_apart),
        cmocka_unit_test(computing_in_bf16_rounds_the_quotient_first),
        cmocka_unit_test(fault_36_odd_scales_do_what_the_division_does),
        cmocka_unit_test(fault_37_overflow_saturates_or_is_the_formats),
        cmocka_unit_test(granularities),
        cmocka_unit_test(integers_take_zero_points),
        cmocka_unit_test(fault_28_scales_have_one_direction),
        cmocka_unit_test(fault_40_fnuz_codes_are_halved),
        cmocka_unit_test(dynamic_scales),
        cmocka_unit_test(norms_end_as_the_chain_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
