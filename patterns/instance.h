/* Owns: left sides of rules as graphs on random shapes, with inputs, and the comparison of results by numerics class.
 * Does not own: running graphs (codegen/interpret.h).
 * Next: instance.c; docs/rules.md, Tests. */
#ifndef QF_PATTERNS_INSTANCE_H
#define QF_PATTERNS_INSTANCE_H

#include "patterns/rule.h"

typedef struct qf_rule_instance {
    qf_rule *rule;
    uint32_t test;       /* of rule->test_count clauses */
    uint64_t random;     /* state; the same seed gives the same graph and inputs */
    qf_graph *graph;     /* the left side; the values that the rule replaces are its outputs */
    int64_t limits[512]; /* by input value: integers are below; 0: the input holds scales */
    qf_dtype coarsest;   /* of the 16- and 32-bit types that occur */
} qf_rule_instance;

/* Builds the left side from one `test` clause: named dims from 1 to 6, one alternative of each sample, commutative
 * operands either way round, random layout chains where ~ stands. A clause that says too little is a located fault. */
qf_status qf_rule_instance_make(qf_context *context, qf_rule *rule, uint32_t test, uint64_t seed,
                                qf_rule_instance *out);
void qf_rule_instance_destroy(qf_rule_instance *instance);

/* Random elements for input `index` of the graph. Scalars are scales (positive, 1/64 to 4); tensors are about normal
 * with rare large elements; where the rule must keep bits and sums nothing, also infinities, NaN and zeros of both
 * signs. */
void qf_rule_instance_fill(qf_rule_instance *instance, uint32_t index, void *data, uint64_t count);

/* One result before and after the rewrite. exact: equal bits. Looser: FP8 codes differ by one at most, wider results by
 * a few roundings of the coarsest type over the whole tensor. False fills `message`. */
bool qf_rule_results_agree(const qf_rule_instance *instance, qf_dtype dtype, const void *before, const void *after,
                           uint64_t count, char *message, size_t message_size);

#endif
