/* Owns: the public face of pipelines: option structs, the run report attention by attention.
 * Does not own: the loop (manager.c), reports while passes run (patterns/report.h).
 * Next: qfuse/pass.h. */
#include <string.h>

#include "ir/verify.h"
#include "passes/evaluate.h"
#include "passes/manager.h"
#include "patterns/rules.h"

struct qf_run {
    qf_context *context;
    qf_run_counts counts;
    qf_site *sites;
    uint32_t site_count, site_capacity;
    const char **rewrites;
    uint32_t rewrite_count, rewrite_capacity;
};

/* --- options --- */

static qf_status read_options(qf_context *context, const qf_pipeline_options *given, qf_pipeline_options *options,
                              qf_pass_options *pass) {
    *options = (qf_pipeline_options){.struct_size = sizeof *options};
    if (given) memcpy(options, given, given->struct_size < sizeof *options ? given->struct_size : sizeof *options);
    *pass = (qf_pass_options){.evaluate = qf_evaluate_on_cpu};
    qf_status status = qf_target_parse(context, qf_text_of(options->target ? options->target : "cpu"), &pass->target);
    if (status == QF_OK && options->numerics)
        status = qf_numerics_parse(context, qf_text_of(options->numerics), &pass->numerics);
    if (status == QF_OK && options->query_scale)
        status = qf_query_scale_parse(context, qf_text_of(options->query_scale), &pass->query_scale);
    return status;
}

/* --- the report --- */

static const char *location_text(const qf_graph *graph, qf_location location) {
    qf_buffer text = {.context = graph->context};
    qf_location_print(&text, graph, location);
    qf_string string = text.size ? qf_intern(graph->context, (qf_text){text.data, text.size}) : (qf_string){0};
    qf_buffer_destroy(&text);
    return qf_string_c(graph->context, string);
}

/* Where the source has it: of a fused location the first place, which is that of the node that the rewrite grew from.
 */
static const char *source_place(const qf_graph *graph, qf_location location) {
    while (location.id && graph->locations[location.id].part_count) location = graph->locations[location.id].parts[0];
    return location_text(graph, location);
}

/* Rewrites of one tag, in order. Positions are counted from 1; 0: none. */
typedef struct rewrite_link {
    uint32_t next;
    uint32_t last; /* set in the first of the list only */
} rewrite_link;

/* What the report says of a tag, and which tags have a site: found without a walk over all of them. */
typedef struct tag_directory {
    const qf_report *report;
    qf_run *run;
    qf_index rewrites, misses, sites; /* positions by tag; of rewrites the first */
    rewrite_link *links;              /* by position of the rewrite */
} tag_directory;

static uint64_t hash_tag(uint64_t tag) {
    return qf_hash_mix(17, tag);
}

static bool is_rewrite_of(const void *owner, uint32_t id, const void *tag) {
    return ((const qf_report *)owner)->rewrites[id - 1].tag == *(const uint64_t *)tag;
}

static bool is_miss_of(const void *owner, uint32_t id, const void *tag) {
    return ((const qf_report *)owner)->misses[id - 1].tag == *(const uint64_t *)tag;
}

static bool is_site_of(const void *owner, uint32_t id, const void *tag) {
    return ((const qf_run *)owner)->sites[id - 1].tag == *(const uint64_t *)tag;
}

static uint32_t first_rewrite(const tag_directory *directory, uint64_t tag) {
    return qf_index_find(&directory->rewrites, hash_tag(tag), is_rewrite_of, directory->report, &tag);
}

/* The miss that explains most: any reason before `no_quantise`, which only says that nothing was there to fuse. */
static const qf_miss *telling_miss(const tag_directory *directory, uint64_t tag) {
    uint32_t id = qf_index_find(&directory->misses, hash_tag(tag), is_miss_of, directory->report, &tag);
    return id ? &directory->report->misses[id - 1] : NULL;
}

