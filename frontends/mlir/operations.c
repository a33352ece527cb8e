/* Owns: importing the operations of a block: finding the mapping, binding results, checking types.
 * Does not own: the whole function (import.c), calls (calls.c), the mappings (map_*.c).
 * Next: table.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/mlir/build.h"

qf_mlir_outcome qf_mlir_fault(qf_mlir_call *call, qf_status status, const char *format, ...) {
    va_list arguments;
    qf_position position = {.location = call->where};
    call->import->failed = true;
    va_start(arguments, format);
    (void)qf_fail_list(call->import->context, status, &position, format, arguments);
    va_end(arguments);
    return QF_MLIR_FAILED;
}

MlirBlock qf_mlir_only_block(MlirOperation operation, intptr_t region) {
    MlirBlock none = {NULL};
    if (region >= mlirOperationGetNumRegions(operation)) return none;
    MlirBlock first = mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, region));
    if (mlirBlockIsNull(first) || !mlirBlockIsNull(mlirBlockGetNextInRegion(first))) return none;
    return first;
}

/* --- what was bound to what --- */
typedef struct binding_key {
    const void *value;
    uint32_t instance;
} binding_key;

static bool same_binding(const void *owner, uint32_t id, const void *key) {
    const qf_mlir_binding *binding = &((const qf_mlir_import_state *)owner)->bindings[id];
    const binding_key *wanted = key;
    return binding->value.ptr == wanted->value && binding->instance == wanted->instance;
}

static uint64_t binding_hash(const binding_key *key) {
    return qf_hash_mix(qf_hash_mix(0xb17d, (uint64_t)(uintptr_t)key->value), key->instance);
}

qf_value qf_mlir_lookup(const qf_mlir_import_state *import, MlirValue value, uint32_t instance) {
    for (;; instance = import->instances[instance].parent) {
        binding_key key = {value.ptr, instance};
        uint32_t id = qf_index_find(&import->binding_index, binding_hash(&key), same_binding, import, &key);
        if (id) return import->bindings[id].id;
        if (!import->instances[instance].captures) return (qf_value){0};
    }
}

bool qf_mlir_bind(qf_mlir_import_state *import, MlirValue value, uint32_t instance, uint32_t position, qf_value id) {
    binding_key key = {value.ptr, instance};
    uint32_t next = import->binding_count ? import->binding_count : 1;
    if (!QF_GROW(import->context, import->bindings, import->binding_capacity, (uint64_t)next + 1)) return false;
    import->bindings[next] = (qf_mlir_binding){value, instance, position, id};
    import->binding_count = next + 1;
    return qf_index_add(import->context, &import->binding_index, binding_hash(&key), next);
}

/* Whether the value is made in the block, or in a region below it. */
static bool is_inside(MlirBlock block, MlirValue value) {
    MlirBlock at = mlirValueIsABlockArgument(value) ? mlirBlockArgumentGetOwner(value)
                                                    : mlirOperationGetBlock(mlirOpResultGetOwner(value));
    while (!mlirBlockIsNull(at)) {
        if (mlirBlockEqual(at, block)) return true;
        MlirOperation parent = mlirBlockGetParentOperation(at);
        at = mlirOperationIsNull(parent) ? (MlirBlock){NULL} : mlirOperationGetBlock(parent);
    }
    return false;
}

static qf_status import_operation(qf_mlir_import_state *import, MlirOperation operation, uint32_t instance,
                                  uint32_t depth, uint32_t position);

static bool is_constant(MlirOperation operation) {
    return qf_mlir_is(operation, "stablehlo.constant") || qf_mlir_is(operation, "mhlo.constant") ||
           qf_mlir_is(operation, "arith.constant");
}

qf_value qf_mlir_read(qf_mlir_import_state *import, MlirValue value, uint32_t instance) {
    qf_value known = qf_mlir_lookup(import, value, instance);
    char name[32];
    if (known.id || instance || is_inside(qf_mlir_only_block(import->function, import->region), value)) return known;
    if (mlirValueIsAOpResult(value) && is_constant(mlirOpResultGetOwner(value)))
        return import_operation(import, mlirOpResultGetOwner(value), 0, 0, 0) == QF_OK
                   ? qf_mlir_lookup(import, value, 0)
                   : known;
    qf_type type = qf_mlir_type(import, mlirValueGetType(value));
    (void)snprintf(name, sizeof name, "around%u", import->graph->input_count);
    qf_string interned = qf_intern_c(import->context, name);
    if (!type.id || !interned.id) return known;
    qf_value input = qf_graph_add_input_value(import->graph, interned, type);
    return input.id && qf_mlir_bind(import, value, 0, 0, input) ? input : known;
}

