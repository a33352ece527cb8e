/* Owns: the entry point; which function is read; its inputs and outputs.
 * Does not own: operations (operations.c).
 * Next: operations.c. */
#include "frontends/mlir/import.h"

#include <stdio.h>
#include <string.h>

#include "frontends/mlir/build.h"

static qf_status module_fault(qf_mlir_import_state *import, qf_status status, const char *format, ...) QF_PRINTF(3, 4);
static qf_status module_fault(qf_mlir_import_state *import, qf_status status, const char *format, ...) {
    va_list arguments;
    qf_position position = {.location = import->options.name};
    va_start(arguments, format);
    (void)qf_fail_list(import->context, status, &position, format, arguments);
    va_end(arguments);
    return status;
}

static qf_mlir_import_options complete_options(const qf_mlir_import_options *given) {
    qf_mlir_import_options options = {.struct_size = sizeof options};
    size_t size = given ? given->struct_size : 0;
    if (size) memcpy(&options, given, size < sizeof options ? size : sizeof options);
    options.struct_size = sizeof options;
    if (!options.name || !*options.name) options.name = "module.mlir";
    if (!options.max_nodes) options.max_nodes = 4000000;
    return options;
}

/* --- symbols --- */
static bool same_symbol(const void *owner, uint32_t id, const void *key) {
    const qf_mlir_import_state *import = owner;
    return qf_text_equal(qf_mlir_symbol_name(import->symbols[id], "sym_name"), *(const qf_text *)key);
}

MlirOperation qf_mlir_symbol(const qf_mlir_import_state *import, qf_text name) {
    uint32_t id =
        qf_index_find(&import->symbol_index, qf_hash_bytes(name.data, name.size, 1), same_symbol, import, &name);
    return id ? import->symbols[id] : (MlirOperation){NULL};
}

static qf_status index_symbols(qf_mlir_import_state *import) {
    MlirOperation operation = mlirBlockGetFirstOperation(mlirModuleGetBody(import->module));
    import->symbol_count = 1;
    for (; !mlirOperationIsNull(operation); operation = mlirOperationGetNextInBlock(operation)) {
        qf_text name = qf_mlir_symbol_name(operation, "sym_name");
        if (!name.size || !mlirOperationIsNull(qf_mlir_symbol(import, name))) continue;
        uint32_t id = import->symbol_count;
        if (!QF_GROW(import->context, import->symbols, import->symbol_capacity, (uint64_t)id + 1))
            return QF_ERROR_OUT_OF_MEMORY;
        import->symbols[id] = operation;
        import->symbol_count = id + 1;
        if (!qf_index_add(import->context, &import->symbol_index, qf_hash_bytes(name.data, name.size, 1), id))
            return QF_ERROR_OUT_OF_MEMORY;
    }
    return QF_OK;
}

static bool index_rows(qf_mlir_import_state *import) {
    uint32_t count;
    const qf_mlir_row *rows = qf_mlir_rows(&count);
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++)
        good = qf_index_add(import->context, &import->row_index, qf_hash_bytes(rows[i].name, strlen(rows[i].name), 5),
                            i + 1);
    return good;
}

/* --- the function --- */
static bool has_prefix(MlirOperation operation, const char *prefix) {
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(operation));
    return name.length > strlen(prefix) && memcmp(name.data, prefix, strlen(prefix)) == 0;
}

static qf_status no_function(qf_mlir_import_state *import) {
    MlirOperation first = mlirBlockGetFirstOperation(mlirModuleGetBody(import->module));
    if (!mlirOperationIsNull(first) && has_prefix(first, "vhlo."))
        return module_fault(import, QF_ERROR_UNSUPPORTED,
                            "the module is in VHLO, the versioned form of StableHLO; print it as generic StableHLO: "
                            "stablehlo-translate --deserialize FILE | stablehlo-opt --mlir-print-op-generic");
    return module_fault(import, QF_ERROR_NOT_FOUND, "the module has no function (func.func) with a body of one block");
}

/* main, else the first public function with a body. */
static qf_status choose_function(qf_mlir_import_state *import) {
    const char *wanted = import->options.function;
    if (wanted) {
        import->function = qf_mlir_symbol(import, qf_text_of(wanted));
        if (mlirOperationIsNull(import->function))
            return module_fault(import, QF_ERROR_NOT_FOUND, "the module has no function @%.200s", wanted);
    } else {
        import->function = qf_mlir_symbol(import, QF_TEXT("main"));
    }
    for (uint32_t i = 1; mlirOperationIsNull(import->function) && i < import->symbol_count; i++) {
        MlirOperation candidate = import->symbols[i];
        bool hidden = qf_text_is(qf_mlir_symbol_name(candidate, "sym_visibility"), "private");
        if (qf_mlir_is(candidate, "func.func") && !hidden && !mlirBlockIsNull(qf_mlir_only_block(candidate, 0)))
            import->function = candidate;
    }
    if (!qf_mlir_is(import->function, "func.func")) return no_function(import);
    if (!mlirBlockIsNull(qf_mlir_only_block(import->function, 0))) return QF_OK;
    qf_text name = qf_mlir_symbol_name(import->function, "sym_name");
    return module_fault(import, QF_ERROR_UNSUPPORTED, "@%.*s has no body, or one with branches: expected one block",
                        (int)(name.size < 200 ? name.size : 200), name.data);
}

