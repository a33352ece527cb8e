/* Owns: tests of what the engine guarantees for every rule, on attention with a quantised output.
 * Does not own: matching (match_test.c), single rules (rules_test.c).
 * Next: patterns/engine.c. */
#include "tests/patterns/rewriting.h"

#define INPUTS    "(%q: f16[B, 4, T, 8], %k: f16[B, 2, S, 8], %v: f16[B, 2, S, 8], %s: f32[]"
#define ATTENTION "  %a = attention %q, %k, %v {scale=0.5}\n"

static void fuse(bench *b, const char *text) {
    bench_open(b, text);
    bench_run(b, "raise");
    bench_run(b, "fuse_attention_quant");
    assert_int_equal(qf_explain_misses(b->graph, &b->report), QF_OK);
}

static void expect_fused(const char *text) {
    bench b;
    fuse(&b, text);
    if (bench_count(&b, QF_OP_quantize)) bench_print(&b);
    assert_int_equal(bench_count(&b, QF_OP_quantize), 0);
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_attention), QF_ATTR(attention, out)), QF_F8E4M3FN);
    assert_int_equal(b.report.miss_count, 0);
    bench_close(&b);
}

/* Nothing is fused, and this reason, and no other, is given. */
static void expect_miss(const char *text, qf_reason reason) {
    bench b;
    fuse(&b, text);
    qf_node node = bench_find(&b, QF_OP_attention);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out)), QF_DTYPE_NONE);
    assert_int_equal(b.report.miss_count, 1);
    assert_string_equal(qf_reason_code(b.report.misses[0].reason), qf_reason_code(reason));
    assert_int_equal(b.report.misses[0].tag, qf_node_at(b.graph, node)->tag);
    bench_close(&b);
}

static void quantise_behind_layout_ops_fuses(void **state) {
    (void)state;
    bench b;
    bench_open(&b, INPUTS ") {\n" ATTENTION "  %p = permute %a {order=[0, 2, 1, 3]}\n"
                          "  %r = view %p {shape=[B, T, 32]}\n"
                          "  %y = quantize %r, %s {dtype=f8E4M3FN}\n"
                          "  return %y\n}\n");
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
    assert_int_equal(b.report.rewrites[0].numerics, QF_NUMERICS_ROUNDING);
    assert_int_equal(b.report.rewrites[0].tag, tag);
    qf_buffer text = {.context = b.context};
    qf_location_print(&text, b.graph, qf_node_at(b.graph, fused)->location);
    assert_non_null(strstr(text.data, "fused<attention_output>["));
    qf_buffer_destroy(&text);
    b.changed = false;
    bench_run(&b, "fuse_attention_quant");
    assert_false(b.changed);
    bench_close(&b);
}

static void the_class_chooses_the_twin(void **state) {
    (void)state;
    bench b;
    bench_open(&b, INPUTS ") {\n" ATTENTION "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
    b.options.numerics = QF_NUMERICS_EXACT;
    bench_run(&b, "fuse_attention_quant");
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_attention), QF_ATTR(attention, via)), QF_F16);
    assert_int_equal(b.report.rewrites[0].numerics, QF_NUMERICS_EXACT);
    bench_close(&b);
    /* f32 has no rounding that could vanish. */
    bench_open(&b, "(%q: f32[B, 4, T, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 8], %s: f32[]) {\n" ATTENTION
                   "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
    bench_run(&b, "fuse_attention_quant");
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_attention), QF_ATTR(attention, via)), QF_DTYPE_NONE);
    assert_int_equal(b.report.rewrites[0].numerics, QF_NUMERICS_EXACT);
    bench_close(&b);
}

