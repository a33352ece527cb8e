// Owns: the compile-time shape of a prefill attention kernel: tile, warpgroups, registers, shared memory, variant list.
// Does not own: device code (kernel.cuh) and the choice between variants at run time (select.h).
// Read next: params.h, then kernel.cuh.
#ifndef QFUSE_KERNELS_CUDA_PREFILL_CONFIG_H
#define QFUSE_KERNELS_CUDA_PREFILL_CONFIG_H

#include "params.h"

// Every variant: (elements of q, k, v, head dim, accumulators of the scores, where V is transposed, end of the name).
// f16 scores are the fast ones; f32 scores serve soft caps, and scores beyond the range that f16 describes well. 16-bit
// operands have f32 scores only.
#define QF_PREFILL_VARIANTS(X)                                                                                         \
    X(E4M3, e4m3, 64, F16, f16, INSIDE, )                                                                              \
    X(E4M3, e4m3, 64, F16, f16, BEFORE, _before)                                                                       \
    X(E4M3, e4m3, 64, F32, f32, INSIDE, )                                                                              \
    X(E4M3, e4m3, 128, F16, f16, INSIDE, )                                                                             \
    X(E4M3, e4m3, 128, F16, f16, BEFORE, _before)                                                                      \
    X(E4M3, e4m3, 128, F32, f32, INSIDE, )                                                                             \
    X(E4M3, e4m3, 256, F16, f16, INSIDE, )                                                                             \
    X(E4M3, e4m3, 256, F16, f16, BEFORE, _before)                                                                      \
    X(E4M3, e4m3, 256, F32, f32, INSIDE, )                                                                             \
    X(BF16, bf16, 64, F32, f32, NONE, )                                                                                \
    X(BF16, bf16, 128, F32, f32, NONE, )                                                                               \
    X(BF16, bf16, 256, F32, f32, NONE, )                                                                               \
    X(F16, f16, 64, F32, f32, NONE, )                                                                                  \
    X(F16, f16, 128, F32, f32, NONE, )                                                                                 \
    X(F16, f16, 256, F32, f32, NONE, )

enum qf_prefill_scores { QF_PREFILL_SCORES_F16 = 0, QF_PREFILL_SCORES_F32 = 1 };

// Where V becomes V^T, which 8-bit matrix instructions need and 16-bit ones do not: by warps of the kernel, for every
// tile of queries anew; or by a launch before it, once.
enum qf_prefill_transpose {
    QF_PREFILL_TRANSPOSE_NONE = 0,
    QF_PREFILL_TRANSPOSE_INSIDE = 1,
    QF_PREFILL_TRANSPOSE_BEFORE = 2,
};

// A block of V^T as the launch before writes it: head dim rows of 128 keys, as they lie in shared memory.
#define QF_PREFILL_BLOCK_KEYS     128
#define QF_PREFILL_BEFORE_THREADS 128

#ifdef __CUDACC__
#define QF_PREFILL_FUNCTION static __host__ __device__ constexpr
#else
#define QF_PREFILL_FUNCTION static inline
#endif

// Most sequences of a packed batch: every CTA counts their tiles.
#define QF_PREFILL_MAX_BATCH 2048

// What distinguishes variants; everything below follows from it.
typedef struct qf_prefill_form {
    int dtype; // of q, k and v, enum qf_prefill_dtype
    int head_dim;
    int scores;    // enum qf_prefill_scores
    int transpose; // enum qf_prefill_transpose
} qf_prefill_form;

QF_PREFILL_FUNCTION int qf_prefill_element_bytes(int dtype) {
    return dtype == QF_PREFILL_BF16 || dtype == QF_PREFILL_F16 ? 2 : 1;
}

// Bytes of a head of one token.
QF_PREFILL_FUNCTION int qf_prefill_row_bytes(qf_prefill_form form) {
    return form.head_dim * qf_prefill_element_bytes(form.dtype);
}

// Warpgroups that compute, each 64 rows; one more loads and transposes.
QF_PREFILL_FUNCTION int qf_prefill_consumers(qf_prefill_form form) {
    return form.head_dim > 128 ? 2 : 3;
}

// Query rows of a tile.
QF_PREFILL_FUNCTION int qf_prefill_tile_rows(qf_prefill_form form) {
    return 64 * qf_prefill_consumers(form);
}

