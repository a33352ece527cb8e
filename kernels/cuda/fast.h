/* Owns: what builders of kernels that are limited by memory share: compact dtypes, alignment, launch geometry, outputs.
 * Does not own: the recorder (launch.h).
 * Next: launch.h. */
#ifndef QF_KERNELS_CUDA_FAST_H
#define QF_KERNELS_CUDA_FAST_H

#include "kernels/cuda/builder.h"
#include "kernels/cuda/output.h"

/* Most CTAs along x; kernels step over what is left. */
#define QF_CUDA_MOST_BLOCKS 0x7FFFFFFF

static inline int64_t qf_cuda_divide_up(int64_t count, int64_t by) {
    return count / by + (count % by != 0);
}

static inline uint32_t qf_cuda_blocks(int64_t count) {
    return count < 1 ? 1 : count > QF_CUDA_MOST_BLOCKS ? QF_CUDA_MOST_BLOCKS : (uint32_t)count;
}

static inline uint32_t qf_cuda_threads(int64_t useful, uint32_t most) {
    return useful > (int64_t)most ? most : (uint32_t)(useful < 32 ? 32 : (useful + 31) / 32 * 32);
}

/* Vectors of `count` elements of `dtype` may be loaded from `data` on. */
static inline bool qf_cuda_is_aligned(const void *data, qf_dtype dtype, uint32_t count) {
    uint64_t bytes = qf_dtype_bytes(dtype, count);
    return (uintptr_t)data % (bytes < 16 ? bytes : 16) == 0;
}

/* The dtypes of common/fast_vector.cuh. */
static inline bool qf_cuda_is_fast(qf_dtype dtype) {
    return dtype == QF_F32 || dtype == QF_F16 || dtype == QF_BF16 || dtype == QF_F8E4M3FN || dtype == QF_F8E5M2;
}

/* Kernels start while their predecessor ends where the target can. */
static inline bool qf_cuda_is_dependent(const qf_cuda_recorder *recorder) {
    return recorder->target >= QF_TARGET_sm_90a;
}

/* Plain rounding to the result's dtype, or quantisation by out_scale, which has to be one number; `mode`, `compute` and
 * `via` are attribute indices, UINT32_MAX for an op without the attribute. */
static inline qf_status qf_cuda_output_of(const qf_kernel_step *step, const qf_view *result, const qf_view *out_scale,
                                          uint32_t mode, uint32_t compute, uint32_t via, qf_cuda_output *out) {
    const qf_kernel_attribute *attributes = step->call.attributes;
    *out = (qf_cuda_output){.dtype = result->dtype, .mode = QF_VALUE_div, .compute = QF_F32, .saturate = 1};
    if (!out_scale) return QF_OK;
    QF_CUDA_EXPECT(step, qf_view_count(out_scale) == 1, "a scalar out_scale");
    out->scale = out_scale->data;
    out->scale_dtype = out_scale->dtype;
    if (mode != UINT32_MAX) out->mode = (uint32_t)attributes[mode].integer;
    if (compute != UINT32_MAX) out->compute = (uint32_t)attributes[compute].integer;
    if (via != UINT32_MAX) out->via = (uint32_t)attributes[via].integer;
    return QF_OK;
}

#endif
