/* Owns: tests of the public graph API: building, reading, weights, symbols, refusals.
 * Does not own: the text form (text_test.c).
 * Next: qfuse/graph.h. */
#include "tests/check.h"

#include <qfuse/graph.h>

static const char expected[] = "graph @layer(%q: f16[B, 8, T, 64], %k: f8E4M3FN[B, 2, S, 64]) symbols(T min 1 max 4096 "
                               "div 16) assume(S == T + 1) {\n"
                               "  %0 = constant {value=f32[] 0.125} : f32[]\n"
                               "  %1 = parameter {name=\"w\"} : f16[64, 64]\n"
                               "  %out, %lse = attention %q, %k, %k, k_scale=%0, v_scale=%0 {scale=0.125, causal=true, "
                               "align=top_left} : f16[B, 8, T, "
                               "64], f32[B, 8, T] loc(\"model.onnx:/attn\") tag(77)\n"
                               "  %2 = permute %out {order=[0, 2, 1, 3]} : f16[B, T, 8, 64]\n"
                               "  %3 = matmul %2, %1 : f16[B, T, 8, 64]\n"
                               "  %4 = softmax %3 {axis=3} : f16[B, T, 8, 64]\n"
                               "  %5 = quantize %4, %0 {dtype=f8E4M3FN} : f8E4M3FN[B, T, 8, 64]\n"
                               "  return %5 as \"y\", %lse\n"
                               "}\n";

static qf_graph *build(qf_context *context) {
    qf_graph *graph;
    assert_int_equal(qf_graph_create(context, "layer", &graph), QF_OK);
    qf_value q = qf_graph_add_input(graph, "q", qf_type_from_text(context, "f16[B, 8, T, 64]"));
    qf_value k = qf_graph_add_input(graph, "k", qf_type_from_text(context, "f8E4M3FN[B, 2, S, 64]"));
    assert_int_equal(qf_graph_set_symbol(graph, "T", 1, 4096, 16), QF_OK);
    assert_int_equal(qf_graph_assume(graph, qf_dim_from_text(context, "S"), qf_dim_from_text(context, "T+1")), QF_OK);
    qf_value scale = qf_graph_add_scalar(graph, QF_F32, 0.125);
    const int64_t sizes[] = {64, 64};
    qf_value weight = qf_graph_add_parameter(graph, "w", qf_type_from_sizes(context, QF_F16, sizes, 2));
    const qf_value operands[] = {q, k, k};
    const qf_named_value named[] = {{"v_scale", scale}, {"k_scale", scale}, {"mask", {0}}};
    const qf_setting settings[] = {qf_set_float("scale", 0.125), qf_set_bool("causal", true),
                                   qf_set_enum("align", "top_left")};
    const char *const names[] = {"out", "lse"};
    const qf_node_options options = {.struct_size = sizeof options,
                                     .op = QF_OP_attention,
                                     .operands = operands,
                                     .operand_count = 3,
                                     .named_operands = named,
                                     .named_operand_count = 3,
                                     .settings = settings,
                                     .setting_count = 3,
                                     .result_count = 2,
                                     .result_names = names,
                                     .location = "model.onnx:/attn",
                                     .tag = 77};
    qf_node node = qf_graph_add_node(graph, &options);
    const int64_t order[] = {0, 2, 1, 3};
    qf_value y = qf_graph_add_permute(graph, qf_node_get_result(graph, node, 0), order, 4);
    y = qf_graph_add_binary(graph, QF_OP_matmul, y, weight);
    y = qf_graph_add_softmax(graph, y, -1);
    y = qf_graph_add_quantize(graph, y, scale, QF_F8E4M3FN);
    const qf_value outputs[] = {y, qf_node_get_result(graph, node, 1)};
    const char *const output_names[] = {"y", NULL};
    assert_int_equal(qf_graph_finish(graph, outputs, output_names, 2), QF_OK);
    assert_int_equal(qf_context_status(context), QF_OK);
    return graph;
}

