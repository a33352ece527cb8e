// Owns: a variant of one decode kernel whose warps sleep for random times between their steps.
// Does not own: the comparison with the kernel that does not (robustness.cuh).
// Read next: kernels/cuda/decode/kernel.cuh, QF_DECODE_JITTER.
#define QF_DECODE_JITTER
#include "kernels/cuda/decode/kernel.cuh"

typedef qfuse::decode::Config<QF_DECODE_E4M3, 128, 1> JitterConfig;

extern "C" __global__ void __launch_bounds__(JitterConfig::kThreads, JitterConfig::kResidency)
    qf_paged_decode_jitter(const __grid_constant__ qf_decode_params p) {
    qfuse::decode::paged_decode<JitterConfig>(p);
}
