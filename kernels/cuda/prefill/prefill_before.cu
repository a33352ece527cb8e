// Owns: the kernels that transpose V before attention, one a head dim. Nothing else. Read next: before.cuh.
#include "before.cuh"

#define QF_PREFILL_BEFORE(head_dim)                                                                                    \
    extern "C" __global__ void __launch_bounds__(QF_PREFILL_BEFORE_THREADS)                                            \
        qf_prefill_before_d##head_dim(const __grid_constant__ qf_prefill_params p) {                                   \
        qfuse::prefill::transpose_before<qfuse::prefill::PanelConfig<head_dim>>(p);                                    \
    }
QF_PREFILL_BEFORE(64)
QF_PREFILL_BEFORE(128)
QF_PREFILL_BEFORE(256)
