/* Owns: the pass table, pipeline text, the loop that runs, verifies and rolls back.
 * Does not own: the passes themselves (one file each), the public face (api.c).
 * Next: pipelines.def. */
#include "passes/manager.h"

#include <string.h>
#include <time.h>

#include "ir/verify.h"

#define PASS(function, name, doc) qf_status qf_pass_##function(qf_pass_call *call);
#include "passes/passes.def"
#undef PASS

static const qf_pass_info pass_table[] = {
#define PASS(function, name, doc) {name, doc, qf_pass_##function},
#include "passes/passes.def"
#undef PASS
};

static const struct {
    const char *name, *text;
} pipelines[] = {
#define PIPELINE(name, text) {name, text},
#include "passes/pipelines.def"
#undef PIPELINE
};

const char *qf_pass_list(void) {
    return
#define PASS(function, name, doc) name ": " doc "\n"
#include "passes/passes.def"
#undef PASS
        ;
}

const char *qf_pipeline_list(void) {
    return
#define PIPELINE(name, text) name ": " text "\n"
#include "passes/pipelines.def"
#undef PIPELINE
        ;
}

/* --- option values --- */

qf_status qf_numerics_parse(qf_context *context, qf_text text, qf_numerics *out) {
    for (int i = QF_NUMERICS_DEFAULT; i <= QF_NUMERICS_RELAXED; i++) {
        if (!qf_text_is(text, qf_numerics_name((qf_numerics)i))) continue;
        *out = (qf_numerics)i;
        return QF_OK;
    }
    return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                   "unknown numerics class '%.*s'; there are default, exact, rounding, quantising, relaxed",
                   (int)text.size, text.data);
}

qf_status qf_query_scale_parse(qf_context *context, qf_text text, qf_query_scale *out) {
    static const char *const names[] = {"graph", "unit", "dynamic"};
    for (uint32_t i = 0; i < QF_COUNT_OF(names); i++) {
        if (!qf_text_is(text, names[i])) continue;
        *out = (qf_query_scale)i;
        return QF_OK;
    }
    return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                   "unknown query scale '%.*s'; there are graph, unit, dynamic", (int)text.size, text.data);
}

qf_status qf_target_parse(qf_context *context, qf_text text, const qf_target_info **out) {
    *out = qf_target_from_name(text);
    if (*out) return QF_OK;
    qf_buffer names = {.context = context};
    uint32_t count;
    const qf_target_info *table = qf_target_table(&count);
    for (uint32_t i = 0; i < count; i++) qf_buffer_print(&names, " %s", table[i].name);
    qf_status status = qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "unknown target '%.*s'; there are%s",
                               (int)text.size, text.data, names.data ? names.data : "");
    qf_buffer_destroy(&names);
    return status;
}

/* --- pipeline text --- */

static qf_text trimmed(qf_text text) {
    while (text.size && strchr(" \t\r\n", text.data[0])) text.data++, text.size--;
    while (text.size && strchr(" \t\r\n", text.data[text.size - 1])) text.size--;
    return text;
}

/* Cuts *rest at the first `separator` outside of braces. False when nothing is left. */
static bool next_item(qf_text *rest, char separator, qf_text *out_item) {
    if (rest->data == NULL) return false;
    int depth = 0;
    for (size_t i = 0; i < rest->size; i++) {
        depth += (rest->data[i] == '{') - (rest->data[i] == '}');
        if (rest->data[i] != separator || depth > 0) continue;
        *out_item = trimmed((qf_text){rest->data, i});
        *rest = (qf_text){rest->data + i + 1, rest->size - i - 1};
        return true;
    }
    *out_item = trimmed(*rest);
    *rest = (qf_text){NULL, 0};
    return true;
}

static qf_status set_option(qf_context *context, qf_text key, qf_text value, qf_pass_options *options) {
    if (qf_text_is(key, "target")) return qf_target_parse(context, value, &options->target);
    if (qf_text_is(key, "numerics")) return qf_numerics_parse(context, value, &options->numerics);
    if (qf_text_is(key, "scale")) return qf_query_scale_parse(context, value, &options->query_scale);
    return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                   "unknown pass option '%.*s'; there are target, numerics, scale", (int)key.size, key.data);
}

static qf_status read_options(qf_context *context, qf_text text, qf_pass_options *options) {
    qf_text item;
    while (next_item(&text, ',', &item)) {
        const char *equals = item.size ? memchr(item.data, '=', item.size) : NULL;
        if (!equals)
            return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "expected option=value in braces, found '%.*s'",
                           (int)item.size, item.data);
        size_t key_size = (size_t)(equals - item.data);
        qf_text value = trimmed((qf_text){equals + 1, item.size - key_size - 1});
        qf_status status = set_option(context, trimmed((qf_text){item.data, key_size}), value, options);
        if (status != QF_OK) return status;
    }
    return QF_OK;
}

