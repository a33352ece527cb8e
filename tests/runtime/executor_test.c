/* Owns: tests of running plans: sizes, guards, in-place caches, scales that change, weights, threads, memory.
 * Does not own: lowering (tests/codegen), plan files (tests/plan), kernels (tests/kernels).
 * Next: runtime/executor.c. */
#include "tests/runtime/running.h"

#include <pthread.h>

static void lengths_change_between_runs(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%x: f32[T, 2], %y: f32[2]) {\n  %a = add %x, %y\n  %b = reduce_sum %a {axes=[0], keep=false}\n  "
                 "return %b\n}\n",
                 NULL);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[2] = {10, 20};
    running_bind(&r, "y", TENSOR(QF_F32, y, 2));
    for (int64_t rows = 1; rows <= 4; rows++) {
        running_bind(&r, "x", TENSOR(QF_F32, x, rows, 2));
        running_run(&r);
        float expected[2] = {0, 0};
        for (int64_t i = 0; i < rows; i++) expected[0] += x[2 * i] + y[0], expected[1] += x[2 * i + 1] + y[1];
        running_expect(&r, 0, expected, 2);
    }
    running_bind(&r, "x", TENSOR(QF_F32, NULL, 0, 2));
    running_run(&r);
    running_expect(&r, 0, (float[]){0, 0}, 2);
    running_close(&r);
}

/* After the first run at the largest sizes nothing is allocated. */
static void running_allocates_nothing(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[T, 4]) {\n  %a = exp %x\n  %b = softmax %a {axis=1}\n  %c = neg %b\n  return %c\n}\n",
                 NULL);
    float x[32] = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 8, 4));
    running_run(&r);
    uint64_t allocations = r.check.allocations;
    for (int64_t rows = 1; rows <= 8; rows++) {
        running_bind(&r, "x", TENSOR(QF_F32, x, rows, 4));
        running_run(&r);
        running_run(&r);
    }
    assert_int_equal(r.check.allocations, allocations);
    qf_executor_memory memory = {.struct_size = sizeof memory};
    qf_executor_memory_use(r.executor, &memory);
    assert_true(memory.workspace_bytes > 0 && memory.unshared_bytes > 0);
    running_close(&r);
}

static void missing_and_wrong_bindings_are_named(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%ids: i64[T], %mask: f32[T, S]) {\n  %a = exp %mask\n  return %a, %ids\n}\n", NULL);
    int64_t ids[4] = {0};
    float mask[16] = {0};
    running_bind(&r, "ids", TENSOR(QF_I64, ids, 4));
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "input 1 \"mask\" is not bound");
    running_bind(&r, "mask", TENSOR(QF_F32, mask, 3, 2));
    running_refused(&r, QF_ERROR_GUARD, "input \"mask\" axis 0 is 3, expected T = 4 (T from input \"ids\", axis 0)");
    qf_tensor wrong = TENSOR(QF_F16, mask, 4, 2);
    assert_int_equal(qf_executor_bind_input(r.executor, 1, &wrong), QF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(r.check.messages, "expected f32 of rank 2, found f16 of rank 2"));
    wrong = TENSOR(QF_F32, (char *)mask + 1, 3, 2);
    assert_int_equal(qf_executor_bind_input(r.executor, 1, &wrong), QF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(qf_executor_bind_input(r.executor, 7, &wrong), QF_ERROR_INVALID_ARGUMENT);
    running_bind(&r, "mask", TENSOR(QF_F32, mask, 4, 2));
    running_run(&r);
    running_close(&r);
}

/* A mask whose length was frozen at export: the assumed equality is a guard, and a run with another length names both
 * sizes. */
static void fault_66_mask_frozen_at_export(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%scores: f32[B, T, S], %mask: f32[16, 16]) {\n  %y = add %scores, %mask\n  return %y\n}\n",
                 NULL);
    float scores[512] = {0}, mask[256] = {0};
    running_dump_has(&r, "guard ");
    running_bind(&r, "mask", TENSOR(QF_F32, mask, 16, 16));
    running_bind(&r, "scores", TENSOR(QF_F32, scores, 2, 16, 16));
    running_run(&r);
    running_bind(&r, "scores", TENSOR(QF_F32, scores, 1, 16, 12));
    r.check.messages[0] = '\0';
    assert_int_equal(qf_executor_run(r.executor), QF_ERROR_GUARD);
    assert_non_null(strstr(r.check.messages, "S"));
    assert_non_null(strstr(r.check.messages, "16"));
    assert_non_null(strstr(r.check.messages, "12"));
    running_close(&r);
}

