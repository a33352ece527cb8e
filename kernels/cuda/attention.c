/* Owns: launches of the general attention kernels: which of the two, and their parameters.
 * Does not own: reading operands and attributes (kernels/cpu/attention.h), the kernels (attention_tensor.cu,
 * attention_plain.cu), kernels with limits (decode.c, prefill.c). Next: attention.h. */
#include "kernels/cuda/attention.h"

#include "kernels/cuda/attention_builders.h"
#include "kernels/view.h"

_Static_assert(sizeof(qf_cuda_attention_params) <= 4096, "a parameter block of at most 4 KiB");

qf_cuda_attention_extras qf_cuda_attention_extras_of(const qf_kernel_step *step) {
#define EXTRAS_OF(op)                                                                                                  \
    {                                                                                                                  \
        qf_call_operand(&step->call, QF_IN(op, p_scale)), qf_call_operand(&step->call, QF_IN(op, out_scale)),          \
            attributes[QF_ATTR(op, out_mode)].integer, (qf_dtype)attributes[QF_ATTR(op, out_compute)].integer,         \
            (qf_dtype)attributes[QF_ATTR(op, via)].integer                                                             \
    }
    const qf_kernel_attribute *attributes = step->call.attributes;
    if (step->call.op == QF_OP_paged_attention) return (qf_cuda_attention_extras)EXTRAS_OF(paged_attention);
    return (qf_cuda_attention_extras)EXTRAS_OF(attention);
#undef EXTRAS_OF
}

static bool is_real(qf_dtype dtype) {
    return dtype == QF_F64 || dtype == QF_F32 || dtype == QF_F16 || dtype == QF_BF16;
}

/* Element types that the kernels read and write. */
static bool is_operand(qf_dtype dtype) {
    return is_real(dtype) || (qf_dtype_is_float8(dtype) && dtype != QF_F8E8M0FNU);
}

static bool is_scale(const qf_view *view) {
    return !view || is_real(view->dtype) || view->dtype == QF_F8E8M0FNU;
}

static qf_status check_dtypes(const qf_kernel_step *step, const qf_attention *at,
                              const qf_cuda_attention_extras *extras) {
    const qf_view *operands[] = {at->q, at->k, at->v, &step->call.results[0]};
    for (uint32_t i = 0; i < QF_COUNT_OF(operands); i++)
        if (!is_operand(operands[i]->dtype))
            return qf_cuda_refuse(step, "%s: expected f64, f32, f16, bf16 or FP8 that holds values, found %s",
                                  qf_op_name(step->call.op), qf_dtype_name(operands[i]->dtype));
    const qf_view *scales[] = {at->q_scale,       at->k_scale, at->v_scale, extras->p_scale,
                               extras->out_scale, at->bias,    at->sinks};
    for (uint32_t i = 0; i < QF_COUNT_OF(scales); i++)
        if (!is_scale(scales[i]))
            return qf_cuda_refuse(step, "%s: expected scales, bias and sinks of a floating-point type, found %s",
                                  qf_op_name(step->call.op), qf_dtype_name(scales[i]->dtype));
    if (at->mask && qf_dtype_bits(at->mask->dtype) != 8)
        return qf_cuda_refuse(step, "%s: expected a mask of i1, found %s", qf_op_name(step->call.op),
                              qf_dtype_name(at->mask->dtype));
    return QF_OK;
}

/* Numbers that the kernels hold in 32 bits. */
static qf_status check_sizes(const qf_kernel_step *step, const qf_attention *at) {
    const int64_t most = INT32_MAX - 1024;
    int64_t group = at->heads / at->kv_heads, width = at->block_table ? at->block_table->dims[1] : 0;
    if (at->keys <= most && at->depth <= most && at->out_depth <= most && at->heads <= most && width <= most &&
        at->page <= most && at->rows <= most / (group > 0 ? group : 1))
        return QF_OK;
    return qf_cuda_refuse(step, "%s: expected fewer than 2^31 keys, head elements, heads and rows of a KV head",
                          qf_op_name(step->call.op));
}

