/* Owns: launches of the prefill kernels: what they take of a step, their parameters and tensor maps.
 * Does not own: the choices of a launch (prefill/select.h), the kernels (prefill/kernel.cuh), steps that they do not
 * take (attention.c). Next: prefill/select.h, docs/cuda-attention.md. */
#include <string.h>

#include "kernels/cuda/attention_builders.h"
#include "kernels/cuda/prefill/select.h"

_Static_assert(sizeof(qf_prefill_params) <= 4096, "a parameter block of at most 4 KiB");

static int dtype_of(qf_dtype dtype) {
    switch (dtype) {
    case QF_BF16: return QF_PREFILL_BF16;
    case QF_F16: return QF_PREFILL_F16;
    case QF_F8E4M3FN: return QF_PREFILL_E4M3;
    case QF_F8E5M2: return QF_PREFILL_E5M2;
    default: return QF_PREFILL_NONE;
    }
}

static const struct {
    qf_prefill_form form;
    const char *image, *kernel;
} variants[] = {
#define VARIANT(DTYPE, dtype, head_dim, SCORES, scores, TRANSPOSE, end)                                                \
    {{QF_PREFILL_##DTYPE, head_dim, QF_PREFILL_SCORES_##SCORES, QF_PREFILL_TRANSPOSE_##TRANSPOSE},                     \
     "prefill_" #dtype "_d" #head_dim "_" #scores #end,                                                                \
     "qf_prefill_" #dtype "_d" #head_dim "_" #scores #end},
    QF_PREFILL_VARIANTS(VARIANT)
#undef VARIANT
};

static int limited(int64_t window) {
    return window < 0 ? -1 : window < QF_PREFILL_UNLIMITED ? (int)window : QF_PREFILL_UNLIMITED;
}

/* Paged rows without q_start are sequences of one token. False: sizes that the problem's numbers do not hold. */
static bool make_problem(const qf_kernel_step *step, const qf_attention *at, qf_prefill_problem *out) {
    const int64_t most = QF_PREFILL_UNLIMITED / 2;
    if (at->sequences < 1 || at->sequences > most || at->rows < 1 || at->rows > most || at->keys < 1 ||
        at->keys > most || at->heads < 1 || at->heads > most || at->depth > most || at->page > most || at->pages > most)
        return false;
    *out = (qf_prefill_problem){.dtype = dtype_of(at->q->dtype),
                                .out_dtype = dtype_of(step->call.results[0].dtype),
                                .head_dim = (int)at->depth,
                                .kv_heads = (int)at->kv_heads,
                                .group = (int)(at->heads / at->kv_heads),
                                .batch = (int)at->sequences,
                                .packed = at->q_start != NULL,
                                .q_tokens = at->packed && !at->q_start ? 1 : (int)at->rows,
                                .kv_tokens = (int)at->keys,
                                .page_size = (int)at->page,
                                .pages = at->pages,
                                .softmax_scale = at->scale,
                                .softcap = at->softcap,
                                .causal = at->causal,
                                .window_left = limited(at->window_left),
                                .window_right = limited(at->window_right)};
    return true;
}

/* The kernels keep P in V's elements: e4m3 as `kernel` says, or 16 bits, more than it asks for. */
static bool takes_p(const qf_attention *at) {
    if (qf_dtype_bits(at->v->dtype) == 16) return at->p_mode != QF_VALUE_graph;
    return at->p_mode == QF_VALUE_kernel && at->p_dtype == QF_F8E4M3FN;
}

/* What the limits of a row cannot say. */
static bool takes(const qf_attention *at, const qf_prefill_problem *problem, const qf_cuda_attention_extras *extras,
                  const qf_kernel_step *step) {
    if (qf_prefill_refusal(problem) || problem->out_dtype == QF_PREFILL_NONE) return false;
    const qf_view *out = &step->call.results[0];
    return at->k->dtype == at->q->dtype && at->v->dtype == at->q->dtype && at->out_depth == at->depth &&
           qf_cuda_is_aligned_16(at->q) && qf_cuda_is_aligned_16(at->k) && qf_cuda_is_aligned_16(at->v) &&
           qf_cuda_is_aligned_16(out) && !at->bias && !at->mask && takes_p(at) && (!at->block_table || at->pages > 0) &&
           (!at->sinks || at->sinks->dtype == QF_F32) &&
           (!qf_dtype_is_float8(out->dtype) || (extras->out_compute == QF_F32 && extras->via != QF_F64));
}

/* Elements between batch elements: sequences of one token lie one row apart. */
static int64_t outer_step(const qf_attention *at, const qf_attention_steps *steps) {
    return at->packed ? steps->row : steps->sequence;
}

static void fill_params(const qf_kernel_step *step, const qf_attention *at, const qf_cuda_attention_extras *extras,
                        int64_t least_rows, qf_prefill_params *params) {
    params->out = step->call.results[0].data;
    params->lse = at->lse ? at->lse->data : NULL;
    params->sinks = at->sinks ? at->sinks->data : NULL;
    params->block_table = at->block_table ? at->block_table->data : NULL;
    params->block_table_stride = at->block_table ? at->block_table->dims[1] : 0;
    params->kv_lens = at->kv_lens ? at->kv_lens->data : NULL;
    params->q_start = at->q_start ? at->q_start->data : NULL;
    params->out_batch_stride = outer_step(at, &at->out_steps);
    params->out_token_stride = at->out_steps.row;
    params->out_head_stride = at->out_steps.head;
    params->lse_batch_stride = outer_step(at, &at->lse_steps);
    params->lse_token_stride = at->lse_steps.row;
    params->lse_head_stride = at->lse_steps.head;
    params->bottom_right = at->bottom_right;
    params->empty_is_nan = at->empty_is_nan;
    params->least_tokens = at->q_start ? (int32_t)least_rows : 0;
    params->out_mode = (int32_t)extras->out_mode; /* the same numbers */
    params->via = dtype_of(extras->via);
}
_Static_assert((int)QF_VALUE_div == QF_PREFILL_DIV && (int)QF_VALUE_mul == QF_PREFILL_MUL &&
                   (int)QF_VALUE_mul_recip == QF_PREFILL_MUL_RECIPROCAL,
               "modes are handed on as they are");

static bool add_map(qf_cuda_recorder *recorder, qf_cuda_launch *launch, size_t offset, const qf_prefill_map *from) {
    qf_cuda_tensor_map *map = qf_cuda_add_tensor_map(recorder, launch, offset);
    if (!map) return false;
    map->element_bytes = 1;
    map->rank = from->rank;
    map->address = from->address;
    memcpy(map->extents, from->extents, sizeof map->extents);
    memcpy(map->strides, from->strides, sizeof map->strides);
    memcpy(map->box, from->box, sizeof map->box);
    map->swizzle_bytes = from->swizzle_bytes;
    map->promotion_bytes = from->promotion_bytes;
    return true;
}

/* In bytes from the library's elements. */
static qf_prefill_tensor tensor_of(const qf_view *view, int64_t token, int64_t head, int64_t outer) {
    const int64_t bytes = qf_dtype_bits(view->dtype) / 8;
    return (qf_prefill_tensor){view->data, token * bytes, head * bytes, outer * bytes};
}

static bool add_value_map(qf_cuda_recorder *recorder, qf_cuda_launch *launch, const qf_attention *at,
                          const qf_prefill_problem *problem) {
    const qf_prefill_tensor v = tensor_of(at->v, at->v_steps.key, at->v_steps.head, at->v_steps.sequence);
    qf_prefill_map v_map;
    qf_prefill_describe_values(problem, &v, &v_map);
    return add_map(recorder, launch, offsetof(qf_prefill_params, v_map), &v_map);
}

static bool add_maps(qf_cuda_recorder *recorder, qf_cuda_launch *launch, const qf_attention *at,
                     const qf_prefill_problem *problem, const qf_prefill_choice *choice) {
    const qf_prefill_tensor q = tensor_of(at->q, at->q_steps.row, at->q_steps.head, outer_step(at, &at->q_steps));
    const qf_prefill_tensor k = tensor_of(at->k, at->k_steps.key, at->k_steps.head, at->k_steps.sequence);
    qf_prefill_map q_map, k_map;
    qf_prefill_describe_query(problem, &q, &q_map);
    qf_prefill_describe_keys(problem, &k, &k_map);
    return add_map(recorder, launch, offsetof(qf_prefill_params, q_map), &q_map) &&
           add_map(recorder, launch, offsetof(qf_prefill_params, k_map), &k_map) &&
           (choice->before_ctas > 0 || add_value_map(recorder, launch, at, problem));
}

/* The launch that writes V^T, where the choice has one. */
static bool add_transposition(qf_cuda_recorder *recorder, const qf_attention *at, const qf_prefill_problem *problem,
                              const qf_prefill_choice *choice, const qf_prefill_params *params) {
    if (choice->before_ctas == 0) return true;
    const char *kernel = problem->head_dim == 64    ? "qf_prefill_before_d64"
                         : problem->head_dim == 128 ? "qf_prefill_before_d128"
                                                    : "qf_prefill_before_d256";
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "prefill_before", kernel, sizeof *params);
    if (!launch || !add_value_map(recorder, launch, at, problem)) return false;
    memcpy(launch->params, params, sizeof *params);
    launch->grid[0] = choice->before_ctas;
    launch->block[0] = QF_PREFILL_BEFORE_THREADS;
    launch->shared_bytes = (uint32_t)qf_prefill_before_bytes(choice->form);
    launch->dependent = true;
    return true;
}

qf_status qf_cuda_prefill(qf_cuda_recorder *recorder, const qf_kernel_step *step, const qf_attention *at,
                          int64_t least_rows) {
    const qf_cuda_attention_extras extras = qf_cuda_attention_extras_of(step);
    qf_prefill_problem problem;
    qf_prefill_params params;
    memset(&params, 0, sizeof params);
    if (!make_problem(step, at, &problem) || !takes(at, &problem, &extras, step))
        return qf_cuda_attend(recorder, step, at, least_rows);
    problem.tile_rows = qf_prefill_choose_rows(&problem, (int)recorder->processor_count);
    const qf_prefill_choice choice = qf_prefill_choose(&problem, (int)recorder->processor_count);
    qf_prefill_fill(&problem, &choice, &params);
    if (!QF_CUDA_F32_SCALES(at, &extras, &params)) return qf_cuda_attend(recorder, step, at, least_rows);
    fill_params(step, at, &extras, least_rows, &params);
    params.ticket = qf_cuda_zeroed(recorder, sizeof *params.ticket);
    for (uint32_t i = 0; i < QF_COUNT_OF(variants); i++) {
        if (memcmp(&variants[i].form, &choice.form, sizeof choice.form) != 0) continue;
        if (choice.transposed_bytes > 0) params.transposed = qf_cuda_scratch(recorder, choice.transposed_bytes);
        if (!add_transposition(recorder, at, &problem, &choice, &params)) return QF_ERROR_OUT_OF_MEMORY;
        qf_cuda_launch *launch = qf_cuda_add_launch(recorder, variants[i].image, variants[i].kernel, sizeof params);
        if (!launch || !add_maps(recorder, launch, at, &problem, &choice)) return QF_ERROR_OUT_OF_MEMORY;
        memcpy(launch->params, &params, sizeof params); /* the block of the launch is aligned less than its type */
        launch->grid[0] = (uint32_t)choice.ctas;
        launch->block[0] = (uint32_t)choice.threads;
        launch->cluster = choice.cluster > 1 ? (uint32_t)choice.cluster : 0;
        launch->shared_bytes = (uint32_t)choice.shared_bytes;
        launch->dependent = true;
        return QF_OK;
    }
    return qf_cuda_attend(recorder, step, at, least_rows);
}

qf_status qf_cuda_build_prefill(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    qf_attention at;
    qf_status status = qf_attention_describe(&step->call, &at);
    return status ? status : qf_cuda_prefill(recorder, step, &at, 0);
}
