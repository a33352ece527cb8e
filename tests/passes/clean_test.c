/* Owns: tests of canonicalize, fold, cse and dce.
 * Does not own: rules (tests/patterns).
 * Next: tests/graphs.h. */
#include "tests/graphs.h"

#include "base/convert.h"

static void cse_merges_equal_nodes_in_either_operand_order(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[4], %b: f32[4]) {\n"
                                        "  %x = add %a, %b\n  %y = add %b, %a\n  %z = mul %x, %y\n"
                                        "  return %z\n}\n");
    run_passes(graph, "cse", NULL);
    assert_int_equal(count_op(graph, QF_OP_add), 1);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void cse_keeps_what_differs_in_an_attribute(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[4, 4]) {\n"
                                        "  %x = softmax %a {axis=0}\n  %y = softmax %a {axis=1}\n  %z = mul %x, %y\n"
                                        "  return %z\n}\n");
    run_passes(graph, "cse", NULL);
    assert_int_equal(count_op(graph, QF_OP_softmax), 2);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void dce_keeps_effects(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[4]) {\n"
                                        "  %x = neg %a\n"
                                        "  %y = opaque %a {name=\"vendor.log\"} : f32[4]\n"
                                        "  %z = opaque %a {name=\"vendor.pure\", pure=true} : f32[4]\n"
                                        "  return %a\n}\n");
    run_passes(graph, "dce", NULL);
    assert_int_equal(count_op(graph, QF_OP_neg), 0);
    assert_int_equal(count_op(graph, QF_OP_opaque), 1);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void canonicalize_drops_identities(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f16[B, 4, T]) {\n"
                                        "  %b = view %a {shape=[B, 4, T]}\n"
                                        "  %c = permute %b {order=[0, 1, 2]}\n"
                                        "  %d = copy %c\n"
                                        "  %e = cast %d {dtype=f16}\n"
                                        "  %f = slice %e {starts=[0, 0, 0], ends=[B, 4, T], steps=[1, 1, 1]}\n"
                                        "  %g = cast %f {dtype=f32}\n"
                                        "  %h = cast %g {dtype=f16}\n"
                                        "  return %h\n}\n");
    run_passes(graph, "canonicalize,dce", NULL);
    assert_int_equal(graph->live_node_count, 1);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void canonicalize_keeps_a_narrowing_cast(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[4]) {\n"
                                        "  %b = cast %a {dtype=bf16}\n  %c = cast %b {dtype=f32}\n  return %c\n}\n");
    run_passes(graph, "canonicalize,dce", NULL);
    assert_int_equal(count_op(graph, QF_OP_cast), 2);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* A cast through a type that holds every number of the first one is one cast: each code of each pair is tried. */
static void canonicalize_drops_a_widening_between(void **unused) {
    (void)unused;
    static const qf_dtype eight[] = {QF_F8E4M3FN, QF_F8E5M2, QF_F8E4M3FNUZ, QF_F8E5M2FNUZ, QF_F8E8M0FNU};
    static const qf_dtype between[] = {QF_F16, QF_BF16};
    for (size_t i = 0; i < QF_COUNT_OF(eight); i++) {
        for (size_t j = 0; j < QF_COUNT_OF(between); j++) {
            bool exact = true;
            for (uint32_t code = 0; code < 256; code++) {
                uint8_t narrow = (uint8_t)code;
                uint16_t wide;
                float direct, through;
                qf_convert_array(QF_F32, &direct, eight[i], &narrow, 1, false);
                qf_convert_array(between[j], &wide, eight[i], &narrow, 1, false);
                qf_convert_array(QF_F32, &through, between[j], &wide, 1, false);
                exact = exact &&
                        (memcmp(&direct, &through, sizeof direct) == 0 || (direct != direct && through != through));
            }
            char text[256];
            (void)snprintf(text, sizeof text,
                           "graph @g(%%a: %s[4]) {\n  %%b = cast %%a {dtype=%s}\n  %%c = cast %%b {dtype=f32}\n"
                           "  return %%c\n}\n",
                           qf_dtype_name(eight[i]), qf_dtype_name(between[j]));
            check_state state;
            qf_context *context = check_context(&state);
            qf_graph *graph = graph_of(context, text);
            run_passes(graph, "canonicalize,dce", NULL);
            assert_int_equal(count_op(graph, QF_OP_cast), exact ? 1 : 2);
            qf_graph_destroy(graph);
            check_destroy(context, &state);
        }
    }
}

