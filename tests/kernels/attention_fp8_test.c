/* Owns: tests of attention's quantised sides: FP8 operands, P, the FP8 result.
 * Does not own: edges (attention_edge_test.c), shapes, masks and layouts (attention_test.c).
 * Next: docs/numerics.md. */
#include "tests/kernels/attention_site.h"

static void dequantise_into(kernel_test *to, uint32_t operand, const kernel_test *from, qf_dtype dtype, double scale) {
    kernel_test step;
    const qf_view *codes = &from->operands[operand];
    check_start(&step, QF_OP_dequantize);
    shape dims = {codes->rank, {0}};
    memcpy(dims.dims, codes->dims, sizeof dims.dims);
    memcpy(check_operand(&step, 0, codes->dtype, dims, NULL)->data, codes->data, view_bytes(codes));
    check_operand(&step, 1, QF_F32, SCALAR, &scale);
    check_result(&step, 0, dtype, dims);
    check_succeeds(&step);
    memcpy(check_operand(to, operand, dtype, dims, NULL)->data, step.results[0].data, view_bytes(&step.results[0]));
    check_finish(&step);
}

/* Each scale is applied exactly once: FP8 operands give the bits of dequantise-then-attend, with unlike scales.
 */
static void fault_29_fp8_operands_equal_dequantised_ones(void **state) {
    (void)state;
    for (qf_dtype dtype = QF_F8E4M3FN; dtype <= QF_F8E5M2FNUZ; dtype++) {
        const site at = {8, 2, 7, 100, 40, dtype, 0.25, 0.5, 2.0, 1};
        kernel_test direct, unfused;
        start_site(&direct, &at, 31, QF_F32);
        check_result(&direct, 1, QF_F32, SHAPE(1, 8, 7));
        check_threads_agree(&direct);
        check_start(&unfused, QF_OP_attention);
        unfused.attributes[QF_ATTR(attention, scale)] = direct.attributes[QF_ATTR(attention, scale)];
        dequantise_into(&unfused, 0, &direct, QF_F32, at.q_scale);
        dequantise_into(&unfused, 1, &direct, QF_F32, at.k_scale);
        dequantise_into(&unfused, 2, &direct, QF_F32, at.v_scale);
        check_result(&unfused, 0, QF_F32, SHAPE(1, 8, 7, 40));
        check_result(&unfused, 1, QF_F32, SHAPE(1, 8, 7));
        check_succeeds(&unfused);
        for (int i = 0; i < 2; i++)
            assert_memory_equal(direct.results[i].data, unfused.results[i].data, view_bytes(&direct.results[i]));
        /* A scale that is twice as large must show, for each operand. */
        for (uint32_t scale = QF_IN(attention, q_scale); scale <= QF_IN(attention, v_scale); scale++) {
            if (scale == QF_IN(attention, p_scale)) continue;
            float doubled = 2 * qf_load_f32(QF_F32, direct.operands[scale].data, 0), before = doubled / 2;
            qf_store_f32(QF_F32, direct.operands[scale].data, 0, doubled, true);
            check_succeeds(&direct);
            assert_memory_not_equal(direct.results[0].data, unfused.results[0].data, view_bytes(&direct.results[0]));
            if (scale == QF_IN(attention, v_scale)) /* twice the value scale, twice the result, exactly */
                for (int64_t i = 0; i < view_count(&direct.results[0]); i++)
                    assert_true(result_at(&direct, 0, i) == 2 * result_at(&unfused, 0, i));
            qf_store_f32(QF_F32, direct.operands[scale].data, 0, before, true);
        }
        check_finish(&direct);
        check_finish(&unfused);
    }
}

/* With one value for both scales a swap would not show. */
static void fault_30_the_scales_of_k_and_v_are_not_swapped(void **state) {
    (void)state;
    const site right = {4, 2, 5, 50, 16, QF_F8E4M3FN, 1, 0.5, 2.0, 1},
               swapped = {4, 2, 5, 50, 16, QF_F8E4M3FN, 1, 2.0, 0.5, 1};
    kernel_test one, other;
    start_site(&one, &right, 30, QF_F32);
    start_site(&other, &swapped, 30, QF_F32);
    check_succeeds(&one);
    check_succeeds(&other);
    /* A scale of k moves the scores as the softmax scale does; one of v multiplies the result. */
    other.attributes[QF_ATTR(attention, scale)].number /= 4;
    check_succeeds(&other);
    for (int64_t i = 0; i < view_count(&one.results[0]); i++)
        assert_true(result_at(&one, 0, i) == 4 * result_at(&other, 0, i));
    check_finish(&one);
    check_finish(&other);
}

