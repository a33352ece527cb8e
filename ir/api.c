/* Owns: reading graphs, text and weights through the public API.
 * Does not own: building (api_build.c), types (api_type.c), the text form itself (parse.c, print.c).
 * Next: qfuse/graph.h. */
#include <string.h>

#include "ir/graph.h"
#include "ir/text.h"

qf_context *qf_graph_context(const qf_graph *graph) {
    return graph ? graph->context : NULL;
}

const char *qf_graph_name(const qf_graph *graph) {
    return qf_string_c(graph->context, graph->name);
}

/* --- text --- */

qf_status qf_graph_from_text(qf_context *context, const char *text, size_t size, const char *file_name,
                             qf_graph **out_graph) {
    if (!context || !out_graph || (!text && size)) return QF_ERROR_INVALID_ARGUMENT;
    qf_status before = context->status;
    context->status = QF_OK;
    *out_graph = qf_graph_parse(context, (qf_text){text, size}, file_name);
    qf_status status = context->status;
    if (before != QF_OK) context->status = before;
    return *out_graph ? QF_OK : status;
}

/* Hands over the buffer's text, cut to its size so that qf_text_destroy knows it. */
static qf_status give_text(qf_buffer *buffer, char **out_text, size_t *out_size) {
    qf_context *context = buffer->context;
    *out_text = NULL;
    if (!buffer->failed) qf_buffer_append(buffer, "", 0);
    if (!buffer->failed) *out_text = qf_reallocate(context, buffer->data, buffer->capacity, buffer->size + 1);
    if (!*out_text) {
        qf_buffer_destroy(buffer);
        return QF_ERROR_OUT_OF_MEMORY;
    }
    if (out_size) *out_size = buffer->size;
    return QF_OK;
}

qf_status qf_graph_to_text(const qf_graph *graph, char **out_text, size_t *out_size) {
    if (!graph || !out_text) return QF_ERROR_INVALID_ARGUMENT;
    qf_buffer buffer = {.context = graph->context};
    qf_graph_print(&buffer, graph);
    return give_text(&buffer, out_text, out_size);
}

static bool node_exists(const qf_graph *graph, qf_node node) {
    return graph && node.id && node.id < graph->node_count && !graph->nodes[node.id].erased;
}

static bool value_exists(const qf_graph *graph, qf_value value) {
    return graph && value.id && value.id < graph->value_count;
}

qf_status qf_node_to_text(const qf_graph *graph, qf_node node, char **out_text, size_t *out_size) {
    if (!node_exists(graph, node) || !out_text) return QF_ERROR_INVALID_ARGUMENT;
    qf_buffer buffer = {.context = graph->context};
    qf_node_print(&buffer, graph, node);
    return give_text(&buffer, out_text, out_size);
}

qf_status qf_graph_to_dot(const qf_graph *graph, char **out_text, size_t *out_size) {
    if (!graph || !out_text) return QF_ERROR_INVALID_ARGUMENT;
    qf_buffer buffer = {.context = graph->context};
    qf_graph_print_dot(&buffer, graph);
    return give_text(&buffer, out_text, out_size);
}

/* Text forms escape NULs, so the length tells the size of the block. */
void qf_text_destroy(qf_context *context, char *text) {
    if (text) qf_release(context, text, strlen(text) + 1);
}

/* --- nodes and values --- */

qf_node qf_graph_first_node(const qf_graph *graph) {
    return graph->first;
}

qf_node qf_graph_next_node(const qf_graph *graph, qf_node node) {
    return node_exists(graph, node) ? graph->nodes[node.id].next : (qf_node){0};
}

uint32_t qf_graph_node_count(const qf_graph *graph) {
    return graph->live_node_count;
}

uint32_t qf_graph_input_count(const qf_graph *graph) {
    return graph->input_count;
}

qf_value qf_graph_input(const qf_graph *graph, uint32_t index) {
    return index < graph->input_count ? graph->inputs[index] : (qf_value){0};
}

static const qf_node_data *return_of(const qf_graph *graph) {
    return qf_node_op(graph, graph->last) == QF_OP_return ? qf_node_at(graph, graph->last) : NULL;
}

uint32_t qf_graph_output_count(const qf_graph *graph) {
    const qf_node_data *data = return_of(graph);
    return data ? data->operand_count : 0;
}

qf_value qf_graph_output(const qf_graph *graph, uint32_t index) {
    const qf_node_data *data = return_of(graph);
    return data && index < data->operand_count ? data->operands[index].value : (qf_value){0};
}

const char *qf_graph_output_name(const qf_graph *graph, uint32_t index) {
    return index < graph->output_name_count ? qf_string_c(graph->context, graph->output_names[index]) : "";
}

qf_op qf_node_get_op(const qf_graph *graph, qf_node node) {
    return node_exists(graph, node) ? graph->nodes[node.id].op : QF_OP_none;
}

