/* Owns: tests of devices/cuda.c and cuda/ on a driver without a GPU: opening, refusals, copies, capture, failing calls.
 * Does not own: kernels on a GPU (tests/gpu).
 * Next: fake_driver/fake_driver.h. */
#include <dlfcn.h>
#include <pthread.h>

#include <qfuse/device.h>

#include "tests/fake_driver/fake_driver.h"
#include "tests/runtime/scale_counts.h"

static qf_fake_reset_function reset;

#define DEVICE_TENSOR(dtype_, data_, ...)                                                                              \
    ((qf_tensor){.dtype = (dtype_),                                                                                    \
                 .rank = sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1,                                    \
                 .dims = {__VA_ARGS__},                                                                                \
                 .data = (data_),                                                                                      \
                 .device_type = QF_DL_CUDA})

static void compile_for(running *r, const char *target) {
    running_parse(r, "(%x: f32[T, 2]) {\n  return %x\n}\n");
    qf_compile_options options = {.struct_size = sizeof options, .target = target};
    if (qf_compile(r->graph, &options, &r->plan) != QF_OK) fail_msg("%s", r->check.messages);
}

static qf_status open_executor(running *r, void *stream) {
    qf_executor_options options = {.struct_size = sizeof options, .stream = stream, .time_steps = true};
    return qf_executor_create(r->context, r->plan, &options, &r->executor);
}

static void expect_message(const running *r, const char *part) {
    if (!strstr(r->check.messages, part)) fail_msg("\"%s\" is not in \"%s\"", part, r->check.messages);
}

static void a_device_says_what_it_is(void **state) {
    (void)state;
    qf_fake_state *fake = reset();
    check_state check;
    qf_context *context = check_context(&check);
    qf_device *device;
    assert_int_equal(qf_device_open(context, "cuda", NULL, &device), QF_OK);
    qf_device_info info = {.struct_size = sizeof info};
    qf_device_describe(device, &info);
    assert_string_equal(info.name, "fake GPU");
    assert_string_equal(info.target, "sm_90a");
    assert_int_equal(info.device_type, QF_DL_CUDA);
    char text[6] = "hello", back[6] = "";
    void *memory = qf_device_allocate(device, sizeof text);
    assert_int_equal(qf_device_upload(device, memory, text, sizeof text), QF_OK);
    assert_int_equal(qf_device_download(device, back, memory, sizeof back), QF_OK);
    assert_string_equal(back, "hello");
    qf_device_release(device, memory, sizeof text);
    qf_device_mark(device, 0);
    qf_device_mark(device, 1);
    assert_int_equal(qf_device_elapsed(device, 0, 1), 250000);
    assert_int_equal(qf_device_elapsed(device, 0, 7), 0);
    qf_device_close(device);
    assert_int_equal(qf_device_open(context, "cpu", NULL, &device), QF_OK);
    qf_device_mark(device, 1);
    assert_int_equal(qf_device_elapsed(device, 0, 1), 0);
    qf_device_mark(device, 0);
    assert_int_equal(qf_device_elapsed(device, 0, 1), 0);
    assert_true(qf_device_elapsed(device, 1, 0) < UINT64_C(1000000000) * 3600);
    qf_device_close(device);
    assert_int_equal(qf_device_open(context, "tpu", NULL, &device), QF_ERROR_NOT_FOUND);
    assert_non_null(strstr(check.messages, "no device is named \"tpu\""));
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->context_depth, 0);
    check_destroy(context, &check);
}

static void another_gpu_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        int capability, count;
        const char *target, *message;
    } cases[] = {
        {80, 1, "sm_90a", "the plan is for sm_90a, GPU 0 has compute capability 8.0; compile the graph for sm_80"},
        {89, 1, "sm_90a", "compile the graph for sm_89"},
        {100, 1, "sm_90a", "compile the graph for sm_100a"},
        {75, 1, "sm_80", "compile the graph for another target"},
        {90, 0, "sm_90a", "it has no GPU"},
        {90, -1, "sm_90a", "initialising the NVIDIA driver"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        running r;
        qf_fake_state *fake = reset();
        compile_for(&r, cases[i].target);
        fake->capability = cases[i].capability;
        fake->device_count = cases[i].count;
        assert_int_equal(open_executor(&r, NULL), QF_ERROR_DEVICE);
        expect_message(&r, cases[i].message);
        assert_int_equal(fake->live, 0);
        running_close(&r);
    }
}

