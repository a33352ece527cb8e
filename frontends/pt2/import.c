/* Owns: the entry points; the program's signature: inputs, outputs, buffers that it writes.
 * Does not own: nodes (nodes.c), weights (weights.c).
 * Next: nodes.c. */
#include "frontends/pt2/import.h"

#include <string.h>

#include "frontends/pt2/build.h"

#define SCHEMA_MAJOR 8

static qf_status program_fault(qf_pt2_import *import, qf_status status, const char *what) {
    qf_position position = {.location = import->name};
    return qf_fail(import->context, status, &position, "%s", what);
}

/* --- the document --- */
/* "<folder>/models/<name>.json": the folder with its slash, and the name. False: another entry. */
static bool split_program_name(const char *entry, qf_text *out_folder, qf_text *out_name) {
    static const char models[] = "models/", tail[] = ".json";
    const char *slash = strrchr(entry, '/');
    size_t size = strlen(entry), folder = slash ? (size_t)(slash - entry) + 1 : 0;
    if (folder < sizeof models - 1 || size < folder + sizeof tail || strcmp(entry + size - sizeof tail + 1, tail) != 0)
        return false;
    const char *at = entry + folder - (sizeof models - 1);
    if (memcmp(at, models, sizeof models - 1) != 0 || (at > entry && at[-1] != '/')) return false;
    *out_folder = (qf_text){entry, (size_t)(at - entry)};
    *out_name = (qf_text){entry + folder, size - folder - (sizeof tail - 1)};
    return true;
}

static const char *copy_text(qf_pt2_import *import, qf_text text) {
    char *copy = qf_arena_allocate(&import->scratch, text.size + 1);
    if (copy) memcpy(copy, text.data, text.size);
    return copy;
}

/* The program called "model", else the first one. NULL: none, or memory ran out. */
static const qf_pt2_entry *find_program(qf_pt2_import *import) {
    const qf_pt2_entry *found = NULL;
    qf_text folder, name, first_folder = {0}, first_name = {0};
    for (uint32_t i = 1; i < import->archive.entry_count; i++) {
        const qf_pt2_entry *entry = &import->archive.entries[i];
        if (!split_program_name(entry->name, &folder, &name)) continue;
        bool usual = qf_text_is(name, "model");
        if (found && !usual) continue;
        found = entry;
        first_folder = folder;
        first_name = name;
        if (usual) break;
    }
    if (!found) return NULL;
    import->folder = copy_text(import, first_folder);
    import->model = copy_text(import, first_name);
    return import->folder && import->model ? found : NULL;
}

static qf_status check_version(qf_pt2_import *import) {
    qf_position position = {.location = import->name};
    const json_t *version = qf_pt2_get(import->program, "schema_version");
    const json_t *major = qf_pt2_get(version, "major");
    if (!json_is_integer(major))
        return qf_fail(import->context, QF_ERROR_VERSION, &position, "expected a schema version, found none");
    if (json_integer_value(major) != SCHEMA_MAJOR)
        return qf_fail(import->context, QF_ERROR_VERSION, &position,
                       "export schema %lld; expected %d: export the program with a torch release of that schema",
                       (long long)json_integer_value(major), SCHEMA_MAJOR);
    return QF_OK;
}

static bool is_big_endian(qf_pt2_import *import) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%.900sbyteorder", import->folder);
    const qf_pt2_entry *entry = qf_pt2_archive_find(&import->archive, path);
    const uint8_t *data;
    return entry && entry->size == 3 &&
           qf_pt2_archive_read(&import->archive, entry, 16, &import->scratch, &data) == QF_OK &&
           memcmp(data, "big", 3) == 0;
}

static qf_status read_program(qf_pt2_import *import) {
    const qf_pt2_entry *entry = find_program(import);
    if (!entry)
        return program_fault(
            import, QF_ERROR_PARSE,
            "the archive has no models/*.json: expected what torch.export.save writes since torch 2.8");
    if (is_big_endian(import)) return program_fault(import, QF_ERROR_UNSUPPORTED, "its weights are big-endian");
    const uint8_t *data;
    qf_status status = qf_pt2_archive_read(&import->archive, entry, import->options.max_json, &import->scratch, &data);
    if (status != QF_OK) return status;
    import->program = qf_pt2_json_parse(import->context, entry->name, data, entry->size);
    if (!import->program) return qf_context_status(import->context);
    status = check_version(import);
    return status == QF_OK ? qf_pt2_index_weights(import) : status;
}

