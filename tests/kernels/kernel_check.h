/* Owns: calling one CPU kernel in a test: operands from numbers, defaults for attributes, poisoned results, exact
 * scratch. Does not own: the tests. Next: any *_test.c here. */
#ifndef QF_TESTS_KERNELS_KERNEL_CHECK_H
#define QF_TESTS_KERNELS_KERNEL_CHECK_H

#include "tests/kernels/defaults.h"

#include <math.h>

#include "base/convert.h"
#include "kernels/kernel.h"

#define MOST_OPERANDS 16
#define MOST_RESULTS  8

/* Every buffer is a block of its own with exactly the bytes that the kernel may touch, so that AddressSanitizer sees
 * more. */
typedef struct kernel_test {
    qf_kernel_call call;
    qf_view operands[MOST_OPERANDS], results[MOST_RESULTS];
    qf_kernel_attribute attributes[24];
    bool borrowed[MOST_RESULTS]; /* the result lies in an operand's memory */
    char message[256];
} kernel_test;

typedef struct shape {
    uint32_t rank;
    int64_t dims[QF_MAX_RANK];
} shape;

#define NUMBER_OF(...) (sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define SHAPE(...)     ((shape){(uint32_t)NUMBER_OF(__VA_ARGS__), {__VA_ARGS__}})
#define SCALAR         ((shape){0, {0}})
#define NUMBERS(...)   ((const double[]){__VA_ARGS__})
#define INTS(...)      ((const int64_t[]){__VA_ARGS__}), NUMBER_OF(__VA_ARGS__)

static inline int64_t view_count(const qf_view *view) {
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) count *= view->dims[i];
    return count;
}

static inline size_t view_bytes(const qf_view *view) {
    return (size_t)qf_dtype_bytes(view->dtype, (uint64_t)view_count(view));
}

static inline void check_start(kernel_test *test, qf_op op) {
    const qf_op_info *info = qf_op_info_of(op);
    memset(test, 0, sizeof *test);
    for (uint32_t i = 0; i < info->attribute_count; i++) kernel_default(&test->attributes[i], &info->attributes[i]);
    test->call = (qf_kernel_call){.op = op,
                                  .operands = test->operands,
                                  .results = test->results,
                                  .attributes = test->attributes,
                                  .message = test->message,
                                  .message_size = sizeof test->message};
}

static inline qf_view check_view(qf_dtype dtype, shape dims) {
    qf_view view = {.dtype = dtype, .rank = dims.rank};
    memcpy(view.dims, dims.dims, sizeof dims.dims);
    view.data = malloc(view_bytes(&view) + !view_bytes(&view));
    assert_non_null(view.data);
    memset(view.data, 0xA5, view_bytes(&view));
    return view;
}

/* Operand `index` from numbers, rounded to dtype; NULL leaves it poisoned. */
static inline qf_view *check_operand(kernel_test *test, uint32_t index, qf_dtype dtype, shape dims,
                                     const double *numbers) {
    qf_view *view = &test->operands[index];
    free(view->data);
    *view = check_view(dtype, dims);
    for (int64_t i = 0; numbers && i < view_count(view); i++) qf_store_f64(dtype, view->data, i, numbers[i], true);
    if (test->call.operand_count <= index) test->call.operand_count = index + 1;
    return view;
}

static inline qf_view *check_result(kernel_test *test, uint32_t index, qf_dtype dtype, shape dims) {
    if (!test->borrowed[index]) free(test->results[index].data);
    test->borrowed[index] = false;
    test->results[index] = check_view(dtype, dims);
    if (test->call.result_count <= index) test->call.result_count = index + 1;
    return &test->results[index];
}

static inline void check_ints(kernel_test *test, uint32_t attribute, const int64_t *ints, size_t count) {
    test->attributes[attribute].ints = ints;
    test->attributes[attribute].count = count;
}

