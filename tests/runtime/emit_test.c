/* Owns: tests of emission: what is refused, what stands for memory, memory that runs out.
 * Does not own: the whole text (golden/emit/), the emitted program's run (tests/emitted/).
 * Next: runtime/emit.h. */
#include "tests/oom.h"
#include "tests/runtime/running.h"

#include <qfuse/emit.h>

#include "kernels/cuda/images.h"
#include "runtime/emit.h"

static const char copies[] =
    "(%x: f32[T, 4], %e: f32[0, 4]) {\n  %k = constant {value=f32[2] [1.0, 2.0]}\n  %y = copy %x\n"
    "  %z = copy %e\n  return %y, %k, %z\n}\n";

static void compile_for(running *r, const char *text, const char *target) {
    running_parse(r, text);
    qf_compile_options options = {.struct_size = sizeof options, .target = target};
    if (qf_compile(r->graph, &options, &r->plan) != QF_OK) fail_msg("%s", r->check.messages);
}

static qf_status emit(running *r, const qf_emit_options *options, qf_buffer *out) {
    *out = (qf_buffer){.context = r->context};
    r->check.messages[0] = '\0';
    return qf_plan_emit_c(r->context, r->plan, options, running_append, out);
}

static void refused(running *r, const qf_emit_options *options, qf_status status, const char *part) {
    qf_buffer out;
    assert_int_equal(emit(r, options, &out), status);
    assert_int_equal(out.size, 0); /* nothing is written then */
    if (!strstr(r->check.messages, part)) fail_msg("\"%s\" lacks \"%s\"", r->check.messages, part);
    qf_buffer_destroy(&out);
}

static void what_cannot_be_emitted_is_refused(void **state) {
    (void)state;
    running r;
    const qf_emit_size size = {"T", 3}, unknown[] = {{"T", 3}, {"Q", 1}}, negative = {"T", -1};
    compile_for(&r, copies, "sm_90a");
    refused(&r, NULL, QF_ERROR_INVALID_ARGUMENT, "T has none");
    refused(&r, &(qf_emit_options){sizeof(qf_emit_options), .sizes = unknown, .size_count = 2},
            QF_ERROR_INVALID_ARGUMENT, "no size named Q");
    refused(&r, &(qf_emit_options){sizeof(qf_emit_options), .sizes = &negative, .size_count = 1},
            QF_ERROR_INVALID_ARGUMENT, "negative");
    refused(&r, &(qf_emit_options){sizeof(qf_emit_options), .name = "a b", .sizes = &size, .size_count = 1},
            QF_ERROR_INVALID_ARGUMENT, "identifier");
    refused(&r,
            &(qf_emit_options){sizeof(qf_emit_options), .sizes = &size, .size_count = 1, .processor_count = 1u << 31},
            QF_ERROR_INVALID_ARGUMENT, "options.processor_count is 2147483648");
    running_close(&r);
    compile_for(&r, copies, "cpu");
    refused(&r, &(qf_emit_options){sizeof(qf_emit_options), .sizes = &size, .size_count = 1}, QF_ERROR_INVALID_ARGUMENT,
            "cpu has no launches");
    running_close(&r);
}

/* Copies, constants and an empty tensor need no kernel; the name is the prefix. */
static void copies_are_emitted(void **state) {
    (void)state;
    running r;
    qf_buffer out;
    const qf_emit_size size = {"T", 3};
    compile_for(&r, copies, "sm_80");
    qf_emit_options options = {.struct_size = sizeof options, .name = "step", .sizes = &size, .size_count = 1};
    if (emit(&r, &options, &out) != QF_OK) fail_msg("%s", r.check.messages);
    assert_non_null(strstr(out.data, "int step_run("));
    assert_non_null(strstr(out.data, "x: f32[3, 4], 48 bytes"));
    assert_non_null(strstr(out.data, "for 108 multiprocessors"));
    /* y from x; bases: inputs 0 and 1, outputs 2 to 4, the workspace 5. */
    assert_non_null(strstr(out.data, "{2, 0u}, {0, 0u}, 48}"));
    assert_non_null(strstr(out.data, "{3, 0u}, {5, "));
    assert_null(strstr(out.data, "7A51")); /* no stand-in is left */
    qf_buffer_destroy(&out);
    running_close(&r);
}

/* A launch is emitted with its image where the library has one, and refused with the reason where it has none. */
static void kernels_come_with_their_images(void **state) {
    (void)state;
    running r;
    qf_buffer out;
    compile_for(&r, "(%x: f32[5, 4]) {\n  %y = neg %x\n  return %y\n}\n", "sm_90a");
    if (qf_cuda_image_count) {
        if (emit(&r, NULL, &out) != QF_OK) fail_msg("%s", r.check.messages);
        assert_non_null(strstr(out.data, "image"));
        assert_non_null(strstr(out.data, "relocations0"));
        qf_buffer_destroy(&out);
    } else
        refused(&r, NULL, QF_ERROR_DEVICE, "built without nvcc");
    running_close(&r);
}

static void append_to_nothing(void *user, const char *data, size_t size) {
    (void)data;
    *(size_t *)user += size;
}

static bool emit_once(qf_context *context, void *user) {
    (void)user;
    static const char text[] = "graph @g(%x: f32[T, 4]) {\n  %y = copy %x\n  return %y\n}\n";
    const qf_emit_size size = {"T", 3};
    qf_emit_options options = {.struct_size = sizeof options, .sizes = &size, .size_count = 1};
    qf_compile_options compile = {.struct_size = sizeof compile, .target = "sm_90a"};
    size_t written = 0;
    qf_plan *plan = NULL;
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "test.qf");
    bool done = graph && qf_compile(graph, &compile, &plan) == QF_OK &&
                qf_plan_emit_c(context, plan, &options, append_to_nothing, &written) == QF_OK;
    assert_true(done || written == 0);
    qf_plan_destroy(plan);
    qf_graph_destroy(graph);
    return done;
}

static void memory_may_run_out(void **state) {
    (void)state;
    oom_sweep(emit_once, NULL, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_emitted_is_refused),
        cmocka_unit_test(copies_are_emitted),
        cmocka_unit_test(kernels_come_with_their_images),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
