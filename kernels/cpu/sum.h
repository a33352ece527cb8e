/* Owns: the order in which floats are added up.
 * Does not own: who adds what; blocked products (gemm.c) keep the same order.
 * Next: cpu.h, docs/numerics.md. */
#ifndef QF_KERNELS_CPU_SUM_H
#define QF_KERNELS_CPU_SUM_H

#include "kernels/cpu/cpu.h"

/* A running sum in blocks of QF_SUM_BLOCK terms. Zero-initialise. */
#define QF_DEFINE_SUM(type, name)                                                                                      \
    typedef struct qf_sum_##name {                                                                                     \
        type total, block;                                                                                             \
        int32_t terms; /* in the block */                                                                              \
    } qf_sum_##name;                                                                                                   \
    static inline void qf_sum_##name##_add(qf_sum_##name *sum, type term) {                                            \
        sum->block += term;                                                                                            \
        if (++sum->terms < QF_SUM_BLOCK) return;                                                                       \
        sum->total += sum->block;                                                                                      \
        sum->block = 0;                                                                                                \
        sum->terms = 0;                                                                                                \
    }                                                                                                                  \
    static inline type qf_sum_##name##_total(const qf_sum_##name *sum) {                                               \
        return sum->total + sum->block;                                                                                \
    }

QF_DEFINE_SUM(float, f32)
QF_DEFINE_SUM(double, f64)

#endif
