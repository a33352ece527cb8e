/* Owns: describing row-major products to cuBLASLt, which is column-major.
 * Does not own: the table of functions (blas.def).
 * Next: blas.h. */
#include "runtime/cuda/blas.h"

/* Values of the published ABI. */
enum {
    COMPUTE_F32 = 68,
    COMPUTE_F64 = 70,
    TYPE_F32 = 0,
    TYPE_F64 = 1,
    TYPE_F16 = 2,
    TYPE_BF16 = 14,
    TYPE_E4M3 = 28,
    TYPE_E5M2 = 29,
    OPERATION_TRANSPOSE = 1,
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_BATCH_STRIDE = 6,
    DESCRIPTION_TRANSPOSE_A = 3,
    DESCRIPTION_TRANSPOSE_B = 4,
    DESCRIPTION_EPILOGUE = 7,
    DESCRIPTION_BIAS = 8,
    DESCRIPTION_A_SCALE = 17,
    DESCRIPTION_B_SCALE = 18,
    DESCRIPTION_BIAS_TYPE = 26,
    EPILOGUE_BIAS = 4,
    PREFERENCE_WORKSPACE = 1,
    PREFERENCE_ALIGNMENT_A = 5 /* then b, c, d */
};

static int type_of(qf_dtype dtype) {
    switch (dtype) {
    case QF_F64: return TYPE_F64;
    case QF_F32: return TYPE_F32;
    case QF_F16: return TYPE_F16;
    case QF_BF16: return TYPE_BF16;
    case QF_F8E4M3FN: return TYPE_E4M3;
    case QF_F8E5M2: return TYPE_E5M2;
    default: return -1;
    }
}