uint32_t qf_node_operand_count(const qf_graph *graph, qf_node node) {
    return node_exists(graph, node) ? graph->nodes[node.id].operand_count : 0;
}

qf_value qf_node_get_operand(const qf_graph *graph, qf_node node, uint32_t index) {
    return node_exists(graph, node) ? qf_node_operand(graph, node, index) : (qf_value){0};
}

qf_value qf_node_named_operand(const qf_graph *graph, qf_node node, const char *name) {
    int32_t index = qf_op_operand_index(qf_node_get_op(graph, node), qf_text_of(name));
    return index >= 0 ? qf_node_operand(graph, node, (uint32_t)index) : (qf_value){0};
}

uint32_t qf_node_result_count(const qf_graph *graph, qf_node node) {
    return node_exists(graph, node) ? graph->nodes[node.id].result_count : 0;
}

qf_value qf_node_get_result(const qf_graph *graph, qf_node node, uint32_t index) {
    return node_exists(graph, node) ? qf_node_result(graph, node, index) : (qf_value){0};
}

qf_status qf_node_get_attribute(const qf_graph *graph, qf_node node, const char *name, qf_setting *out_setting) {
    if (!node_exists(graph, node) || !out_setting) return QF_ERROR_INVALID_ARGUMENT;
    const qf_op_info *op = qf_op_info_of(graph->nodes[node.id].op);
    int32_t index = qf_op_attribute_index(op->op, qf_text_of(name));
    if (index < 0) return QF_ERROR_NOT_FOUND;
    const qf_attribute_info *info = &op->attributes[index];
    const qf_attribute *attribute = qf_node_attribute(graph, node, (uint32_t)index);
    qf_setting setting = qf_setting_of(info->name, info->kind);
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: setting.as.truth = attribute->integer != 0; break;
    case QF_ATTRIBUTE_INT: setting.as.integer = attribute->integer; break;
    case QF_ATTRIBUTE_FLOAT: setting.as.number = attribute->number; break;
    case QF_ATTRIBUTE_DTYPE: setting.as.dtype = (qf_dtype)attribute->integer; break;
    case QF_ATTRIBUTE_ENUM: setting.as.text = qf_enum_name(info->enumeration, attribute->integer); break;
    case QF_ATTRIBUTE_DIM: setting.as.dim = attribute->dim; break;
    case QF_ATTRIBUTE_DIMS:
        setting.as.dims = attribute->dims;
        setting.count = attribute->count;
        break;
    case QF_ATTRIBUTE_INTS:
        setting.as.ints = attribute->ints;
        setting.count = attribute->count;
        break;
    case QF_ATTRIBUTE_STRING: setting.as.text = qf_string_c(graph->context, attribute->string); break;
    case QF_ATTRIBUTE_LITERAL:
        setting.as.tensor.type = attribute->literal->type;
        setting.as.tensor.data = attribute->literal->data;
        setting.as.tensor.size = (size_t)attribute->literal->size;
        break;
    }
    *out_setting = setting;
    return QF_OK;
}

uint64_t qf_node_tag(const qf_graph *graph, qf_node node) {
    return node_exists(graph, node) ? graph->nodes[node.id].tag : 0;
}

void qf_node_set_tag(qf_graph *graph, qf_node node, uint64_t tag) {
    if (!node_exists(graph, node) || !tag) return;
    graph->nodes[node.id].tag = tag;
    if (tag >= graph->next_tag) graph->next_tag = tag + 1;
}

const char *qf_node_location(const qf_graph *graph, qf_node node) {
    return node_exists(graph, node) ? qf_node_position(graph, node).location : "";
}

qf_type qf_value_get_type(const qf_graph *graph, qf_value value) {
    return value_exists(graph, value) ? qf_value_type(graph, value) : (qf_type){0};
}

const char *qf_value_name(const qf_graph *graph, qf_value value) {
    return value_exists(graph, value) ? qf_string_c(graph->context, graph->values[value.id].name) : "";
}

qf_node qf_value_get_producer(const qf_graph *graph, qf_value value) {
    return value_exists(graph, value) ? qf_value_producer(graph, value) : (qf_node){0};
}

uint32_t qf_value_use_count(const qf_graph *graph, qf_value value) {
    return value_exists(graph, value) ? graph->values[value.id].use_count : 0;
}

/* --- weights --- */

qf_status qf_graph_bind_weight(qf_graph *graph, const char *name, const void *data, size_t size) {
    if (!name || !*name || (!data && size)) return QF_ERROR_INVALID_ARGUMENT;
    qf_string string = qf_intern_c(graph->context, name);
    return string.id && qf_graph_set_weight(graph, string, data, size) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

const void *qf_graph_weight(qf_graph *graph, const char *name, size_t *out_size) {
    qf_string string = name ? qf_intern_c(graph->context, name) : (qf_string){0};
    const qf_weight *weight = qf_graph_find_weight(graph, string);
    if (out_size) *out_size = weight ? (size_t)weight->size : 0;
    return weight ? weight->data : NULL;
}
