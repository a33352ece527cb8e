/* Owns: one attention as its cases vary it, and writing it as a case, dense or paged.
 * Does not own: which are tried (attention_cases.c, paged_cases.c).
 * Next: attention_site.c. */
#ifndef QF_TESTS_GPU_CONFORMANCE_ATTENTION_SITE_H
#define QF_TESTS_GPU_CONFORMANCE_ATTENTION_SITE_H

#include "tests/gpu/conformance/cases.h"

typedef enum site_flag {
    SITE_SINKS = 1 << 0,
    SITE_LSE = 1 << 1,
    SITE_HEAD_SCALES = 1 << 2, /* of q, k and v, by KV head */
    SITE_P_KERNEL = 1 << 3,
    SITE_P_GRAPH = 1 << 4,
    SITE_ROWS_FIRST = 1 << 5, /* dense: bshd; paged: hnd */
    SITE_SMALL = 1 << 6,
    SITE_REPLAYS = 1 << 7,
    SITE_FLAT_V = 1 << 8,    /* V is 1 everywhere: the result is 1 whatever the scores are */
    SITE_MEAN_V = 1 << 9,    /* V has mean 0.25; the mean of the result is checked */
    SITE_OUTLIERS = 1 << 10, /* of q, k and v */
    SITE_EQUAL = 1 << 11,    /* all scores are equal */
    SITE_RISING = 1 << 12,   /* the maximum rises a little with every key */
    SITE_TINY_SCALES = 1 << 13,
    SITE_HUGE_SCALES = 1 << 14,
    SITE_NEEDLE = 1 << 15,    /* one key matches */
    SITE_Q_WIDE = 1 << 16,    /* q is bf16 over FP8 k and v, whatever `type` says */
    SITE_DOMINATED = 1 << 17, /* scores spread over hundreds */
    SITE_BAD_TABLE = 1 << 18  /* paged: entries that no key needs are out of range */
} site_flag;

typedef struct site {
    const char *name;
    int64_t batch, heads, kv_heads, rows, keys, depth, value_depth; /* value_depth 0: depth */
    qf_dtype type, out; /* of q, k, v; out QF_DTYPE_NONE: the op's default */
    const char *attributes;
    uint32_t flags;
    shape bias, mask; /* rank 0: none */
    qf_dtype bias_type;
    int64_t page; /* paged: tokens a page */
    /* Lengths and starts: as many as sequences (+ 1); used where given[...] is set. */
    bool has_lengths, has_starts;
    double lengths[8], starts[9];
} site;

void site_dense(suite *to, const site *at);
void site_paged(suite *to, const site *at);

#endif
