// Owns: what both kernels for elementwise programs share: where an operand's element lies.
// Does not own: the program (kernels/cuda/elementwise.h).
// Read next: elementwise.cu.
#pragma once

#include "kernels/cuda/common/element.cuh"
#include "kernels/cuda/common/loops.cuh"
#include "kernels/cuda/elementwise.h"

namespace qfuse {

constexpr int VECTOR = QF_ELEMENTWISE_VECTOR;

// The element of the operand that belongs to element `index` of the program.
__device__ __forceinline__ int64_t locate_operand(const qf_elementwise_params &params,
                                                  const qf_elementwise_tensor &tensor, int64_t index) {
    if (tensor.kind <= QF_ELEMENTWISE_ALIGNED) return index;
    int64_t offset = 0;
    for (uint32_t i = 0; i < tensor.rank; i++) {
        const qf_elementwise_loop &loop = params.loops[tensor.first_loop + i];
        int64_t coordinate = index;
        if (i + 1 < tensor.rank) {
            if (params.narrow) {
                const uint32_t n = (uint32_t)index, quotient = (__umulhi(n, loop.magic) + n) >> loop.shift;
                coordinate = n - quotient * (uint32_t)loop.size;
                index = quotient;
            } else {
                const int64_t quotient = index / loop.size;
                coordinate = index - quotient * loop.size;
                index = quotient;
            }
        }
        offset += coordinate * loop.stride;
    }
    return offset;
}

} // namespace qfuse
