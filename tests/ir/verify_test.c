/* Owns: tests of the verifier: every op's own rules, structure, faults of other systems that belong to it.
 * Does not own: shapes of results (infer_test.c), the text of syntax errors (tests/golden).
 * Next: ir/verify.def. */
#include "tests/check.h"

#include "ir/text.h"
#include "ir/verify.h"

#define INPUTS                                                                                                         \
    "graph @g(%q: f16[B, 8, T, 64], %k: f16[B, 2, S, 64], %v: f16[B, 2, S, 32], %q8: f8E4M3FN[B, 8, T, 64], "          \
    "%k8: f8E4M3FN[B, 2, S, 64], %v8: f8E5M2[B, 2, S, 32], %one: f32[], %per: f32[2], %three: f32[3], "                \
    "%u8: u8[B, 2, S, 64], %m: i1[T, S], %lens: i32[B], %z: f8E4M3FNUZ[B, 8, T, 64], %x: f32[6, 10]) {\n"

/* Parses one node; "" or the messages without their location. */
static void expect(const char *node, const char *results, const char *messages) {
    check_state state;
    char text[4096], found[4096] = "";
    qf_context *context = check_context(&state);
    (void)snprintf(text, sizeof text, "%s  %s%s\n  return\n}\n", INPUTS, results, node);
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "g");
    for (char *line = strtok(state.messages, "\n"); line; line = strtok(NULL, "\n")) {
        char *message = strstr(line, ": ");
        assert_non_null(message);
        strcat(strcat(found, message + 2), "\n");
    }
    if (strcmp(found, messages) != 0) fail_msg("%s\nexpected:\n%s\nfound:\n%s", node, messages, found);
    assert_true((graph != NULL) == (messages[0] == '\0'));
    assert_int_equal(qf_context_status(context), messages[0] ? QF_ERROR_VERIFY : QF_OK);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void valid(const char *node) {
    expect(node, "%y = ", "");
}

static void refused(const char *node, const char *messages) {
    expect(node, "%y = ", messages);
}

static void attention_is_valid(void **unused) {
    (void)unused;
    valid("attention %q, %k, %v, mask=%m, kv_lens=%lens {scale=-0.125, causal=true, window_left=5, softcap=30.0}");
    valid("attention %q, %k8, %v8, k_scale=%one, v_scale=%per {scale=0.0}");
    valid("attention %q, %k8, %v8, q_scale=%one, k_scale=%one, v_scale=%per {scale=0.125}");
    valid("attention %q8, %k8, %v8, q_scale=%per, k_scale=%one, p_scale=%one, v_scale=%one, out_scale=%one "
          "{scale=0.125, out=f8E4M3FN, out_mode=mul_recip, via=f16, p=graph}");
    expect("attention %q, %k, %v {scale=0.125}", "%y, %lse = ", "");
}

static void fault_34_fp8_operand_without_its_scale(void **unused) {
    (void)unused;
    refused("attention %q8, %k8, %v8 {scale=0.125}",
            "attention: operand q is f8E4M3FN and needs its dequantisation scale: give q_scale=...\n"
            "attention: operand k is f8E4M3FN and needs its dequantisation scale: give k_scale=...\n"
            "attention: operand v is f8E5M2 and needs its dequantisation scale: give v_scale=...\n");
    refused("attention %q, %k, %v, k_scale=%one, v_scale=%one {scale=0.125}",
            "attention: operand k_scale: a scale needs an FP8 k, found f16[B, 2, S, 64]\n"
            "attention: operand v_scale: a scale needs an FP8 v, found f16[B, 2, S, 32]\n");
}