static void a_card_without_processors_is_refused(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    compile_for(&r, "sm_90a");
    fake->processors = 0;
    assert_int_equal(open_executor(&r, NULL), QF_ERROR_DEVICE);
    expect_message(&r, "GPU 0 has 0 multiprocessors, expected 1 or more");
    assert_int_equal(fake->live, 0);
    running_close(&r);
}

static void older_targets_run_on_newer_cards(void **state) {
    (void)state;
    running r;
    (void)reset();
    compile_for(&r, "sm_80");
    assert_int_equal(open_executor(&r, NULL), QF_OK);
    running_close(&r);
}

static void a_plan_runs_and_replays(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    compile_for(&r, "sm_90a");
    assert_int_equal(open_executor(&r, NULL), QF_OK);
    float x[4] = {1, 2, 3, 4}, other[6] = {0};
    qf_tensor y, input = DEVICE_TENSOR(QF_F32, x, 2, 2), moved = DEVICE_TENSOR(QF_F32, other, 2, 2),
                 grown = DEVICE_TENSOR(QF_F32, other, 3, 2);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &(qf_tensor){QF_F32, 2, {2, 2}, x, 0, 0}),
                     QF_ERROR_INVALID_ARGUMENT);
    expect_message(&r, "lies on a device of DLPack type 1, expected type 2");
    input.device_id = 1;
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_ERROR_INVALID_ARGUMENT);
    expect_message(&r, "lies on device 1, the executor runs on device 0");
    input.device_id = 0;
    fake->foreign = x;
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_ERROR_INVALID_ARGUMENT);
    expect_message(&r, "is not memory of device cuda");
    fake->foreign = NULL;
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_OK);
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_int_equal(qf_executor_step_time(r.executor, 0), 250000);
    assert_int_equal(qf_executor_output(r.executor, 0, &y), QF_OK);
    assert_int_equal(y.device_type, QF_DL_CUDA);
    assert_memory_equal(y.data, x, sizeof x);

    assert_int_equal(qf_executor_capture(r.executor), QF_OK);
    uint64_t calls = fake->copies;
    x[2] = 7;
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_int_equal(fake->graph_launches, 1);
    assert_int_equal(fake->copies, calls);
    assert_memory_equal(y.data, x, sizeof x);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &moved), QF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &grown), QF_ERROR_INVALID_ARGUMENT);
    expect_message(&r, "keeps sizes and addresses");
    qf_executor_drop_capture(r.executor);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &grown), QF_OK);
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_int_equal(fake->graph_launches, 1);
    assert_int_equal(qf_executor_wait(r.executor), QF_OK);
    running_close(&r);
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->live_bytes, 0);
    assert_int_equal(fake->context_depth, 0);
}

static void memory_stays_flat_over_runs(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    float x[4] = {1, 2, 3, 4};
    qf_tensor input = DEVICE_TENSOR(QF_F32, x, 2, 2);
    compile_for(&r, "sm_90a");
    assert_int_equal(open_executor(&r, NULL), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_OK);
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    int64_t live = fake->live, bytes = fake->live_bytes;
    uint64_t allocations = r.check.allocations;
    for (int i = 0; i < 1000; i++) assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_int_equal(fake->live, live);
    assert_int_equal(fake->live_bytes, bytes);
    assert_int_equal(r.check.allocations, allocations);
    running_close(&r);
}

/* The caller captures its own stream: a prepared run records, an unprepared one says what to do, and nothing is called
 * that would end the capture. */