static qf_status add_inputs(qf_mlir_import_state *import, MlirBlock block) {
    intptr_t count = mlirBlockGetNumArguments(block);
    if (count > QF_MLIR_MAX_ITEMS)
        return module_fault(import, QF_ERROR_LIMIT, "the function has more than %d arguments", QF_MLIR_MAX_ITEMS);
    for (intptr_t i = 0; i < count; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "arg%lld", (long long)i);
        MlirValue argument = mlirBlockGetArgument(block, i);
        qf_type type = qf_mlir_type(import, mlirValueGetType(argument));
        if (!type.id) return QF_ERROR_OUT_OF_MEMORY;
        qf_value input = qf_graph_add_input_value(import->graph, qf_intern_c(import->context, name), type);
        if (!input.id || !qf_mlir_bind(import, argument, 0, 0, input)) return QF_ERROR_OUT_OF_MEMORY;
    }
    return QF_OK;
}

static qf_status set_outputs(qf_mlir_import_state *import, MlirOperation terminator) {
    intptr_t count = mlirOperationIsNull(terminator) ? 0 : mlirOperationGetNumOperands(terminator);
    if (count > QF_MLIR_MAX_ITEMS)
        return module_fault(import, QF_ERROR_LIMIT, "the function has more than %d results", QF_MLIR_MAX_ITEMS);
    qf_value *outputs = QF_ARENA_NEW(&import->scratch, qf_value, (uint64_t)count + 1);
    if (!outputs) return QF_ERROR_OUT_OF_MEMORY;
    for (intptr_t i = 0; i < count; i++) {
        outputs[i] = qf_mlir_read(import, mlirOperationGetOperand(terminator, i), 0);
        if (!outputs[i].id)
            return module_fault(import, QF_ERROR_UNSUPPORTED, "result %lld is a value that QFuse does not compute",
                                (long long)i);
    }
    return qf_graph_set_outputs(import->graph, outputs, NULL, (uint32_t)count) ? QF_OK
                                                                               : qf_context_status(import->context);
}

static qf_status import_function(qf_mlir_import_state *import) {
    MlirBlock block = qf_mlir_only_block(import->function, import->region);
    qf_text name = qf_mlir_symbol_name(import->function, "sym_name");
    if (!name.size) name = QF_TEXT("region");
    qf_status status = qf_graph_create(import->context, "main", &import->graph);
    if (status != QF_OK) return status;
    import->graph->name = qf_intern(import->context, name);
    import->symbolic = qf_symbolic_create(import->graph);
    if (!import->symbolic || !import->graph->name.id) return QF_ERROR_OUT_OF_MEMORY;
    if (!QF_GROW(import->context, import->instances, import->instance_capacity, 1)) return QF_ERROR_OUT_OF_MEMORY;
    import->instances[import->instance_count++] = (qf_mlir_instance){.call = import->function};
    MlirOperation terminator = {NULL};
    status = add_inputs(import, block);
    if (status == QF_OK) status = qf_mlir_import_block(import, block, 0, 0, &terminator);
    if (status == QF_OK) status = set_outputs(import, terminator);
    return status == QF_OK ? qf_graph_verify(import->graph) : status;
}

qf_status qf_mlir_import_begin(qf_mlir_import_state *import, qf_context *context, MlirModule module,
                               const qf_mlir_import_options *options, qf_mlir_scope scope) {
    *import = (qf_mlir_import_state){.context = context,
                                     .scratch = {.context = context},
                                     .module = module,
                                     .options = complete_options(options),
                                     .function = scope.operation,
                                     .region = scope.region,
                                     .keep_loops = scope.keep_loops};
    if (context->build != QF_BUILD)
        return qf_fail(context, QF_ERROR_VERSION, NULL,
                       "libqfuse-mlir is of another release than the library that made the context");
    qf_status status = index_rows(import) ? index_symbols(import) : QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK && mlirOperationIsNull(scope.operation)) status = choose_function(import);
    return status == QF_OK ? import_function(import) : status;
}

void qf_mlir_import_destroy(qf_mlir_import_state *import) {
    qf_context *context = import->context;
    qf_index *indices[] = {&import->symbol_index, &import->binding_index, &import->place_index,
                           &import->type_index,   &import->row_index,     &import->warned_index};
    for (size_t i = 0; i < QF_COUNT_OF(indices); i++) qf_index_destroy(context, indices[i]);
    QF_FREE_ITEMS(context, import->symbols, import->symbol_capacity);
    QF_FREE_ITEMS(context, import->instances, import->instance_capacity);
    QF_FREE_ITEMS(context, import->bindings, import->binding_capacity);
    QF_FREE_ITEMS(context, import->places, import->place_capacity);
    QF_FREE_ITEMS(context, import->types, import->type_capacity);
    QF_FREE_ITEMS(context, import->warned, import->warned_capacity);
    qf_symbolic_destroy(import->symbolic);
    import->symbolic = NULL;
    qf_arena_destroy(&import->scratch);
}

qf_status qf_mlir_import(qf_context *context, MlirModule module, const qf_mlir_import_options *options,
                         qf_graph **out_graph) {
    *out_graph = NULL;
    if (!context || mlirModuleIsNull(module)) return QF_ERROR_INVALID_ARGUMENT;
    if (qf_context_status(context) != QF_OK) return qf_context_status(context);
    qf_mlir_import_state import;
    qf_status status = qf_mlir_import_begin(&import, context, module, options, (qf_mlir_scope){{NULL}, 0, false});
    qf_mlir_import_destroy(&import);
    if (status == QF_OK) {
        *out_graph = import.graph;
        return QF_OK;
    }
    qf_graph_destroy(import.graph);
    /* A failure deep inside recorded its own status; report that one rather than what the callers made of it. */
    qf_status recorded = qf_context_status(context);
    return recorded != QF_OK ? recorded : qf_record(context, status);
}
