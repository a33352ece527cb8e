// Owns: stamps of SM clocks in the prefill kernels, for the bench built with QF_PREFILL_TRACE; undefined, no code.
// Does not own: reading them (bench/prefill/timeline.py).
// Read next: kernel.cuh.
//
// A dense launch writes over `block_table` kTraceRoles * kTraceSlots words of 64 bits a CTA: of each role a count, then
// stamps, the clock in the lower 56 bits and the event above. kTraceTime stamps are nanoseconds of the whole GPU.
#pragma once

#include "params.h"

namespace qfuse::prefill {

constexpr int kTraceRoles = 5; // three consumers, the loader, the first transposer
constexpr int kTraceSlots = 64;

enum TraceEvent {
    kTraceTime,     // globaltimer
    kTraceEntry,    // first instruction
    kTraceReleased, // the predecessor has ended
    kTraceWork,     // work is known (consumers: its Q tile has come)
    kTraceReady,    // consumers: rows of Q are prepared
    kTraceCopied,   // loader: K and V copies of a tile are started; transposer: a V tile has come
    kTraceTile,     // consumers: scores of a tile are complete; transposer: V^T is handed over
    kTraceTileEnd,  // consumers: P V of a tile is added
    kTraceEpilogue, // consumers: the last tile is done
    kTraceNext,     // consumers: ready for work
};

#ifdef QF_PREFILL_TRACE
// All in one instruction sequence, so that nothing of it is kept in registers between two stamps.
__device__ __forceinline__ uint32_t trace_counts() {
    __shared__ int counts[kTraceRoles];
    return static_cast<uint32_t>(__cvta_generic_to_shared(counts));
}

template <TraceEvent Event>
__device__ __forceinline__ void trace(const qf_prefill_params &p) {
    asm volatile("{\n"
                 ".reg .pred skip, other, first;\n"
                 ".reg .b32 thread, role, counter, slot, threads;\n"
                 ".reg .b64 words, now, tag;\n"
                 "mov.u32 thread, %%tid.x;\n"
                 "mov.u32 threads, %%ntid.x;\n"
                 "sub.u32 role, thread, threads;\n" // the producer's threads are -128 .. -1
                 "add.u32 role, role, 96;\n"
                 "setp.eq.s32 first, role, 0;\n"
                 "and.b32 slot, thread, 127;\n"
                 "setp.ne.u32 skip, slot, 0;\n"
                 "and.pred skip, skip, !first;\n"
                 "not.pred skip, skip;\n"
                 "setp.lt.and.s32 other, role, -32, skip;\n"
                 "shr.u32 slot, thread, 7;\n"
                 "add.s32 role, role, 96;\n"
                 "shr.s32 role, role, 5;\n" // 2 of the loader, 3 of the transposer
                 "add.s32 role, role, 1;\n"
                 "@other mov.u32 role, slot;\n"
                 "shl.b32 counter, role, 2;\n"
                 "add.u32 counter, counter, %1;\n"
                 "setp.eq.and.u32 first, %2, 1, skip;\n"
                 "mov.u32 slot, 1;\n"
                 "@first st.shared.u32 [counter], slot;\n"
                 "@skip ld.shared.u32 slot, [counter];\n"
                 "setp.lt.and.u32 skip, slot, %4, skip;\n"
                 "mad.lo.u32 role, %5, %3, role;\n"
                 "mad.wide.u32 words, role, %4 * 8, %0;\n"
                 "mad.wide.u32 now, slot, 8, words;\n"
                 "add.u32 slot, slot, 1;\n"
                 "@skip st.shared.u32 [counter], slot;\n"
                 "cvt.u64.u32 tag, slot;\n"
                 "@skip st.global.u64 [words], tag;\n"
                 "mov.u64 words, now;\n"
                 "mov.u64 now, %%clock64;\n"
                 "setp.eq.u32 first, %2, 0;\n"
                 "@first mov.u64 now, %%globaltimer;\n"
                 "and.b64 now, now, 0xFFFFFFFFFFFFFF;\n"
                 "mov.u32 slot, %2;\n"
                 "cvt.u64.u32 tag, slot;\n"
                 "shl.b64 tag, tag, 56;\n"
                 "or.b64 now, now, tag;\n"
                 "@skip st.global.u64 [words], now;\n"
                 "}\n" ::"l"(p.block_table),
                 "r"(trace_counts()), "n"(static_cast<int>(Event)), "n"(kTraceRoles), "n"(kTraceSlots), "r"(blockIdx.x)
                 : "memory");
}
#else
template <TraceEvent Event>
__device__ __forceinline__ void trace(const qf_prefill_params &) {}
#endif

} // namespace qfuse::prefill
