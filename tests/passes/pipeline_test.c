/* Owns: tests of pipeline text, options, reports and rollback.
 * Does not own: single passes (clean_test.c).
 * Next: passes/manager.c. */
#include "tests/graphs.h"

static const char small_graph[] = "graph @g(%a: f32[4], %b: f32[4]) {\n"
                                  "  %x = add %a, %b\n  %y = add %b, %a\n  %z = mul %x, %y\n  return %z\n}\n";

static void expect_fault(const char *passes, const char *target, const char *numerics, const char *query_scale,
                         const char *part) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, small_graph);
    qf_pipeline_options options = {.struct_size = sizeof options,
                                   .passes = passes,
                                   .target = target,
                                   .numerics = numerics,
                                   .query_scale = query_scale};
    assert_int_equal(qf_run_pipeline(graph, &options, NULL), QF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(state.messages, part));
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* 4 and 44: what cannot run is an error that says what exists; strings go through one strict parser. */
static void fault_44_unknown_names_are_errors(void **unused) {
    (void)unused;
    expect_fault("canonicalise", NULL, NULL, NULL, "unknown pass 'canonicalise'");
    expect_fault("cse,,dce", NULL, NULL, NULL, "unknown pass ''");
    expect_fault("cse{level=3}", NULL, NULL, NULL, "unknown pass option 'level'");
    expect_fault("cse{target}", NULL, NULL, NULL, "expected option=value");
    expect_fault("cse{target=cpu", NULL, NULL, NULL, "missing '}'");
    expect_fault("cse", "sm_90", NULL, NULL, "unknown target 'sm_90'");
    expect_fault("cse", NULL, "fast", NULL, "unknown numerics class 'fast'");
    expect_fault("cse", NULL, NULL, "fp8", "unknown query scale 'fp8'");
}

static void braces_change_one_pass_only(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, small_graph);
    run_passes(graph, " clean , legalize{target=sm_90a, numerics=relaxed} ", NULL);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

typedef struct events {
    char text[256];
} events;

static void record(void *user, qf_pass_event event, const char *pass, const qf_graph *graph, bool changed,
                   double seconds) {
    events *log = user;
    size_t used = strlen(log->text);
    assert_non_null(graph);
    assert_true(seconds >= 0);
    (void)snprintf(log->text + used, sizeof log->text - used, "%s%s%s ", event == QF_PASS_BEFORE ? "<" : ">", pass,
                   changed ? "!" : "");
}

static void observers_see_every_pass(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = graph_of(context, small_graph);
    events log = {""};
    qf_pipeline_options options = {
        .struct_size = sizeof options, .passes = "cse,dce", .observer = record, .observer_user = &log};
    assert_int_equal(qf_run_pipeline(graph, &options, NULL), QF_OK);
    assert_string_equal(log.text, "<cse >cse! <dce >dce ");
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

/* Every allocation of a whole run fails once: a status, the graph as before or rewritten, nothing lost. */
static void failing_allocations_leave_a_valid_graph(void **unused) {
    (void)unused;
    bool succeeded = false;
    for (uint64_t n = 1; !succeeded; n++) {
        check_state state;
        qf_context *context = check_context(&state);
        qf_graph *graph = graph_of(context, small_graph);
        state.fail_at = state.allocations + n;
        qf_pipeline_options options = {.struct_size = sizeof options, .passes = "default"};
        qf_run *run = NULL;
        qf_status status = qf_run_pipeline(graph, &options, &run);
        succeeded = status == QF_OK;
        if (!succeeded) {
            assert_int_equal(status, QF_ERROR_OUT_OF_MEMORY);
            assert_null(run);
        }
        state.fail_at = 0;
        qf_context_clear_status(context);
        assert_int_equal(qf_run_pipeline(graph, &options, NULL), QF_OK);
        assert_int_equal(count_op(graph, QF_OP_add), 1);
        qf_run_destroy(run);
        qf_graph_destroy(graph);
        check_destroy(context, &state);
        assert_true(n < 100000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_44_unknown_names_are_errors),
        cmocka_unit_test(braces_change_one_pass_only),
        cmocka_unit_test(observers_see_every_pass),
        cmocka_unit_test(failing_allocations_leave_a_valid_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
