// Owns: a complete decode launch through the CUDA runtime, for the bench and the accuracy harness: tensor maps,
// variant table, launch attributes.
// Does not own: the choices (select.h); the library's executor launches through the driver API instead.
// Read next: bench/decode/decode_bench.cu.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "kernels/cuda/common/encode.cuh"
#include "params.h"
#include "select.h"

#define QF_DECODE_DECLARE(KV, kv, head_dim, row_tiles)                                                                 \
    extern "C" __global__ void qf_paged_decode_##kv##_d##head_dim##_r##row_tiles(                                      \
        const __grid_constant__ qf_decode_params p);
QF_DECODE_VARIANTS(QF_DECODE_DECLARE)
#undef QF_DECODE_DECLARE

namespace qfuse::decode {

// A paged cache in device memory. Strides in bytes; NHD and HND differ in them alone.
struct Cache {
    void *base;
    int64_t pages;
    int64_t page_stride, token_stride, head_stride;
    CUtensorMapL2promotion promotion;
};

inline Cache make_cache(void *base, int64_t pages, const qf_decode_problem &problem, bool head_major) {
    const int64_t row = qf_decode_row_bytes(qf_decode_element_bytes(problem.kv_dtype), problem.head_dim);
    const int64_t tokens = problem.page_size, heads = problem.kv_heads;
    Cache cache = {base, pages, row * tokens * heads, row * heads, row, CU_TENSOR_MAP_L2_PROMOTION_L2_128B};
    if (head_major) cache.token_stride = row, cache.head_stride = row * tokens;
    return cache;
}

inline const void *find_kernel(const qf_decode_problem &problem, int row_tiles) {
#define QF_DECODE_MATCH(KV, kv, dim, tiles)                                                                            \
    if (problem.kv_dtype == QF_DECODE_##KV && problem.head_dim == dim && row_tiles == tiles) {                         \
        return reinterpret_cast<const void *>(qf_paged_decode_##kv##_d##dim##_r##tiles);                               \
    }
    QF_DECODE_VARIANTS(QF_DECODE_MATCH)
#undef QF_DECODE_MATCH
    return nullptr;
}

// Encodes one cache as a 4-d tensor of bytes: row, token in page, KV head, page. A dimension of one element may have
// any stride; TMA wants multiples of 16, so it gets the row's size.
inline bool encode_cache(const Cache &cache, const qf_decode_problem &problem, int box_bytes,
                         qf_decode_tensor_map *out) {
    const EncodeTensorMap encode = find_encode();
    if (encode == nullptr) return false;
    const int64_t row = qf_decode_row_bytes(qf_decode_element_bytes(problem.kv_dtype), problem.head_dim);
    const auto stride = [&](int64_t extent, int64_t bytes) {
        return static_cast<cuuint64_t>(extent == 1 ? row : bytes);
    };
    const cuuint64_t extents[4] = {static_cast<cuuint64_t>(row), static_cast<cuuint64_t>(problem.page_size),
                                   static_cast<cuuint64_t>(problem.kv_heads), static_cast<cuuint64_t>(cache.pages)};
    const cuuint64_t strides[3] = {stride(problem.page_size, cache.token_stride),
                                   stride(problem.kv_heads, cache.head_stride), stride(cache.pages, cache.page_stride)};
    const cuuint32_t box[4] = {static_cast<cuuint32_t>(box_bytes), QF_DECODE_TILE, 1, 1};
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    CUtensorMap map;
    const CUresult result =
        encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, cache.base, extents, strides, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, box_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
               cache.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    static_assert(sizeof map == sizeof *out, "tensor map size");
    std::memcpy(out, &map, sizeof map);
    return result == CUDA_SUCCESS;
}

// Fills what follows from the problem and the choice; pointers, strides of q and out, scales and attributes that are
// not plain decode stay the caller's.
inline qf_decode_params make_params(const qf_decode_problem &problem, const qf_decode_choice &choice) {
    qf_decode_params p;
    std::memset(&p, 0, sizeof p);
    p.q_head_stride = p.out_head_stride = problem.head_dim;
    p.q_token_stride = p.out_token_stride = static_cast<int64_t>(problem.head_dim) * problem.kv_heads * problem.group;
    p.softmax_scale = 1.0f;
    p.window_left = -1;
    p.causal = 1;
    p.batch = problem.batch;
    p.kv_heads = problem.kv_heads;
    p.group = problem.group;
    p.q_tokens = problem.q_tokens;
    p.token_rows = problem.batch * problem.q_tokens;
    p.max_kv_len = static_cast<int32_t>(problem.max_kv_len);
    p.rows = problem.q_tokens * problem.group;
    p.group_magic = ((1 << 20) + problem.group - 1) / problem.group;
    p.row_blocks = choice.row_blocks;
    p.bundle_shift = choice.bundle_shift;
    p.cluster_shift = choice.cluster_shift;
    for (int i = 0; i < 4; ++i) p.active[i] = choice.active[i];
    while ((1 << p.page_shift) < problem.page_size) ++p.page_shift;
    p.q_dtype = problem.q_dtype;
    p.out_dtype = problem.out_dtype;
    p.via = QF_DECODE_NONE;
    p.stages = choice.stages;
    p.tiles_a_cta_shift = 3;
    return p;
}

// Forces the number of KV heads that a CTA walks together (tests and experiments); it must divide kv_heads.
inline void force_bundle(qf_decode_params *p, int bundle) {
    p->fixed_bundle = 1;
    p->bundle_shift = bundle == 8 ? 3 : bundle == 4 ? 2 : bundle == 2 ? 1 : 0;
}

// Enqueues one launch of a kernel of the problem's variant. `dependent` allows it to start while its predecessor in the
// stream still runs.
inline cudaError_t launch_kernel(const void *kernel, const qf_decode_problem &problem, const qf_decode_choice &choice,
                                 const qf_decode_params &p, bool dependent, cudaStream_t stream) {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const size_t shared = qf_decode_shared_bytes(problem.kv_dtype, problem.head_dim, choice.row_tiles, p.rows,
                                                 problem.batch, p.stages, p.cluster_shift);
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (error != cudaSuccess) return error;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(choice.ctas);
    config.blockDim = dim3(choice.threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    cudaLaunchAttribute attributes[3];
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = dependent ? 1 : 0;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = 1u << choice.cluster_shift;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    attributes[2].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
    attributes[2].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicyLoadBalancing;
    config.attrs = attributes;
    config.numAttrs = choice.cluster_shift > 0 ? 3 : 1;
    if (choice.cluster_shift > 3) {
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
        if (error != cudaSuccess) return error;
    }
    void *arguments[] = {const_cast<qf_decode_params *>(&p)};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

inline cudaError_t launch(const qf_decode_problem &problem, const qf_decode_choice &choice, const qf_decode_params &p,
                          bool dependent, cudaStream_t stream) {
    return launch_kernel(find_kernel(problem, choice.row_tiles), problem, choice, p, dependent, stream);
}

} // namespace qfuse::decode
