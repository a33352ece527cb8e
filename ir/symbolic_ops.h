/* Owns: what the parts of the symbolic analysis share: elements, tensors, one step.
 * Does not own: the memo and the order of work (symbolic.c).
 * Next: symbolic.c. */
#ifndef QF_IR_SYMBOLIC_OPS_H
#define QF_IR_SYMBOLIC_OPS_H

#include "ir/infer.h"

#define SYMBOLIC_MAX_ELEMENTS 256

/* numerator / denominator, an exact fraction with a positive denominator; integers and bools have denominator 1. An
 * unknown element has numerator 0 (none). Floats are taken as exact numbers: sizes below 2^24 are exact in f32, and a
 * quotient of such sizes rounds to no other integer. */
typedef struct symbolic_element {
    qf_dim numerator;
    int64_t denominator;
} symbolic_element;

/* Constant dims; elements NULL: none of them is known. */
typedef struct symbolic_tensor {
    symbolic_element *elements;
    uint32_t rank, count;
    int64_t dims[QF_MAX_RANK];
    qf_dtype dtype;
} symbolic_tensor;

/* One result of one node: out has its shape and room for its elements, all unknown at first. */
typedef struct symbolic_step {
    qf_graph *graph;
    qf_context *context;
    qf_symbol_facts facts;
    const qf_node_data *node;
    uint32_t result_index;
    const symbolic_tensor *operands; /* operand_count of them */
    uint32_t operand_count;
    symbolic_tensor out;
} symbolic_step;

typedef void (*symbolic_rule)(symbolic_step *step);

static inline symbolic_element symbolic_at(const symbolic_tensor *tensor, uint32_t index) {
    return tensor->elements ? tensor->elements[index] : (symbolic_element){{0}, 1};
}
static inline symbolic_element symbolic_integer(qf_dim dim) {
    return (symbolic_element){dim, 1};
}
static inline bool symbolic_known(symbolic_element element) {
    return element.numerator.id != 0;
}
/* The reduced fraction; unknown where numerator is 0 or denominator is not positive. */
symbolic_element symbolic_fraction(qf_context *context, qf_dim numerator, int64_t denominator);
symbolic_element symbolic_binary(const symbolic_step *step, qf_op op, symbolic_element a, symbolic_element b);

/* symbolic_arithmetic.c */
void symbolic_elementwise(symbolic_step *step);
/* symbolic_layout.c */
void symbolic_view(symbolic_step *step);
void symbolic_permute(symbolic_step *step);
void symbolic_slice(symbolic_step *step);
void symbolic_concat(symbolic_step *step);
void symbolic_split(symbolic_step *step);
void symbolic_expand(symbolic_step *step);
void symbolic_pad(symbolic_step *step);
void symbolic_gather(symbolic_step *step);
void symbolic_gather_elements(symbolic_step *step);
void symbolic_scatter_nd(symbolic_step *step);
void symbolic_full(symbolic_step *step);
void symbolic_reduce(symbolic_step *step);
void symbolic_cumulative_sum(symbolic_step *step);

/* Positions in a tensor of constant dims. */
void symbolic_unravel(const int64_t *dims, uint32_t rank, uint32_t index, int64_t *out_position);
/* The element of a right-aligned broadcast operand at a position of the result. */
symbolic_element symbolic_broadcast_at(const symbolic_tensor *operand, const int64_t *position, uint32_t rank);

#endif
