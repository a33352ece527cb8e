/* Owns: nodes that are carried through as they are, and the names that their subgraphs read from outside.
 * Does not own: writing them back (export_opaque.c).
 * Next: export_opaque.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/build.h"

/* --- captured names --- */
typedef struct capture_walk {
    qf_context *context;
    qf_arena *scratch;
    qf_index seen; /* names defined in or already reported for the subgraphs: id into names */
    const char **names;
    uint32_t name_count, name_capacity;
    qf_onnx_capture_visitor visit;
    void *user;
} capture_walk;

static bool name_equal(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const capture_walk *)owner)->names[id], key) == 0;
}

static bool name_known(const capture_walk *walk, const char *name) {
    return qf_index_find(&walk->seen, qf_hash_bytes(name, strlen(name), 9), name_equal, walk, name) != 0;
}

static bool note_name(capture_walk *walk, const char *name) {
    if (!*name || name_known(walk, name)) return true;
    if (!walk->name_count) walk->name_count = 1;
    if (!QF_GROW(walk->context, walk->names, walk->name_capacity, (uint64_t)walk->name_count + 1)) return false;
    walk->names[walk->name_count] = name;
    return qf_index_add(walk->context, &walk->seen, qf_hash_bytes(name, strlen(name), 9), walk->name_count++);
}

/* Names are single-assignment over a graph and its subgraphs, so what any subgraph of the node defines is no capture.
 */
static bool walk_definitions(capture_walk *walk, const Onnx__GraphProto *graph) {
    bool good = true;
    for (size_t i = 0; good && i < graph->n_input; i++) good = note_name(walk, qf_onnx_text(graph->input[i]->name));
    for (size_t i = 0; good && i < graph->n_initializer; i++)
        good = note_name(walk, qf_onnx_text(graph->initializer[i]->name));
    for (size_t i = 0; good && i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        for (size_t o = 0; good && o < node->n_output; o++) good = note_name(walk, qf_onnx_text(node->output[o]));
        for (size_t a = 0; good && a < node->n_attribute; a++) {
            if (node->attribute[a]->g) good = walk_definitions(walk, node->attribute[a]->g);
            for (size_t g = 0; good && g < node->attribute[a]->n_graphs; g++)
                good = walk_definitions(walk, node->attribute[a]->graphs[g]);
        }
    }
    return good;
}

static bool report(capture_walk *walk, char **name) {
    if (!*qf_onnx_text(*name) || name_known(walk, *name)) return true;
    return walk->visit(walk->user, name);
}

static bool walk_uses(capture_walk *walk, Onnx__GraphProto *graph) {
    bool good = true;
    for (size_t i = 0; good && i < graph->n_node; i++) {
        Onnx__NodeProto *node = graph->node[i];
        for (size_t n = 0; good && n < node->n_input; n++) good = report(walk, &node->input[n]);
        for (size_t a = 0; good && a < node->n_attribute; a++) {
            if (node->attribute[a]->g) good = walk_uses(walk, node->attribute[a]->g);
            for (size_t g = 0; good && g < node->attribute[a]->n_graphs; g++)
                good = walk_uses(walk, node->attribute[a]->graphs[g]);
        }
    }
    for (size_t i = 0; good && i < graph->n_output; i++) good = report(walk, &graph->output[i]->name);
    return good;
}

bool qf_onnx_visit_captures(qf_context *context, qf_arena *scratch, Onnx__NodeProto *node,
                            qf_onnx_capture_visitor visit, void *user) {
    capture_walk walk = {.context = context, .scratch = scratch, .visit = visit, .user = user};
    bool good = true;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t a = 0; good && a < node->n_attribute; a++) {
            Onnx__AttributeProto *attribute = node->attribute[a];
            if (attribute->g) good = pass ? walk_uses(&walk, attribute->g) : walk_definitions(&walk, attribute->g);
            for (size_t g = 0; good && g < attribute->n_graphs; g++)
                good = pass ? walk_uses(&walk, attribute->graphs[g]) : walk_definitions(&walk, attribute->graphs[g]);
        }
    qf_index_destroy(context, &walk.seen);
    QF_FREE_ITEMS(context, walk.names, walk.name_capacity);
    return good;
}

/* --- import --- */
typedef struct operands {
    qf_onnx_call *call;
    qf_value *items;
    uint32_t count, capacity;
    const char **names; /* of captured values, each once; the operand of name i follows the inputs in the same order */
    uint32_t name_count, name_capacity;
    qf_index name_index; /* id: place in names + 1 */
} operands;

static bool captured_name(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const operands *)owner)->names[id - 1], key) == 0;
}

static bool add_operand(operands *list, qf_value value) {
    qf_context *context = list->call->import->context;
    if (!QF_GROW(context, list->items, list->capacity, (uint64_t)list->count + 1)) return false;
    list->items[list->count++] = value;
    return true;
}

