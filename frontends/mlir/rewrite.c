/* Owns: rewriting a module in place: each public function imported, run through a pipeline, and written back.
 * Does not own: writing back (export.c), the pass that calls this (pass.c).
 * Next: export.c. */
#include <stdio.h>
#include <string.h>

#include <mlir-c/Diagnostics.h>
#include <qfuse/pass.h>

#include "frontends/mlir/build.h"
#include "frontends/mlir/export.h"

typedef struct rewriter {
    MlirModule module;
    qf_mlir_rewrite_options options;
    qf_mlir_report report;
    qf_context *context;
    qf_mlir_import_state *import; /* the one under way; NULL: none */
    MlirLocation fallback;
    bool reading; /* what cannot be read is skipped, so its fault is a warning */
    bool quiet;   /* the same is done again, and was said already */
} rewriter;

/* --- messages --- */
static void on_message(void *user, const qf_diagnostic *diagnostic) {
    rewriter *r = user;
    qf_diagnostic message = *diagnostic;
    if (message.severity == QF_SEVERITY_ERROR && !r->reading) {
        MlirLocation location = r->import ? qf_mlir_place_of(r->import, message.location) : (MlirLocation){NULL};
        mlirEmitError(mlirLocationIsNull(location) ? r->fallback : location, message.message);
        return;
    }
    if (message.severity == QF_SEVERITY_ERROR) message.severity = QF_SEVERITY_WARNING;
    if (!r->quiet && r->options.handler) r->options.handler(r->options.handler_user, &message);
}

static void say_site(const rewriter *r, const qf_site *site) {
    char text[1024];
    if (site->fused)
        (void)snprintf(text, sizeof text, "attention fused by %s, numerics class %s", site->rule, site->numerics);
    else
        (void)snprintf(text, sizeof text, "%s [%s]: %s; at %s",
                       site->recognised ? "attention not fused" : "no attention", site->miss_code, site->miss_text,
                       site->miss_location);
    qf_diagnostic message = {.struct_size = sizeof message,
                             .severity = QF_SEVERITY_REMARK,
                             .location = site->location,
                             .message = text,
                             .source_line = ""};
    r->options.handler(r->options.handler_user, &message);
}

static void say_sites(const rewriter *r, const qf_run *run) {
    bool wanted = r->options.remarks && r->options.handler;
    for (uint32_t i = 0; wanted && i < qf_run_site_count(run); i++) {
        qf_site site = {.struct_size = sizeof site};
        if (qf_run_get_site(run, i, &site) == QF_OK) say_site(r, &site);
    }
}

/* --- one function --- */
static qf_status run_pipeline(rewriter *r, qf_run **out_run) {
    qf_pipeline_options options = {.struct_size = sizeof options,
                                   .passes = r->options.passes,
                                   .numerics = r->options.numerics,
                                   .target = r->options.target,
                                   .query_scale = r->options.query_scale};
    return qf_run_pipeline(r->import->graph, &options, out_run);
}

static qf_status inline_call(rewriter *r, MlirOperation call) {
    qf_text name = qf_mlir_symbol_name(call, "callee");
    if (!name.size) name = qf_mlir_symbol_name(call, "decomposition");
    MlirOperation callee = qf_mlir_symbol(r->import, name);
    return mlirOperationIsNull(callee) ? qf_record(r->context, QF_ERROR_INTERNAL)
                                       : qf_mlir_inline_call(r->import, callee, call);
}

/* *out_again: a call was inlined, so that the function is another one now. */
static qf_status write_back(rewriter *r, const qf_graph *before, const qf_run *run, bool *out_again) {
    qf_mlir_export export;
    qf_status status = qf_mlir_export_begin(&export, r->import, before);
    if (status == QF_OK) status = qf_mlir_export_run(&export);
    *out_again = status == QF_OK && !mlirOperationIsNull(export.inlined);
    if (*out_again) {
        status = inline_call(r, export.inlined);
    } else if (status == QF_OK) {
        qf_run_counts counts = {.struct_size = sizeof counts};
        qf_run_get_counts(run, &counts);
        r->report.attentions += counts.attentions;
        r->report.fused += counts.fused_fp8_out;
        r->report.replaced += export.replaced;
        say_sites(r, run);
    }
    qf_mlir_export_destroy(&export);
    return status;
}

static qf_status optimise(rewriter *r, bool *out_again) {
    qf_graph *before = qf_graph_clone(r->import->graph);
    qf_run *run = NULL;
    qf_status status = before ? run_pipeline(r, &run) : qf_context_status(r->context);
    if (status == QF_OK) status = write_back(r, before, run, out_again);
    qf_run_destroy(run);
    qf_graph_destroy(before);
    return status;
}

/* Imports the function, or region, and does the rest; one that cannot be read is left alone. */
static qf_status rewrite_once(rewriter *r, const char *name, qf_mlir_scope scope, bool *out_again) {
    qf_mlir_import_options options = {.struct_size = sizeof options, .function = name};
    qf_mlir_import_state import;
    *out_again = false;
    r->reading = true;
    r->import = &import;
    qf_status status = qf_mlir_import_begin(&import, r->context, r->module, &options, scope);
    r->reading = false;
    bool skipped = status != QF_OK && qf_context_status(r->context) != QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK)
        status = optimise(r, out_again);
    else if (skipped)
        qf_context_clear_status(r->context);
    bool function = mlirOperationIsNull(scope.operation);
    if (!r->quiet && function) r->report.skipped += skipped;
    if (!*out_again && function) r->report.functions += !skipped;
    qf_mlir_import_destroy(&import);
    qf_graph_destroy(import.graph);
    r->import = NULL;
    return skipped ? QF_OK : status;
}

