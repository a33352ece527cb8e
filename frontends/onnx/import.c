/* Owns: the walk over a model: entry points, inputs, nodes, outputs.
 * Does not own: names and types (names.c), what an op becomes (ops.def, map_*.c), weights (weights.c), unknown ops
 * (opaque.c).
 * Next: table.c, weights.c. */
#include "frontends/onnx/import.h"

#include "frontends/onnx/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OPSET_FIRST 13
#define OPSET_LAST  25

qf_onnx_outcome qf_onnx_fault(qf_onnx_call *call, qf_status status, const char *format, ...) {
    if (call->import->reported) return QF_ONNX_FAILED; /* the first one ends the import; others only follow from it */
    va_list arguments;
    qf_position position = {.location = call->where};
    call->import->failed = call->import->reported = true;
    va_start(arguments, format);
    (void)qf_fail_list(call->import->context, status, &position, format, arguments);
    va_end(arguments);
    return QF_ONNX_FAILED;
}

void qf_onnx_warn(const qf_onnx_call *call, const char *format, ...) {
    va_list arguments;
    qf_position position = {.location = call->where};
    va_start(arguments, format);
    qf_message_list(call->import->context, QF_SEVERITY_WARNING, &position, format, arguments);
    va_end(arguments);
}

/* --- nodes --- */
static const char *domain_of(const char *domain) {
    return strcmp(qf_onnx_text(domain), "ai.onnx") == 0 ? "" : qf_onnx_text(domain);
}

/* The imported version of a domain; 1 for domains that are not listed (their ops are looked up by name only). */
static int64_t domain_version(const qf_onnx_scope *scope, const char *domain) {
    for (size_t i = 0; i < scope->opset_count; i++)
        if (strcmp(domain_of(scope->opsets[i]->domain), domain) == 0) return scope->opsets[i]->version;
    return 1;
}

typedef struct row_key {
    const char *domain, *op_type;
} row_key;

static bool row_equal(const void *owner, uint32_t id, const void *key) {
    (void)owner;
    uint32_t count;
    const qf_onnx_row *row = &qf_onnx_rows(&count)[id - 1];
    const row_key *wanted = key;
    return strcmp(row->op_type, wanted->op_type) == 0 && strcmp(row->domain, wanted->domain) == 0;
}

static uint64_t row_hash(const char *domain, const char *op_type) {
    return qf_hash_bytes(domain, strlen(domain), qf_hash_bytes(op_type, strlen(op_type), 5));
}

/* Only the first row of an op is indexed; its other versions follow it in the table. */
static bool index_rows(qf_onnx_import *import) {
    uint32_t count;
    const qf_onnx_row *rows = qf_onnx_rows(&count);
    for (uint32_t i = 0; i < count; i++) {
        bool follows =
            i && strcmp(rows[i - 1].op_type, rows[i].op_type) == 0 && strcmp(rows[i - 1].domain, rows[i].domain) == 0;
        if (!follows &&
            !qf_index_add(import->context, &import->row_index, row_hash(rows[i].domain, rows[i].op_type), i + 1))
            return false;
    }
    return true;
}

static const qf_onnx_row *find_row(qf_onnx_import *import, const char *domain, const char *op_type, int64_t version) {
    uint32_t count;
    const qf_onnx_row *rows = qf_onnx_rows(&count);
    row_key key = {domain, op_type};
    uint32_t id = qf_index_find(&import->row_index, row_hash(domain, op_type), row_equal, import, &key);
    if (!id) return NULL;
    for (uint32_t i = id - 1; i < count && strcmp(rows[i].op_type, op_type) == 0 && strcmp(rows[i].domain, domain) == 0;
         i++)
        if (version >= rows[i].first && version <= rows[i].last) return &rows[i];
    return NULL;
}

