/* Owns: operations that are carried through as they are.
 * Does not own: the operations that have a mapping (operations.c).
 * Next: operations.c. */
#include <string.h>

#include "frontends/mlir/build.h"

typedef struct operand_list {
    qf_mlir_call *call;
    qf_value *items;
    uint32_t count, capacity;
    bool failed;
} operand_list;

static void add_operand(operand_list *list, qf_value value) {
    if (!QF_GROW(list->call->import->context, list->items, list->capacity, (uint64_t)list->count + 1)) {
        list->failed = true;
        return;
    }
    list->items[list->count++] = value;
}

/* Values that the regions of an operation read from outside; what they define themselves is not bound. */
static void add_captures(operand_list *list, MlirOperation operation, uint32_t depth) {
    if (depth > QF_MLIR_MAX_DEPTH) {
        (void)qf_mlir_fault(list->call, QF_ERROR_LIMIT, "regions are nested more than %d deep", QF_MLIR_MAX_DEPTH);
        list->failed = true;
        return;
    }
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(operation); r++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, r));
        for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block)) {
            MlirOperation inner = mlirBlockGetFirstOperation(block);
            for (; !list->failed && !mlirOperationIsNull(inner); inner = mlirOperationGetNextInBlock(inner)) {
                for (intptr_t i = 0; i < mlirOperationGetNumOperands(inner); i++) {
                    qf_value value =
                        qf_mlir_lookup(list->call->import, mlirOperationGetOperand(inner, i), list->call->instance);
                    if (value.id) add_operand(list, value);
                }
                add_captures(list, inner, depth + 1);
            }
        }
    }
}

/* Of these dialects we know that operations have no effect but their results, with these exceptions. */
static bool is_pure(const qf_mlir_call *call) {
    static const char *const dialects[] = {"stablehlo.", "mhlo.", "chlo.", "arith.", "math.", "tensor.", "linalg."};
    static const char *const effects[] = {".rng",   ".infeed", ".outfeed", ".send",      ".recv",        ".custom_call",
                                          ".while", ".if",     ".case",    ".after_all", ".create_token"};
    bool known = false;
    for (size_t i = 0; i < QF_COUNT_OF(dialects); i++)
        known |= strncmp(call->name, dialects[i], strlen(dialects[i])) == 0;
    for (size_t i = 0; i < QF_COUNT_OF(effects); i++) known &= !strstr(call->name, effects[i]);
    return known;
}

typedef struct payload {
    qf_buffer buffer;
    bool cut;
} payload;

static void append_payload(MlirStringRef part, void *user) {
    payload *text = user;
    size_t room = QF_MLIR_MAX_PAYLOAD - text->buffer.size;
    text->cut |= part.length > room;
    qf_buffer_append(&text->buffer, part.data, part.length < room ? part.length : room);
}

/* The generic form, for readers. MLIR counts the values of the whole function each time, so that only the first ones
 * are printed. False: not this one. */
static bool print_operation(qf_mlir_import_state *import, MlirOperation operation, payload *text) {
    if (import->printed_count >= QF_MLIR_MAX_PRINTED) return false;
    import->printed_count++;
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
    mlirOpPrintingFlagsUseLocalScope(flags);
    mlirOpPrintingFlagsElideLargeElementsAttrs(flags, 64);
    mlirOperationPrintWithFlags(operation, flags, append_payload, text);
    mlirOpPrintingFlagsDestroy(flags);
    return true;
}

static bool fill_attributes(qf_mlir_call *call, qf_attribute *attributes) {
    qf_context *context = call->import->context;
    payload text = {.buffer = {.context = context}};
    bool printed = print_operation(call->import, call->operation, &text);
    qf_mlir_defaults(call, QF_OP_opaque, attributes);
    attributes[QF_ATTR(opaque, name)].string = qf_intern_c(context, call->name);
    attributes[QF_ATTR(opaque, payload)].string = qf_intern(context, (qf_text){text.buffer.data, text.buffer.size});
    /* Equal pure nodes become one, so the payload must tell them apart. */
    bool whole = printed && !text.cut && !text.buffer.failed && !mlirOperationGetNumRegions(call->operation) &&
                 (!text.buffer.data || !strstr(text.buffer.data, "__elided__"));
    attributes[QF_ATTR(opaque, pure)].integer = whole && is_pure(call);
    bool good = !text.buffer.failed && attributes[QF_ATTR(opaque, name)].string.id;
    qf_buffer_destroy(&text.buffer);
    return good;
}

/* The calls that lead to it have an effect too. */
static void note_effect(qf_mlir_import_state *import, uint32_t instance) {
    while (!import->instances[instance].effects) {
        import->instances[instance].effects = true;
        instance = import->instances[instance].parent;
    }
}

static qf_status insert_opaque(qf_mlir_call *call, const operand_list *operands) {
    qf_mlir_import_state *import = call->import;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_type *types = QF_ARENA_NEW(&import->scratch, qf_type, call->result_count + 1);
    if (!types || !fill_attributes(call, attributes)) return QF_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < call->result_count; i++) {
        types[i] = qf_mlir_result_type(call, i);
        if (!types[i].id) return QF_ERROR_OUT_OF_MEMORY;
    }
    qf_node_spec spec = {.op = QF_OP_opaque,
                         .operands = operands->items,
                         .operand_count = operands->count,
                         .attributes = attributes,
                         .result_count = call->result_count,
                         .result_types = types,
                         .location = call->location};
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, &spec);
    if (!node.id) return QF_ERROR_OUT_OF_MEMORY;
    if (!attributes[QF_ATTR(opaque, pure)].integer) note_effect(import, call->instance);
    for (uint32_t i = 0; i < call->result_count; i++) call->results[i] = qf_node_result(import->graph, node, i);
    return QF_OK;
}

qf_status qf_mlir_import_opaque(qf_mlir_call *call) {
    operand_list list = {.call = call};
    for (uint32_t i = 0; !list.failed && i < call->operand_count; i++) add_operand(&list, call->operands[i]);
    if (!list.failed) add_captures(&list, call->operation, 0);
    qf_status status = list.failed ? QF_ERROR_LIMIT : insert_opaque(call, &list);
    QF_FREE_ITEMS(call->import->context, list.items, list.capacity);
    return status;
}
