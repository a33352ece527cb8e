/* Owns: the random numbers of rule instances: small, fast, the same everywhere.
 * Does not own: what is drawn with them.
 * Next: instance.c, instance_data.c. */
#ifndef QF_PATTERNS_INSTANCE_RANDOM_H
#define QF_PATTERNS_INSTANCE_RANDOM_H

#include <stdint.h>

static inline uint64_t qf_random_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline uint32_t qf_random_below(uint64_t *state, uint32_t count) {
    return (uint32_t)(qf_random_next(state) >> 33) % count;
}

/* Uniform in [-1, 1]. */
static inline double qf_random_unit(uint64_t *state) {
    return (double)(qf_random_next(state) >> 11) * 0x1p-52 - 1.0;
}

#endif