/* --- results --- */
/* The module is not verified where dialects are not registered, so declared types are checked against inferred ones. */
static bool check_type(qf_mlir_call *call, uint32_t index, qf_value value) {
    const qf_context *context = call->import->context;
    qf_type declared = qf_mlir_result_type(call, index), found = qf_value_type(qf_mlir_graph(call), value);
    if (!declared.id) return false;
    qf_dtype wanted = qf_type_dtype(context, declared), given = qf_type_dtype(context, found);
    bool fits = wanted == QF_DTYPE_NONE || given == QF_DTYPE_NONE || wanted == given;
    if (fits && qf_type_is_ranked(context, declared) && qf_type_is_ranked(context, found)) {
        uint32_t rank = qf_type_rank(context, declared);
        fits = rank == qf_type_rank(context, found);
        for (uint32_t i = 0; fits && i < rank; i++) {
            int64_t a, b;
            bool known = qf_dim_is_constant(context, qf_type_dims(context, declared)[i], &a) &&
                         qf_dim_is_constant(context, qf_type_dims(context, found)[i], &b);
            fits = !known || a == b;
        }
    }
    if (fits) return true;
    qf_buffer text = {.context = call->import->context};
    qf_buffer_print(&text, "%s: its result is declared as ", call->name);
    qf_type_print(&text, context, declared);
    qf_buffer_print(&text, ", and its operands give ");
    qf_type_print(&text, context, found);
    (void)qf_mlir_fault(call, QF_ERROR_VERIFY, "%s", text.data ? text.data : call->name);
    qf_buffer_destroy(&text);
    return false;
}

static bool bind_results(qf_mlir_call *call) {
    for (uint32_t i = 0; i < call->result_count; i++) {
        if (!call->results[i].id) continue; /* not given by the mapping: whoever reads it fails */
        if (!check_type(call, i, call->results[i])) return false;
        MlirValue result = mlirOperationGetResult(call->operation, i);
        if (!qf_mlir_bind(call->import, result, call->instance, call->position, call->results[i])) return false;
    }
    return true;
}

/* --- operands --- */
static bool read_operands(qf_mlir_call *call) {
    intptr_t operands = mlirOperationGetNumOperands(call->operation);
    intptr_t results = mlirOperationGetNumResults(call->operation);
    if (operands > QF_MLIR_MAX_ITEMS || results > QF_MLIR_MAX_ITEMS) {
        (void)qf_mlir_fault(call, QF_ERROR_LIMIT, "%s has more than %d operands or results", call->name,
                            QF_MLIR_MAX_ITEMS);
        return false;
    }
    call->operand_count = (uint32_t)operands;
    call->result_count = (uint32_t)results;
    call->operands = QF_ARENA_NEW(&call->import->scratch, qf_value, call->operand_count + 1);
    call->results = QF_ARENA_NEW(&call->import->scratch, qf_value, call->result_count + 1);
    if (!call->operands || !call->results) return false;
    for (uint32_t i = 0; i < call->operand_count; i++) {
        MlirValue operand = mlirOperationGetOperand(call->operation, i);
        call->operands[i] = qf_mlir_read(call->import, operand, call->instance);
        if (call->operands[i].id) continue;
        (void)qf_mlir_fault(call, QF_ERROR_UNSUPPORTED,
                            "operand %u of %s is a value that QFuse does not compute: an unusual result of another "
                            "operation",
                            i, call->name);
        return false;
    }
    return true;
}

/* --- finding the mapping --- */
static bool same_row(const void *owner, uint32_t id, const void *key) {
    uint32_t count;
    (void)owner;
    return strcmp(qf_mlir_rows(&count)[id - 1].name, key) == 0;
}

static const qf_mlir_row *find_row(const qf_mlir_import_state *import, const char *name) {
    uint32_t count;
    char alias[96];
    if (strncmp(name, "mhlo.", 5) == 0) { /* the same operations under an older name */
        (void)snprintf(alias, sizeof alias, "stablehlo.%.80s", name + 5);
        name = alias;
    }
    if (strncmp(name, "qfuse.", 6) == 0) name = "qfuse.*";
    uint32_t id = qf_index_find(&import->row_index, qf_hash_bytes(name, strlen(name), 5), same_row, NULL, name);
    return id ? &qf_mlir_rows(&count)[id - 1] : NULL;
}

