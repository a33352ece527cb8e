/* Owns: finding what the pipeline fused, and putting it into the function where its result was computed.
 * Does not own: how a node becomes an operation (export_operation.c), inlining (inline.c).
 * Next: export_operation.c. */
#include "frontends/mlir/export.h"

#include <string.h>

#include "frontends/mlir/build.h"

/* Every value that was imported has a value of the graph that stands for it now (qf_graph_current_value). So an
 * attention that the pipeline made replaces the values that stand for what follows from it; its operands are values
 * that stand for themselves, or nodes that the pipeline made, which are written too. Nothing else of the function
 * changes. */

#define MAX_CHAIN 256 /* nodes between an operand and values that the function has */

/* --- who stands for whom --- */
static bool index_bindings(qf_mlir_export *export) {
    const qf_graph *graph = export->graph;
    export->heads = QF_ARENA_NEW(&export->scratch, uint32_t, graph->value_count);
    export->made = QF_ARENA_NEW(&export->scratch, qf_mlir_made, graph->value_count);
    export->seen = QF_ARENA_NEW(&export->scratch, uint32_t, graph->value_count);
    export->nexts = QF_ARENA_NEW(&export->scratch, uint32_t, (uint64_t) export->import->binding_count + 1);
    if (!export->heads || !export->made || !export->seen || !export->nexts) return false;
    for (uint32_t b = export->import->binding_count; b-- > 1;) { /* first ones first */
        qf_value now = qf_graph_current_value(graph, export->import->bindings[b].id);
        export->nexts[b] = export->heads[now.id];
        if (now.id) export->heads[now.id] = b;
    }
    return true;
}

/* The first binding in the function itself before `position`; 0: none. *out_nested: one in a call. */
static uint32_t find_binding(const qf_mlir_export *export, qf_value value, uint32_t position, uint32_t *out_nested) {
    uint32_t best = 0;
    for (uint32_t b = export->heads[value.id]; b; b = export->nexts[b]) {
        const qf_mlir_binding *binding = &export->import->bindings[b];
        if (binding->instance)
            *out_nested = *out_nested ? *out_nested : b;
        else if (binding->position < position && (!best || binding->position < export->import->bindings[best].position))
            best = b;
    }
    return best;
}

/* The call in the function itself that the binding lies under. */
static void ask_for_inlining(qf_mlir_export *export, uint32_t binding) {
    uint32_t instance = export->import->bindings[binding].instance;
    while (export->import->instances[instance].parent) instance = export->import->instances[instance].parent;
    export->inlined = export->import->instances[instance].call;
}

/* --- what is written --- */
static bool same_node(const qf_graph *a, const qf_graph *b, qf_node node) {
    if (node.id >= a->node_count) return false;
    const qf_node_data *first = qf_node_at(a, node), *second = qf_node_at(b, node);
    const qf_op_info *info = qf_op_info_of(second->op);
    if (first->erased || first->op != second->op || first->operand_count != second->operand_count) return false;
    for (uint32_t i = 0; i < first->operand_count; i++)
        if (first->operands[i].value.id != second->operands[i].value.id) return false;
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!qf_attribute_same(info->attributes[i].kind, &first->attributes[i], &second->attributes[i])) return false;
    return true;
}

/* An attention that writes FP8, or reads a query that was quantised for it. */
static bool is_site(const qf_mlir_export *export, qf_node node) {
    const qf_graph *graph = export->graph;
    qf_op op = qf_node_op(graph, node);
    if ((op != QF_OP_attention && op != QF_OP_paged_attention) || same_node(export->before, graph, node)) return false;
    qf_value query = qf_node_operand(graph, node, 0);
    return qf_dtype_is_float8(qf_value_dtype(graph, qf_node_result(graph, node, 0))) ||
           (qf_dtype_is_float8(qf_value_dtype(graph, query)) && !export->heads[query.id]);
}

