// Owns: bulk tensor copies (TMA) from global to shared memory.
// Does not own: descriptors (the host encodes them) and barriers (barrier.cuh).
// Read next: the kernel that uses it.
#pragma once

#include <cstdint>

namespace qfuse {

// L2 policy for data that is read once.
constexpr uint64_t kEvictFirst = 0x12F0000000000000ull;
// L2 policy without preference.
constexpr uint64_t kEvictNormal = 0x1000000000000000ull;

__device__ __forceinline__ void tensor_map_prefetch(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Starts the copy of one 4-d box; its bytes complete on `barrier`.
__device__ __forceinline__ void tensor_copy_4d(uint32_t destination, const void *map, int c0, int c1, int c2, int c3,
                                               uint32_t barrier, uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(destination),
                 "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(barrier), "l"(policy)
                 : "memory");
}

// The same into the shared memory of every CTA of the cluster in `ctas`, a bit each: place and barrier are those of
// this CTA, in each of them.
__device__ __forceinline__ void tensor_copy_4d_multicast(uint32_t destination, const void *map, int c0, int c1, int c2,
                                                         int c3, uint32_t barrier, uint16_t ctas, uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7, %8;" ::"r"(destination),
                 "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(barrier), "h"(ctas), "l"(policy)
                 : "memory");
}

// tensor_copy_4d of a 5-d box.
__device__ __forceinline__ void tensor_copy_5d(uint32_t destination, const void *map, int c0, int c1, int c2, int c3,
                                               int c4, uint32_t barrier, uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(destination),
                 "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(barrier), "l"(policy)
                 : "memory");
}

// Starts the copy of `bytes` neighbouring bytes, both ends aligned to 16.
__device__ __forceinline__ void bulk_copy(uint32_t destination, const void *source, uint32_t bytes, uint32_t barrier,
                                          uint64_t policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(destination),
                 "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}

// The same into several CTAs, as tensor_copy_4d_multicast.
__device__ __forceinline__ void bulk_copy_multicast(uint32_t destination, const void *source, uint32_t bytes,
                                                    uint32_t barrier, uint16_t ctas, uint64_t policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4, %5;" ::"r"(destination),
                 "l"(source), "r"(bytes), "r"(barrier), "h"(ctas), "l"(policy)
                 : "memory");
}

// The other way, as one group of this thread; returns when all is written.
__device__ __forceinline__ void bulk_store(void *destination, uint32_t source, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;" ::"l"(destination),
                 "r"(source), "r"(bytes)
                 : "memory");
}

// Starts the fetch of one 4-d box into L2. Coordinates outside the tensor fetch nothing.
__device__ __forceinline__ void tensor_prefetch_4d(const void *map, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1),
                 "r"(c2), "r"(c3)
                 : "memory");
}

} // namespace qfuse