static void the_default_class_follows_the_cache(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "(%q: f16[B, 4, T, 8], %k: f8E4M3FN[B, 2, S, 8], %v: f8E4M3FN[B, 2, S, 8], %s: f32[]) {\n"
                   "  %a = attention %q, %k, %v, k_scale=%s, v_scale=%s {scale=0.5}\n  return %a\n}\n");
    qf_node node = bench_find(&b, QF_OP_attention);
    assert_int_equal(qf_numerics_at(b.graph, node, QF_NUMERICS_DEFAULT), QF_NUMERICS_QUANTISING);
    assert_int_equal(qf_numerics_at(b.graph, (qf_node){0}, QF_NUMERICS_DEFAULT), QF_NUMERICS_ROUNDING);
    assert_int_equal(qf_numerics_at(b.graph, node, QF_NUMERICS_EXACT), QF_NUMERICS_EXACT);
    bench_close(&b);
}

/* Without effects in the graph, an ordering that matters is data: the cache write stays, whatever is erased around it.
 */
static void fault_1_the_cache_write_stays(void **state) {
    (void)state;
    bench b;
    fuse(&b, "(%q: f16[3, 4, 8], %new: f16[3, 2, 8], %kc: f16[5, 4, 2, 8], %vc: f16[5, 4, 2, 8], %slots: i32[3],\n"
             "    %table: i32[3, 2], %lens: i32[3], %s: f32[]) {\n"
             "  %k2 = kv_cache_write %kc, %new, %slots\n"
             "  %v2 = kv_cache_write %vc, %new, %slots\n"
             "  %a = paged_attention %q, %k2, %v2, %table, %lens {scale=0.5}\n"
             "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  return %y, %k2, %v2\n}\n");
    assert_int_equal(bench_count(&b, QF_OP_kv_cache_write), 2);
    assert_int_equal(bench_count(&b, QF_OP_quantize), 0);
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_paged_attention), QF_ATTR(paged_attention, out)),
                     QF_F8E4M3FN);
    bench_close(&b);
}

