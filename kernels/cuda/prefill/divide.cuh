// Owns: tiles of queries whose keys the two CTAs of a cluster divide, each with keys of its own: who takes which, and
// how one's sums reach the other.
// Does not own: when tiles are divided (select.h), the copies (load.cuh, values.cuh).
// Read next: consume.cuh.
//
// Where all tiles of work are equally long, the last ones may be fewer than there are clusters, and half of the device
// idles while they are computed. Divided, a pair of tiles is two numbers of work of half the length. Both CTAs take
// equally many tiles of keys, so that the rings stay what they are; of an odd number the second one passes over one.
// The second CTA leaves O, the row sums and their references in global memory, a thread its own registers; the same
// thread of the first adds them. References are integers, so the only difference to one CTA is the order of additions.
#pragma once

#include "scores_f16.cuh"

namespace qfuse::prefill {

// Leaves a CTA its tiles of keys, the later ones to the first. A single tile is not divided: both compute it, and
// store the same bits.
__device__ __forceinline__ void divide_keys(Work &work, int rank) {
    const int tiles = work.tile_end - work.tile_begin;
    work.apart = tiles / 2;
    if (rank == 0)
        work.tile_begin += work.apart;
    else
        work.tile_end -= work.apart;
}

// End of the tiles that this CTA computes: the one in the middle of an odd number is the first CTA's.
__device__ __forceinline__ int own_tile_end(const Work &work, int rank) {
    return work.tile_end - (rank == 1 && work.apart > 0 && work.tile_end - work.tile_begin > work.apart ? 1 : 0);
}

// Where a thread's registers lie, in fours: neighbouring threads are neighbours.
template <class C>
__device__ __forceinline__ float4 *share_of_thread(const qf_prefill_params &p, int consumer) {
    constexpr int kFours = qf_prefill_share_bytes(C::kForm) / 16;
    return reinterpret_cast<float4 *>(p.transposed + p.shares_offset) +
           ((blockIdx.x >> 1) * kFours + 128 * consumer + (thread_here() & 127));
}

// The second CTA: hands the sums of a tile to the first. Warps of a warpgroup by themselves.
template <class C, class State>
__device__ __forceinline__ void send_share(const qf_prefill_params &p, Barriers<C> &barriers, int consumer,
                                           uint32_t parity, const State &state) {
    constexpr int kThreads = 128 * C::kConsumers;
    barrier_wait_cluster(shared_address(&barriers.share_empty[consumer]), parity ^ 1);
    jitter();
    float4 *to = share_of_thread<C>(p, consumer);
#pragma unroll
    for (int chunk = 0; chunk < State::kChunks; ++chunk) {
#pragma unroll
        for (int i = 0; i < State::kChunk / 2; i += 4, to += kThreads) {
            const float *o = state.o[chunk] + i;
            __stcg(to, make_float4(o[0], o[1], o[2], o[3]));
        }
    }
    __stcg(to, make_float4(state.sum[0], state.sum[1], state.reference[0], state.reference[1]));
    barrier_release_at(shared_address(&barriers.share_full[consumer]), 0);
}

// a, b of one row and c, d of another one: x * own + theirs * other.
__device__ __forceinline__ void add_four(float &a, float &b, float &c, float &d, const float4 *from,
                                         const float (&own)[2], const float (&other)[2]) {
    asm volatile("{\n"
                 ".reg .f32 x, y, z, w;\n"
                 "ld.global.cg.v4.f32 {x, y, z, w}, [%4];\n"
                 "mul.rn.f32 x, x, %7;\n"
                 "mul.rn.f32 y, y, %7;\n"
                 "mul.rn.f32 z, z, %8;\n"
                 "mul.rn.f32 w, w, %8;\n"
                 "fma.rn.f32 %0, %0, %5, x;\n"
                 "fma.rn.f32 %1, %1, %5, y;\n"
                 "fma.rn.f32 %2, %2, %6, z;\n"
                 "fma.rn.f32 %3, %3, %6, w;\n"
                 "}\n"
                 : "+f"(a), "+f"(b), "+f"(c), "+f"(d)
                 : "l"(from), "f"(own[0]), "f"(own[1]), "f"(other[0]), "f"(other[1])
                 : "memory");
}

// The first CTA: adds them.
template <class C, class State>
__device__ __forceinline__ void receive_share(const qf_prefill_params &p, Barriers<C> &barriers, int consumer,
                                              uint32_t parity, State &state) {
    constexpr int kThreads = 128 * C::kConsumers, kLast = State::kChunks * State::kChunk / 8;
    barrier_wait_cluster(shared_address(&barriers.share_full[consumer]), parity);
    jitter();
    const float4 *from = share_of_thread<C>(p, consumer);
    const float4 last = __ldcg(from + kLast * kThreads);
    const float sums[2] = {last.x, last.y}, references[2] = {last.z, last.w};
    float own[2], other[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float raised = fmaxf(state.reference[i], references[i]);
        own[i] = exp2_in_place(state.reference[i] - raised), other[i] = exp2_in_place(references[i] - raised);
        state.reference[i] = raised;
        state.sum[i] = fmaf(sums[i], other[i], state.sum[i] * own[i]);
    }
#pragma unroll
    for (int chunk = 0; chunk < State::kChunks; ++chunk) {
#pragma unroll
        for (int i = 0; i < State::kChunk / 2; i += 4, from += kThreads) {
            float *o = state.o[chunk] + i;
            add_four(o[0], o[1], o[2], o[3], from, own, other);
        }
    }
    barrier_release_at(shared_address(&barriers.share_empty[consumer]), 1);
}

} // namespace qfuse::prefill
