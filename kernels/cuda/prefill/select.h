// Owns: the host's choices for one prefill launch: what is refused, variant, grid, shared memory, tensor maps as plain
// data, and the parameters that follow from shapes.
// Does not own: the kernels, the encoding of tensor maps and the launch itself (launch.cuh, or the CUDA device).
// Read next: launch.cuh for a complete use.
//
// Plain C11, no CUDA header, no state; safe from any thread.
#ifndef QFUSE_KERNELS_CUDA_PREFILL_SELECT_H
#define QFUSE_KERNELS_CUDA_PREFILL_SELECT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config.h"
#include "params.h"

// A tensor in device memory. Strides in bytes, multiples of 16 where the extent is above 1; the head dim is
// contiguous. `outer` steps over batch elements, or over the pages of a cache.
typedef struct qf_prefill_tensor {
    void *address; // aligned to 16 bytes
    int64_t token_stride;
    int64_t head_stride;
    int64_t outer_stride;
} qf_prefill_tensor;

// Most memory for V^T; where more were needed V is transposed inside.
#define QF_PREFILL_MOST_TRANSPOSED (256 << 20)

// Fewest keys that are worth dividing: what is handed over takes as long as some 200 keys.
#define QF_PREFILL_LEAST_DIVIDED 2048

// Who decides where V is transposed: the rules below, or the caller, as tests and benches do (if there is a variant).
enum qf_prefill_wish {
    QF_PREFILL_WISH_NONE = 0,
    QF_PREFILL_WISH_INSIDE = 1,
    QF_PREFILL_WISH_BEFORE = 2,  // every CTA copies its own keys and values
    QF_PREFILL_WISH_SHARED = 3,  // before, and clusters of two CTAs share them
    QF_PREFILL_WISH_DIVIDED = 4, // the same, and the second half of the tiles have their keys divided
};

// What a launch looks like before any pointer is known.
typedef struct qf_prefill_problem {
    int dtype; // of q, k and v, enum qf_prefill_dtype: E4M3, BF16 or F16
    int out_dtype;
    int head_dim; // of q, k and v
    int kv_heads;
    int group;      // query heads a KV head
    int batch;      // sequences
    int packed;     // 1: q_start cuts one batch element into sequences
    int q_tokens;   // tokens of a sequence; packed: rows of q
    int kv_tokens;  // most keys of a sequence: extent of k and v, or block table width * page size
    int page_size;  // 0: k and v are not paged
    int64_t pages;  // of the caches
    int tile_rows;  // most query rows of a tile of work, a multiple of 64; 0: what the variant takes at once
    int f32_scores; // 1: scores accumulate in f32 (a soft cap, or scores above some hundred octaves)
    float softmax_scale;
    float softcap;
    int causal;
    int window_left; // -1: no limit
    int window_right;
    int wish; // enum qf_prefill_wish
} qf_prefill_problem;

typedef struct qf_prefill_choice {
    qf_prefill_form form; // the kernel is qf_prefill_<dtype>_d<head_dim>_<scores>[_before]
    int cluster;          // CTAs
    int ctas;
    int threads;
    size_t shared_bytes;
    unsigned before_ctas;    // of qf_prefill_before_d<head_dim>, to be launched first; 0: there is no such launch
    size_t transposed_bytes; // of memory for V^T and shares, aligned to 128 bytes
    int divide_from;         // as params has them
    int late_pairs;
    int64_t shares_offset;
} qf_prefill_choice;

// A tensor map in the terms of cuTensorMapEncodeTiled: bytes as elements, innermost axis first.
typedef struct qf_prefill_map {
    void *address;
    uint32_t rank;
    uint64_t extents[5];
    uint64_t strides[4]; // bytes, of axes 1 .. rank - 1
    uint32_t box[5];
    uint32_t swizzle_bytes;
    uint32_t promotion_bytes;
} qf_prefill_map;

static inline int qf_prefill_scores_of(const qf_prefill_problem *problem) {
    if (qf_prefill_element_bytes(problem->dtype) == 2) return QF_PREFILL_SCORES_F32;
    return problem->f32_scores || problem->softcap > 0.0f ? QF_PREFILL_SCORES_F32 : QF_PREFILL_SCORES_F16;
}