/* An output buffer that the framework made first (zeros) and then overwrote is no operand of the pure op. */
static void fault_2_unused_buffers_do_not_matter(void **state) {
    (void)state;
    expect_fused(INPUTS ") {\n  %z = constant {value=f16[] 0.0}\n  %buffer = full %z {shape=[B, 4, T, 8]}\n" ATTENTION
                        "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
}

static void fault_3_an_attention_at_the_edge_has_a_reason(void **state) {
    (void)state;
    expect_miss(INPUTS ") {\n" ATTENTION "  return %a\n}\n", QF_REASON_no_quantise);
}

static void fault_15_other_users_keep_the_attention(void **state) {
    (void)state;
    expect_miss(INPUTS ", %r: f16[B, 4, T, 8]) {\n" ATTENTION
                       "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  %sum = add %a, %r\n  return %y, %sum\n}\n",
                QF_REASON_other_users);
    expect_miss(INPUTS ") {\n" ATTENTION "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  return %y, %a\n}\n",
                QF_REASON_graph_output);
    /* In the middle of the chain too. */
    expect_miss(INPUTS ") {\n" ATTENTION "  %p = permute %a {order=[0, 2, 1, 3]}\n  %n = neg %p\n"
                       "  %y = quantize %p, %s {dtype=f8E4M3FN}\n  return %y, %n\n}\n",
                QF_REASON_other_users);
    expect_miss(INPUTS ") {\n" ATTENTION "  %p = permute %a {order=[0, 2, 1, 3]}\n"
                       "  %y = quantize %p, %s {dtype=f8E4M3FN}\n  return %p, %y\n}\n",
                QF_REASON_graph_output);
}

/* More users than are looked at for the reason: the attention stays for all of them. */
static void many_users_keep_the_attention(void **state) {
    (void)state;
    char text[16384];
    int size = snprintf(text, sizeof text, "%s", INPUTS ") {\n" ATTENTION);
    for (int i = 0; i < 100; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "  %%y%d = quantize %%a, %%s {dtype=f8E4M3FN}\n", i);
    size += snprintf(text + size, sizeof text - (size_t)size, "  return %%y0");
    for (int i = 1; i < 100; i++) size += snprintf(text + size, sizeof text - (size_t)size, ", %%y%d", i);
    size += snprintf(text + size, sizeof text - (size_t)size, "\n}\n");
    assert_true((size_t)size < sizeof text);
    expect_miss(text, QF_REASON_other_users);
}

static void fault_12_zero_points_are_not_overlooked(void **state) {
    (void)state;
    bench b;
    bench_open(&b,
               INPUTS ", %z: i8[]) {\n" ATTENTION "  %y = quantize %a, %s, zero_point=%z {dtype=i8}\n  return %y\n}\n");
    bench_run(&b, "fuse_attention_quant");
    assert_false(b.changed);
    bench_close(&b);
}

static void fault_25_saturation_is_required(void **state) {
    (void)state;
    expect_miss(INPUTS ") {\n" ATTENTION "  %y = quantize %a, %s {dtype=f8E4M3FN, saturate=false}\n  return %y\n}\n",
                QF_REASON_unsaturated);
}

static void scales_by_channel_are_refused(void **state) {
    (void)state;
    expect_miss("(%q: f16[B, 4, T, 8], %k: f16[B, 2, S, 8], %v: f16[B, 2, S, 8], %s: f32[8]) {\n" ATTENTION
                "  %y = quantize %a, %s {dtype=f8E4M3FN, axis=3}\n  return %y\n}\n",
                QF_REASON_scale_granularity);
}

static void other_fp8_types_are_refused(void **state) {
    (void)state;
    expect_miss(INPUTS ") {\n" ATTENTION "  %y = quantize %a, %s {dtype=f8E4M3FNUZ}\n  return %y\n}\n",
                QF_REASON_dtype);
}

static void fault_35_dynamic_scales_are_refused(void **state) {
    (void)state;
    expect_miss(INPUTS ") {\n" ATTENTION "  %y, %d = dynamic_quantize %a {dtype=f8E4M3FN}\n  return %y, %d\n}\n",
                QF_REASON_dynamic_scale);
    expect_miss(INPUTS ") {\n" ATTENTION "  %w = cast %a {dtype=f32}\n  %b = abs %w\n"
                       "  %m = reduce_max %b {axes=[0, 1, 2, 3], keep=false}\n"
                       "  %l = constant {value=f32[] 448.0}\n  %d = div %m, %l\n"
                       "  %y = quantize %a, %d {dtype=f8E4M3FN}\n  return %y, %d\n}\n",
                QF_REASON_dynamic_scale);
}

static void fault_26_what_may_be_looked_through(void **state) {
    (void)state;
#define THROUGH(op) INPUTS ") {\n" ATTENTION "  %p = " op "\n  %y = quantize %p, %s {dtype=f8E4M3FN}\n  return %y\n}\n"
    expect_fused(THROUGH("copy %a"));
    expect_fused(THROUGH("view %a {shape=[B, 4*T, 8]}"));
    expect_fused(THROUGH("permute %a {order=[0, 2, 1, 3]}"));
    expect_fused(THROUGH("slice %a {starts=[0, 0, 0, 0], ends=[B, 2, T, 8], steps=[1, 1, 1, 1]}"));
    expect_fused(THROUGH("expand %a {shape=[2, B, 4, T, 8]}"));
    /* Widening casts change no code; a narrowing behind an f32 attention is attention's own. */
    expect_fused(INPUTS ") {\n" ATTENTION "  %w = cast %a {dtype=f32}\n  %p = permute %w {order=[0, 2, 1, 3]}\n"
                        "  %y = quantize %p, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
    expect_fused("(%q: f32[B, 4, T, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 8], %s: f32[]) {\n" ATTENTION
                 "  %w = cast %a {dtype=bf16}\n  %y = quantize %w, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
    /* Not replayable: a concatenation, and an op with an effect. */
    expect_miss(INPUTS ", %r: f16[B, 4, T, 8]) {\n" ATTENTION
                       "  %c = concat %a, %r {axis=1}\n  %y = quantize %c, %s {dtype=f8E4M3FN}\n  return %y\n}\n",
                QF_REASON_layout_between);
    expect_miss(INPUTS ") {\n" ATTENTION "  %g = opaque %a {name=\"all_gather\"} : f16[B, 4, T, 8]\n"
                       "  %y = quantize %g, %s {dtype=f8E4M3FN}\n  return %y\n}\n",
                QF_REASON_effect_between);
    expect_miss(INPUTS ") {\n" ATTENTION "  %g = opaque %a {name=\"vendor.shuffle\", pure=true} : f16[B, 4, T, 8]\n"
                       "  %y = quantize %g, %s {dtype=f8E4M3FN}\n  return %y\n}\n",
                QF_REASON_unknown_op);
}

static bool nothing_runs(void *user, const qf_graph *graph, qf_node node, char *reason, size_t reason_size) {
    (void)user;
    if (qf_node_op(graph, node) != QF_OP_attention) return true;
    (void)snprintf(reason, reason_size, "no kernel here");
    return false;
}

static void fault_43_unsupported_targets_are_a_reason(void **state) {
    (void)state;
    bench b;
    bench_open(&b, INPUTS ") {\n" ATTENTION "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
    b.options.supports = nothing_runs;
    uint32_t live = b.graph->live_node_count;
    bench_run(&b, "fuse_attention_quant");
    assert_false(b.changed);
    assert_int_equal(b.graph->live_node_count, live);
    assert_int_equal(qf_explain_misses(b.graph, &b.report), QF_OK);
    assert_int_equal(b.report.miss_count, 1);
    assert_int_equal(b.report.misses[0].reason, QF_REASON_target);
    assert_string_equal(qf_string_c(b.context, b.report.misses[0].detail), "no kernel here");
    bench_close(&b);
}

static void a_limit_bisects(void **state) {
    (void)state;
    bench b;
    bench_open(&b, INPUTS ") {\n" ATTENTION "  %b = attention %q, %k, %v {scale=0.25}\n"
                          "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  %z = quantize %b, %s {dtype=f8E4M3FN}\n"
                          "  return %y, %z\n}\n");
    b.report.rewrite_limit = 1;
    bench_run(&b, "fuse_attention_quant");
    assert_int_equal(b.report.rewrite_count, 1);
    assert_int_equal(bench_count(&b, QF_OP_quantize), 1);
    assert_int_equal(qf_explain_misses(b.graph, &b.report), QF_OK);
    assert_true(bench_missed(&b, QF_REASON_rewrite_limit));
    bench_close(&b);
}

/* The lse result has a user before the quantise: that user moves behind the fused node. */
static void fault_22_interleaved_users_move(void **state) {
    (void)state;
    bench b;
    bench_open(&b, INPUTS ") {\n  %a, %l = attention %q, %k, %v {scale=0.5}\n"
                          "  %n = neg %l\n  %e = exp %n\n  %t = neg %s\n  %u = neg %t\n"
                          "  %y = quantize %a, %u {dtype=f8E4M3FN}\n  return %y, %e\n}\n");
    bench_run(&b, "fuse_attention_quant");
    assert_int_equal(bench_count(&b, QF_OP_quantize), 0);
    qf_node fused = bench_find(&b, QF_OP_attention);
    assert_int_equal(qf_node_at(b.graph, fused)->result_count, 2);
    assert_true(qf_node_before(b.graph, fused, bench_find(&b, QF_OP_exp)));
    bench_close(&b);
    /* A scale that is computed from lse has no valid order. */
    bench_open(&b, INPUTS ") {\n  %a, %l = attention %q, %k, %v {scale=0.5}\n"
                          "  %m = reduce_max %l {axes=[0, 1, 2], keep=false}\n"
                          "  %y = quantize %a, %m {dtype=f8E4M3FN}\n  return %y\n}\n");
    bench_run(&b, "fuse_attention_quant");
    assert_int_equal(bench_count(&b, QF_OP_quantize), 1);
    assert_int_equal(qf_explain_misses(b.graph, &b.report), QF_OK);
    assert_true(bench_missed(&b, QF_REASON_dynamic_scale));
    bench_close(&b);
}

static void fault_21_defaults_written_out_change_nothing(void **state) {
    (void)state;
    expect_fused(INPUTS
                 ") {\n  %a = attention %q, %k, %v {scale=0.5, causal=false, align=bottom_right, window_left=-1, "
                 "softcap=0.0, out=none, via=none}\n"
                 "  %y = quantize %a, %s {dtype=f8E4M3FN, mode=div, compute=f32, saturate=true, axis=-1, "
                 "group=0}\n  return %y\n}\n");
}

/* Rules that are loaded but match nothing leave no trace in a graph. */
static void fault_13_loading_rules_changes_nothing(void **state) {
    (void)state;
    static const char *const phases[] = {"canonicalize", "raise", "attention_operands", "fold_scales",
                                         "fuse_attention_quant"};
    bench b;
    bench_open(&b,
               INPUTS ") {\n" ATTENTION "  %p = permute %a {order=[0, 2, 1, 3]}\n  %n = neg %p\n  return %n, %s\n}\n");
    qf_buffer before = {.context = b.context}, after = {.context = b.context};
    qf_graph_print(&before, b.graph);
    uint32_t nodes = b.graph->node_count, values = b.graph->value_count;
    assert_int_equal(
        qf_rules_load(b.context,
                      QF_TEXT("rule mine raise numerics exact benefit 90\n\"Test.\"\nbefore\n  %m = sin %x\n"
                              "  %y = cos %m\nafter\n  %y = cos %x\nend\n"),
                      "mine.rules"),
        QF_OK);
    for (size_t i = 0; i < QF_COUNT_OF(phases); i++) bench_run(&b, phases[i]);
    qf_graph_print(&after, b.graph);
    assert_string_equal(before.data, after.data);
    assert_int_equal(b.graph->node_count, nodes);
    assert_int_equal(b.graph->value_count, values);
    assert_false(b.changed);
    qf_buffer_destroy(&before);
    qf_buffer_destroy(&after);
    bench_close(&b);
}

/* A 16-bit q over an FP8 cache is legal and stays so: its dtype does not follow the cache's. */
static void fault_42_a_wide_query_stays_wide(void **state) {
    (void)state;
    bench b;
    fuse(&b, "(%q: bf16[B, 4, T, 8], %k: f8E4M3FN[B, 2, S, 8], %v: f8E4M3FN[B, 2, S, 8], %ks: f32[], %vs: f32[], "
             "%s: f32[]) {\n"
             "  %a = attention %q, %k, %v, k_scale=%ks, v_scale=%vs {scale=0.5}\n"
             "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
    qf_node node = bench_find(&b, QF_OP_attention);
    assert_int_equal(qf_value_dtype(b.graph, qf_node_operand(b.graph, node, QF_IN(attention, q))), QF_BF16);
    assert_int_equal(qf_node_operand(b.graph, node, QF_IN(attention, q_scale)).id, 0);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out)), QF_F8E4M3FN);
    bench_close(&b);
}

static void every_attribute_and_operand_is_carried(void **state) {
    (void)state;
    bench b;
    fuse(&b, INPUTS ", %bias: f16[1, 4, T, S], %mask: i1[B, 1, T, S], %sinks: f32[4]) {\n"
                    "  %a = attention %q, %k, %v, bias=%bias, mask=%mask, sinks=%sinks {scale=-0.125, causal=true, "
                    "align=top_left, window_left=7, softcap=30.0, empty_row=nan}\n"
                    "  %y = quantize %a, %s {dtype=f8E5M2, mode=mul, compute=f16}\n  return %y\n}\n");
    qf_node node = bench_find(&b, QF_OP_attention);
    assert_true(qf_node_operand(b.graph, node, QF_IN(attention, bias)).id);
    assert_true(qf_node_operand(b.graph, node, QF_IN(attention, mask)).id);
    assert_true(qf_node_operand(b.graph, node, QF_IN(attention, sinks)).id);
    assert_true(qf_node_operand(b.graph, node, QF_IN(attention, out_scale)).id);
    assert_true(qf_node_attribute(b.graph, node, QF_ATTR(attention, scale))->number == -0.125);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, causal)), 1);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, align)), QF_VALUE_top_left);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, window_left)), 7);
    assert_true(qf_node_attribute(b.graph, node, QF_ATTR(attention, softcap))->number == 30.0);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, empty_row)), QF_VALUE_nan);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out)), QF_F8E5M2);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out_mode)), QF_VALUE_mul);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out_compute)), QF_F16);
    bench_close(&b);
}