static qf_status add_item(qf_pipeline *pipeline, qf_text item, const qf_pass_options *defaults, bool may_expand);

static qf_status add_items(qf_pipeline *pipeline, qf_text text, const qf_pass_options *defaults, bool may_expand) {
    qf_text item;
    while (next_item(&text, ',', &item)) {
        qf_status status = add_item(pipeline, item, defaults, may_expand);
        if (status != QF_OK) return status;
    }
    return QF_OK;
}

static qf_status add_item(qf_pipeline *pipeline, qf_text item, const qf_pass_options *defaults, bool may_expand) {
    qf_context *context = pipeline->context;
    qf_text name = item;
    qf_pass_options options = *defaults;
    const char *brace = item.size ? memchr(item.data, '{', item.size) : NULL;
    if (brace) {
        name = trimmed((qf_text){item.data, (size_t)(brace - item.data)});
        if (item.data[item.size - 1] != '}')
            return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "missing '}' after '%.*s'", (int)item.size,
                           item.data);
        size_t inner = item.size - (size_t)(brace - item.data) - 2;
        qf_status status = read_options(context, (qf_text){brace + 1, inner}, &options);
        if (status != QF_OK) return status;
    }
    for (uint32_t i = 0; may_expand && i < QF_COUNT_OF(pipelines); i++)
        if (qf_text_is(name, pipelines[i].name))
            return add_items(pipeline, qf_text_of(pipelines[i].text), &options, false);
    for (uint32_t i = 0; i < QF_COUNT_OF(pass_table); i++) {
        if (!qf_text_is(name, pass_table[i].name)) continue;
        if (!QF_GROW(context, pipeline->steps, pipeline->step_capacity, (uint64_t)pipeline->step_count + 1))
            return QF_ERROR_OUT_OF_MEMORY;
        pipeline->steps[pipeline->step_count++] = (qf_pipeline_step){&pass_table[i], options};
        return QF_OK;
    }
    return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "unknown pass '%.*s'; passes and pipelines are\n%s%s",
                   (int)name.size, name.data, qf_pass_list(), qf_pipeline_list());
}

qf_status qf_pipeline_parse(qf_context *context, const char *text, const qf_pass_options *defaults,
                            qf_pipeline *out_pipeline) {
    *out_pipeline = (qf_pipeline){.context = context};
    qf_text all = trimmed(qf_text_of(text ? text : "default"));
    if (!all.size) return QF_OK; /* no passes: only verify */
    qf_status status = add_items(out_pipeline, all, defaults, true);
    if (status != QF_OK) qf_pipeline_destroy(out_pipeline);
    return status;
}

void qf_pipeline_destroy(qf_pipeline *pipeline) {
    QF_FREE_ITEMS(pipeline->context, pipeline->steps, pipeline->step_capacity);
    pipeline->step_count = 0;
}

/* --- running --- */

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static qf_status run_step(const qf_pipeline_step *step, qf_graph *graph, const qf_pipeline_hooks *hooks,
                          qf_report *report, bool *out_changed) {
    qf_context *context = graph->context;
    qf_pass_call call = {.graph = graph, .options = &step->options, .report = report};
    qf_status status = step->pass->run(&call);
    if (status == QF_OK) status = qf_context_status(context);
    *out_changed = call.changed;
    if (status != QF_OK || !call.changed || !hooks->verify_each) return status;
    if (qf_graph_verify(graph) == QF_OK) return QF_OK;
    if (qf_context_status(context) == QF_ERROR_OUT_OF_MEMORY) return QF_ERROR_OUT_OF_MEMORY;
    return qf_fail(context, QF_ERROR_INTERNAL, NULL, "pass %s left an invalid graph; the graph was restored",
                   step->pass->name);
}

qf_status qf_pipeline_run(const qf_pipeline *pipeline, qf_graph *graph, const qf_pipeline_hooks *hooks,
                          qf_report *report) {
    qf_status status = QF_OK;
    qf_graph *before = NULL; /* the graph as it is now, or NULL; one copy serves all passes that change nothing */
    for (uint32_t i = 0; i < pipeline->step_count && status == QF_OK; i++) {
        const qf_pipeline_step *step = &pipeline->steps[i];
        if (!before) before = qf_graph_clone(graph);
        if (!before) return QF_ERROR_OUT_OF_MEMORY;
        if (hooks->observer) hooks->observer(hooks->observer_user, QF_PASS_BEFORE, step->pass->name, graph, false, 0);
        double start = now();
        bool changed = false;
        status = run_step(step, graph, hooks, report, &changed);
        if (status != QF_OK)
            qf_graph_swap(graph, before);
        else if (hooks->observer)
            hooks->observer(hooks->observer_user, QF_PASS_AFTER, step->pass->name, graph, changed, now() - start);
        if (!changed) continue;
        qf_graph_destroy(before);
        before = NULL;
    }
    qf_graph_destroy(before);
    return status;
}
