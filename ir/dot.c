/* Owns: drawing a graph in the DOT language.
 * Does not own: the text form (print.c).
 * Next: text.h. */
#include <inttypes.h>
#include <string.h>

#include "ir/text.h"

/* Text inside a quoted DOT string: quotes and backslashes escaped, control bytes replaced. */
static void escaped(qf_buffer *buffer, qf_text text) {
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '"' || c == '\\') qf_buffer_append(buffer, "\\", 1);
        if (c == '\n')
            qf_buffer_text(buffer, QF_TEXT("\\l"));
        else if ((unsigned char)c < 0x20 || c == 0x7F)
            qf_buffer_text(buffer, QF_TEXT("?"));
        else
            qf_buffer_append(buffer, &c, 1);
    }
}

#define LONGEST_LABEL 200

/* Long attribute lists and weights are cut. */
static void escaped_short(qf_buffer *buffer, qf_text text) {
    escaped(buffer, (qf_text){text.data, text.size > LONGEST_LABEL ? LONGEST_LABEL : text.size});
    if (text.size > LONGEST_LABEL) qf_buffer_text(buffer, QF_TEXT("..."));
}

static void draw_input(qf_buffer *buffer, const qf_graph *graph, uint32_t index) {
    qf_value value = graph->inputs[index];
    qf_string name = qf_value_at(graph, value)->name;
    qf_buffer_print(buffer, "  v%" PRIu32 " [shape=ellipse, label=\"", value.id);
    if (name.id)
        escaped_short(buffer, qf_string_text(graph->context, name));
    else
        qf_buffer_print(buffer, "input %" PRIu32, index);
    qf_buffer_text(buffer, QF_TEXT("\"];\n"));
}

/* "op\lattribute=value\l...", attributes at their default left out. */
static void draw_node(qf_buffer *buffer, const qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    qf_buffer_print(buffer, "  n%" PRIu32 " [label=\"%s\\l", node.id, info->name);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        qf_buffer value = {.context = graph->context};
        qf_attribute_print(&value, graph, &info->attributes[i], &data->attributes[i]);
        const char *usual = info->attributes[i].default_text;
        if (!value.failed && !(usual && qf_text_is((qf_text){value.data, value.size}, usual))) {
            qf_buffer_print(buffer, "%s=", info->attributes[i].name);
            escaped_short(buffer, (qf_text){value.data, value.size});
            qf_buffer_text(buffer, QF_TEXT("\\l"));
        }
        buffer->failed = buffer->failed || value.failed;
        qf_buffer_destroy(&value);
    }
    qf_buffer_text(buffer, QF_TEXT("\""));
    qf_buffer place = {.context = graph->context};
    qf_location_print(&place, graph, data->location);
    if (place.size) {
        qf_buffer_text(buffer, QF_TEXT(", tooltip=\""));
        escaped_short(buffer, (qf_text){place.data, place.size});
        qf_buffer_text(buffer, QF_TEXT("\""));
    }
    buffer->failed = buffer->failed || place.failed;
    qf_buffer_destroy(&place);
    qf_buffer_text(buffer, QF_TEXT("];\n"));
}

static void draw_operand(qf_buffer *buffer, const qf_graph *graph, const qf_use *use) {
    const qf_op_info *info = qf_op_info_of(qf_node_op(graph, use->user));
    qf_node producer = qf_value_producer(graph, use->value);
    if (producer.id)
        qf_buffer_print(buffer, "  n%" PRIu32, producer.id);
    else
        qf_buffer_print(buffer, "  v%" PRIu32, use->value.id);
    uint32_t index = qf_use_index(graph, use);
    uint32_t column = index < info->operand_count ? index : info->operand_count - 1;
    qf_buffer_print(buffer, " -> n%" PRIu32 " [label=\"%s: ", use->user.id, info->operands[column].name);
    qf_buffer type = {.context = graph->context};
    qf_type_print(&type, graph->context, qf_value_type(graph, use->value));
    escaped_short(buffer, (qf_text){type.data, type.size});
    buffer->failed = buffer->failed || type.failed;
    qf_buffer_destroy(&type);
    qf_buffer_text(buffer, QF_TEXT("\"];\n"));
}

void qf_graph_print_dot(qf_buffer *buffer, const qf_graph *graph) {
    qf_buffer_text(buffer, QF_TEXT("digraph \""));
    escaped_short(buffer, qf_string_text(graph->context, graph->name));
    qf_buffer_text(buffer, QF_TEXT("\" {\n  node [shape=box, fontname=monospace];\n  edge [fontname=monospace];\n"));
    for (uint32_t i = 0; i < graph->input_count; i++) draw_input(buffer, graph, i);
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        draw_node(buffer, graph, node);
        for (uint32_t i = 0; i < data->operand_count; i++)
            if (data->operands[i].value.id) draw_operand(buffer, graph, &data->operands[i]);
    }
    qf_buffer_text(buffer, QF_TEXT("}\n"));
}
