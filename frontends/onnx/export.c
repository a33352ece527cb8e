/* Owns: writing a graph as a model: entry points, names, types, inputs and outputs, weights, files.
 * Does not own: single nodes (export_ops.c, export_qfuse.c, export_opaque.c).
 * Next: export_ops.c. */
#include "frontends/onnx/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qfuse/onnx.h>

#include "base/file.h"

void *qf_onnx_new(qf_onnx_export *export, size_t size) {
    void *result = qf_arena_allocate(&export->arena, size);
    if (!result) export->failed = true;
    return result;
}

char *qf_onnx_copy_text(qf_onnx_export *export, const char *text) {
    char *copy = qf_onnx_new(export, strlen(text) + 1);
    if (copy) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

void qf_onnx_list_add(qf_onnx_export *export, qf_onnx_list *list, void *item) {
    if (!item || !QF_GROW(export->context, list->items, list->capacity, (uint64_t)list->count + 1)) {
        export->failed = true;
        return;
    }
    list->items[list->count++] = item;
}

/* --- names --- */
static bool name_equal(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const qf_onnx_export *)owner)->used_names.items[id - 1], key) == 0;
}

static bool claim(qf_onnx_export *export, char *name) {
    uint64_t hash = qf_hash_bytes(name, strlen(name), 13);
    if (qf_index_find(&export->name_index, hash, name_equal, export, name)) return false;
    qf_onnx_list_add(export, &export->used_names, name);
    if (export->failed || !qf_index_add(export->context, &export->name_index, hash, export->used_names.count))
        export->failed = true;
    return true;
}

char *qf_onnx_unique_name(qf_onnx_export *export, const char *base) {
    size_t size = strlen(base) + 16;
    char *name = qf_onnx_new(export, size);
    for (uint32_t suffix = export->used_names.count; name; suffix++) {
        (void)snprintf(name, size, "%s_%u", base, suffix);
        if (claim(export, name)) return name;
    }
    return NULL;
}

static void name_value(qf_onnx_export *export, qf_value value, const char *wanted) {
    char *name = qf_onnx_copy_text(export, wanted);
    if (name && (!*name || !claim(export, name))) name = qf_onnx_unique_name(export, *wanted ? wanted : "qfuse_value");
    export->names[value.id] = name;
}

char *qf_onnx_name_of(qf_onnx_export *export, qf_value value) {
    if (!export->names[value.id])
        name_value(export, value, qf_string_c(export->context, qf_value_at(export->graph, value)->name));
    return export->names[value.id];
}

/* --- types --- */
static char *dim_text(qf_onnx_export *export, qf_dim dim) {
    qf_dim_symbol symbol = qf_dim_as_symbol(export->context, dim);
    if (symbol.id && qf_dim_symbol_kind(export->context, symbol) == QF_SYMBOL_NAMED)
        return qf_onnx_copy_text(export, qf_string_c(export->context, qf_dim_symbol_name(export->context, symbol)));
    qf_buffer text = {.context = export->context};
    qf_dim_print(&text, export->context, dim);
    char *copy = text.failed || !text.data ? NULL : qf_onnx_copy_text(export, text.data);
    qf_buffer_destroy(&text);
    if (!copy) export->failed = true;
    return copy;
}

static Onnx__TensorShapeProto *shape_proto(qf_onnx_export *export, qf_type type) {
    Onnx__TensorShapeProto *shape = qf_onnx_new(export, sizeof *shape);
    if (!shape) return NULL;
    onnx__tensor_shape_proto__init(shape);
    uint32_t rank = qf_type_rank(export->context, type);
    const qf_dim *dims = qf_type_dims(export->context, type);
    shape->dim = qf_onnx_new(export, rank * sizeof *shape->dim);
    for (uint32_t i = 0; shape->dim && i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *dim = qf_onnx_new(export, sizeof *dim);
        if (!dim) return NULL;
        onnx__tensor_shape_proto__dimension__init(dim);
        int64_t value;
        if (qf_dim_is_constant(export->context, dims[i], &value)) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = value;
        } else {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = dim_text(export, dims[i]);
        }
        shape->dim[shape->n_dim++] = dim;
    }
    return shape;
}

