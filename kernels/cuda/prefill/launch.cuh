// Owns: a complete prefill launch through the CUDA runtime, for the bench and the accuracy harness: tensor maps,
// variant table, launch attributes. Does not own: the choices (select.h); the library's executor launches through the
// driver API instead. Read next: bench/prefill/prefill_bench.cu.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

#include "params.h"
#include "select.h"

#define QF_PREFILL_DECLARE(DTYPE, dtype, head_dim, SCORES, scores)                                                     \
    extern "C" __global__ void qf_prefill_##dtype##_d##head_dim##_##scores(const __grid_constant__ qf_prefill_params p);
QF_PREFILL_VARIANTS(QF_PREFILL_DECLARE)
#undef QF_PREFILL_DECLARE

namespace qfuse::prefill {

inline const void *find_kernel(qf_prefill_form form) {
#define QF_PREFILL_MATCH(DTYPE, dtype_name, dim, SCORES, score_name)                                                   \
    if (form.dtype == QF_PREFILL_##DTYPE && form.head_dim == dim && form.scores == QF_PREFILL_SCORES_##SCORES) {       \
        return reinterpret_cast<const void *>(qf_prefill_##dtype_name##_d##dim##_##score_name);                        \
    }
    QF_PREFILL_VARIANTS(QF_PREFILL_MATCH)
#undef QF_PREFILL_MATCH
    return nullptr;
}

inline bool encode_map(const qf_prefill_map &plan, qf_prefill_tensor_map *out) {
    typedef CUresult (*Encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                               const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                               CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static Encode encode = nullptr;
    if (encode == nullptr) {
        void *entry = nullptr;
        cudaDriverEntryPointQueryResult status;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &status) !=
            cudaSuccess) {
            return false;
        }
        encode = reinterpret_cast<Encode>(entry);
    }
    cuuint64_t extents[5], strides[4];
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    for (uint32_t i = 0; i < plan.rank; ++i) extents[i] = plan.extents[i];
    for (uint32_t i = 0; i + 1 < plan.rank; ++i) strides[i] = plan.strides[i];
    CUtensorMap map;
    const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, plan.rank, plan.address, extents, strides,
                                   plan.box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                   plan.swizzle_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                                   plan.promotion_bytes == 256   ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                   : plan.promotion_bytes == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                                                 : CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    static_assert(sizeof map == sizeof *out, "tensor map size");
    std::memcpy(out, &map, sizeof map);
    return result == CUDA_SUCCESS;
}

// Encodes the three maps of a launch; false where the driver refuses one.
inline bool encode_maps(const qf_prefill_problem &problem, const qf_prefill_tensor &q, const qf_prefill_tensor &k,
                        const qf_prefill_tensor &v, qf_prefill_params *p) {
    qf_prefill_map plan;
    qf_prefill_describe_query(&problem, &q, &plan);
    if (!encode_map(plan, &p->q_map)) return false;
    qf_prefill_describe_keys(&problem, &k, &plan);
    if (!encode_map(plan, &p->k_map)) return false;
    qf_prefill_describe_keys(&problem, &v, &plan);
    return encode_map(plan, &p->v_map);
}

// Enqueues one launch of a kernel. `dependent` allows it to start while its predecessor in the stream still runs.
inline cudaError_t launch_kernel(const void *kernel, const qf_prefill_choice &choice, const qf_prefill_params &p,
                                 bool dependent, cudaStream_t stream) {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(choice.shared_bytes));
    if (error != cudaSuccess) return error;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(choice.ctas);
    config.blockDim = dim3(choice.threads);
    config.dynamicSmemBytes = choice.shared_bytes;
    config.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = dependent ? 1 : 0;
    config.attrs = &attribute;
    config.numAttrs = 1;
    void *arguments[] = {const_cast<qf_prefill_params *>(&p)};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

inline cudaError_t launch(const qf_prefill_problem &problem, const qf_prefill_choice &choice,
                          const qf_prefill_params &p, bool dependent, cudaStream_t stream) {
    return launch_kernel(find_kernel(choice.form), choice, p, dependent, stream);
}

} // namespace qfuse::prefill
