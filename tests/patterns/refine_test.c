/* Owns: tests of the normal form that attention nodes of importers get.
 * Does not own: decomposed attention (attention_test.c).
 * Next: patterns/refine.c. */
#include "tests/patterns/raising.h"

#define ATTR(name) QF_ATTR(attention, name)
#define IN_(name)  QF_IN(attention, name)
#define INPUTS     "%q: f32[B, 4, T, 8], %k: f32[B, 4, T, 8], %v: f32[B, 4, T, 6]"
#define INDICES    "  %i = iota {shape=[T, 1]}\n  %j = iota {shape=[1, T], axis=1}\n"

static void refine(bench *b, const char *inputs, const char *body, qf_numerics numerics) {
    raise_open(b, inputs, body, "%y");
    for (int round = 0; round < 2; round++) {
        qf_symbolic *symbolic = qf_symbolic_create(b->graph);
        assert_non_null(symbolic);
        bool changed = false;
        qf_status status = qf_attention_refine_masks(b->graph, symbolic, numerics, &b->report, &changed);
        qf_symbolic_destroy(symbolic);
        if (status == QF_OK) status = qf_graph_verify(b->graph);
        if (status != QF_OK) fail_msg("%s", b->check.messages);
        if (round == 0) b->changed = changed;
        if (round == 1) assert_false(changed);
    }
}

static qf_node refined(bench *b, const char *inputs, const char *body) {
    refine(b, inputs, body, QF_NUMERICS_ROUNDING);
    return bench_find(b, QF_OP_attention);
}

static void a_causal_mask_becomes_the_attribute(void **state) {
    (void)state;
    bench b;
    qf_node node =
        refined(&b, INPUTS, INDICES "  %m = less_equal %j, %i\n  %y = attention %q, %k, %v, mask=%m {scale=0.5}\n");
    assert_true(b.changed);
    assert_true(bench_integer(&b, node, ATTR(causal)));
    assert_false(has_operand(&b, node, IN_(mask)));
    bench_close(&b);
    node = refined(
        &b, INPUTS ", %pad: i1[B, 1, 1, T]",
        INDICES "  %m0 = less_equal %j, %i\n  %m = and %m0, %pad\n  %y = attention %q, %k, %v, mask=%m {scale=0.5}\n");
    assert_true(bench_integer(&b, node, ATTR(causal)));
    assert_string_equal(operand_type(&b, node, IN_(mask)), "i1[B, 1, 1, T]");
    bench_close(&b);
}

static void an_additive_mask_becomes_the_attribute(void **state) {
    (void)state;
    bench b;
    qf_node node = refined(&b, INPUTS,
                           INDICES "  %m = less_equal %j, %i\n  %z = constant {value=f32[] 0.0}\n"
                                   "  %f = constant {value=f32[] -3.4028235e38}\n  %w = where %m, %z, %f\n"
                                   "  %y = attention %q, %k, %v, bias=%w {scale=0.5}\n");
    assert_true(bench_integer(&b, node, ATTR(causal)));
    assert_false(has_operand(&b, node, IN_(bias)));
    bench_close(&b);
}

static void other_masks_stay(void **state) {
    (void)state;
    bench b;
    qf_node node = refined(&b, INPUTS ", %m: i1[T, T]", "  %y = attention %q, %k, %v, mask=%m {scale=0.5}\n");
    assert_false(b.changed);
    assert_true(has_operand(&b, node, IN_(mask)));
    bench_close(&b);
    /* with lengths a sequence, positions are not indices */
    node = refined(&b, INPUTS ", %n: i32[B]",
                   INDICES "  %m = less_equal %j, %i\n  %y = attention %q, %k, %v, mask=%m, kv_lens=%n {scale=0.5}\n");
    assert_false(b.changed);
    assert_false(bench_integer(&b, node, ATTR(causal)));
    bench_close(&b);
    /* the node's own limits stand elsewhere */
    node = refined(&b, "%q: f32[B, 4, T, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 6]",
                   "  %i = iota {shape=[T, 1]}\n  %j = iota {shape=[1, S], axis=1}\n  %m = less_equal %j, %i\n"
                   "  %y = attention %q, %k, %v, mask=%m {scale=0.5, causal=true, align=bottom_right}\n");
    assert_false(b.changed);
    assert_int_equal(bench_integer(&b, node, ATTR(align)), QF_VALUE_bottom_right);
    bench_close(&b);
}

