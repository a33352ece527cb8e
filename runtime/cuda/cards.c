/* Owns: which targets a card runs, by its compute capability.
 * Does not own: the targets (spec/target.def).
 * Next: cards.h. */
#include "runtime/cuda/cards.h"

/* major * 10 + minor, and whether kernels for it run on that card alone ("a" targets). */
static int capability_of(qf_target target, bool *out_exact) {
    *out_exact = target == QF_TARGET_sm_90a || target == QF_TARGET_sm_100a;
    switch (target) {
    case QF_TARGET_sm_80: return 80;
    case QF_TARGET_sm_89: return 89;
    case QF_TARGET_sm_90a: return 90;
    case QF_TARGET_sm_100a: return 100;
    default: return 0;
    }
}

bool qf_cuda_card_runs(int card, qf_target target) {
    bool exact;
    int capability = capability_of(target, &exact);
    return capability && (exact ? card == capability : card >= capability);
}

qf_target qf_cuda_best_target(int card) {
    uint32_t count;
    const qf_target_info *targets = qf_target_table(&count);
    qf_target best = QF_TARGET_cpu;
    for (uint32_t i = 0; i < count; i++)
        if (qf_cuda_card_runs(card, targets[i].target)) best = targets[i].target;
    return best;
}
