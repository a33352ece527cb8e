/* Owns: the interface by which builders that move whole bytes serve 4-bit elements as well.
 * Does not own: the builders.
 * Next: packed.c. */
#ifndef QF_KERNELS_CUDA_PACKED_H
#define QF_KERNELS_CUDA_PACKED_H

#include "kernels/cuda/builder.h"

/* An operand or result has 4-bit elements. */
bool qf_cuda_is_packed(const qf_kernel_step *step);
/* The step with every 4-bit tensor spread to one element a byte in scratch: unpacks the operands, has `build` record
 * the step on bytes, packs the results. */
qf_status qf_cuda_build_unpacked(qf_cuda_recorder *recorder, const qf_kernel_step *step, qf_cuda_builder build);

/* Bytes of one element each to packed 4-bit elements. */
qf_status qf_cuda_add_pack(qf_cuda_recorder *recorder, uint64_t from, const qf_view *y);
/* For kernels whose threads store single elements: where y has 4-bit elements, *out_y is an f32 tensor of its shape in
 * scratch, which qf_cuda_finish_rounded rounds into y after the kernel; else it is y. */
void qf_cuda_start_rounded(qf_cuda_recorder *recorder, const qf_view *y, qf_view *out_y);
qf_status qf_cuda_finish_rounded(qf_cuda_recorder *recorder, const qf_view *made, const qf_view *y);

#endif
