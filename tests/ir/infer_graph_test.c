/* Owns: tests of what inference does to a whole graph: dims that mean the same, assumed equalities, equations.
 * Does not own: single shape rules (infer_test.c).
 * Next: docs/decisions/0003-assumed-equalities.md. */
#include "tests/ir/inferring.h"

#include "ir/equation.h"

/* FAULTS 8: -1, a symbol and a literal that mean the same are the same dim. */
static void fault_8_targets_mean_the_same_shape(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[B, T, 768]");
    static const char *const shapes[] = {"shape=B|T|12|64", "shape=B|T|floordiv(768, 64)|64",
                                         "shape=floordiv(768*B*T, 768*T)|T|12|64"};
    qf_type first = {0};
    for (size_t i = 0; i < QF_COUNT_OF(shapes); i++) {
        qf_node node = insert(&b, QF_OP_view, shapes[i], &x, 1);
        assert_int_not_equal(node.id, 0);
        qf_type type = qf_value_type(b.graph, qf_node_result(b.graph, node, 0));
        if (i == 0) first = type;
        assert_int_equal(type.id, first.id);
    }
    assert_int_equal(b.graph->guard_count, 0);
    bench_close(&b);
}

static void expect_value_type(bench *b, qf_value value, const char *expected) {
    qf_buffer text = {.context = b->context};
    qf_type_print(&text, b->context, qf_value_type(b->graph, value));
    assert_string_equal(text.data, expected);
    qf_buffer_destroy(&text);
}

/* FAULTS 66: a mask frozen at export fixes the symbol everywhere, and the guard says so. */
static void fault_66_frozen_mask_becomes_a_guard(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[B, T, T]"), y = input(&b, "f32[B, T, 64]"), mask = input(&b, "f32[16, 16]");
    qf_value both[] = {x, mask};
    qf_value before = qf_node_result(b.graph, insert(&b, QF_OP_exp, "", &y, 1), 0);
    qf_value masked = qf_node_result(b.graph, insert(&b, QF_OP_add, "", both, 2), 0);
    qf_value operands[] = {masked, before};
    qf_value product = qf_node_result(b.graph, insert(&b, QF_OP_contract, "equation=bts,bsd->btd", operands, 2), 0);
    assert_true(qf_graph_set_outputs(b.graph, &product, NULL, 1));
    assert_int_equal(b.graph->guard_count, 1);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_OK);
    expect_value_type(&b, before, "f32[B, 16, 64]");
    expect_value_type(&b, product, "f32[B, 16, 64]");
    assert_int_equal(b.graph->guard_count, 1);
    assert_int_equal(b.graph->guards[0].left.id, read_dim(&b, "T").id);
    assert_int_equal(b.graph->guards[0].right.id, read_dim(&b, "16").id);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_OK);
    assert_int_equal(b.graph->guard_count, 1);
    /* Callers still bind T, so that the guard can be checked; the text says it in T too. */
    expect_value_type(&b, x, "f32[B, 16, 16]");
    qf_type declared = qf_input_type(b.graph, 0);
    assert_int_equal(qf_type_dim(b.context, declared, 1).id, read_dim(&b, "T").id);
    bool changed;
    assert_int_equal(qf_graph_apply_guards(b.graph, &changed), QF_OK);
    assert_false(changed);
    bench_close(&b);
}

