/* Owns: what builders of GPU kernels share: addresses, refusals, the number of blocks.
 * Does not own: the recorder (launch.h), loops (loops.h), extents and strides (view.h).
 * Next: launch.h. */
#ifndef QF_KERNELS_CUDA_BUILDER_H
#define QF_KERNELS_CUDA_BUILDER_H

#include "kernels/cuda/launch.h"
#include "kernels/cuda/loops.h"
#include "kernels/view.h"

static inline uint64_t qf_cuda_address(const qf_view *view) {
    return (uint64_t)(uintptr_t)view->data;
}

/* INVALID_ARGUMENT with "<op>: expected <what>". */
qf_status qf_cuda_wrong(const qf_kernel_step *step, const char *what);
#define QF_CUDA_EXPECT(step, condition, what)                                                                          \
    do {                                                                                                               \
        if (!(condition)) return qf_cuda_wrong((step), (what));                                                        \
    } while (0)

/* A launch of `block` threads a block along x, with a thread an item but no more blocks than keep the device busy: the
 * kernel steps over the rest by the size of the grid. It begins with begin_kernel (common/loops.cuh), so that it may be
 * launched early. */
qf_cuda_launch *qf_cuda_add_grid(qf_cuda_recorder *recorder, const char *image, const char *kernel, size_t params_size,
                                 uint64_t items, uint32_t block);

#endif
