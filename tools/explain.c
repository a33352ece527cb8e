/* Owns: `qfuse explain`: each attention, fused or why not, as text or JSON; also the remarks of `opt`.
 * Does not own: the report (qfuse/pass.h).
 * Next: docs/howto/why-did-it-not-fuse.md. */
#include "tools/explain.h"

#include <jansson.h>
#include <string.h>

static void print_site(FILE *out, const qf_site *site) {
    /* Exporters name a result after its node; then the location says it all. */
    bool named = *site->name && strncmp(site->name, site->location, strlen(site->location)) != 0;
    const char *place = *site->location ? site->location : *site->name ? site->name : "(unnamed)";
    (void)fprintf(out, "%s%s%s: ", place, named ? " " : "", named ? site->name : "");
    if (site->fused) {
        (void)fprintf(out, "fused by %s, class %s%s", *site->rule ? site->rule : "the source graph",
                      *site->numerics ? site->numerics : "exact", site->fp8_query ? ", FP8 query" : "");
        if (*site->note) (void)fprintf(out, " (%s)", site->note);
        (void)fprintf(out, "\n");
        return;
    }
    (void)fprintf(out, "%s [%s]: %s", site->recognised ? "not fused" : "not recognised as attention", site->miss_code,
                  site->miss_text);
    if (*site->miss_node) (void)fprintf(out, "; at %s", site->miss_node);
    if (*site->miss_location) (void)fprintf(out, " (%s)", site->miss_location);
    (void)fprintf(out, "\n");
}

void explain_print(FILE *out, const qf_run *run) {
    qf_run_counts counts = {.struct_size = sizeof counts};
    qf_run_get_counts(run, &counts);
    for (uint32_t i = 0; i < qf_run_site_count(run); i++) {
        qf_site site = {.struct_size = sizeof site};
        if (qf_run_get_site(run, i, &site) == QF_OK) print_site(out, &site);
    }
    (void)fprintf(out, "%u attention%s, %u with FP8 output, %u with FP8 query, %u query quantise%s inserted\n",
                  counts.attentions, counts.attentions == 1 ? "" : "s", counts.fused_fp8_out, counts.fp8_query,
                  counts.query_quants_inserted, counts.query_quants_inserted == 1 ? "" : "s");
}

/* Names from a file may be no UTF-8; such a string becomes null rather than a broken object. */
static json_t *text(const char *string) {
    json_t *made = json_string(string);
    return made ? made : json_null();
}

static json_t *site_object(const qf_site *site) {
    json_t *object = json_object();
    (void)json_object_set_new(object, "name", text(site->name));
    (void)json_object_set_new(object, "location", text(site->location));
    (void)json_object_set_new(object, "recognised", json_boolean(site->recognised));
    (void)json_object_set_new(object, "fused", json_boolean(site->fused));
    (void)json_object_set_new(object, "rule", text(site->rule));
    (void)json_object_set_new(object, "numerics", text(site->numerics));
    if (*site->note) (void)json_object_set_new(object, "note", text(site->note));
    if (site->fused) return object;
    json_t *miss = json_object();
    (void)json_object_set_new(miss, "code", text(site->miss_code));
    (void)json_object_set_new(miss, "node", text(site->miss_node));
    (void)json_object_set_new(miss, "location", text(site->miss_location));
    (void)json_object_set_new(miss, "text", text(site->miss_text));
    (void)json_object_set_new(object, "miss", miss);
    return object;
}

static int print_json(const qf_run *run) {
    qf_run_counts counts = {.struct_size = sizeof counts};
    qf_run_get_counts(run, &counts);
    json_t *object = json_object(), *sites = json_array();
    (void)json_object_set_new(object, "attentions", json_integer(counts.attentions));
    (void)json_object_set_new(object, "fused_fp8_out", json_integer(counts.fused_fp8_out));
    (void)json_object_set_new(object, "fp8_query", json_integer(counts.fp8_query));
    (void)json_object_set_new(object, "query_quants_inserted", json_integer(counts.query_quants_inserted));
    for (uint32_t i = 0; i < qf_run_site_count(run); i++) {
        qf_site site = {.struct_size = sizeof site};
        if (qf_run_get_site(run, i, &site) == QF_OK) (void)json_array_append_new(sites, site_object(&site));
    }
    (void)json_object_set_new(object, "sites", sites);
    int failed = json_dumpf(object, stdout, JSON_INDENT(2));
    json_decref(object);
    (void)printf("\n");
    return failed ? TOOL_FAILED : TOOL_OK;
}

int tool_explain(qf_tool *tool) {
    if (tool->options.file_count != 1) {
        (void)fprintf(stderr, "error: expected one file; see `qfuse explain --help`\n");
        return TOOL_USAGE;
    }
    qf_graph *graph = tool_load_graph(tool, tool->options.files[0]);
    qf_run *run = NULL;
    int code = TOOL_FAILED;
    if (graph && tool_run_pipeline(tool, graph, tool->options.passes, tool->options.numerics, &run) == QF_OK) {
        code = TOOL_OK;
        if (tool->options.json)
            code = print_json(run);
        else
            explain_print(stdout, run);
    }
    qf_run_destroy(run);
    qf_graph_destroy(graph);
    return code;
}