/* Poisons the results, runs with exactly the scratch asked for. */
static inline qf_status check_run(kernel_test *test, uint32_t threads) {
    for (uint32_t i = 0; i < test->call.result_count; i++)
        if (test->results[i].data && !test->borrowed[i])
            memset(test->results[i].data, 0xA5, view_bytes(&test->results[i]));
    test->call.thread_count = threads;
    size_t size = qf_cpu_scratch_size(&test->call);
    test->call.scratch = size ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
    if (size) {
        assert_non_null(test->call.scratch);
        memset(test->call.scratch, 0xFF, size);
    }
    qf_status status = qf_cpu_kernel_of(test->call.op)(&test->call);
    free(test->call.scratch);
    if (status == QF_OK && test->message[0]) fail_msg("success with a message: %s", test->message);
    return status;
}

static inline void check_succeeds(kernel_test *test) {
    if (check_run(test, 1) != QF_OK) fail_msg("%s: %s", qf_op_name(test->call.op), test->message);
}

static inline double result_at(const kernel_test *test, uint32_t result, int64_t index) {
    return qf_load_f64(test->results[result].dtype, test->results[result].data, index);
}

static inline bool same_number(double a, double b) {
    return (isnan(a) && isnan(b)) || a == b;
}

static inline void check_numbers_of(const kernel_test *test, uint32_t result, const double *expected,
                                    double tolerance) {
    for (int64_t i = 0; i < view_count(&test->results[result]); i++) {
        double found = result_at(test, result, i);
        if (same_number(found, expected[i]) || fabs(found - expected[i]) <= tolerance * (1 + fabs(expected[i])))
            continue;
        fail_msg("%s: result %u element %d is %.9g, expected %.9g", qf_op_name(test->call.op), result, (int)i, found,
                 expected[i]);
    }
}

static inline void check_finish(kernel_test *test) {
    for (uint32_t i = 0; i < MOST_RESULTS; i++)
        if (!test->borrowed[i]) free(test->results[i].data);
    for (uint32_t i = 0; i < MOST_OPERANDS; i++) free(test->operands[i].data);
}

/* Succeeds, compares result 0, frees. */
static inline void check_gives(kernel_test *test, const double *expected, double tolerance) {
    check_succeeds(test);
    check_numbers_of(test, 0, expected, tolerance);
    check_finish(test);
}

/* Fails with a message that holds `part`, frees. */
static inline void check_refuses(kernel_test *test, const char *part) {
    assert_int_not_equal(check_run(test, 1), QF_OK);
    if (!strstr(test->message, part)) fail_msg("\"%s\" does not say \"%s\"", test->message, part);
    check_finish(test);
}

/* One result of up to eight bytes an element, bit for bit the same with one, two and five threads. */
static inline void check_threads_agree(kernel_test *test) {
    void *first[MOST_RESULTS] = {NULL};
    check_succeeds(test);
    for (uint32_t i = 0; i < test->call.result_count; i++) {
        first[i] = malloc(view_bytes(&test->results[i]) + 1);
        assert_non_null(first[i]);
        memcpy(first[i], test->results[i].data, view_bytes(&test->results[i]));
    }
    for (uint32_t threads = 2; threads <= 5; threads += 3) {
        assert_int_equal(check_run(test, threads), QF_OK);
        for (uint32_t i = 0; i < test->call.result_count; i++)
            assert_memory_equal(first[i], test->results[i].data, view_bytes(&test->results[i]));
    }
    for (uint32_t i = 0; i < test->call.result_count; i++) free(first[i]);
}

/* A small generator: the same numbers everywhere. */
typedef struct random_state {
    uint64_t state;
} random_state;

static inline uint32_t random_below(random_state *random, uint32_t limit) {
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random->state >> 33) % limit);
}

/* Roughly normal, mean 0, deviation 1. */
static inline double random_normal(random_state *random) {
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += random_below(random, 1u << 24) / 16777216.0;
    return sum - 6;
}

static inline qf_view *check_random_operand(kernel_test *test, uint32_t index, qf_dtype dtype, shape dims,
                                            random_state *random, double deviation, double mean) {
    qf_view *view = check_operand(test, index, dtype, dims, NULL);
    for (int64_t i = 0; i < view_count(view); i++)
        qf_store_f64(dtype, view->data, i, random_normal(random) * deviation + mean, true);
    return view;
}

#endif