static bool same_name(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const qf_mlir_import_state *)owner)->warned[id], key) == 0;
}

/* Once for each reason and kind of operation. */
static bool warn(qf_mlir_call *call) {
    qf_mlir_import_state *import = call->import;
    char text[512];
    (void)snprintf(text, sizeof text, "%.160s is carried through as it is: %.300s", call->name, call->reason);
    uint64_t hash = qf_hash_bytes(text, strlen(text), 7);
    if (qf_index_find(&import->warned_index, hash, same_name, import, text)) return true;
    uint32_t id = import->warned_count ? import->warned_count : 1;
    if (!QF_GROW(import->context, import->warned, import->warned_capacity, (uint64_t)id + 1)) return false;
    import->warned[id] = qf_arena_copy(&import->scratch, text, strlen(text) + 1);
    if (!import->warned[id] || !qf_index_add(import->context, &import->warned_index, hash, id)) return false;
    import->warned_count = id + 1;
    qf_position position = {.location = call->where};
    qf_message(import->context, QF_SEVERITY_WARNING, &position, "%s", text);
    return true;
}

static qf_mlir_outcome map_operation(qf_mlir_call *call) {
    call->row = find_row(call->import, call->name);
    if (!call->row) return qf_mlir_decline(call, "the importer does not know this operation");
    if (call->row->operands != QF_MLIR_ANY && call->row->operands != call->operand_count)
        return qf_mlir_decline(call, "it has another number of operands than the importer knows");
    if (call->row->operands != QF_MLIR_ANY && call->result_count != 1)
        return qf_mlir_decline(call, "it has another number of results than the importer knows");
    return call->row->map(call);
}

/* --- operations --- */
static qf_status status_of(qf_mlir_call *call) {
    qf_status recorded = qf_context_status(call->import->context);
    if (recorded == QF_OK)
        (void)qf_mlir_fault(call, QF_ERROR_VERIFY, "%s cannot be read: its shapes or attributes do not fit it",
                            call->name);
    return qf_context_status(call->import->context);
}

static qf_status import_operation(qf_mlir_import_state *import, MlirOperation operation, uint32_t instance,
                                  uint32_t depth, uint32_t position) {
    qf_text text = qf_mlir_name(operation);
    qf_mlir_call call = {.import = import,
                         .instance = instance,
                         .depth = depth,
                         .position = position,
                         .operation = operation,
                         .where = import->options.name};
    qf_string name = qf_intern(import->context, text);
    if (!name.id) return QF_ERROR_OUT_OF_MEMORY;
    call.name = qf_string_c(import->context, name);
    if (!qf_mlir_locate(import, operation, call.name, &call.location, &call.where)) return QF_ERROR_OUT_OF_MEMORY;
    if (++import->node_count > import->options.max_nodes)
        return (void)qf_mlir_fault(&call, QF_ERROR_LIMIT, "more than %llu operations",
                                   (unsigned long long)import->options.max_nodes),
               QF_ERROR_LIMIT;
    if (strncmp(call.name, "stablehlo.", 10) == 0) import->uses_stablehlo = true;
    if (!read_operands(&call)) return status_of(&call);
    qf_mlir_outcome outcome = map_operation(&call);
    if (outcome == QF_MLIR_FAILED || import->failed) return status_of(&call);
    if (outcome == QF_MLIR_DECLINED) {
        if (!warn(&call)) return QF_ERROR_OUT_OF_MEMORY;
        memset(call.results, 0, call.result_count * sizeof *call.results);
        qf_status status = qf_mlir_import_opaque(&call);
        if (status != QF_OK) return status_of(&call);
    }
    return bind_results(&call) ? QF_OK : status_of(&call);
}

qf_status qf_mlir_import_block(qf_mlir_import_state *import, MlirBlock block, uint32_t instance, uint32_t depth,
                               MlirOperation *out_terminator) {
    qf_status status = QF_OK;
    uint32_t position = 0;
    MlirOperation operation = mlirBlockGetFirstOperation(block), next;
    *out_terminator = (MlirOperation){NULL};
    for (; status == QF_OK && !mlirOperationIsNull(operation); operation = next) {
        next = mlirOperationGetNextInBlock(operation);
        if (mlirOperationIsNull(next)) {
            *out_terminator = operation;
            break;
        }
        status = import_operation(import, operation, instance, depth, ++position);
    }
    return status;
}