static void fault_28_scale_directions_are_typed(void **unused) {
    (void)unused;
    valid("quantize %x, %one {dtype=f8E4M3FN, mode=div}");
    valid("quantize %x, %one {dtype=f8E4M3FN, mode=mul}");
    valid("quantize %x, %one {dtype=f8E4M3FN, mode=mul_recip}");
    refused("attention %q, %k, %v {scale=0.125, out=f8E4M3FN}",
            "attention: attribute out is f8E4M3FN and needs the scale of the result: give out_scale=...\n");
    refused("attention %q, %k, %v, out_scale=%one {scale=0.125}",
            "attention: operand out_scale: a scale of the result needs an FP8 out, found out=none\n");
    refused("attention %q, %k, %v {scale=0.125, out_mode=mul}",
            "attention: attributes out_mode, out_compute and via have no effect without out_scale; leave them out\n");
    refused("attention %q, %k, %v, p_scale=%one {scale=0.125, p=kernel}",
            "attention: operand p_scale: a scale of the probabilities needs p=graph\n");
    refused("attention %q, %k, %v {scale=0.125, p=graph}",
            "attention: attribute p is graph and needs the scale of the probabilities: give p_scale=...\n");
}

static void scale_granularity(void **unused) {
    (void)unused;
    refused("attention %q, %k8, %v8, k_scale=%three, v_scale=%one {scale=0.125}",
            "attention: operand k_scale: expected one scale ([] or [1]) or one a KV head ([2]), found f32[3]\n");
    refused("attention %q, %k, %v, out_scale=%per {scale=0.125, out=f8E4M3FN}",
            "attention: operand out_scale: expected one scale ([] or [1]), found f32[2]\n");
    refused("quantize %x, %per {dtype=f8E4M3FN}",
            "quantize: operand scale: expected one ([] or [1]) with axis=-1, found f32[2]; give axis for more\n");
    refused("quantize %x, %three {dtype=f8E4M3FN, axis=0}",
            "quantize: operand scale: axis 0 is one entry an index of axis: expected 6, found f32[3]\n");
    refused("quantize %x, %one {dtype=f8E4M3FN, axis=2}",
            "quantize: attribute axis: expected -1 (one scale) or an axis of x (f32[6, 10]), found 2\n");
}

static void quantisation_modes(void **unused) {
    (void)unused;
    refused("quantize %x, %one {dtype=f16}",
            "quantize: attribute dtype: expected an FP8 type, f4E2M1FN, i8, u8 or i32, found f16\n");
    refused("quantize %x, %one {dtype=i8, saturate=false}",
            "quantize: attribute saturate: integers saturate always; leave it out for dtype=i8\n");
    refused("quantize %x, %one {dtype=f8E4M3FN, mode=mul_recip, compute=bf16}",
            "quantize: attribute compute: mul_recip multiplies by an f32 reciprocal, found compute=bf16\n");
    refused("quantize %x, %one, zero_point=%one {dtype=f8E4M3FN}",
            "quantize: operand zero_point: expected none beside f8E4M3FN; only integers have a zero point\n");
    refused("quantize %x, %one {dtype=f8E4M3FN, compute=f64}",
            "quantize: attribute compute: expected f32, f16 or bf16, found f64\n");
    expect("dynamic_quantize %x {dtype=f8E4M3FN, granularity=token, group=4}",
           "%y, %s = ", "dynamic_quantize: attribute group: expected 0 without granularity=group, found 4\n");
}

static void fault_40_fnuz_and_fn_are_distinct(void **unused) {
    (void)unused;
    refused("add %q8, %z",
            "add: operand b: expected f8E4M3FN, the element type of a, found f8E4M3FNUZ[B, 8, T, 64]; insert a cast\n");
    valid("bitcast %z {dtype=f8E4M3FN}");
    refused("bitcast %z {dtype=f16}",
            "bitcast: attribute dtype: expected a type of 8 bits like f8E4M3FNUZ, found f16\n");
}

static void fault_41_bytes_are_no_fp8(void **unused) {
    (void)unused;
    refused(
        "attention %q, %u8, %v, k_scale=%one {scale=0.125}",
        "attention: operand k: expected f64, f32, f16, bf16 or an FP8 type (bytes of a cache need a bitcast to their "
        "FP8 type), found u8[B, 2, S, 64]\n");
}

