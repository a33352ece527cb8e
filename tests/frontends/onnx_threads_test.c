/* Owns: a model read, rewritten and explained in several threads at a time, each with a context of its own.
 * Does not own: plans that threads share (tests/runtime/threads_test.c).
 * Next: docs/abi.md. */
#include "tests/check.h"

#include <pthread.h>
#include <qfuse/codegen.h>
#include <qfuse/graph.h>
#include <qfuse/onnx.h>
#include <qfuse/pass.h>

#define THREADS 4
#define MODEL   QF_SOURCE_DIR "/examples/llama_fp8_kv/model.onnx"

typedef struct work {
    uint64_t text; /* of the rewritten graph */
    qf_run_counts counts;
    bool ok;
} work;

static void *compile_model(void *user) {
    work *job = user;
    qf_context *context = NULL;
    qf_graph *graph = NULL;
    qf_run *run = NULL;
    qf_plan *plan = NULL;
    char *text = NULL;
    size_t size = 0;
    qf_pipeline_options options = {.struct_size = sizeof options, .passes = "serving", .target = "sm_90a"};
    qf_compile_options target = {.struct_size = sizeof target, .target = "sm_90a"};
    job->counts.struct_size = sizeof job->counts;
    job->ok = qf_context_create(NULL, &context) == QF_OK &&
              qf_onnx_import_file(context, MODEL, NULL, &graph) == QF_OK &&
              qf_run_pipeline(graph, &options, &run) == QF_OK && qf_compile(graph, &target, &plan) == QF_OK &&
              qf_graph_to_text(graph, &text, &size) == QF_OK;
    if (job->ok) {
        job->text = qf_hash_bytes(text, size, 0);
        qf_run_get_counts(run, &job->counts);
    }
    qf_text_destroy(context, text);
    qf_plan_destroy(plan);
    qf_run_destroy(run);
    qf_graph_destroy(graph);
    qf_context_destroy(context);
    return NULL;
}

static void models_side_by_side(void **unused) {
    (void)unused;
    static work jobs[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, compile_model, &jobs[i]), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_true(jobs[i].ok);
        assert_true(jobs[i].text == jobs[0].text);
        assert_int_equal(jobs[i].counts.fused_fp8_out, 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_side_by_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