static bool listed(const char *list, const char *name) {
    size_t size = strlen(name);
    if (*list == '*') return true;
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (length == size && memcmp(at, name, size) == 0) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/* NULL where the row's mapping may be asked; otherwise why not. */
static const char *unfit(const qf_onnx_call *call) {
    const Onnx__NodeProto *node = call->node;
    for (size_t i = 0; i < node->n_attribute; i++)
        if (!listed(call->row->attributes, qf_onnx_text(node->attribute[i]->name)))
            return "it has an attribute that the importer does not know";
    if (call->input_count > call->row->most_inputs) return "it has more inputs than the importer knows";
    for (uint32_t i = 0; i < call->row->least_inputs; i++)
        if (i >= call->input_count || !call->inputs[i].id) return "a required input is missing";
    if (node->n_output == 0) return "it has no output";
    return NULL;
}

/* Some producers write FP8 through ops whose specification does not allow it yet. What they mean is clear. */
static void check_float8(const qf_onnx_call *call) {
    if (*call->row->domain) return;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!call->inputs[i].id || !qf_dtype_is_float8(qf_value_dtype(call->import->graph, call->inputs[i]))) continue;
        uint32_t since = qf_onnx_float8_since(call->row->op_type);
        if (call->version >= since) return;
        if (since == UINT32_MAX)
            qf_onnx_warn(call, "%s reads FP8 input '%s'; no opset allows that; read as it stands", call->row->op_type,
                         qf_onnx_text(call->node->input[i]));
        else
            qf_onnx_warn(call,
                         "%s reads FP8 input '%s' at opset %" PRId64 "; allowed from opset %u on; read as it stands",
                         call->row->op_type, qf_onnx_text(call->node->input[i]), call->version, since);
        return;
    }
}

static bool bind_outputs(qf_onnx_call *call) {
    qf_onnx_import *import = call->import;
    for (uint32_t i = 0; i < call->output_count; i++) {
        const char *name = qf_onnx_text(call->node->output[i]);
        if (!*name) continue;
        if (!call->outputs[i].id) {
            (void)qf_onnx_fault(call, QF_ERROR_UNSUPPORTED, "%s: output %u ('%s') is not known", call->node->op_type, i,
                                name);
            return false;
        }
        if (!qf_onnx_bind(import, call->scope, name, call->outputs[i])) return false;
        qf_value_data *value = qf_value_at(import->graph, call->outputs[i]);
        if (!value->name.id && value->producer.id && !call->scope->parent)
            value->name = qf_intern_c(import->context, name);
    }
    return true;
}

static qf_status map_node(qf_onnx_call *call, const char *domain) {
    qf_onnx_import *import = call->import;
    const char *op_type = qf_onnx_text(call->node->op_type);
    call->row = find_row(import, domain, op_type, call->version);
    const Onnx__FunctionProto *function = qf_onnx_function_of(import, call->node);
    if (call->row && !(call->reason = unfit(call))) {
        check_float8(call);
        qf_onnx_outcome outcome = call->row->map(call);
        if (outcome == QF_ONNX_FAILED || import->failed) return QF_ERROR_VERIFY;
        if (outcome == QF_ONNX_MAPPED) return QF_OK;
        memset(call->outputs, 0, call->output_count * sizeof *call->outputs);
    }
    if (function) return qf_onnx_inline(call, function);
    if (!call->row && !call->reason) call->reason = "the importer does not know this op";
    qf_position position = {.location = call->where};
    qf_message(import->context, QF_SEVERITY_REMARK, &position, "%s%s%s is carried through as an opaque node: %s",
               domain, *domain ? "::" : "", op_type, call->reason);
    return qf_onnx_import_opaque(call);
}

static const char *node_place(qf_onnx_import *import, const qf_onnx_scope *scope, const Onnx__NodeProto *node) {
    const char *name = qf_onnx_text(node->name);
    if (!*name && node->n_output) name = qf_onnx_text(node->output[0]);
    if (!*name) name = qf_onnx_text(node->op_type);
    size_t path = strlen(scope->path), size = path + strlen(name) + 1;
    char *place = qf_arena_allocate(&import->scratch, size);
    if (place) (void)snprintf(place, size, "%s%s", scope->path, name);
    return place;
}

static bool gather_inputs(qf_onnx_call *call, qf_value *inputs) {
    const Onnx__NodeProto *node = call->node;
    for (size_t i = 0; i < node->n_input; i++) {
        const char *name = qf_onnx_text(node->input[i]);
        bool known = true;
        inputs[i] = *name ? qf_onnx_lookup(call->import, call->scope, name, &known) : (qf_value){0};
        if (known) continue;
        (void)qf_onnx_fault(
            call, QF_ERROR_VERIFY,
            "input '%s' of %s is not defined before it: expected nodes in topological order, found an unknown "
            "name, an unsorted graph or a cycle",
            name, qf_onnx_text(node->op_type));
        return false;
    }
    return true;
}