static void fault_65_sizes_that_do_not_divide(void **unused) {
    (void)unused;
    refused("split %x {axis=1, sizes=[3]}",
            "split: attribute sizes: expected a sum of 10, the size of axis 1 of x, found 3\n");
    refused("quantize %x, %one {dtype=f8E4M3FN, axis=1, group=4}",
            "quantize: attribute group: 4 does not divide axis 1 of x (f32[6, 10])\n");
    refused(
        "attention %k, %q, %q {scale=0.125}",
        "attention: operands q, k: the query heads (2) are no multiple of the KV heads (8) of f16[B, 8, T, 64]; check "
        "the layout\n");
    refused("attention %q, %k, %v {scale=0.125, layout=nhd}",
            "attention: attribute layout: expected bhsd or bshd, found nhd\n");
}

static void axes_and_lists(void **unused) {
    (void)unused;
    refused("softmax %x {axis=2}",
            "softmax: attribute axis: expected an axis of x (f32[6, 10]), counted from 0, found 2\n");
    refused("softmax %x {axis=-1}",
            "softmax: attribute axis: expected an axis of x (f32[6, 10]), counted from 0, found -1\n");
    refused("reduce_sum %x {axes=[1, 1]}", "reduce_sum: attribute axes: axis 1 is there twice\n");
    refused("permute %x {order=[0, 0]}", "permute: attribute order: expected every axis from 0 to 1 once\n");
    refused("permute %x {order=[0, 1, 2]}", "permute: attribute order: expected 2 axes for f32[6, 10], found 3\n");
    refused("slice %x {starts=[0, 0], ends=[6, 11], steps=[1, 1]}",
            "slice: axis 1: 0 to 11 by 1 is no part of f32[6, 10]\n");
    refused("slice %x {starts=[0, 0], ends=[6, 10], steps=[1, 0]}",
            "slice: attribute steps: the step of axis 1 is 0\n");
    valid("slice %x {starts=[0, 9], ends=[6, -1], steps=[1, -1]}");
    refused("concat %x, %q {axis=0}", "concat: part 1: expected f32 like part 0, found f16[B, 8, T, 64]\n");
    refused("gather %x, %x", "gather: operand indices: expected i32 or i64, found f32[6, 10]\n");
    refused("where %x, %x, %x", "where: operand condition: expected i1, found f32[6, 10]\n");
    expect("top_k %x {k=11, axis=1}",
           "%y, %i = ", "top_k: attribute k: expected 0 to the size of the axis, found 11\n");
    refused("contract %x, %x {equation=\"ab,bc\"}",
            "contract: attribute equation: expected labels such as \"bhtd,bhsd->bhts\", found \"ab,bc\": the form is "
            "\"labels,labels->labels\" with letters as labels\n");
}

#define PAGED(layout, heads_first)                                                                                     \
    "graph @g(%q: f16[N, 8, 64], %kc: f8E4M3FN[P, " heads_first ", 64], %table: i32[B, M], %lens: i32[B], "            \
    "%start: i32[B + 1], %s: f32[], %new: f16[N, 2, 64], %slots: i64[N]) {\n"                                          \
    "  %y = paged_attention %q, %kc, %kc, %table, %lens, q_start=%start, k_scale=%s, v_scale=%s {scale=0.125, "        \
    "layout=" layout "}\n  %c = kv_cache_write %kc, %new, %slots, scale=%s {layout=" layout "}\n  return %y, %c\n}\n"

static void paged(const char *text, const char *messages) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "g");
    assert_string_equal(state.messages, messages);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void fault_47_a_wrong_layout_is_refused(void **unused) {
    (void)unused;
    paged(PAGED("nhd", "16, 2"), "");
    paged(PAGED("hnd", "2, 16"), "");
    paged(
        PAGED("hnd", "16, 2"),
        "error g:2:8: paged_attention: operands q, k_cache: the query heads (8) are no multiple of the KV heads (16) "
        "of "
        "f8E4M3FN[P, 16, 2, 64]; check the layout\n"
        "error g:3:8: kv_cache_write: operand new: axis 1 is the KV heads of the cache; check the layout: expected 16, "
        "found f16[N, 2, 64]\n");
    paged(PAGED("bhsd", "16, 2"), "error g:2:8: paged_attention: attribute layout: expected nhd or hnd, found bhsd\n"
                                  "error g:3:8: kv_cache_write: attribute layout: expected nhd or hnd, found bhsd\n");
}