static MlirLocation location_of(const qf_mlir_export *export, qf_node node, MlirOperation place) {
    MlirLocation locations[2];
    intptr_t count = 0;
    qf_buffer text = {.context = export->context};
    qf_location_print(&text, export->graph, qf_node_at(export->graph, node)->location);
    locations[count] = qf_mlir_place_of(export->import, text.data ? text.data : "");
    qf_buffer_destroy(&text);
    if (!mlirLocationIsNull(locations[count])) count++;
    locations[count++] = mlirOperationGetLocation(place);
    MlirAttribute none = {NULL};
    return mlirLocationFusedGet(export->mlir, count, locations, none);
}

/* --- writing --- */
typedef struct spot {
    MlirOperation place;
    uint32_t position; /* of it */
} spot;

static bool write_value(qf_mlir_export *export, qf_value value, spot at, uint32_t depth, MlirType type, MlirValue *out);

/* A value that stands before the spot: one that was written, one of the function, or a new one. */
static bool need_value(qf_mlir_export *export, qf_value value, spot at, uint32_t depth, MlirValue *out) {
    const qf_mlir_made *made = &export->made[value.id];
    uint32_t nested = 0, binding = find_binding(export, value, at.position, &nested);
    if (made->position && made->position <= at.position) {
        *out = made->value;
        return true;
    }
    if (binding) {
        *out = export->import->bindings[binding].value;
        return true;
    }
    qf_node producer = qf_value_producer(export->graph, value);
    if (nested && qf_node_op(export->graph, producer) != QF_OP_constant) {
        ask_for_inlining(export, nested);
        return false;
    }
    MlirType any = {NULL};
    return write_value(export, value, at, depth + 1, any, out);
}

static bool can_be_written(const qf_mlir_export *export, qf_node node, uint32_t depth) {
    qf_op op = qf_node_op(export->graph, node);
    return depth < MAX_CHAIN && node.id && op != QF_OP_opaque && op != QF_OP_parameter && op != QF_OP_return;
}

/* The node that makes the value, its operands first. `type` is the value's in the module; null: from the graph. */
static bool write_value(qf_mlir_export *export, qf_value value, spot at, uint32_t depth, MlirType type,
                        MlirValue *out) {
    const qf_graph *graph = export->graph;
    qf_node node = qf_value_producer(graph, value);
    if (!can_be_written(export, node, depth)) return false;
    const qf_node_data *data = qf_node_at(graph, node);
    MlirValue *operands = QF_ARENA_NEW(&export->scratch, MlirValue, (uint64_t)data->operand_count + 1);
    MlirType *types = QF_ARENA_NEW(&export->scratch, MlirType, (uint64_t)data->result_count + 1);
    if (!operands || !types) return false;
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (data->operands[i].value.id && !need_value(export, data->operands[i].value, at, depth, &operands[i]))
            return false;
    uint32_t result = qf_value_at(graph, value)->result_index;
    for (uint32_t i = 0; i < data->result_count; i++) {
        types[i] = i == result && !mlirTypeIsNull(type)
                       ? type
                       : qf_mlir_type_back(export->mlir, export->context, qf_value_type(graph, qf_result_at(data, i)));
        if (mlirTypeIsNull(types[i])) return false;
    }
    MlirOperation made = {NULL};
    if (!export->dry) {
        made = qf_mlir_make_operation(export, node, operands, types, location_of(export, node, at.place), at.place);
        if (mlirOperationIsNull(made)) return false;
    }
    for (uint32_t i = 0; i < data->result_count; i++) {
        qf_mlir_made *entry = &export->made[qf_result_at(data, i).id];
        *entry = (qf_mlir_made){.position = at.position};
        if (!export->dry) entry->value = mlirOperationGetResult(made, i);
        if (i == result) *out = entry->value;
    }
    return true;
}

/* --- one site --- */
typedef struct value_list {
    qf_value *items;
    uint32_t count, capacity;
} value_list;

static bool add_value(qf_mlir_export *export, value_list *list, qf_value value, uint32_t site) {
    if (export->seen[value.id] == site) return true;
    export->seen[value.id] = site;
    if (!QF_GROW(export->context, list->items, list->capacity, (uint64_t)list->count + 1)) return false;
    list->items[list->count++] = value;
    return true;
}