/* The name of an attribute that is given twice, or NULL. No op has more than 64; a longer list costs no more. */
static const char *repeated_attribute(const Onnx__NodeProto *node) {
    for (size_t i = 1; i < node->n_attribute && i < 64; i++) {
        const char *name = qf_onnx_text(node->attribute[i]->name);
        if (qf_onnx_attribute(node, name) != node->attribute[i]) return name;
    }
    return NULL;
}

static qf_status import_node(qf_onnx_import *import, const qf_onnx_scope *scope, const Onnx__NodeProto *node) {
    if (++import->node_count > import->options.max_nodes) {
        qf_position position = {.location = import->name};
        return qf_fail(import->context, QF_ERROR_LIMIT, &position,
                       "more than %" PRIu64 " nodes after inlining functions", import->options.max_nodes);
    }
    if (node->n_attribute > QF_ONNX_MAX_ATTRIBUTES || scope->opset_count > QF_ONNX_MAX_OPSETS) {
        qf_position position = {.location = import->name};
        return qf_fail(import->context, QF_ERROR_LIMIT, &position,
                       "a node has %zu attributes and %zu opset imports; at most %d and %d are read", node->n_attribute,
                       scope->opset_count, QF_ONNX_MAX_ATTRIBUTES, QF_ONNX_MAX_OPSETS);
    }
    const char *domain = domain_of(node->domain);
    qf_onnx_call call = {.import = import, .scope = scope, .node = node, .version = domain_version(scope, domain)};
    call.where = node_place(import, scope, node);
    if (!call.where) return QF_ERROR_OUT_OF_MEMORY;
    call.location = qf_location_make(import->graph, qf_text_of(call.where), 0, 0);
    call.node = qf_onnx_resolve(import, scope, node, call.where);
    if (!call.node) return QF_ERROR_VERIFY;
    const char *repeated = repeated_attribute(node);
    if (repeated) {
        (void)qf_onnx_fault(&call, QF_ERROR_PARSE, "attribute '%s' of %s is given twice", repeated,
                            qf_onnx_text(node->op_type));
        return QF_ERROR_PARSE;
    }
    qf_value *inputs = QF_ARENA_NEW(&import->scratch, qf_value, node->n_input + 1);
    call.outputs = QF_ARENA_NEW(&import->scratch, qf_value, node->n_output + 1);
    if (!inputs || !call.outputs) return QF_ERROR_OUT_OF_MEMORY;
    if (!gather_inputs(&call, inputs)) return QF_ERROR_VERIFY;
    call.inputs = inputs;
    call.input_count = (uint32_t)node->n_input;
    while (call.input_count && !inputs[call.input_count - 1].id) call.input_count--;
    call.output_count = (uint32_t)node->n_output;
    qf_status status = map_node(&call, domain);
    if (status == QF_OK && !bind_outputs(&call)) status = QF_ERROR_VERIFY;
    return status;
}

qf_status qf_onnx_import_nodes(qf_onnx_import *import, const qf_onnx_scope *scope, Onnx__NodeProto **nodes,
                               size_t count) {
    for (size_t i = 0; i < count; i++) {
        qf_status status = import_node(import, scope, nodes[i]);
        if (status == QF_OK) status = qf_context_status(import->context);
        if (status != QF_OK) return status;
    }
    return QF_OK;
}

/* --- the graph --- */
static qf_status import_initializers(qf_onnx_import *import, const qf_onnx_scope *scope,
                                     const Onnx__GraphProto *graph) {
    const qf_onnx_scan *scan = &import->model.scan;
    const char *file = import->storage->mapping_count ? import->storage->mappings[0].path : NULL;
    uint32_t cut = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *tensor = graph->initializer[i];
        qf_onnx_bytes bytes, *given = NULL;
        if (cut < scan->cut_count && scan->cuts[cut].initializer == i) {
            bytes = (qf_onnx_bytes){scan->data + scan->cuts[cut].offset, scan->cuts[cut].size, file,
                                    scan->cuts[cut].offset};
            given = &bytes;
            cut++;
        }
        const char *name = qf_onnx_text(tensor->name);
        qf_value value = qf_onnx_import_tensor(import, tensor, given, name,
                                               qf_location_make(import->graph, qf_text_of(name), 0, 0), name);
        if (!value.id || !qf_onnx_bind(import, scope, name, value)) return QF_ERROR_VERIFY;
        qf_value_at(import->graph, value)->name = qf_intern_c(import->context, name);
    }
    if (graph->n_sparse_initializer) {
        qf_position position = {.location = import->name};
        return qf_fail(import->context, QF_ERROR_UNSUPPORTED, &position,
                       "the model has sparse initialisers; expected dense ones");
    }
    return QF_OK;
}