static void the_host_may_capture(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    float x[4] = {1, 2, 3, 4}, result[4] = {0}, more[200] = {0};
    qf_tensor input = DEVICE_TENSOR(QF_F32, x, 2, 2), output = DEVICE_TENSOR(QF_F32, result, 2, 2);
    qf_tensor grown = DEVICE_TENSOR(QF_F32, more, 100, 2);
    char stream[4096] = {0}; /* the fake driver's streams hold recorded copies; zero: it does not capture */
    compile_for(&r, "sm_90a");
    assert_int_equal(open_executor(&r, stream), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_OK);
    fake->capturing = true;
    assert_int_equal(qf_executor_run(r.executor), QF_ERROR_INVALID_ARGUMENT);
    expect_message(&r, "call qf_executor_prepare before the capture");
    fake->capturing = false;
    assert_int_equal(qf_executor_prepare(r.executor), QF_OK);
    fake->capturing = true;
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_int_equal(qf_executor_bind_output(r.executor, 0, &output), QF_OK); /* another address needs no memory */
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_memory_equal(result, x, sizeof x);
    assert_int_equal(qf_executor_wait(r.executor), QF_ERROR_INVALID_ARGUMENT);
    expect_message(&r, "nothing to wait for before its graph is launched");
    assert_int_equal(qf_executor_bind_output(r.executor, 0, NULL), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &grown), QF_OK);
    assert_int_equal(qf_executor_run(r.executor), QF_ERROR_INVALID_ARGUMENT);
    expect_message(&r, "run the plan with these sizes");
    assert_int_equal(fake->broken_captures, 0);

    /* What was captured may be replayed: its memory stays when more is needed. */
    fake->capturing = false;
    int64_t held = fake->live_bytes;
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_int_equal(fake->live_bytes, held + (int64_t)sizeof more);
    running_close(&r);
    assert_int_equal(fake->live, 0);
}

/* The host captures a stream of its own while executors on others come and go. */
static void executors_come_and_go_during_a_capture(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    float x[4] = {1, 2, 3, 4};
    qf_tensor input = DEVICE_TENSOR(QF_F32, x, 2, 2);
    qf_executor *unused;
    compile_for(&r, "sm_90a");
    assert_int_equal(open_executor(&r, NULL), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_OK);
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_int_equal(qf_executor_wait(r.executor), QF_OK);
    fake->capturing = true;
    assert_int_equal(qf_executor_create(r.context, r.plan, NULL, &unused), QF_OK);
    assert_int_equal(qf_executor_bind_input(unused, 0, &input), QF_OK);
    assert_int_equal(qf_executor_prepare(unused), QF_OK);
    qf_executor_destroy(unused);
    running_close(&r);
    assert_int_equal(fake->broken_captures, 0);
    assert_int_equal(fake->live, 0);
}

static void bindings_that_stay_need_no_preparation(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    float x[4] = {1, 2, 3, 4}, other[4] = {0};
    qf_tensor input = DEVICE_TENSOR(QF_F32, x, 2, 2), output = DEVICE_TENSOR(QF_F32, other, 2, 2);
    compile_for(&r, "sm_90a");
    assert_int_equal(open_executor(&r, NULL), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_OK);
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    uint64_t allocations = r.check.allocations;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(qf_executor_bind_input(r.executor, 0, &input), QF_OK);
        assert_int_equal(qf_executor_bind_output(r.executor, 0, NULL), QF_OK);
        assert_int_equal(qf_executor_run(r.executor), QF_OK);
    }
    assert_int_equal(r.check.allocations, allocations);
    assert_int_equal(qf_executor_bind_output(r.executor, 0, &output), QF_OK);
    assert_int_equal(qf_executor_run(r.executor), QF_OK);
    assert_memory_equal(other, x, sizeof x);
    running_close(&r);
    assert_int_equal(fake->live, 0);
}

typedef struct gpu_work {
    const qf_plan *plan;
    float x[4], y[4];
    bool ok;
} gpu_work;

static void *run_on_gpu(void *user) {
    gpu_work *work = user;
    qf_context *context = NULL;
    qf_executor *executor = NULL;
    qf_device *device = NULL;
    qf_device_info info = {.struct_size = sizeof info};
    qf_tensor input = DEVICE_TENSOR(QF_F32, work->x, 2, 2), output = DEVICE_TENSOR(QF_F32, work->y, 2, 2);
    bool ok = qf_context_create(NULL, &context) == QF_OK && qf_device_open(context, "cuda", NULL, &device) == QF_OK &&
              qf_executor_create(context, work->plan, NULL, &executor) == QF_OK &&
              qf_executor_bind_input(executor, 0, &input) == QF_OK &&
              qf_executor_bind_output(executor, 0, &output) == QF_OK;
    for (int i = 0; ok && i < 8; i++) ok = qf_executor_run(executor) == QF_OK;
    ok = ok && qf_executor_wait(executor) == QF_OK && qf_executor_capture(executor) == QF_OK &&
         qf_executor_run(executor) == QF_OK && qf_executor_wait(executor) == QF_OK;
    if (device) qf_device_describe(device, &info);
    work->ok = ok && strcmp(info.target, "sm_90a") == 0;
    qf_executor_destroy(executor);
    qf_device_close(device);
    qf_context_destroy(context);
    return NULL;
}

