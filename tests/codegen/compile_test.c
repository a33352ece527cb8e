/* Owns: tests of lowering: aliases, slots, in-place updates, symbols, constants, fingerprints.
 * Does not own: running plans (tests/runtime), their files (tests/plan).
 * Next: codegen/compile.c. */
#include "tests/runtime/running.h"

static uint32_t steps_of(const running *r, qf_op op) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->plan->step_count; i++) count += r->plan->steps[i].op == (uint32_t)op;
    return count;
}

static void views_are_aliases(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[1, T, 8]) {\n"
                        "  %e = exp %x\n"
                        "  %v = view %e {shape=[T, 8]}\n"
                        "  %p = permute %v {order=[0, 1]}\n"
                        "  %s = slice %p {starts=[1, 0], ends=[3, 8], steps=[1, 1]}\n"
                        "  %a, %b = split %e {axis=1, sizes=[2, T - 2]}\n"
                        "  %c = copy %s\n"
                        "  %n = neg %c\n"
                        "  %m = neg %a\n"
                        "  return %n, %m\n}\n");
    assert_int_equal(r.plan->step_count, 3);
    running_dump_has(&r, "f32[2, 8] slot 0+32");
    running_close(&r);
}

static void what_moves_bytes_is_a_step(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[4, 6]) {\n"
                        "  %e = exp %x\n"
                        "  %p = permute %e {order=[1, 0]}\n"
                        "  %s = slice %e {starts=[0, 1], ends=[4, 3], steps=[1, 1]}\n"
                        "  %t = slice %e {starts=[0, 0], ends=[4, 6], steps=[2, 1]}\n"
                        "  %a, %b = split %e {axis=1, sizes=[2, 4]}\n"
                        "  return %p, %s, %t, %a, %b\n}\n");
    assert_int_equal(r.plan->step_count, 5);
    running_close(&r);
}

static void slots_are_reused(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[T, 64]) {\n"
                        "  %a = exp %x\n  %b = neg %a\n  %c = exp %b\n  %d = neg %c\n  %e = exp %d\n  %f = neg %e\n"
                        "  return %f\n}\n");
    assert_int_equal(r.plan->origins[0].slot_count, 2);
    running_close(&r);
}

static const char cache_graph[] = "(%cache: f32[4, 16, 2, 8], %new: f32[R, 2, 8], %slots: i64[R]) {\n"
                                  "  %out = kv_cache_write %cache, %new, %slots\n"
                                  "  return %out as \"cache_out\"\n}\n";

static void a_cache_update_may_lie_in_the_input(void **state) {
    (void)state;
    running r;
    running_compile(&r, cache_graph);
    qf_plan_tensor_info info;
    assert_true(qf_plan_output(r.plan, 0, &info));
    assert_int_equal(info.in_place, 0);
    assert_string_equal(info.name, "cache_out");
    running_dump_has(&r, "may lie in input 0");
    running_close(&r);
}

static void a_later_read_refuses_the_update(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%cache: f32[4, 16, 2, 8], %new: f32[R, 2, 8], %slots: i64[R]) {\n"
                        "  %out = kv_cache_write %cache, %new, %slots\n"
                        "  %old = neg %cache\n"
                        "  return %out, %old\n}\n");
    qf_plan_tensor_info info;
    assert_true(qf_plan_output(r.plan, 0, &info));
    assert_int_equal(info.in_place, -1);
    assert_string_equal(info.reason, "copied: the old version is read by a later step");
    running_close(&r);
    running_compile(&r, "(%cache: f32[4, 16, 2, 8], %new: f32[R, 2, 8], %slots: i64[R]) {\n"
                        "  %out = kv_cache_write %cache, %new, %slots\n"
                        "  return %out, %cache\n}\n");
    assert_true(qf_plan_output(r.plan, 0, &info));
    assert_string_equal(info.reason, "copied: the old version is an output of the graph");
    running_close(&r);
}

/* A chain of updates of a computed cache takes one buffer. */
static void updates_of_a_value_share_its_slot(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%cache: f32[4, 16, 2, 8], %new: f32[R, 2, 8], %slots: i64[R]) {\n"
                        "  %c0 = neg %cache\n"
                        "  %c1 = kv_cache_write %c0, %new, %slots\n"
                        "  %c2 = kv_cache_write %c1, %new, %slots\n"
                        "  %y = neg %c2\n"
                        "  return %y\n}\n");
    assert_int_equal(r.plan->origins[0].slot_count, 1);
    running_dump_has(&r, "note in place");
    running_close(&r);
}

static void symbols_are_solved_from_shapes(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%mask: f32[past + T], %x: f32[2*T], %y: f32[past, 3]) symbols(T min 1 div 4) {\n"
                        "  %a = exp %mask\n  %b = exp %x\n  %c = exp %y\n  return %a, %b, %c\n}\n");
    running_dump_has(&r, "symbol past from input \"y\" axis 0");
    running_dump_has(&r, "symbol T from input \"mask\" axis 0 after past min 1 div 4");
    running_close(&r);
    running_compile(
        &r, "(%x: f32[2*T + 1], %y: f32[T*H, 3], %z: f32[U, V]) {\n"
            "  %a = exp %x\n  %b = exp %y\n  %c = view %z {shape=[floordiv(U*V, 2), 2]}\n  return %a, %b, %c\n}\n");
    running_dump_has(&r, "symbol T from input \"x\" axis 0 divided by 2 after 1");
    running_dump_has(&r, "symbol H from input \"y\" axis 0 divided by T");
    running_close(&r);
}