/* --- the signature --- */
static const json_t *graph_of(const qf_pt2_import *import) {
    return qf_pt2_get(qf_pt2_get(import->program, "graph_module"), "graph");
}

static const json_t *signature_of(const qf_pt2_import *import) {
    return qf_pt2_get(qf_pt2_get(import->program, "graph_module"), "signature");
}

static const char *foreign_name(const json_t *spec) {
    static const char *const keys[] = {"parameter_name", "buffer_name", "tensor_constant_name", "user_input_name"};
    for (size_t i = 0; i < QF_COUNT_OF(keys); i++)
        if (json_is_string(qf_pt2_get(spec, keys[i]))) return json_string_value(qf_pt2_get(spec, keys[i]));
    return "";
}

static const char *argument_name(const json_t *spec) {
    return qf_pt2_name_of(qf_pt2_get(spec, "arg"));
}

static qf_status read_sources(qf_pt2_import *import) {
    const json_t *specs = qf_pt2_get(signature_of(import), "input_specs");
    size_t count = json_array_size(specs);
    import->sources = QF_ARENA_NEW(&import->scratch, qf_pt2_source, count + 1);
    if (!import->sources) return QF_ERROR_OUT_OF_MEMORY;
    import->source_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const char *kind = "";
        const json_t *spec = qf_pt2_union(json_array_get(specs, i), &kind);
        import->sources[i] = (qf_pt2_source){.kind = kind, .name = argument_name(spec), .foreign = foreign_name(spec)};
    }
    return QF_OK;
}

/* Buffers that the signature lists as written; those written in place are found on the way. */
static void mark_mutations(qf_pt2_import *import) {
    const json_t *specs = qf_pt2_get(signature_of(import), "output_specs");
    for (size_t i = 0; i < json_array_size(specs); i++) {
        const char *kind = "";
        const json_t *spec = qf_pt2_union(json_array_get(specs, i), &kind);
        const char *name = foreign_name(spec);
        if (strcmp(kind, "buffer_mutation") != 0) continue;
        for (uint32_t s = 0; s < import->source_count; s++)
            if (*name && strcmp(import->sources[s].foreign, name) == 0) import->sources[s].written = true;
    }
}

static qf_status bind_source(qf_pt2_import *import, const qf_pt2_scope *scope, uint32_t index) {
    qf_pt2_source *source = &import->sources[index];
    if (!*source->name) { /* a number or a string, fixed at export */
        return QF_OK;
    }
    const json_t *meta = qf_pt2_get(qf_pt2_get(scope->graph, "tensor_values"), source->name);
    qf_value value = qf_pt2_source_value(import, source, meta);
    source->tensor = qf_pt2_tensor_new(import, value);
    if (!source->tensor) return QF_ERROR_VERIFY;
    import->tensors[source->tensor].source = index + 1;
    import->tensors[source->tensor].complex = qf_pt2_meta_is_complex(meta);
    import->has_complex |= qf_pt2_meta_is_complex(meta);
    return qf_pt2_bind(import, scope, source->name, source->tensor, (qf_dim){0}) ? QF_OK : QF_ERROR_VERIFY;
}

/* The program's own inputs first, then buffers that it writes; weights where they come. */
static qf_status bind_sources(qf_pt2_import *import, const qf_pt2_scope *scope) {
    qf_status status = QF_OK;
    for (uint32_t written = 0; written < 2; written++)
        for (uint32_t i = 0; status == QF_OK && i < import->source_count; i++)
            if ((import->sources[i].written && *import->sources[i].foreign) == (written == 1))
                status = bind_source(import, scope, i);
    return status;
}

