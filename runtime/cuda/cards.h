/* Owns: which targets a card runs.
 * Does not own: asking a card what it is (devices/cuda.c).
 * Next: cards.c. */
#ifndef QF_RUNTIME_CUDA_CARDS_H
#define QF_RUNTIME_CUDA_CARDS_H

#include <stdbool.h>

#include "spec/kernels.h"

/* `card`: major * 10 + minor of its compute capability. Plans for an older target run as well: their kernels are built
 * for every target. */
bool qf_cuda_card_runs(int card, qf_target target);
/* QF_TARGET_cpu: none. */
qf_target qf_cuda_best_target(int card);

#endif