static bool link_rewrites(tag_directory *directory) {
    const qf_report *report = directory->report;
    for (uint32_t position = 1; position <= report->rewrite_count; position++) {
        uint64_t tag = report->rewrites[position - 1].tag;
        uint32_t first = first_rewrite(directory, tag);
        if (!first && !qf_index_add(report->context, &directory->rewrites, hash_tag(tag), position)) return false;
        if (first) directory->links[directory->links[first].last].next = position;
        directory->links[first ? first : position].last = position;
    }
    return true;
}

static bool list_misses(tag_directory *directory, bool telling) {
    const qf_report *report = directory->report;
    for (uint32_t i = 0; i < report->miss_count; i++) {
        const qf_miss *miss = &report->misses[i];
        if ((miss->reason != QF_REASON_no_quantise) != telling || telling_miss(directory, miss->tag)) continue;
        if (!qf_index_add(report->context, &directory->misses, hash_tag(miss->tag), i + 1)) return false;
    }
    return true;
}

static size_t links_size(const tag_directory *directory) {
    return ((size_t)directory->report->rewrite_count + 1) * sizeof *directory->links;
}

static bool fill_directory(tag_directory *directory) {
    directory->links = qf_allocate(directory->report->context, links_size(directory));
    return directory->links && link_rewrites(directory) && list_misses(directory, true) &&
           list_misses(directory, false);
}

static void destroy_directory(tag_directory *directory) {
    qf_context *context = directory->report->context;
    qf_release(context, directory->links, links_size(directory));
    qf_index_destroy(context, &directory->rewrites);
    qf_index_destroy(context, &directory->misses);
    qf_index_destroy(context, &directory->sites);
}

static void describe_miss(const qf_graph *graph, const qf_miss *miss, qf_site *site) {
    qf_context *context = graph->context;
    qf_buffer text = {.context = context};
    qf_buffer_print(&text, "%s", qf_reason_text(miss->reason));
    if (miss->detail.id) qf_buffer_print(&text, ": %s", qf_string_c(context, miss->detail));
    qf_string string = text.size ? qf_intern(context, (qf_text){text.data, text.size}) : (qf_string){0};
    qf_buffer_destroy(&text);
    site->miss_code = qf_reason_code(miss->reason);
    site->miss_node = qf_string_c(context, miss->node_text);
    site->miss_location = source_place(graph, miss->location);
    site->miss_text = qf_string_c(context, string);
}

static bool has_site(const tag_directory *directory, uint64_t tag) {
    return qf_index_find(&directory->sites, hash_tag(tag), is_site_of, directory->run, &tag) != 0;
}

static bool add_site(tag_directory *directory, qf_site site) {
    qf_run *run = directory->run;
    if (!QF_GROW(run->context, run->sites, run->site_capacity, (uint64_t)run->site_count + 1)) return false;
    if (!qf_index_add(run->context, &directory->sites, hash_tag(site.tag), run->site_count + 1)) return false;
    run->sites[run->site_count++] = site;
    return true;
}

static const qf_site empty_site = {.struct_size = sizeof(qf_site),
                                   .name = "",
                                   .location = "",
                                   .rule = "",
                                   .numerics = "",
                                   .note = "",
                                   .miss_code = "",
                                   .miss_node = "",
                                   .miss_location = "",
                                   .miss_text = ""};

/* The rule that gave the attention its output, the loosest class of all rewrites at the site, and what each of them
 * added or dropped. */
static void describe_rewrites(const tag_directory *directory, qf_site *site) {
    qf_context *context = directory->report->context;
    const qf_rewrite *last = NULL;
    qf_numerics loosest = QF_NUMERICS_EXACT;
    qf_buffer notes = {.context = context};
    for (uint32_t i = first_rewrite(directory, site->tag); i; i = directory->links[i].next) {
        const qf_rewrite *rewrite = &directory->report->rewrites[i - 1];
        if (strcmp(qf_string_c(context, rewrite->rule), "insert-query-quant") != 0) last = rewrite;
        if (rewrite->numerics > loosest) loosest = rewrite->numerics;
        if (!rewrite->note.id || rewrite->numerics == QF_NUMERICS_EXACT) continue;
        if (notes.size) qf_buffer_text(&notes, QF_TEXT("; "));
        qf_buffer_text(&notes, qf_string_text(context, rewrite->note));
    }
    qf_string note = last && notes.size ? qf_intern(context, (qf_text){notes.data, notes.size}) : (qf_string){0};
    qf_buffer_destroy(&notes);
    if (!last) return;
    site->rule = qf_string_c(context, last->rule);
    site->numerics = qf_numerics_name(loosest);
    site->note = qf_string_c(context, note);
}