static void scales_may_differ_by_kv_head(void **state) {
    (void)state;
    const site at = {4, 2, 3, 20, 16, QF_F8E4M3FN, 1, 1, 1, 1};
    kernel_test both, one;
    const double k_scales[] = {0.5, 2}, v_scales[] = {3, 0.125}, q_scales[] = {0.25, 1};
    start_site(&both, &at, 32, QF_F32);
    check_operand(&both, QF_IN(attention, q_scale), QF_F32, SHAPE(2), q_scales);
    check_operand(&both, QF_IN(attention, k_scale), QF_F32, SHAPE(2), k_scales);
    check_operand(&both, QF_IN(attention, v_scale), QF_F32, SHAPE(2), v_scales);
    check_succeeds(&both);
    for (int64_t head = 0; head < 2; head++) {
        start_site(&one, &at, 32, QF_F32);
        check_operand(&one, QF_IN(attention, q_scale), QF_F32, SCALAR, &q_scales[head]);
        check_operand(&one, QF_IN(attention, k_scale), QF_F32, SCALAR, &k_scales[head]);
        check_operand(&one, QF_IN(attention, v_scale), QF_F32, SCALAR, &v_scales[head]);
        check_succeeds(&one);
        size_t half = view_bytes(&one.results[0]) / 2;
        assert_memory_equal((char *)one.results[0].data + head * half, (char *)both.results[0].data + head * half,
                            half);
        check_finish(&one);
    }
    check_finish(&both);
}

static void fault_34_codes_need_their_scale(void **state) {
    (void)state;
    for (uint32_t scale = QF_IN(attention, q_scale); scale <= QF_IN(attention, v_scale); scale++) {
        const site at = {2, 1, 1, 3, 8, QF_F8E4M3FN, 1, 1, 1, 1};
        kernel_test test;
        if (scale == QF_IN(attention, p_scale)) continue;
        start_site(&test, &at, 33, QF_F32);
        free(test.operands[scale].data);
        test.operands[scale] = (qf_view){0};
        check_refuses(&test, "a scale beside");
    }
    kernel_test test;
    start_site(&test, &plain, 34, QF_F8E4M3FN);
    check_refuses(&test, "out_scale");
}

/* A scale beside a q that is not FP8 is not applied; bf16 q beside FP8 keys and values is legal. */
static void fault_42_the_query_has_a_dtype_of_its_own(void **state) {
    (void)state;
    kernel_test without, with;
    start_site(&without, &plain, 34, QF_F32);
    start_site(&with, &plain, 34, QF_F32);
    check_operand(&with, QF_IN(attention, q_scale), QF_F32, SCALAR, NUMBERS(16));
    check_succeeds(&without);
    check_succeeds(&with);
    assert_memory_equal(without.results[0].data, with.results[0].data, view_bytes(&with.results[0]));
    check_finish(&without);
    check_finish(&with);
    kernel_test test;
    const site mixed = {4, 2, 3, 20, 16, QF_F8E4M3FN, 0.5, 0.25, 2, 1};
    start_site(&test, &mixed, 35, QF_F32);
    dequantise_into(&test, 0, &test, QF_BF16, 0.5);
    free(test.operands[QF_IN(attention, q_scale)].data);
    test.operands[QF_IN(attention, q_scale)] = (qf_view){0};
    start_site(&with, &mixed, 35, QF_F32);
    check_succeeds(&test);
    check_succeeds(&with);
    assert_memory_equal(test.results[0].data, with.results[0].data, view_bytes(&with.results[0]));
    check_finish(&test);
    check_finish(&with);
}

/* Class exact: an FP8 result is the plain result (in `via`, or f32) followed by quantize, bit for bit. One rounding
 * without via. */
