// Owns: the host's choices for one decode launch: variant, shared memory, workspace, and which inputs are refused.
// Does not own: the kernels, tensor-map encoding and the launch itself (launch.cuh, or the executor).
// Read next: launch.cuh for a complete use.
//
// Plain C11, no CUDA header, no state; safe from any thread.
#ifndef QFUSE_KERNELS_CUDA_DECODE_SELECT_H
#define QFUSE_KERNELS_CUDA_DECODE_SELECT_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "params.h"

// Shared memory of one CTA on sm_90, less what the kernel holds statically and the system keeps.
#define QF_DECODE_SHARED_LIMIT (227 * 1024 - 6144)

// The same when two CTAs share a multiprocessor.
#define QF_DECODE_PAIRED_LIMIT (114 * 1024 - 1024 - 4096)

// What a launch looks like before any pointer is known.
typedef struct qf_decode_problem {
    int kv_dtype; // enum qf_decode_dtype: E4M3, E5M2 or BF16
    int q_dtype;  // E4M3, BF16, or F16 (FP8 caches only)
    int out_dtype;
    int head_dim;
    int kv_heads;
    int group;    // query heads per KV head
    int q_tokens; // most tokens of a sequence
    int batch;
    int page_size;
    int64_t max_kv_len; // no sequence is longer: block table width * page size
} qf_decode_problem;

typedef struct qf_decode_choice {
    int ctas;          // grid
    int row_blocks;    // for qf_decode_params
    int bundle_shift;  //
    int active[4];     //
    int cluster_shift; //
    int row_tiles;     // the kernel is qf_paged_decode_<kv>_d<head_dim>_r<row_tiles>
    int threads;
    int early; // whether to let the launch start while a predecessor of another kind still runs
    int stages;
    int box_bytes; // inner extent of the tensor maps' box, bytes; the swizzle has the same width (64 or 128)
    size_t shared_bytes;
    size_t partial_bytes; // workspace, for `ctas` CTAs
    size_t ticket_bytes;  // must be zero before the first launch and after an aborted one
} qf_decode_choice;

static inline int qf_decode_element_bytes(int dtype) {
    return dtype == QF_DECODE_BF16 || dtype == QF_DECODE_F16 ? 2 : 1;
}

// Null, or why the decode kernels do not take the problem.
static inline const char *qf_decode_refusal(const qf_decode_problem *problem) {
    if (problem->kv_dtype != QF_DECODE_E4M3 && problem->kv_dtype != QF_DECODE_E5M2 &&
        problem->kv_dtype != QF_DECODE_BF16) {
        return "K and V must be e4m3, e5m2 or bf16";
    }
    if (problem->head_dim != 64 && problem->head_dim != 128 && problem->head_dim != 256) {
        return "head dim must be 64, 128 or 256";
    }
    if (problem->q_dtype == QF_DECODE_F16 && problem->kv_dtype == QF_DECODE_BF16) {
        return "an f16 query needs an FP8 cache";
    }
    if (problem->q_dtype == QF_DECODE_E5M2) return "an e5m2 query is not supported";
    if (problem->page_size < QF_DECODE_TILE || (problem->page_size & (problem->page_size - 1)) != 0) {
        return "page size must be a power of two of at least 16";
    }
    if (problem->page_size > QF_DECODE_TILE << 16) return "page size is limited to 2^20";
    if (problem->kv_heads > 32767) return "KV heads are limited to 32767";
    if (problem->kv_heads < 1 || problem->group < 1 || problem->q_tokens < 1 || problem->batch < 1) {
        return "heads, group, tokens and batch must be positive";
    }
    if ((int64_t)problem->q_tokens * problem->group > 1024) return "query tokens times group is limited to 1024";
    if (problem->batch > 2048) return "batch is limited to 2048";
    return NULL;
}

static inline size_t qf_decode_shared_bytes(int kv_dtype, int head_dim, int row_tiles, int rows, int batch, int stages,
                                            int cluster_shift) {
    const int element_bytes = qf_decode_element_bytes(kv_dtype);
    const int warps = qf_decode_warps(element_bytes, head_dim);
    const int unit_rows = qf_decode_unit_rows(rows, row_tiles);
    const int ring = stages * 2 * QF_DECODE_TILE * qf_decode_row_bytes(element_bytes, head_dim);
    const int scratch = qf_decode_scratch_bytes(element_bytes, head_dim, row_tiles);
    const int state = 4 * qf_decode_state_floats(8 * row_tiles);
    return (size_t)(warps * (ring + scratch + state)) +
           (size_t)qf_decode_inbox_bytes(unit_rows, head_dim, cluster_shift) + 3 * 4 * ((size_t)batch + 1);
}

// CTAs to divide `units` units among: all, or up to a sixteenth fewer where shares of equal sequences then begin and
// end with units, which saves merges.
static inline int qf_decode_active(int64_t units, int ctas) {
    for (int active = ctas; active * 16 >= ctas * 15; --active) {
        if (units % active == 0 || active % units == 0) return active;
    }
    return ctas;
}