static bool add_attention(tag_directory *directory, const qf_graph *graph, qf_node node) {
    qf_run *run = directory->run;
    const qf_node_data *data = qf_node_at(graph, node);
    qf_site site = empty_site;
    site.tag = data->tag;
    site.name = qf_string_c(graph->context, qf_value_at(graph, qf_result_at(data, 0))->name);
    site.location = source_place(graph, data->location);
    if (!*site.name) site.name = site.location;
    site.recognised = true;
    site.fused = qf_dtype_is_float8(qf_value_dtype(graph, qf_result_at(data, 0)));
    site.fp8_query = qf_dtype_is_float8(qf_value_dtype(graph, qf_node_operand(graph, node, 0)));
    if (site.fused) describe_rewrites(directory, &site);
    if (!site.fused) {
        qf_miss nothing = {.reason = QF_REASON_no_quantise,
                           .node = node,
                           .node_text = qf_intern_c(graph->context, qf_op_name(data->op)),
                           .location = data->location};
        const qf_miss *miss = telling_miss(directory, data->tag);
        describe_miss(graph, miss ? miss : &nothing, &site);
    }
    run->counts.attentions++;
    run->counts.fused_fp8_out += site.fused;
    run->counts.fp8_query += site.fp8_query;
    return add_site(directory, site);
}

static bool is_attention(const qf_graph *graph, qf_node node) {
    qf_op op = qf_node_op(graph, node);
    return op == QF_OP_attention || op == QF_OP_paged_attention;
}

/* Misses of things that never became an attention op: one site each, by tag. */
static bool add_unrecognised(tag_directory *directory, const qf_graph *graph) {
    const qf_report *report = directory->report;
    for (uint32_t i = 0; i < report->miss_count; i++) {
        const qf_miss *miss = &report->misses[i];
        if (has_site(directory, miss->tag)) continue;
        qf_site site = empty_site;
        site.tag = miss->tag;
        site.location = source_place(graph, miss->location);
        site.name = site.location;
        site.recognised = miss->recognised;
        directory->run->counts.attentions += site.recognised;
        describe_miss(graph, miss, &site);
        if (!add_site(directory, site)) return false;
    }
    return true;
}

/* Without printf: there may be several rewrites a layer. */
static void add_rewrite_text(qf_buffer *text, const qf_graph *graph, const qf_rewrite *rewrite) {
    qf_buffer_unsigned(text, rewrite->number);
    qf_buffer_text(text, QF_TEXT(" "));
    qf_buffer_text(text, qf_string_text(graph->context, rewrite->rule));
    qf_buffer_text(text, QF_TEXT(" ("));
    qf_buffer_text(text, qf_text_of(qf_numerics_name(rewrite->numerics)));
    qf_buffer_text(text, QF_TEXT(")"));
    size_t unlocated = text->size;
    qf_buffer_text(text, QF_TEXT(" at "));
    size_t before = text->size;
    qf_location_print(text, graph, rewrite->location);
    if (text->size == before) text->size = unlocated;
    if (rewrite->note.id) qf_buffer_text(text, QF_TEXT(": "));
    qf_buffer_text(text, qf_string_text(graph->context, rewrite->note));
}

static bool add_rewrites(qf_run *run, const qf_graph *graph, const qf_report *report) {
    qf_context *context = run->context;
    qf_buffer text = {.context = context};
    if (!QF_GROW(context, run->rewrites, run->rewrite_capacity, report->rewrite_count)) return false;
    for (uint32_t i = 0; i < report->rewrite_count; i++) {
        const qf_rewrite *rewrite = &report->rewrites[i];
        text.size = 0;
        add_rewrite_text(&text, graph, rewrite);
        qf_string string = text.size ? qf_intern(context, (qf_text){text.data, text.size}) : (qf_string){0};
        run->rewrites[run->rewrite_count++] = qf_string_c(context, string);
    }
    qf_buffer_destroy(&text);
    run->counts.rewrites = report->rewrite_count;
    return true;
}

