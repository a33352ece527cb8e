// Owns: the macro that gives one variant its C name, qf_paged_decode_<kv>_d<head dim>_r<row tiles>.
// Does not own: the kernel (kernel.cuh) and the list of variants (config.h).
// Read next: kernel.cuh.
#pragma once

#include "kernel.cuh"

#define QF_DECODE_INSTANTIATE(KV, kv, head_dim, row_tiles)                                                             \
    extern "C" __global__ void __launch_bounds__(                                                                      \
        qfuse::decode::Config<QF_DECODE_##KV, head_dim, row_tiles>::kThreads,                                          \
        qfuse::decode::Config<QF_DECODE_##KV, head_dim, row_tiles>::kResidency)                                        \
        qf_paged_decode_##kv##_d##head_dim##_r##row_tiles(const __grid_constant__ qf_decode_params p) {                \
        qfuse::decode::paged_decode<qfuse::decode::Config<QF_DECODE_##KV, head_dim, row_tiles>>(p);                    \
    }
