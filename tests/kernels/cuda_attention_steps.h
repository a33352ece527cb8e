/* Owns: steps of attention for tests of its builders, and how what was recorded is looked at.
 * Does not own: the tests (cuda_attention_test.c, cuda_prefill_test.c).
 * Next: cuda_check.h. */
#ifndef QF_TESTS_KERNELS_CUDA_ATTENTION_STEPS_H
#define QF_TESTS_KERNELS_CUDA_ATTENTION_STEPS_H

#include "tests/kernels/cuda_check.h"

#include "kernels/cuda/attention.h"
#include "kernels/cuda/prefill/params.h"

#define PLACE(n)  ((uintptr_t)0x10000000 + (uintptr_t)(n)*0x1000000)
#define DENSE     1140
#define PAGED     1141
#define DECODE    2000
#define PREFILL   2010
#define PAGED_PRE 2011

static inline void set(cuda_test *test, uint32_t index, qf_dtype dtype, cuda_shape shape) {
    qf_kernel_call *call = &test->steps[0].call;
    test->rooms[0].operands[index] = cuda_view(dtype, shape, PLACE(index));
    if (call->operand_count <= index) call->operand_count = index + 1;
}

static inline qf_kernel_attribute *attribute(cuda_test *test, uint32_t index) {
    return &test->rooms[0].attributes[index];
}

static inline qf_status record(cuda_test *test, uint32_t number) {
    test->recorder.remaining = test->recorder.taken = 1;
    test->recorder.first = test->recorder.last = NULL;
    test->recorder.scratch_used = 0;
    test->message[0] = '\0';
    return qf_cuda_builder_of(qf_kernel_row_of(number))(&test->recorder, &test->steps[0]);
}

/* q [2, 8, 100, 64], k and v [2, 2, 300, 64]. */
static inline void start_dense(cuda_test *test, qf_dtype q, qf_dtype k, qf_dtype v, int64_t depth, int64_t out_depth) {
    cuda_start(test);
    qf_kernel_step *step = cuda_add(test, QF_OP_attention);
    attribute(test, QF_ATTR(attention, scale))->number = 0.125;
    set(test, 0, q, CUDA_SHAPE(2, 8, 100, depth));
    set(test, 1, k, CUDA_SHAPE(2, 2, 300, depth));
    set(test, 2, v, CUDA_SHAPE(2, 2, 300, out_depth));
    for (uint32_t i = 0; i < 3; i++)
        if (qf_dtype_is_float8(test->rooms[0].operands[i].dtype))
            set(test, i == 2 ? QF_IN(attention, v_scale) : QF_IN(attention, q_scale) + i, QF_F32, CUDA_SCALAR);
    cuda_result(test, step, QF_BF16, CUDA_SHAPE(2, 8, 100, out_depth), PLACE(30));
}

/* q [rows, 8, depth] over caches [50, page, 2, depth] of 4 sequences with up to 8 pages. */
static inline void start_paged(cuda_test *test, qf_dtype q, qf_dtype cache, int64_t rows, int64_t depth, int64_t page) {
    cuda_start(test);
    qf_kernel_step *step = cuda_add(test, QF_OP_paged_attention);
    attribute(test, QF_ATTR(paged_attention, scale))->number = 0.125;
    set(test, QF_IN(paged_attention, q), q, CUDA_SHAPE(rows, 8, depth));
    set(test, QF_IN(paged_attention, k_cache), cache, CUDA_SHAPE(50, page, 2, depth));
    set(test, QF_IN(paged_attention, v_cache), cache, CUDA_SHAPE(50, page, 2, depth));
    set(test, QF_IN(paged_attention, block_table), QF_I32, CUDA_SHAPE(4, 8));
    set(test, QF_IN(paged_attention, kv_lens), QF_I32, CUDA_SHAPE(4));
    if (qf_dtype_is_float8(q)) set(test, QF_IN(paged_attention, q_scale), QF_F32, CUDA_SCALAR);
    if (qf_dtype_is_float8(cache)) {
        set(test, QF_IN(paged_attention, k_scale), QF_F32, CUDA_SHAPE(2));
        set(test, QF_IN(paged_attention, v_scale), QF_F32, CUDA_SHAPE(1));
    }
    set(test, QF_IN(paged_attention, out_scale), QF_F32, CUDA_SCALAR);
    cuda_result(test, step, QF_F8E4M3FN, CUDA_SHAPE(rows, 8, depth), PLACE(30));
    attribute(test, QF_ATTR(paged_attention, p))->integer = QF_VALUE_kernel;
}

static inline const qf_cuda_attention_params *general(const cuda_test *test, uint32_t index, const char *kernel) {
    const qf_cuda_launch *launch = cuda_launch_at(test, index, kernel);
    assert_int_equal(launch->params_size, sizeof(qf_cuda_attention_params));
    return launch->params;
}

static inline qf_prefill_params prefill(const cuda_test *test, uint32_t index) {
    const qf_cuda_launch *launch = cuda_launch_at(test, index, "qf_prefill_e4m3_d128_f16");
    qf_prefill_params params;
    assert_int_equal(launch->params_size, sizeof params);
    assert_true(launch->dependent && launch->maps && launch->maps->next && launch->maps->next->next);
    memcpy(&params, launch->params, sizeof params);
    return params;
}

static inline void expect_only(cuda_test *test, uint32_t number, const char *kernel) {
    assert_int_equal(record(test, number), QF_OK);
    assert_int_equal(cuda_action_count(test), 1);
    (void)cuda_launch_at(test, 0, kernel);
    cuda_finish(test);
}

#endif
