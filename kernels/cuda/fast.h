/* Owns: what builders of kernels that are limited by memory share: compact dtypes, alignment, launch geometry, outputs.
 * Does not own: the recorder (launch.h).
 * Next: launch.h. */
#ifndef QF_KERNELS_CUDA_FAST_H
#define QF_KERNELS_CUDA_FAST_H

#include "kernels/cuda/builder.h"
#include "kernels/cuda/held_row.h"
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

/* Threads of a team that holds rows of `size` elements in registers, in runs of eight (common/held_row.cuh): a run each
 * up to a warp, then as many as hold the row by `runs` each. 0: such rows do not fit. */
static inline uint32_t qf_cuda_held_lanes(int64_t rows, int64_t size, uint32_t runs) {
    uint32_t lanes = 1;
    if (size <= 0 || size % 8 || size > QF_HELD_MOST || rows > INT32_MAX) return 0;
    if (size > 32 * 8 * (int64_t)runs) return (uint32_t)qf_cuda_divide_up(size, 32 * 8 * (int64_t)runs) * 32;
    while (lanes < 32 && (int64_t)lanes * 8 < size) lanes *= 2;
    return lanes;
}

/* Blocks take several rows each, so that one is on its way while another is worked on; more blocks than are resident,
 * so that they end together. */
static inline void qf_cuda_set_held_geometry(const qf_cuda_recorder *recorder, qf_cuda_launch *launch, int64_t rows,
                                             uint32_t lanes) {
    uint32_t threads = lanes > 32 ? lanes : 256;
    int64_t blocks = qf_cuda_divide_up(rows, threads / lanes);
    int64_t most = (int64_t)recorder->processor_count * (4096 / threads);
    launch->block[0] = threads;
    launch->grid[0] = qf_cuda_blocks(blocks < most ? blocks : most);
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
