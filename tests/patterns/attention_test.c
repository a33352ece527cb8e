/* Owns: tests of patterns/attention.h: the spellings that are raised, and what becomes of their parts. */
#include "tests/patterns/raising.h"

#define QKV        "%q: f32[B, 4, T, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 16]"
#define SCORES     "  %s = contract %q, %k {equation=\"bhtd,bhsd->bhts\"}\n"
#define VALUES     "  %y = contract %p, %v {equation=\"bhts,bhsd->bhtd\"}\n"
#define SOFTMAX(x) "  %p = softmax " x " {axis=3}\n"

static void plain_attention_is_raised(void **state) {
    (void)state;
    bench b;
    raise_body(&b, QKV, SCORES SOFTMAX("%s") VALUES);
    qf_node node = raised(&b);
    assert_string_equal(operand_type(&b, node, QF_IN(attention, q)), "f32[B, 4, T, 8]");
    assert_string_equal(operand_type(&b, node, QF_IN(attention, k)), "f32[B, 4, S, 8]");
    assert_string_equal(operand_type(&b, node, QF_IN(attention, v)), "f32[B, 4, S, 16]");
    assert_true(raised_number(&b, node, QF_ATTR(attention, scale)) == 1.0);
    assert_false(bench_integer(&b, node, QF_ATTR(attention, causal)));
    assert_int_equal(b.report.rewrite_count, 1);
    assert_int_equal(b.report.rewrites[0].numerics, QF_NUMERICS_ROUNDING);
    /* only the attention and the return are left */
    assert_int_equal(b.graph->live_node_count, 2);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_attention_is_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
