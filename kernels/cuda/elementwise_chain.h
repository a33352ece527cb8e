/* Owns: a chain of elementwise steps that one launch may perform, as builders see it.
 * Does not own: the program (elementwise.h).
 * Next: elementwise.c, elementwise_chain.c. */
#ifndef QF_KERNELS_CUDA_ELEMENTWISE_CHAIN_H
#define QF_KERNELS_CUDA_ELEMENTWISE_CHAIN_H

#include "kernels/cuda/builder.h"
#include "kernels/cuda/elementwise.h"

#define QF_CUDA_MOST_LINKS 24

typedef struct qf_cuda_link {
    const qf_kernel_step *step;
    int32_t producers[3]; /* by operand: the link whose value it is, or -1: it is read from memory */
} qf_cuda_link;

typedef struct qf_cuda_chain {
    bool wide;        /* its values are f64 or integers */
    int64_t elements; /* of every result */
    uint32_t count, first_step;
    qf_cuda_link links[QF_CUDA_MOST_LINKS];
} qf_cuda_chain;

/* --- elementwise.c: what steps mean --- */
/* The operands that the step may have: 1, 2 or 3; 0 for an op that is none of the elementwise ones. */
uint32_t qf_cuda_elementwise_operands(qf_op op);

/* --- elementwise_chain.c --- */
/* True where a later link may take the value of `link` from a register: it has the chain's arithmetic. */
bool qf_cuda_chain_has_value(const qf_cuda_chain *chain, const qf_cuda_link *link);
/* The next step joins; false where its operands are not in memory as it would find them, or the chain is full. */
bool qf_cuda_chain_extend(qf_cuda_chain *chain, const qf_kernel_step *step);
/* The program of the chain's first `count` links; false where it does not fit, or where one of the links would
 * overwrite what another thread has yet to read. */
bool qf_cuda_chain_program(const qf_cuda_chain *chain, uint32_t count, qf_elementwise_params *params,
                           uint32_t *out_slots);
/* The kernel for aligned runs takes the program: common ops over the compact dtypes, values in registers only. */
bool qf_cuda_program_has_runs(const qf_elementwise_params *params);

#endif
