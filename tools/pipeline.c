/* Owns: running a pipeline with the switches of the command line.
 * Does not own: the pipelines (passes/).
 * Next: tool.h. */
#include <string.h>

#include "ir/text.h"
#include "tools/tool.h"

static bool wanted(const char *which, const char *pass) {
    return which && (strcmp(which, "all") == 0 || strcmp(which, pass) == 0);
}

static void print_graph(qf_tool *tool, const char *when, const char *pass, const qf_graph *graph) {
    qf_buffer text = {.context = tool->context};
    qf_graph_print(&text, graph);
    (void)fprintf(stderr, "// %s %s\n%s", when, pass, text.data ? text.data : "");
    qf_buffer_destroy(&text);
}

static void observe(void *user, qf_pass_event event, const char *pass, const qf_graph *graph, bool changed,
                    double seconds) {
    qf_tool *state = user;
    if (event == QF_PASS_BEFORE) {
        tool_progress(state, pass, ++state->passes_begun, 0);
        if (wanted(state->options.print_before, pass)) print_graph(state, "before", pass, graph);
        return;
    }
    if (wanted(state->options.print_after, pass) || (state->options.print_changed && changed))
        print_graph(state, "after", pass, graph);
    if (state->options.timing)
        (void)fprintf(stderr, "%9.3f ms  %s%s\n", seconds * 1e3, pass, changed ? "" : " (no change)");
}

qf_status tool_run_pipeline(qf_tool *tool, qf_graph *graph, const char *passes, const char *numerics,
                            qf_run **out_run) {
    if (out_run) *out_run = NULL;
    if (tool->options.rules && !tool->rules_text) {
        tool->rules_text = tool_read_file(tool, tool->options.rules, (size_t)16 << 20, &tool->rules_size);
        if (!tool->rules_text) return QF_ERROR_IO;
    }
    qf_pipeline_options options = {
        .struct_size = sizeof options,
        .passes = passes,
        .numerics = numerics,
        .target = tool->options.target,
        .query_scale = tool->options.query_scale,
        .rewrite_limit = tool->options.rewrite_limit > UINT32_MAX ? UINT32_MAX : (uint32_t)tool->options.rewrite_limit,
        .limit_rewrites = tool->options.rewrite_limited,
        .skip_verify = tool->options.no_verify,
        .observer = observe,
        .observer_user = tool,
        .rules = tool->rules_text,
        .rules_name = tool->options.rules};
    return qf_run_pipeline(graph, &options, out_run);
}
