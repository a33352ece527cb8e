/* Owns: nests of loops over elements, shared by builders and GPU kernels: sizes, strides, division by multiplication.
 * Does not own: running them (common/loops.cuh).
 * Next: loops.c. */
#ifndef QF_KERNELS_CUDA_LOOPS_H
#define QF_KERNELS_CUDA_LOOPS_H

#include <stdint.h>

#define QF_CUDA_MOST_LOOPS 8

typedef struct qf_cuda_loop {
    int64_t size, from, to; /* from, to: elements that a step moves in the source and in the destination */
    uint32_t magic, shift;  /* of division by size, for indices under 2^31 */
} qf_cuda_loop;

/* Innermost loop first. `count` is the product of the sizes; `narrow`: it is under 2^31. */
typedef struct qf_cuda_loops {
    uint32_t rank, narrow;
    int64_t count;
    qf_cuda_loop loop[QF_CUDA_MOST_LOOPS];
} qf_cuda_loops;

#ifdef __cplusplus
extern "C" {
#endif

/* Loops over dims (outermost first), without those of size 1, neighbours merged where both strides allow it. */
void qf_cuda_loops_make(qf_cuda_loops *loops, uint32_t rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to);
/* One loop an axis, nothing merged: for kernels that look at coordinates. */
void qf_cuda_loops_keep(qf_cuda_loops *loops, uint32_t rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to);
/* As few and as wide elements as possible: where the innermost loop runs over consecutive bytes on both sides, the
 * largest power of two up to 16 bytes that divides every size, stride and the bits of `addresses`. Rewrites the loops
 * and returns the bytes of an element. */
uint32_t qf_cuda_loops_widen(qf_cuda_loops *loops, uint32_t element_bytes, uint64_t addresses);
/* The same for an innermost loop that repeats one element (from 0, to 1): returns how many copies an element of the
 * rewritten loops stands for in the destination. */
uint32_t qf_cuda_loops_repeat(qf_cuda_loops *loops, uint32_t element_bytes, uint64_t destination);
/* Division of n < 2^31 by size, 1 <= size < 2^31: ((n * magic >> 32) + n) >> shift. */
void qf_cuda_division(int64_t size, uint32_t *out_magic, uint32_t *out_shift);

#ifdef __cplusplus
}
#endif

#endif
