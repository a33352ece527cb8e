// Owns: the compile-time shape of a paged decode attention kernel: tile, warps, shared-memory layout, variant list.
// Does not own: device code (kernel.cuh) and the choice between variants at run time (select.h).
// Read next: params.h, then kernel.cuh.
#ifndef QFUSE_KERNELS_CUDA_DECODE_CONFIG_H
#define QFUSE_KERNELS_CUDA_DECODE_CONFIG_H

// Tokens of a tile: one box of the tensor maps, the unit of work. Not more than the smallest page.
#define QF_DECODE_TILE 16

// Every variant: (KV element, head dim, row tiles). A row tile is eight query rows (query tokens x group of a KV
// head; one at head dim 256, where two would spill registers); more rows than 8 * row tiles become further units of
// work over the same keys.
#define QF_DECODE_VARIANTS(X)                                                                                          \
    X(E4M3, e4m3, 64, 1)                                                                                               \
    X(E4M3, e4m3, 64, 2)                                                                                               \
    X(E4M3, e4m3, 128, 1)                                                                                              \
    X(E4M3, e4m3, 128, 2)                                                                                              \
    X(E4M3, e4m3, 256, 1)                                                                                              \
    X(E5M2, e5m2, 64, 1)                                                                                               \
    X(E5M2, e5m2, 64, 2)                                                                                               \
    X(E5M2, e5m2, 128, 1)                                                                                              \
    X(E5M2, e5m2, 128, 2)                                                                                              \
    X(E5M2, e5m2, 256, 1)                                                                                              \
    X(BF16, bf16, 64, 1)                                                                                               \
    X(BF16, bf16, 64, 2)                                                                                               \
    X(BF16, bf16, 128, 1)                                                                                              \
    X(BF16, bf16, 128, 2)                                                                                              \
    X(BF16, bf16, 256, 1)

// Deepest ring of a warp.
#define QF_DECODE_MAX_STAGES 8
// Most CTAs of a launch; bounds the two-level merge.
#define QF_DECODE_MAX_CTAS   512

// Bench only: 64-bit words that a warp notes where the kernels are built with QF_DECODE_STAMPS (merge.cuh).
#define QF_DECODE_STAMP_COUNT 18

#ifdef __CUDACC__
#define QF_DECODE_FUNCTION static __host__ __device__ constexpr
#else
#define QF_DECODE_FUNCTION static inline
#endif

// Bytes of one cached row (one token of one KV head).
QF_DECODE_FUNCTION int qf_decode_row_bytes(int element_bytes, int head_dim) {
    return element_bytes * head_dim;
}

// Warps of a CTA: eight; sixteen for rows of 64 bytes, whose tiles are half as large and cost nearly as much; four
// where eight rings and scratches would not fit into shared memory.
QF_DECODE_FUNCTION int qf_decode_warps(int element_bytes, int head_dim) {
    return element_bytes * head_dim > 256 ? 4 : element_bytes * head_dim <= 64 ? 16 : 8;
}

// CTAs of a multiprocessor that registers allow. Two lets a dependent launch set itself up beside its predecessor.
QF_DECODE_FUNCTION int qf_decode_residency(int element_bytes, int head_dim, int row_tiles) {
    return element_bytes * head_dim * row_tiles <= 128 && element_bytes * head_dim > 64 ? 2 : 1;
}

// Query rows of a unit that are computed, and so held in scratch and workspace.
QF_DECODE_FUNCTION int qf_decode_unit_rows(int rows, int row_tiles) {
    return rows < 8 * row_tiles ? rows : 8 * row_tiles;
}

// Bytes of a warp's scratch, where it leaves O at the end of a segment: none of its own where O fits into the ring
// stage that the warp has used last.
QF_DECODE_FUNCTION int qf_decode_scratch_bytes(int element_bytes, int head_dim, int row_tiles) {
    const int bytes = 4 * 8 * row_tiles * head_dim;
    return bytes <= 2 * QF_DECODE_TILE * element_bytes * head_dim ? 0 : bytes;
}

// Floats of a warp's state: reference and sum of each of `rows` rows, where O lies; a multiple of four.
QF_DECODE_FUNCTION int qf_decode_state_floats(int rows) {
    return 2 * rows + 4;
}

// Bytes of a CTA's inbox, where the CTAs of a cluster send what it merges: by row and sender, its columns of O, then
// references and sums.
QF_DECODE_FUNCTION int qf_decode_inbox_bytes(int unit_rows, int head_dim, int cluster_shift) {
    return cluster_shift == 0 ? 0 : unit_rows * (4 * head_dim + (8 << cluster_shift));
}

// Floats of one partial result in the workspace: O, then reference and sum by row, a multiple of four.
QF_DECODE_FUNCTION int qf_decode_partial_floats(int unit_rows, int head_dim) {
    return (unit_rows * head_dim + 2 * unit_rows + 3) / 4 * 4;
}

#endif
