// Owns: the macro that gives one variant its C name, qf_prefill_<dtype>_d<head dim>_<scores>[_before].
// Does not own: the kernel (kernel.cuh) and the list of variants (config.h).
// Read next: kernel.cuh.
#pragma once

#include "kernel.cuh"

#define QF_PREFILL_INSTANTIATE(DTYPE, dtype, head_dim, SCORES, scores, TRANSPOSE, end)                                 \
    extern "C" __global__ void __launch_bounds__(                                                                      \
        qf_prefill_threads(                                                                                            \
            {QF_PREFILL_##DTYPE, head_dim, QF_PREFILL_SCORES_##SCORES, QF_PREFILL_TRANSPOSE_##TRANSPOSE}),             \
        1) qf_prefill_##dtype##_d##head_dim##_##scores##end(const __grid_constant__ qf_prefill_params p) {             \
        qfuse::prefill::prefill<qfuse::prefill::Config<QF_PREFILL_##DTYPE, head_dim, QF_PREFILL_SCORES_##SCORES,       \
                                                       QF_PREFILL_TRANSPOSE_##TRANSPOSE>>(p);                          \
    }