static Onnx__TypeProto *type_proto(qf_onnx_export *export, qf_type type) {
    Onnx__TypeProto *proto = qf_onnx_new(export, sizeof *proto);
    Onnx__TypeProto__Tensor *tensor = qf_onnx_new(export, sizeof *tensor);
    if (!proto || !tensor) return NULL;
    onnx__type_proto__init(proto);
    onnx__type_proto__tensor__init(tensor);
    proto->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    proto->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = qf_onnx_dtype_number(qf_type_dtype(export->context, type));
    if (qf_type_is_ranked(export->context, type)) tensor->shape = shape_proto(export, type);
    return proto;
}

static Onnx__ValueInfoProto *info_proto(qf_onnx_export *export, char *name, qf_type type) {
    Onnx__ValueInfoProto *info = qf_onnx_new(export, sizeof *info);
    if (!info) return NULL;
    onnx__value_info_proto__init(info);
    info->name = name;
    info->type = type_proto(export, type);
    return info;
}

void qf_onnx_declare(qf_onnx_export *export, qf_value value) {
    qf_type type = qf_value_type(export->graph, value);
    if (qf_type_dtype(export->context, type) == QF_DTYPE_NONE) return;
    qf_onnx_list_add(export, &export->value_infos, info_proto(export, qf_onnx_name_of(export, value), type));
}

static bool domain_equal(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const qf_onnx_export *)owner)->domains.items[id - 1], key) == 0;
}

void qf_onnx_use_domain(qf_onnx_export *export, const char *domain) {
    uint64_t hash = qf_hash_bytes(domain, strlen(domain), 23);
    if (qf_index_find(&export->domain_index, hash, domain_equal, export, domain)) return;
    qf_onnx_list_add(export, &export->domains, qf_onnx_copy_text(export, domain));
    if (export->failed || !qf_index_add(export->context, &export->domain_index, hash, export->domains.count))
        export->failed = true;
}

/* --- weights and constants --- */
static bool weight_equal(const void *owner, uint32_t id, const void *key) {
    return ((const qf_graph *)owner)->weights[id - 1].name.id == ((const qf_string *)key)->id;
}

static void index_weights(qf_onnx_export *export) {
    const qf_graph *graph = export->graph;
    for (uint32_t i = 0; i < graph->weight_count; i++)
        if (!qf_index_add(export->context, &export->weight_index, qf_hash_mix(17, graph->weights[i].name.id), i + 1))
            export->failed = true;
}

static void export_parameter(qf_onnx_export *export, qf_node node) {
    const qf_graph *graph = export->graph;
    qf_string key = qf_node_attribute(graph, node, QF_ATTR(parameter, name))->string;
    qf_value value = qf_node_result(graph, node, 0);
    uint32_t id = qf_index_find(&export->weight_index, qf_hash_mix(17, key.id), weight_equal, graph, &key);
    if (!id) {
        qf_position position = qf_node_position(graph, node);
        export->failed = true;
        (void)qf_fail(export->context, QF_ERROR_NOT_FOUND, &position,
                      "parameter '%s' has no bytes: bind the weight before writing the model",
                      qf_string_c(export->context, key));
        return;
    }
    Onnx__TensorProto *tensor =
        qf_onnx_tensor_proto(export, qf_onnx_name_of(export, value), qf_value_type(graph, value),
                             graph->weights[id - 1].data, graph->weights[id - 1].size);
    qf_onnx_list_add(export, &export->initializers, tensor);
}

/* A constant that only feeds `full` nodes is written inside of them. */
static bool absorbed(const qf_graph *graph, qf_value value) {
    uint64_t count;
    const qf_literal *literal = qf_value_literal(graph, value);
    if (!graph->values[value.id].first_use || !qf_type_static_count(graph->context, literal->type, &count) ||
        count != 1)
        return false;
    QF_FOR_EACH_USE(graph, value, use) {
        if (qf_node_op(graph, use->user) != QF_OP_full) return false;
        const qf_attribute *shape = qf_node_attribute(graph, use->user, QF_ATTR(full, shape));
        for (uint32_t i = 0; i < shape->count; i++)
            if (!qf_dim_is_constant(graph->context, shape->dims[i], NULL)) return false;
    }
    return true;
}

static void export_constant(qf_onnx_export *export, qf_node node) {
    qf_value value = qf_node_result(export->graph, node, 0);
    const qf_literal *literal = qf_value_literal(export->graph, value);
    if (absorbed(export->graph, value)) return;
    qf_onnx_list_add(
        export, &export->initializers,
        qf_onnx_tensor_proto(export, qf_onnx_name_of(export, value), literal->type, literal->data, literal->size));
}

