/* Owns: tests of what the engine guarantees for every rule. */
#include "tests/patterns/rewriting.h"

static const char plain[] = "(%q: f16[B, 4, T, 8], %k: f16[B, 2, S, 8], %v: f16[B, 2, S, 8], %s: f32[]) {\n"
                            "  %a = attention %q, %k, %v {scale=0.5}\n"
                            "  %p = permute %a {order=[0, 2, 1, 3]}\n"
                            "  %r = view %p {shape=[B, T, 32]}\n"
                            "  %y = quantize %r, %s {dtype=f8E4M3FN}\n"
                            "  return %y\n}\n";

static void quantise_behind_layout_ops_fuses(void **state) {
    (void)state;
    bench b;
    bench_open(&b, plain);
    uint64_t tag = qf_node_at(b.graph, bench_find(&b, QF_OP_attention))->tag;
    bench_run(&b, "fuse_attention_quant");
    assert_true(b.changed);
    assert_int_equal(bench_count(&b, QF_OP_quantize), 0);
    qf_node fused = bench_find(&b, QF_OP_attention);
    assert_int_equal(bench_integer(&b, fused, QF_ATTR(attention, out)), QF_F8E4M3FN);
    assert_int_equal(bench_integer(&b, fused, QF_ATTR(attention, via)), QF_DTYPE_NONE);
    assert_int_equal(qf_node_at(b.graph, fused)->tag, tag);
    assert_int_equal(bench_count(&b, QF_OP_permute), 1);
    assert_int_equal(bench_count(&b, QF_OP_view), 1);
    assert_int_equal(b.report.rewrite_count, 1);
    assert_int_equal(b.report.rewrites[0].number, 1);
    assert_int_equal(b.report.rewrites[0].tag, tag);
    b.changed = false;
    bench_run(&b, "fuse_attention_quant");
    assert_false(b.changed);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantise_behind_layout_ops_fuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
