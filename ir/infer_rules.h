/* Owns: what the shape rules share: reading operands and attributes, comparing dims, writing results, faults.
 * Does not own: the rules (infer_*.c).
 * Next: infer.c. */
#ifndef QF_IR_INFER_RULES_H
#define QF_IR_INFER_RULES_H

#include "ir/infer.h"

/* A rule returns QF_OK, or a status that infer_fault or a callee gave. Operands may be absent, unranked or without
 * dtype. */
typedef qf_status (*infer_rule)(qf_infer_call *call);

#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu)                                       \
    qf_status qf_infer_##infer(qf_infer_call *call);
#include "spec/ops.def"
#undef OP

/* --- operands --- */
bool infer_has(const qf_infer_call *call, uint32_t operand);
qf_type infer_type(const qf_infer_call *call, uint32_t operand); /* 0 when absent */
qf_dtype infer_dtype(const qf_infer_call *call, uint32_t operand);
bool infer_ranked(const qf_infer_call *call, uint32_t operand); /* false when absent */
uint32_t infer_rank(const qf_infer_call *call, uint32_t operand);
const qf_dim *infer_dims(const qf_infer_call *call, uint32_t operand);
qf_dim infer_constant(const qf_infer_call *call, int64_t value);

/* --- faults: "op: message" at the call's place --- */
qf_status infer_fault(const qf_infer_call *call, const char *format, ...) QF_PRINTF(2, 3);
/* "op: operand name has <its type>, expected ..." */
qf_status infer_operand_fault(const qf_infer_call *call, uint32_t operand, const char *format, ...) QF_PRINTF(3, 4);
/* The operand is absent, unranked, or of rank low..high. */
qf_status infer_expect_rank(const qf_infer_call *call, uint32_t operand, uint32_t low, uint32_t high);
/* The operand is absent, of unknown dtype, or of this one. */
qf_status infer_expect_dtype(const qf_infer_call *call, uint32_t operand, qf_dtype dtype);
/* Operands from `first` up to `end` have one dtype, which comes back (NONE when none is known). */
qf_status infer_same_dtype(const qf_infer_call *call, uint32_t first, uint32_t end, qf_dtype *out_dtype);
/* An axis attribute within [0, rank). */
qf_status infer_expect_axis(const qf_infer_call *call, const char *name, int64_t axis, uint32_t rank);

/* --- dims --- */
typedef enum infer_answer { INFER_NO, INFER_YES, INFER_MAYBE } infer_answer;
/* Whether two dims are equal. Dims that are equal only where everything is empty (T and 2*T) count as different. */
infer_answer infer_equal(const qf_infer_call *call, qf_dim a, qf_dim b);
/* Both dims become one: known equal, or assumed equal and recorded as a guard. `*out` is the one to go on with. Where
 * they differ, the fault says "operand <operand> has <b> <what>, expected <a>". */
qf_status infer_agree(const qf_infer_call *call, uint32_t operand, const char *what, qf_dim a, qf_dim b, qf_dim *out);
/* As infer_agree for axis `axis` of the operand, which is there. */
qf_status infer_agree_axis(const qf_infer_call *call, uint32_t operand, uint32_t axis, qf_dim expected);
/* A scale of one number, [] or [1]: a symbolic length is assumed to be 1 and recorded as a guard. Other ranks and
 * lengths are left to verify.h. */
qf_status infer_one_scale(const qf_infer_call *call, uint32_t operand);
/* Whole shapes, right-aligned as NumPy does. dims holds *rank of them with room for QF_MAX_RANK, and receives the
 * result. */
qf_status infer_broadcast_onto(const qf_infer_call *call, qf_dim *dims, uint32_t *rank, uint32_t operand);
/* The operand is 1 or the target's dim on each axis, right-aligned, and not of higher rank. */
qf_status infer_broadcasts_to(const qf_infer_call *call, uint32_t operand, const qf_dim *target, uint32_t rank);

/* --- results --- */
/* rank may be QF_UNRANKED. A dim of 0 means that its computation overflowed: a located fault. */
qf_status infer_set(const qf_infer_call *call, uint32_t result, qf_dtype dtype, const qf_dim *dims, uint32_t rank);
qf_status infer_set_like(const qf_infer_call *call, uint32_t result, qf_dtype dtype, uint32_t operand);
qf_status infer_set_unranked(const qf_infer_call *call, uint32_t result, qf_dtype dtype);

#define INFER_TRY(expression)                                                                                          \
    do {                                                                                                               \
        qf_status try_status_ = (expression);                                                                          \
        if (try_status_ != QF_OK) return try_status_;                                                                  \
    } while (0)

#endif