/* N0 == N1, N1 == N2, ..., and the last is 12: all become 12, from either end. */
static void chains_of_equal_sizes_end_in_one(void **state) {
    (void)state;
    enum { LENGTH = 40 };
    for (uint32_t backward = 0; backward < 2; backward++) {
        bench b;
        bench_open(&b);
        qf_value inputs[LENGTH], sums[LENGTH];
        for (uint32_t i = 0; i < LENGTH; i++) {
            char type[32];
            (void)snprintf(type, sizeof type, i == LENGTH - 1 ? "f32[12]" : "f32[N%u]", i);
            inputs[i] = input(&b, type);
        }
        for (uint32_t i = 0; i + 1 < LENGTH; i++) {
            uint32_t at = backward ? LENGTH - 2 - i : i;
            qf_value pair[] = {inputs[at], inputs[at + 1]};
            sums[i] = qf_node_result(b.graph, insert(&b, QF_OP_add, "", pair, 2), 0);
            (void)insert(&b, QF_OP_add, "", pair, 2); /* the same guard: once */
        }
        assert_true(qf_graph_set_outputs(b.graph, sums, NULL, LENGTH - 1));
        assert_int_equal(b.graph->guard_count, LENGTH - 1);
        qf_graph *copy = qf_graph_clone(b.graph);
        assert_non_null(copy);
        assert_true(qf_graph_add_guard(copy, copy->guards[0].right, copy->guards[0].left, (qf_location){0}));
        assert_int_equal(copy->guard_count, LENGTH - 1);
        qf_graph_destroy(copy);
        bool changed;
        assert_int_equal(qf_graph_apply_guards(b.graph, &changed), QF_OK);
        assert_true(changed);
        for (uint32_t i = 0; i < LENGTH; i++) expect_value_type(&b, inputs[i], "f32[12]");
        for (uint32_t i = 0; i + 1 < LENGTH; i++) expect_value_type(&b, sums[i], "f32[12]");
        assert_int_equal(qf_type_dim(b.context, qf_input_type(b.graph, 3), 0).id, read_dim(&b, "N3").id);
        assert_int_equal(qf_input_type(b.graph, LENGTH - 1).id, qf_value_type(b.graph, inputs[LENGTH - 1]).id);
        assert_int_equal(qf_graph_apply_guards(b.graph, &changed), QF_OK);
        assert_false(changed);
        bench_close(&b);
    }
}

static void derived_symbols_give_way_to_input_symbols(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[T]"), total = input(&b, "f32[total]"), past = input(&b, "f32[past]");
    b.result_count = 1;
    qf_value cut = qf_node_result(b.graph, insert(&b, QF_OP_slice, "starts=0;ends=min(T, 128);steps=1", &x, 1), 0);
    qf_value pair[] = {cut, x};
    qf_value sum = qf_node_result(b.graph, insert(&b, QF_OP_add, "", pair, 2), 0);
    qf_value parts[] = {past, x};
    qf_value joined = qf_node_result(b.graph, insert(&b, QF_OP_concat, "axis=0", parts, 2), 0);
    qf_value more[] = {total, joined};
    qf_value all = qf_node_result(b.graph, insert(&b, QF_OP_add, "", more, 2), 0);
    assert_int_equal(b.graph->guard_count, 2);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_OK);
    expect_value_type(&b, cut, "f32[T]");
    expect_value_type(&b, sum, "f32[T]");
    expect_value_type(&b, total, "f32[T + past]");
    expect_value_type(&b, all, "f32[T + past]");
    bench_close(&b);
}

static void contradicting_equalities_are_refused(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[T]"), first = input(&b, "f32[16]"), second = input(&b, "f32[32]");
    qf_value left[] = {x, first}, right[] = {x, second};
    (void)insert(&b, QF_OP_add, "", left, 2);
    (void)insert(&b, QF_OP_add, "", right, 2);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_ERROR_VERIFY);
    assert_non_null(strstr(b.check.messages, "error here: sizes 16 and 32 must be equal here"));
    bench_close(&b);
}

static void equations_read(void **state) {
    (void)state;
    qf_equation equation;
    assert_null(qf_equation_parse(QF_TEXT("bhtd,bgsd->bhts"), &equation));
    assert_int_equal(equation.a.count, 4);
    assert_int_equal(qf_labels_axis(&equation.b, 'd'), 3);
    assert_int_equal(qf_labels_axis(&equation.result, 'd'), -1);
    static const char *const bad[] = {
        "", "ab", "ab,bc", "ab,bc->", "ab,bc->acd", "a1,b->a", "abcdefghi,b->a", "ab,bc->ac ", "...a,b->a"};
    for (size_t i = 0; i < QF_COUNT_OF(bad); i++)
        assert_int_equal(qf_equation_parse(qf_text_of(bad[i]), &equation) == NULL, i == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_8_targets_mean_the_same_shape),
        cmocka_unit_test(fault_66_frozen_mask_becomes_a_guard),
        cmocka_unit_test(chains_of_equal_sizes_end_in_one),
        cmocka_unit_test(derived_symbols_give_way_to_input_symbols),
        cmocka_unit_test(contradicting_equalities_are_refused),
        cmocka_unit_test(equations_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
