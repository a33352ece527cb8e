// Owns: a complete prefill launch through the CUDA runtime, for the bench and the accuracy harness: tensor maps,
// variant table, launch attributes. Does not own: the choices (select.h); the library's executor launches through the
// driver API instead. Read next: bench/prefill/prefill_bench.cu.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

#include "kernels/cuda/common/encode.cuh"
#include "params.h"
#include "select.h"

#define QF_PREFILL_DECLARE(DTYPE, dtype, head_dim, SCORES, scores, TRANSPOSE, end)                                     \
    extern "C" __global__ void qf_prefill_##dtype##_d##head_dim##_##scores##end(                                       \
        const __grid_constant__ qf_prefill_params p);
QF_PREFILL_VARIANTS(QF_PREFILL_DECLARE)
#undef QF_PREFILL_DECLARE
extern "C" __global__ void qf_prefill_before_d64(const __grid_constant__ qf_prefill_params p);
extern "C" __global__ void qf_prefill_before_d128(const __grid_constant__ qf_prefill_params p);
extern "C" __global__ void qf_prefill_before_d256(const __grid_constant__ qf_prefill_params p);

namespace qfuse::prefill {

inline const void *find_kernel(qf_prefill_form form) {
#define QF_PREFILL_MATCH(DTYPE, dtype_name, dim, SCORES, score_name, TRANSPOSE, end)                                   \
    if (form.dtype == QF_PREFILL_##DTYPE && form.head_dim == dim && form.scores == QF_PREFILL_SCORES_##SCORES &&       \
        form.transpose == QF_PREFILL_TRANSPOSE_##TRANSPOSE) {                                                          \
        return reinterpret_cast<const void *>(qf_prefill_##dtype_name##_d##dim##_##score_name##end);                   \
    }
    QF_PREFILL_VARIANTS(QF_PREFILL_MATCH)
#undef QF_PREFILL_MATCH
    return nullptr;
}

inline bool encode_map(const qf_prefill_map &plan, qf_prefill_tensor_map *out) {
    const EncodeTensorMap encode = find_encode();
    if (encode == nullptr) return false;
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
    qf_prefill_describe_values(&problem, &v, &plan);
    return encode_map(plan, &p->v_map);
}

// Enqueues one kernel. `dependent` allows it to start while its predecessor in the stream still runs.
inline cudaError_t enqueue(const void *kernel, unsigned ctas, unsigned cluster, unsigned threads, size_t shared_bytes,
                           const qf_prefill_params &p, bool dependent, cudaStream_t stream) {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(ctas);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    cudaLaunchAttribute attributes[2];
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = dependent ? 1 : 0;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = cluster, attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    config.attrs = attributes;
    config.numAttrs = cluster > 1 ? 2 : 1;
    void *arguments[] = {const_cast<qf_prefill_params *>(&p)};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

// Enqueues an attention kernel, after the transposition of V where the choice has one.
inline cudaError_t launch_kernel(const void *kernel, const qf_prefill_choice &choice, const qf_prefill_params &p,
                                 bool dependent, cudaStream_t stream) {
    if (choice.before_ctas > 0) {
        const int head_dim = choice.form.head_dim;
        const void *before = head_dim == 64    ? reinterpret_cast<const void *>(qf_prefill_before_d64)
                             : head_dim == 128 ? reinterpret_cast<const void *>(qf_prefill_before_d128)
                                               : reinterpret_cast<const void *>(qf_prefill_before_d256);
        const cudaError_t error = enqueue(before, choice.before_ctas, 1, QF_PREFILL_BEFORE_THREADS,
                                          qf_prefill_before_bytes(choice.form), p, dependent, stream);
        if (error != cudaSuccess) return error;
        dependent = true;
    }
    return enqueue(kernel, choice.ctas, choice.cluster, choice.threads, choice.shared_bytes, p, dependent, stream);
}

inline cudaError_t launch(const qf_prefill_problem &problem, const qf_prefill_choice &choice,
                          const qf_prefill_params &p, bool dependent, cudaStream_t stream) {
    return launch_kernel(find_kernel(choice.form), choice, p, dependent, stream);
}

} // namespace qfuse::prefill