static void fault_56_the_result_is_attention_then_quantize(void **state) {
    (void)state;
    const qf_dtype vias[] = {QF_DTYPE_NONE, QF_BF16, QF_F16}, computes[] = {QF_F32, QF_BF16, QF_F16};
    int differs = 0;
    for (int i = 0; i < 27; i++) {
        qf_dtype via = vias[i % 3], compute = computes[i / 3 % 3], middle = via == QF_DTYPE_NONE ? QF_F32 : via;
        int64_t mode = i / 9;
        const double scale = 0.0031;
        kernel_test fused, attend, quantise;
        start_site(&fused, &plain, 36, QF_F8E4M3FN);
        fused.attributes[QF_ATTR(attention, out_mode)].integer = mode;
        fused.attributes[QF_ATTR(attention, out_compute)].integer = compute;
        fused.attributes[QF_ATTR(attention, via)].integer = via;
        check_operand(&fused, QF_IN(attention, out_scale), QF_F32, SHAPE(1), &scale);
        start_site(&attend, &plain, 36, middle);
        check_succeeds(&fused);
        check_succeeds(&attend);
        check_start(&quantise, QF_OP_quantize);
        quantise.attributes[QF_ATTR(quantize, mode)].integer = mode;
        quantise.attributes[QF_ATTR(quantize, compute)].integer = compute;
        memcpy(check_operand(&quantise, 0, middle, SHAPE(1, 4, 5, 32), NULL)->data, attend.results[0].data,
               view_bytes(&attend.results[0]));
        check_operand(&quantise, 1, QF_F32, SHAPE(1), &scale);
        check_result(&quantise, 0, QF_F8E4M3FN, SHAPE(1, 4, 5, 32));
        check_succeeds(&quantise);
        assert_memory_equal(fused.results[0].data, quantise.results[0].data, view_bytes(&fused.results[0]));
        if (via == QF_BF16 && compute == QF_F32) {
            fused.attributes[QF_ATTR(attention, via)].integer = QF_DTYPE_NONE;
            check_succeeds(&fused);
            differs += memcmp(fused.results[0].data, quantise.results[0].data, view_bytes(&fused.results[0])) != 0;
        }
        check_finish(&fused);
        check_finish(&attend);
        check_finish(&quantise);
    }
    assert_true(differs > 0);
}

/* --- P --- */

/* p=graph is contract, softmax, quantize, dequantize, contract. One head and one row, so that a vector serves. */
static void p_graph_is_the_decomposed_chain(void **state) {
    (void)state;
    for (int quantised = 0; quantised < 2; quantised++) {
        random_state random = {41};
        const double p_scale = 1 / 448.0;
        kernel_test step, fused;
        static float scores[200], p[200];
        check_start(&fused, QF_OP_attention);
        fused.attributes[QF_ATTR(attention, scale)].number = 0.25;
        fused.attributes[QF_ATTR(attention, p)].integer = quantised ? QF_VALUE_graph : QF_VALUE_none;
        const qf_view *q = check_random_operand(&fused, 0, QF_F32, SHAPE(1, 1, 1, 70), &random, 1, 0);
        const qf_view *k = check_random_operand(&fused, 1, QF_F32, SHAPE(1, 1, 200, 70), &random, 1, 0);
        const qf_view *v = check_random_operand(&fused, 2, QF_F32, SHAPE(1, 1, 200, 30), &random, 1, 0.25);
        if (quantised) check_operand(&fused, QF_IN(attention, p_scale), QF_F32, SCALAR, &p_scale);
        check_result(&fused, 0, QF_F32, SHAPE(1, 1, 1, 30));
        check_succeeds(&fused);

        check_start(&step, QF_OP_contract);
        step.attributes[0].string = "bhtd,bhsd->bhts";
        memcpy(check_operand(&step, 0, QF_F32, SHAPE(1, 1, 1, 70), NULL)->data, q->data, view_bytes(q));
        memcpy(check_operand(&step, 1, QF_F32, SHAPE(1, 1, 200, 70), NULL)->data, k->data, view_bytes(k));
        check_result(&step, 0, QF_F32, SHAPE(1, 1, 1, 200));
        check_succeeds(&step);
        memcpy(scores, step.results[0].data, sizeof scores);
        check_finish(&step);
        for (int i = 0; i < 200; i++) scores[i] *= 0.25f;
        check_start(&step, QF_OP_softmax);
        step.attributes[0].integer = 0;
        memcpy(check_operand(&step, 0, QF_F32, SHAPE(200), NULL)->data, scores, sizeof scores);
        check_result(&step, 0, QF_F32, SHAPE(200));
        check_succeeds(&step);
        memcpy(p, step.results[0].data, sizeof p);
        check_finish(&step);
        for (int i = 0; i < 200 && quantised; i++)
            p[i] = qf_round_f32(QF_F8E4M3FN, p[i] / (float)p_scale, true) * (float)p_scale;
        check_start(&step, QF_OP_contract);
        step.attributes[0].string = "bhts,bhse->bhte";
        memcpy(check_operand(&step, 0, QF_F32, SHAPE(1, 1, 1, 200), NULL)->data, p, sizeof p);
        memcpy(check_operand(&step, 1, QF_F32, SHAPE(1, 1, 200, 30), NULL)->data, v->data, view_bytes(v));
        check_result(&step, 0, QF_F32, SHAPE(1, 1, 1, 30));
        check_succeeds(&step);
        assert_memory_equal(step.results[0].data, fused.results[0].data, view_bytes(&step.results[0]));
        check_finish(&step);
        check_finish(&fused);
    }
}

