// Owns: the accuracy and robustness harness of the paged decode kernels: its list of tests.
// Does not own: the tests (accuracy.cuh, robustness.cuh), the reference (tests/gpu/common).
// Read next: tests/gpu/common/reference.h, setup.cuh.
//
// decode_accuracy [NAME-SUBSTRING]   runs all tests (or those whose name contains the argument), prints one line for
// each and a count; exit status 0 when all passed. A watchdog aborts the process when one test takes over a minute.
#include "accuracy.cuh"
#include "robustness.cuh"

using namespace harness;

int main(int argc, char **argv) {
    g_ctas = std::min(start(argc, argv), QF_DECODE_MAX_CTAS);
    test_shapes();
    test_attributes();
    test_query_range();
    test_empty();
    test_window_sweep();
    test_nan_stays();
    test_dirty_tickets();
    test_jitter();
    test_replay(false);
    test_replay(true);
    test_late_predecessor();
    test_overlap();
    test_large_cache();
    test_numerics();
    return finish();
}
