/* Owns: qf_compile and the fingerprint.
 * Does not own: the parts of lowering (expressions.c, placement.c, memory.c, steps.c).
 * Next: lower.h. */
#include <qfuse/codegen.h>

#include <string.h>

#include "codegen/lower.h"
#include "ir/text.h"

typedef struct settings {
    const qf_target_info *target;
    const char *target_name, *pipeline, *numerics, *rules;
    const qf_fingerprint *source;
} settings;

/* The caller's structure may be older, and so shorter, than ours. */
static qf_compile_options read_options(const qf_compile_options *given) {
    qf_compile_options options;
    memset(&options, 0, sizeof options);
    if (given) memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    return options;
}

static qf_status settle(qf_context *context, const qf_compile_options *given, settings *out) {
    qf_compile_options options = read_options(given);
    out->target_name = options.target ? options.target : "cpu";
    out->pipeline = options.pipeline ? options.pipeline : "";
    out->numerics = options.numerics ? options.numerics : "default";
    out->rules = options.rules ? options.rules : "";
    out->source = options.source;
    out->target = qf_target_from_name(qf_text_of(out->target_name));
    if (out->target) return QF_OK;
    qf_buffer names = {.context = context};
    uint32_t count;
    const qf_target_info *targets = qf_target_table(&count);
    for (uint32_t i = 0; i < count; i++) qf_buffer_print(&names, "%s%s", i ? ", " : "", targets[i].name);
    qf_status status = names.failed
                           ? QF_ERROR_OUT_OF_MEMORY
                           : qf_fail(context, QF_ERROR_NOT_FOUND, NULL, "no target is named \"%s\"; expected one of %s",
                                     out->target_name, names.data);
    qf_buffer_destroy(&names);
    return status;
}

/* Two runs with different seeds; each part goes in with its length, so that parts cannot trade bytes. */
static void add_part(uint64_t hashes[2], qf_text part) {
    for (int i = 0; i < 2; i++) hashes[i] = qf_hash_bytes(part.data, part.size, qf_hash_mix(hashes[i], part.size + 1));
}

static qf_status fingerprint(const qf_graph *graph, const settings *with, qf_fingerprint *out) {
    qf_buffer text = {.context = graph->context};
    qf_graph_print(&text, graph);
    uint64_t hashes[2] = {0x51467573652D3031u, 0x9B05688C2B3E6C1Fu};
    add_part(hashes, (qf_text){text.data, text.size});
    add_part(hashes, qf_text_of(with->rules));
    add_part(hashes, qf_text_of(with->pipeline));
    add_part(hashes, qf_text_of(with->target_name));
    add_part(hashes, qf_text_of(with->numerics));
    add_part(hashes, qf_text_of(qf_version()));
    bool failed = text.failed;
    qf_buffer_destroy(&text);
    for (int i = 0; i < 16; i++) out->bytes[i] = (uint8_t)(hashes[i / 8] >> (8 * (i % 8)));
    return failed ? QF_ERROR_OUT_OF_MEMORY : QF_OK;
}

qf_status qf_compile_fingerprint(const qf_graph *graph, const qf_compile_options *options,
                                 qf_fingerprint *out_fingerprint) {
    settings with;
    memset(out_fingerprint, 0, sizeof *out_fingerprint);
    qf_status status = settle(graph->context, options, &with);
    return status == QF_OK ? fingerprint(graph, &with, out_fingerprint) : status;
}

static bool add_origin(qf_lowering *lowering, const settings *with) {
    qf_plan *plan = lowering->plan;
    qf_plan_origin_record origin = {.slot_count = lowering->slot_count};
    origin.graph = qf_plan_add_string(plan, qf_string_text(lowering->context, lowering->graph->name));
    origin.target = qf_plan_add_string(plan, qf_text_of(with->target_name));
    origin.pipeline = qf_plan_add_string(plan, qf_text_of(with->pipeline));
    origin.numerics = qf_plan_add_string(plan, qf_text_of(with->numerics));
    origin.generator = qf_plan_add_string(plan, qf_text_of(qf_version()));
    if (origin.graph == UINT32_MAX || origin.target == UINT32_MAX || origin.pipeline == UINT32_MAX ||
        origin.numerics == UINT32_MAX || origin.generator == UINT32_MAX)
        return false;
    return qf_plan_add_origin(plan, &origin) != 0;
}

static bool make_room(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    lowering->arena.context = lowering->context;
    lowering->tensors = QF_ARENA_NEW(&lowering->arena, uint32_t, graph->value_count);
    lowering->placements = QF_ARENA_NEW(&lowering->arena, qf_placement, graph->value_count);
    lowering->storages = QF_ARENA_NEW(&lowering->arena, qf_storage, graph->value_count);
    lowering->step_of_node = QF_ARENA_NEW(&lowering->arena, uint32_t, graph->node_count);
    lowering->note_of_node = QF_ARENA_NEW(&lowering->arena, uint32_t, graph->node_count);
    return lowering->tensors && lowering->placements && lowering->storages && lowering->step_of_node &&
           lowering->note_of_node;
}

static bool lower(qf_lowering *lowering, const settings *with) {
    lowering->plan = qf_plan_new(lowering->context);
    bool done = lowering->plan && make_room(lowering) && qf_lower_symbols(lowering) && qf_lower_placements(lowering) &&
                qf_lower_memory(lowering) && qf_lower_plan(lowering) && add_origin(lowering, with);
    qf_arena_destroy(&lowering->arena);
    QF_FREE_ITEMS(lowering->context, lowering->expressions, lowering->expression_capacity);
    QF_FREE_ITEMS(lowering->context, lowering->symbols, lowering->symbol_capacity);
    return done;
}

/* Any failure recorded on the way, such as a size that overflowed, fails the whole; an earlier one of the context is
 * kept. */
static qf_status compile(const qf_graph *graph, const settings *with, qf_plan **out_plan) {
    qf_context *context = graph->context;
    qf_status before = qf_context_status(context);
    qf_context_clear_status(context);
    qf_lowering lowering = {.context = context, .graph = graph, .target = with->target->target};
    bool done = lower(&lowering, with);
    qf_status status = qf_context_status(context);
    if (!done && status == QF_OK) status = QF_ERROR_INTERNAL;
    if (status == QF_OK && with->source) lowering.plan->fingerprint = *with->source;
    if (status == QF_OK && !with->source) status = fingerprint(graph, with, &lowering.plan->fingerprint);
    if (status == QF_OK) status = qf_plan_validate(context, lowering.plan, "compiled plan");
    if (status == QF_OK)
        *out_plan = lowering.plan;
    else
        qf_plan_destroy(lowering.plan);
    if (before != QF_OK) {
        qf_context_clear_status(context);
        (void)qf_record(context, before);
    }
    return status;
}

qf_status qf_compile(const qf_graph *graph, const qf_compile_options *options, qf_plan **out_plan) {
    *out_plan = NULL;
    if (!graph->last.id || qf_node_op(graph, graph->last) != QF_OP_return)
        return qf_fail(graph->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "the graph has no outputs yet: set them before compiling");
    settings with;
    qf_status status = settle(graph->context, options, &with);
    return status == QF_OK ? compile(graph, &with, out_plan) : status;
}