static bool add_capture(void *user, char **name) {
    operands *list = user;
    qf_onnx_import *import = list->call->import;
    uint64_t hash = qf_hash_bytes(*name, strlen(*name), 11);
    if (qf_index_find(&list->name_index, hash, captured_name, list, *name)) return true;
    bool known;
    qf_value value = qf_onnx_lookup(import, list->call->scope, *name, &known);
    if (!value.id) {
        (void)qf_onnx_fault(list->call, QF_ERROR_VERIFY,
                            "a subgraph of %s reads '%s', which is not defined outside of it",
                            qf_onnx_text(list->call->node->op_type), *name);
        return false;
    }
    if (!QF_GROW(import->context, list->names, list->name_capacity, (uint64_t)list->name_count + 1)) return false;
    list->names[list->name_count++] = *name;
    return qf_index_add(import->context, &list->name_index, hash, list->name_count) && add_operand(list, value);
}

/* Ops whose results differ from run to run. */
static bool is_random(const char *op_type) {
    static const char *const names[] = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
                                        "Multinomial",  "Bernoulli",        "Dropout"};
    for (size_t i = 0; i < QF_COUNT_OF(names); i++)
        if (strcmp(op_type, names[i]) == 0) return true;
    return false;
}

static qf_string packed_node(qf_onnx_import *import, const Onnx__NodeProto *node) {
    size_t size = protobuf_c_message_get_packed_size(&node->base);
    uint8_t *packed = qf_arena_allocate(&import->scratch, size);
    import->node_count += size / QF_ONNX_BYTES_A_NODE;
    if (!packed) return (qf_string){0};
    (void)protobuf_c_message_pack(&node->base, packed);
    return qf_intern(import->context, (qf_text){(char *)packed, size});
}

static qf_string opaque_name(qf_onnx_import *import, const Onnx__NodeProto *node) {
    char text[256];
    const char *domain = qf_onnx_text(node->domain);
    (void)snprintf(text, sizeof text, "%s.%s", *domain ? domain : "onnx", qf_onnx_text(node->op_type));
    return qf_intern_c(import->context, text);
}

/* Result types: what the model declares (values of functions are not looked up: their names are another scope's). */
static bool opaque_types(qf_onnx_call *call, qf_type *types, uint32_t *out_count) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (!qf_onnx_wants(call, i)) continue;
        qf_type type = {0};
        if (!call->scope->parent) type = qf_onnx_declared_type(call->import, call->node->output[i]);
        if (!type.id) type = qf_type_tensor(call->import->context, QF_DTYPE_NONE, NULL, QF_UNRANKED);
        if (!type.id) return false;
        types[count++] = type;
    }
    *out_count = count;
    return true;
}

static qf_status insert_opaque(qf_onnx_call *call, const operands *list) {
    qf_onnx_import *import = call->import;
    qf_type *types = QF_ARENA_NEW(&import->scratch, qf_type, call->output_count + 1);
    uint32_t count;
    if (!types || !opaque_types(call, types, &count)) return QF_ERROR_OUT_OF_MEMORY;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(import->graph, QF_OP_opaque, attributes);
    attributes[QF_ATTR(opaque, name)].string = opaque_name(import, call->node);
    attributes[QF_ATTR(opaque, payload)].string = packed_node(import, call->node);
    attributes[QF_ATTR(opaque, pure)].integer = !is_random(qf_onnx_text(call->node->op_type));
    if (!attributes[QF_ATTR(opaque, payload)].string.id) return QF_ERROR_OUT_OF_MEMORY;
    qf_node_spec spec = {.op = QF_OP_opaque,
                         .operands = list->items,
                         .operand_count = list->count,
                         .attributes = attributes,
                         .result_count = count,
                         .result_types = types,
                         .location = call->location};
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, &spec);
    if (!node.id) return QF_ERROR_OUT_OF_MEMORY;
    uint32_t result = 0;
    for (uint32_t i = 0; i < call->output_count; i++)
        if (qf_onnx_wants(call, i)) call->outputs[i] = qf_node_result(import->graph, node, result++);
    return QF_OK;
}

qf_status qf_onnx_import_opaque(qf_onnx_call *call) {
    qf_context *context = call->import->context;
    operands list = {.call = call};
    bool good = true;
    for (uint32_t i = 0; good && i < call->input_count; i++)
        if (call->inputs[i].id) good = add_operand(&list, call->inputs[i]);
    union {
        const Onnx__NodeProto *read_only;
        Onnx__NodeProto *node;
    } node = {.read_only = call->node}; /* add_capture changes no name */
    good = good && qf_onnx_visit_captures(context, &call->import->scratch, node.node, add_capture, &list);
    qf_status status = good ? insert_opaque(call, &list) : QF_ERROR_VERIFY;
    qf_index_destroy(context, &list.name_index);
    QF_FREE_ITEMS(context, list.names, list.name_capacity);
    QF_FREE_ITEMS(context, list.items, list.capacity);
    return status;
}
