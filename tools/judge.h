/* Owns: judging a rewritten graph against the one before it, attention by attention, on identical inputs.
 * Does not own: running graphs (codegen/interpret.h).
 * Next: judge.c; docs/numerics.md for the criteria. */
#ifndef QF_TOOLS_JUDGE_H
#define QF_TOOLS_JUDGE_H

#include "codegen/interpret.h"
#include "tools/tool.h"

typedef struct judge_result {
    uint32_t sites, judged;     /* attentions that write FP8 after the rewrite; those that were compared */
    uint64_t codes, equal, far; /* of all sites: FP8 codes, equal ones, ones off by more than one code */
    double worst_share;         /* of equal codes, over sites; 1 where there are none */
    double
        worst_error_ratio; /* error against the unrounded attention: fused / unfused, over sites; 0 where both are 0 */
    bool ok;               /* every site passes by the numerics class's criterion */
    char reason[160];      /* first site that fails */
} judge_result;

/* The graph contracts in f16 or bf16, so that the rounding which fusion saves flips some codes by itself. */
bool judge_is_sixteen_bit(const qf_graph *graph);

/* `before` has run completely on its inputs; `after` was cloned from that graph and rewritten. Values that both graphs
 * have are taken from `before`, so that each site sees identical inputs. `sixteen_bit`: the graph computes in f16 or
 * bf16. */
qf_status judge_sites(qf_tool *tool, const qf_graph *before_graph, const qf_interpreter *before,
                      const qf_graph *after_graph, bool sixteen_bit, judge_result *out);

#endif
