/* Owns: which kernel computes a product (cuBLASLt, tensor cores, the plain one), and its launches: contract, matmul,
 * scaled_matmul. Does not own: what a call multiplies (kernels/cpu/contract.c), mapping it to a strided batch
 * (product.c). Next: product.h, contract.cu, contract_mma.cu. */
#include "kernels/cuda/contract.h"

#include "kernels/cuda/product.h"

#define WORKSPACE_BYTES ((size_t)32 << 20) /* what cuBLASLt's heuristics on Hopper count on */
#define MOST_PRODUCTS   32                 /* of cuBLASLt for one step */
#define RUN             8

_Static_assert((int)QF_CONTRACT_SLOTS == (int)QF_GEMM_SLOTS && (int)QF_CONTRACT_BIAS == (int)QF_GEMM_BIAS,
               "axes of both have the same tensors");

static bool is_16_bits(qf_dtype dtype) {
    return dtype == QF_F16 || dtype == QF_BF16;
}

static bool is_common_float8(qf_dtype dtype) {
    return dtype == QF_F8E4M3FN || dtype == QF_F8E5M2;
}

static qf_dtype dtype_of(const qf_view *view) {
    return view ? view->dtype : QF_DTYPE_NONE;
}

static void *data_of(const qf_view *view) {
    return view ? view->data : NULL;
}

static int64_t count_of(const qf_view *view) {
    return view ? qf_view_count(view) : 0;
}

/* --- parameters of our own kernels --- */

static qf_contract_group put_axes(qf_contract_params *params, uint32_t *used, const qf_gemm_axes *axes) {
    qf_contract_group group = {.first = *used, .rank = axes->rank, .size = qf_product_extent(axes)};
    for (uint32_t i = 0; i < axes->rank; i++) {
        qf_contract_axis *axis = &params->axes[(*used)++];
        axis->size = axes->axis[i].size;
        for (uint32_t slot = 0; slot < QF_CONTRACT_SLOTS; slot++) axis->stride[slot] = axes->axis[i].stride[slot];
    }
    return group;
}

static qf_contract_params params_of(const qf_gemm *gemm, const qf_cuda_output *output) {
    qf_contract_params params = {.a = gemm->a->data,
                                 .b = gemm->b->data,
                                 .a_scale = data_of(gemm->a_scale),
                                 .b_scale = data_of(gemm->b_scale),
                                 .bias = data_of(gemm->bias),
                                 .y = gemm->y->data,
                                 .a_dtype = gemm->a->dtype,
                                 .b_dtype = gemm->b->dtype,
                                 .a_scale_dtype = dtype_of(gemm->a_scale),
                                 .b_scale_dtype = dtype_of(gemm->b_scale),
                                 .bias_dtype = dtype_of(gemm->bias),
                                 .output = *output};
    uint32_t used = 0;
    params.batch = put_axes(&params, &used, &gemm->batch);
    params.m = put_axes(&params, &used, &gemm->m);
    params.n = put_axes(&params, &used, &gemm->n);
    params.k = put_axes(&params, &used, &gemm->k);
    return params;
}

