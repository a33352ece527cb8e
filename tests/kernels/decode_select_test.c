/* Owns: tests of the host's choices for a decode launch: refusals, grids, clusters, shared memory, workspace.
 * Does not own: which steps get there (cuda_attention_test.c), numbers (tests/gpu/decode).
 * Next: kernels/cuda/decode/select.h. */
#include "tests/check.h"

#include "kernels/cuda/decode/select.h"

#define MULTIPROCESSORS      132
/* Shared memory of a multiprocessor, what the system keeps of each CTA's, and most of what a kernel holds statically.
 */
#define MULTIPROCESSOR_BYTES (228 * 1024)
#define SYSTEM_BYTES         1024
#define STATIC_BYTES         4096

static qf_decode_problem usual(void) {
    return (qf_decode_problem){.kv_dtype = QF_DECODE_E4M3,
                               .q_dtype = QF_DECODE_E4M3,
                               .out_dtype = QF_DECODE_E4M3,
                               .head_dim = 128,
                               .kv_heads = 8,
                               .group = 4,
                               .q_tokens = 1,
                               .batch = 1,
                               .page_size = 64,
                               .max_kv_len = 1024};
}

static void refuses(qf_decode_problem problem, const char *reason) {
    const char *found = qf_decode_refusal(&problem);
    assert_non_null(found);
    assert_non_null(strstr(found, reason));
}

static void test_what_is_refused_says_why(void **state) {
    (void)state;
    qf_decode_problem p = usual();
    assert_null(qf_decode_refusal(&p));
    p = usual(), p.kv_dtype = QF_DECODE_F16;
    refuses(p, "K and V");
    p = usual(), p.head_dim = 96;
    refuses(p, "head dim");
    p = usual(), p.kv_dtype = QF_DECODE_BF16, p.q_dtype = QF_DECODE_F16;
    refuses(p, "FP8 cache");
    p = usual(), p.q_dtype = QF_DECODE_E5M2;
    refuses(p, "e5m2 query");
    p = usual(), p.page_size = 48;
    refuses(p, "page size");
    p = usual(), p.page_size = 8;
    refuses(p, "page size");
    p = usual(), p.batch = 0;
    refuses(p, "positive");
    p = usual(), p.group = 1025;
    refuses(p, "1024");
    p = usual(), p.q_tokens = 4, p.group = 1 << 30; /* a product of 2^32 */
    refuses(p, "1024");
    p = usual(), p.batch = 2049;
    refuses(p, "2048");
}

static void fits(const qf_decode_problem *problem, int ctas) {
    assert_null(qf_decode_refusal(problem));
    const qf_decode_choice choice = qf_decode_choose(problem, ctas, 4);
    const int rows = problem->group * problem->q_tokens, warps = choice.threads / 32;
    assert_in_range(choice.ctas, 1, QF_DECODE_MAX_CTAS);
    assert_true(choice.ctas <= 2 * ctas);
    assert_int_equal(choice.ctas % (1 << choice.cluster_shift), 0);
    assert_in_range(choice.stages, 2, QF_DECODE_MAX_STAGES);
    assert_true(choice.shared_bytes <= QF_DECODE_SHARED_LIMIT);
    if (choice.ctas > ctas) { /* two at once on every multiprocessor */
        assert_true(2 * (choice.shared_bytes + STATIC_BYTES + SYSTEM_BYTES) <= MULTIPROCESSOR_BYTES);
        assert_int_equal(choice.cluster_shift, 0);
    }
    assert_true(choice.row_blocks * 8 * choice.row_tiles >= rows);
    assert_true((choice.row_blocks - 1) * 8 * choice.row_tiles < rows);
    assert_int_equal(problem->kv_heads % (1 << choice.bundle_shift), 0);
    assert_true(1 << choice.bundle_shift <= warps);
    for (int i = 0; i < 4; i++) assert_in_range(choice.active[i], 1, choice.ctas);
    if (choice.cluster_shift) { /* a cluster for each unit */
        assert_true((problem->batch * problem->kv_heads * choice.row_blocks) << choice.cluster_shift <= choice.ctas);
    }
    /* Two shares a CTA and as many groups of shares, for each warp. */
    assert_int_equal(choice.ticket_bytes, 4 * 4 * (size_t)choice.ctas * (size_t)warps);
    assert_true(choice.partial_bytes >=
                choice.ticket_bytes * (size_t)(problem->head_dim + 2) * (size_t)(rows < 8 ? rows : 8));
}

