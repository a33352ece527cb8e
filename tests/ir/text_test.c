/* Owns: tests of the text form: round trips, names, numbers, locations, tags, several faults in one parse.
 * Does not own: messages as the program prints them (tests/golden/text).
 * Next: ir/parse.c. */
#include "tests/check.h"

#include "ir/literal.h"
#include "ir/text.h"
#include "ir/verify.h"

static char *print(qf_context *context, const qf_graph *graph) {
    qf_buffer buffer = {.context = context};
    qf_graph_print(&buffer, graph);
    assert_false(buffer.failed);
    char *copy = test_malloc(buffer.size + 1);
    memcpy(copy, buffer.data, buffer.size + 1);
    qf_buffer_destroy(&buffer);
    return copy;
}

/* Text in canonical form reads and prints as itself. */
static void assert_prints_itself(const char *text) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "test.qf");
    if (!graph) fail_msg("%s", state.messages);
    char *printed = print(context, graph);
    assert_string_equal(printed, text);
    qf_graph *clone = qf_graph_clone(graph);
    char *again = print(context, clone);
    assert_string_equal(again, text);
    test_free(printed);
    test_free(again);
    qf_graph_destroy(clone);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void attention_round_trip(void **unused) {
    (void)unused;
    assert_prints_itself(
        "graph @layer(\n"
        "    %x: f16[B, 8, T, 64],\n"
        "    %k: f8E4M3FN[B, 8, S, 64],\n"
        "    %v: f8E4M3FN[B, 8, S, 64],\n"
        "    %m: i1[B, 1, T, S],\n"
        "    %ks: f32[],\n"
        "    %vs: f32[8]) symbols(B min 1, T min 1 max 4096 div 16) assume(S == T + 1) {\n"
        "  %s = constant {value=f32[] 0.125} : f32[]\n"
        "  %w = parameter {name=\"layer.0.weight\", file=\"model.bin\", offset=128, size=8192, hash=4660} : f16[64, "
        "64]\n"
        "  %a, %l = attention %x, %k, %v, mask=%m, k_scale=%ks, v_scale=%vs, out_scale=%s {scale=0.125, causal=true, "
        "out=f8E4M3FN, out_mode=mul_recip, via=f16} : f8E4M3FN[B, 8, T, 64], f32[B, 8, T] "
        "loc(\"model.onnx:/layers.0/attn\") tag(7)\n"
        "  %p, %q = split %a {axis=1, sizes=[4, 4]} : f8E4M3FN[B, 4, T, 64], f8E4M3FN[B, 4, T, 64]\n"
        "  return %p as \"out\", %q, %l\n"
        "}\n");
}

static void names_locations_and_opaque_ops(void **unused) {
    (void)unused;
    assert_prints_itself(
        "graph @\"odd name\\n\"(%\"3\": f32[*], %0: none[*], %\"a b\\\"c\": f32[2*B*T + 1]) symbols(T min -3) {\n"
        "  %1, %t = opaque %\"3\", %0 {name=\"vendor.op\", payload=\"\\x01\\\\\"} : f32[4], token\n"
        "  opaque %t {name=\"log\"}\n"
        "  %x.1 = slice %1 {starts=[0], ends=[2], steps=[1]} : f32[2] loc(\"a.mlir\":3:4)\n"
        "  %2 = neg %x.1 : f32[2] loc(fused \"my_rule\" [\"a.mlir\":3:4, \"node 7\", fused \"r\" [\"z\"]]) "
        "tag(0xFFFFFFFFFFFFFFFE)\n"
        "  return %2 loc(\"end\")\n"
        "}\n");
}

