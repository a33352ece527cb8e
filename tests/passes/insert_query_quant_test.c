/* Owns: tests of insert-query-quant: which queries are quantised, by which scale, how often.
 * Does not own: kernels that take them (tests/spec).
 * Next: passes/insert_query_quant.c. */
#include "tests/graphs.h"

#define TWO_ATTENTIONS(second_q)                                                                                       \
    "graph @g(%q: bf16[1, 4, T, 64], %r: bf16[1, 4, T, 64], %k: f8E4M3FN[1, 2, S, 64], %v: f8E4M3FN[1, 2, S, 64],\n"   \
    "         %ks: f32[], %vs: f32[], %qs: f32[], %hs: f32[2]) {\n"                                                    \
    "  %a = attention %q, %k, %v, k_scale=%ks, v_scale=%vs {scale=0.125}\n"                                            \
    "  %b = attention " second_q ", %k, %v, k_scale=%ks, v_scale=%vs {scale=0.125, causal=true}\n"                     \
    "  return %a, %b\n}\n"

static qf_graph *quantised(qf_context *context, const char *text, const char *passes) {
    qf_graph *graph = graph_of(context, text);
    run_passes(graph, passes, NULL);
    return graph;
}

static void one_quantise_for_each_q_and_scale(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = quantised(context, TWO_ATTENTIONS("%q"), "insert-query-quant");
    assert_int_equal(count_op(graph, QF_OP_quantize), 1);
    qf_node node = find_op(graph, QF_OP_attention);
    assert_int_equal(qf_value_dtype(graph, qf_node_operand(graph, node, QF_IN(attention, q))), QF_F8E4M3FN);
    assert_int_equal(qf_value_dtype(graph, qf_node_result(graph, node, 0)), QF_BF16);
    qf_graph_destroy(graph);
    graph = quantised(context, TWO_ATTENTIONS("%r"), "insert-query-quant");
    assert_int_equal(count_op(graph, QF_OP_quantize), 2);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void the_given_scale_is_used_per_head(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = quantised(context,
                                TWO_ATTENTIONS("%q, %k, %v, q_scale=%hs, k_scale=%ks, v_scale=%vs {scale=1.0}\n"
                                               "  %c = attention %q"),
                                "insert-query-quant");
    assert_int_equal(count_op(graph, QF_OP_quantize), 2); /* scale 1 for two of them, %hs for one */
    bool found = false;
    QF_FOR_EACH_NODE(graph, node) {
        if (qf_node_op(graph, node) != QF_OP_quantize) continue;
        int64_t axis = qf_node_attribute(graph, node, QF_ATTR(quantize, axis))->integer;
        int64_t group = qf_node_attribute(graph, node, QF_ATTR(quantize, group))->integer;
        if (axis == -1) continue;
        found = true;
        assert_int_equal(axis, 1);
        assert_int_equal(group, 2); /* four query heads over two KV heads */
    }
    assert_true(found);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void dynamic_scales_come_from_q(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = quantised(context, TWO_ATTENTIONS("%q"), "insert-query-quant{scale=dynamic}");
    assert_int_equal(count_op(graph, QF_OP_dynamic_quantize), 1);
    assert_int_equal(count_op(graph, QF_OP_quantize), 0);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* 42: bf16 q with FP8 KV is legal; without the pass it stays so. */
static void fault_42_q_dtype_is_not_taken_from_kv(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = quantised(context, TWO_ATTENTIONS("%q"), "default");
    assert_int_equal(count_op(graph, QF_OP_quantize), 0);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* 43: an architecture without FP8 q keeps q, with a reason. */
static void fault_43_target_without_fp8_query(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, TWO_ATTENTIONS("%q"));
    qf_pipeline_options options = {.struct_size = sizeof options, .passes = "insert-query-quant", .target = "sm_80"};
    qf_run *run = NULL;
    assert_int_equal(qf_run_pipeline(graph, &options, &run), QF_OK);
    assert_int_equal(count_op(graph, QF_OP_quantize), 0);
    qf_site site = {.struct_size = sizeof site};
    assert_int_equal(qf_run_get_site(run, 0, &site), QF_OK);
    assert_string_equal(site.miss_code, "target");
    qf_run_destroy(run);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* 45: decided for each node from its types. */
static void fault_45_layers_with_different_kv_dtypes(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = quantised(context,
                                "graph @g(%q: f16[1, 4, T, 64], %k: f8E4M3FN[1, 2, S, 64], %v: f8E4M3FN[1, 2, S, 64],\n"
                                "         %s: f32[], %kw: f16[1, 2, S, 64]) {\n"
                                "  %a = attention %q, %k, %v, k_scale=%s, v_scale=%s {scale=0.125}\n"
                                "  %b = attention %q, %kw, %kw {scale=0.125}\n"
                                "  %c = attention %q, %kw, %v, v_scale=%s {scale=0.125}\n"
                                "  return %a, %b, %c\n}\n",
                                "insert-query-quant");
    assert_int_equal(count_op(graph, QF_OP_quantize), 1);
    uint32_t float8_queries = 0;
    QF_FOR_EACH_NODE(graph, node)
    if (qf_node_op(graph, node) == QF_OP_attention)
        float8_queries += qf_dtype_is_float8(qf_value_dtype(graph, qf_node_operand(graph, node, 0)));
    assert_int_equal(float8_queries, 1);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void tight_classes_do_not_quantise(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, TWO_ATTENTIONS("%q"));
    run_passes(graph, "insert-query-quant", "rounding");
    assert_int_equal(count_op(graph, QF_OP_quantize), 0);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* 4: a pass that was asked for and cannot run says why, and asking for it changes nothing else. */
static void fault_4_a_pass_that_cannot_run_says_so(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    static const char *const passes[] = {"default", "default,insert-query-quant"};
    char *texts[2];
    for (int i = 0; i < 2; i++) {
        qf_graph *graph = graph_of(context, TWO_ATTENTIONS("%r"));
        qf_pipeline_options options = {.struct_size = sizeof options, .passes = passes[i], .numerics = "rounding"};
        qf_run *run = NULL;
        assert_int_equal(qf_run_pipeline(graph, &options, &run), QF_OK);
        qf_run_counts counts = {.struct_size = sizeof counts};
        qf_run_get_counts(run, &counts);
        assert_int_equal(counts.attentions, 2);
        assert_int_equal(counts.query_quants_inserted, 0);
        for (uint32_t s = 0; i == 1 && s < 2; s++) {
            qf_site site = {.struct_size = sizeof site};
            assert_int_equal(qf_run_get_site(run, s, &site), QF_OK);
            assert_false(site.fp8_query);
            assert_string_equal(site.miss_code, "numerics_class");
            assert_true(*site.miss_text != '\0');
        }
        texts[i] = text_of(graph);
        qf_run_destroy(run);
        qf_graph_destroy(graph);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_quantise_for_each_q_and_scale), cmocka_unit_test(the_given_scale_is_used_per_head),
        cmocka_unit_test(dynamic_scales_come_from_q),        cmocka_unit_test(fault_42_q_dtype_is_not_taken_from_kv),
        cmocka_unit_test(fault_43_target_without_fp8_query), cmocka_unit_test(fault_45_layers_with_different_kv_dtypes),
        cmocka_unit_test(tight_classes_do_not_quantise),     cmocka_unit_test(fault_4_a_pass_that_cannot_run_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
