/* Owns: parameter blocks of the kernels that sort for top_k.
 * Does not own: the builder (top_k.c), kernels (top_k.cu).
 * Next: top_k.c. */
#ifndef QF_KERNELS_CUDA_TOP_K_H
#define QF_KERNELS_CUDA_TOP_K_H

#include <stdint.h>

#define QF_TOP_K_CHUNK   2048 /* entries that a block sorts */
#define QF_TOP_K_THREADS 256

/* An entry: what orders it, larger first, and its position in the line; equal ones by lower position. Position
 * 0xFFFFFFFF: none, behind all others. */
typedef struct qf_top_k_entry {
    uint64_t key;
    uint32_t position, unused;
} qf_top_k_entry;

/* Sorts chunks of a line: from elements of x (`from` 0), or from entries [lines][size] of an earlier round. The first
 * `keep` of each chunk go to entries [lines][chunks][keep], or to the results. */
typedef struct qf_top_k_params {
    uint64_t x, from, to;
    uint64_t values, indices; /* of the last round; either may be 0 */
    uint32_t x_dtype, index_dtype;
    uint32_t largest, is_last;
    uint32_t value_bits, unused; /* of an element of values */
    int64_t size, chunks, keep;  /* entries of a line; chunks of a line; that go on from a chunk */
    int64_t line, inner, k;      /* elements of a line of x, their stride; results of a line */
    int64_t lines;
} qf_top_k_params;

/* One step of sorting whole lines in memory: entries `distance` apart are exchanged; runs of `width` have one
 * direction. `within`: all steps from `distance` down, inside of a chunk. */
typedef struct qf_sort_params {
    uint64_t entries; /* [lines][size], size a power of two */
    int64_t size, lines, width, distance;
    uint32_t within, unused;
} qf_sort_params;

#endif
