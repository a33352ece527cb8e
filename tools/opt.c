/* Owns: `qfuse opt`: passes over a graph, emitted in any form, with the debug switches.
 * Does not own: the pipeline's debug output (pipeline.c), the forms (ir/text.h, qfuse/onnx.h, qfuse/codegen.h).
 * Next: pipeline.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>
#include <qfuse/emit.h>

#include "ir/text.h"
#include "patterns/rules.h"
#include "tools/explain.h"
#include "tools/verify_rewrites.h"

static void append(void *user, const char *data, size_t size) {
    qf_buffer_append(user, data, size);
}

static bool emit_plan(qf_tool *tool, const qf_graph *graph, bool binary, qf_buffer *out) {
    qf_compile_options options = {.struct_size = sizeof options,
                                  .target = tool->options.target,
                                  .pipeline = tool->options.passes ? tool->options.passes : "default",
                                  .numerics = tool->options.numerics,
                                  .rules = tool->rules_text};
    qf_plan *plan = NULL;
    qf_status status = qf_compile(graph, &options, &plan);
    if (status == QF_OK)
        status = binary ? qf_plan_to_bytes(tool->context, plan, append, out)
                        : qf_plan_print(tool->context, plan, append, out);
    qf_plan_destroy(plan);
    return status == QF_OK;
}

/* Sizes of --dims; "" and what is no number were refused when the options were read. */
static uint32_t read_sizes(const qf_tool *tool, char *names, size_t room, qf_emit_size *sizes, uint32_t most) {
    uint32_t count = 0;
    (void)snprintf(names, room, "%s", tool->options.dims ? tool->options.dims : "");
    for (char *at = names; *at && count < most;) {
        char *equals = strchr(at, '='), *end = at + strcspn(at, ",");
        *equals = '\0';
        sizes[count++] = (qf_emit_size){at, strtoll(equals + 1, NULL, 10)};
        at = *end ? end + 1 : end;
    }
    return count;
}

static bool emit_c(qf_tool *tool, const qf_graph *graph, qf_buffer *out) {
    char names[2048];
    qf_emit_size sizes[64];
    qf_compile_options options = {.struct_size = sizeof options,
                                  .target = tool->options.target,
                                  .pipeline = tool->options.passes ? tool->options.passes : "default",
                                  .numerics = tool->options.numerics,
                                  .rules = tool->rules_text};
    qf_emit_options emission = {.struct_size = sizeof emission, .sizes = sizes};
    qf_plan *plan = NULL;
    emission.size_count = read_sizes(tool, names, sizeof names, sizes, QF_COUNT_OF(sizes));
    bool done = qf_compile(graph, &options, &plan) == QF_OK &&
                qf_plan_emit_c(tool->context, plan, &emission, append, out) == QF_OK;
    qf_plan_destroy(plan);
    return done;
}

static bool emit_onnx(qf_tool *tool, const qf_graph *graph, qf_buffer *out) {
    void *data = NULL;
    size_t size = 0;
    if (qf_onnx_export_memory(graph, &data, &size) != QF_OK) return false;
    qf_buffer_append(out, data, size);
    qf_onnx_free(tool->context, data, size);
    return true;
}

static bool emit(qf_tool *tool, const qf_graph *graph) {
    const char *form = tool->options.emit ? tool->options.emit : "text";
    qf_buffer out = {.context = tool->context};
    bool made = true;
    if (strcmp(form, "text") == 0)
        qf_graph_print(&out, graph);
    else if (strcmp(form, "dot") == 0)
        qf_graph_print_dot(&out, graph);
    else if (strcmp(form, "onnx") == 0)
        made = emit_onnx(tool, graph, &out);
    else if (strcmp(form, "plan") == 0 || strcmp(form, "plan-binary") == 0)
        made = emit_plan(tool, graph, strcmp(form, "plan-binary") == 0, &out);
    else if (strcmp(form, "c") == 0)
        made = emit_c(tool, graph, &out);
    made = made && !out.failed;
    if (made && strcmp(form, "none") != 0)
        made = tool_write_file(tool, tool->options.output ? tool->options.output : "-", out.data ? out.data : "",
                               out.size);
    qf_buffer_destroy(&out);
    return made;
}

static bool known_form(const char *form) {
    static const char *const forms[] = {"text", "onnx", "dot", "plan", "plan-binary", "c", "none"};
    for (size_t i = 0; i < QF_COUNT_OF(forms); i++)
        if (!form || strcmp(form, forms[i]) == 0) return true;
    (void)fprintf(stderr, "error: --emit: expected text, onnx, dot, plan, plan-binary, c or none, found '%s'\n", form);
    return false;
}

static void print_statistics(const qf_run *run, uint32_t nodes_before, uint32_t nodes_after) {
    qf_run_counts counts = {.struct_size = sizeof counts};
    qf_run_get_counts(run, &counts);
    (void)fprintf(stderr, "%u nodes before, %u after, %u rewrites\n", nodes_before, nodes_after, counts.rewrites);
    for (uint32_t i = 0; i < counts.rewrites; i++) (void)fprintf(stderr, "%s\n", qf_run_rewrite_text(run, i));
}

/* tried: looked at a node with the rule's anchor op; refused: why a match or near match was left alone. */
static void print_rule_statistics(qf_context *context) {
    const qf_rule_set *set = qf_rules_of(context);
    for (uint32_t i = 0; set && i < set->rule_count; i++) {
        const qf_rule_statistics *counts = &set->rules[i]->statistics;
        if (!counts->matched) continue;
        (void)fprintf(stderr, "rule %s: tried %" PRIu64 ", matched %" PRIu64 ", rewritten %" PRIu64,
                      qf_string_c(context, set->rules[i]->name), counts->tried, counts->matched, counts->rewritten);
        for (uint32_t reason = 0; reason < QF_COUNT_OF(counts->refused); reason++)
            if (counts->refused[reason])
                (void)fprintf(stderr, ", refused %" PRIu64 " (%s)", counts->refused[reason],
                              qf_reason_code((qf_reason)reason));
        (void)fprintf(stderr, "\n");
    }
}

int tool_opt(qf_tool *tool) {
    if (!known_form(tool->options.emit)) return TOOL_USAGE;
    if (tool->options.file_count > 1) {
        (void)fprintf(stderr, "error: expected at most one file; see `qfuse opt --help`\n");
        return TOOL_USAGE;
    }
    qf_graph *graph = tool_load_graph(tool, tool->options.file_count ? tool->options.files[0] : "-");
    qf_graph *original = graph && tool->options.verify_rewrites ? qf_graph_clone(graph) : NULL;
    uint32_t nodes_before = graph ? graph->live_node_count : 0;
    qf_run *run = NULL;
    int code = TOOL_FAILED;
    if (graph && (original || !tool->options.verify_rewrites) &&
        tool_run_pipeline(tool, graph, tool->options.passes, tool->options.numerics, &run) == QF_OK) {
        code = emit(tool, graph) ? TOOL_OK : TOOL_FAILED;
        if (tool->options.statistics) print_statistics(run, nodes_before, graph->live_node_count);
        if (tool->options.statistics) print_rule_statistics(tool->context);
        if (tool->options.remarks) explain_print(stderr, run);
        if (code == TOOL_OK && original) code = verify_rewrites(tool, original, graph);
    }
    qf_run_destroy(run);
    qf_graph_destroy(graph);
    qf_graph_destroy(original);
    return code;
}