static void builds_what_the_text_says(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = build(context), *copy, *again;
    assert_int_equal(qf_graph_verify(graph), QF_OK);
    char *text, *second;
    size_t size;
    assert_int_equal(qf_graph_to_text(graph, &text, &size), QF_OK);
    assert_int_equal(size, strlen(text));
    assert_string_equal(text, expected);
    assert_int_equal(qf_graph_from_text(context, expected, sizeof expected - 1, "x.qf", &again), QF_OK);
    assert_int_equal(qf_graph_to_text(again, &second, NULL), QF_OK);
    assert_string_equal(second, expected);
    copy = qf_graph_clone(graph);
    char *third;
    assert_int_equal(qf_graph_to_text(copy, &third, NULL), QF_OK);
    assert_string_equal(third, text);
    qf_text_destroy(context, text);
    qf_text_destroy(context, second);
    qf_text_destroy(context, third);
    assert_int_equal(qf_graph_to_dot(graph, &text, NULL), QF_OK);
    assert_non_null(strstr(text, "digraph \"layer\""));
    assert_non_null(strstr(text, "label=\"k_scale: f32[]\""));
    qf_text_destroy(context, text);
    qf_text_destroy(context, NULL);
    qf_graph_destroy(copy);
    qf_graph_destroy(again);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void reads_nodes_and_values(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = build(context);
    qf_node attention = {0};
    uint32_t count = 0;
    for (qf_node node = qf_graph_first_node(graph); node.id; node = qf_graph_next_node(graph, node)) {
        count++;
        if (qf_node_get_op(graph, node) == QF_OP_attention) attention = node;
    }
    assert_int_equal(count, qf_graph_node_count(graph));
    assert_int_equal(qf_node_tag(graph, attention), 77);
    assert_string_equal(qf_node_location(graph, attention), "model.onnx:/attn");
    assert_int_equal(qf_node_operand_count(graph, attention), 13);
    assert_int_equal(qf_node_get_operand(graph, attention, 0).id, qf_graph_input(graph, 0).id);
    assert_int_equal(qf_node_named_operand(graph, attention, "mask").id, 0);
    qf_value scale = qf_node_named_operand(graph, attention, "k_scale");
    assert_int_equal(qf_value_use_count(graph, scale), 3);
    assert_string_equal(qf_type_text(context, qf_value_get_type(graph, scale)), "f32[]");
    assert_string_equal(qf_value_name(graph, qf_node_get_result(graph, attention, 1)), "lse");
    qf_setting setting;
    assert_int_equal(qf_node_get_attribute(graph, attention, "align", &setting), QF_OK);
    assert_string_equal(setting.as.text, "top_left");
    assert_int_equal(qf_node_get_attribute(graph, attention, "window_left", &setting), QF_OK);
    assert_int_equal(setting.as.integer, -1);
    assert_int_equal(qf_node_get_attribute(graph, attention, "nothing", &setting), QF_ERROR_NOT_FOUND);
    assert_int_equal(qf_node_get_attribute(graph, qf_value_get_producer(graph, scale), "value", &setting), QF_OK);
    assert_int_equal(setting.as.tensor.size, 4);
    float stored;
    memcpy(&stored, setting.as.tensor.data, sizeof stored);
    assert_true(stored == 0.125f);
    assert_int_equal(qf_graph_output_count(graph), 2);
    assert_string_equal(qf_graph_output_name(graph, 0), "y");
    assert_string_equal(qf_graph_output_name(graph, 1), "");
    qf_type type = qf_value_get_type(graph, qf_graph_output(graph, 0));
    assert_int_equal(qf_type_dtype(context, type), QF_F8E4M3FN);
    int64_t last;
    assert_true(qf_dim_is_constant(context, qf_type_dim(context, type, -1), &last));
    assert_int_equal(last, 64);
    assert_string_equal(qf_dim_text(context, qf_type_dim(context, type, 1)), "T");
    char *line;
    assert_int_equal(qf_node_to_text(graph, qf_value_get_producer(graph, scale), &line, NULL), QF_OK);
    assert_string_equal(line, "%0 = constant {value=f32[] 0.125} : f32[]");
    qf_text_destroy(context, line);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void weights_are_borrowed_by_name(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = build(context);
    static const char a[] = "first", b[] = "second";
    size_t size;
    assert_null(qf_graph_weight(graph, "w", &size));
    assert_int_equal(qf_graph_bind_weight(graph, "w", a, sizeof a), QF_OK);
    assert_int_equal(qf_graph_bind_weight(graph, "u", b, sizeof b), QF_OK);
    assert_ptr_equal(qf_graph_weight(graph, "w", &size), a);
    assert_int_equal(qf_graph_bind_weight(graph, "w", b, sizeof b), QF_OK);
    assert_ptr_equal(qf_graph_weight(graph, "w", &size), b);
    assert_int_equal(size, sizeof b);
    assert_int_equal(qf_graph_bind_weight(graph, "", a, sizeof a), QF_ERROR_INVALID_ARGUMENT);
    qf_graph *copy = qf_graph_clone(graph);
    assert_ptr_equal(qf_graph_weight(copy, "u", NULL), b);
    qf_graph_destroy(copy);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void refusals_leave_the_graph_alone(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph;
    assert_int_equal(qf_graph_create(context, NULL, &graph), QF_OK);
    qf_value x = qf_graph_add_input(graph, "x", qf_type_from_text(context, "f32[4]"));
    qf_node_options options = {.struct_size = sizeof options, .op = QF_OP_softmax, .operands = &x, .operand_count = 1};
    assert_int_equal(qf_graph_add_node(graph, &options).id, 0);
    assert_string_equal(state.messages, "error : softmax: needs the attribute axis\n");
    state.messages[0] = '\0';
    qf_setting setting = qf_set_float("axis", 0.0);
    options.settings = &setting;
    options.setting_count = 1;
    options.location = "here";
    assert_int_equal(qf_graph_add_node(graph, &options).id, 0);
    assert_string_equal(state.messages, "error here: softmax: attribute axis is of another kind than its setting\n");
    state.messages[0] = '\0';
    setting = qf_set_int("axes", 0);
    assert_int_equal(qf_graph_add_node(graph, &options).id, 0);
    assert_string_equal(state.messages, "error here: softmax: has no attribute named axes\n");
    assert_int_equal(qf_graph_add_unary(graph, QF_OP_neg, (qf_value){99}).id, 0);
    assert_int_equal(qf_graph_add_unary(graph, QF_OP_neg, (qf_value){0}).id, 0);
    assert_int_equal(qf_graph_add_unary(graph, QF_OP_return, x).id, 0);
    assert_int_equal(qf_graph_add_unary(graph, (qf_op)250, x).id, 0);
    assert_int_equal(qf_graph_add_input(graph, "y", (qf_type){0}).id, 0);
    assert_int_equal(qf_type_from_text(context, "f32[4").id, 0);
    assert_int_equal(qf_dim_from_text(context, "4 5").id, 0);
    assert_int_equal(qf_type_from_sizes(context, QF_F32, (const int64_t[]){-1}, 1).id, 0);
    assert_int_equal(qf_graph_node_count(graph), 0);
    assert_int_not_equal(qf_context_status(context), QF_OK);
    qf_context_clear_status(context);
    assert_int_equal(qf_graph_finish(graph, &x, NULL, 1), QF_OK);
    assert_int_equal(qf_graph_finish(graph, &x, NULL, 1), QF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(qf_graph_verify(graph), QF_OK);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void shorter_ways_build_and_counts_are_told(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph;
    assert_int_equal(qf_graph_create(context, NULL, &graph), QF_OK);
    assert_ptr_equal(qf_graph_context(graph), context);
    assert_int_equal(qf_graph_input_count(graph), 0);
    qf_value x = qf_graph_add_input(graph, "x", qf_type_from_text(context, "f8E4M3FN[T, 2]"));
    assert_int_equal(qf_graph_input_count(graph), 1);
    const float numbers[] = {1.5f, -2};
    qf_type pair = qf_type_from_text(context, "f32[2]");
    qf_value two = qf_graph_add_constant(graph, pair, numbers, sizeof numbers);
    qf_value wide = qf_graph_add_dequantize(graph, x, qf_graph_add_scalar(graph, QF_F32, 0.5), QF_F16);
    qf_value cast = qf_graph_add_cast(graph, two, QF_F16, false);
    qf_value y = qf_graph_add_binary(graph, QF_OP_add, wide, cast);
    assert_string_equal(qf_type_text(context, qf_value_get_type(graph, y)), "f16[T, 2]");
    qf_node node = qf_value_get_producer(graph, cast);
    assert_int_equal(qf_node_result_count(graph, node), 1);
    assert_int_equal(qf_node_result_count(graph, (qf_node){9999}), 0);
    qf_setting setting;
    assert_int_equal(qf_node_get_attribute(graph, node, "saturate", &setting), QF_OK);
    assert_false(setting.as.truth);
    qf_node_set_tag(graph, node, 5);
    qf_node_set_tag(graph, (qf_node){9999}, 6);
    assert_int_equal(qf_node_tag(graph, node), 5);
    assert_int_equal(qf_graph_finish(graph, &y, NULL, 1), QF_OK);
    /* As many bytes as the type says. */
    assert_int_equal(qf_graph_add_constant(graph, pair, numbers, 4).id, 0);
    assert_int_not_equal(qf_context_status(context), QF_OK);
    qf_context_clear_status(context);
    assert_int_equal(qf_graph_verify(graph), QF_OK);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_what_the_text_says),
        cmocka_unit_test(reads_nodes_and_values),
        cmocka_unit_test(weights_are_borrowed_by_name),
        cmocka_unit_test(refusals_leave_the_graph_alone),
        cmocka_unit_test(shorter_ways_build_and_counts_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
