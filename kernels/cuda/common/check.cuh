// Owns: ending a program when a call of the CUDA runtime fails; for benches and harnesses, never for the library.
// Does not own: errors that a program expects.
// Read next: bench/decode/decode_bench.cu, tests/gpu/common/harness.cuh.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const cudaError_t check_error = (call);                                                                        \
        if (check_error != cudaSuccess) {                                                                              \
            std::printf("FATAL %s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_error));           \
            std::fflush(stdout);                                                                                       \
            std::_Exit(3);                                                                                             \
        }                                                                                                              \
    } while (0)