// `largest_cluster_shift`: 4 where clusters of 16 can be resident, else 3; 0 for no clusters. `ctas` is the grid: the
// number of multiprocessors, at most QF_DECODE_MAX_CTAS. Needs a problem that is not refused.
static inline qf_decode_choice qf_decode_choose(const qf_decode_problem *problem, int ctas, int largest_cluster_shift) {
    qf_decode_choice choice;
    const int rows = problem->group * problem->q_tokens;
    const int row_bytes = qf_decode_row_bytes(qf_decode_element_bytes(problem->kv_dtype), problem->head_dim);
    choice.row_tiles = rows > 8 && problem->head_dim < 256 ? 2 : 1;
    const int warps = qf_decode_warps(qf_decode_element_bytes(problem->kv_dtype), problem->head_dim);
    choice.threads = 32 * warps;
    choice.box_bytes = row_bytes < 128 ? row_bytes : 128;
    choice.ctas = ctas;
    choice.row_blocks = (rows + 8 * choice.row_tiles - 1) / (8 * choice.row_tiles);
    const size_t stage = (size_t)warps * 2 * QF_DECODE_TILE * (size_t)row_bytes;
    const double most_bytes = 2.0 * problem->batch * problem->max_kv_len * problem->kv_heads * row_bytes;
    const int64_t narrow_units = (int64_t)problem->batch * problem->kv_heads * choice.row_blocks;
    const int pairable =
        qf_decode_residency(qf_decode_element_bytes(problem->kv_dtype), problem->head_dim, choice.row_tiles) > 1;
    // Two CTAs at work on a multiprocessor: one streams while the other ends a segment, which many short sequences do
    // often; and more warps stream a single KV head, whose pages are small. Otherwise the second place is better left
    // to the next launch, which then sets itself up early.
    const int doubled = pairable && 2 * ctas <= QF_DECODE_MAX_CTAS &&
                        (most_bytes < 1e9 ? problem->batch >= 64 && narrow_units > ctas : problem->kv_heads == 1);
    if (doubled) choice.ctas = ctas *= 2;
    // The narrowest bundle that gives a CTA no more than one unit of equal sequences (few ends of units), at least two
    // heads where units then still need no more than about six shares: an NHD cache likes neighbouring heads together.
    choice.bundle_shift = 0;
    while ((2 << choice.bundle_shift) <= warps && problem->kv_heads % (2 << choice.bundle_shift) == 0) {
        const int64_t units = (int64_t)problem->batch * (problem->kv_heads >> choice.bundle_shift) * choice.row_blocks;
        if (units <= ctas && (choice.bundle_shift >= 1 || units < 48)) break;
        choice.bundle_shift += 1;
    }
    // Short launches of few units: a cluster for each unit merges through shared memory, faster than tickets. Clusters
    // larger than pairs do not reach all multiprocessors evenly, so they serve only sequences so short (two tiles a
    // warp) that bandwidth does not matter. Clusters of 16 start late beside a predecessor's, unless units are few.
    choice.cluster_shift = 0;
    const int64_t most_tiles = (problem->max_kv_len + QF_DECODE_TILE - 1) / QF_DECODE_TILE;
    if (pairable && most_bytes < 400e6 && narrow_units * 2 <= ctas) {
        int shift = 0;
        while (shift < largest_cluster_shift && (narrow_units << (shift + 1)) <= ctas) {
            if (shift == 3 && (narrow_units > 3 || most_tiles <= (int64_t)(2 * warps) << shift)) break;
            shift += 1;
        }
        const int64_t used = narrow_units << shift;
        if ((shift == 1 && used * 16 >= (int64_t)ctas * 15) || most_tiles <= (int64_t)(2 * warps) << shift) {
            choice.cluster_shift = shift;
            choice.ctas = ctas >> shift << shift;
            choice.bundle_shift = 0;
        }
    }
    // CTAs that start beside another kernel's spread unevenly where two fit on a multiprocessor: that costs a long
    // launch up to a tenth, more than the microsecond that it gains. (Beside an earlier launch of decode's they spread
    // evenly.)
    choice.early = doubled || !pairable || most_bytes < 400e6;
    for (int shift = 0; shift < 4; ++shift) {
        const int64_t units = (int64_t)problem->batch * (problem->kv_heads >> shift) * choice.row_blocks;
        choice.active[shift] = qf_decode_active(units < 1 ? 1 : units, choice.ctas);
    }
    // A stage is copied into again as soon as it has been read, so two (64 KiB a multiprocessor) stream best, and leave
    // room for a CTA of the next launch; launches too short for a steady state like more.
    const size_t limit = pairable ? QF_DECODE_PAIRED_LIMIT : QF_DECODE_SHARED_LIMIT;
    choice.stages = pairable && (doubled || most_bytes > 25e6) ? 2 : QF_DECODE_MAX_STAGES;
    while (choice.stages > 2 && ((size_t)choice.stages * stage > 128 * 1024 - 1 ||
                                 qf_decode_shared_bytes(problem->kv_dtype, problem->head_dim, choice.row_tiles, rows,
                                                        problem->batch, choice.stages, choice.cluster_shift) > limit)) {
        choice.stages -= 1;
    }
    choice.shared_bytes = qf_decode_shared_bytes(problem->kv_dtype, problem->head_dim, choice.row_tiles, rows,
                                                 problem->batch, choice.stages, choice.cluster_shift);
    // Two shares a CTA, and as many results of groups of shares; one for each head of the widest bundle.
    const size_t slots = 4 * (size_t)choice.ctas * (size_t)warps;
    choice.partial_bytes =
        slots * 4 * (size_t)qf_decode_partial_floats(qf_decode_unit_rows(rows, choice.row_tiles), problem->head_dim);
    choice.ticket_bytes = slots * 4;
    return choice;
}

#endif