/* p=kernel, emulated in f64 with the roundings that docs/numerics.md states; sinks join the divisor unrounded. */
static void p_kernel_is_the_documented_emulation(void **state) {
    (void)state;
    for (int with_sink = 0; with_sink < 2; with_sink++) {
        kernel_test test;
        const site at = {2, 1, 3, 300, 64, QF_F32, 1, 1, 1, 2};
        const double sinks[] = {4, -1};
        start_site(&test, &at, 42, QF_F32);
        test.attributes[QF_ATTR(attention, p)].integer = QF_VALUE_kernel;
        if (with_sink) check_operand(&test, QF_IN(attention, sinks), QF_F32, SHAPE(2), sinks);
        check_result(&test, 1, QF_F32, SHAPE(1, 2, 3));
        check_threads_agree(&test);
        for (int64_t row = 0; row < 6; row++) {
            double scores[300], most = -INFINITY, sum = 0, exact = with_sink ? exp(sinks[row / 3]) : 0;
            for (int64_t s = 0; s < 300; s++) {
                scores[s] = 0;
                for (int64_t i = 0; i < 64; i++)
                    scores[s] += qf_load_f64(QF_F32, test.operands[0].data, row * 64 + i) *
                                 qf_load_f64(QF_F32, test.operands[1].data, s * 64 + i);
                scores[s] *= 0.125;
                exact += exp(scores[s]);
                most = fmax(most, scores[s] / log(2));
            }
            double reference = ceil(most), out[64] = {0};
            for (int64_t s = 0; s < 300; s++) {
                double p =
                    qf_decode(QF_F8E4M3FN, qf_encode_f64(QF_F8E4M3FN, exp2(scores[s] / log(2) - reference + 8), true));
                sum += p;
                for (int64_t e = 0; e < 64; e++) out[e] += p * qf_load_f64(QF_F32, test.operands[2].data, s * 64 + e);
            }
            if (with_sink) sum += exp2(sinks[row / 3] / log(2) - reference + 8);
            for (int64_t e = 0; e < 64; e++)
                assert_true(fabs(result_at(&test, 0, row * 64 + e) - out[e] / sum) < 2e-3 * (1 + fabs(out[e] / sum)));
            assert_true(fabs(result_at(&test, 1, row) - log(exact)) < 0.03);
        }
        check_finish(&test);
    }
}

/* A scale of P is not what the maximum cancels: another p_scale gives another histogram of P, hence another result.
 */