static void facts_are_checked_at_launch(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[T]) symbols(T min 4 max 64 div 4) {\n  %y = neg %x\n  return %y\n}\n", NULL);
    float x[128] = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 6));
    running_refused(&r, QF_ERROR_GUARD, "T is 6 (input \"x\", axis 0), expected a multiple of 4");
    running_bind(&r, "x", TENSOR(QF_F32, x, 128));
    running_refused(&r, QF_ERROR_GUARD, "at most 64");
    running_bind(&r, "x", TENSOR(QF_F32, x, 0));
    running_refused(&r, QF_ERROR_GUARD, "at least 4");
    running_bind(&r, "x", TENSOR(QF_F32, x, 8));
    running_run(&r);
    running_close(&r);
}

static void an_opaque_op_is_named_before_anything_runs(void **state) {
    (void)state;
    running r;
    running_open(
        &r,
        "(%x: f32[4]) {\n  %a = neg %x\n  %y = opaque %a {name=\"vendor.op\", pure=true} : f32[4]\n  return %y\n}\n",
        NULL);
    float x[4] = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 4));
    running_refused(&r, QF_ERROR_UNSUPPORTED, "test.qf:3:3: step 1 (vendor.op) cannot run: the op is opaque");
    running_close(&r);
}

/* Values of unknown shape and effect tokens compile, write and read back; running names the first step that cannot run.
 */
static void unknown_shapes_and_tokens_compile(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%x: f32[*], %t0: token) {\n  %y, %t = opaque %x, %t0 {name=\"vendor.op\"} : f32[*], token\n  %z = "
                 "neg %y\n  return %z, %t\n}\n",
                 NULL);
    float x[4] = {0};
    qf_tensor tensor = TENSOR(QF_F32, x, 4);
    qf_plan_tensor_info info;
    assert_true(qf_plan_input(r.plan, 0, &info));
    assert_true(info.rank == UINT32_MAX);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &tensor), QF_ERROR_UNSUPPORTED);
    running_refused(&r, QF_ERROR_UNSUPPORTED, "step 0 (vendor.op) cannot run: the op is opaque");
    qf_buffer bytes = {.context = r.context};
    qf_plan *read = NULL;
    assert_int_equal(qf_plan_to_bytes(r.context, r.plan, running_append, &bytes), QF_OK);
    assert_int_equal(qf_plan_from_bytes(r.context, bytes.data, bytes.size, &read), QF_OK);
    qf_plan_destroy(read);
    qf_buffer_destroy(&bytes);
    running_close(&r);
}

/* --- caches --- */

static const char cache_graph[] = "(%cache: f32[2, 2, 1, 2], %new: f32[R, 1, 2], %slots: i64[R]) {\n"
                                  "  %out = kv_cache_write %cache, %new, %slots\n"
                                  "  %y = neg %out\n"
                                  "  return %out, %y\n}\n";

static void check_cache_run(running *r) {
    float rows[4] = {10, 11, 12, 13};
    int64_t slots[2] = {2, -1};
    running_bind(r, "new", TENSOR(QF_F32, rows, 2, 1, 2));
    running_bind(r, "slots", TENSOR(QF_I64, slots, 2));
    running_run(r);
    running_expect(r, 0, (float[]){0, 1, 2, 3, 10, 11, 6, 7}, 8);
    running_expect(r, 1, (float[]){-0.0f, -1, -2, -3, -10, -11, -6, -7}, 8);
}