/* Inputs that are symbolic integers. */
static qf_status bind_numbers(qf_pt2_import *import, const qf_pt2_scope *scope) {
    const json_t *inputs = qf_pt2_get(scope->graph, "inputs"), *values = qf_pt2_get(scope->graph, "sym_int_values");
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const char *name = qf_pt2_text(qf_pt2_get(qf_pt2_get(json_array_get(inputs, i), "as_sym_int"), "as_name"));
        if (!*name) continue;
        qf_dim dim = qf_pt2_size(import, qf_pt2_get(values, name));
        if (!dim.id || !qf_pt2_bind(import, scope, name, 0, dim)) return QF_ERROR_VERIFY;
    }
    return QF_OK;
}

/* --- outputs --- */
typedef struct output_list {
    qf_value *values;
    qf_string *names;
    uint32_t count;
} output_list;

static qf_status add_output(qf_pt2_call *call, output_list *list, const char *name, uint32_t tensor) {
    list->values[list->count] = qf_pt2_read(call, tensor);
    list->names[list->count] = qf_intern_c(call->import->context, name);
    if (!list->values[list->count].id || !list->names[list->count].id) return QF_ERROR_VERIFY;
    list->count++;
    return QF_OK;
}

static qf_status undefined_output(qf_pt2_import *import, const char *name) {
    qf_position position = {.location = import->name};
    return qf_fail(import->context, QF_ERROR_VERIFY, &position, "output '%s' is not defined by any node", name);
}

static const char *public_name(const qf_pt2_source *source) {
    return *source->foreign ? source->foreign : source->name;
}

/* What a mutation of the signature gives is the buffer's new value. */
static qf_status apply_mutation(qf_pt2_call *call, const char *buffer, uint32_t tensor) {
    qf_pt2_import *import = call->import;
    for (uint32_t i = 0; i < import->source_count; i++)
        if (strcmp(public_name(&import->sources[i]), buffer) == 0 && import->sources[i].tensor)
            return qf_pt2_write(call, import->sources[i].tensor, qf_pt2_read(call, tensor)) ? QF_OK : QF_ERROR_VERIFY;
    return undefined_output(import, buffer);
}

static qf_status add_spec(qf_pt2_call *call, const qf_pt2_scope *scope, const json_t *holder, output_list *list) {
    const char *kind = "";
    const json_t *spec = qf_pt2_union(holder, &kind);
    const json_t *argument = qf_pt2_get(spec, "arg");
    const char *name = qf_pt2_name_of(argument);
    const qf_pt2_binding *binding = *name ? qf_pt2_lookup(call->import, scope, name) : NULL;
    if (!*name) {
        const char *number = qf_pt2_text(qf_pt2_get(qf_pt2_get(argument, "as_sym_int"), "as_name"));
        binding = *number ? qf_pt2_lookup(call->import, scope, number) : NULL;
        if (!binding || binding->tensor) return QF_OK; /* a number fixed at export */
        uint32_t made = qf_pt2_tensor_new(call->import, qf_pt2_symbolic(call, binding->dim));
        return made ? add_output(call, list, number, made) : QF_ERROR_VERIFY;
    }
    if (!binding || !binding->tensor) return undefined_output(call->import, name);
    if (strcmp(kind, "buffer_mutation") == 0 || strcmp(kind, "user_input_mutation") == 0)
        return apply_mutation(call, foreign_name(spec), binding->tensor);
    return add_output(call, list, name, binding->tensor);
}

/* The caches as the program leaves them, under the names of the inputs that they came from. */
static qf_status add_caches(qf_pt2_call *call, output_list *list, const qf_pt2_layer *layer) {
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < 2; i++)
        status = add_output(call, list, qf_string_c(call->import->context, layer->names[i]), layer->caches[i]);
    return status;
}