static qf_status make_run(const qf_graph *graph, const qf_report *report, qf_run **out_run) {
    qf_context *context = graph->context;
    qf_run *run = qf_allocate(context, sizeof *run);
    if (!run) return QF_ERROR_OUT_OF_MEMORY;
    run->context = context;
    run->counts.query_quants_inserted = report->query_quants_inserted;
    tag_directory directory = {.report = report, .run = run};
    bool complete = fill_directory(&directory);
    QF_FOR_EACH_NODE(graph, node)
    if (complete && is_attention(graph, node)) complete = add_attention(&directory, graph, node);
    complete = complete && add_unrecognised(&directory, graph) && add_rewrites(run, graph, report) &&
               qf_context_status(context) == QF_OK;
    destroy_directory(&directory);
    if (!complete) {
        qf_run_destroy(run);
        return QF_ERROR_OUT_OF_MEMORY;
    }
    *out_run = run;
    return QF_OK;
}

/* --- entry points --- */

qf_status qf_run_pipeline(qf_graph *graph, const qf_pipeline_options *given, qf_run **out_run) {
    if (out_run) *out_run = NULL;
    if (!graph) return QF_ERROR_INVALID_ARGUMENT;
    qf_context *context = graph->context;
    qf_context_clear_status(context);
    qf_pipeline_options options;
    qf_pass_options pass;
    qf_status status = read_options(context, given, &options, &pass);
    if (status != QF_OK) return status;
    if (options.rules)
        status = qf_rules_load(context, qf_text_of(options.rules), options.rules_name ? options.rules_name : "<rules>");
    if (status != QF_OK) return status;
    qf_report report;
    qf_report_init(&report, context);
    if (options.rewrite_limit || options.limit_rewrites) report.rewrite_limit = options.rewrite_limit;
    qf_pipeline pipeline = {.context = context};
    qf_pipeline_hooks hooks = {!options.skip_verify, options.observer, options.observer_user};
    status = qf_graph_verify(graph);
    if (status == QF_OK) status = qf_pipeline_parse(context, options.passes, &pass, &pipeline);
    if (status == QF_OK) status = qf_pipeline_run(&pipeline, graph, &hooks, &report);
    if (status == QF_OK && options.skip_verify) status = qf_graph_verify(graph);
    if (status == QF_OK && out_run) status = make_run(graph, &report, out_run);
    qf_pipeline_destroy(&pipeline);
    qf_report_destroy(&report);
    return status;
}

void qf_run_destroy(qf_run *run) {
    if (!run) return;
    qf_context *context = run->context;
    QF_FREE_ITEMS(context, run->sites, run->site_capacity);
    QF_FREE_ITEMS(context, run->rewrites, run->rewrite_capacity);
    qf_release(context, run, sizeof *run);
}

void qf_run_get_counts(const qf_run *run, qf_run_counts *out_counts) {
    size_t size = out_counts->struct_size < sizeof *out_counts ? out_counts->struct_size : sizeof *out_counts;
    qf_run_counts counts = run->counts;
    counts.struct_size = size;
    memcpy(out_counts, &counts, size);
}

uint32_t qf_run_site_count(const qf_run *run) {
    return run->site_count;
}

qf_status qf_run_get_site(const qf_run *run, uint32_t index, qf_site *out_site) {
    if (!run || !out_site || index >= run->site_count) return QF_ERROR_INVALID_ARGUMENT;
    size_t size = out_site->struct_size < sizeof *out_site ? out_site->struct_size : sizeof *out_site;
    memcpy(out_site, &run->sites[index], size);
    out_site->struct_size = size;
    return QF_OK;
}

const char *qf_run_rewrite_text(const qf_run *run, uint32_t index) {
    return run && index < run->rewrite_count ? run->rewrites[index] : "";
}
