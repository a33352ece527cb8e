// Owns: Hopper's warpgroup matrix instructions: descriptors, ordering, and one function a shape, overloaded by the size
// of the accumulator array.
// Does not own: shared-memory layouts beyond what a descriptor says.
// Read next: the kernel that uses it.
//
// Accumulator layout of m64nN, lane = 4 * g + t of warp w: row 16w + g and row 16w + g + 8 in turn, columns 8j + 2t and
// 8j + 2t + 1. f32: d[4j], d[4j + 1] are the first row's two columns, d[4j + 2], d[4j + 3] the second row's. f16: d[2j]
// holds the first row's pair, d[2j + 1] the second's.
// 8-bit A from registers: a[0], a[1] are rows g and g + 8, columns 4t .. 4t + 3; a[2], a[3] the same of columns + 16.
#pragma once

#include <cstdint>

namespace qfuse {

// Widths of a shared-memory row, as TMA swizzles it.
enum class Swizzle : uint32_t { k128Bytes = 1, k64Bytes = 2 };

// Descriptor of a K-major operand: rows of 128 (64) bytes, eight rows after another, swizzled. Only the lower half
// depends on the place, in units of 16 bytes, so places are added to it: 32 bytes along a row are 2.
template <Swizzle Width>
struct MatrixDescriptor {
    uint32_t low;

    // `address`: of the first row, aligned to eight rows.
    __device__ __forceinline__ static MatrixDescriptor at(uint32_t address) {
        return {(address >> 4) + 0x10000u};
    }
    __device__ __forceinline__ MatrixDescriptor operator+(uint32_t units) const {
        return {low + units};
    }
    __device__ __forceinline__ operator uint64_t() const {
        constexpr uint32_t kEightRows = Width == Swizzle::k128Bytes ? 64 : 32;
        constexpr uint32_t kHigh = kEightRows | static_cast<uint32_t>(Width) << 30;
        return static_cast<uint64_t>(kHigh) << 32 | low;
    }
};

// Before the first matrix instruction that touches registers which ordinary instructions wrote.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// All but the newest `Pending` groups are complete.
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Ties registers to this place, so that the compiler moves no use of an accumulator over a fence or a wait.
template <int N>
__device__ __forceinline__ void wgmma_pin(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

template <int N>
__device__ __forceinline__ void wgmma_pin(uint32_t (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// clang-format off
#define QF_EACH_4(op, d, i) op(d[i]), op(d[i + 1]), op(d[i + 2]), op(d[i + 3])
#define QF_EACH_16(op, d, i) QF_EACH_4(op, d, i), QF_EACH_4(op, d, i + 4), QF_EACH_4(op, d, i + 8), QF_EACH_4(op, d, i + 12)
#define QF_EACH_32(op, d, i) QF_EACH_16(op, d, i), QF_EACH_16(op, d, i + 16)
#define QF_EACH_64(op, d, i) QF_EACH_32(op, d, i), QF_EACH_32(op, d, i + 32)
#define QF_FLOAT(x) "+f"(x)
#define QF_WORD(x) "+r"(x)

// Both operands from shared memory, f16 accumulators.
template <bool Accumulate>
__device__ __forceinline__ void wgmma_e4m3(uint32_t (&d)[32], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.f16.e4m3.e4m3 "
    "{"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31 "
    "}"
    ", %32, %33, %34, 1, 1;" : QF_EACH_32(QF_WORD, d, 0) : "l"(a), "l"(b), "n"(Accumulate ? 1 : 0));
}

template <bool Accumulate>
__device__ __forceinline__ void wgmma_e4m3(uint32_t (&d)[64], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.f16.e4m3.e4m3 "
    "{"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63 "
    "}"
    ", %64, %65, %66, 1, 1;" : QF_EACH_64(QF_WORD, d, 0) : "l"(a), "l"(b), "n"(Accumulate ? 1 : 0));
}

// Both operands from shared memory, f32 accumulators.
template <bool Accumulate>
__device__ __forceinline__ void wgmma_e4m3(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
    "{"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63 "
    "}"
    ", %64, %65, %66, 1, 1;" : QF_EACH_64(QF_FLOAT, d, 0) : "l"(a), "l"(b), "n"(Accumulate ? 1 : 0));
}

// A from registers, f32 accumulators.
template <bool Accumulate>
__device__ __forceinline__ void wgmma_e4m3(float (&d)[4], const uint32_t *a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 "
    "{"
    "%0, %1, %2, %3 "
    "}"
    ", {%4, %5, %6, %7}, %8, %9, 1, 1;" : QF_EACH_4(QF_FLOAT, d, 0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Accumulate ? 1 : 0));
}

template <bool Accumulate>
__device__ __forceinline__ void wgmma_e4m3(float (&d)[32], const uint32_t *a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
    "{"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31 "
    "}"
    ", {%32, %33, %34, %35}, %36, %37, 1, 1;" : QF_EACH_32(QF_FLOAT, d, 0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Accumulate ? 1 : 0));
}

template <bool Accumulate>
__device__ __forceinline__ void wgmma_e4m3(float (&d)[64], const uint32_t *a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
    "{"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63 "
    "}"
    ", {%64, %65, %66, %67}, %68, %69, 1, 1;" : QF_EACH_64(QF_FLOAT, d, 0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Accumulate ? 1 : 0));
}

#undef QF_EACH_4
#undef QF_EACH_16
#undef QF_EACH_32
#undef QF_EACH_64
#undef QF_FLOAT
#undef QF_WORD
// clang-format on

} // namespace qfuse
