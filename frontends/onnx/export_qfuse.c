/* Owns: writing ops as nodes of domain `qfuse`: operands in the table's order, attributes under their own names.
 * Does not own: reading them (map_qfuse.c), which must agree with this.
 * Next: map_qfuse.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/export.h"

static void write_buffer(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, qf_buffer *text) {
    if (text->failed)
        export->failed = true;
    else
        qf_onnx_write_string(export, node, name, text->data ? text->data : "", text->size);
    qf_buffer_destroy(text);
}

static void write_dims(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, const qf_attribute *attribute) {
    qf_buffer text = {.context = export->context};
    qf_buffer_append(&text, "[", 1);
    for (uint32_t i = 0; i < attribute->count; i++) {
        if (i) qf_buffer_append(&text, ", ", 2);
        qf_dim_print(&text, export->context, attribute->dims[i]);
    }
    qf_buffer_append(&text, "]", 1);
    write_buffer(export, node, name, &text);
}

/* ONNX floats have 32 bits; a number that needs more is written as text. */
static void write_number(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, double number) {
    if ((double)(float)number == number) {
        qf_onnx_write_float(export, node, name, number);
        return;
    }
    qf_buffer text = {.context = export->context};
    qf_buffer_double(&text, number);
    write_buffer(export, node, name, &text);
}

static void write_attribute(qf_onnx_export *export, Onnx__NodeProto *node, const qf_attribute_info *info,
                            const qf_attribute *attribute) {
    const char *name = info->name, *word;
    qf_buffer text = {.context = export->context};
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL:
    case QF_ATTRIBUTE_INT: qf_onnx_write_int(export, node, name, attribute->integer); break;
    case QF_ATTRIBUTE_FLOAT: write_number(export, node, name, attribute->number); break;
    case QF_ATTRIBUTE_DTYPE:
    case QF_ATTRIBUTE_ENUM:
        word = info->kind == QF_ATTRIBUTE_ENUM ? qf_enum_name(info->enumeration, attribute->integer)
                                               : qf_dtype_name((qf_dtype)attribute->integer);
        qf_onnx_write_string(export, node, name, word ? word : "", word ? strlen(word) : 0);
        break;
    case QF_ATTRIBUTE_DIM:
        qf_dim_print(&text, export->context, attribute->dim);
        write_buffer(export, node, name, &text);
        break;
    case QF_ATTRIBUTE_DIMS: write_dims(export, node, name, attribute); break;
    case QF_ATTRIBUTE_INTS: qf_onnx_write_ints(export, node, name, attribute->ints, attribute->count); break;
    case QF_ATTRIBUTE_STRING: {
        qf_text string = qf_string_text(export->context, attribute->string);
        qf_onnx_write_string(export, node, name, string.data, string.size);
        break;
    }
    default: export->failed = true; /* literals stand in constants only, which are initialisers */
    }
}

void qf_onnx_export_qfuse(qf_onnx_export *export, qf_node node) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "qfuse", info->name);
    for (uint32_t i = 0; proto && i < info->attribute_count; i++)
        write_attribute(export, proto, &info->attributes[i], &data->attributes[i]);
    for (uint32_t i = 0; proto && i < data->result_count; i++) qf_onnx_declare(export, qf_result_at(data, i));
}
