/* Owns: permute, slice, expand and pad as one copy by strides, with the checks of their shapes, for CPU and GPU alike.
 * Does not own: making the copy (cpu/support.c, cuda/layout.c).
 * Next: strided.c. */
#ifndef QF_KERNELS_STRIDED_H
#define QF_KERNELS_STRIDED_H

#include "kernels/view.h"

/* dims[0] x .. x dims[rank - 1] elements; offsets and strides count elements. A dim of 0: nothing is copied. */
typedef struct qf_strided_copy {
    uint32_t rank;
    int64_t dims[QF_MAX_RANK];
    int64_t from[QF_MAX_RANK], to[QF_MAX_RANK];
    int64_t from_offset, to_offset;
} qf_strided_copy;

/* QF_OK, or INVALID_ARGUMENT with call->message filled. Of pad: the part of x that stays, everything else is value. */
qf_status qf_strided_permute(const qf_kernel_call *call, qf_strided_copy *out);
qf_status qf_strided_expand(const qf_kernel_call *call, qf_strided_copy *out);
qf_status qf_strided_slice(const qf_kernel_call *call, qf_strided_copy *out);
qf_status qf_strided_pad(const qf_kernel_call *call, qf_strided_copy *out);
/* True when the views agree on every axis but one. */
bool qf_views_agree_except(const qf_view *a, const qf_view *b, int64_t axis);

#endif
