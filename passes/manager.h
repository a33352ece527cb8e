/* Owns: parsing pipeline text and running it with verification and rollback.
 * Does not own: the passes (passes.def), the public face (api.c).
 * Next: manager.c. */
#ifndef QF_PASSES_MANAGER_H
#define QF_PASSES_MANAGER_H

#include <qfuse/pass.h>

#include "passes/pass.h"

typedef struct qf_pass_info {
    const char *name, *doc;
    qf_pass_function run;
} qf_pass_info;

/* One pass of a parsed pipeline: its options are the pipeline's, changed by its own braces. */
typedef struct qf_pipeline_step {
    const qf_pass_info *pass;
    qf_pass_options options;
} qf_pipeline_step;

typedef struct qf_pipeline {
    qf_context *context;
    qf_pipeline_step *steps;
    uint32_t step_count, step_capacity;
} qf_pipeline;

/* Expands pipeline names and reads options in braces. Faults say which names exist. */
qf_status qf_pipeline_parse(qf_context *context, const char *text, const qf_pass_options *defaults,
                            qf_pipeline *out_pipeline);
void qf_pipeline_destroy(qf_pipeline *pipeline);

typedef struct qf_pipeline_hooks {
    bool verify_each;
    qf_pass_observer observer;
    void *observer_user;
} qf_pipeline_hooks;

/* Runs the steps. A step that fails, or leaves an invalid graph, is undone. */
qf_status qf_pipeline_run(const qf_pipeline *pipeline, qf_graph *graph, const qf_pipeline_hooks *hooks,
                          qf_report *report);

/* Strict parsers of option values; a fault lists the values that exist. */
qf_status qf_numerics_parse(qf_context *context, qf_text text, qf_numerics *out);
qf_status qf_query_scale_parse(qf_context *context, qf_text text, qf_query_scale *out);
qf_status qf_target_parse(qf_context *context, qf_text text, const qf_target_info **out);

#endif
