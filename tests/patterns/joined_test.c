/* Owns: tests of concatenations of dequantised tensors.
 * Does not own: attention over what comes out (attention_test.c).
 * Next: patterns/joined.h. */
#include "patterns/joined.h"
#include "tests/patterns/evaluating.h"
#include "tests/patterns/raising.h"
#include "tests/perturb.h"

#define FP8             "%x: f8E4M3FN[B, 2, S, 8], %z: f8E4M3FN[B, 2, T, 8], %s: f32[], %r: f32[]"
#define DQ(y, x, scale) "  %" y " = dequantize %" x ", %" scale " {dtype=f16}\n"
#define BOTH(s1, s2)    DQ("a", "x", s1) DQ("b", "z", s2)
#define JOIN            "  %y = concat %a, %b {axis=2}\n"

static const evaluation_size sizes[] = {{"B", 2}, {"S", 3}, {"T", 4}, {NULL, 0}};

typedef struct joining {
    const char *inputs, *body;
} joining;

static const joining joinings[] = {
    {FP8, BOTH("s", "s") JOIN},
    {FP8, BOTH("s", "s") "  %y = concat %a, %b, %a {axis=2}\n"},
    {FP8, "  %c1 = constant {value=f32[] 0.25}\n  %c2 = constant {value=f32[] 0.25}\n" BOTH("c1", "c2") JOIN},
    {"%x: f8E5M2[B, S, 2, 8], %z: f8E5M2[B, 2, T, 8], %s: f32[1]",
     BOTH("s", "s") "  %p = permute %a {order=[0, 2, 1, 3]}\n  %y = concat %p, %b {axis=2}\n"},
    {FP8, BOTH("s", "s") "  %p = view %a {shape=[B, 2*S, 8]}\n  %q = view %b {shape=[B, 2*T, 8]}\n"
                         "  %y = concat %q, %p {axis=1}\n"},
};

static void join(bench *b) {
    qf_status status = qf_join_dequantised(b->graph, &b->report, &b->changed);
    if (status == QF_OK) status = qf_graph_verify(b->graph);
    if (status != QF_OK) fail_msg("%s", b->check.messages);
}

static qf_tensor evaluate(evaluation *e, const bench *b, const qf_graph *graph) {
    evaluation_open(e, graph, sizes);
    for (uint32_t i = 0; i < graph->input_count; i++) evaluation_fill(e, i);
    evaluation_run(e, &b->check);
    return evaluation_output(e, 0);
}

static void one_scale_dequantises_what_is_joined(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(joinings); i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            bench b;
            raise_open(&b, joinings[i].inputs, joinings[i].body, "%y");
            if (seed) perturb_graph(b.graph, seed);
            run_passes(&b, "canonicalize,fold,cse,dce");
            qf_graph *before = qf_graph_clone(b.graph);
            assert_non_null(before);
            join(&b);
            assert_true(b.changed);
            run_passes(&b, "dce");
            if (bench_count(&b, QF_OP_dequantize) != 1) bench_print(&b);
            assert_int_equal(bench_count(&b, QF_OP_dequantize), 1);
            evaluation expected, found;
            qf_tensor x = evaluate(&found, &b, b.graph), y = evaluate(&expected, &b, before);
            assert_int_equal(x.dtype, y.dtype);
            assert_true(relative_difference(&x, &y) == 0.0);
            evaluation_close(&found);
            evaluation_close(&expected);
            b.changed = false;
            join(&b);
            assert_false(b.changed);
            qf_graph_destroy(before);
            bench_close(&b);
        }
}

static void what_is_dequantised_otherwise_stays(void **state) {
    (void)state;
    static const joining others[] = {
        {FP8, BOTH("s", "r") JOIN},
        {FP8 ", %w: f16[B, 2, T, 8]", DQ("a", "x", "s") "  %y = concat %a, %w {axis=2}\n"},
        {"%x: f8E4M3FN[B, 2, S, 8], %z: f8E5M2[B, 2, T, 8], %s: f32[]", BOTH("s", "s") JOIN},
        {"%x: i8[B, 2, S, 8], %z: i8[B, 2, T, 8], %s: f32[]", BOTH("s", "s") JOIN},
        {FP8 ", %h: f32[2]", "  %a = dequantize %x, %h {dtype=f16, axis=1}\n"
                             "  %b = dequantize %z, %h {dtype=f16, axis=1}\n" JOIN},
        {FP8, "  %c1 = constant {value=f32[] 0.25}\n  %c2 = constant {value=f32[] 0.26}\n" BOTH("c1", "c2") JOIN},
        {FP8, BOTH("s", "s") "  %n = neg %b\n  %y = concat %a, %n {axis=2}\n"},
    };
    for (size_t i = 0; i < QF_COUNT_OF(others); i++) {
        bench b;
        raise_open(&b, others[i].inputs, others[i].body, "%y");
        join(&b);
        assert_false(b.changed);
        bench_close(&b);
    }
}

static void keys_of_a_cache_and_of_new_tokens_are_fp8(void **state) {
    (void)state;
    bench b;
    raise_open(&b, FP8 ", %q: f16[B, 2, T, 8]",
               BOTH("s", "s") "  %k = concat %a, %b {axis=2}\n  %l = contract %q, %k {equation=\"bhtd,bhsd->bhts\"}\n"
                              "  %p = softmax %l {axis=3}\n  %y = contract %p, %k {equation=\"bhts,bhse->bhte\"}\n",
               "%y");
    run_passes(&b, "canonicalize,fold,cse,dce,raise,dce");
    qf_node node = raised(&b);
    assert_string_equal(operand_type(&b, node, QF_IN(attention, k)), "f8E4M3FN[B, 2, S + T, 8]");
    assert_string_equal(operand_type(&b, node, QF_IN(attention, v)), "f8E4M3FN[B, 2, S + T, 8]");
    bench_close(&b);
}

/* True when the run got through without meeting the failure. */
static bool survives(const joining *which, uint64_t fail_after) {
    bench b;
    raise_open(&b, which->inputs, which->body, "%y");
    uint64_t at = b.check.allocations + fail_after;
    b.check.fail_at = at;
    qf_status status = qf_join_dequantised(b.graph, &b.report, &b.changed);
    bool met = b.check.allocations >= at;
    assert_int_equal(status, met ? QF_ERROR_OUT_OF_MEMORY : QF_OK);
    bench_close(&b);
    return !met;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(joinings); i++)
        for (uint64_t n = 1; !survives(&joinings[i], n); n++) assert_true(n < 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_scale_dequantises_what_is_joined),
        cmocka_unit_test(what_is_dequantised_otherwise_stays),
        cmocka_unit_test(keys_of_a_cache_and_of_new_tokens_are_fp8),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
