/* Owns: tests of the reasons that are given for attentions that stay decomposed.
 * Does not own: attentions that are raised (attention_test.c), masks (attention_mask_test.c).
 * Next: patterns/reasons.def. */
#include "tests/patterns/raising.h"
#include "tests/patterns/spellings.h"

static void fault_76_unknown_ops_have_a_reason(void **state) {
    (void)state;
    bench b;
    raise_body(
        &b, "%x: f32[B, 4, T, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 6]",
        "  %q = opaque %x {name=\"com.vendor.Rotate\", pure=true} : f32[*]\n  %kt = permute %k {order=[0, 1, 3, 2]}\n"
        "  %s = matmul %q, %kt\n  %p = softmax %s {axis=3}\n  %y = matmul %p, %v\n");
    assert_int_equal(b.report.miss_count, 1);
    assert_string_equal(qf_reason_code(b.report.misses[0].reason), "unknown_op");
    assert_string_equal(qf_string_c(b.context, b.report.misses[0].node_text), "com.vendor.Rotate");
    bench_close(&b);
    expect_reason(QKV, SCORES "  %l = opaque %s {name=\"x.Bias\", pure=true} : f32[B, 4, T, S]\n" SOFTMAX VALUES,
                  QF_REASON_unknown_op);
    expect_reason(
        QKV,
        SCORES "  %p0 = softmax %s {axis=3}\n  %p = opaque %p0 {name=\"x.Drop\", pure=true} : f32[B, 4, T, S]\n" VALUES,
        QF_REASON_unknown_op);
}

static void fault_77_three_reasons(void **state) {
    (void)state;
    expect_reason(QKV ", %w: f32[4, T, S]", SCORES "  %s1 = add %s, %w\n  %l = tanh %s1\n" SOFTMAX VALUES,
                  QF_REASON_bias_under_softcap);
    expect_reason(QKV ", %q2: f32[B, 4, T, 8], %k2: f32[B, 4, S, 8]",
                  SCORES
                  "  %s2 = contract %q2, %k2 {equation=\"bhtd,bhsd->bhts\"}\n  %l = add %s, %s2\n" SOFTMAX VALUES,
                  QF_REASON_second_contraction);
    expect_reason(QKV, SCORES NUMBER("c", "0.5") "  %s1 = mul %s, %c\n  %l = add %s1, %s\n" SOFTMAX VALUES,
                  QF_REASON_scores_used_twice);
    expect_reason(QKV,
                  SCORES NUMBER("z", "0.0")
                      NUMBER("f", "-inf") "  %c = greater %s, %z\n  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  QF_REASON_scores_used_twice);
}

static void other_reasons(void **state) {
    (void)state;
    expect_reason(QKV, SCORES "  %l = sigmoid %s\n" SOFTMAX VALUES, QF_REASON_score_op);
    expect_reason(QKV ", %m: i1[B, 1, T, S]", SCORES NUMBER("f", "-3.0") "  %l = where %m, %s, %f\n" SOFTMAX VALUES,
                  QF_REASON_fill_not_masking);
    expect_reason(SQUARE,
                  SCORES "  %i = iota {shape=[T, 1], start=T}\n  %j = iota {shape=[1, T], axis=1}\n  %d = sub %j, %j\n"
                         "  %one = symbolic {values=[1], shape=[]}\n  %c = greater_equal %d, %one\n" NUMBER(
                             "f", "-inf") "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  QF_REASON_mask_hides_everything);
    expect_reason("%l: f32[B, 4, T, S], %v: f32[B, 4, S, 6]", SOFTMAX VALUES, QF_REASON_roles);
}

/* What the scores themselves decide is read again after the rewrite. */
static void masks_of_the_scores_keep_the_scores(void **state) {
    (void)state;
    expect_reason(QKV,
                  SCORES NUMBER("f", "-inf") "  %m = reduce_max %s {axes=[3]}\n  %c = greater_equal %s, %m\n"
                                             "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  QF_REASON_scores_used_twice);
    expect_reason(QKV, SCORES "  %m = reduce_max %s {axes=[3]}\n  %l = mul %s, %m\n" SOFTMAX VALUES,
                  QF_REASON_scores_used_twice);
}

/* A fill that is finite is shifted as the scores are only where it stands under the shift. */
static void a_shift_under_a_finite_fill_stays(void **state) {
    (void)state;
    bench b;
    raise_body(&b, QKV ", %m: i1[B, 1, T, S], %r: f32[B, 1, T, 1]",
               SCORES NUMBER("f", "-1e30") "  %a = add %s, %r\n  %l = where %m, %a, %f\n" SOFTMAX VALUES);
    assert_true(qf_node_operand(b.graph, raised(&b), QF_IN(attention, bias)).id != 0);
    bench_close(&b);
}

static void a_plain_product_is_no_miss(void **state) {
    (void)state;
    bench b;
    raise_body(&b, "%a: f32[B, T, S], %v: f32[B, S, 6]", "  %e = exp %a\n  %y = matmul %e, %v\n");
    assert_int_equal(b.report.miss_count, 0);
    assert_false(b.changed);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_76_unknown_ops_have_a_reason),
        cmocka_unit_test(fault_77_three_reasons),
        cmocka_unit_test(other_reasons),
        cmocka_unit_test(masks_of_the_scores_keep_the_scores),
        cmocka_unit_test(a_shift_under_a_finite_fill_stays),
        cmocka_unit_test(a_plain_product_is_no_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