static void a_cache_is_updated_where_it_lies(void **state) {
    (void)state;
    running r;
    running_open(&r, cache_graph, NULL);
    float cache[8] = {0, 1, 2, 3, 4, 5, 6, 7}, untouched[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    qf_tensor tensor = TENSOR(QF_F32, cache, 2, 2, 1, 2);
    running_bind(&r, "cache", tensor);
    check_cache_run(&r); /* the executor's own output: the input keeps its bytes */
    assert_memory_equal(cache, untouched, sizeof cache);
    assert_int_equal(qf_executor_bind_output(r.executor, 0, &tensor), QF_OK);
    check_cache_run(&r);
    assert_true(cache[4] == 10 && cache[5] == 11 && cache[6] == 6);
    running_close(&r);
}

/* A part of the input's memory, or an output that does not update it, is refused. */
static void other_overlaps_are_refused(void **state) {
    (void)state;
    running r;
    running_open(&r, cache_graph, NULL);
    float memory[16] = {0}, rows[2] = {0};
    int64_t slots[1] = {0};
    running_bind(&r, "cache", TENSOR(QF_F32, memory, 2, 2, 1, 2));
    running_bind(&r, "new", TENSOR(QF_F32, rows, 1, 1, 2));
    running_bind(&r, "slots", TENSOR(QF_I64, slots, 1));
    qf_tensor shifted = TENSOR(QF_F32, memory + 2, 2, 2, 1, 2), whole = TENSOR(QF_F32, memory, 2, 2, 1, 2);
    assert_int_equal(qf_executor_bind_output(r.executor, 0, &shifted), QF_OK);
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "the two are not the same bytes");
    assert_int_equal(qf_executor_bind_output(r.executor, 0, NULL), QF_OK);
    assert_int_equal(qf_executor_bind_output(r.executor, 1, &whole), QF_OK);
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "output 1 \"y\" lies in the memory of input 0 \"cache\"");
    running_close(&r);
}

/* Where an older version of the cache is read later, both versions are right. */
static void older_versions_stay_readable(void **state) {
    (void)state;
    running r;
    running_open(&r,
                 "(%cache: f32[2, 2, 1, 2], %new: f32[R, 1, 2], %slots: i64[R]) {\n"
                 "  %c0 = neg %cache\n"
                 "  %c1 = kv_cache_write %c0, %new, %slots\n"
                 "  %c2 = kv_cache_write %c1, %new, %slots\n"
                 "  %old = neg %c0\n"
                 "  return %c2, %old, %c1\n}\n",
                 NULL);
    float cache[8] = {0, 1, 2, 3, 4, 5, 6, 7}, rows[2] = {9, 8};
    int64_t slots[1] = {3};
    running_bind(&r, "cache", TENSOR(QF_F32, cache, 2, 2, 1, 2));
    running_bind(&r, "new", TENSOR(QF_F32, rows, 1, 1, 2));
    running_bind(&r, "slots", TENSOR(QF_I64, slots, 1));
    running_run(&r);
    running_expect(&r, 0, (float[]){-0.0f, -1, -2, -3, -4, -5, 9, 8}, 8);
    running_expect(&r, 1, cache, 8);
    running_expect(&r, 2, (float[]){-0.0f, -1, -2, -3, -4, -5, 9, 8}, 8);
    running_dump_has(&r, "copied: the old version is read by a later step");
    running_close(&r);
}

/* --- threads --- */

typedef struct worker {
    const qf_plan *plan;
    int64_t rows;
    bool right;
} worker;

static void *work(void *argument) {
    worker *self = argument;
    check_state check;
    memset(&check, 0, sizeof check);
    qf_context *context = NULL;
    qf_executor *executor = NULL;
    if (qf_context_create(NULL, &context) != QF_OK || qf_executor_create(context, self->plan, NULL, &executor) != QF_OK)
        return NULL;
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = (float)(i + self->rows);
    self->right = true;
    for (int i = 0; i < 200 && self->right; i++) {
        qf_tensor in = TENSOR(QF_F32, x, self->rows, 4), out;
        self->right = qf_executor_bind_input(executor, 0, &in) == QF_OK && qf_executor_run(executor) == QF_OK &&
                      qf_executor_output(executor, 0, &out) == QF_OK;
        for (int64_t j = 0; self->right && j < self->rows * 4; j++)
            self->right = ((float *)out.data)[j] == x[j] * 2 + 1;
    }
    qf_executor_destroy(executor);
    qf_context_destroy(context);
    return NULL;
}

static void two_threads_share_a_plan(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[T, 4]) {\n  %two = constant {value=f32[] 2.0}\n  %one = constant {value=f32[] 1.0}\n"
                        "  %a = mul %x, %two\n  %y = add %a, %one\n  return %y\n}\n");
    worker workers[2] = {{r.plan, 3, false}, {r.plan, 16, false}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(workers[0].right && workers[1].right);
    running_close(&r);
}

/* --- the rest --- */

typedef struct seen {
    uint32_t steps, operands, results;
} seen;