/* What follows from the attention and stands for a value of the function: the first on each way. */
static bool find_frontier(qf_mlir_export *export, qf_node node, uint32_t site, value_list *frontier) {
    const qf_graph *graph = export->graph;
    const qf_node_data *data = qf_node_at(graph, node);
    value_list pending = {NULL, 0, 0};
    bool good = true;
    for (uint32_t i = 0; good && i < data->result_count; i++)
        good = add_value(export, &pending, qf_result_at(data, i), site);
    for (uint32_t next = 0; good && next < pending.count; next++) {
        qf_value value = pending.items[next];
        if (export->heads[value.id]) {
            good = QF_GROW(export->context, frontier->items, frontier->capacity, (uint64_t)frontier->count + 1);
            if (good) frontier->items[frontier->count++] = value;
            continue;
        }
        QF_FOR_EACH_USE(graph, value, use) {
            const qf_node_data *user = qf_node_at(graph, use->user);
            for (uint32_t i = 0; good && i < user->result_count; i++)
                good = add_value(export, &pending, qf_result_at(user, i), site);
        }
    }
    QF_FREE_ITEMS(export->context, pending.items, pending.capacity);
    return good;
}

static bool note_dead(qf_mlir_export *export, MlirOperation operation) {
    if (!QF_GROW(export->context, export->dead, export->dead_capacity, (uint64_t) export->dead_count + 1)) return false;
    export->dead[export->dead_count++] = operation;
    return true;
}

/* All values of the function that the written one stands for, those after it. */
static bool replace_values(qf_mlir_export *export, qf_value value, uint32_t first, MlirValue by) {
    MlirType type = mlirValueGetType(by);
    uint32_t position = export->import->bindings[first].position;
    for (uint32_t b = export->heads[value.id]; b; b = export->nexts[b]) {
        const qf_mlir_binding *binding = &export->import->bindings[b];
        if (binding->instance || binding->position < position || !mlirValueIsAOpResult(binding->value) ||
            !mlirTypeEqual(mlirValueGetType(binding->value), type))
            continue;
        mlirValueReplaceAllUsesOfWith(binding->value, by);
        if (!note_dead(export, mlirOpResultGetOwner(binding->value))) return false;
    }
    return true;
}

/* Only what is read is written. */
static bool is_read(const qf_mlir_export *export, qf_value value) {
    return qf_value_at(export->graph, value)->use_count > 0;
}

static bool write_frontier(qf_mlir_export *export, qf_value value) {
    uint32_t nested = 0, first = find_binding(export, value, UINT32_MAX, &nested);
    if (!first && nested) ask_for_inlining(export, nested);
    if (!first || !mlirValueIsAOpResult(export->import->bindings[first].value)) return false;
    const qf_mlir_binding *binding = &export->import->bindings[first];
    spot at = {mlirOpResultGetOwner(binding->value), binding->position};
    MlirValue made;
    const qf_mlir_made *known = &export->made[value.id];
    if (known->position && known->position <= at.position)
        made = known->value;
    else if (!write_value(export, value, at, 0, mlirValueGetType(binding->value), &made))
        return false;
    return export->dry || replace_values(export, value, first, made);
}

static qf_status write_site(qf_mlir_export *export, qf_node node, uint32_t site) {
    value_list frontier = {NULL, 0, 0};
    bool good = find_frontier(export, node, site, &frontier), any = false;
    for (uint32_t i = 0; good && i < frontier.count; i++) {
        if (!is_read(export, frontier.items[i])) continue;
        good = write_frontier(export, frontier.items[i]);
        any = true;
    }
    QF_FREE_ITEMS(export->context, frontier.items, frontier.capacity);
    if (qf_context_status(export->context) != QF_OK) return qf_context_status(export->context);
    if (!good && mlirOperationIsNull(export->inlined)) {
        qf_position position = qf_node_position(export->graph, node);
        qf_message(export->context, QF_SEVERITY_WARNING, &position,
                   "the fused attention cannot be written back: it needs a value that the function does not have");
    }
    if (good && any && !export->dry) export->replaced++;
    return QF_OK;
}

/* --- erasing --- */
static bool calls_with_effect(const qf_mlir_export *export, MlirOperation operation) {
    const qf_mlir_import_state *import = export->import;
    for (uint32_t i = 1; i < import->instance_count; i++)
        if (import->instances[i].call.ptr == operation.ptr && import->instances[i].effects) return true;
    return false;
}