/* Grids, shared memory and workspace fit for every variant, batch and length. */
static void test_launches_fit_the_device(void **state) {
    (void)state;
    static const int dtypes[] = {QF_DECODE_E4M3, QF_DECODE_E5M2, QF_DECODE_BF16};
    static const int heads[] = {1, 3, 8}, groups[] = {1, 4, 8, 16, 64}, batches[] = {1, 2, 7, 32, 64, 256, 2048};
    static const int64_t lengths[] = {64, 4096, 131072};
    static const int devices[] = {1, 5, MULTIPROCESSORS, QF_DECODE_MAX_CTAS};
    for (size_t dtype = 0; dtype < QF_COUNT_OF(dtypes); dtype++)
        for (int head_dim = 64; head_dim <= 256; head_dim *= 2)
            for (size_t head = 0; head < QF_COUNT_OF(heads); head++)
                for (size_t group = 0; group < QF_COUNT_OF(groups); group++)
                    for (size_t batch = 0; batch < QF_COUNT_OF(batches); batch++)
                        for (size_t length = 0; length < QF_COUNT_OF(lengths); length++)
                            for (size_t device = 0; device < QF_COUNT_OF(devices); device++) {
                                qf_decode_problem p = usual();
                                p.kv_dtype = dtypes[dtype], p.q_dtype = QF_DECODE_BF16, p.head_dim = head_dim;
                                p.kv_heads = heads[head], p.group = groups[group], p.batch = batches[batch];
                                p.max_kv_len = lengths[length];
                                fits(&p, devices[device]);
                            }
}

/* One short sequence: a cluster of eight a KV head; never more than the device takes. */
static void test_few_short_units_get_a_cluster_each(void **state) {
    (void)state;
    qf_decode_problem p = usual();
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 4).cluster_shift, 3);
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 2).cluster_shift, 2);
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 0).cluster_shift, 0);
    p.max_kv_len = 65536;
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 4).cluster_shift, 0);
    p = usual(), p.batch = 32;
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 4).cluster_shift, 0);
}

/* Long launches wait for a predecessor of another kind, unless all places are theirs anyway. */
static void test_long_launches_do_not_start_early(void **state) {
    (void)state;
    qf_decode_problem p = usual();
    assert_true(qf_decode_choose(&p, MULTIPROCESSORS, 4).early);
    p.batch = 32, p.max_kv_len = 65536;
    assert_false(qf_decode_choose(&p, MULTIPROCESSORS, 4).early);
    p.head_dim = 256;
    assert_true(qf_decode_choose(&p, MULTIPROCESSORS, 4).early);
    p = usual(), p.kv_heads = 1, p.batch = 128, p.max_kv_len = 65536;
    assert_true(qf_decode_choose(&p, MULTIPROCESSORS, 4).early);
}

/* Two CTAs a multiprocessor: many short sequences, or very many bytes of one KV head; not where registers forbid it. */
static void test_many_sequences_get_two_ctas_a_multiprocessor(void **state) {
    (void)state;
    qf_decode_problem p = usual();
    p.batch = 64, p.max_kv_len = 4096;
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 4).ctas, 2 * MULTIPROCESSORS);
    p.batch = 32;
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 4).ctas, MULTIPROCESSORS);
    p = usual(), p.kv_heads = 1, p.group = 8, p.batch = 32, p.max_kv_len = 131072;
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 4).ctas, 2 * MULTIPROCESSORS);
    p = usual(), p.batch = 64, p.max_kv_len = 4096, p.group = 16;
    assert_int_equal(qf_decode_choose(&p, MULTIPROCESSORS, 4).ctas, MULTIPROCESSORS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_refused_says_why),
        cmocka_unit_test(test_launches_fit_the_device),
        cmocka_unit_test(test_few_short_units_get_a_cluster_each),
        cmocka_unit_test(test_long_launches_do_not_start_early),
        cmocka_unit_test(test_many_sequences_get_two_ctas_a_multiprocessor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