/* --- the graph --- */
static void export_nodes(qf_onnx_export *export) {
    const qf_graph *graph = export->graph;
    QF_FOR_EACH_NODE(graph, node) {
        switch (qf_node_op(graph, node)) {
        case QF_OP_return: break;
        case QF_OP_constant: export_constant(export, node); break;
        case QF_OP_parameter: export_parameter(export, node); break;
        case QF_OP_opaque: qf_onnx_export_opaque(export, node); break;
        default:
            if (!qf_onnx_export_standard(export, node)) qf_onnx_export_qfuse(export, node);
        }
        if (export->failed) return;
    }
}

/* Inputs keep their names; outputs get theirs before anything else can take them. */
static void name_borders(qf_onnx_export *export) {
    const qf_graph *graph = export->graph;
    for (uint32_t i = 0; i < graph->input_count && !export->failed; i++)
        (void)qf_onnx_name_of(export, graph->inputs[i]);
    uint32_t outputs = graph->last.id ? qf_node_at(graph, graph->last)->operand_count : 0;
    for (uint32_t i = 0; i < outputs && i < graph->output_name_count && !export->failed; i++) {
        qf_value value = qf_node_operand(graph, graph->last, i);
        const char *name = qf_string_c(export->context, graph->output_names[i]);
        if (*name && !export->names[value.id]) name_value(export, value, name);
    }
}

/* An output whose value already has another name (an input, or a value that is two outputs) is written as its copy. */
static void export_outputs(qf_onnx_export *export, Onnx__GraphProto *proto) {
    const qf_graph *graph = export->graph;
    uint32_t count = graph->last.id ? qf_node_at(graph, graph->last)->operand_count : 0;
    proto->output = qf_onnx_new(export, (count + 1) * sizeof *proto->output);
    bool *written = qf_onnx_new(export, (graph->value_count + 1) * sizeof *written); /* by value: already an output */
    if (!written) return;
    for (uint32_t i = 0; i < count && !export->failed; i++) {
        qf_value value = qf_node_operand(graph, graph->last, i);
        char *name = qf_onnx_name_of(export, value);
        const char *wanted = i < graph->output_name_count ? qf_string_c(export->context, graph->output_names[i]) : "";
        qf_node producer = qf_value_producer(graph, value);
        bool again = !producer.id || written[value.id];
        written[value.id] = true;
        if (again || (*wanted && name && strcmp(wanted, name) != 0)) {
            Onnx__NodeProto *copy = qf_onnx_new(export, sizeof *copy);
            char *copied = qf_onnx_copy_text(export, wanted);
            if (!copy || !copied) return;
            if (!*copied || !claim(export, copied))
                copied = qf_onnx_unique_name(export, *wanted ? wanted : "qfuse_output");
            onnx__node_proto__init(copy);
            copy->op_type = qf_onnx_copy_text(export, "Identity");
            copy->input = qf_onnx_new(export, sizeof *copy->input);
            copy->output = qf_onnx_new(export, sizeof *copy->output);
            if (!copy->input || !copy->output) return;
            copy->input[copy->n_input++] = name;
            copy->output[copy->n_output++] = copied;
            qf_onnx_list_add(export, &export->nodes, copy);
            name = copied;
        }
        if (proto->output) proto->output[proto->n_output++] = info_proto(export, name, qf_value_type(graph, value));
    }
}

/* ONNX demands a type of every input; one whose element type QFuse lacks has lost it. */
static bool inputs_have_types(qf_onnx_export *export) {
    const qf_graph *graph = export->graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (qf_value_dtype(graph, graph->inputs[i]) != QF_DTYPE_NONE) continue;
        export->failed = true;
        (void)qf_fail(export->context, QF_ERROR_UNSUPPORTED, NULL,
                      "graph input '%s' has an element type that QFuse lacks; it cannot be written",
                      qf_string_c(export->context, qf_value_at(graph, graph->inputs[i])->name));
        return false;
    }
    return true;
}

