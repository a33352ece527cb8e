/* Owns: which rows a team of threads holds in registers, and the launch geometry of the kernels that do so.
 * Does not own: the kernels (common/held_row.cuh and those that include it).
 * Next: common/held_row.cuh. */
#ifndef QF_KERNELS_CUDA_HELD_ROW_H
#define QF_KERNELS_CUDA_HELD_ROW_H

#include <stdint.h>

/* Runs of eight elements that a thread keeps: as many as registers allow, since what a row costs besides is shared by
 * its threads; of 16-bit elements, where the kernel keeps no second row, more. */
#define QF_HELD_RUNS    2
#define QF_HELD_RUNS_16 4
#define QF_HELD_THREADS 512 /* of a block, at most */
#define QF_HELD_MOST    (8 * QF_HELD_RUNS * QF_HELD_THREADS)

#endif