static qf_status rewrite_scope(rewriter *r, const char *name, qf_mlir_scope scope) {
    qf_status status = QF_OK;
    bool again = true;
    r->quiet = false;
    while (status == QF_OK && again) { /* every round has a call less */
        status = rewrite_once(r, name, scope, &again);
        r->quiet = true;
    }
    return status;
}

static qf_status rewrite_function(rewriter *r, MlirOperation function) {
    qf_string name = qf_intern(r->context, qf_mlir_symbol_name(function, "sym_name"));
    if (!name.id) return QF_ERROR_OUT_OF_MEMORY;
    r->fallback = mlirOperationGetLocation(function);
    return rewrite_scope(r, qf_string_c(r->context, name), (qf_mlir_scope){{NULL}, 0, true});
}

/* --- regions --- */
/* Loops and branches, whose regions run as functions do: in order, from arguments to results. */
static bool has_bodies(MlirOperation operation) {
    static const char *const names[] = {"stablehlo.while", "stablehlo.if", "stablehlo.case", "mhlo.while", "mhlo.if",
                                        "mhlo.case",       "scf.for",      "scf.while",      "scf.if"};
    for (size_t i = 0; i < QF_COUNT_OF(names); i++)
        if (qf_mlir_is(operation, names[i])) return true;
    return false;
}

static qf_status rewrite_regions(rewriter *r, MlirBlock block, uint32_t depth);

static qf_status rewrite_region(rewriter *r, MlirOperation operation, intptr_t region, uint32_t depth) {
    MlirBlock block = qf_mlir_only_block(operation, region);
    if (mlirBlockIsNull(block)) return QF_OK;
    qf_status status = rewrite_scope(r, NULL, (qf_mlir_scope){operation, region, true});
    return status == QF_OK ? rewrite_regions(r, block, depth + 1) : status;
}

/* All of them below the block, after the block itself. */
static qf_status rewrite_regions(rewriter *r, MlirBlock block, uint32_t depth) {
    qf_status status = QF_OK;
    MlirOperation operation = mlirBlockGetFirstOperation(block);
    for (; depth < QF_MLIR_MAX_DEPTH && !mlirOperationIsNull(operation);
         operation = mlirOperationGetNextInBlock(operation))
        for (intptr_t i = 0; status == QF_OK && has_bodies(operation) && i < mlirOperationGetNumRegions(operation); i++)
            status = rewrite_region(r, operation, i, depth);
    return status;
}

/* --- the module --- */
static bool is_public_function(MlirOperation operation) {
    return qf_mlir_is(operation, "func.func") &&
           !qf_text_is(qf_mlir_symbol_name(operation, "sym_visibility"), "private") &&
           mlirOperationGetNumRegions(operation) == 1 &&
           !mlirBlockIsNull(mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, 0)));
}

static qf_status rewrite_all(rewriter *r) {
    qf_status status = QF_OK;
    MlirOperation operation = mlirBlockGetFirstOperation(mlirModuleGetBody(r->module));
    for (; status == QF_OK && !mlirOperationIsNull(operation); operation = mlirOperationGetNextInBlock(operation))
        if (is_public_function(operation)) status = rewrite_function(r, operation);
    operation = mlirBlockGetFirstOperation(mlirModuleGetBody(r->module));
    for (; status == QF_OK && !mlirOperationIsNull(operation); operation = mlirOperationGetNextInBlock(operation)) {
        MlirBlock block = qf_mlir_only_block(operation, 0);
        if (!mlirBlockIsNull(block)) status = rewrite_regions(r, block, 0);
    }
    return status;
}

qf_status qf_mlir_rewrite(MlirModule module, const qf_mlir_rewrite_options *options, qf_mlir_report *out_report) {
    if (mlirModuleIsNull(module)) return QF_ERROR_INVALID_ARGUMENT;
    rewriter r = {.module = module, .fallback = mlirOperationGetLocation(mlirModuleGetOperation(module))};
    size_t size = options ? options->struct_size : 0;
    if (size) memcpy(&r.options, options, size < sizeof r.options ? size : sizeof r.options);
    qf_context_options context_options = {
        .struct_size = sizeof context_options, .handler = on_message, .handler_user = &r};
    qf_status status = qf_context_create(&context_options, &r.context);
    if (status == QF_OK) status = rewrite_all(&r);
    if (status == QF_ERROR_OUT_OF_MEMORY) mlirEmitError(r.fallback, "QFuse ran out of memory");
    qf_context_destroy(r.context);
    if (out_report && status == QF_OK) {
        size_t room = out_report->struct_size < sizeof r.report ? out_report->struct_size : sizeof r.report;
        r.report.struct_size = out_report->struct_size;
        memcpy(out_report, &r.report, room);
    }
    return status;
}