static void fault_38_the_scale_of_p_matters(void **state) {
    (void)state;
    kernel_test test;
    double before[4 * 5 * 32];
    start_site(&test, &plain, 43, QF_F32);
    test.attributes[QF_ATTR(attention, p)].integer = QF_VALUE_graph;
    check_operand(&test, QF_IN(attention, p_scale), QF_F32, SCALAR, NUMBERS(1 / 448.0));
    check_succeeds(&test);
    for (int i = 0; i < 4 * 5 * 32; i++) before[i] = result_at(&test, 0, i);
    check_operand(&test, QF_IN(attention, p_scale), QF_F32, SCALAR, NUMBERS(1));
    check_succeeds(&test);
    int differs = 0;
    for (int i = 0; i < 4 * 5 * 32; i++) differs += before[i] != result_at(&test, 0, i);
    assert_true(differs > 600);
    check_finish(&test);
}

/* V of one value gives that value at any length, for every P. */
static void fault_50_long_context_has_no_bias(void **state) {
    (void)state;
    for (int64_t p = QF_VALUE_none; p <= QF_VALUE_kernel; p += 2) {
        for (int64_t keys = 1024; keys <= 131072; keys *= 128) {
            random_state random = {44};
            kernel_test test;
            check_start(&test, QF_OP_attention);
            test.attributes[QF_ATTR(attention, scale)].number = 0.5;
            test.attributes[QF_ATTR(attention, p)].integer = p;
            check_random_operand(&test, 0, QF_F32, SHAPE(1, 1, 1, 4), &random, 1, 0);
            check_random_operand(&test, 1, QF_F32, SHAPE(1, 1, keys, 4), &random, 0.5, 0);
            qf_view *v = check_operand(&test, 2, QF_F32, SHAPE(1, 1, keys, 1), NULL);
            for (int64_t i = 0; i < keys; i++) qf_store_f32(QF_F32, v->data, i, 1.0f, true);
            check_result(&test, 0, QF_F32, SHAPE(1, 1, 1, 1));
            check_succeeds(&test);
            assert_true(fabs(result_at(&test, 0, 0) - 1) < 1e-4);
            check_finish(&test);
        }
    }
}

/* A maximum that rises a little with every key: P neither saturates nor loses keys on the way. */
static void fault_55_rising_maxima_lose_nothing(void **state) {
    (void)state;
    for (int steepness = 1; steepness <= 3; steepness++) {
        kernel_test test;
        double exact[64], product = 0, found_square = 0, exact_square = 0;
        const site at = {1, 1, 1, 400, 64, QF_F32, 1, 1, 1, 1};
        start_site(&test, &at, 55, QF_F32);
        for (int64_t i = 0; i < 64; i++) qf_store_f32(QF_F32, test.operands[0].data, i, 1, true);
        for (int64_t s = 0; s < 400; s++)
            for (int64_t i = 0; i < 64; i++)
                qf_store_f32(QF_F32, test.operands[1].data, s * 64 + i, (float)s * 0.003f * (float)steepness, true);
        check_succeeds(&test);
        for (int64_t i = 0; i < 64; i++) exact[i] = result_at(&test, 0, i);
        test.attributes[QF_ATTR(attention, p)].integer = QF_VALUE_kernel;
        check_succeeds(&test);
        for (int64_t i = 0; i < 64; i++) {
            product += exact[i] * result_at(&test, 0, i);
            found_square += result_at(&test, 0, i) * result_at(&test, 0, i);
            exact_square += exact[i] * exact[i];
        }
        assert_true(product / sqrt(found_square * exact_square) > 0.999);
        assert_true(fabs(sqrt(found_square / exact_square) - 1) < 0.02);
        check_finish(&test);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_29_fp8_operands_equal_dequantised_ones),
        cmocka_unit_test(fault_30_the_scales_of_k_and_v_are_not_swapped),
        cmocka_unit_test(scales_may_differ_by_kv_head),
        cmocka_unit_test(fault_34_codes_need_their_scale),
        cmocka_unit_test(fault_42_the_query_has_a_dtype_of_its_own),
        cmocka_unit_test(fault_56_the_result_is_attention_then_quantize),
        cmocka_unit_test(p_graph_is_the_decomposed_chain),
        cmocka_unit_test(p_kernel_is_the_documented_emulation),
        cmocka_unit_test(fault_38_the_scale_of_p_matters),
        cmocka_unit_test(fault_50_long_context_has_no_bias),
        cmocka_unit_test(fault_55_rising_maxima_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