// Keys of a tile.
QF_PREFILL_FUNCTION int qf_prefill_tile_keys(qf_prefill_form form) {
    if (qf_prefill_element_bytes(form.dtype) == 2) return form.head_dim == 256 ? 80 : form.head_dim == 64 ? 192 : 128;
    return form.head_dim == 64 && form.scores == QF_PREFILL_SCORES_F16 ? 256 : 128;
}

// Keys that one copy brings: a tile, or a part that lies in one page. Pages are powers of two.
QF_PREFILL_FUNCTION int qf_prefill_box_keys(qf_prefill_form form, int page_size) {
    const int tile = qf_prefill_tile_keys(form), divisor = tile & -tile;
    return page_size == 0 ? tile : page_size < divisor ? page_size : divisor;
}

// The same of V: the launch that transposes it copies a block.
QF_PREFILL_FUNCTION int qf_prefill_value_box_keys(qf_prefill_form form, int page_size) {
    const int keys = qf_prefill_box_keys(form, page_size);
    return form.transpose == QF_PREFILL_TRANSPOSE_BEFORE && keys > QF_PREFILL_BLOCK_KEYS ? QF_PREFILL_BLOCK_KEYS : keys;
}

QF_PREFILL_FUNCTION int qf_prefill_threads(qf_prefill_form form) {
    return 128 * (qf_prefill_consumers(form) + 1);
}

// Bytes of a shared-memory row: a head is cut into panels of at most 128 bytes, the widest swizzle.
QF_PREFILL_FUNCTION int qf_prefill_panel_bytes(qf_prefill_form form) {
    return qf_prefill_row_bytes(form) < 128 ? qf_prefill_row_bytes(form) : 128;
}

// Tiles that each ring holds. Of 16-bit elements the ring of transposed values holds values as they are, and a single
// stage of Q is free, and filled anew, as soon as the last scores are complete.
QF_PREFILL_FUNCTION int qf_prefill_query_stages(qf_prefill_form form) {
    if (form.transpose == QF_PREFILL_TRANSPOSE_NONE && form.head_dim == 128) return 1;
    return form.head_dim > 128 && form.transpose != QF_PREFILL_TRANSPOSE_BEFORE ? 1 : 2;
}

QF_PREFILL_FUNCTION int qf_prefill_key_stages(qf_prefill_form form) {
    if (form.transpose == QF_PREFILL_TRANSPOSE_NONE && form.head_dim == 128) return 3; // there is room
    return qf_prefill_row_bytes(form) > 128 ? 2 : 3;
}

QF_PREFILL_FUNCTION int qf_prefill_value_stages(qf_prefill_form form) {
    if (form.transpose != QF_PREFILL_TRANSPOSE_INSIDE) return 0;
    return form.head_dim > 128 ? 1 : 2;
}

QF_PREFILL_FUNCTION int qf_prefill_transposed_stages(qf_prefill_form form) {
    return qf_prefill_row_bytes(form) > 128 ? 2 : 3;
}

// Bytes that a CTA hands to the other one of its cluster where they divide the keys of a tile: O in f32, and four
// numbers more, of every thread that computes.
QF_PREFILL_FUNCTION int qf_prefill_share_bytes(qf_prefill_form form) {
    return qf_prefill_tile_rows(form) * form.head_dim * 4 + 128 * qf_prefill_consumers(form) * 16;
}

// Panels of a block of V^T, a CTA of the launch before each.
QF_PREFILL_FUNCTION int qf_prefill_panels(qf_prefill_form form) {
    return qf_prefill_row_bytes(form) / qf_prefill_panel_bytes(form);
}

// Dynamic shared memory of that launch: a panel, its transpose, alignment to 1024.
QF_PREFILL_FUNCTION int qf_prefill_before_bytes(qf_prefill_form form) {
    return 2 * QF_PREFILL_BLOCK_KEYS * qf_prefill_panel_bytes(form) + 1024;
}

// Dynamic shared memory: the rings, a tile of ones, alignment to 1024.
QF_PREFILL_FUNCTION int qf_prefill_shared_bytes(qf_prefill_form form) {
    return qf_prefill_row_bytes(form) *
               (qf_prefill_query_stages(form) * qf_prefill_tile_rows(form) +
                (qf_prefill_key_stages(form) + qf_prefill_value_stages(form) + qf_prefill_transposed_stages(form)) *
                    qf_prefill_tile_keys(form)) +
           2 * 1024;
}

#endif