/* Tensor cores multiply 16-bit numbers of one type, in which FP8 numbers are exact. */
static bool takes_tensor_cores(const qf_attention *at) {
    const qf_dtype dtypes[] = {at->q->dtype, at->k->dtype, at->v->dtype};
    bool f16 = false, bf16 = false;
    for (uint32_t i = 0; i < QF_COUNT_OF(dtypes); i++) {
        if (dtypes[i] == QF_F32 || dtypes[i] == QF_F64) return false;
        f16 = f16 || dtypes[i] == QF_F16;
        bf16 = bf16 || dtypes[i] == QF_BF16;
    }
    return !(f16 && bf16) && at->depth <= QF_ATTENTION_TENSOR_HEAD_DIM;
}

static qf_cuda_attention_steps steps_of(qf_attention_steps steps) {
    return (qf_cuda_attention_steps){steps.sequence, steps.head, steps.row, steps.key};
}

static qf_cuda_attention_scale scale_of(const qf_view *view) {
    if (!view) return (qf_cuda_attention_scale){NULL, QF_F32, 0};
    return (qf_cuda_attention_scale){view->data, (int32_t)view->dtype, qf_view_count(view) > 1};
}

static const void *data_of(const qf_view *view) {
    return view ? view->data : NULL;
}

/* Rows of `depth` elements start on multiples of eight elements, in memory as well, and end there. */
static int32_t is_aligned(const qf_view *view, int64_t depth) {
    return depth % 8 == 0 && (uintptr_t)view->data % (8 * qf_dtype_bits(view->dtype) / 8) == 0;
}

/* Rows that bias or mask has; all where it is the same for every row. */
static int64_t rows_of(const qf_view *view, const qf_attention_steps *steps) {
    return view && steps->row ? view->dims[view->rank - 2] : INT64_MAX;
}

static void fill_operands(const qf_attention *at, qf_cuda_attention_params *params) {
    params->q = at->q->data;
    params->k = at->k->data;
    params->v = at->v->data;
    params->bias = data_of(at->bias);
    params->mask = data_of(at->mask);
    params->sinks = data_of(at->sinks);
    params->kv_lens = data_of(at->kv_lens);
    params->q_start = data_of(at->q_start);
    params->block_table = data_of(at->block_table);
    params->lse = at->lse ? at->lse->data : NULL;
    params->q_scale = scale_of(at->q_scale);
    params->k_scale = scale_of(at->k_scale);
    params->v_scale = scale_of(at->v_scale);
    params->q_dtype = (int32_t)at->q->dtype;
    params->k_dtype = (int32_t)at->k->dtype;
    params->v_dtype = (int32_t)at->v->dtype;
    params->bias_dtype = at->bias ? (int32_t)at->bias->dtype : QF_F32;
    params->sinks_dtype = at->sinks ? (int32_t)at->sinks->dtype : QF_F32;
    params->q_aligned = is_aligned(at->q, at->depth);
    params->k_aligned = is_aligned(at->k, at->depth);
    params->v_aligned = is_aligned(at->v, at->out_depth);
    params->q_steps = steps_of(at->q_steps);
    params->k_steps = steps_of(at->k_steps);
    params->v_steps = steps_of(at->v_steps);
    params->out_steps = steps_of(at->out_steps);
    params->lse_steps = steps_of(at->lse_steps);
    params->bias_steps = steps_of(at->bias_steps);
    params->mask_steps = steps_of(at->mask_steps);
    params->bias_rows = rows_of(at->bias, &at->bias_steps);
    params->mask_rows = rows_of(at->mask, &at->mask_steps);
}

static void fill_attributes(const qf_attention *at, qf_cuda_attention_params *params) {
    params->scale = at->scale;
    params->softcap = at->softcap;
    params->causal = at->causal;
    params->bottom_right = at->bottom_right;
    params->empty_is_nan = at->empty_is_nan;
    params->window_left = at->window_left;
    params->window_right = at->window_right;
    params->p_mode = (int32_t)at->p_mode;
    params->p_dtype = (int32_t)at->p_dtype;
}