static inline int qf_prefill_has_variant(qf_prefill_form form) {
#define QF_PREFILL_MATCH(DTYPE, name, dim, SCORES, score_name, TRANSPOSE, end)                                         \
    if (form.dtype == QF_PREFILL_##DTYPE && form.head_dim == (dim) && form.scores == QF_PREFILL_SCORES_##SCORES &&     \
        form.transpose == QF_PREFILL_TRANSPOSE_##TRANSPOSE)                                                            \
        return 1;
    QF_PREFILL_VARIANTS(QF_PREFILL_MATCH)
#undef QF_PREFILL_MATCH
    return 0;
}

// Blocks of V^T of one KV head of one sequence: whole tiles of the attention kernel.
static inline int64_t qf_prefill_transposed_blocks(const qf_prefill_problem *problem) {
    const qf_prefill_form form = {problem->dtype, problem->head_dim, qf_prefill_scores_of(problem),
                                  QF_PREFILL_TRANSPOSE_BEFORE};
    const int tile = qf_prefill_tile_keys(form);
    return ((int64_t)problem->kv_tokens + tile - 1) / tile * (tile / QF_PREFILL_BLOCK_KEYS);
}

// Operations of a launch, as far as sizes tell: lengths in device memory are taken for the most they can be.
static inline double qf_prefill_flop(const qf_prefill_problem *problem) {
    const double rows = (double)problem->q_tokens * problem->group * problem->kv_heads;
    const double sequences = problem->packed && problem->batch > 0 ? problem->batch : 1;
    const double tokens = problem->q_tokens / sequences;
    const int bounded = problem->causal || problem->window_right >= 0; // as to keys behind a row's own
    double keys = problem->kv_tokens;
    if (bounded && tokens > 1) keys -= (tokens < keys ? tokens : keys) / 2;
    if (problem->window_left >= 0) {
        const int right = problem->causal || problem->window_right < 0 ? 0 : problem->window_right;
        const double most = (double)problem->window_left + (bounded ? right + 1.0 : tokens);
        if (most < keys) keys = most;
    }
    return 4.0 * rows * keys * problem->head_dim * (problem->packed ? 1 : problem->batch);
}

// Whether a row sees the same keys as any other one, as far as sizes tell.
static inline int qf_prefill_sees_all(const qf_prefill_problem *problem) {
    return !problem->causal && problem->window_left < 0 && problem->window_right < 0;
}

// The launch that transposes V takes some 1.3 us and moves V twice at 6 TB/s (it stays in L2, mostly). The kernel after
// it runs at about 1e15 operations a second and takes 1.5 to 4 % less time than with V transposed inside, at head dim
// 256, where there is memory for more stages then, 15 % (bench/RESULTS.md).
static inline int qf_prefill_transposes_before(const qf_prefill_problem *problem) {
    const qf_prefill_form form = {problem->dtype, problem->head_dim, qf_prefill_scores_of(problem),
                                  QF_PREFILL_TRANSPOSE_BEFORE};
    if (!qf_prefill_has_variant(form) || problem->batch < 1 || problem->kv_tokens < 1) return 0;
    const double bytes = (double)qf_prefill_transposed_blocks(problem) * problem->batch * problem->kv_heads *
                         QF_PREFILL_BLOCK_KEYS * problem->head_dim;
    if (problem->wish == QF_PREFILL_WISH_INSIDE || bytes > QF_PREFILL_MOST_TRANSPOSED) return 0;
    if (problem->wish != QF_PREFILL_WISH_NONE) return 1;
    const double saved = problem->head_dim == 256       ? 0.15
                         : problem->head_dim == 64      ? 0.04
                         : qf_prefill_sees_all(problem) ? 0.024
                                                        : 0.015;
    return qf_prefill_flop(problem) / 1e15 * saved > 1.3e-6 + 2.0 * bytes / 6e12;
}

// The variant that a problem needs, whether there is one or not.
static inline qf_prefill_form qf_prefill_form_of(const qf_prefill_problem *problem) {
    const qf_prefill_form form = {problem->dtype, problem->head_dim, qf_prefill_scores_of(problem),
                                  qf_prefill_element_bytes(problem->dtype) == 2 ? QF_PREFILL_TRANSPOSE_NONE
                                  : qf_prefill_transposes_before(problem)       ? QF_PREFILL_TRANSPOSE_BEFORE
                                                                                : QF_PREFILL_TRANSPOSE_INSIDE};
    return form;
}

// Tokens whose rows a tile of work holds.
static inline int qf_prefill_tile_tokens(const qf_prefill_problem *problem) {
    const int rows = qf_prefill_tile_rows(qf_prefill_form_of(problem));
    return (problem->tile_rows > 0 && problem->tile_rows < rows ? problem->tile_rows : rows) / problem->group;
}

// CTAs of a cluster. Two tiles together waste what is left of the last pair of a sequence, under a causal mask half a
// tile a pair, and fill the device less evenly. Sharing halves what is read from L2, which nearly makes up for that,
// and lets two CTAs divide the keys of a tile.
static inline int qf_prefill_cluster(const qf_prefill_problem *problem) {
    const qf_prefill_form form = qf_prefill_form_of(problem);
    if (form.transpose == QF_PREFILL_TRANSPOSE_INSIDE) return 1;
    const int wide = qf_prefill_element_bytes(problem->dtype) == 2; // twice the bytes for the same time
    if (problem->wish == QF_PREFILL_WISH_SHARED) return 2;
    if (problem->wish != QF_PREFILL_WISH_NONE) return problem->wish == QF_PREFILL_WISH_DIVIDED && !wide ? 2 : 1;
    if (problem->head_dim == 64) return 1; // the exponentials are what limits
    const double sequences = problem->packed ? problem->batch : 1;
    const double pairs = problem->q_tokens / sequences / (2 * qf_prefill_tile_tokens(problem));
    const double all = pairs * problem->batch * problem->kv_heads;
    if (wide) return pairs >= 8 && all >= 320 ? 2 : 1;
    if (!qf_prefill_sees_all(problem)) return problem->head_dim == 256 && pairs >= 32 ? 2 : 1;
    return pairs >= 8 && all >= 384 ? 2 : 1;
}

// Tiles of work of a launch, at most. A double, which no sizes overflow.
static inline double qf_prefill_most_tiles(const qf_prefill_problem *problem) {
    const int tile_tokens = qf_prefill_tile_tokens(problem);
    const int64_t tiles = ((int64_t)problem->q_tokens + tile_tokens - 1) / tile_tokens;
    return (double)(problem->packed ? tiles + problem->batch + 2 : tiles * problem->batch) * problem->kv_heads;
}

// Null, or why the prefill kernels do not take the problem.
static inline const char *qf_prefill_refusal(const qf_prefill_problem *problem) {
    if (problem->dtype != QF_PREFILL_E4M3 && problem->dtype != QF_PREFILL_BF16 && problem->dtype != QF_PREFILL_F16) {
        return "q, k and v must be e4m3, bf16 or f16";
    }
    if (problem->head_dim != 64 && problem->head_dim != 128 && problem->head_dim != 256) {
        return "head dim must be 64, 128 or 256";
    }
    if (!qf_prefill_has_variant(qf_prefill_form_of(problem))) {
        return "no variant for these elements and this head dim with such scores";
    }
    if (problem->out_dtype < QF_PREFILL_BF16 || problem->out_dtype > QF_PREFILL_E5M2) {
        return "the output must be e4m3, e5m2, bf16 or f16";
    }
    if (problem->kv_heads < 1 || problem->group < 1 || problem->batch < 0 || problem->q_tokens < 0 ||
        problem->kv_tokens < 0) {
        return "heads and group must be positive, tokens and batch not negative";
    }
    if (problem->group > 64) return "more than 64 query heads a KV head";
    if (problem->packed && problem->batch > QF_PREFILL_MAX_BATCH) return "a packed batch is limited to 2048 sequences";
    if (problem->page_size != 0 && problem->page_size != 16 && problem->page_size != 32 && problem->page_size != 64 &&
        problem->page_size != 128) {
        return "page size must be 16, 32, 64 or 128";
    }
    if (problem->q_tokens >= QF_PREFILL_UNLIMITED / 2 || problem->kv_tokens >= QF_PREFILL_UNLIMITED / 2) {
        return "more than 2^28 tokens";
    }
    if (qf_prefill_most_tiles(problem) > 1073741824.0) return "more than 2^30 tiles of work";
    if (!(problem->softmax_scale > 0.0f)) return "the softmax scale must be positive";
    if (problem->softcap < 0.0f) return "the soft cap must not be negative";
    return NULL;
}

// Key tiles that the rows of tokens first .. last see, all lengths taken as the longest and the last token as aligned
// with the last key.
static inline int64_t qf_prefill_key_tiles(const qf_prefill_problem *problem, int64_t first, int64_t last) {
    const int keys = qf_prefill_tile_keys(qf_prefill_form_of(problem));
    const int64_t offset = problem->kv_tokens - problem->q_tokens;
    const int64_t right = problem->causal ? 0 : problem->window_right;
    int64_t begin = problem->window_left >= 0 ? first + offset - problem->window_left : 0;
    int64_t end = right >= 0 ? last + offset + right + 1 : problem->kv_tokens;
    if (begin < 0) begin = 0;
    if (end > problem->kv_tokens) end = problem->kv_tokens;
    return begin < end ? (end + keys - 1) / keys - begin / keys : 0;
}

// A lower bound of what a launch takes with tiles of so many rows, in hundreds of clocks: the mean over the
// multiprocessors, and the work that meets on one of them when tiles, the longest first, outnumber them k times.
// Measured: a tile of keys takes about 14, 20, 26 for 64, 128, 192 rows, and a tile of work 80 besides.
static inline double qf_prefill_estimate(const qf_prefill_problem *problem, int rows, int multiprocessors) {
    const int tile_tokens = rows / problem->group;
    const int64_t tiles = ((int64_t)problem->q_tokens + tile_tokens - 1) / tile_tokens;
    const int64_t heads = (int64_t)problem->batch * problem->kv_heads;
    const double tile_cost = (8 + 6 * (rows / 64)) * qf_prefill_element_bytes(problem->dtype);
    double sum = 0, most = 0;
    for (int64_t i = 0; i < tiles; i++) { // tiles that have i others of the same head before them
        const int64_t first = (tiles - 1 - i) * tile_tokens;
        const int64_t last = (first + tile_tokens < problem->q_tokens ? first + tile_tokens : problem->q_tokens) - 1;
        const double cost = 80 + tile_cost * (double)qf_prefill_key_tiles(problem, first, last);
        // The last of these tiles is number heads * (i + 1) - 1: so many must share a multiprocessor with it.
        const int64_t sharing = (heads * (i + 1) - 1) / multiprocessors + 1;
        if (cost * (double)sharing > most) most = cost * (double)sharing;
        sum += cost * (double)heads;
    }
    return sum / multiprocessors > most ? sum / multiprocessors : most;
}

// Rows of a tile of work for tile_rows: fewer than a variant could take where a launch is so small that its longest
// tiles, or a last wave of few tiles, decide how long it takes.
static inline int qf_prefill_choose_rows(const qf_prefill_problem *problem, int multiprocessors) {
    const int full = qf_prefill_tile_rows(qf_prefill_form_of(problem));
    int best = full;
    if (multiprocessors < 1 || problem->packed || qf_prefill_most_tiles(problem) > 8.0 * multiprocessors) return full;
    double least = qf_prefill_estimate(problem, full, multiprocessors);
    for (int rows = full - 64; rows >= 64 && rows >= problem->group; rows -= 64) {
        const double found = qf_prefill_estimate(problem, rows, multiprocessors);
        if (found < 0.95 * least) least = found, best = rows;
    }
    return best;
}

// What a tile of so many tokens takes, of a whole one, with its keys divided.
static inline double qf_prefill_divided_cost(const qf_prefill_problem *problem, int tokens) {
    const int whole = qf_prefill_tile_tokens(problem) * problem->group, rows = tokens * problem->group;
    return tokens > 0 ? 0.02 + (8 + 6 * ((rows + 63) / 64)) / (2.0 * (8 + 6 * ((whole + 63) / 64))) : 0.02;
}

// Where all tiles see the same keys: a last wave of pairs of tiles that fills at most half of the clusters is half as
// long with the keys of each tile divided. Else the last pair of each head may be what is divided, if it has fewer
// rows.
static inline void qf_prefill_divide(const qf_prefill_problem *problem, qf_prefill_choice *choice) {
    const int tile = qf_prefill_tile_tokens(problem), clusters = choice->ctas / 2;
    const int tiles = (problem->q_tokens + 2 * tile - 1) / (2 * tile);
    const double heads = (double)problem->batch * problem->kv_heads, all = tiles * heads;
    if (problem->packed || clusters < 1 || all > 1073741823.0) return;
    const int pairs = (int)all, last = pairs % clusters;
    if (problem->wish == QF_PREFILL_WISH_DIVIDED) {
        choice->divide_from = pairs / 2;
        choice->late_pairs = tiles > 1;
        return;
    }
    if (problem->wish != QF_PREFILL_WISH_NONE || !qf_prefill_sees_all(problem) ||
        problem->kv_tokens < QF_PREFILL_LEAST_DIVIDED || last == 0)
        return;
    if (2 * last <= clusters) {
        choice->divide_from = pairs - last;
        return;
    }
    const int rest = problem->q_tokens - (tiles - 1) * 2 * tile, second = rest > tile ? rest - tile : 0;
    const double first_cost = qf_prefill_divided_cost(problem, rest - second);
    const double second_cost = qf_prefill_divided_cost(problem, second);
    const double divided =
        ((tiles - 1) * heads + heads * (first_cost + second_cost)) / clusters + (second > 0 ? second_cost : first_cost);
    if (tiles > 1 && divided < 0.99 * (pairs / clusters + 1)) {
        choice->divide_from = (int)((tiles - 1) * heads);
        choice->late_pairs = 1;
    }
}

// `multiprocessors` of the device. Needs a problem that is not refused.
static inline qf_prefill_choice qf_prefill_choose(const qf_prefill_problem *problem, int multiprocessors) {
    qf_prefill_choice choice;
    memset(&choice, 0, sizeof choice);
    const double tiles = qf_prefill_most_tiles(problem);
    choice.form = qf_prefill_form_of(problem);
    choice.ctas = tiles < 1 ? 1 : tiles < multiprocessors ? (int)tiles : multiprocessors;
    choice.threads = qf_prefill_threads(choice.form);
    choice.shared_bytes = (size_t)qf_prefill_shared_bytes(choice.form);
    choice.cluster = qf_prefill_cluster(problem);
    if (choice.cluster > 1) {
        const int most = multiprocessors / choice.cluster * choice.cluster;
        choice.ctas = (choice.ctas + choice.cluster - 1) / choice.cluster * choice.cluster;
        if (choice.ctas > most && most > 0) choice.ctas = most;
    }
    if (choice.form.transpose == QF_PREFILL_TRANSPOSE_BEFORE) {
        const int64_t blocks = qf_prefill_transposed_blocks(problem) * problem->batch * problem->kv_heads;
        choice.before_ctas = (unsigned)(blocks * qf_prefill_panels(choice.form));
        choice.transposed_bytes = (size_t)(blocks * QF_PREFILL_BLOCK_KEYS * problem->head_dim);
    }
    choice.divide_from = INT32_MAX;
    if (choice.cluster > 1 && choice.form.transpose == QF_PREFILL_TRANSPOSE_BEFORE) qf_prefill_divide(problem, &choice);
    if (choice.divide_from < INT32_MAX) {
        choice.shares_offset = (int64_t)choice.transposed_bytes;
        choice.transposed_bytes += (size_t)qf_prefill_share_bytes(choice.form) * (size_t)(choice.ctas / 2);
    }
    return choice;
}

// A dimension of one element may have any stride; TMA wants multiples of 16, so it gets the row's size.
static inline uint64_t qf_prefill_stride(uint64_t extent, int64_t bytes, int row_bytes) {
    return extent > 1 ? (uint64_t)bytes : (uint64_t)row_bytes;
}

static inline uint64_t qf_prefill_extent(int64_t count) {
    return count > 0 ? (uint64_t)count : 1;
}

static inline void qf_prefill_describe_query(const qf_prefill_problem *problem, const qf_prefill_tensor *q,
                                             qf_prefill_map *out) {
    const qf_prefill_form form = qf_prefill_form_of(problem);
    const int row = qf_prefill_row_bytes(form);
    memset(out, 0, sizeof *out);
    out->address = q->address;
    out->rank = 5;
    out->extents[0] = (uint64_t)row;
    out->extents[1] = (uint64_t)problem->group;
    out->extents[2] = (uint64_t)problem->kv_heads;
    out->extents[3] = qf_prefill_extent(problem->q_tokens);
    out->extents[4] = qf_prefill_extent(problem->packed ? 1 : problem->batch);
    out->strides[0] = qf_prefill_stride(out->extents[1], q->head_stride, row);
    out->strides[1] = qf_prefill_stride(out->extents[2], q->head_stride * problem->group, row);
    out->strides[2] = qf_prefill_stride(out->extents[3], q->token_stride, row);
    out->strides[3] = qf_prefill_stride(out->extents[4], q->outer_stride, row);
    out->box[0] = (uint32_t)qf_prefill_panel_bytes(form);
    out->box[1] = (uint32_t)problem->group;
    out->box[2] = 1;
    out->box[3] = (uint32_t)qf_prefill_tile_tokens(problem);
    out->box[4] = 1;
    out->swizzle_bytes = out->box[0];
    out->promotion_bytes = 128;
}

// K or V, so many keys at a time.
static inline void qf_prefill_describe_rows(const qf_prefill_problem *problem, const qf_prefill_tensor *tensor,
                                            int box_keys, qf_prefill_map *out) {
    const qf_prefill_form form = qf_prefill_form_of(problem);
    const int row = qf_prefill_row_bytes(form);
    memset(out, 0, sizeof *out);
    out->address = tensor->address;
    out->rank = 4;
    out->extents[0] = (uint64_t)row;
    out->extents[1] = qf_prefill_extent(problem->page_size > 0 ? problem->page_size : problem->kv_tokens);
    out->extents[2] = (uint64_t)problem->kv_heads;
    out->extents[3] = qf_prefill_extent(problem->page_size > 0 ? problem->pages : problem->batch);
    out->strides[0] = qf_prefill_stride(out->extents[1], tensor->token_stride, row);
    out->strides[1] = qf_prefill_stride(out->extents[2], tensor->head_stride, row);
    out->strides[2] = qf_prefill_stride(out->extents[3], tensor->outer_stride, row);
    out->box[0] = (uint32_t)qf_prefill_panel_bytes(form);
    out->box[1] = (uint32_t)box_keys;
    out->box[2] = out->box[3] = 1;
    out->swizzle_bytes = out->box[0];
    out->promotion_bytes = 128;
}

static inline void qf_prefill_describe_keys(const qf_prefill_problem *problem, const qf_prefill_tensor *k,
                                            qf_prefill_map *out) {
    qf_prefill_describe_rows(problem, k, qf_prefill_box_keys(qf_prefill_form_of(problem), problem->page_size), out);
}

static inline void qf_prefill_describe_values(const qf_prefill_problem *problem, const qf_prefill_tensor *v,
                                              qf_prefill_map *out) {
    const int box_keys = qf_prefill_value_box_keys(qf_prefill_form_of(problem), problem->page_size);
    qf_prefill_describe_rows(problem, v, box_keys, out);
}

// Fills what follows from the problem and the choice. The caller still sets the maps, all pointers and their strides,
// bottom_right, empty_is_nan, out_mode and via.
static inline void qf_prefill_fill(const qf_prefill_problem *problem, const qf_prefill_choice *choice,
                                   qf_prefill_params *p) {
    const int tile_tokens = qf_prefill_tile_tokens(problem);
    memset(p, 0, sizeof *p);
    p->softmax_scale = problem->softmax_scale;
    p->softcap = problem->softcap;
    p->left = problem->window_left >= 0 && problem->window_left < QF_PREFILL_UNLIMITED ? problem->window_left
                                                                                       : QF_PREFILL_UNLIMITED;
    p->right = problem->window_right >= 0 && problem->window_right < QF_PREFILL_UNLIMITED ? problem->window_right
                                                                                          : QF_PREFILL_UNLIMITED;
    if (problem->causal) p->right = 0;
    p->batch = problem->batch;
    p->kv_heads = problem->kv_heads;
    p->group = problem->group;
    p->q_tokens = problem->q_tokens;
    p->kv_tokens = problem->kv_tokens;
    p->page_size = problem->page_size;
    while (p->page_size >> p->page_shift > 1) p->page_shift++;
    p->tile_tokens = tile_tokens;
    p->cluster = choice->cluster;
    p->span_tokens = p->cluster * tile_tokens;
    p->transposed_blocks = qf_prefill_transposed_blocks(problem);
    p->group_magic = (65536 + problem->group - 1) / problem->group;
    // Keys and values of a section fill at most a third of the cache's half that an SM is near.
    const int64_t head_bytes = (int64_t)2 * problem->kv_tokens * qf_prefill_row_bytes(qf_prefill_form_of(problem));
    int64_t heads = head_bytes > 0 ? (16 << 20) / head_bytes : 1;
    p->section_heads = heads < 1 ? 1 : heads > 65536 ? 65536 : (int)heads;
    p->divide_from = choice->divide_from;
    p->late_pairs = choice->late_pairs;
    p->shares_offset = choice->shares_offset;
    p->out_dtype = problem->out_dtype;
    p->via = QF_PREFILL_NONE;
}

#endif
