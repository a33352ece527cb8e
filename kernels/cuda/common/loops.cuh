// Owns: where an index of a loop nest lies, and how a kernel of ours begins.
// Does not own: making the nests (kernels/cuda/loops.h).
// Read next: kernels/cuda/loops.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/loops.h"

namespace qfuse {

// The first thing that every kernel does: waits for what ran before it in the stream, where it was launched early, and
// lets the next one be launched early.
__device__ __forceinline__ void begin_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct located {
    int64_t from, to;
};

// Splits index by the loop's size: returns the coordinate, leaves the quotient. `narrow` is uniform.
__device__ __forceinline__ int64_t split_index(const qf_cuda_loop &loop, bool narrow, int64_t &index) {
    if (narrow) {
        const uint32_t n = (uint32_t)index, quotient = (__umulhi(n, loop.magic) + n) >> loop.shift;
        index = quotient;
        return n - quotient * (uint32_t)loop.size;
    }
    const int64_t quotient = index / loop.size, coordinate = index - quotient * loop.size;
    index = quotient;
    return coordinate;
}

__device__ __forceinline__ located locate(const qf_cuda_loops &loops, int64_t index) {
    located at = {0, 0};
    for (uint32_t i = 0; i < loops.rank; i++) {
        const qf_cuda_loop &loop = loops.loop[i];
        const int64_t coordinate = i + 1 < loops.rank ? split_index(loop, loops.narrow, index) : index;
        at.from += coordinate * loop.from;
        at.to += coordinate * loop.to;
    }
    return at;
}

} // namespace qfuse