static qf_status add_tiles(qf_cuda_recorder *recorder, qf_contract_params *params, const char *image,
                           const char *kernel, int64_t rows, int64_t columns, uint32_t threads, uint32_t shared_bytes) {
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, image, kernel, sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    params->row_tiles = qf_cuda_divide_up(params->m.size, rows);
    params->column_tiles = qf_cuda_divide_up(params->n.size, columns);
    *(qf_contract_params *)launch->params = *params;
    launch->grid[0] = qf_cuda_blocks(params->batch.size * params->row_tiles * params->column_tiles);
    launch->block[0] = threads;
    launch->shared_bytes = shared_bytes;
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

/* --- the plain kernel --- */

static bool is_innermost(const qf_gemm_axes *axes, int slot) {
    return axes->rank && axes->axis[axes->rank - 1].stride[slot] == 1;
}

static qf_status add_plain(qf_cuda_recorder *recorder, const qf_gemm *gemm, const qf_cuda_output *output) {
    qf_contract_params params = params_of(gemm, output);
    bool wide = gemm->a->dtype == QF_F64 || gemm->b->dtype == QF_F64;
    bool is_float = qf_dtype_is_float(gemm->a->dtype) || qf_dtype_is_float(gemm->b->dtype);
    const char *kernel = wide ? "qf_contract_f64" : is_float ? "qf_contract_f32" : "qf_contract_i64";
    params.a_along_k = is_innermost(&gemm->k, QF_GEMM_A);
    params.b_along_k = is_innermost(&gemm->k, QF_GEMM_B);
    return add_tiles(recorder, &params, "contract", kernel, QF_CONTRACT_TILE, QF_CONTRACT_TILE, 256, 0);
}

/* --- tensor cores --- */

static bool strides_are_whole_runs(const qf_gemm_axes *axes, int slot, const qf_gemm_axis *except) {
    for (uint32_t i = 0; i < axes->rank; i++)
        if (&axes->axis[i] != except && axes->axis[i].stride[slot] % RUN) return false;
    return true;
}

/* Runs of eight elements of the operand along `along` are consecutive, aligned and complete. */
static bool has_runs(const qf_gemm *gemm, const qf_view *view, int slot, const qf_gemm_axes *lines,
                     const qf_gemm_axes *along) {
    if (!is_innermost(along, slot)) return false;
    const qf_gemm_axis *inner = &along->axis[along->rank - 1];
    return inner->size % RUN == 0 && qf_cuda_is_aligned(view->data, view->dtype, RUN) &&
           strides_are_whole_runs(&gemm->batch, slot, inner) && strides_are_whole_runs(lines, slot, inner) &&
           strides_are_whole_runs(&gemm->k, slot, inner);
}

static bool find_runs(const qf_gemm *gemm, const qf_view *view, int slot, const qf_gemm_axes *lines,
                      uint32_t *out_along_k) {
    *out_along_k = has_runs(gemm, view, slot, lines, &gemm->k);
    return *out_along_k || has_runs(gemm, view, slot, lines, lines);
}

/* False: the operands are not of a kind that the tensor cores take. */
static bool add_tensor_core(qf_cuda_recorder *recorder, const qf_gemm *gemm, const qf_cuda_output *output,
                            qf_status *out_status) {
    qf_dtype a = gemm->a->dtype, b = gemm->b->dtype;
    qf_contract_params params = params_of(gemm, output);
    if (!(is_16_bits(a) && a == b) && !(is_common_float8(a) && is_common_float8(b))) return false;
    if (gemm->k.rank != 1 || !find_runs(gemm, gemm->a, QF_GEMM_A, &gemm->m, &params.a_along_k) ||
        !find_runs(gemm, gemm->b, QF_GEMM_B, &gemm->n, &params.b_along_k))
        return false;
    bool few = params.m.size <= QF_CONTRACT_MMA_FEW;
    const char *kernel = a == QF_BF16 ? (few ? "qf_contract_bf16_few" : "qf_contract_bf16")
                         : few        ? "qf_contract_f16_few"
                                      : "qf_contract_f16";
    *out_status =
        add_tiles(recorder, &params, "contract_mma", kernel, few ? QF_CONTRACT_MMA_FEW : QF_CONTRACT_MMA_ROWS,
                  QF_CONTRACT_MMA_COLUMNS, few ? 128 : 256, few ? QF_CONTRACT_MMA_FEW_SHARED : QF_CONTRACT_MMA_SHARED);
    return true;
}

/* --- cuBLASLt --- */

/* What the end of a product has to do that cuBLASLt does not. */
typedef struct ending {
    bool a_scale, b_scale, bias, rounding; /* left for the kernel at the end */
} ending;

static bool is_left(const ending *left) {
    return left->a_scale || left->b_scale || left->bias || left->rounding;
}

/* Scales go along as f32 scalars of FP8 operands; the bias as a row of the result's 16-bit type. */
static ending ending_of(const qf_gemm *gemm, const qf_cuda_output *output) {
    bool float8 = qf_dtype_is_float8(gemm->a->dtype);
    qf_dtype dtype = (qf_dtype)output->dtype;
    ending left = {
        .a_scale = gemm->a_scale && !(float8 && count_of(gemm->a_scale) == 1 && gemm->a_scale->dtype == QF_F32),
        .b_scale = gemm->b_scale && !(float8 && count_of(gemm->b_scale) == 1 && gemm->b_scale->dtype == QF_F32),
        .rounding = output->scale || (dtype != QF_F64 && dtype != QF_F32 && !is_16_bits(dtype)) ||
                    (is_16_bits(gemm->a->dtype) && is_16_bits(dtype) && dtype != gemm->a->dtype) ||
                    (gemm->a->dtype == QF_F32 && dtype != QF_F32)};
    left.bias = gemm->bias && (left.a_scale || left.b_scale || left.rounding || !is_16_bits(dtype) ||
                               gemm->bias->dtype != dtype || count_of(gemm->bias) == 1);
    return left;
}

static bool blas_takes(const qf_cuda_recorder *recorder, const qf_gemm *gemm, const qf_cuda_output *output) {
    qf_dtype a = gemm->a->dtype, b = gemm->b->dtype;
    if (!recorder->has_matmul) return false;
    if (a == QF_F64) return b == QF_F64 && output->dtype == QF_F64 && !output->scale;
    if (output->dtype == QF_F64) return false;
    if (a == QF_F32 || is_16_bits(a)) return a == b;
    /* The library has no product of two f8E5M2 operands. */
    return recorder->target >= QF_TARGET_sm_89 && is_common_float8(a) && is_common_float8(b) &&
           (a == QF_F8E4M3FN || b == QF_F8E4M3FN);
}

/* Both operands of an FP8 product lie along k; sizes and strides are multiples of 16 bytes. */
static bool float8_fits(const qf_cuda_matmul *matmul) {
    return !matmul->transpose_a && matmul->transpose_b && matmul->n % 16 == 0 && matmul->k % 16 == 0 &&
           matmul->a_leading % 16 == 0 && matmul->b_leading % 16 == 0 && matmul->d_leading % 16 == 0 &&
           matmul->a_batch_stride % 16 == 0 && matmul->b_batch_stride % 16 == 0 && matmul->d_batch_stride % 16 == 0 &&
           (uintptr_t)matmul->a % 16 == 0 && (uintptr_t)matmul->b % 16 == 0 && (uintptr_t)matmul->d % 16 == 0;
}

/* b [k, n] of bytes becomes [n, k] in scratch, once a product. */
static qf_status turn_b(qf_cuda_recorder *recorder, qf_cuda_matmul *matmul) {
    qf_contract_turn_params *params;
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "contract", "qf_contract_turn", sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    params = launch->params;
    params->in = matmul->b;
    params->out = qf_cuda_scratch(recorder, (size_t)matmul->n * (size_t)matmul->k);
    params->rows = matmul->k;
    params->columns = matmul->n;
    launch->grid[0] = qf_cuda_blocks(qf_cuda_divide_up(matmul->n, 64) * qf_cuda_divide_up(matmul->k, 64));
    launch->block[0] = 256;
    launch->dependent = qf_cuda_is_dependent(recorder);
    matmul->b = params->out;
    matmul->transpose_b = true;
    matmul->b_leading = matmul->k;
    return QF_OK;
}

static bool turns(const qf_product *product) {
    const qf_cuda_matmul *matmul = &product->matmul;
    return !matmul->transpose_b && matmul->batch == 1 && product->repeat_rank == 0 && matmul->b_leading == matmul->n &&
           (uintptr_t)matmul->b % 4 == 0;
}

static qf_status add_end(qf_cuda_recorder *recorder, const qf_gemm *gemm, const ending *left,
                         const qf_cuda_output *output, const float *values) {
    int64_t count = qf_view_count(gemm->y), columns = qf_product_extent(&gemm->n);
    bool by_row = left->a_scale || left->b_scale || left->bias; /* then y is [rows, columns], dense */
    qf_contract_end_params *params;
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, "contract", "qf_contract_end", sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    params = launch->params;
    *params = (qf_contract_end_params){.product = values,
                                       .y = gemm->y->data,
                                       .rows = by_row ? count / columns : 1,
                                       .columns = by_row ? columns : count,
                                       .output = *output};
    if (left->a_scale) {
        params->a_scale = gemm->a_scale->data;
        params->a_scale_dtype = gemm->a_scale->dtype;
        params->a_scale_stride = count_of(gemm->a_scale) > 1;
    }
    if (left->b_scale) {
        params->b_scale = gemm->b_scale->data;
        params->b_scale_dtype = gemm->b_scale->dtype;
        params->b_scale_stride = count_of(gemm->b_scale) > 1;
    }
    if (left->bias) {
        params->bias = gemm->bias->data;
        params->bias_dtype = gemm->bias->dtype;
        params->bias_stride = count_of(gemm->bias) > 1;
    }
    launch->grid[0] = qf_cuda_blocks(qf_cuda_divide_up(count, 256));
    launch->block[0] = 256;
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

/* Every product of the batch axes that one call does not cover. */
static qf_status add_products(qf_cuda_recorder *recorder, const qf_product *product) {
    size_t a_size = qf_dtype_bits(product->matmul.a_dtype) / 8, b_size = qf_dtype_bits(product->matmul.b_dtype) / 8;
    size_t d_size = qf_dtype_bits(product->matmul.d_dtype) / 8;
    void *workspace = qf_cuda_scratch(recorder, WORKSPACE_BYTES);
    for (int64_t i = 0; i < product->repeats; i++) {
        qf_cuda_matmul *matmul = qf_cuda_add_matmul(recorder);
        if (!matmul) return QF_ERROR_OUT_OF_MEMORY;
        *matmul = product->matmul;
        matmul->a = (const char *)matmul->a + (size_t)qf_product_repeat(product, i, QF_GEMM_A) * a_size;
        matmul->b = (const char *)matmul->b + (size_t)qf_product_repeat(product, i, QF_GEMM_B) * b_size;
        matmul->d = (char *)matmul->d + (size_t)qf_product_repeat(product, i, QF_GEMM_Y) * d_size;
        matmul->workspace = workspace;
        matmul->workspace_size = WORKSPACE_BYTES;
    }
    return QF_OK;
}

/* False: cuBLASLt does not take the product. */
static bool add_blas(qf_cuda_recorder *recorder, const qf_gemm *gemm, const qf_cuda_output *output,
                     qf_status *out_status) {
    qf_product product;
    bool float8 = qf_dtype_is_float8(gemm->a->dtype);
    if (!blas_takes(recorder, gemm, output)) return false;
    ending left = ending_of(gemm, output);
    /* Exchanged operands would exchange the scales and the bias of rows and columns, and no FP8 result needs it. */
    if (!qf_product_map(gemm, &product) || product.repeats > MOST_PRODUCTS) return false;
    if (product.is_exchanged && (gemm->a_scale || gemm->b_scale || gemm->bias)) return false;
    qf_cuda_matmul *matmul = &product.matmul;
    bool turn = float8 && !float8_fits(matmul) && turns(&product);
    if (turn) {
        qf_cuda_matmul turned = *matmul;
        turned.transpose_b = true;
        turned.b_leading = turned.k;
        turned.b = NULL; /* scratch is aligned */
        if (!float8_fits(&turned)) return false;
    } else if (float8 && !float8_fits(matmul)) {
        return false;
    }
    *out_status = turn ? turn_b(recorder, matmul) : QF_OK;
    if (*out_status) return true;
    matmul->a_dtype = product.is_exchanged ? gemm->b->dtype : gemm->a->dtype;
    matmul->b_dtype = product.is_exchanged ? gemm->a->dtype : gemm->b->dtype;
    matmul->d_dtype = is_left(&left) ? QF_F32 : (qf_dtype)output->dtype;
    if (!left.a_scale) matmul->a_scale = data_of(gemm->a_scale);
    if (!left.b_scale) matmul->b_scale = data_of(gemm->b_scale);
    if (!left.bias) matmul->bias = data_of(gemm->bias);
    if (is_left(&left)) matmul->d = qf_cuda_scratch(recorder, (size_t)qf_view_count(gemm->y) * sizeof(float));
    const float *values = matmul->d;
    *out_status = add_products(recorder, &product);
    if (!*out_status && is_left(&left)) *out_status = add_end(recorder, gemm, &left, output, values);
    return true;
}

/* --- ops --- */

static qf_status build(qf_cuda_recorder *recorder, const qf_kernel_step *step, const qf_view *out_scale,
                       uint32_t out_mode) {
    qf_gemm gemm;
    qf_status status = qf_gemm_describe(&step->call, &gemm);
    if (status) return status;
    if (qf_view_count(gemm.y) == 0) return QF_OK;
    qf_cuda_output output;
    status = qf_cuda_output_of(step, gemm.y, out_scale, out_mode, UINT32_MAX, UINT32_MAX, &output);
    if (status) return status;
    qf_product_simplify(&gemm);
    bool empty = qf_product_extent(&gemm.k) == 0;
    if (!empty && add_blas(recorder, &gemm, &output, &status)) return status;
    if (!empty && add_tensor_core(recorder, &gemm, &output, &status)) return status;
    return add_plain(recorder, &gemm, &output);
}

qf_status qf_cuda_build_contract(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    return build(recorder, step, NULL, UINT32_MAX);
}

qf_status qf_cuda_build_matmul(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    return build(recorder, step, NULL, UINT32_MAX);
}

qf_status qf_cuda_build_scaled_matmul(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    return build(recorder, step, qf_call_operand(&step->call, QF_IN(scaled_matmul, out_scale)),
                 QF_ATTR(scaled_matmul, out_mode));
}