/* Operations that the importer knows have no effect; others stay, read or not, and what stands around a region. */
static bool may_be_erased(const qf_mlir_export *export, MlirOperation operation) {
    MlirBlock block = qf_mlir_only_block(export->import->function, export->import->region);
    if (!mlirBlockEqual(mlirOperationGetBlock(operation), block)) return false;
    for (intptr_t i = 0; i < mlirOperationGetNumResults(operation); i++) {
        MlirValue result = mlirOperationGetResult(operation, i);
        if (!mlirOpOperandIsNull(mlirValueGetFirstUse(result))) return false;
        qf_value value = qf_mlir_lookup(export->import, result, 0);
        qf_node producer = value.id ? qf_value_at(export->before, value)->producer : (qf_node){0};
        if (!value.id || qf_node_op(export->before, producer) == QF_OP_opaque) return false;
    }
    return mlirOperationGetNumResults(operation) > 0 && !calls_with_effect(export, operation);
}

static bool is_listed(const MlirOperation *list, uint32_t count, MlirOperation operation) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i].ptr == operation.ptr) return true;
    return false;
}

/* Each operation once: those that it was the last to read come next. */
static bool erase_dead(qf_mlir_export *export) {
    while (export->dead_count) {
        MlirOperation operation = export->dead[--export->dead_count];
        if (is_listed(export->dead, export->dead_count, operation) || !may_be_erased(export, operation)) continue;
        intptr_t count = mlirOperationGetNumOperands(operation);
        for (intptr_t i = 0; i < count; i++) {
            MlirValue operand = mlirOperationGetOperand(operation, i);
            if (!mlirValueIsAOpResult(operand)) continue;
            if (!note_dead(export, mlirOpResultGetOwner(operand))) return false;
        }
        mlirOperationDestroy(operation);
    }
    return true;
}

/* --- all of it --- */
qf_status qf_mlir_export_begin(qf_mlir_export *export, qf_mlir_import_state *import, const qf_graph *before) {
    *export = (qf_mlir_export){.import = import,
                               .context = import->context,
                               .before = before,
                               .graph = import->graph,
                               .mlir = mlirModuleGetContext(import->module),
                               .scratch = {.context = import->context}};
    return index_bindings(export) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

static qf_status write_sites(qf_mlir_export *export, bool dry) {
    uint32_t site = 0;
    qf_status status = QF_OK;
    export->dry = dry;
    memset(export->made, 0, export->graph->value_count * sizeof *export->made);
    memset(export->seen, 0, export->graph->value_count * sizeof *export->seen);
    qf_diagnostic_handler handler = export->context->handler;
    if (dry) export->context->handler = NULL; /* it is said once */
    QF_FOR_EACH_NODE(export->graph, node) {
        if (status != QF_OK || !mlirOperationIsNull(export->inlined)) break;
        if (is_site(export, node)) status = write_site(export, node, ++site);
    }
    export->context->handler = handler;
    return status;
}

static qf_status check_context(const qf_mlir_export *export) {
    if (mlirContextGetAllowUnregisteredDialects(export->mlir) ||
        mlirContextIsRegisteredOperation(export->mlir, qf_mlir_string("qfuse.attention")))
        return QF_OK;
    return qf_fail(export->context, QF_ERROR_UNSUPPORTED, NULL,
                   "an attention was fused, and the context knows no dialect `qfuse`: call "
                   "mlirContextSetAllowUnregisteredDialects(context, true) before");
}

qf_status qf_mlir_export_run(qf_mlir_export *export) {
    bool any = false;
    QF_FOR_EACH_NODE(export->graph, node) any = any || is_site(export, node);
    if (!any) return QF_OK;
    qf_status status = check_context(export);
    if (status == QF_OK) status = write_sites(export, true);
    if (status != QF_OK || !mlirOperationIsNull(export->inlined)) return status;
    status = write_sites(export, false);
    return status == QF_OK && !erase_dead(export) ? QF_ERROR_OUT_OF_MEMORY : status;
}

void qf_mlir_export_destroy(qf_mlir_export *export) {
    QF_FREE_ITEMS(export->context, export->dead, export->dead_capacity);
    qf_arena_destroy(&export->scratch);
}