static void fault_39_writer_and_cache_have_one_dtype(void **unused) {
    (void)unused;
    paged("graph @g(%c: f8E4M3FN[P, 16, 2, 64], %n: f8E5M2[N, 2, 64], %r: f16[N, 2, 64], %h: f16[P, 16, 2, 64], "
          "%s: i32[N], %one: f32[]) {\n"
          "  %a = kv_cache_write %c, %n, %s\n"
          "  %b = kv_cache_write %c, %r, %s\n"
          "  %d = kv_cache_write %h, %r, %s, scale=%one\n"
          "  return\n}\n",
          "error g:2:8: kv_cache_write: operand new: expected f8E4M3FN, the element type of cache, found f8E5M2[N, 2, "
          "64]\n"
          "error g:3:8: kv_cache_write: operand cache is f8E4M3FN and rows of f16 need a scale: give scale=...\n"
          "error g:4:8: kv_cache_write: operand scale: expected none; the rows already are f16 like the cache\n");
}

static void fault_36_and_69_odd_constant_scales_warn(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context,
                                     QF_TEXT("graph @g(%x: f32[4]) {\n"
                                             "  %n = constant {value=f32[] nan}\n"
                                             "  %z = constant {value=f16[1] [0.0]}\n"
                                             "  %d = constant {value=f32[] 1e-40}\n"
                                             "  %m = constant {value=f32[] -1.0}\n"
                                             "  %i = constant {value=f32[] inf}\n"
                                             "  %ok = constant {value=f32[] 0.5}\n"
                                             "  %a = quantize %x, %n {dtype=f8E4M3FN}\n"
                                             "  %b = quantize %x, %z {dtype=f8E4M3FN}\n"
                                             "  %c = quantize %x, %d {dtype=f8E4M3FN}\n"
                                             "  %e = dequantize %a, %m {dtype=f32}\n"
                                             "  %f = dequantize %a, %i {dtype=f32}\n"
                                             "  %g = dequantize %a, %ok {dtype=f32}\n"
                                             "  return\n}\n"),
                                     "g");
    assert_non_null(graph);
    assert_string_equal(state.messages, "");
    assert_int_equal(qf_graph_warn_scales(graph), 5);
    assert_non_null(strstr(state.messages, "warning g:8:3: quantize: operand scale: the constant scale is NaN;"));
    assert_non_null(strstr(state.messages, "warning g:9:3: quantize: operand scale: the constant scale is zero;"));
    assert_non_null(strstr(state.messages, "g:10:3: quantize: operand scale: the constant scale is subnormal;"));
    assert_non_null(strstr(state.messages, "g:11:3: dequantize: operand scale: the constant scale is negative;"));
    assert_non_null(strstr(state.messages, "g:12:3: dequantize: operand scale: the constant scale is infinite;"));
    assert_int_equal(qf_context_status(context), QF_OK);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* Structure that no public function would make. */
