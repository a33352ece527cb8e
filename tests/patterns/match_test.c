/* Owns: tests of the matcher: several results and sinks, commuted operands, duplicates, look-through, memory.
 * Does not own: what a match leads to (engine_test.c).
 * Next: patterns/match.c. */
#include "tests/patterns/rewriting.h"

static void add_rule(bench *b, const char *text) {
    if (qf_rules_load(b->context, qf_text_of(text), "test.rules") != QF_OK) fail_msg("%s", b->check.messages);
}

#define BODY                                                                                                           \
    "(%x: f32[4], %z: f32[4], %w: f32[4]) {\n  %a = sin %x\n  %b = cos %z\n  %c = cos %x\n  %d = sin %z\n"             \
    "  %e = sin %w\n  return %a, %b, %c, %d, %e\n}\n"

/* Two sinks: whichever is written first, and whichever comes first in the graph, the matches are the same. */
static void fault_6_the_order_of_outputs_does_not_matter(void **state) {
    (void)state;
    static const char *const rules[] = {
        "rule pair canonicalize numerics relaxed benefit 50\n\"Test.\"\nbefore\n  %s = sin %x\n  %c = cos %x\n"
        "after\n  %s = %x\n  %c = %x\nend\n",
        "rule pair canonicalize numerics relaxed benefit 50\n\"Test.\"\nbefore\n  %c = cos %x\n  %s = sin %x\n"
        "after\n  %c = %x\n  %s = %x\nend\n",
    };
    for (size_t i = 0; i < QF_COUNT_OF(rules); i++) {
        bench b;
        bench_open(&b, BODY);
        b.options.numerics = QF_NUMERICS_RELAXED;
        add_rule(&b, rules[i]);
        bench_run(&b, "canonicalize");
        assert_int_equal(b.report.rewrite_count, 2);
        assert_int_equal(bench_count(&b, QF_OP_cos), 0);
        assert_int_equal(bench_count(&b, QF_OP_sin), 1); /* of %w, which has no cos */
        bench_close(&b);
    }
    /* The results of one node in any order of use. */
    static const char *const products[] = {"mul %s, %u", "mul %u, %s"};
    for (size_t i = 0; i < QF_COUNT_OF(products); i++) {
        char text[512];
        bench b;
        (void)snprintf(text, sizeof text,
                       "(%%x: f32[A, 8]) {\n  %%g, %%u = split %%x {axis=1, sizes=[4, 4]}\n  %%s = silu %%g\n"
                       "  %%y = %s\n  return %%y\n}\n",
                       products[i]);
        bench_open(&b, text);
        bench_run(&b, "raise");
        assert_int_equal(bench_count(&b, QF_OP_silu_mul), 1);
        bench_close(&b);
    }
    /* The second half through silu is another function. */
    bench b;
    bench_open(&b, "(%x: f32[A, 8]) {\n  %g, %u = split %x {axis=1, sizes=[4, 4]}\n  %s = silu %u\n"
                   "  %y = mul %s, %g\n  return %y\n}\n");
    bench_run(&b, "raise");
    assert_int_equal(bench_count(&b, QF_OP_silu_mul), 0);
    bench_close(&b);
}

static void fault_19_commutative_operands_in_both_orders(void **state) {
    (void)state;
    static const char *const rule =
        "rule nest canonicalize numerics relaxed benefit 50\n\"Test.\"\nbefore\n  %n = neg %x\n  %m = mul %n, %y\n"
        "  %z = add %m, $c\nafter\n  %z = add %x, $c\nend\n";
    static const char *const bodies[] = {
        "  %m = mul %n, %y\n  %z = add %m, %c\n", "  %m = mul %y, %n\n  %z = add %m, %c\n",
        "  %m = mul %n, %y\n  %z = add %c, %m\n", "  %m = mul %y, %n\n  %z = add %c, %m\n"};
    for (size_t i = 0; i < QF_COUNT_OF(bodies); i++) {
        qf_buffer text = {0};
        bench b;
        check_state check;
        text.context = check_context(&check);
        qf_buffer_print(&text,
                        "(%%x: f32[4], %%y: f32[4]) {\n  %%c = constant {value=f32[] 2.0}\n  %%n = neg %%x\n%s"
                        "  return %%z\n}\n",
                        bodies[i]);
        bench_open(&b, text.data);
        add_rule(&b, rule);
        b.options.numerics = QF_NUMERICS_RELAXED;
        bench_run(&b, "canonicalize");
        assert_int_equal(b.report.rewrite_count, 1);
        assert_int_equal(bench_count(&b, QF_OP_mul), 0);
        bench_close(&b);
        qf_context *context = text.context;
        qf_buffer_destroy(&text);
        check_destroy(context, &check);
    }
}