static const char *find_functions(qf_cublas *blas) {
#define BLAS(name, field, parameters)                                                                                  \
    if (!qf_library_find(blas->library, #name, &blas->field)) return #name;
#include "runtime/cuda/blas.def"
    return NULL;
}

bool qf_cublas_open(qf_cublas *out_blas) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    *out_blas = (qf_cublas){.library = qf_library_open(names)};
    if (!out_blas->library) return false;
    if (!find_functions(out_blas) && out_blas->create(&out_blas->handle) == 0) return true;
    out_blas->handle = NULL;
    qf_cublas_close(out_blas);
    return false;
}

void qf_cublas_close(qf_cublas *blas) {
    if (blas->handle) (void)blas->destroy(blas->handle);
    qf_library_close(blas->library);
    *blas = (qf_cublas){0};
}

void qf_cublas_release(const qf_cublas *blas, qf_cublas_product *product) {
    if (product->operation) (void)blas->operation_destroy(product->operation);
    if (product->a) (void)blas->layout_destroy(product->a);
    if (product->b) (void)blas->layout_destroy(product->b);
    if (product->d) (void)blas->layout_destroy(product->d);
    *product = (qf_cublas_product){0};
}

/* A row-major [rows, columns] matrix is a column-major [columns, rows] one. */
static bool make_layout(const qf_cublas *blas, qf_dtype dtype, int64_t rows, int64_t columns, int64_t leading,
                        int64_t batch, int64_t batch_stride, void **out_layout) {
    int32_t count = (int32_t)batch;
    if (batch > INT32_MAX ||
        blas->layout_create(out_layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, leading))
        return false;
    return blas->layout_set(*out_layout, LAYOUT_BATCH_COUNT, &count, sizeof count) == 0 &&
           blas->layout_set(*out_layout, LAYOUT_BATCH_STRIDE, &batch_stride, sizeof batch_stride) == 0;
}

static bool make_layouts(const qf_cublas *blas, const qf_cuda_matmul *matmul, qf_cublas_product *product) {
    int64_t a_rows = matmul->transpose_a ? matmul->k : matmul->m,
            a_columns = matmul->transpose_a ? matmul->m : matmul->k;
    int64_t b_rows = matmul->transpose_b ? matmul->n : matmul->k,
            b_columns = matmul->transpose_b ? matmul->k : matmul->n;
    return make_layout(blas, matmul->a_dtype, a_rows, a_columns, matmul->a_leading, matmul->batch,
                       matmul->a_batch_stride, &product->a) &&
           make_layout(blas, matmul->b_dtype, b_rows, b_columns, matmul->b_leading, matmul->batch,
                       matmul->b_batch_stride, &product->b) &&
           make_layout(blas, matmul->d_dtype, matmul->m, matmul->n, matmul->d_leading, matmul->batch,
                       matmul->d_batch_stride, &product->d);
}

/* d^T = b^T a^T: cuBLASLt's first operand is our b. */
static bool describe(const qf_cublas *blas, const qf_cuda_matmul *matmul, void *operation) {
    int32_t yes = OPERATION_TRANSPOSE, epilogue = EPILOGUE_BIAS, bias_type = type_of(matmul->d_dtype);
    if (matmul->transpose_b && blas->operation_set(operation, DESCRIPTION_TRANSPOSE_A, &yes, sizeof yes)) return false;
    if (matmul->transpose_a && blas->operation_set(operation, DESCRIPTION_TRANSPOSE_B, &yes, sizeof yes)) return false;
    if (matmul->b_scale &&
        blas->operation_set(operation, DESCRIPTION_A_SCALE, &matmul->b_scale, sizeof matmul->b_scale))
        return false;
    if (matmul->a_scale &&
        blas->operation_set(operation, DESCRIPTION_B_SCALE, &matmul->a_scale, sizeof matmul->a_scale))
        return false;
    if (!matmul->bias) return true;
    return blas->operation_set(operation, DESCRIPTION_EPILOGUE, &epilogue, sizeof epilogue) == 0 &&
           blas->operation_set(operation, DESCRIPTION_BIAS, &matmul->bias, sizeof matmul->bias) == 0 &&
           blas->operation_set(operation, DESCRIPTION_BIAS_TYPE, &bias_type, sizeof bias_type) == 0;
}

/* The largest power of two, up to 256, that divides the address. */
static uint32_t alignment_of(const void *address) {
    uintptr_t bits = (uintptr_t)address | 256;
    return (uint32_t)(bits & (~bits + 1));
}

static bool choose(const qf_cublas *blas, const qf_cuda_matmul *matmul, qf_cublas_product *product) {
    const uint32_t alignments[] = {alignment_of(matmul->b), alignment_of(matmul->a), alignment_of(matmul->d),
                                   alignment_of(matmul->d)};
    void *preference = NULL;
    int found = 0;
    if (blas->preference_create(&preference)) return false;
    bool set = blas->preference_set(preference, PREFERENCE_WORKSPACE, &matmul->workspace_size,
                                    sizeof matmul->workspace_size) == 0;
    for (int i = 0; set && i < 4; i++)
        set = blas->preference_set(preference, PREFERENCE_ALIGNMENT_A + i, &alignments[i], sizeof alignments[i]) == 0;
    set = set && blas->heuristic(blas->handle, product->operation, product->b, product->a, product->d, product->d,
                                 preference, 1, &product->choice, &found) == 0;
    (void)blas->preference_destroy(preference);
    return set && found > 0 && product->choice.state == 0;
}

bool qf_cublas_prepare(const qf_cublas *blas, const qf_cuda_matmul *matmul, qf_cublas_product *out_product) {
    *out_product = (qf_cublas_product){0};
    bool wide = matmul->d_dtype == QF_F64;
    bool made = blas->operation_create(&out_product->operation, wide ? COMPUTE_F64 : COMPUTE_F32,
                                       wide ? TYPE_F64 : TYPE_F32) == 0 &&
                describe(blas, matmul, out_product->operation) && make_layouts(blas, matmul, out_product) &&
                choose(blas, matmul, out_product);
    if (!made) qf_cublas_release(blas, out_product);
    return made;
}

int qf_cublas_enqueue(const qf_cublas *blas, const qf_cuda_matmul *matmul, const qf_cublas_product *product,
                      qf_cu_stream stream) {
    const float one = 1.0f, zero = 0.0f;
    const double wide_one = 1.0, wide_zero = 0.0;
    bool wide = matmul->d_dtype == QF_F64;
    return blas->matmul(blas->handle, product->operation, wide ? (const void *)&wide_one : &one, matmul->b, product->b,
                        matmul->a, product->a, wide ? (const void *)&wide_zero : &zero, matmul->d, product->d,
                        matmul->d, product->d, product->choice.algorithm, matmul->workspace, matmul->workspace_size,
                        stream);
}