static void literals_round_trip(void **unused) {
    (void)unused;
    assert_prints_itself("graph @main() {\n"
                         "  %a = constant {value=f32[4] [0.1, -0.0, inf, -inf]} : f32[4]\n"
                         "  %b = constant {value=f64[2] [0.1, 1e-300]} : f64[2]\n"
                         "  %c = constant {value=f16[2, 2] [0.1, 65504.0, 6e-08, nan]} : f16[2, 2]\n"
                         "  %d = constant {value=bf16[] 3e+38} : bf16[]\n"
                         "  %e = constant {value=f8E4M3FN[3] [448.0, 0.001953125, nan]} : f8E4M3FN[3]\n"
                         "  %f = constant {value=f8E5M2[2] [57344.0, -inf]} : f8E5M2[2]\n"
                         "  %g = constant {value=f4E2M1FN[4] [0.5, -6.0, 1.5, 0.0]} : f4E2M1FN[4]\n"
                         "  %h = constant {value=f4E2M1FN[3] hex \"1F02\"} : f4E2M1FN[3]\n"
                         "  %i = constant {value=i64[2] [-9223372036854775808, 9223372036854775807]} : i64[2]\n"
                         "  %j = constant {value=i1[2] [true, false]} : i1[2]\n"
                         "  %k = constant {value=f32[1] hex \"0100C07F\"} : f32[1]\n"
                         "  %l = constant {value=u8[0] []} : u8[0]\n"
                         "  return\n"
                         "}\n");
}

/* Every element of every 8-bit float reads back bit for bit. */
static void all_codes_round_trip(void **unused) {
    (void)unused;
    const qf_dtype dtypes[] = {QF_F8E4M3FN, QF_F8E5M2, QF_F8E4M3FNUZ, QF_F8E5M2FNUZ, QF_F8E8M0FNU, QF_F16, QF_BF16};
    check_state state;
    qf_context *context = check_context(&state);
    for (size_t d = 0; d < QF_COUNT_OF(dtypes); d++) {
        uint32_t step = qf_dtype_bits(dtypes[d]) == 8 ? 1 : 257;
        for (uint32_t code = 0; code < 1u << qf_dtype_bits(dtypes[d]); code += step) {
            qf_literal literal = {.type = qf_type_tensor(context, dtypes[d], NULL, 0),
                                  .size = qf_dtype_bits(dtypes[d]) / 8,
                                  .data = &code};
            qf_buffer buffer = {.context = context};
            qf_literal_print(&buffer, context, &literal);
            qf_arena arena = {.context = context};
            qf_lexer lexer;
            qf_lexer_start(&lexer, context, (qf_text){buffer.data, buffer.size}, "literal");
            const qf_literal *back = qf_literal_parse(&lexer, &arena);
            if (!back) fail_msg("%s", state.messages);
            assert_true(qf_attribute_equal(QF_ATTRIBUTE_LITERAL, &(qf_attribute){.literal = &literal},
                                           &(qf_attribute){.literal = back}));
            qf_arena_destroy(&arena);
            qf_buffer_destroy(&buffer);
        }
    }
    check_destroy(context, &state);
}

/* Values that share a name, as rewrites may leave them, get numbers; numbers count in order of appearance. */
static void equal_names_get_numbers(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context,
                                     QF_TEXT("graph @g(%x: f32[2]) {\n"
                                             "  %y = neg %x : f32[2]\n"
                                             "  %z = neg %y : f32[2]\n"
                                             "  return %z, %y\n}\n"),
                                     "test.qf");
    assert_non_null(graph);
    qf_value z = qf_node_operand(graph, graph->last, 0);
    qf_value_at(graph, z)->name = qf_value_at(graph, qf_node_operand(graph, graph->last, 1))->name;
    char *printed = print(context, graph);
    assert_string_equal(printed, "graph @g(%x: f32[2]) {\n"
                                 "  %y = neg %x : f32[2]\n"
                                 "  %0 = neg %y : f32[2]\n"
                                 "  return %0, %y\n}\n");
    qf_buffer line = {.context = context};
    qf_node_print(&line, graph, qf_value_producer(graph, z));
    assert_string_equal(line.data, "%0 = neg %y : f32[2]");
    qf_buffer_destroy(&line);
    test_free(printed);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void assert_faults(const char *text, const char *expected) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "test.qf");
    assert_null(graph);
    assert_string_equal(state.messages, expected);
    assert_int_not_equal(qf_context_status(context), QF_OK);
    check_destroy(context, &state);
}

