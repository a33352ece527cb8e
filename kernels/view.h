/* Owns: operands that may be absent, the geometry of views and the arithmetic of dtypes, for CPU kernels and builders
 * of GPU kernels alike. Does not own: the view itself (kernel.h). Next: cpu/cpu.h, cuda/builder.h. */
#ifndef QF_KERNELS_VIEW_H
#define QF_KERNELS_VIEW_H

#include "kernels/kernel.h"

/* NULL when an optional operand or result is absent. */
static inline const qf_view *qf_call_operand(const qf_kernel_call *call, uint32_t index) {
    return index < call->operand_count && call->operands[index].data ? &call->operands[index] : NULL;
}
static inline qf_view *qf_call_result(const qf_kernel_call *call, uint32_t index) {
    return index < call->result_count && call->results[index].data ? &call->results[index] : NULL;
}

/* Product of dims[first] .. dims[last - 1]. */
static inline int64_t qf_view_extent(const qf_view *view, uint32_t first, uint32_t last) {
    int64_t count = 1;
    for (uint32_t i = first; i < last; i++) count *= view->dims[i];
    return count;
}
static inline int64_t qf_view_count(const qf_view *view) {
    return qf_view_extent(view, 0, view->rank);
}
static inline size_t qf_view_bytes(const qf_view *view) {
    return (size_t)qf_dtype_bytes(view->dtype, (uint64_t)qf_view_count(view));
}
/* Row-major strides in elements. */
static inline void qf_view_strides(const qf_view *view, int64_t *out_strides) {
    int64_t stride = 1;
    for (uint32_t i = view->rank; i-- > 0;) {
        out_strides[i] = stride;
        stride *= view->dims[i];
    }
}

/* The arithmetic in which a dtype's elements are computed; GPU kernels know the numbers. */
typedef enum qf_domain { QF_DOMAIN_F32, QF_DOMAIN_F64, QF_DOMAIN_I64 } qf_domain;
static inline qf_domain qf_domain_of(qf_dtype dtype) {
    if (dtype == QF_F64) return QF_DOMAIN_F64;
    return qf_dtype_is_float(dtype) ? QF_DOMAIN_F32 : QF_DOMAIN_I64;
}

#endif