static qf_status import_inputs(qf_onnx_import *import, const qf_onnx_scope *scope, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_input; i++) {
        const char *name = qf_onnx_text(graph->input[i]->name);
        bool known;
        qf_value value = qf_onnx_lookup(import, scope, name, &known);
        if (known && qf_value_producer(import->graph, value).id) continue; /* an initialiser gives it its value */
        qf_type type = qf_onnx_type(import, graph->input[i]->type, name);
        if (!type.id) return QF_ERROR_VERIFY;
        value = qf_graph_add_input_value(import->graph, qf_intern_c(import->context, name), type);
        if (!value.id || !qf_onnx_bind(import, scope, name, value)) return QF_ERROR_VERIFY;
    }
    return QF_OK;
}

static qf_status import_outputs(qf_onnx_import *import, const qf_onnx_scope *scope, const Onnx__GraphProto *graph) {
    qf_value *values = QF_ARENA_NEW(&import->scratch, qf_value, graph->n_output + 1);
    qf_string *names = QF_ARENA_NEW(&import->scratch, qf_string, graph->n_output + 1);
    if (!values || !names) return QF_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = qf_onnx_text(graph->output[i]->name);
        bool known;
        values[i] = qf_onnx_lookup(import, scope, name, &known);
        if (!values[i].id) {
            qf_position position = {.location = import->name};
            return qf_fail(import->context, QF_ERROR_VERIFY, &position, "graph output '%s' is not defined by any node",
                           name);
        }
        names[i] = qf_intern_c(import->context, name);
    }
    return qf_graph_set_outputs(import->graph, values, names, (uint32_t)graph->n_output) ? QF_OK : QF_ERROR_VERIFY;
}

static qf_status check_opset(qf_onnx_import *import, const qf_onnx_scope *scope) {
    qf_position position = {.location = import->name};
    int64_t version = 0;
    for (size_t i = 0; i < scope->opset_count; i++)
        if (!*domain_of(scope->opsets[i]->domain)) version = scope->opsets[i]->version;
    if (version == 0) return QF_OK; /* only ops of other domains, or functions with imports of their own */
    if (version < OPSET_FIRST)
        return qf_fail(import->context, QF_ERROR_UNSUPPORTED, &position,
                       "opset %" PRId64 "; expected %d to %d; convert the model with onnx.version_converter", version,
                       OPSET_FIRST, OPSET_LAST);
    if (version > OPSET_LAST)
        qf_message(import->context, QF_SEVERITY_WARNING, &position,
                   "opset %" PRId64 " is newer than %d; its ops are read as those of %d", version, OPSET_LAST,
                   OPSET_LAST);
    return QF_OK;
}

static qf_status import_graph(qf_onnx_import *import) {
    const Onnx__ModelProto *model = import->model.proto;
    qf_position position = {.location = import->name};
    if (!model->graph) return qf_fail(import->context, QF_ERROR_PARSE, &position, "the model has no graph");
    qf_onnx_scope scope = {.path = "", .opsets = model->opset_import, .opset_count = model->n_opset_import};
    const Onnx__GraphProto *graph = model->graph;
    qf_status status = check_opset(import, &scope);
    if (status == QF_OK && (!index_rows(import) || !qf_onnx_index_functions(import) ||
                            !qf_onnx_add_infos(import, graph->output, graph->n_output) ||
                            !qf_onnx_add_infos(import, graph->value_info, graph->n_value_info)))
        status = QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK) status = import_initializers(import, &scope, graph);
    if (status == QF_OK) status = import_inputs(import, &scope, graph);
    if (status == QF_OK) status = qf_onnx_import_nodes(import, &scope, graph->node, graph->n_node);
    if (status == QF_OK) status = import_outputs(import, &scope, graph);
    return status;
}

