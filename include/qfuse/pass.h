/* Owns: running pipelines of passes on a graph, and what a run reports about each attention.
 * Does not own: graphs (graph.h), lowering to a plan (codegen.h).
 * Next: codegen.h; docs/rules.md for the rules, docs/numerics.md for the numerics classes. */
#ifndef QFUSE_PASS_H
#define QFUSE_PASS_H

#include <qfuse/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a run did: rewrites and misses, attention by attention. Independent of the graph once made; destroy before the
 * context. */
typedef struct qf_run qf_run;

typedef enum qf_pass_event { QF_PASS_BEFORE = 0, QF_PASS_AFTER = 1 } qf_pass_event;

/* Called around every pass on the calling thread. `changed` and `seconds` are set for QF_PASS_AFTER. May read and print
 * the graph, must not change it. */
typedef void (*qf_pass_observer)(void *user, qf_pass_event event, const char *pass, const qf_graph *graph, bool changed,
                                 double seconds);

typedef struct qf_pipeline_options {
    size_t struct_size;
    /* Comma-separated passes and pipeline names, options in braces: "canonicalize,raise,legalize{target=cpu}". NULL:
     * "default". qf_pass_list and qf_pipeline_list give the names. */
    const char *passes;
    /* The loosest numerics class: "exact", "rounding", "quantising", "relaxed"; NULL or "default": quantising for
     * attentions whose K and V are FP8, rounding for the others. */
    const char *numerics;
    const char *target; /* a target's name; NULL: "cpu" */
    /* Scale that insert-query-quant uses: "graph" (the attention's q_scale operand, else 1), "unit" (1), "dynamic";
     * NULL: "graph". */
    const char *query_scale;
    uint32_t rewrite_limit; /* rewrites after this many are left out, for bisecting; 0: no limit */
    bool skip_verify;       /* do not verify after every pass (the result is always verified) */
    qf_pass_observer observer;
    void *observer_user;
    const char *rules;      /* text of further rules, or NULL; they stay loaded in the context */
    const char *rules_name; /* for locations in messages about `rules` */
    bool limit_rewrites;    /* rewrite_limit counts where it is 0, too: nothing is rewritten */
} qf_pipeline_options;

/* Runs a pipeline. `options` may be NULL; *out_run may be NULL when no report is wanted, else the caller destroys it.
 * On failure the graph is as it was before the failing pass, a diagnostic was sent, and *out_run is NULL.
 * QF_ERROR_INVALID_ARGUMENT: an unknown pass, class, target or option (the message lists the known ones);
 * QF_ERROR_VERIFY: the graph given is invalid; QF_ERROR_INTERNAL: a pass produced an invalid graph. */
QF_API QF_MUST_USE qf_status qf_run_pipeline(qf_graph *graph, const qf_pipeline_options *options, qf_run **out_run);
QF_API void qf_run_destroy(qf_run *run);

/* One attention: fused, or why not. Strings belong to the run; "" where there is nothing. */
typedef struct qf_site {
    size_t struct_size;
    uint64_t tag;         /* of the attention's node */
    const char *name;     /* of the attention's result; unnamed: its location */
    const char *location; /* where the source has it */
    bool recognised;      /* an attention; false: nearly one */
    bool fused;           /* writes FP8 */
    bool fp8_query;       /* reads q as FP8 */
    const char *rule;     /* that fused it */
    const char *numerics; /* loosest class of all rewrites at the site */
    const char *note;     /* what those looser than exact added or dropped */
    const char *miss_code, *miss_node, *miss_location, *miss_text;
} qf_site;

typedef struct qf_run_counts {
    size_t struct_size;
    uint32_t attentions;            /* recognised, those that stay decomposed (FP8 scores, say) included */
    uint32_t fused_fp8_out;         /* of those, with FP8 output */
    uint32_t fp8_query;             /* of those, with FP8 q */
    uint32_t query_quants_inserted; /* quantise nodes made by insert-query-quant */
    uint32_t rewrites;              /* all, of any rule */
} qf_run_counts;

QF_API void qf_run_get_counts(const qf_run *run, qf_run_counts *out_counts);
QF_API uint32_t qf_run_site_count(const qf_run *run);
/* Fills *out_site (struct_size set by the caller). Index beyond the count: QF_ERROR_INVALID_ARGUMENT. */
QF_API QF_MUST_USE qf_status qf_run_get_site(const qf_run *run, uint32_t index, qf_site *out_site);
/* The n-th rewrite as one line: number, rule, numerics class, location, note. "" beyond the count. */
QF_API const char *qf_run_rewrite_text(const qf_run *run, uint32_t index);

/* Names and one-line docs of passes and pipelines, one a line, static storage, any thread. A pipeline's doc is its
 * text. */
QF_API const char *qf_pass_list(void);
QF_API const char *qf_pipeline_list(void);

#ifdef __cplusplus
}
#endif

#endif
