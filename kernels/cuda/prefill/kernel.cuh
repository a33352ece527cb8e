// Owns: the prefill attention kernel: the roles of its warpgroups and their set-up.
// Does not own: parameters (params.h), what each role does (load.cuh, transpose.cuh, consume.cuh).
// Read next: shared.cuh, then schedule.cuh.
//
// One persistent CTA a multiprocessor. Three (head dim 256: two) consumer warpgroups of 64 query rows each compute; one
// producer warpgroup has a warp that copies by TMA and three that transpose V. 8-bit matrix instructions want both
// operands with the summed index contiguous, so P V needs V^T. 16-bit ones take V as it lies: one warp copies keys, one
// values, one clears what lies past their end. Where many tiles of queries read a V, a launch before transposes it once
// (before.cuh): one warp copies V^T then, two have nothing to do, and two CTAs may share what is copied.
#pragma once

#include <cstddef>

#include "consume.cuh"
#include "direct.cuh"
#include "load.cuh"
#include "transpose.cuh"
#include "values.cuh"

namespace qfuse::prefill {

template <int Registers>
__device__ __forceinline__ void raise_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers>
__device__ __forceinline__ void lower_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// Parameters live in a constant bank that is cold at every launch: each warp touches one 64-byte line of what follows
// the tensor maps, so that the misses overlap instead of stopping a warp one after the other.
__device__ __forceinline__ void warm_parameters(const qf_prefill_params &p, int warp) {
    const int *words = reinterpret_cast<const int *>(&p.out);
    constexpr int kWords = (sizeof(qf_prefill_params) - offsetof(qf_prefill_params, out)) / 4;
    if (warp * 16 < kWords) {
        const int word = words[warp * 16];
        asm volatile("" ::"r"(word));
    }
}

// With QF_PREFILL_CLOCKS defined (bench only, dense) every CTA writes its SM clocks over `block_table`, a 64-bit word a
// CTA. Undefined, no code.
//
// Launch: grid and dynamic shared memory by qf_prefill_choose; programmatic stream serialisation allowed.
template <class C>
__device__ __forceinline__ void prefill(const qf_prefill_params &p) {
    extern __shared__ __align__(1024) uint8_t dynamic[];
    __shared__ __align__(8) Barriers<C> barriers;
    __shared__ __align__(16) Work work[C::kWorkSlots];
    trace<kTraceEntry>(p);
    trace<kTraceTime>(p);
    __shared__ Scales scales[C::kWorkSlots];
    const Shared<C> shared(dynamic, &barriers, work, scales);
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0), warpgroup = warp / 4;
    if (threadIdx.x == 0) {
        init_barriers<C>(barriers, p.cluster);
        tensor_map_prefetch(&p.q_map);
        tensor_map_prefetch(&p.k_map);
        if (!C::kShares) tensor_map_prefetch(&p.v_map);
    }
    if (threadIdx.x >= 64 && threadIdx.x < 128) { // ones, read in any order
        constexpr uint32_t kOnes = C::kElementBytes == 1 ? 0x38383838 : C::kBf16 ? 0x3F803F80 : 0x3C003C00;
        store_shared_16(shared.ones + (threadIdx.x - 64) * 16, make_uint4(kOnes, kOnes, kOnes, kOnes));
        async_proxy_fence();
    }
    warm_parameters(p, warp);
    if (C::kClusters && p.cluster > 1)
        cluster_sync();
    else
        __syncthreads();
    if (warpgroup == C::kConsumers) {
        lower_registers<C::kProducerRegisters>();
        if constexpr (C::kDirect) { // the loaders wait for the predecessor by themselves
            if (warp % 4 == 0) load_direct<C>(p, shared);
            if (warp % 4 == 1) load_values<C>(p, shared);
            if (warp % 4 == 2) clear_tails<C>(shared);
        } else if (warp % 4 == 0)
            load<C>(p, shared);
        else if constexpr (C::kTransposes)
            transpose<C>(p, shared, warp % 4 - 1);
        else if constexpr (C::kShares) {
            if (warp % 4 == 1) load_transposed<C>(p, shared);
        }
    } else {
        raise_registers<C::kConsumerRegisters>();
        wait_for_predecessor();
        trace<kTraceReleased>(p);
#ifdef QF_PREFILL_CLOCKS
        const long long begin = clock64();
#endif
        consume<C>(p, shared, warpgroup);
#ifdef QF_PREFILL_CLOCKS
        if (threadIdx.x == 0) {
            reinterpret_cast<long long *>(const_cast<int32_t *>(p.block_table))[blockIdx.x] = clock64() - begin;
        }
#endif
    }
    if (C::kClusters && p.cluster > 1) cluster_sync(); // neither leaves while the other may still write here
}

} // namespace qfuse::prefill
