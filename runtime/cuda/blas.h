/* Owns: matrix products through cuBLASLt, loaded at run time.
 * Does not own: when a step is a matrix product (kernels/cuda/contract.c).
 * Next: blas.def. */
#ifndef QF_RUNTIME_CUDA_BLAS_H
#define QF_RUNTIME_CUDA_BLAS_H

#include "kernels/cuda/launch.h"
#include "runtime/cuda/driver.h"

/* cublasLtMatmulHeuristicResult_t of the published ABI. */
typedef struct qf_cublas_choice {
    uint64_t algorithm[8];
    size_t workspace_size;
    int state;
    float waves;
    int reserved[4];
} qf_cublas_choice;

typedef struct qf_cublas {
    void *library; /* NULL: cuBLASLt was not found */
    void *handle;
#define BLAS(name, field, parameters) int(*field) parameters;
#include "runtime/cuda/blas.def"
} qf_cublas;

/* One product, ready to be enqueued any number of times. */
typedef struct qf_cublas_product {
    void *operation, *a, *b, *d;
    qf_cublas_choice choice;
} qf_cublas_product;

/* Looks for libcublasLt.so.13 and .12, then creates a handle in the current context. False: it is not there (no fault).
 */
bool qf_cublas_open(qf_cublas *out_blas);
void qf_cublas_close(qf_cublas *blas);
/* False: cuBLASLt has no algorithm for the product; *out_product needs no closing then. */
bool qf_cublas_prepare(const qf_cublas *blas, const qf_cuda_matmul *matmul, qf_cublas_product *out_product);
void qf_cublas_release(const qf_cublas *blas, qf_cublas_product *product);
/* cublasStatus_t: 0 is success. */
int qf_cublas_enqueue(const qf_cublas *blas, const qf_cuda_matmul *matmul, const qf_cublas_product *product,
                      qf_cu_stream stream);

#endif
