/* Owns: helpers of plan and run-time tests: text to plan to executor, tensors on the stack, dumps in memory.
 * Does not own: contexts and leak checks (tests/check.h).
 * Next: executor_test.c. */
#ifndef QF_TESTS_RUNTIME_RUNNING_H
#define QF_TESTS_RUNTIME_RUNNING_H

#include "tests/check.h"

#include <qfuse/codegen.h>
#include <qfuse/runtime.h>

#include "ir/text.h"
#include "plan/plan.h"

typedef struct running {
    check_state check;
    qf_context *context;
    qf_graph *graph;
    qf_plan *plan;
    qf_executor *executor;
} running;

/* `text`: a graph from its inputs on: "(%x: f32[4]) {\n ... }". */
static inline void running_parse(running *r, const char *text) {
    memset(r, 0, sizeof *r);
    r->context = check_context(&r->check);
    qf_buffer buffer = {.context = r->context};
    qf_buffer_print(&buffer, "graph @g%s", text);
    r->graph = qf_graph_parse(r->context, (qf_text){buffer.data, buffer.size}, "test.qf");
    if (!r->graph) fail_msg("%s", r->check.messages);
    qf_buffer_destroy(&buffer);
}

static inline void running_compile(running *r, const char *text) {
    running_parse(r, text);
    if (qf_compile(r->graph, NULL, &r->plan) != QF_OK) fail_msg("%s", r->check.messages);
}

static inline void running_open(running *r, const char *text, const qf_executor_options *options) {
    running_compile(r, text);
    if (qf_executor_create(r->context, r->plan, options, &r->executor) != QF_OK) fail_msg("%s", r->check.messages);
}

static inline void running_close(running *r) {
    qf_executor_destroy(r->executor);
    qf_plan_destroy(r->plan);
    qf_graph_destroy(r->graph);
    check_destroy(r->context, &r->check);
}

#define TENSOR(dtype_, data_, ...)                                                                                     \
    ((qf_tensor){.dtype = (dtype_),                                                                                    \
                 .rank = sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1,                                    \
                 .dims = {__VA_ARGS__},                                                                                \
                 .data = (data_)})
#define SCALAR(dtype_, data_) ((qf_tensor){.dtype = (dtype_), .data = (data_)})

static inline void running_bind(running *r, const char *name, qf_tensor tensor) {
    int32_t index = qf_plan_find_input(r->plan, name);
    if (index < 0) fail_msg("no input %s", name);
    if (qf_executor_bind_input(r->executor, (uint32_t)index, &tensor) != QF_OK) fail_msg("%s", r->check.messages);
}

static inline void running_run(running *r) {
    if (qf_executor_run(r->executor) != QF_OK) fail_msg("%s", r->check.messages);
}

/* The run fails with this status and a message that holds `part`. */
static inline void running_refused(running *r, qf_status status, const char *part) {
    r->check.messages[0] = '\0';
    assert_int_equal(qf_executor_run(r->executor), status);
    if (!strstr(r->check.messages, part)) fail_msg("\"%s\" lacks \"%s\"", r->check.messages, part);
}

static inline qf_tensor running_output(running *r, uint32_t index) {
    qf_tensor tensor;
    if (qf_executor_output(r->executor, index, &tensor) != QF_OK) fail_msg("%s", r->check.messages);
    return tensor;
}

static inline void running_expect(running *r, uint32_t index, const float *expected, uint32_t count) {
    qf_tensor tensor = running_output(r, index);
    assert_int_equal(qf_tensor_bytes(&tensor), count * sizeof(float));
    for (uint32_t i = 0; i < count; i++)
        if (((const float *)tensor.data)[i] != expected[i])
            fail_msg("element %u is %g, expected %g", i, (double)((const float *)tensor.data)[i], (double)expected[i]);
}

static inline void running_append(void *user, const char *data, size_t size) {
    qf_buffer_append(user, data, size);
}

/* The dump; the caller destroys it. */
static inline qf_buffer running_dump(running *r) {
    qf_buffer dump = {.context = r->context};
    assert_int_equal(qf_plan_print(r->context, r->plan, running_append, &dump), QF_OK);
    return dump;
}

static inline void running_dump_has(running *r, const char *part) {
    qf_buffer dump = running_dump(r);
    if (!strstr(dump.data, part)) fail_msg("the dump lacks \"%s\":\n%s", part, dump.data);
    qf_buffer_destroy(&dump);
}

static inline void running_dump_lacks(running *r, const char *part) {
    qf_buffer dump = running_dump(r);
    if (strstr(dump.data, part)) fail_msg("the dump has \"%s\":\n%s", part, dump.data);
    qf_buffer_destroy(&dump);
}

/* Makes a plan again and again, its first allocation failing, then its second, ..., until it succeeds. Failures leave a
 * status and no plan, and the plan in the end is the one that is there already, if any. */
static inline void running_sweep(running *r, qf_status (*make)(running *r, void *user, qf_plan **out_plan),
                                 void *user) {
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        qf_plan *plan = NULL;
        r->check.fail_at = r->check.allocations + n;
        qf_status status = make(r, user, &plan);
        fired = r->check.allocations >= r->check.fail_at;
        r->check.fail_at = 0;
        qf_context_clear_status(r->context);
        assert_int_equal(status, fired ? QF_ERROR_OUT_OF_MEMORY : QF_OK);
        assert_int_equal(plan == NULL, fired);
        if (plan && r->plan) {
            qf_buffer expected = running_dump(r), found = {.context = r->context};
            assert_int_equal(qf_plan_print(r->context, plan, running_append, &found), QF_OK);
            assert_string_equal(found.data, expected.data);
            qf_buffer_destroy(&expected);
            qf_buffer_destroy(&found);
        }
        qf_plan_destroy(plan);
    }
}

#endif
