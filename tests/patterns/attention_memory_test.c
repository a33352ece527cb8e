/* Owns: the n-th allocation fails, for every n of raising and refining: a status, no leak, no crash.
 * Does not own: failures in other steps (tests/ir/oom_test.c).
 * Next: raising.h. */
#include "tests/patterns/raising.h"
#include "tests/patterns/spellings.h"

/* True when the run got through without meeting the failure. */
static bool survive(const spelling *which, uint64_t fail_after) {
    bench b;
    raise_open(&b, which->inputs, which->body, "%y");
    uint64_t at = b.check.allocations + fail_after;
    b.check.fail_at = at;
    bool changed = false;
    qf_status status = QF_ERROR_OUT_OF_MEMORY;
    qf_symbolic *symbolic = qf_symbolic_create(b.graph);
    if (symbolic) {
        status = qf_attention_raise(b.graph, symbolic, QF_NUMERICS_RELAXED, &b.report, &changed);
        if (status == QF_OK)
            status = qf_attention_refine_masks(b.graph, symbolic, QF_NUMERICS_RELAXED, &b.report, &changed);
        qf_symbolic_destroy(symbolic);
    }
    bool met = b.check.allocations >= at;
    if (met)
        assert_int_equal(status, QF_ERROR_OUT_OF_MEMORY);
    else
        assert_int_equal(status, QF_OK);
    bench_close(&b);
    return !met;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(spellings); i++)
        for (uint64_t n = 1; !survive(&spellings[i], n); n++) assert_true(n < 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
