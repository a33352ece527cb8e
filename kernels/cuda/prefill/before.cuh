// Owns: the kernel that turns V into V^T before the attention kernel reads it: a CTA takes 128 keys of a panel of the
// head dim. Does not own: the transposition of a tile (transpose.cuh), when it pays (select.h).
// Read next: transpose.cuh.
//
// V comes by TMA, dense or page by page, is transposed as the attention kernel would do it, and leaves as one piece.
// Keys past a sequence's length become zero as far as tiles of the attention kernel reach; what lies behind is not
// touched, and sequences without rows are passed over.
#pragma once

#include "kernels/cuda/common/tensor_copy.cuh"
#include "schedule.cuh"
#include "transpose.cuh"

namespace qfuse::prefill {

// A panel as transpose.cuh sees a tile.
template <int HeadDim>
struct PanelConfig {
    static constexpr qf_prefill_form kForm = {QF_PREFILL_E4M3, HeadDim, QF_PREFILL_SCORES_F16,
                                              QF_PREFILL_TRANSPOSE_BEFORE};
    static constexpr int kPanelBytes = qf_prefill_panel_bytes(kForm);
    static constexpr int kHeadDim = kPanelBytes;
    static constexpr int kKeys = QF_PREFILL_BLOCK_KEYS;
    static constexpr int kTransposers = QF_PREFILL_BEFORE_THREADS / 32;
    static constexpr int kPanels = qf_prefill_panels(kForm);
    static constexpr int kBytes = kKeys * kPanelBytes;
};

// Keys of a sequence up to which V^T is read; 0: none of its rows is computed.
template <class C>
__device__ __forceinline__ int transposed_keys(const qf_prefill_params &p, int sequence, int length) {
    constexpr int kTile = qf_prefill_tile_keys(C::kForm);
    if (p.q_start != nullptr) {
        const int rows = packed_last_row(p, sequence) - packed_first_row(p, sequence);
        if (rows == 0 || rows < p.least_tokens) return 0;
    }
    return (length + kTile - 1) / kTile * kTile;
}

// Starts the copy of 128 keys of a panel; lanes of one warp together.
template <class C>
__device__ __forceinline__ void copy_panel(const qf_prefill_params &p, uint32_t to, uint32_t full, int sequence,
                                           int kv_head, int panel, int first_key, int keys) {
    const int lane = threadIdx.x & 31, box = qf_prefill_value_box_keys(C::kForm, p.page_size);
    const int boxes = p.page_size > 0 ? (min(max(keys, 0), C::kKeys) + box - 1) / box : 1;
    if (lane == 0) barrier_arrive_expect(full, boxes * box * C::kPanelBytes);
    __syncwarp();
    if (lane >= boxes) return;
    int token = first_key + lane * box, outer = sequence;
    if (p.page_size > 0) {
        outer = p.block_table[sequence * p.block_table_stride + (token >> p.page_shift)];
        token &= p.page_size - 1;
    }
    tensor_copy_4d(to + lane * box * C::kPanelBytes, &p.v_map, panel * C::kPanelBytes, token, kv_head, outer, full,
                   kEvictFirst);
}

// Launch: CTAs by qf_prefill_choose, qf_prefill_before_bytes of dynamic shared memory; programmatic stream
// serialisation allowed.
template <class C>
__device__ __forceinline__ void transpose_before(const qf_prefill_params &p) {
    extern __shared__ __align__(1024) uint8_t dynamic[];
    __shared__ __align__(8) uint64_t full;
    const uint32_t from = (shared_address(dynamic) + 1023) / 1024 * 1024, to = from + C::kBytes;
    if (threadIdx.x == 0) {
        tensor_map_prefetch(&p.v_map);
        barrier_init(shared_address(&full), 1);
        barrier_init_fence();
    }
    __syncthreads();
    wait_for_predecessor();
    launch_dependents();
    // Panels of a block and heads of a token lie next to each other in memory.
    const int panel = blockIdx.x % C::kPanels, rest = blockIdx.x / C::kPanels, heads = p.batch * p.kv_heads;
    const int head = rest % heads, block = rest / heads, sequence = head / p.kv_heads;
    const int length = p.kv_lens != nullptr ? min(max(p.kv_lens[sequence], 0), p.kv_tokens) : p.kv_tokens;
    const int first_key = block * C::kKeys, keys = length - first_key;
    if (first_key >= transposed_keys<C>(p, sequence, length)) return;
    const int warp = threadIdx.x / 32;
    if (warp == 0) {
        copy_panel<C>(p, from, shared_address(&full), sequence, head % p.kv_heads, panel, first_key, keys);
    }
    barrier_wait(shared_address(&full), 0);
    const TransposeLane<C> lane;
    if (keys >= C::kKeys)
        transpose_tile<C, false>(from + lane.from, to + lane.to, warp, keys);
    else
        transpose_tile<C, true>(from + lane.from, to + lane.to, warp, keys);
    async_proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const int64_t at = (head * p.transposed_blocks + block) * C::kPanels + panel;
        bulk_store(p.transposed + at * C::kBytes, to, C::kBytes);
    }
}

} // namespace qfuse::prefill
