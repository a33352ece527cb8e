// Owns: a variant of one prefill kernel whose warps sleep for random times between their steps.
// Does not own: the comparison with the kernel that does not (robustness.cuh).
// Read next: kernels/cuda/prefill/shared.cuh, QF_PREFILL_JITTER.
#define QF_PREFILL_JITTER
#include "kernels/cuda/prefill/kernel.cuh"

extern "C" __global__ void __launch_bounds__(qf_prefill_threads({QF_PREFILL_E4M3, 128, QF_PREFILL_SCORES_F16}), 1)
    qf_prefill_jitter(const __grid_constant__ qf_prefill_params p) {
    qfuse::prefill::prefill<qfuse::prefill::Config<QF_PREFILL_E4M3, 128, QF_PREFILL_SCORES_F16>>(p);
}
