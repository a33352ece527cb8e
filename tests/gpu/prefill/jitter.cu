// Owns: variants of four prefill kernels whose warps sleep for random times between their steps.
// Does not own: the comparison with the kernel that does not (robustness.cuh).
// Read next: kernels/cuda/prefill/shared.cuh, QF_PREFILL_JITTER.
#define QF_PREFILL_JITTER
#include "kernels/cuda/prefill/kernel.cuh"

#define JITTER(DTYPE, dtype, head_dim, SCORES, TRANSPOSE, end)                                                         \
    extern "C" __global__ void __launch_bounds__(                                                                      \
        qf_prefill_threads(                                                                                            \
            {QF_PREFILL_##DTYPE, head_dim, QF_PREFILL_SCORES_##SCORES, QF_PREFILL_TRANSPOSE_##TRANSPOSE}),             \
        1) qf_prefill_jitter_##dtype##end(const __grid_constant__ qf_prefill_params p) {                               \
        qfuse::prefill::prefill<qfuse::prefill::Config<QF_PREFILL_##DTYPE, head_dim, QF_PREFILL_SCORES_##SCORES,       \
                                                       QF_PREFILL_TRANSPOSE_##TRANSPOSE>>(p);                          \
    }

JITTER(E4M3, e4m3, 128, F16, INSIDE, )
JITTER(E4M3, e4m3, 128, F16, BEFORE, _before)
JITTER(BF16, bf16, 128, F32, NONE, )
JITTER(BF16, bf16, 256, F32, NONE, _d256)