static void threads_share_a_plan(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    gpu_work work[4];
    pthread_t threads[QF_COUNT_OF(work)];
    compile_for(&r, "sm_90a");
    for (size_t i = 0; i < QF_COUNT_OF(work); i++) {
        work[i] = (gpu_work){.plan = r.plan, .x = {(float)i, 1, 2, 3}};
        assert_int_equal(pthread_create(&threads[i], NULL, run_on_gpu, &work[i]), 0);
    }
    for (size_t i = 0; i < QF_COUNT_OF(work); i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < QF_COUNT_OF(work); i++) {
        assert_true(work[i].ok);
        assert_memory_equal(work[i].x, work[i].y, sizeof work[i].x);
    }
    running_close(&r);
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->context_depth, 0);
}

static void products_go_through_cublaslt(void **state) {
    (void)state;
    running r;
    qf_fake_state *fake = reset();
    float a[32 * 64] = {0}, b[64 * 16] = {0};
    qf_tensor left = DEVICE_TENSOR(QF_F32, a, 32, 64), right = DEVICE_TENSOR(QF_F32, b, 64, 16);
    running_parse(&r, "(%a: f32[32, 64], %b: f32[64, 16]) {\n  %y = matmul %a, %b\n  return %y\n}\n");
    qf_compile_options options = {.struct_size = sizeof options, .target = "sm_90a"};
    if (qf_compile(r.graph, &options, &r.plan) != QF_OK) fail_msg("%s", r.check.messages);
    assert_int_equal(open_executor(&r, NULL), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 0, &left), QF_OK);
    assert_int_equal(qf_executor_bind_input(r.executor, 1, &right), QF_OK);
    if (qf_executor_run(r.executor) != QF_OK) fail_msg("%s", r.check.messages);
    assert_int_equal(fake->launches, 0);
    running_close(&r);
    assert_int_equal(fake->live, 0);
}

/* Every driver call fails once: a status, nothing left behind. */
static void begin_scale_count(void) {
    (void)reset();
}

static void scales_of_a_wrong_count_are_refused(void **state) {
    (void)state;
    scale_counts_are_checked("sm_90a", begin_scale_count);
}

/* Plans whose builders divide the work among multiprocessors, and what their inputs are. */
typedef struct plan_case {
    const char *text;
    qf_tensor inputs[8];
} plan_case;

#define SCALES_AND(operands)                                                                                           \
    "q_scale=%s, k_scale=%s, v_scale=%s, out_scale=%s {scale=0.1, out=f8E4M3FN, p=kernel" operands
#define CACHES "%k: f8E4M3FN[P, 16, 2, 128], %v: f8E4M3FN[P, 16, 2, 128], %table: i32[B, W], %lens: i32[B]"
static const plan_case plan_cases[] = {
    {"(%x: f32[T, 2]) {\n  return %x\n}\n", {TENSOR(QF_F32, NULL, 2, 2)}},
    {"(%q: f8E4M3FN[B, 8, 128], " CACHES
     ", %s: f32[]) {\n  %a = paged_attention %q, %k, %v, %table, %lens, " SCALES_AND("}\n  return %a\n}\n"),
     {TENSOR(QF_F8E4M3FN, NULL, 4, 8, 128), TENSOR(QF_F8E4M3FN, NULL, 50, 16, 2, 128),
      TENSOR(QF_F8E4M3FN, NULL, 50, 16, 2, 128), TENSOR(QF_I32, NULL, 4, 8), TENSOR(QF_I32, NULL, 4),
      SCALAR(QF_F32, NULL)}},
    {"(%q: f8E4M3FN[R, 8, 128], " CACHES ", %start: i32[B + 1], %s: f32[]) {\n"
     "  %a = paged_attention %q, %k, %v, %table, %lens, q_start=%start, " SCALES_AND("}\n  return %a\n}\n"),
     {TENSOR(QF_F8E4M3FN, NULL, 600, 8, 128), TENSOR(QF_F8E4M3FN, NULL, 50, 16, 2, 128),
      TENSOR(QF_F8E4M3FN, NULL, 50, 16, 2, 128), TENSOR(QF_I32, NULL, 4, 8), TENSOR(QF_I32, NULL, 4),
      TENSOR(QF_I32, NULL, 5), SCALAR(QF_F32, NULL)}},
    {"(%q: f8E4M3FN[B, 32, T, 128], %k: f8E4M3FN[B, 8, T, 128], %v: f8E4M3FN[B, 8, T, 128], %s: f32[]) {\n"
     "  %a = attention %q, %k, %v, " SCALES_AND(", causal=true}\n  return %a\n}\n"),
     {TENSOR(QF_F8E4M3FN, NULL, 1, 32, 8192, 128), TENSOR(QF_F8E4M3FN, NULL, 1, 8, 8192, 128),
      TENSOR(QF_F8E4M3FN, NULL, 1, 8, 8192, 128), SCALAR(QF_F32, NULL)}},
    {"(%a: f32[T, 64], %b: f32[64, 32], %s: f32[]) {\n  %m = matmul %a, %b\n  %x = softmax %m {axis=1}\n"
     "  %r = reduce_sum %x {axes=[0]}\n  %z = quantize %x, %s {dtype=f8E4M3FN}\n  %v, %i = top_k %x {k=5, axis=1}\n"
     "  return %r, %z, %v\n}\n",
     {TENSOR(QF_F32, NULL, 100, 64), TENSOR(QF_F32, NULL, 64, 32), SCALAR(QF_F32, NULL)}}};