static qf_status begin(qf_onnx_import *import, const void *data, uint64_t size) {
    qf_status status =
        qf_onnx_model_unpack(&import->model, import->context, import->name, data, size, import->options.max_nodes);
    if (status != QF_OK) return status;
    const Onnx__GraphProto *graph = import->model.proto->graph;
    const char *name = graph && graph->name && *graph->name ? graph->name : "main";
    status = qf_graph_create(import->context, name, &import->graph);
    if (status != QF_OK) return status;
    import->symbolic = qf_symbolic_create(import->graph);
    return import->symbolic ? import_graph(import) : QF_ERROR_OUT_OF_MEMORY;
}

/* Frees what the import needed; hands the graph out, with the storage in its care, or destroys both. */
static qf_status finish(qf_onnx_import *import, qf_status status, qf_graph **out_graph) {
    qf_context *context = import->context;
    if (status == QF_OK && !qf_graph_adopt(import->graph, import->storage, qf_onnx_storage_destroy))
        status = QF_ERROR_OUT_OF_MEMORY;
    if (import->symbolic) qf_symbolic_destroy(import->symbolic);
    if (status != QF_OK) {
        qf_graph_destroy(import->graph);
        import->graph = NULL;
        qf_onnx_storage_destroy(context, import->storage);
    }
    qf_onnx_model_destroy(&import->model);
    qf_arena_destroy(&import->scratch);
    QF_FREE_ITEMS(context, import->bindings, import->binding_capacity);
    QF_FREE_ITEMS(context, import->infos, import->info_capacity);
    qf_index_destroy(context, &import->binding_index);
    qf_index_destroy(context, &import->row_index);
    qf_index_destroy(context, &import->function_index);
    qf_index_destroy(context, &import->info_index);
    *out_graph = import->graph;
    if (status == QF_OK) return QF_OK;
    /* A failure deep inside recorded its own status; report that one rather than what the callers made of it. */
    qf_status recorded = qf_context_status(context);
    return recorded != QF_OK ? recorded : qf_record(context, status);
}

static void prepare(qf_onnx_import *import, qf_context *context, const qf_onnx_import_options *options) {
    memset(import, 0, sizeof *import);
    import->context = context;
    import->scratch.context = context;
    if (options) {
        size_t size = options->struct_size < sizeof import->options ? options->struct_size : sizeof import->options;
        memcpy(&import->options, options, size);
    }
    if (!import->options.max_bytes) import->options.max_bytes = (uint64_t)2 << 30;
    if (!import->options.max_nodes) import->options.max_nodes = 4000000;
    import->name = import->options.name ? import->options.name : "model.onnx";
    import->folders.root = import->options.external_root;
    import->folders.directory = import->options.directory;
    import->storage = qf_onnx_storage_create(context);
}

qf_status qf_onnx_import_memory(qf_context *context, const void *data, size_t size,
                                const qf_onnx_import_options *options, qf_graph **out_graph) {
    if (!context || !out_graph || (!data && size)) return QF_ERROR_INVALID_ARGUMENT;
    *out_graph = NULL;
    if (qf_context_status(context) != QF_OK) return qf_context_status(context);
    qf_onnx_import import;
    prepare(&import, context, options);
    qf_position position = {.location = import.name};
    qf_status status = import.storage ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK && size > import.options.max_bytes)
        status = qf_fail(context, QF_ERROR_LIMIT, &position, "%zu bytes; the limit is %" PRIu64, size,
                         import.options.max_bytes);
    if (status == QF_OK) status = begin(&import, data, size);
    return finish(&import, status, out_graph);
}

qf_status qf_onnx_import_file(qf_context *context, const char *path, const qf_onnx_import_options *options,
                              qf_graph **out_graph) {
    if (!context || !path || !out_graph) return QF_ERROR_INVALID_ARGUMENT;
    *out_graph = NULL;
    if (qf_context_status(context) != QF_OK) return qf_context_status(context);
    qf_onnx_import import;
    prepare(&import, context, options);
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + (slash == path) : 0;
    char *directory = qf_arena_allocate(&import.scratch, length + 2);
    qf_status status = import.storage && directory ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
    const qf_onnx_mapping *mapping = NULL;
    if (status == QF_OK) {
        memcpy(directory, slash ? path : ".", slash ? length : 1);
        import.folders.directory = directory;
        import.name = path;
        status = qf_onnx_storage_map(import.storage, path, import.options.max_bytes, path, &mapping);
    }
    if (status == QF_OK) status = begin(&import, mapping->file.data, mapping->file.size);
    return finish(&import, status, out_graph);
}