static void several_faults_are_reported(void **unused) {
    (void)unused;
    assert_faults("graph @g(%x: f32[2], %x: f32[3]) {\n"
                  "  %y = nag %x\n"
                  "  %z = add %y, %w : f32[2]\n"
                  "  %a = permute %x {order=[0, 1}\n"
                  "  %b = softmax %x {axsi=0}\n"
                  "  %c = softmax %x : f32[2]\n"
                  "  %d = quantize %x, %x {dtype=f8, mode=dvi}\n"
                  "  return %z, \"end\n"
                  "}\n",
                  "error test.qf:1:22: %x is already defined in line 1; every value needs a name of its own\n"
                  "error test.qf:2:8: expected the name of an op (docs/ops.md), found 'nag'\n"
                  "error test.qf:3:16: %w is not defined above\n"
                  "error test.qf:4:31: expected ',' between the entries of a list, found '}'\n"
                  "error test.qf:5:20: expected an attribute of softmax (axis), found 'axsi'\n"
                  "error test.qf:6:8: softmax needs the attribute axis: write {axis=...}\n"
                  "error test.qf:7:31: expected an element type such as f16, f8E4M3FN or none, found 'f8'\n"
                  "error test.qf:8:14: the string has no closing quote on its line\n");
}

static void depth_and_count_limits(void **unused) {
    (void)unused;
    qf_buffer text;
    check_state state;
    qf_context *context = check_context(&state);
    text = (qf_buffer){.context = context};
    qf_buffer_text(&text, QF_TEXT("graph @g() {\n  return loc("));
    for (int i = 0; i < 100000; i++) qf_buffer_text(&text, QF_TEXT("fused \"r\" ["));
    assert_null(qf_graph_parse(context, (qf_text){text.data, text.size}, "deep.qf"));
    assert_int_equal(qf_context_status(context), QF_ERROR_LIMIT);
    text.size = 0;
    qf_context_clear_status(context);
    qf_buffer_text(&text, QF_TEXT("graph @g(%x: f32["));
    for (int i = 0; i < 100000; i++) qf_buffer_text(&text, QF_TEXT("min(T, "));
    assert_null(qf_graph_parse(context, (qf_text){text.data, text.size}, "deep.qf"));
    text.size = 0;
    qf_context_clear_status(context);
    qf_buffer_text(&text, QF_TEXT("graph @g() {\n"));
    for (int i = 0; i < 1000; i++) qf_buffer_print(&text, "  %%v%d = nothing\n", i);
    state.messages[0] = 0;
    assert_null(qf_graph_parse(context, (qf_text){text.data, text.size}, "many.qf"));
    size_t lines = 0;
    for (const char *at = state.messages; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 20);
    qf_buffer_destroy(&text);
    check_destroy(context, &state);
}

/* The first example of docs/ir.md is a graph. */
static void the_example_of_the_manual_reads(void **unused) {
    (void)unused;
    static char manual[1 << 16];
    FILE *file = fopen(QF_SOURCE_DIR "/docs/ir.md", "rb");
    assert_non_null(file);
    manual[fread(manual, 1, sizeof manual - 1, file)] = '\0';
    (void)fclose(file);
    char *start = strstr(manual, "```\n"), *end = start ? strstr(start + 4, "```") : NULL;
    assert_non_null(end);
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context, (qf_text){start + 4, (size_t)(end - start) - 4}, "ir.md");
    assert_string_equal(state.messages, "");
    assert_non_null(graph);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_round_trip),    cmocka_unit_test(names_locations_and_opaque_ops),
        cmocka_unit_test(literals_round_trip),     cmocka_unit_test(all_codes_round_trip),
        cmocka_unit_test(equal_names_get_numbers), cmocka_unit_test(several_faults_are_reported),
        cmocka_unit_test(depth_and_count_limits),  cmocka_unit_test(the_example_of_the_manual_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