static void broken_structure(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context,
                                     QF_TEXT("graph @g(%x: f32[4]) {\n"
                                             "  %a = neg %x\n"
                                             "  %b = exp %a\n"
                                             "  return %b\n}\n"),
                                     "g");
    assert_non_null(graph);
    assert_int_equal(qf_graph_verify(graph), QF_OK);
    qf_node b = qf_value_producer(graph, qf_node_operand(graph, graph->last, 0));
    qf_node a = qf_node_at(graph, b)->previous;
    qf_graph_move_before(graph, b, a);
    assert_int_equal(qf_graph_verify(graph), QF_ERROR_VERIFY);
    assert_string_equal(state.messages, "error g:3:3: exp: operand x is used before it is defined\n");
    qf_graph_move_before(graph, a, b);
    state.messages[0] = '\0';
    qf_value_at(graph, graph->inputs[0])->use_count++;
    assert_int_equal(qf_graph_verify(graph), QF_ERROR_VERIFY);
    assert_string_equal(state.messages, "error : graph: a value counts 2 uses, found 1\n");
    qf_value_at(graph, graph->inputs[0])->use_count--;
    state.messages[0] = '\0';
    qf_graph_set_type(graph, qf_node_result(graph, a, 0), qf_type_tensor(context, QF_F16, NULL, QF_UNRANKED));
    assert_int_equal(qf_graph_verify(graph), QF_ERROR_VERIFY);
    assert_string_equal(state.messages, "error g:2:3: neg: result y: expected f32[4], found f16[*]\n"
                                        "error g:3:3: exp: result y: expected f16[*], found f32[4]\n");
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void types_are_checked_against_inference(void **unused) {
    (void)unused;
    refused("neg %x : f32[6, 11]", "neg: result y: expected f32[6, 10], found f32[6, 11]\n");
    refused("neg %x : f16[6, 10]", "neg: result y: expected f32[6, 10], found f16[6, 10]\n");
    refused("parameter {name=\"w\"}", "parameter: the result types of this op must be written, as in ': f16[B, T]'\n");
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph =
        qf_graph_parse(context, QF_TEXT("graph @g(%x: f32[T]) {\n  %y = neg %x : f32[S]\n  return %y\n}\n"), "g");
    assert_non_null(graph);
    assert_int_equal(graph->guard_count, 1); /* T == S is assumed */
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* A node stands for those like it only where it holds: each fault is reported at its own place. */
static void nodes_alike_are_each_located(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context,
                                     QF_TEXT("graph @g(%x: f32[4, 6], %y: f16[4, 6]) {\n"
                                             "  %a = permute %x {order=[1, 0]}\n"
                                             "  %b = permute %y {order=[1, 0]}\n"
                                             "  %c = permute %x {order=[1, 0]}\n"
                                             "  %d = permute %x {order=[1, 0]}\n"
                                             "  return %a, %b, %c, %d\n}\n"),
                                     "g");
    assert_non_null(graph);
    assert_int_equal(qf_graph_verify(graph), QF_OK);
    static const int64_t twice[] = {1, 1};
    qf_node first = graph->first, second = qf_node_at(graph, first)->next, third = qf_node_at(graph, second)->next;
    qf_node_attribute(graph, third, QF_ATTR(permute, order))->ints = twice;
    qf_node_attribute(graph, qf_node_at(graph, third)->next, QF_ATTR(permute, order))->ints = twice;
    assert_int_equal(qf_graph_verify(graph), QF_ERROR_VERIFY);
    assert_non_null(strstr(state.messages, "g:4:"));
    assert_non_null(strstr(state.messages, "g:5:"));
    assert_null(strstr(state.messages, "g:2:"));
    qf_context_clear_status(context);
    qf_graph_set_type(graph, qf_node_result(graph, second, 0), qf_value_type(graph, qf_node_result(graph, first, 0)));
    assert_int_equal(qf_graph_verify(graph), QF_ERROR_VERIFY);
    assert_non_null(strstr(state.messages, "g:3:"));
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_alike_are_each_located),
        cmocka_unit_test(attention_is_valid),
        cmocka_unit_test(fault_34_fp8_operand_without_its_scale),
        cmocka_unit_test(fault_28_scale_directions_are_typed),
        cmocka_unit_test(scale_granularity),
        cmocka_unit_test(quantisation_modes),
        cmocka_unit_test(fault_40_fnuz_and_fn_are_distinct),
        cmocka_unit_test(fault_41_bytes_are_no_fp8),
        cmocka_unit_test(fault_65_sizes_that_do_not_divide),
        cmocka_unit_test(axes_and_lists),
        cmocka_unit_test(fault_47_a_wrong_layout_is_refused),
        cmocka_unit_test(fault_39_writer_and_cache_have_one_dtype),
        cmocka_unit_test(fault_36_and_69_odd_constant_scales_warn),
        cmocka_unit_test(broken_structure),
        cmocka_unit_test(types_are_checked_against_inference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
