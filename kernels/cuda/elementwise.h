/* Owns: the program that an elementwise kernel interprets for each element, as a parameter block.
 * Does not own: writing programs (elementwise.c, elementwise_chain.c), running them (elementwise.cu,
 * elementwise_wide.cu). Next: docs/decisions/0008-elementwise-programs.md. */
#ifndef QF_KERNELS_CUDA_ELEMENTWISE_H
#define QF_KERNELS_CUDA_ELEMENTWISE_H

#include <stdint.h>

#define QF_ELEMENTWISE_TENSORS 24
#define QF_ELEMENTWISE_LOOPS   48
#define QF_ELEMENTWISE_CODES   48
#define QF_ELEMENTWISE_SLOTS   5
#define QF_ELEMENTWISE_VECTOR  4 /* consecutive elements that a thread loads and stores at once */
#define QF_ELEMENTWISE_GROUPS  4 /* vectors of a thread at a time, in the kernel for narrow floats */

#define QF_ELEMENTWISE_THREADS     128 /* of a CTA, at most */
/* The kernel for common ops over aligned runs: elements of a run, runs of a thread that reads 16-bit tensors, threads
 * of a CTA. */
#define QF_ELEMENTWISE_RUN         8
#define QF_ELEMENTWISE_RUNS_16     2
#define QF_ELEMENTWISE_RUN_THREADS 256

/* How a tensor's elements lie in the order of the program's elements. */
enum {
    QF_ELEMENTWISE_SAME = 0,    /* element i is element i */
    QF_ELEMENTWISE_ALIGNED = 1, /* the same, and a vector may be accessed at once */
    QF_ELEMENTWISE_ONE = 2,     /* one element for all */
    QF_ELEMENTWISE_RUNS = 3,    /* by loops; a vector lies together, aligned */
    QF_ELEMENTWISE_REPEATS = 4, /* by loops; a vector is one element */
    QF_ELEMENTWISE_LOOPED = 5   /* by loops, element by element */
};

typedef struct qf_elementwise_tensor {
    uint64_t address;
    uint8_t dtype, kind, rank, first_loop;
    uint32_t unused;
} qf_elementwise_tensor;

/* Innermost first. Division by size as in loops.h. */
typedef struct qf_elementwise_loop {
    int64_t size, stride;
    uint32_t magic, shift;
} qf_elementwise_loop;

/* Where an instruction's operand comes from: a tensor (its number), a slot, or the value of the instruction before. */
#define QF_ELEMENTWISE_SLOT(n) (64 + (n))
#define QF_ELEMENTWISE_LAST    254
#define QF_ELEMENTWISE_NONE    255

/* Instructions are IR ops by their numbers, and this one: its second operand is the condition of the `where` that
 * follows; the last value stays. */
#define QF_ELEMENTWISE_CONDITION 255

typedef struct qf_elementwise_code {
    uint8_t op;
    uint8_t domain;        /* of the operands: qf_domain */
    uint8_t dtype;         /* the result is rounded to it; none: it needs no rounding */
    uint8_t mode;          /* the attribute of gelu and mod */
    uint8_t saturate;      /* of rounding and storing */
    uint8_t first, second; /* operands */
    uint8_t slot, result;  /* where the value goes besides: a slot, a tensor; or none */
    uint8_t unused[7];
} qf_elementwise_code;

typedef struct qf_elementwise_params {
    int64_t count; /* elements */
    uint32_t code_count;
    uint32_t narrow; /* count is under 2^31 */
    qf_elementwise_tensor tensors[QF_ELEMENTWISE_TENSORS];
    qf_elementwise_loop loops[QF_ELEMENTWISE_LOOPS];
    qf_elementwise_code codes[QF_ELEMENTWISE_CODES];
} qf_elementwise_params;

#endif
