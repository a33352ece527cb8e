/* Owns: the promise about threads: contexts side by side, and executors of one plan side by side.
 * Does not own: kernels that use threads themselves (tests/kernels).
 * Next: docs/abi.md. */
#include "tests/check.h"

#include <pthread.h>
#include <qfuse/codegen.h>
#include <qfuse/pass.h>
#include <qfuse/runtime.h>

#include "ir/text.h"

#define THREADS 4
#define ROUNDS  8
#define TOKENS  6

static const char text[] = "graph @g(%q: f32[1, 4, T, 8], %k: f32[1, 2, T, 8], %s: f32[]) {\n"
                           "  %a = attention %q, %k, %k {scale=0.5, causal=true}\n"
                           "  %y = quantize %a, %s {dtype=f8E4M3FN}\n"
                           "  %d = dequantize %y, %s {dtype=f32}\n"
                           "  return %d\n}\n";

typedef struct work {
    const qf_plan *plan; /* shared; NULL: makes its own */
    uint64_t read;       /* a hash of all that can be read of the plan */
    float output[4 * TOKENS * 8];
    bool ok;
} work;

static bool run_plan(qf_context *context, const qf_plan *plan, float *out) {
    float q[4 * TOKENS * 8], k[2 * TOKENS * 8], scale = 0.25f;
    for (int i = 0; i < 4 * TOKENS * 8; i++) q[i] = (float)(i % 13) * 0.125f - 0.5f;
    for (int i = 0; i < 2 * TOKENS * 8; i++) k[i] = (float)(i % 7) * 0.25f - 0.75f;
    const qf_tensor inputs[] = {{.data = q, .dtype = QF_F32, .rank = 4, .dims = {1, 4, TOKENS, 8}},
                                {.data = k, .dtype = QF_F32, .rank = 4, .dims = {1, 2, TOKENS, 8}},
                                {.data = &scale, .dtype = QF_F32}};
    qf_executor_options options = {.struct_size = sizeof options, .thread_count = 2};
    qf_executor *executor = NULL;
    qf_tensor result;
    bool ok = qf_executor_create(context, plan, &options, &executor) == QF_OK;
    for (uint32_t i = 0; ok && i < QF_COUNT_OF(inputs); i++)
        ok = qf_executor_bind_input(executor, i, &inputs[i]) == QF_OK;
    for (int round = 0; ok && round < ROUNDS; round++) ok = qf_executor_run(executor) == QF_OK;
    ok = ok && qf_executor_output(executor, 0, &result) == QF_OK &&
         qf_tensor_bytes(&result) == sizeof(float[4 * TOKENS * 8]);
    if (ok) memcpy(out, result.data, sizeof(float[4 * TOKENS * 8]));
    qf_executor_destroy(executor);
    return ok;
}

static qf_plan *make_plan(qf_context *context) {
    qf_plan *plan = NULL;
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "threads");
    if (graph && qf_run_pipeline(graph, NULL, NULL) == QF_OK && qf_compile(graph, NULL, &plan) != QF_OK) plan = NULL;
    qf_graph_destroy(graph);
    return plan;
}

static void add_to_hash(void *user, const char *data, size_t size) {
    uint64_t *hash = user;
    *hash = qf_hash_bytes(data, size, *hash);
}

static bool read_plan(qf_context *context, const qf_plan *plan, uint64_t *hash) {
    qf_plan_tensor_info tensor;
    qf_plan_step_info step;
    bool ok = qf_plan_print(context, plan, add_to_hash, hash) == QF_OK &&
              qf_plan_to_bytes(context, plan, add_to_hash, hash) == QF_OK;
    for (uint32_t i = 0; ok && i < qf_plan_input_count(plan); i++)
        ok = qf_plan_input(plan, i, &tensor) && qf_plan_find_input(plan, tensor.name) == (int32_t)i;
    for (uint32_t i = 0; ok && i < qf_plan_output_count(plan); i++)
        ok = qf_plan_output(plan, i, &tensor) && qf_plan_find_output(plan, tensor.name) == (int32_t)i;
    for (uint32_t i = 0; ok && i < qf_plan_step_count(plan); i++) ok = qf_plan_step(plan, i, &step);
    return ok && qf_plan_symbol_count(plan) == 1 && strcmp(qf_plan_symbol(plan, 0), "T") == 0;
}

/* What any thread may ask. */
static bool read_tables(void) {
    return *qf_version() && *qf_pass_list() && *qf_pipeline_list() && *qf_status_name(QF_ERROR_IO) &&
           *qf_op_name(QF_OP_attention) && qf_dtype_from_name(qf_dtype_name(QF_F8E5M2)) == QF_F8E5M2;
}

static void *run_work(void *user) {
    work *job = user;
    qf_context *context = NULL;
    if (qf_context_create(NULL, &context) != QF_OK) return NULL;
    qf_plan *own = job->plan ? NULL : make_plan(context);
    const qf_plan *plan = job->plan ? job->plan : own;
    job->ok = plan && read_tables() && read_plan(context, plan, &job->read) && run_plan(context, plan, job->output);
    qf_plan_destroy(own);
    qf_context_destroy(context);
    return NULL;
}

static void side_by_side(const qf_plan *plan) {
    static work jobs[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (work){.plan = plan};
        assert_int_equal(pthread_create(&threads[i], NULL, run_work, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_true(jobs[i].ok);
        assert_true(jobs[i].read == jobs[0].read);
        assert_memory_equal(jobs[i].output, jobs[0].output, sizeof jobs[0].output);
    }
    assert_true(jobs[0].output[8] != 0.0f);
}

static void contexts_side_by_side(void **unused) {
    (void)unused;
    side_by_side(NULL);
}

static void executors_of_one_plan(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_plan *plan = make_plan(context);
    assert_non_null(plan);
    side_by_side(plan);
    qf_plan_destroy(plan);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(contexts_side_by_side),
                                       cmocka_unit_test(executors_of_one_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
