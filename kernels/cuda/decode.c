/* Owns: launches of the paged decode kernels: what they take of a step, their parameters and tensor maps.
 * Does not own: the choices of a launch (decode/select.h), the kernels (decode/kernel.cuh), steps or parts of steps
 * that they do not take (attention.c, prefill.c). Next: decode/select.h, docs/cuda-attention.md. */
#include <string.h>

#include "kernels/cuda/attention_builders.h"
#include "kernels/cuda/decode/select.h"

_Static_assert(sizeof(qf_decode_params) <= 4096, "a parameter block of at most 4 KiB");

/* Of a packed batch the kernel takes sequences of few rows: more than this many tokens are the prefill kernel's. */
#define MOST_TOKENS 4
/* Multiprocessors of a card whose clusters may have 16 CTAs; smaller cards get 8. */
#define WIDE_CARD   132

static int dtype_of(qf_dtype dtype) {
    switch (dtype) {
    case QF_BF16: return QF_DECODE_BF16;
    case QF_F16: return QF_DECODE_F16;
    case QF_F8E4M3FN: return QF_DECODE_E4M3;
    case QF_F8E5M2: return QF_DECODE_E5M2;
    default: return QF_DECODE_NONE;
    }
}

static const struct {
    int kv_dtype, head_dim, row_tiles;
    const char *image, *kernel;
} variants[] = {
#define VARIANT(KV, kv, head_dim, row_tiles)                                                                           \
    {QF_DECODE_##KV, head_dim, row_tiles, "paged_decode_" #kv "_d" #head_dim "_r" #row_tiles,                          \
     "qf_paged_decode_" #kv "_d" #head_dim "_r" #row_tiles},
    QF_DECODE_VARIANTS(VARIANT)
#undef VARIANT
};

/* Tokens of a sequence that one launch serves: as many as fill a block of rows, whose keys are then read once; of
 * batches that have more rows a sequence on average, up to MOST_TOKENS. */
static int tokens_of(const qf_attention *at) {
    if (!at->q_start) return 1;
    int64_t group = at->heads / at->kv_heads, block = at->depth < 256 ? 16 : 8;
    int64_t tokens = group < block ? block / group : 1, average = (at->rows + at->sequences - 1) / at->sequences;
    if (tokens < average) tokens = average;
    return (int)(tokens < MOST_TOKENS ? tokens : MOST_TOKENS);
}

/* False: sizes that the problem's 32-bit numbers do not hold, or that are empty. */
static bool make_problem(const qf_kernel_step *step, const qf_attention *at, qf_decode_problem *out) {
    const int64_t most = INT32_MAX / 2;
    if (at->sequences < 1 || at->sequences > most || at->pages < 1 || at->pages > most || at->keys < 1 ||
        at->keys > most || at->rows < 1 || at->rows > most || at->heads < 1 || at->heads > most || at->depth > most ||
        at->page > most)
        return false;
    *out = (qf_decode_problem){.kv_dtype = dtype_of(at->k->dtype),
                               .q_dtype = dtype_of(at->q->dtype),
                               .out_dtype = dtype_of(step->call.results[0].dtype),
                               .head_dim = (int)at->depth,
                               .kv_heads = (int)at->kv_heads,
                               .group = (int)(at->heads / at->kv_heads),
                               .q_tokens = tokens_of(at),
                               .batch = (int)at->sequences,
                               .page_size = (int)at->page,
                               .max_kv_len = at->keys};
    return true;
}

/* What the limits of a row cannot say. */
static bool takes(const qf_attention *at, const qf_decode_problem *problem, const qf_cuda_attention_extras *extras,
                  const qf_kernel_step *step) {
    if (qf_decode_refusal(problem) || problem->q_dtype == QF_DECODE_NONE || problem->out_dtype == QF_DECODE_NONE)
        return false;
    bool float8_out = qf_dtype_is_float8(step->call.results[0].dtype);
    return at->v->dtype == at->k->dtype && at->out_depth == at->depth && qf_cuda_is_aligned_16(at->q) &&
           qf_cuda_is_aligned_16(at->k) && qf_cuda_is_aligned_16(at->v) &&
           qf_cuda_is_aligned_16(&step->call.results[0]) && at->p_mode != QF_VALUE_graph && !at->empty_is_nan &&
           (at->causal || at->window_right <= 0) &&
           (at->bottom_right || (!at->causal && at->window_left < 0 && at->window_right < 0)) &&
           (!at->sinks || at->sinks->dtype == QF_F32) &&
           (!float8_out || (extras->out_compute == QF_F32 && extras->via != QF_F64));
}

static void fill_params(const qf_kernel_step *step, const qf_attention *at, const qf_decode_problem *problem,
                        const qf_decode_choice *choice, const qf_cuda_attention_extras *extras,
                        qf_decode_params *params) {
    params->q = at->q->data;
    params->out = step->call.results[0].data;
    params->lse = at->lse ? at->lse->data : NULL;
    params->sinks = at->sinks ? at->sinks->data : NULL;
    params->block_table = at->block_table->data;
    params->seq_lens = at->kv_lens->data;
    params->q_start = at->q_start ? at->q_start->data : NULL;
    params->q_token_stride = at->q_steps.row;
    params->q_head_stride = at->q_steps.head;
    params->out_token_stride = at->out_steps.row;
    params->out_head_stride = at->out_steps.head;
    params->block_table_stride = at->block_table->dims[1];
    params->softmax_scale = at->scale;
    params->softcap = at->softcap;
    params->window_left = at->window_left < 0               ? -1
                          : at->window_left < INT32_MAX / 2 ? (int32_t)at->window_left
                                                            : INT32_MAX / 2;
    params->causal = at->causal || at->window_right == 0;
    params->batch = problem->batch;
    params->kv_heads = problem->kv_heads;
    params->group = problem->group;
    params->q_tokens = problem->q_tokens;
    params->token_rows = (int32_t)at->rows;
    params->max_kv_len = (int32_t)problem->max_kv_len;
    params->rows = problem->q_tokens * problem->group;
    params->group_magic = ((1 << 20) + problem->group - 1) / problem->group;
    params->row_blocks = choice->row_blocks;
    params->bundle_shift = choice->bundle_shift;
    params->cluster_shift = choice->cluster_shift;
    memcpy(params->active, choice->active, sizeof params->active);
    while ((1 << params->page_shift) < problem->page_size) params->page_shift++;
    params->q_dtype = problem->q_dtype;
    params->out_dtype = problem->out_dtype;
    params->out_mode = (int32_t)extras->out_mode; /* the same numbers */
    params->via = dtype_of(extras->via);
    params->stages = choice->stages;
    params->tiles_a_cta_shift = 3;
}
_Static_assert((int)QF_VALUE_div == QF_DECODE_DIV && (int)QF_VALUE_mul == QF_DECODE_MUL &&
                   (int)QF_VALUE_mul_recip == QF_DECODE_MUL_RECIPROCAL,
               "modes are handed on as they are");

/* A cache as bytes: row, token in page, KV head, page. TMA wants multiples of 16 as strides, also of axes of one. */
static bool add_map(qf_cuda_recorder *recorder, qf_cuda_launch *launch, size_t offset, const qf_view *cache,
                    const qf_attention_steps *steps, const qf_attention *at, const qf_decode_choice *choice) {
    qf_cuda_tensor_map *map = qf_cuda_add_tensor_map(recorder, launch, offset);
    if (!map) return false;
    const uint64_t bytes = qf_dtype_bits(cache->dtype) / 8, row = (uint64_t)at->depth * bytes;
    const int64_t extents[] = {at->page, at->kv_heads, at->pages},
                  distances[] = {steps->key, steps->head, steps->sequence};
    map->element_bytes = 1;
    map->rank = 4;
    map->address = cache->data;
    map->extents[0] = row;
    for (uint32_t i = 0; i < 3; i++) {
        map->extents[i + 1] = (uint64_t)extents[i];
        map->strides[i] = extents[i] == 1 ? row : (uint64_t)distances[i] * bytes;
    }
    map->box[0] = (uint32_t)choice->box_bytes;
    map->box[1] = QF_DECODE_TILE;
    map->box[2] = map->box[3] = 1;
    map->swizzle_bytes = (uint32_t)choice->box_bytes;
    map->promotion_bytes = 128;
    return true;
}

static qf_status add_launch(qf_cuda_recorder *recorder, const qf_attention *at, const qf_decode_problem *problem,
                            const qf_decode_choice *choice, qf_decode_params *params) {
    params->partials = qf_cuda_scratch(recorder, choice->partial_bytes);
    params->tickets = qf_cuda_zeroed(recorder, choice->ticket_bytes);
    for (uint32_t i = 0; i < QF_COUNT_OF(variants); i++) {
        if (variants[i].kv_dtype != problem->kv_dtype || variants[i].head_dim != problem->head_dim ||
            variants[i].row_tiles != choice->row_tiles)
            continue;
        qf_cuda_launch *launch = qf_cuda_add_launch(recorder, variants[i].image, variants[i].kernel, sizeof *params);
        if (!launch || !add_map(recorder, launch, offsetof(qf_decode_params, k_map), at->k, &at->k_steps, at, choice) ||
            !add_map(recorder, launch, offsetof(qf_decode_params, v_map), at->v, &at->v_steps, at, choice))
            return QF_ERROR_OUT_OF_MEMORY;
        memcpy(launch->params, params, sizeof *params); /* the block of the launch is aligned less than its type */
        launch->grid[0] = (uint32_t)choice->ctas;
        launch->block[0] = (uint32_t)choice->threads;
        launch->cluster = choice->cluster_shift ? 1u << choice->cluster_shift : 0;
        launch->shared_bytes = (uint32_t)choice->shared_bytes;
        launch->dependent = choice->early;
        return QF_OK;
    }
    return QF_ERROR_UNSUPPORTED;
}

static bool has_variant(int kv_dtype, int head_dim) {
    for (uint32_t i = 0; i < QF_COUNT_OF(variants); i++)
        if (variants[i].kv_dtype == kv_dtype && variants[i].head_dim == head_dim) return true;
    return false;
}

qf_status qf_cuda_build_decode(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    const qf_cuda_attention_extras extras = qf_cuda_attention_extras_of(step);
    qf_attention at;
    qf_decode_problem problem;
    qf_decode_params params;
    memset(&params, 0, sizeof params);
    qf_status status = qf_attention_describe(&step->call, &at);
    if (status) return status;
    if (!make_problem(step, &at, &problem) || !takes(&at, &problem, &extras, step) ||
        !has_variant(problem.kv_dtype, problem.head_dim) || !QF_CUDA_F32_SCALES(&at, &extras, &params))
        return qf_cuda_prefill(recorder, step, &at, 0);
    int ctas = recorder->processor_count < QF_DECODE_MAX_CTAS ? (int)recorder->processor_count : QF_DECODE_MAX_CTAS;
    const qf_decode_choice choice = qf_decode_choose(&problem, ctas, ctas >= WIDE_CARD ? 4 : 3);
    fill_params(step, &at, &problem, &choice, &extras, &params);
    status = add_launch(recorder, &at, &problem, &choice, &params);
    /* Lengths of packed sequences are known on the device only: the kernel leaves longer ones alone. */
    if (status || !at.q_start) return status;
    return qf_cuda_prefill(recorder, step, &at, problem.q_tokens + 1);
}