static void repeated_heads_become_a_group(void **state) {
    (void)state;
    static const char *const layouts[] = {"bhsd", "bshd"};
    for (int by_token = 0; by_token < 2; by_token++) {
        const char *shape = by_token ? "B, S, 2, 1" : "B, 2, 1, S", *wide = by_token ? "B, S, 2, 2" : "B, 2, 2, S";
        const char *flat = by_token ? "B, S, 4" : "B, 4, S";
        char body[1024], inputs[256];
        (void)snprintf(inputs, sizeof inputs, "%%q: f32[%s, 8], %%k: f32[%s, 8], %%v: f32[%s, 8]",
                       by_token ? "B, T, 4" : "B, 4, T", by_token ? "B, S, 2" : "B, 2, S",
                       by_token ? "B, S, 2" : "B, 2, S");
        (void)snprintf(body, sizeof body,
                       "  %%k1 = view %%k {shape=[%s, 8]}\n  %%k2 = expand %%k1 {shape=[%s, 8]}\n  %%k3 = view %%k2 "
                       "{shape=[%s, 8]}\n"
                       "  %%v1 = view %%v {shape=[%s, 8]}\n  %%v2 = expand %%v1 {shape=[%s, 8]}\n  %%v3 = view %%v2 "
                       "{shape=[%s, 8]}\n"
                       "  %%y = attention %%q, %%k3, %%v3 {scale=0.5, layout=%s}\n",
                       shape, wide, flat, shape, wide, flat, layouts[by_token]);
        bench b;
        qf_node node = refined(&b, inputs, body);
        assert_true(b.changed);
        assert_true(
            qf_dim_is(b.context, qf_value_dims(b.graph, qf_node_operand(b.graph, node, IN_(k)))[by_token ? 2 : 1], 2));
        assert_true(
            qf_dim_is(b.context, qf_value_dims(b.graph, qf_node_operand(b.graph, node, IN_(v)))[by_token ? 2 : 1], 2));
        bench_close(&b);
    }
}

static void fp8_behind_a_repeat_is_read(void **state) {
    (void)state;
    const char *inputs = "%q: f32[B, 4, T, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 8], %s: f32[]";
    const char *body = "  %k1 = view %k {shape=[B, 2, 1, S, 8]}\n  %k2 = expand %k1 {shape=[B, 2, 2, S, 8]}\n  %k3 = "
                       "view %k2 {shape=[B, 4, S, 8]}\n"
                       "  %k4 = quantize %k3, %s {dtype=f8E4M3FN}\n  %k5 = dequantize %k4, %s {dtype=f32}\n"
                       "  %v1 = view %v {shape=[B, 2, 1, S, 8]}\n  %v2 = expand %v1 {shape=[B, 2, 2, S, 8]}\n  %v3 = "
                       "view %v2 {shape=[B, 4, S, 8]}\n"
                       "  %v4 = quantize %v3, %s {dtype=f8E4M3FN}\n  %v5 = dequantize %v4, %s {dtype=f32}\n"
                       "  %q1 = quantize %q, %s {dtype=f8E4M3FN}\n  %q2 = dequantize %q1, %s {dtype=f32}\n"
                       "  %c = constant {value=f32[] 0.25}\n  %q3 = mul %q2, %c\n"
                       "  %y = attention %q3, %k5, %v5 {scale=0.5}\n";
    bench b;
    qf_node node = refined(&b, inputs, body);
    assert_string_equal(operand_type(&b, node, IN_(q)), "f8E4M3FN[B, 4, T, 8]");
    assert_string_equal(operand_type(&b, node, IN_(k)), "f8E4M3FN[B, 2, S, 8]");
    assert_string_equal(operand_type(&b, node, IN_(v)), "f8E4M3FN[B, 2, S, 8]");
    assert_true(raised_number(&b, node, ATTR(scale)) == 0.125);
    bench_close(&b);
    refine(&b, inputs, body, QF_NUMERICS_EXACT);
    assert_false(b.changed);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_causal_mask_becomes_the_attribute),
        cmocka_unit_test(an_additive_mask_becomes_the_attribute),
        cmocka_unit_test(other_masks_stay),
        cmocka_unit_test(repeated_heads_become_a_group),
        cmocka_unit_test(fp8_behind_a_repeat_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