static void export_graph(qf_onnx_export *export, Onnx__GraphProto *proto) {
    const qf_graph *graph = export->graph;
    if (!inputs_have_types(export)) return;
    name_borders(export);
    index_weights(export);
    if (export->failed) return;
    export_nodes(export);
    if (export->failed) return;
    export_outputs(export, proto);
    proto->name = qf_onnx_copy_text(export, qf_string_c(export->context, graph->name));
    proto->input = qf_onnx_new(export, (graph->input_count + 1) * sizeof *proto->input);
    for (uint32_t i = 0; proto->input && i < graph->input_count; i++)
        proto->input[proto->n_input++] =
            info_proto(export, qf_onnx_name_of(export, graph->inputs[i]), qf_input_type(graph, i));
    proto->n_node = export->nodes.count;
    proto->node = (Onnx__NodeProto **)export->nodes.items;
    proto->n_initializer = export->initializers.count;
    proto->initializer = (Onnx__TensorProto **)export->initializers.items;
    proto->n_value_info = export->value_infos.count;
    proto->value_info = (Onnx__ValueInfoProto **)export->value_infos.items;
}

static void export_domains(qf_onnx_export *export, Onnx__ModelProto *model) {
    model->opset_import = qf_onnx_new(export, export->domains.count * sizeof *model->opset_import);
    for (uint32_t i = 0; model->opset_import && i < export->domains.count; i++) {
        Onnx__OperatorSetIdProto *opset = qf_onnx_new(export, sizeof *opset);
        if (!opset) return;
        onnx__operator_set_id_proto__init(opset);
        opset->domain = export->domains.items[i];
        opset->has_version = 1;
        opset->version = *opset->domain ? 1 : QF_ONNX_EXPORT_OPSET;
        model->opset_import[model->n_opset_import++] = opset;
    }
}

static qf_status pack(qf_onnx_export *export, const Onnx__ModelProto *model, void **out_data, size_t *out_size) {
    size_t size = protobuf_c_message_get_packed_size(&model->base);
    if (size > INT_MAX)
        return qf_fail(export->context, QF_ERROR_LIMIT, NULL,
                       "the model has %zu bytes; one ONNX file holds 2147483647 at most", size);
    uint8_t *data = qf_allocate(export->context, size);
    if (!data) return QF_ERROR_OUT_OF_MEMORY;
    (void)protobuf_c_message_pack(&model->base, data);
    *out_data = data;
    *out_size = size;
    return QF_OK;
}

qf_status qf_onnx_export_memory(const qf_graph *graph, void **out_data, size_t *out_size) {
    if (!graph || !out_data || !out_size) return QF_ERROR_INVALID_ARGUMENT;
    qf_onnx_export export = {.context = graph->context, .graph = graph, .arena = {.context = graph->context}};
    *out_data = NULL;
    *out_size = 0;
    Onnx__ModelProto model;
    Onnx__GraphProto proto;
    onnx__model_proto__init(&model);
    onnx__graph_proto__init(&proto);
    export.names = qf_onnx_new(&export, (graph->value_count + 1) * sizeof *export.names);
    if (export.names) {
        qf_onnx_use_domain(&export, "");
        export_graph(&export, &proto);
        export_domains(&export, &model);
    }
    model.has_ir_version = 1;
    model.ir_version = 11;
    model.producer_name = qf_onnx_copy_text(&export, "qfuse");
    model.producer_version = qf_onnx_copy_text(&export, qf_version());
    model.graph = &proto;
    qf_status status = QF_OK;
    if (export.failed) {
        status = qf_context_status(export.context);
        if (status == QF_OK) status = qf_record(export.context, QF_ERROR_OUT_OF_MEMORY);
    } else {
        status = pack(&export, &model, out_data, out_size);
    }
    qf_onnx_list *lists[] = {&export.used_names, &export.nodes, &export.initializers, &export.value_infos,
                             &export.domains};
    for (size_t i = 0; i < QF_COUNT_OF(lists); i++) QF_FREE_ITEMS(export.context, lists[i]->items, lists[i]->capacity);
    qf_index_destroy(export.context, &export.name_index);
    qf_index_destroy(export.context, &export.weight_index);
    qf_index_destroy(export.context, &export.domain_index);
    qf_arena_destroy(&export.arena);
    return status;
}

void qf_onnx_free(qf_context *context, void *data, size_t size) {
    qf_release(context, data, size);
}

/* --- files --- */

qf_status qf_onnx_export_file(const qf_graph *graph, const char *path) {
    if (!graph || !path) return QF_ERROR_INVALID_ARGUMENT;
    void *data;
    size_t size;
    qf_status status = qf_onnx_export_memory(graph, &data, &size);
    if (status != QF_OK) return status;
    status = qf_write_file(graph->context, path, data, size);
    qf_onnx_free(graph->context, data, size);
    return status;
}