static void fault_8_dims_that_mean_the_same_match(void **state) {
    (void)state;
    expect_fused(INPUTS ") {\n" ATTENTION "  %p = permute %a {order=[0, 2, 1, 3]}\n"
                        "  %r = view %p {shape=[B*T, 32]}\n  %u = view %r {shape=[B, T, 32]}\n"
                        "  %y = quantize %u, %s {dtype=f8E4M3FN}\n  return %y\n}\n");
}

/* Layers cost matches, not patterns: tried counts grow with the nodes that have the rule's op, and by no more. */
static void fault_5_layers_cost_linear_matches(void **state) {
    (void)state;
    uint64_t tried[2];
    for (uint32_t run = 0; run < 2; run++) {
        uint32_t layers = run ? 64 : 8;
        check_state check;
        qf_context *context = check_context(&check);
        qf_buffer text = {.context = context};
        qf_buffer_print(&text, "graph @g(%%x: f16[2, 4, 3, 8], %%s: f32[]) {\n  %%y0 = cast %%x {dtype=f16}\n");
        for (uint32_t i = 0; i < layers; i++)
            qf_buffer_print(&text,
                            "  %%a%u = attention %%y%u, %%x, %%x {scale=0.5}\n"
                            "  %%z%u = quantize %%a%u, %%s {dtype=f8E4M3FN}\n"
                            "  %%y%u = dequantize %%z%u, %%s {dtype=f16}\n",
                            i, i, i, i, i + 1, i);
        qf_buffer_print(&text, "  return %%y%u\n}\n", layers);
        qf_graph *graph = qf_graph_parse(context, (qf_text){text.data, text.size}, "test.qf");
        qf_buffer_destroy(&text);
        if (!graph) fail_msg("%s", check.messages);
        qf_report report;
        qf_report_init(&report, context);
        qf_rules_options options = {.numerics = QF_NUMERICS_ROUNDING};
        bool changed = false;
        assert_int_equal(qf_rules_run(graph, "fuse_attention_quant", &options, &report, &changed), QF_OK);
        assert_int_equal(report.rewrite_count, layers);
        tried[run] = qf_rules_find(qf_rules_of(context), QF_TEXT("attention_output"))->statistics.tried;
        qf_report_destroy(&report);
        qf_graph_destroy(graph);
        check_destroy(context, &check);
    }
    assert_int_equal(tried[0], 8);
    assert_int_equal(tried[1], 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantise_behind_layout_ops_fuses),
        cmocka_unit_test(the_class_chooses_the_twin),
        cmocka_unit_test(the_default_class_follows_the_cache),
        cmocka_unit_test(fault_1_the_cache_write_stays),
        cmocka_unit_test(fault_2_unused_buffers_do_not_matter),
        cmocka_unit_test(fault_3_an_attention_at_the_edge_has_a_reason),
        cmocka_unit_test(fault_5_layers_cost_linear_matches),
        cmocka_unit_test(fault_8_dims_that_mean_the_same_match),
        cmocka_unit_test(fault_12_zero_points_are_not_overlooked),
        cmocka_unit_test(fault_13_loading_rules_changes_nothing),
        cmocka_unit_test(fault_42_a_wide_query_stays_wide),
        cmocka_unit_test(fault_15_other_users_keep_the_attention),
        cmocka_unit_test(many_users_keep_the_attention),
        cmocka_unit_test(fault_21_defaults_written_out_change_nothing),
        cmocka_unit_test(fault_22_interleaved_users_move),
        cmocka_unit_test(fault_25_saturation_is_required),
        cmocka_unit_test(fault_26_what_may_be_looked_through),
        cmocka_unit_test(fault_35_dynamic_scales_are_refused),
        cmocka_unit_test(fault_43_unsupported_targets_are_a_reason),
        cmocka_unit_test(scales_by_channel_are_refused),
        cmocka_unit_test(other_fp8_types_are_refused),
        cmocka_unit_test(every_attribute_and_operand_is_carried),
        cmocka_unit_test(a_limit_bisects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