static qf_status set_outputs(qf_pt2_import *import, const qf_pt2_scope *scope) {
    const json_t *specs = qf_pt2_get(signature_of(import), "output_specs");
    uint64_t most = json_array_size(specs) + (uint64_t)import->source_count + 2 * (uint64_t)import->layer_count + 1;
    output_list list = {QF_ARENA_NEW(&import->scratch, qf_value, most), QF_ARENA_NEW(&import->scratch, qf_string, most),
                        0};
    if (!list.values || !list.names) return QF_ERROR_OUT_OF_MEMORY;
    qf_pt2_call call = {.import = import, .scope = scope, .target = "output", .where = import->name};
    qf_status status = QF_OK;
    for (size_t i = 0; status == QF_OK && i < json_array_size(specs); i++)
        status = add_spec(&call, scope, json_array_get(specs, i), &list);
    for (uint32_t i = 0; status == QF_OK && i < import->source_count; i++)
        if (import->sources[i].written && import->sources[i].tensor)
            status = add_output(&call, &list, public_name(&import->sources[i]), import->sources[i].tensor);
    for (uint32_t i = 0; status == QF_OK && i < import->layer_count; i++)
        status = add_caches(&call, &list, &import->layers[i]);
    if (status != QF_OK) return status;
    return qf_graph_set_outputs(import->graph, list.values, list.names, list.count) ? QF_OK : QF_ERROR_VERIFY;
}

/* --- the whole --- */
static bool index_rows(qf_pt2_import *import) {
    uint32_t count;
    const qf_pt2_row *rows = qf_pt2_rows(&count);
    for (uint32_t i = 0; i < count; i++)
        if (!qf_index_add(import->context, &import->row_index, qf_hash_bytes(rows[i].target, strlen(rows[i].target), 5),
                          i + 1))
            return false;
    return qf_pt2_index_customs(import);
}

static void forget_graph(qf_pt2_import *import) {
    if (import->symbolic) qf_symbolic_destroy(import->symbolic);
    qf_graph_destroy(import->graph);
    import->symbolic = NULL;
    import->graph = NULL;
    import->tensor_count = import->binding_count = import->scope_count = 0;
    import->node_count = 0;
    import->warning_count = 0;
    import->layer_count = 0;
    import->paging = (qf_pt2_paging){0};
    import->has_complex = false;
    qf_index_destroy(import->context, &import->binding_index);
    memset(&import->binding_index, 0, sizeof import->binding_index);
}

static qf_status import_once(qf_pt2_import *import) {
    qf_pt2_scope scope = {.graph = graph_of(import)};
    qf_status status = qf_graph_create(import->context, "main", &import->graph);
    if (status != QF_OK) return status;
    import->symbolic = qf_symbolic_create(import->graph);
    if (!import->symbolic || !qf_pt2_add_ranges(import)) return QF_ERROR_OUT_OF_MEMORY;
    status = bind_sources(import, &scope);
    if (status == QF_OK) status = bind_numbers(import, &scope);
    if (status == QF_OK && !qf_pt2_add_guards(import, &scope)) status = QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK) status = qf_pt2_import_nodes(import, &scope);
    if (status == QF_OK) status = set_outputs(import, &scope);
    return status;
}

static qf_status begin(qf_pt2_import *import) {
    qf_status status = qf_pt2_archive_open(&import->archive);
    if (status == QF_OK) status = read_program(import);
    if (status != QF_OK) return status;
    if (!json_is_object(graph_of(import))) return program_fault(import, QF_ERROR_PARSE, "the program has no graph");
    if (!index_rows(import)) return QF_ERROR_OUT_OF_MEMORY;
    status = read_sources(import);
    if (status != QF_OK) return status;
    mark_mutations(import);
    status = import_once(import);
    if (status != QF_OK || !import->again) return status;
    forget_graph(import);
    return import_once(import);
}

