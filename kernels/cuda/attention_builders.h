/* Owns: how the builders of attention hand steps, or parts of steps, to one another.
 * Does not own: the builders (attention.c, decode.c, prefill.c).
 * Next: launch.h. */
#ifndef QF_KERNELS_CUDA_ATTENTION_BUILDERS_H
#define QF_KERNELS_CUDA_ATTENTION_BUILDERS_H

#include "kernels/cpu/attention.h"
#include "kernels/cuda/launch.h"

/* Both record attention or paged_attention (described by `at`, which qf_attention_describe filled) for the sequences of
 * a packed batch that have at least `least_rows` rows, and for rows that belong to no sequence; a kernel that was
 * recorded before has dealt with the others. 0, and steps without q_start: everything. */

/* With the general kernels, which take every step. */
qf_status qf_cuda_attend(qf_cuda_recorder *recorder, const qf_kernel_step *step, const qf_attention *at,
                         int64_t least_rows);

/* With the prefill kernels where they take the step, else with the general ones. */
qf_status qf_cuda_prefill(qf_cuda_recorder *recorder, const qf_kernel_step *step, const qf_attention *at,
                          int64_t least_rows);

/* The operands and attributes that kernels with limits look at one by one. */
typedef struct qf_cuda_attention_extras {
    const qf_view *p_scale, *out_scale;
    int64_t out_mode;
    qf_dtype out_compute, via;
} qf_cuda_attention_extras;
qf_cuda_attention_extras qf_cuda_attention_extras_of(const qf_kernel_step *step);

/* As copies by TMA and stores of 16 bytes want it. */
static inline bool qf_cuda_is_aligned_16(const qf_view *view) {
    return (uintptr_t)view->data % 16 == 0;
}

/* NULL, or the f32 scales that a kernel reads directly: false where they are of another type. */
static inline bool qf_cuda_f32_scale(const qf_view *view, const float **out_data, int32_t *out_stride) {
    int64_t count = 1;
    for (uint32_t i = 0; view && i < view->rank; i++) count *= view->dims[i];
    *out_data = view ? view->data : NULL;
    *out_stride = count > 1;
    return !view || view->dtype == QF_F32;
}

/* The four of them, into a block of parameters (the blocks name them alike). */
#define QF_CUDA_F32_SCALES(at, extras, params)                                                                         \
    (qf_cuda_f32_scale((at)->q_scale, &(params)->q_scale, &(params)->q_scale_stride) &&                                \
     qf_cuda_f32_scale((at)->k_scale, &(params)->k_scale, &(params)->k_scale_stride) &&                                \
     qf_cuda_f32_scale((at)->v_scale, &(params)->v_scale, &(params)->v_scale_stride) &&                                \
     qf_cuda_f32_scale((extras)->out_scale, &(params)->out_scale, &(params)->out_scale_stride))

#endif