static void opaque_ops_compile(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[4]) {\n"
                        "  %y = opaque %x {name=\"vendor.op\", pure=true} : f32[*]\n"
                        "  %z = neg %y\n"
                        "  return %z\n}\n");
    assert_int_equal(steps_of(&r, QF_OP_opaque), 1);
    running_dump_has(&r, "cannot run: the op is opaque");
    running_close(&r);
}

static void outputs_that_lie_elsewhere_are_copied(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[4]) {\n"
                        "  %w = constant {value=f32[2] [1.0, 2.0]}\n"
                        "  %y = neg %x\n"
                        "  return %x, %w, %y, %y\n}\n");
    assert_int_equal(steps_of(&r, QF_OP_copy), 3);
    running_close(&r);
}

static void no_kernel_fails_before_a_run(void **state) {
    (void)state;
    running r;
    running_parse(&r, "(%x: f32[4]) {\n  %y = neg %x\n  return %y\n}\n");
    qf_compile_options options = {.struct_size = sizeof options, .target = "sm_90a"};
    uint32_t rows, count = 0;
    const qf_kernel_row *table = qf_kernel_table(&rows);
    for (uint32_t i = 0; i < rows; i++) count += table[i].op == QF_OP_neg && (table[i].targets >> QF_TARGET_sm_90a & 1);
    if (!count) {
        assert_int_equal(qf_compile(r.graph, &options, &r.plan), QF_ERROR_UNSUPPORTED);
        assert_non_null(strstr(r.check.messages, "target sm_90a has no kernel for neg"));
        assert_non_null(strstr(r.check.messages, "test.qf"));
    }
    options.target = "sm_12";
    assert_int_equal(qf_compile(r.graph, &options, &r.plan), QF_ERROR_NOT_FOUND);
    assert_null(r.plan);
    running_close(&r);
}

static qf_fingerprint fingerprint_of(const char *text, qf_compile_options options) {
    running r;
    running_parse(&r, text);
    qf_fingerprint out;
    options.struct_size = sizeof options;
    assert_int_equal(qf_compile_fingerprint(r.graph, &options, &out), QF_OK);
    running_close(&r);
    return out;
}

static bool same(qf_fingerprint a, qf_fingerprint b) {
    return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

/* A cache of plans must not serve a plan made with other rules, pipeline, target, numerics or dtypes. */
static void fault_14_the_fingerprint_covers_everything(void **state) {
    (void)state;
    const char *text = "(%x: f32[T]) {\n  %y = neg %x\n  return %y\n}\n";
    qf_compile_options base = {.pipeline = "canonicalize,raise", .numerics = "rounding", .rules = "rule a"};
    qf_fingerprint first = fingerprint_of(text, base);
    assert_true(same(first, fingerprint_of(text, base)));
    qf_compile_options other = base;
    other.rules = "rule b";
    assert_false(same(first, fingerprint_of(text, other)));
    other = base;
    other.pipeline = "canonicalize";
    assert_false(same(first, fingerprint_of(text, other)));
    other = base;
    other.numerics = "exact";
    assert_false(same(first, fingerprint_of(text, other)));
    other = base;
    other.target = "sm_90a";
    assert_false(same(first, fingerprint_of(text, other)));
    other = base;
    other.pipeline = "canonicalize,raiser", other.rules = "ule a"; /* the same bytes, cut elsewhere */
    assert_false(same(first, fingerprint_of(text, other)));
    assert_false(same(first, fingerprint_of("(%x: f16[T]) {\n  %y = neg %x\n  return %y\n}\n", base)));
    assert_false(same(first, fingerprint_of("(%x: f32[T]) {\n  %y = exp %x\n  return %y\n}\n", base)));
}

static qf_status compile_again(running *r, void *user, qf_plan **out_plan) {
    (void)user;
    return qf_compile(r->graph, NULL, out_plan);
}

/* Every allocation fails once: no crash, no leak, a status, and no plan that differs. */
static void fails_at_every_allocation(void **state) {
    (void)state;
    const char *text =
        "(%x: f32[B, T], %w: f32[T + S], %cache: f32[2, 16, 1, 4], %slots: i64[B], %n: f32[B, 1, 4]) assume(S == 4) {\n"
        "  %c = constant {value=f32[] 2.0}\n"
        "  %p = parameter {name=\"weight\", file=\"w.bin\"} : f32[2, 3]\n"
        "  %y = mul %x, %c\n  %k = kv_cache_write %cache, %n, %slots\n"
        "  %v = view %y {shape=[B*T]}\n"
        "  return %v, %k, %w, %p\n}\n";
    running r;
    running_compile(&r, text);
    running_sweep(&r, compile_again, NULL);
    running_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(views_are_aliases),
                                       cmocka_unit_test(what_moves_bytes_is_a_step),
                                       cmocka_unit_test(slots_are_reused),
                                       cmocka_unit_test(a_cache_update_may_lie_in_the_input),
                                       cmocka_unit_test(a_later_read_refuses_the_update),
                                       cmocka_unit_test(updates_of_a_value_share_its_slot),
                                       cmocka_unit_test(symbols_are_solved_from_shapes),
                                       cmocka_unit_test(opaque_ops_compile),
                                       cmocka_unit_test(outputs_that_lie_elsewhere_are_copied),
                                       cmocka_unit_test(no_kernel_fails_before_a_run),
                                       cmocka_unit_test(fault_14_the_fingerprint_covers_everything),
                                       cmocka_unit_test(fails_at_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