/* Frees what the import needed; hands the graph out, with the storage in its care, or destroys both. */
static qf_status finish(qf_pt2_import *import, qf_status status, qf_graph **out_graph) {
    qf_context *context = import->context;
    qf_pt2_archive_close(&import->archive);
    if (status == QF_OK && !qf_graph_adopt(import->graph, import->storage, qf_pt2_storage_destroy))
        status = QF_ERROR_OUT_OF_MEMORY;
    if (import->symbolic) qf_symbolic_destroy(import->symbolic);
    if (status != QF_OK) {
        qf_graph_destroy(import->graph);
        import->graph = NULL;
        qf_pt2_storage_destroy(context, import->storage);
    }
    json_decref(import->program);
    json_decref(import->configs[0]);
    json_decref(import->configs[1]);
    QF_FREE_ITEMS(context, import->weights, import->weight_capacity);
    QF_FREE_ITEMS(context, import->tensors, import->tensor_capacity);
    QF_FREE_ITEMS(context, import->bindings, import->binding_capacity);
    QF_FREE_ITEMS(context, import->customs, import->custom_capacity);
    QF_FREE_ITEMS(context, import->layers, import->layer_capacity);
    qf_index_destroy(context, &import->weight_index);
    qf_index_destroy(context, &import->binding_index);
    qf_index_destroy(context, &import->row_index);
    qf_index_destroy(context, &import->custom_index);
    qf_arena_destroy(&import->scratch);
    *out_graph = import->graph;
    if (status == QF_OK) return QF_OK;
    /* A failure deep inside recorded its own status; report that one rather than what the callers made of it. */
    qf_status recorded = qf_context_status(context);
    return recorded != QF_OK ? recorded : qf_record(context, status);
}

static qf_status prepare(qf_pt2_import *import, qf_context *context, const qf_pt2_import_options *options,
                         const char *name) {
    memset(import, 0, sizeof *import);
    import->context = context;
    import->scratch.context = context;
    if (options) {
        size_t size = options->struct_size < sizeof import->options ? options->struct_size : sizeof import->options;
        memcpy(&import->options, options, size);
    }
    if (!import->options.max_bytes) import->options.max_bytes = (uint64_t)1 << 40;
    if (!import->options.max_json) import->options.max_json = (uint64_t)1 << 30;
    if (!import->options.max_nodes) import->options.max_nodes = 4000000;
    import->name = name ? name : import->options.name ? import->options.name : "model.pt2";
    qf_dtype cache = QF_DTYPE_NONE;
    if (import->options.kv_cache && qf_dtype_from_cache_string(import->options.kv_cache, &cache) != QF_OK)
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "kv_cache: expected \"auto\" or an element type of a cache, such as \"fp8_e4m3\", found \"%s\"",
                       import->options.kv_cache);
    if (cache && !qf_dtype_is_float(cache))
        return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL, "kv_cache: caches of %s are not supported",
                       qf_dtype_name(cache));
    import->cache_dtype = cache;
    import->storage = qf_pt2_storage_create(context);
    import->archive = (qf_pt2_archive){.storage = import->storage, .name = import->name, .scratch = &import->scratch};
    return import->storage ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status qf_pt2_import_memory(qf_context *context, const void *data, size_t size, const qf_pt2_import_options *options,
                               qf_graph **out_graph) {
    if (!context || !out_graph || (!data && size)) return QF_ERROR_INVALID_ARGUMENT;
    *out_graph = NULL;
    if (qf_context_status(context) != QF_OK) return qf_context_status(context);
    qf_pt2_import import;
    qf_status status = prepare(&import, context, options, NULL);
    qf_position position = {.location = import.name};
    if (status == QF_OK && size > import.options.max_bytes)
        status = qf_fail(context, QF_ERROR_LIMIT, &position, "%zu bytes; the limit is %llu", size,
                         (unsigned long long)import.options.max_bytes);
    if (status == QF_OK) {
        import.storage->data = data;
        import.storage->size = size;
        status = begin(&import);
    }
    return finish(&import, status, out_graph);
}

qf_status qf_pt2_import_file(qf_context *context, const char *path, const qf_pt2_import_options *options,
                             qf_graph **out_graph) {
    if (!context || !path || !out_graph) return QF_ERROR_INVALID_ARGUMENT;
    *out_graph = NULL;
    if (qf_context_status(context) != QF_OK) return qf_context_status(context);
    qf_pt2_import import;
    qf_status status = prepare(&import, context, options, path);
    if (status == QF_OK) status = qf_pt2_storage_map(import.storage, path, import.options.max_bytes);
    if (status == QF_OK) status = begin(&import);
    return finish(&import, status, out_graph);
}