/* A variable that occurs twice, equal nodes as one, and nodes with effects as two. */
static void fault_7_repeated_names_mean_equal_values(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "(%x: f32[4]) {\n  %a = exp %x\n  %b = exp %x\n  %c = exp %a\n  %d = exp %b\n  %n = neg %d\n"
                   "  %y = div %c, %n\n  return %y\n}\n");
    add_rule(&b, "rule ratio canonicalize numerics relaxed benefit 50\n\"Test.\"\nbefore\n  %n = neg %x\n"
                 "  %y = div %x, %n\nafter\n  %y = neg %x\nend\n");
    b.options.numerics = QF_NUMERICS_RELAXED;
    qf_rule *found = qf_rules_find(qf_rules_of(b.context), QF_TEXT("ratio"));
    bench_run(&b, "canonicalize");
    assert_int_equal(b.report.rewrite_count, 1);
    assert_int_equal(found->statistics.tried, 1);
    assert_int_equal(found->statistics.matched, 1);
    assert_int_equal(found->statistics.rewritten, 1);
    bench_close(&b);
    bench_open(&b, "(%x: f32[4]) {\n  %c = opaque %x {name=\"vendor.random\"} : f32[4]\n"
                   "  %d = opaque %x {name=\"vendor.random\"} : f32[4]\n  %n = neg %d\n  %y = div %c, %n\n"
                   "  return %y\n}\n");
    add_rule(&b, "rule ratio canonicalize numerics relaxed benefit 50\n\"Test.\"\nbefore\n  %n = neg %x\n"
                 "  %y = div %x, %n\nafter\n  %y = neg %x\nend\n");
    b.options.numerics = QF_NUMERICS_RELAXED;
    bench_run(&b, "canonicalize");
    assert_int_equal(b.report.rewrite_count, 0);
    bench_close(&b);
}

/* Through layout ops only where the op behind or in front of them is pointwise. */
static void look_through_needs_a_pointwise_node(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "(%x: f16[A, 4], %s: f32[4]) {\n  %w = cast %x {dtype=f32}\n  %p = permute %w {order=[1, 0]}\n"
                   "  %y = quantize %p, %s {dtype=f8E4M3FN, axis=0}\n  return %y\n}\n");
    bench_run(&b, "raise"); /* the cast is pointwise: replayed on %x */
    assert_int_equal(bench_count(&b, QF_OP_cast), 0);
    assert_int_equal(qf_value_dtype(b.graph, qf_node_operand(b.graph, bench_find(&b, QF_OP_quantize), 0)), QF_F16);
    bench_close(&b);
    bench_open(&b, "(%q: f16[1, 4, 3, 8], %k: f16[1, 4, 3, 8], %s: f32[3]) {\n  %a = attention %q, %k, %k {scale=0.5}\n"
                   "  %p = permute %a {order=[0, 2, 1, 3]}\n  %y = quantize %p, %s {dtype=f8E4M3FN, axis=1}\n"
                   "  return %y\n}\n");
    bench_run(&b, "fuse_attention_quant");
    assert_int_equal(bench_count(&b, QF_OP_quantize), 1);
    bench_close(&b);
}

/* A shared scalar reciprocal stays for its other reader. */
static void kept_nodes_stay_for_others(void **state) {
    (void)state;
    bench b;
    bench_open(&b,
               "(%x: f32[4], %s: f32[]) {\n  %r = reciprocal %s\n  %d = mul %x, %r\n  %y = cast %d {dtype=f8E4M3FN}\n"
               "  return %y, %r\n}\n");
    bench_run(&b, "raise");
    assert_int_equal(bench_count(&b, QF_OP_reciprocal), 1);
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_quantize), QF_ATTR(quantize, mode)), QF_VALUE_mul_recip);
    bench_close(&b);
}

/* A rewrite whose type would differ is not done: here a constant of rank 5 raises the rank. */
static void types_never_change(void **state) {
    (void)state;
    bench b;
    bench_open(&b,
               "(%x: f32[4]) {\n  %one = constant {value=f32[1, 1, 1] [1.0]}\n  %y = mul %x, %one\n  return %y\n}\n");
    bench_run(&b, "canonicalize");
    assert_int_equal(bench_count(&b, QF_OP_mul), 1);
    bench_close(&b);
}

/* Fails the n-th allocation of a run until it passes: the status says so, nothing leaks. */
static void memory_may_run_out(void **state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        bench b;
        bench_open(&b, "(%q: f16[B, 4, T, 8], %k: f16[B, 2, S, 8], %s: f32[]) {\n"
                       "  %a, %l = attention %q, %k, %k {scale=0.5}\n  %n = neg %l\n"
                       "  %p = permute %a {order=[0, 2, 1, 3]}\n  %y = quantize %p, %s {dtype=f8E4M3FN}\n"
                       "  return %y, %n\n}\n");
        assert_non_null(qf_rules_of(b.context));
        b.check.fail_at = b.check.allocations + n;
        qf_status status = qf_rules_run(b.graph, "fuse_attention_quant", &b.options, &b.report, &b.changed);
        if (status == QF_OK) status = qf_explain_misses(b.graph, &b.report);
        bool failed = b.check.allocations >= b.check.fail_at;
        assert_int_equal(status, failed ? QF_ERROR_OUT_OF_MEMORY : QF_OK);
        b.check.fail_at = 0;
        bench_close(&b);
        if (!failed) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_6_the_order_of_outputs_does_not_matter),
        cmocka_unit_test(fault_7_repeated_names_mean_equal_values),
        cmocka_unit_test(fault_19_commutative_operands_in_both_orders),
        cmocka_unit_test(look_through_needs_a_pointwise_node),
        cmocka_unit_test(kept_nodes_stay_for_others),
        cmocka_unit_test(types_never_change),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
