/* Owns: the raised attention gives the numbers of the decomposed graph, for every spelling, on the CPU kernels.
 * Does not own: the spellings (spellings.h), running graphs (evaluating.h).
 * Next: evaluating.h. */
#include "tests/patterns/evaluating.h"
#include "tests/patterns/raising.h"
#include "tests/patterns/spellings.h"

static const evaluation_size sizes[][6] = {
    {{"B", 2}, {"T", 5}, {"S", 7}, {"past", 3}, {"N", 3}, {NULL, 0}},
    {{"B", 1}, {"T", 6}, {"S", 2}, {"past", 0}, {"N", 1}, {NULL, 0}},
};

static void evaluate(evaluation *e, const bench *b, const qf_graph *graph, const evaluation_size *size) {
    evaluation_open(e, graph, size);
    for (uint32_t i = 0; i < graph->input_count; i++) evaluation_fill(e, i);
    evaluation_run(e, &b->check);
}

/* How far the raised graph's output is from that of the graph as it was before. */
static double difference_after_raising(const bench *b, const qf_graph *before, const evaluation_size *size) {
    evaluation expected, found;
    evaluate(&expected, b, before, size);
    evaluate(&found, b, b->graph, size);
    qf_tensor x = evaluation_output(&found, 0), y = evaluation_output(&expected, 0);
    double difference = relative_difference(&x, &y);
    evaluation_close(&expected);
    evaluation_close(&found);
    return difference;
}

static void compare(const spelling *which, const evaluation_size *size) {
    bench b;
    raise_open(&b, which->inputs, which->body, "%y");
    qf_graph *before = qf_graph_clone(b.graph);
    assert_non_null(before);
    raise_with(&b, QF_NUMERICS_ROUNDING);
    if (b.report.miss_count || bench_count(&b, QF_OP_attention) != 1) {
        bench_print(&b);
        fail_msg("%s: %s", which->name,
                 b.report.miss_count ? qf_reason_code(b.report.misses[0].reason) : "not raised, and no reason");
    }
    double difference = difference_after_raising(&b, before, size);
    if (!(difference <= which->tolerance)) {
        bench_print(&b);
        fail_msg("%s: relative difference %g, allowed %g", which->name, difference, which->tolerance);
    }
    qf_graph_destroy(before);
    bench_close(&b);
}

static void raised_equals_decomposed(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(spellings); i++)
        for (size_t s = 0; s < QF_COUNT_OF(sizes); s++) compare(&spellings[i], sizes[s]);
}

/* Every order of K's axes that type-checks is some attention; each must read K as the graph did. */
static void fault_16_k_permutations(void **state) {
    (void)state;
    int raised_count = 0;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int c = 0; c < 4; c++) {
                int d = 6 - a - b - c;
                if (a == b || a == c || b == c || d < 0 || d > 3 || d == a || d == b || d == c) continue;
                char body[512];
                (void)snprintf(body, sizeof body,
                               "  %%kt = permute %%k {order=[%d, %d, %d, %d]}\n  %%s = matmul %%q, %%kt\n"
                               "  %%p = softmax %%s {axis=3}\n  %%y = matmul %%p, %%v\n",
                               a, b, c, d);
                spelling all = {"permuted", "%q: f32[4, 4, 4, 4], %k: f32[4, 4, 4, 4], %v: f32[4, 4, 4, 4]", body,
                                1e-6};
                compare(&all, NULL);
                raised_count++;
            }
    assert_int_equal(raised_count, 24);
}

/* The comparison would notice: a wrong scale is not within the tolerance. */
static void a_wrong_scale_is_noticed(void **state) {
    (void)state;
    bench b;
    raise_open(&b, QKV, SCORES "  %p = softmax %s {axis=3}\n" VALUES, "%y");
    qf_graph *before = qf_graph_clone(b.graph);
    assert_non_null(before);
    raise_with(&b, QF_NUMERICS_ROUNDING);
    qf_node_attribute(b.graph, raised(&b), QF_ATTR(attention, scale))->number = 0.9;
    assert_true(difference_after_raising(&b, before, sizes[0]) > 1e-3);
    qf_graph_destroy(before);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raised_equals_decomposed),
        cmocka_unit_test(fault_16_k_permutations),
        cmocka_unit_test(a_wrong_scale_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
