/* Owns: cuBLASLt without a GPU, under the real one's soname: every product has an algorithm, and enqueuing counts.
 * Does not own: the driver (fake_driver.c).
 * Next: runtime/cuda/blas.def. */
#include <stdlib.h>

#include "runtime/cuda/blas.h"

#define BLAS(name, field, parameters) int name parameters;
#include "runtime/cuda/blas.def"

static int make(void **out) {
    *out = malloc(1);
    return *out ? 0 : 3;
}
static int drop(void *handle) {
    free(handle);
    return 0;
}
static int set(const void *handle, int attribute, const void *value, size_t size) {
    return handle && attribute > 0 && value && size ? 0 : 7;
}

int cublasLtCreate(void **handle) {
    return make(handle);
}
int cublasLtDestroy(void *handle) {
    return drop(handle);
}
int cublasLtMatmulDescCreate(void **operation, int compute, int scale_type) {
    return compute > 0 && scale_type >= 0 ? make(operation) : 7;
}
int cublasLtMatmulDescDestroy(void *operation) {
    return drop(operation);
}
int cublasLtMatmulDescSetAttribute(void *operation, int attribute, const void *value, size_t size) {
    return set(operation, attribute, value, size);
}
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    return type >= 0 && rows && columns && leading > 0 ? make(layout) : 7;
}
int cublasLtMatrixLayoutDestroy(void *layout) {
    return drop(layout);
}
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t size) {
    return set(layout, attribute, value, size);
}
int cublasLtMatmulPreferenceCreate(void **preference) {
    return make(preference);
}
int cublasLtMatmulPreferenceDestroy(void *preference) {
    return drop(preference);
}
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t size) {
    return set(preference, attribute, value, size);
}
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                   int wanted, qf_cublas_choice *choices, int *found) {
    if (!handle || !operation || !a || !b || !c || !d || !preference || wanted < 1) return 7;
    choices[0] = (qf_cublas_choice){.state = 0};
    *found = 1;
    return 0;
}
int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b,
                   void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                   const void *algorithm, void *workspace, size_t workspace_size, qf_cu_stream stream) {
    (void)stream;
    bool whole = handle && operation && alpha && a && a_layout && b && b_layout && beta && c && c_layout && d &&
                 d_layout && algorithm && (workspace || !workspace_size);
    return whole ? 0 : 7;
}