static qf_status bind_inputs(running *r, const plan_case *of, char *data) {
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < r->plan->input_count; i++) {
        qf_tensor tensor = of->inputs[i];
        tensor.data = data; /* nothing but the copy of the first plan looks there */
        tensor.device_type = QF_DL_CUDA;
        status = qf_executor_bind_input(r->executor, i, &tensor);
    }
    return status;
}

/* Up to the third query of what the card is. */
#define CALLS_TO_OPEN 7

/* The call `at` of the driver fails; true: there was one. */
static bool call_fails(const plan_case *of, uint64_t at) {
    running r;
    qf_fake_state *fake = reset();
    static _Alignas(256) char data[256];
    running_parse(&r, of->text);
    qf_compile_options options = {.struct_size = sizeof options, .target = "sm_90a"};
    if (qf_compile(r.graph, &options, &r.plan) != QF_OK) fail_msg("%s", r.check.messages);
    fake->fail_at = at;
    qf_status status = open_executor(&r, NULL);
    bool opened = status == QF_OK;
    if (status == QF_OK) status = bind_inputs(&r, of, data);
    if (status == QF_OK) status = qf_executor_run(r.executor);
    if (status == QF_OK) status = qf_executor_capture(r.executor);
    if (status == QF_OK) status = qf_executor_run(r.executor);
    if (status == QF_OK) status = qf_executor_wait(r.executor);
    bool failed = fake->calls >= at;
    if (status != QF_OK && !*r.check.messages) fail_msg("call %llu failed without a message", (unsigned long long)at);
    if (opened && at <= CALLS_TO_OPEN) fail_msg("call %llu: opened nevertheless", (unsigned long long)at);
    fake->fail_at = 0;
    running_close(&r);
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->context_depth, 0);
    return failed;
}

static void failing_calls_leave_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(plan_cases); i++)
        for (uint64_t at = 1; call_fails(&plan_cases[i], at); at++) continue;
}

int main(void) {
    void *library = dlopen(QF_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    void *blas = dlopen(QF_FAKE_BLAS, RTLD_NOW | RTLD_GLOBAL); /* found under its soname, before any real one */
    void *address = library && blas ? dlsym(library, "qf_fake_reset") : NULL;
    if (!address) return 1;
    memcpy(&reset, &address, sizeof reset);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_device_says_what_it_is),
                                       cmocka_unit_test(another_gpu_is_refused_by_name),
                                       cmocka_unit_test(a_card_without_processors_is_refused),
                                       cmocka_unit_test(older_targets_run_on_newer_cards),
                                       cmocka_unit_test(a_plan_runs_and_replays),
                                       cmocka_unit_test(memory_stays_flat_over_runs),
                                       cmocka_unit_test(the_host_may_capture),
                                       cmocka_unit_test(bindings_that_stay_need_no_preparation),
                                       cmocka_unit_test(executors_come_and_go_during_a_capture),
                                       cmocka_unit_test(threads_share_a_plan),
                                       cmocka_unit_test(products_go_through_cublaslt),
                                       cmocka_unit_test(scales_of_a_wrong_count_are_refused),
                                       cmocka_unit_test(failing_calls_leave_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
