// Owns: the driver's function that encodes tensor maps, for programs that launch through the CUDA runtime (benches and
// accuracy harnesses). Does not own: what is encoded (decode/launch.cuh, prefill/launch.cuh); the library's own way to
// the driver (runtime/cuda/driver.h).
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

namespace qfuse {

typedef CUresult (*EncodeTensorMap)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                    const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// Null where the driver has none.
inline EncodeTensorMap find_encode() {
    static EncodeTensorMap encode = nullptr;
    if (encode == nullptr) {
        void *entry = nullptr;
        cudaDriverEntryPointQueryResult status;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &status) !=
            cudaSuccess) {
            return nullptr;
        }
        encode = reinterpret_cast<EncodeTensorMap>(entry);
    }
    return encode;
}

} // namespace qfuse