static void canonicalize_shortens_layout_chains(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[2, 3, 4, 5]) {\n"
                                        "  %b = permute %a {order=[0, 2, 1, 3]}\n"
                                        "  %c = permute %b {order=[0, 2, 3, 1]}\n"
                                        "  %d = view %c {shape=[6, 20]}\n  %e = view %d {shape=[120]}\n"
                                        "  return %e\n}\n");
    run_passes(graph, "canonicalize,dce", NULL);
    assert_int_equal(count_op(graph, QF_OP_view), 1);
    assert_int_equal(count_op(graph, QF_OP_permute), 1);
    const qf_attribute *order = qf_node_attribute(graph, find_op(graph, QF_OP_permute), QF_ATTR(permute, order));
    const int64_t expected[] = {0, 1, 3, 2};
    assert_memory_equal(order->ints, expected, sizeof expected);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void canonicalize_writes_matmul_as_einsum(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[1, 8, T, 64], %b: f32[B, 8, 64, S]) {\n"
                                        "  %c = matmul %a, %b\n  return %c\n}\n");
    qf_type before = qf_value_type(graph, qf_node_operand(graph, graph->last, 0));
    run_passes(graph, "canonicalize", NULL);
    qf_node node = find_op(graph, QF_OP_contract);
    assert_int_not_equal(node.id, 0);
    assert_string_equal(qf_string_c(context, qf_node_attribute(graph, node, QF_ATTR(contract, equation))->string),
                        "Abmk,abkn->abmn");
    assert_int_equal(qf_value_type(graph, qf_node_result(graph, node, 0)).id, before.id);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void canonicalize_makes_shape_arithmetic_symbolic(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[B, T]) {\n"
                                        "  %s = shape_of %a\n  %two = constant {value=i64[] 2}\n"
                                        "  %d = mul %s, %two\n  return %d\n}\n");
    run_passes(graph, "canonicalize,dce", NULL);
    assert_int_equal(count_op(graph, QF_OP_symbolic), 1);
    assert_int_equal(graph->live_node_count, 2);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void fold_computes_constants(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g(%a: f32[]) {\n"
                                        "  %x = constant {value=f32[] 3.0}\n  %y = constant {value=f32[] 8.0}\n"
                                        "  %q = div %x, %y\n  %z = mul %a, %q\n  return %z\n}\n");
    run_passes(graph, "fold,dce", NULL);
    assert_int_equal(count_op(graph, QF_OP_constant), 1);
    const qf_literal *literal = qf_value_literal(graph, qf_node_operand(graph, find_op(graph, QF_OP_mul), 1));
    assert_non_null(literal);
    assert_float_equal(*(const float *)literal->data, 0.375F, 0.0F);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void fold_leaves_what_cannot_be_computed(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, "graph @g() {\n"
                                        "  %x = constant {value=f32[2] [1.0, 2.0]}\n  %i = constant {value=i64[] 7}\n"
                                        "  %q = gather %x, %i\n  return %q\n}\n");
    run_passes(graph, "fold", NULL);
    assert_int_equal(count_op(graph, QF_OP_gather), 1);
    assert_string_equal(state.messages, "");
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cse_merges_equal_nodes_in_either_operand_order),
        cmocka_unit_test(cse_keeps_what_differs_in_an_attribute),
        cmocka_unit_test(dce_keeps_effects),
        cmocka_unit_test(canonicalize_drops_identities),
        cmocka_unit_test(canonicalize_keeps_a_narrowing_cast),
        cmocka_unit_test(canonicalize_drops_a_widening_between),
        cmocka_unit_test(canonicalize_shortens_layout_chains),
        cmocka_unit_test(canonicalize_writes_matmul_as_einsum),
        cmocka_unit_test(canonicalize_makes_shape_arithmetic_symbolic),
        cmocka_unit_test(fold_computes_constants),
        cmocka_unit_test(fold_leaves_what_cannot_be_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
