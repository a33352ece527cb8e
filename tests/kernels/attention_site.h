/* Owns: one attention from random numbers, as tests of its kernel need it again and again.
 * Does not own: the checks (kernel_check.h).
 * Next: attention_fp8_test.c, attention_edge_test.c. */
#ifndef QF_TESTS_KERNELS_ATTENTION_SITE_H
#define QF_TESTS_KERNELS_ATTENTION_SITE_H

#include "tests/kernels/kernel_check.h"

/* One attention [1, heads, rows, depth] over [1, kv_heads, keys, depth] from random numbers. */
typedef struct site {
    int64_t heads, kv_heads, rows, keys, depth;
    qf_dtype dtype; /* of q, k, v */
    double q_scale, k_scale, v_scale;
    double deviation;
} site;

static const site plain = {4, 2, 5, 130, 32, QF_F32, 1, 1, 1, 1};

static inline void start_site(kernel_test *test, const site *at, uint64_t seed, qf_dtype out) {
    random_state random = {seed};
    check_start(test, QF_OP_attention);
    test->attributes[QF_ATTR(attention, scale)].number = 1 / sqrt((double)at->depth);
    check_random_operand(test, 0, at->dtype, SHAPE(1, at->heads, at->rows, at->depth), &random, at->deviation, 0);
    check_random_operand(test, 1, at->dtype, SHAPE(1, at->kv_heads, at->keys, at->depth), &random, at->deviation, 0);
    check_random_operand(test, 2, at->dtype, SHAPE(1, at->kv_heads, at->keys, at->depth), &random, at->deviation, 0.25);
    if (qf_dtype_is_float8(at->dtype)) {
        check_operand(test, QF_IN(attention, q_scale), QF_F32, SCALAR, &at->q_scale);
        check_operand(test, QF_IN(attention, k_scale), QF_F32, SCALAR, &at->k_scale);
        check_operand(test, QF_IN(attention, v_scale), QF_F32, SCALAR, &at->v_scale);
    }
    check_result(test, 0, out, SHAPE(1, at->heads, at->rows, at->depth));
}

#endif
