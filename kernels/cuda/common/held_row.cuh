// Owns: rows held in registers by a team of threads, one pass over memory: the next row is on its way while this one is
// worked on; reductions over a team. Does not own: what is computed (activation.cu, rows.cu, quantise.cu), which rows
// fit (../held_row.h). Read next: ../held_row.h.
#pragma once

#include "kernels/cuda/common/fast_vector.cuh"
#include "kernels/cuda/held_row.h"

namespace qfuse {

// A thread's place in its team, whose row has size elements. Thread l takes the runs of eight l, l + lanes, ...; the
// first `count` of them exist. Teams of up to a warp share a block; a larger one is a block.
template <int RUNS>
struct row_team {
    uint32_t lanes, lane, count, within; // the team's place in its block
    uint32_t row, step, rows;            // fewer than 2^31
    int64_t size;

    __device__ __forceinline__ row_team(uint32_t team_lanes, int64_t row_size, int64_t all_rows)
        : lanes(team_lanes), rows((uint32_t)all_rows), size(row_size) {
        const uint32_t runs = (uint32_t)(size / 8), shift = lanes > 32 ? 31 : __ffs((int)lanes) - 1;
        within = threadIdx.x >> shift;
        lane = threadIdx.x - (within << shift);
        const uint32_t teams = lanes > 32 ? 1 : blockDim.x >> shift;
        row = blockIdx.x * teams + within;
        step = gridDim.x * teams;
        count = 0;
#pragma unroll
        for (int n = 0; n < RUNS; n++) count += lane + n * lanes < runs;
    }
    // Of the row's elements the first of run n, and of all elements the row's first.
    __device__ __forceinline__ uint32_t at(int n) const {
        return (lane + n * lanes) * 8;
    }
    __device__ __forceinline__ int64_t first() const {
        return row * size;
    }
    __device__ __forceinline__ bool exists() const {
        return row < rows;
    }
    __device__ __forceinline__ bool is_followed() const {
        return row + step < rows;
    }
    // Teams of a block take as many turns, since they share barriers.
    __device__ __forceinline__ bool block_has_rows() const {
        return row - within < rows;
    }
};

// A thread's runs of one row, of 16-bit elements (BYTES 2) or of all compact dtypes (BYTES 4).
template <int BYTES, int RUNS>
struct held_runs {
    raw_run<8, BYTES> run[RUNS];

    // Runs that do not exist stay as they are.
    __device__ __forceinline__ void load(uint32_t dtype, const void *data, int64_t first, const row_team<RUNS> &team) {
#pragma unroll
        for (int n = 0; n < RUNS; n++)
            if ((uint32_t)n < team.count) load_raw<8, BYTES>(dtype, data, first + team.at(n), run[n]);
    }
    __device__ __forceinline__ void decode(uint32_t dtype, float (&out)[RUNS][8]) const {
#pragma unroll
        for (int n = 0; n < RUNS; n++) decode_raw<8, BYTES>(dtype, run[n], out[n]);
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int n = 0; n < RUNS; n++)
#pragma unroll
            for (int i = 0; i < 2 * BYTES; i++) run[n].words[i] = 0;
    }
};

// What a thread needs for every row, in shared memory that only this thread reads: weights, biases. Dynamic shared
// memory has room for as many of these as the kernel takes.
template <int BYTES, int RUNS>
struct kept_row {
    uint4 *room;

    __device__ __forceinline__ kept_row(uint4 *shared, uint32_t number)
        : room(shared + number * RUNS * (BYTES / 2) * blockDim.x + threadIdx.x) {}
    __device__ __forceinline__ void load(uint32_t dtype, const void *data, const row_team<RUNS> &team) const {
        held_runs<BYTES, RUNS> runs;
        runs.clear();
        runs.load(dtype, data, 0, team);
#pragma unroll
        for (int n = 0; n < RUNS; n++)
#pragma unroll
            for (int part = 0; part < BYTES / 2; part++) {
                const uint32_t *words = runs.run[n].words + 4 * part;
                room[(n * (BYTES / 2) + part) * blockDim.x] = make_uint4(words[0], words[1], words[2], words[3]);
            }
    }
    __device__ __forceinline__ void recall(uint32_t dtype, int n, float (&out)[8]) const {
        raw_run<8, BYTES> run;
#pragma unroll
        for (int part = 0; part < BYTES / 2; part++) {
            const uint4 words = room[(n * (BYTES / 2) + part) * blockDim.x];
            run.words[4 * part] = words.x, run.words[4 * part + 1] = words.y;
            run.words[4 * part + 2] = words.z, run.words[4 * part + 3] = words.w;
        }
        decode_raw<8, BYTES>(dtype, run, out);
    }
};

// Values of a team combined, in a fixed order; `neutral` changes nothing. All threads of the block take part; one
// barrier, since neighbouring uses take different halves of `shared`.
struct team_exchange {
    float (*shared)[QF_HELD_THREADS / 32];
    uint32_t half;

    template <typename COMBINE>
    __device__ __forceinline__ float combine(float value, uint32_t lanes, float neutral, COMBINE with) {
        if (lanes < 32) {
            for (uint32_t distance = lanes / 2; distance; distance /= 2)
                value = with(value, __shfl_xor_sync(0xFFFFFFFFu, value, (int)distance));
            return value;
        }
#pragma unroll
        for (int distance = 16; distance; distance /= 2)
            value = with(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
        if (lanes == 32) return value;
        const uint32_t warp = threadIdx.x % (QF_HELD_THREADS / 32);
        half ^= 1;
        if (threadIdx.x % 32 == 0) shared[half][threadIdx.x / 32] = value;
        __syncthreads();
        value = warp < blockDim.x / 32 ? shared[half][warp] : neutral;
#pragma unroll
        for (int distance = QF_HELD_THREADS / 64; distance; distance /= 2)
            value = with(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
        return value;
    }
    __device__ __forceinline__ float sum(float value, uint32_t lanes) {
        return combine(value, lanes, 0.0f, [](float a, float b) { return __fadd_rn(a, b); });
    }
    // NaN does not count.
    __device__ __forceinline__ float most(float value, uint32_t lanes) {
        return combine(value, lanes, -__int_as_float(0x7F800000), [](float a, float b) { return fmaxf(a, b); });
    }
};

} // namespace qfuse