static void fill_sizes(const qf_attention *at, int64_t tile_rows, int64_t least_rows,
                       qf_cuda_attention_params *params) {
    params->sequences = at->sequences;
    params->rows = at->rows;
    params->keys = (int32_t)at->keys;
    params->page = (int32_t)(at->page > 0 ? at->page : 1);
    params->pages = at->pages;
    params->table_width = at->block_table ? (int32_t)at->block_table->dims[1] : 0;
    params->heads = (int32_t)at->heads;
    params->kv_heads = (int32_t)at->kv_heads;
    params->group = params->heads / params->kv_heads;
    params->depth = (int32_t)at->depth;
    params->out_depth = (int32_t)at->out_depth;
    params->chunks = params->out_depth ? (params->out_depth + QF_ATTENTION_CHUNK - 1) / QF_ATTENTION_CHUNK : 1;
    params->packed = at->packed;
    int64_t rows = at->packed && !at->q_start ? 1 : at->rows; /* of a sequence, or of a packed batch */
    params->tiles = (rows * params->group + tile_rows - 1) / tile_rows;
    /* Every sequence of a packed batch that is not left out, and the rows before and behind them, may begin a tile. */
    int64_t sequences = least_rows > 0 && rows / least_rows < at->sequences ? rows / least_rows : at->sequences;
    if (at->q_start && params->tiles) params->tiles += sequences + 2;
    params->least_rows = at->q_start ? (int32_t)least_rows : 0;
    params->work = params->tiles * params->chunks * params->kv_heads * (at->q_start ? 1 : at->sequences);
}

static void fill_output(const qf_kernel_step *step, const qf_cuda_attention_extras *extras,
                        qf_cuda_attention_params *params) {
    params->out = step->call.results[0].data;
    params->out_dtype = (int32_t)step->call.results[0].dtype;
    params->out_scale = scale_of(extras->out_scale);
    params->quantises = extras->out_scale != NULL;
    params->out_mode = (int32_t)extras->out_mode;
    params->out_compute = (int32_t)extras->out_compute;
    params->via = (int32_t)extras->via;
}

qf_status qf_cuda_attend(qf_cuda_recorder *recorder, const qf_kernel_step *step, const qf_attention *at,
                         int64_t least_rows) {
    const qf_cuda_attention_extras extras = qf_cuda_attention_extras_of(step);
    qf_status status = check_dtypes(step, at, &extras);
    if (!status) status = check_sizes(step, at);
    if (status) return status;
    bool tensor = takes_tensor_cores(at);
    qf_cuda_attention_params filled = {0};
    fill_operands(at, &filled);
    fill_attributes(at, &filled);
    fill_sizes(at, tensor ? QF_ATTENTION_TENSOR_ROWS : QF_ATTENTION_PLAIN_ROWS, least_rows, &filled);
    fill_output(step, &extras, &filled);
    if (at->p_mode == QF_VALUE_graph) filled.p_scale = scale_of(extras.p_scale);
    if (!filled.work) return QF_OK;
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, tensor ? "attention_tensor" : "attention_plain",
                                                tensor ? "qf_attention_tensor" : "qf_attention_plain", sizeof filled);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    *(qf_cuda_attention_params *)launch->params = filled;
    launch->grid[0] = filled.work < INT32_MAX ? (uint32_t)filled.work : INT32_MAX;
    launch->block[0] = tensor ? QF_ATTENTION_TENSOR_THREADS : QF_ATTENTION_PLAIN_THREADS;
    launch->shared_bytes = tensor ? qf_attention_tensor_bytes(filled.depth) : qf_attention_plain_bytes(filled.depth);
    return QF_OK;
}

qf_status qf_cuda_build_attention(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    qf_attention at;
    qf_status status = qf_attention_describe(&step->call, &at);
    return status ? status : qf_cuda_attend(recorder, step, &at, 0);
}
