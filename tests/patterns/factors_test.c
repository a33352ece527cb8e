/* Owns: tests of factors between attention and quantise.
 * Does not own: the quantise itself (spellings_test.c).
 * Next: patterns/factors.h. */
#include "patterns/factors.h"

#include "tests/patterns/evaluating.h"
#include "tests/patterns/raising.h"

#define INPUTS    "%q: f32[B, 4, T, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 8], %s: f32[], %c: f32[]"
#define ATTENTION "  %a = attention %q, %k, %v {scale=0.35}\n"
#define QUANTISE  "  %y = quantize %m, %s {dtype=f8E4M3FN}\n"

static const evaluation_size size[] = {{"B", 2}, {"T", 3}, {"S", 5}, {NULL, 0}};

static void fold(bench *b, qf_numerics numerics) {
    assert_int_equal(qf_fold_output_factors(b->graph, numerics, &b->report, &b->changed), QF_OK);
    assert_int_equal(qf_graph_verify(b->graph), QF_OK);
}

static void evaluate(evaluation *e, const bench *b, const qf_graph *graph) {
    evaluation_open(e, graph, size);
    for (uint32_t i = 0; i < graph->input_count; i++) evaluation_fill(e, i);
    evaluation_run(e, &b->check);
}

/* The quantise reads the attention through layout only, and gives the numbers that it gave. */
static void expect_folded(const char *body) {
    bench b;
    evaluation before, after;
    raise_open(&b, INPUTS, body, "%y");
    qf_graph *unfolded = qf_graph_clone(b.graph);
    assert_non_null(unfolded);
    evaluate(&before, &b, unfolded);
    fold(&b, QF_NUMERICS_ROUNDING);
    if (!b.changed) bench_print(&b);
    assert_true(b.changed);
    qf_value x = qf_node_operand(b.graph, bench_find(&b, QF_OP_quantize), 0);
    while (qf_node_op(b.graph, qf_value_producer(b.graph, x)) != QF_OP_attention) {
        qf_node node = qf_value_producer(b.graph, x);
        assert_true(qf_op_has_trait(qf_node_op(b.graph, node), QF_TRAIT_LAYOUT));
        x = qf_node_operand(b.graph, node, 0);
    }
    evaluate(&after, &b, b.graph);
    qf_tensor left = evaluation_output(&before, 0), right = evaluation_output(&after, 0);
    assert_true(relative_difference(&left, &right) <= 0.02);
    evaluation_close(&before);
    evaluation_close(&after);
    qf_graph_destroy(unfolded);
    fold(&b, QF_NUMERICS_ROUNDING);
    assert_false(b.changed);
    bench_close(&b);
}

static void factors_move_into_the_scale(void **state) {
    (void)state;
    expect_folded(ATTENTION "  %m = mul %a, %c\n" QUANTISE);
    expect_folded(ATTENTION "  %m = div %a, %c\n" QUANTISE);
    expect_folded(ATTENTION "  %two = constant {value=f32[] 2.0}\n  %t = mul %two, %a\n"
                            "  %p = permute %t {order=[0, 2, 1, 3]}\n  %w = view %p {shape=[B, T, 32]}\n"
                            "  %m = div %w, %c\n" QUANTISE);
    expect_folded(ATTENTION "  %h = cast %a {dtype=f16}\n  %w = cast %h {dtype=f32}\n  %m = mul %w, %c\n" QUANTISE);
    expect_folded(ATTENTION "  %m = mul %a, %c\n  %y = quantize %m, %s {dtype=f8E4M3FN, mode=mul}\n");
    expect_folded(ATTENTION "  %m = mul %a, %c\n  %y = quantize %m, %s {dtype=f8E4M3FN, mode=mul_recip}\n");
}

/* The unscaled result overflows f16, the scaled one does not. */
static void a_factor_keeps_numbers_within_f16(void **state) {
    (void)state;
    expect_folded("  %up = constant {value=f32[] 1e7}\n  %down = constant {value=f32[] 1e-7}\n  %w = mul %v, %up\n"
                  "  %a = attention %q, %k, %w {scale=0.35}\n  %n = mul %a, %down\n  %h = cast %n {dtype=f16}\n"
                  "  %m = cast %h {dtype=bf16}\n" QUANTISE);
}

static void expect_kept(const char *body, const char *outputs, qf_numerics numerics) {
    bench b;
    raise_open(&b, INPUTS ", %g: f32[8]", body, outputs);
    fold(&b, numerics);
    assert_false(b.changed);
    bench_close(&b);
}

static void what_is_no_factor_stays(void **state) {
    (void)state;
    expect_kept(ATTENTION "  %m = mul %a, %c\n" QUANTISE, "%y", QF_NUMERICS_EXACT);
    expect_kept(ATTENTION "  %t = mul %a, %c\n  %f = cast %t {dtype=f8E5M2}\n  %m = cast %f {dtype=f32}\n" QUANTISE,
                "%y", QF_NUMERICS_ROUNDING);
    expect_kept(ATTENTION "  %m = mul %a, %g\n" QUANTISE, "%y", QF_NUMERICS_ROUNDING);
    expect_kept(ATTENTION "  %m = div %c, %a\n" QUANTISE, "%y", QF_NUMERICS_ROUNDING);
    expect_kept(ATTENTION "  %m = mul %a, %a\n" QUANTISE, "%y", QF_NUMERICS_ROUNDING);
    expect_kept(ATTENTION "  %m = mul %a, %c\n" QUANTISE, "%y, %m", QF_NUMERICS_ROUNDING);
    expect_kept("  %m = mul %q, %c\n" QUANTISE, "%y", QF_NUMERICS_ROUNDING);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(factors_move_into_the_scale),
                                       cmocka_unit_test(a_factor_keeps_numbers_within_f16),
                                       cmocka_unit_test(what_is_no_factor_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
