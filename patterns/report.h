/* Owns: what a pipeline run says about each attention: sites, misses, rewrites.
 * Does not own: the reasons (reasons.def), how `explain` prints them (tools).
 * Next: reasons.def. */
#ifndef QF_PATTERNS_REPORT_H
#define QF_PATTERNS_REPORT_H

#include "ir/graph.h"

typedef enum qf_reason {
    QF_REASON_none = 0,
#define REASON(number, code, text) QF_REASON_##code = number,
#include "reasons.def"
#undef REASON
} qf_reason;

/* Each class includes the ones before it (docs/numerics.md). */
typedef enum qf_numerics {
    QF_NUMERICS_DEFAULT = 0, /* quantising where K and V are FP8, rounding elsewhere */
    QF_NUMERICS_EXACT = 1,
    QF_NUMERICS_ROUNDING = 2,
    QF_NUMERICS_QUANTISING = 3,
    QF_NUMERICS_RELAXED = 4
} qf_numerics;

const char *qf_reason_code(qf_reason reason);
const char *qf_reason_text(qf_reason reason);
const char *qf_numerics_name(qf_numerics numerics); /* "default", "exact", ... */

/* One rewrite that was done. */
typedef struct qf_rewrite {
    uint32_t number; /* counts from 1 over the pipeline; --rewrite-limit compares with it */
    qf_string rule;
    qf_numerics numerics;
    uint64_t tag; /* of the node that stands for the attention (or first replaced node) */
    qf_location location;
    qf_string note; /* what was added or dropped; 0: nothing to say */
} qf_rewrite;

/* One nearly-match that was refused. `tag` is that of the attention node, or of the second contraction where none was
 * raised. */
typedef struct qf_miss {
    qf_reason reason;
    uint64_t tag;
    qf_node node;        /* the blocking node, as it was then */
    qf_string node_text; /* "softmax", "com.microsoft.Foo": the op as the source names it */
    qf_location location;
    qf_string detail; /* expected and found; may be 0 */
    bool recognised;  /* roles, masks and scores are those of an attention; it stays decomposed for `reason` */
} qf_miss;

typedef struct qf_report {
    qf_context *context;
    qf_rewrite *rewrites;
    uint32_t rewrite_count, rewrite_capacity;
    qf_miss *misses;
    uint32_t miss_count, miss_capacity;
    qf_index miss_index; /* by tag and reason */
    qf_miss *refusals;   /* of the last run of fuse_attention_quant rules; qf_explain_misses draws on them */
    uint32_t refusal_count, refusal_capacity;
    uint32_t rewrite_limit; /* UINT32_MAX: none */
    uint32_t next_number;
    uint32_t query_quants_inserted; /* quantise nodes that insert-query-quant made */
} qf_report;

void qf_report_init(qf_report *report, qf_context *context);
void qf_report_destroy(qf_report *report);
/* False when the limit is reached (the caller leaves the graph alone). Numbers the rewrite otherwise. */
bool qf_report_may_rewrite(qf_report *report);
bool qf_report_rewrite(qf_report *report, const qf_rewrite *rewrite);
/* Keeps one miss for each tag and reason. */
bool qf_report_miss(qf_report *report, const qf_miss *miss);

#endif
