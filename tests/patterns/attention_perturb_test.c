/* Owns: names, order, duplicates, identity layouts and swapped operands change nothing of what is recognised.
 * Does not own: the changes (tests/perturb.h).
 * Next: spellings.h. */
#include "tests/patterns/raising.h"
#include "tests/patterns/spellings.h"
#include "tests/perturb.h"

/* What an attention is, apart from how its operands are computed. */
static void describe(const bench *b, char *out, size_t size) {
    qf_node node = bench_find(b, QF_OP_attention);
    const qf_op_info *info = qf_op_info_of(QF_OP_attention);
    qf_buffer text = {.context = b->context};
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        qf_buffer_print(&text, " %s=", info->attributes[i].name);
        qf_attribute_print(&text, b->graph, &info->attributes[i], qf_node_attribute(b->graph, node, i));
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        qf_value value = qf_node_operand(b->graph, node, i);
        qf_buffer_print(&text, " %s:", info->operands[i].name);
        if (value.id) qf_type_print(&text, b->context, qf_value_type(b->graph, value));
    }
    (void)snprintf(out, size, "%s", text.data);
    qf_buffer_destroy(&text);
}

static void raise_clean(bench *b) {
    run_passes(b, "canonicalize,fold,cse,dce");
    raise_with(b, QF_NUMERICS_ROUNDING);
    if (bench_count(b, QF_OP_attention) != 1) bench_print(b);
    assert_int_equal(b->report.miss_count, 0);
}

static void perturbed_graphs_are_the_same_attention(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(spellings); i++) {
        char expected[2048], found[2048];
        bench b;
        raise_open(&b, spellings[i].inputs, spellings[i].body, "%y");
        raise_clean(&b);
        describe(&b, expected, sizeof expected);
        bench_close(&b);
        for (uint64_t seed = 1; seed <= 12; seed++) {
            raise_open(&b, spellings[i].inputs, spellings[i].body, "%y");
            perturb_graph(b.graph, seed);
            raise_clean(&b);
            describe(&b, found, sizeof found);
            if (strcmp(expected, found) != 0) {
                bench_print(&b);
                fail_msg("%s, seed %u:\n%s\n%s", spellings[i].name, (unsigned)seed, expected, found);
            }
            bench_close(&b);
        }
    }
}

/* Changes that break the mathematics are never recognised. */
static void mutations_are_not_recognised(void **state) {
    (void)state;
    static const char *const bodies[] = {
        SCORES "  %p = softmax %s {axis=2}\n" VALUES,
        SCORES "  %s1 = mul %s, %s\n  %p = softmax %s1 {axis=3}\n" VALUES,
        SCORES "  %e = exp %s\n  %z = reduce_max %e {axes=[3]}\n  %p = div %e, %z\n" VALUES,
        SCORES "  %e = exp %s\n  %e2 = exp %e\n  %z = reduce_sum %e2 {axes=[3]}\n  %p = div %e, %z\n" VALUES,
        SCORES "  %p0 = softmax %s {axis=3}\n  %p = mul %p0, %p0\n" VALUES,
        SCORES
        "  %p0 = softmax %s {axis=3}\n  %p1 = slice %p0 {starts=[0, 0, 0, 1], ends=[B, 4, T, T], steps=[1, 1, 1, 1]}\n"
        "  %c = constant {value=f32[] 0.0}\n  %p = pad %p1, %c {before=[0, 0, 0, 1], after=[0, 0, 0, 0]}\n" VALUES,
    };
    for (size_t i = 0; i < QF_COUNT_OF(bodies); i++) {
        bench b;
        raise_body(&b, SQUARE, bodies[i]);
        assert_int_equal(bench_count(&b, QF_OP_attention), 0);
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perturbed_graphs_are_the_same_attention),
        cmocka_unit_test(mutations_are_not_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
