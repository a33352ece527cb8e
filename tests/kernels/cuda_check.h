/* Owns: calling one builder of GPU kernels in a test: steps with made-up device addresses, a recorder, what was
 * recorded. Does not own: the tests, running kernels (tests/gpu). Next: any cuda_*_test.c here. */
#ifndef QF_TESTS_KERNELS_CUDA_CHECK_H
#define QF_TESTS_KERNELS_CUDA_CHECK_H

#include "tests/kernels/defaults.h"

#include "kernels/cuda/builder.h"

#define MOST_STEPS    16
#define MOST_OPERANDS 16
#define MOST_RESULTS  8

typedef struct cuda_step {
    qf_view operands[MOST_OPERANDS], results[MOST_RESULTS];
    qf_kernel_attribute attributes[24];
    uint32_t last_uses[MOST_RESULTS];
} cuda_step;

typedef struct cuda_test {
    check_state state;
    qf_context *context;
    qf_arena arena;
    qf_cuda_recorder recorder;
    uint32_t count;
    qf_kernel_step steps[MOST_STEPS];
    cuda_step rooms[MOST_STEPS];
    char message[256];
} cuda_test;

typedef struct cuda_shape {
    uint32_t rank;
    int64_t dims[QF_MAX_RANK];
} cuda_shape;

#define CUDA_SHAPE(...)                                                                                                \
    ((cuda_shape){(uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define CUDA_SCALAR ((cuda_shape){0, {0}})

static inline void cuda_start(cuda_test *test) {
    memset(test, 0, sizeof *test);
    test->context = check_context(&test->state);
    test->arena.context = test->context;
    test->recorder = (qf_cuda_recorder){.arena = &test->arena,
                                        .target = QF_TARGET_sm_90a,
                                        .processor_count = 132,
                                        .scratch = (char *)(uintptr_t)0x700000000000,
                                        .zeroed = (char *)(uintptr_t)0x7F0000000000};
}

static inline void cuda_finish(cuda_test *test) {
    qf_arena_destroy(&test->arena);
    check_destroy(test->context, &test->state);
}

/* The next step of the plan. Results are read after the plan unless told otherwise. */
static inline qf_kernel_step *cuda_add(cuda_test *test, qf_op op) {
    qf_kernel_step *step = &test->steps[test->count];
    cuda_step *room = &test->rooms[test->count++];
    const qf_op_info *info = qf_op_info_of(op);
    for (uint32_t i = 0; i < info->attribute_count; i++) kernel_default(&room->attributes[i], &info->attributes[i]);
    for (uint32_t i = 0; i < MOST_RESULTS; i++) room->last_uses[i] = UINT32_MAX;
    step->last_uses = room->last_uses;
    step->call = (qf_kernel_call){.op = op,
                                  .operands = room->operands,
                                  .results = room->results,
                                  .attributes = room->attributes,
                                  .message = test->message,
                                  .message_size = sizeof test->message};
    return step;
}

static inline cuda_step *cuda_room(cuda_test *test, const qf_kernel_step *step) {
    return &test->rooms[step - test->steps];
}

static inline qf_view cuda_view(qf_dtype dtype, cuda_shape shape, uintptr_t address) {
    qf_view view = {.dtype = dtype, .rank = shape.rank, .data = (void *)address};
    memcpy(view.dims, shape.dims, sizeof shape.dims);
    return view;
}

static inline void cuda_operand(cuda_test *test, qf_kernel_step *step, qf_dtype dtype, cuda_shape shape,
                                uintptr_t address) {
    cuda_room(test, step)->operands[step->call.operand_count++] = cuda_view(dtype, shape, address);
}

static inline void cuda_result(cuda_test *test, qf_kernel_step *step, qf_dtype dtype, cuda_shape shape,
                               uintptr_t address) {
    cuda_room(test, step)->results[step->call.result_count++] = cuda_view(dtype, shape, address);
}

static inline void cuda_ints(cuda_test *test, const qf_kernel_step *step, uint32_t attribute, const int64_t *ints,
                             uint64_t count) {
    cuda_room(test, step)->attributes[attribute].ints = ints;
    cuda_room(test, step)->attributes[attribute].count = count;
}

/* Records from step `index` on. */
static inline qf_status cuda_record(cuda_test *test, uint32_t index) {
    qf_cuda_builder build = NULL;
    char name[64];
    uint32_t rows;
    const qf_kernel_row *table = qf_kernel_table(&rows);
    (void)snprintf(name, sizeof name, "cuda_%s", qf_op_name(test->steps[index].call.op));
    for (uint32_t i = 0; i < rows; i++)
        if (strcmp(table[i].name, name) == 0) build = qf_cuda_builder_of(&table[i]);
    if (!build) fail_msg("%s has no row", name);
    test->recorder.index = index;
    test->recorder.remaining = test->count - index;
    test->recorder.taken = 1;
    test->recorder.first = test->recorder.last = NULL;
    test->recorder.scratch_used = 0;
    test->message[0] = '\0';
    qf_status status = build(&test->recorder, &test->steps[index]);
    if (status == QF_OK && test->message[0]) fail_msg("success with a message: %s", test->message);
    if (status != QF_OK && !test->message[0]) fail_msg("a fault without a message");
    return status;
}

static inline uint32_t cuda_action_count(const cuda_test *test) {
    uint32_t count = 0;
    for (const qf_cuda_action *action = test->recorder.first; action; action = action->next) count++;
    return count;
}

/* Action `index`, which must be a launch of this kernel. */
static inline const qf_cuda_launch *cuda_launch_at(const cuda_test *test, uint32_t index, const char *kernel) {
    const qf_cuda_action *action = test->recorder.first;
    for (; action && index; index--) action = action->next;
    if (!action || action->kind != QF_CUDA_LAUNCH) fail_msg("no launch where one of %s was expected", kernel);
    assert_string_equal(action->launch.kernel, kernel);
    for (int i = 0; i < 3; i++) assert_true(action->launch.grid[i] >= 1 && action->launch.block[i] >= 1);
    assert_true(action->launch.params_size <= 4096);
    return &action->launch;
}

#endif
