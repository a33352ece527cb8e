/* Owns: seeing strided products as one strided batch of row-major matrix products, as cuBLASLt takes them.
 * Does not own: what a call multiplies (kernels/cpu/gemm.h), who computes it (contract.c).
 * Next: product.c. */
#ifndef QF_KERNELS_CUDA_PRODUCT_H
#define QF_KERNELS_CUDA_PRODUCT_H

#include "kernels/cpu/gemm.h"
#include "kernels/cuda/fast.h"

typedef struct qf_product {
    qf_cuda_matmul matmul; /* sizes, strides, transpositions, addresses; dtypes, scales and bias are the caller's */
    bool is_exchanged;     /* matmul.a is the gemm's b: the result is written transposed */
    /* Batch axes beyond the one of matmul: `repeats` products in all. */
    uint32_t repeat_rank;
    qf_gemm_axis repeat[2 * QF_MAX_RANK];
    int64_t repeats;
} qf_product;

int64_t qf_product_extent(const qf_gemm_axes *axes);
/* Drops axes of one element; orders those of batch, m and n as the result lies, and merges neighbours that step as one.
 * The order of summed elements stays. */
void qf_product_simplify(qf_gemm *gemm);
/* Of a simplified, non-empty gemm. False when no operand is contiguous along one of its matrix axes. */
bool qf_product_map(const qf_gemm *gemm, qf_product *out);
/* Offset in elements of product `index` of the repeats. `slot`: QF_GEMM_A, QF_GEMM_B of the matmul, QF_GEMM_Y. */
int64_t qf_product_repeat(const qf_product *product, int64_t index, int slot);

#endif
