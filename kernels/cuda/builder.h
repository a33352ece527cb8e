/* Owns: what builders of GPU kernels share: extents, strides, refusals, the number of blocks.
 * Does not own: the recorder (launch.h), loops (loops.h).
 * Next: launch.h. */
#ifndef QF_KERNELS_CUDA_BUILDER_H
#define QF_KERNELS_CUDA_BUILDER_H

#include "kernels/cuda/launch.h"
#include "kernels/cuda/loops.h"

/* Product of dims[first] .. dims[last - 1]. */
static inline int64_t qf_cuda_extent(const qf_view *view, uint32_t first, uint32_t last) {
    int64_t count = 1;
    for (uint32_t i = first; i < last; i++) count *= view->dims[i];
    return count;
}
static inline int64_t qf_cuda_count(const qf_view *view) {
    return qf_cuda_extent(view, 0, view->rank);
}
static inline size_t qf_cuda_bytes(const qf_view *view) {
    return (size_t)qf_dtype_bytes(view->dtype, (uint64_t)qf_cuda_count(view));
}
/* Row-major strides in elements. */
static inline void qf_cuda_strides(const qf_view *view, int64_t *out_strides) {
    int64_t stride = 1;
    for (uint32_t i = view->rank; i-- > 0;) {
        out_strides[i] = stride;
        stride *= view->dims[i];
    }
}
static inline uint64_t qf_cuda_address(const qf_view *view) {
    return (uint64_t)(uintptr_t)view->data;
}

/* The arithmetic in which a dtype's elements are computed; kernels know the numbers. */
typedef enum qf_cuda_domain { QF_CUDA_F32, QF_CUDA_F64, QF_CUDA_I64 } qf_cuda_domain;
static inline qf_cuda_domain qf_cuda_domain_of(qf_dtype dtype) {
    if (dtype == QF_F64) return QF_CUDA_F64;
    return qf_dtype_is_float(dtype) ? QF_CUDA_F32 : QF_CUDA_I64;
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
