/* Owns: steps that copy bytes as they lie: copy, view, bitcast.
 * Does not own: layout changes (layout.c).
 * Next: launch.h. */
#include "kernels/cuda/builder.h"

qf_status qf_cuda_build_copy(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_view *from = &step->call.operands[0], *to = &step->call.results[0];
    return qf_cuda_add_copy(recorder, to->data, from->data, qf_view_bytes(to));
}
