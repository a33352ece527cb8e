/* Owns: writing opaque nodes back as they were read, under the names that their values have now.
 * Does not own: reading them (opaque.c).
 * Next: opaque.c. */
#include <string.h>

#include "frontends/onnx/export.h"
#include "frontends/onnx/import.h"

static ProtobufCMessage *unpack_payload(qf_onnx_export *export, qf_node node,
                                        const ProtobufCMessageDescriptor *descriptor) {
    qf_text payload =
        qf_string_text(export->context, qf_node_attribute(export->graph, node, QF_ATTR(opaque, payload))->string);
    const char *name = qf_node_position(export->graph, node).location;
    ProtobufCMessage *message =
        qf_onnx_unpack(export->context, &export->arena, descriptor, name, payload.data, payload.size);
    if (!message) export->failed = true;
    return message;
}

/* Operands come in the order of the inputs that are given, then of captured names, each once. */
typedef struct rename_captures {
    qf_onnx_export *export;
    qf_node node;
    uint32_t next; /* operand that the next new name stands for */
    char **old_names, **new_names;
    qf_index index; /* id: place in the lists + 1 */
    uint32_t count;
} rename_captures;

static bool old_name_equal(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const rename_captures *)owner)->old_names[id - 1], key) == 0;
}

static bool rename_capture(void *user, char **name) {
    rename_captures *captures = user;
    uint64_t hash = qf_hash_bytes(*name, strlen(*name), 19);
    uint32_t id = qf_index_find(&captures->index, hash, old_name_equal, captures, *name);
    if (!id) {
        const qf_node_data *data = qf_node_at(captures->export->graph, captures->node);
        if (captures->next >= data->operand_count) {
            qf_position position = qf_node_position(captures->export->graph, captures->node);
            (void)qf_fail(captures->export->context, QF_ERROR_VERIFY, &position,
                          "the subgraphs read more names than the opaque node has operands");
            return false;
        }
        captures->old_names[captures->count] = *name;
        captures->new_names[captures->count] =
            qf_onnx_name_of(captures->export, data->operands[captures->next++].value);
        id = ++captures->count;
        if (!qf_index_add(captures->export->context, &captures->index, hash, id)) return false;
    }
    *name = captures->new_names[id - 1];
    return *name != NULL;
}

static bool count_capture(void *user, char **name) {
    (void)name;
    ++*(uint32_t *)user;
    return true;
}

static bool write_captures(qf_onnx_export *export, qf_node node, Onnx__NodeProto *proto, uint32_t first) {
    uint32_t places = 0;
    if (!qf_onnx_visit_captures(export->context, &export->arena, proto, count_capture, &places)) return false;
    rename_captures captures = {.export = export, .node = node, .next = first};
    captures.old_names = qf_onnx_new(export, (places + 1) * sizeof *captures.old_names);
    captures.new_names = qf_onnx_new(export, (places + 1) * sizeof *captures.new_names);
    bool good = captures.old_names && captures.new_names &&
                qf_onnx_visit_captures(export->context, &export->arena, proto, rename_capture, &captures);
    qf_index_destroy(export->context, &captures.index);
    return good;
}

static void export_node(qf_onnx_export *export, qf_node node) {
    Onnx__NodeProto *proto = (Onnx__NodeProto *)unpack_payload(export, node, &onnx__node_proto__descriptor);
    const qf_node_data *data = qf_node_at(export->graph, node);
    uint32_t operand = 0, result = 0;
    if (!proto) return;
    for (size_t i = 0; i < proto->n_input; i++)
        if (*qf_onnx_text(proto->input[i]) && operand < data->operand_count)
            proto->input[i] = qf_onnx_name_of(export, data->operands[operand++].value);
    for (size_t i = 0; i < proto->n_output; i++) {
        if (!*qf_onnx_text(proto->output[i]) || result >= data->result_count) continue;
        proto->output[i] = qf_onnx_name_of(export, qf_result_at(data, result));
        qf_onnx_declare(export, qf_result_at(data, result++));
    }
    if (!write_captures(export, node, proto, operand)) export->failed = true;
    qf_onnx_use_domain(export, qf_onnx_text(proto->domain));
    qf_onnx_list_add(export, &export->nodes, proto);
}

static void export_tensor(qf_onnx_export *export, qf_node node) {
    Onnx__TensorProto *proto = (Onnx__TensorProto *)unpack_payload(export, node, &onnx__tensor_proto__descriptor);
    if (!proto) return;
    proto->name = qf_onnx_name_of(export, qf_node_result(export->graph, node, 0));
    qf_onnx_list_add(export, &export->initializers, proto);
}

/* "vendor.op" from another source: a node op of domain vendor, with the payload as an attribute where there is one. */
static void export_foreign(qf_onnx_export *export, qf_node node, const char *name, qf_text payload) {
    const char *dot = strrchr(name, '.');
    char *domain = qf_onnx_copy_text(export, dot ? name : "qfuse.opaque");
    if (!domain) return;
    if (dot) domain[dot - name] = '\0';
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, domain, dot ? dot + 1 : name);
    if (proto && payload.size) qf_onnx_write_string(export, proto, "payload", payload.data, payload.size);
    const qf_node_data *data = qf_node_at(export->graph, node);
    for (uint32_t i = 0; proto && i < data->result_count; i++) qf_onnx_declare(export, qf_result_at(data, i));
}

/* A payload that unpacks to a node of the same op came from here. */
static bool is_node_payload(qf_onnx_export *export, const char *name, qf_text payload) {
    if (!payload.size) return false;
    const char *dot = strrchr(name, '.');
    const char *op_type = dot ? dot + 1 : name;
    qf_arena scratch = {.context = export->context};
    qf_diagnostic_handler handler = export->context->handler;
    qf_status before = export->context->status;
    export->context->handler = NULL; /* a payload of another kind is no fault */
    const Onnx__NodeProto *proto = (const Onnx__NodeProto *)qf_onnx_unpack(
        export->context, &scratch, &onnx__node_proto__descriptor, name, payload.data, payload.size);
    bool same = proto && strcmp(qf_onnx_text(proto->op_type), op_type) == 0;
    export->context->handler = handler;
    if (export->context->status != QF_ERROR_OUT_OF_MEMORY)
        export->context->status = before;
    else
        export->failed = true;
    qf_arena_destroy(&scratch);
    return same;
}

void qf_onnx_export_opaque(qf_onnx_export *export, qf_node node) {
    const qf_attribute *attributes = qf_node_at(export->graph, node)->attributes;
    const char *name = qf_string_c(export->context, attributes[QF_ATTR(opaque, name)].string);
    qf_text payload = qf_string_text(export->context, attributes[QF_ATTR(opaque, payload)].string);
    if (strcmp(name, "onnx.TensorProto") == 0)
        export_tensor(export, node);
    else if (is_node_payload(export, name, payload))
        export_node(export, node);
    else
        export_foreign(export, node, name, payload);
}
