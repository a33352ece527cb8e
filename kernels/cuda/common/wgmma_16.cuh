// Owns: warpgroup matrix instructions of 16-bit operands with f32 accumulators, and the descriptor of an operand whose
// rows are the summed index.
// Does not own: ordering, accumulator layout, descriptors of K-major operands (wgmma.cuh).
// Read next: wgmma.cuh.
//
// A from registers: a[0], a[1] are rows g and g + 8, columns 2t and 2t + 1; a[2], a[3] the same of columns + 8. So two
// neighbouring groups of eight accumulator columns, packed in pairs, are an operand A.
#pragma once

#include <cstdint>

namespace qfuse {

// Operand B whose rows are the summed index: panels of 64 elements, each row 128 bytes, eight rows after another,
// swizzled; sixteen rows further are 128 units of 16 bytes.
struct RowsDescriptor {
    uint32_t low;

    // `address`: of the first row, aligned to eight rows; in a cluster the CTA's number lies above the place, where the
    // descriptor has the step between panels. `panel_bytes`: from one panel to the next.
    __device__ __forceinline__ static RowsDescriptor at(uint32_t address, uint32_t panel_bytes) {
        return {((address & 0x3FFFF) >> 4) + (panel_bytes >> 4 << 16)};
    }
    __device__ __forceinline__ RowsDescriptor operator+(uint32_t units) const {
        return {low + units};
    }
    __device__ __forceinline__ operator uint64_t() const {
        constexpr uint32_t kEightRows = 64, kSwizzle128Bytes = 1u << 30;
        return static_cast<uint64_t>(kEightRows | kSwizzle128Bytes) << 32 | low;
    }
};

// clang-format off
#define QF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define QF_8(d, i) QF_4(d, i), QF_4(d, i + 4)
#define QF_16(d, i) QF_8(d, i), QF_8(d, i + 8)
#define QF_32(d) QF_16(d, 0), QF_16(d, 16)
#define QF_40(d) QF_32(d), QF_8(d, 32)
#define QF_64(d) QF_32(d), QF_16(d, 32), QF_16(d, 48)
#define QF_96(d) QF_64(d), QF_16(d, 64), QF_16(d, 80)
#define QF_NAMES_4 "%0, %1, %2, %3"
#define QF_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define QF_NAMES_40 QF_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define QF_NAMES_64 QF_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define QF_NAMES_96 QF_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

// Both operands from shared memory, K-major.
#define QF_FROM_SHARED(n, count, names, d_registers, a_name, b_name, accumulate_name) \
template <bool Bf16, bool Accumulate> \
__device__ __forceinline__ void wgmma_16(float (&d)[count], uint64_t a, uint64_t b) { \
    if constexpr (Bf16) \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names "}, " a_name ", " b_name ", " \
                     accumulate_name ", 1, 1, 0, 0;" : d_registers : "l"(a), "l"(b), "n"(Accumulate ? 1 : 0)); \
    else \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" names "}, " a_name ", " b_name ", " \
                     accumulate_name ", 1, 1, 0, 0;" : d_registers : "l"(a), "l"(b), "n"(Accumulate ? 1 : 0)); \
}
QF_FROM_SHARED(80, 40, QF_NAMES_40, QF_40(d), "%40", "%41", "%42")
QF_FROM_SHARED(128, 64, QF_NAMES_64, QF_64(d), "%64", "%65", "%66")
QF_FROM_SHARED(192, 96, QF_NAMES_96, QF_96(d), "%96", "%97", "%98")

// A from registers; the rows of B are the summed index, or with `KMajor` its columns.
#define QF_FROM_REGISTERS(n, count, names, d_registers, a_names, b_name, accumulate_name) \
template <bool Bf16, bool Accumulate, bool KMajor = false> \
__device__ __forceinline__ void wgmma_16(float (&d)[count], const uint32_t *a, uint64_t b) { \
    if constexpr (Bf16 && KMajor) \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names "}, {" a_names "}, " b_name ", " \
                     accumulate_name ", 1, 1, 0;" : d_registers \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Accumulate ? 1 : 0)); \
    else if constexpr (Bf16) \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names "}, {" a_names "}, " b_name ", " \
                     accumulate_name ", 1, 1, 1;" : d_registers \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Accumulate ? 1 : 0)); \
    else if constexpr (KMajor) \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" names "}, {" a_names "}, " b_name ", " \
                     accumulate_name ", 1, 1, 0;" : d_registers \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Accumulate ? 1 : 0)); \
    else \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" names "}, {" a_names "}, " b_name ", " \
                     accumulate_name ", 1, 1, 1;" : d_registers \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(Accumulate ? 1 : 0)); \
}
QF_FROM_REGISTERS(8, 4, QF_NAMES_4, QF_4(d, 0), "%4, %5, %6, %7", "%8", "%9")
QF_FROM_REGISTERS(80, 40, QF_NAMES_40, QF_40(d), "%40, %41, %42, %43", "%44", "%45")
QF_FROM_REGISTERS(64, 32, QF_NAMES_32, QF_32(d), "%32, %33, %34, %35", "%36", "%37")
QF_FROM_REGISTERS(128, 64, QF_NAMES_64, QF_64(d), "%64, %65, %66, %67", "%68", "%69")

#undef QF_4
#undef QF_8
#undef QF_16
#undef QF_32
#undef QF_40
#undef QF_64
#undef QF_96
#undef QF_NAMES_4
#undef QF_NAMES_32
#undef QF_NAMES_40
#undef QF_NAMES_64
#undef QF_NAMES_96
#undef QF_FROM_SHARED
#undef QF_FROM_REGISTERS
// clang-format on

} // namespace qfuse