static qf_status count_step(void *user, uint32_t step, const qf_tensor *operands, uint32_t operand_count,
                            const qf_tensor *results, uint32_t result_count) {
    seen *counts = user;
    (void)step;
    counts->steps++;
    for (uint32_t i = 0; i < operand_count; i++) counts->operands += operands[i].data != NULL;
    for (uint32_t i = 0; i < result_count; i++) counts->results += results[i].data != NULL;
    return QF_OK;
}

static void observers_see_every_step(void **state) {
    (void)state;
    running r;
    qf_executor_options options = {.struct_size = sizeof options, .time_steps = true, .thread_count = 2};
    running_open(&r,
                 "(%x: f32[64, 64], %c: f32[]) {\n  %a = exp %x\n  %b = clamp %a, high=%c\n  %d = softmax %b "
                 "{axis=1}\n  return %d\n}\n",
                 &options);
    static float x[4096];
    float high = 2;
    seen counts = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 64, 64));
    running_bind(&r, "c", SCALAR(QF_F32, &high));
    qf_executor_observe(r.executor, count_step, &counts);
    running_run(&r);
    assert_int_equal(counts.steps, 3);
    assert_int_equal(counts.operands, 4); /* low is absent */
    assert_int_equal(counts.results, 3);
    assert_true(qf_executor_step_time(r.executor, 0) > 0 && qf_executor_step_time(r.executor, 2) > 0);
    running_close(&r);
}

static void sizes_that_no_input_has_come_from_the_host(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: f32[]) {\n  %y = full %x {shape=[N]}\n  return %y\n}\n", NULL);
    float x = 3;
    running_bind(&r, "x", SCALAR(QF_F32, &x));
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "no input's shape determines the size N");
    assert_int_equal(qf_executor_bind_symbol(r.executor, "N", 2), QF_OK);
    running_run(&r);
    running_expect(&r, 0, (float[]){3, 3}, 2);
    assert_int_equal(qf_executor_bind_symbol(r.executor, "N", -1), QF_OK);
    running_refused(&r, QF_ERROR_GUARD, "N is -1");
    assert_int_equal(qf_executor_bind_symbol(r.executor, "M", 1), QF_ERROR_NOT_FOUND);
    running_close(&r);
}

/* Every allocation of making and running an executor fails once. */
static void fails_at_every_allocation(void **state) {
    (void)state;
    running r;
    running_compile(&r, "(%x: f32[T, 8]) {\n  %a = exp %x\n  %b = softmax %a {axis=1}\n  %c = contract %b, %x "
                        "{equation=\"td,sd->ts\"}\n  return %c\n}\n");
    float x[24] = {0};
    qf_tensor in = TENSOR(QF_F32, x, 3, 8);
    for (uint64_t n = 1;; n++) {
        r.check.fail_at = r.check.allocations + n;
        qf_executor *executor = NULL;
        qf_status status = qf_executor_create(r.context, r.plan, NULL, &executor);
        if (status == QF_OK) status = qf_executor_bind_input(executor, 0, &in);
        if (status == QF_OK) status = qf_executor_run(executor);
        bool fired = r.check.allocations >= r.check.fail_at;
        r.check.fail_at = 0;
        qf_context_clear_status(r.context);
        if (executor && fired) assert_int_equal(qf_executor_run(executor), QF_OK); /* usable again */
        qf_executor_destroy(executor);
        assert_int_equal(status, fired ? QF_ERROR_OUT_OF_MEMORY : QF_OK);
        if (!fired) break;
    }
    running_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths_change_between_runs),
                                       cmocka_unit_test(running_allocates_nothing),
                                       cmocka_unit_test(missing_and_wrong_bindings_are_named),
                                       cmocka_unit_test(fault_66_mask_frozen_at_export),
                                       cmocka_unit_test(facts_are_checked_at_launch),
                                       cmocka_unit_test(an_opaque_op_is_named_before_anything_runs),
                                       cmocka_unit_test(unknown_shapes_and_tokens_compile),
                                       cmocka_unit_test(a_cache_is_updated_where_it_lies),
                                       cmocka_unit_test(other_overlaps_are_refused),
                                       cmocka_unit_test(older_versions_stay_readable),
                                       cmocka_unit_test(two_threads_share_a_plan),
                                       cmocka_unit_test(observers_see_every_step),
                                       cmocka_unit_test(sizes_that_no_input_has_come_from_the_host),
                                       cmocka_unit_test(fails_at_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
