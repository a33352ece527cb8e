// Owns: the accuracy and robustness harness of the prefill kernels: its list of tests.
// Does not own: the tests (accuracy.cuh, robustness.cuh), the reference (tests/gpu/common).
// Read next: setup.cuh, compare.cuh.
//
// prefill_accuracy [NAME-SUBSTRING]   runs all tests (or those whose name contains the argument), prints one line for
// each and a count; exit status 0 when all passed. A watchdog aborts the process when one test takes over a minute.
#include "accuracy.cuh"
#include "robustness.cuh"

using namespace harness;

int main(int argc, char **argv) {
    g_ctas = start(argc, argv);
    test_shapes();
    test_attributes();
    test_kernels();
    for (int dtype : {QF_PREFILL_E4M3, QF_PREFILL_BF16, QF_PREFILL_F16}) test_numerics(dtype);
    test_nan_stays();
    test_odd_scales();
    for (int dtype : {QF_PREFILL_E4M3, QF_PREFILL_BF16}) {
        for (int wish : {QF_PREFILL_WISH_INSIDE, QF_PREFILL_WISH_BEFORE, QF_PREFILL_WISH_SHARED}) {
            if (dtype == QF_PREFILL_BF16 && wish == QF_PREFILL_WISH_BEFORE) continue; // nothing is transposed
            test_replay(dtype, false, wish);
            test_replay(dtype, true, wish);
            test_overlap(dtype, wish, wish);
            test_jitter(dtype, wish);
            if (dtype == QF_PREFILL_BF16) test_jitter(dtype, wish, 256);
            test_large_cache(dtype, wish);
        }
    }
    test_overlap(QF_PREFILL_E4M3, QF_PREFILL_WISH_SHARED, QF_PREFILL_WISH_INSIDE);
    test_overlap(QF_PREFILL_E4M3, QF_PREFILL_WISH_DIVIDED, QF_PREFILL_WISH_DIVIDED);
    test_overlap(QF_PREFILL_E4M3, QF_PREFILL_WISH_DIVIDED, QF_PREFILL_WISH_INSIDE);
    test_jitter(QF_PREFILL_E4M3, QF_PREFILL_WISH_DIVIDED);
    return finish();
}
