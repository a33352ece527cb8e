/* Owns: steps that copy bytes as they lie: copy, view, bitcast.
 * Does not own: layout changes (layout.c).
 * Next: launch.h. */
#include "kernels/cuda/launch.h"

qf_status qf_cuda_build_copy(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *from = &step->call.operands[0], *to = &step->call.results[0];
    uint64_t count = 1;
    for (uint32_t i = 0; i < to->rank; i++) count *= (uint64_t)to->dims[i];
    return qf_cuda_add_copy(recorder, to->data, from->data, (size_t)qf_dtype_bytes(to->dtype, count));
}
