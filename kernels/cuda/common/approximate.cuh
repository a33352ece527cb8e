// Owns: functions composed of approximate instructions, for results of at most 16 bits, which lose what those err by.
// Does not own: functions as the CPU composes them (functions.cuh).
// Read next: convert.cuh.
#pragma once

#include "kernels/cuda/common/convert.cuh"

namespace qfuse {

// 1 / (1 + e to the -x). A quarter of the divisor has a reciprocal that is no subnormal number.
__device__ __forceinline__ float sigmoid_approximate(float x) {
    return 0.25f * reciprocal_approximate(fmaf(exp2_approximate(-1.44269504f * x), 0.25f, 0.25f));
}

} // namespace qfuse
