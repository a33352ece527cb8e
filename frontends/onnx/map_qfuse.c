/* Owns: reading nodes of domain `qfuse`: ops of QFuse itself, as export_qfuse.c writes them.
 * Does not own: writing them (export_qfuse.c), which must agree with this.
 * Next: export_qfuse.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/onnx/maps.h"

static bool read_float(const Onnx__AttributeProto *source, double *out) {
    char text[64], *end;
    if (source->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT) {
        *out = (double)source->f;
        return true;
    }
    if (source->s.len >= sizeof text || source->s.len == 0) return false;
    memcpy(text, source->s.data, source->s.len);
    text[source->s.len] = '\0';
    *out = strtod(text, &end);
    return *end == '\0';
}

static bool read_dim(qf_context *context, qf_text *text, qf_dim *out) {
    *out = qf_dim_parse(context, text);
    return out->id != 0;
}

/* "[a, b]" */
static bool read_dims(qf_onnx_call *call, qf_text text, qf_attribute *out) {
    qf_dim *dims = QF_ARENA_NEW(&call->import->scratch, qf_dim, text.size + 1);
    uint32_t count = 0;
    if (!dims || text.size < 2 || text.data[0] != '[') return false;
    text.data++, text.size--;
    while (text.size && text.data[0] != ']') {
        if (!read_dim(call->import->context, &text, &dims[count++])) return false;
        while (text.size && (text.data[0] == ',' || text.data[0] == ' ')) text.data++, text.size--;
    }
    *out = (qf_attribute){.dims = dims, .count = count};
    return text.size == 1;
}

static bool read_named(const qf_attribute_info *info, qf_text text, int64_t *out) {
    char name[64];
    if (text.size >= sizeof name) return false;
    memcpy(name, text.data, text.size);
    name[text.size] = '\0';
    if (info->kind == QF_ATTRIBUTE_ENUM) {
        *out = qf_enum_number(info->enumeration, text);
        return *out >= 0;
    }
    *out = qf_dtype_from_name(name);
    return *out != QF_DTYPE_NONE || strcmp(name, "none") == 0;
}

static bool read_attribute(qf_onnx_call *call, const qf_attribute_info *info, const Onnx__AttributeProto *source,
                           qf_attribute *out) {
    qf_text text = {(const char *)source->s.data, source->s.len};
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL:
    case QF_ATTRIBUTE_INT: out->integer = source->i; return true;
    case QF_ATTRIBUTE_FLOAT: return read_float(source, &out->number);
    case QF_ATTRIBUTE_DTYPE:
    case QF_ATTRIBUTE_ENUM: return read_named(info, text, &out->integer);
    case QF_ATTRIBUTE_DIM: return read_dim(call->import->context, &text, &out->dim) && text.size == 0;
    case QF_ATTRIBUTE_DIMS: return read_dims(call, text, out);
    case QF_ATTRIBUTE_INTS: *out = (qf_attribute){.ints = source->ints, .count = (uint32_t)source->n_ints}; return true;
    case QF_ATTRIBUTE_STRING: out->string = qf_intern(call->import->context, text); return true;
    default: return false;
    }
}

qf_onnx_outcome qf_onnx_map_qfuse(qf_onnx_call *call) {
    qf_op op = (qf_op)call->row->argument;
    const qf_op_info *info = qf_op_info_of(op);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), op, attributes);
    for (size_t i = 0; i < call->node->n_attribute; i++) {
        const Onnx__AttributeProto *source = call->node->attribute[i];
        int32_t index = qf_op_attribute_index(op, qf_text_of(qf_onnx_text(source->name)));
        if (index < 0)
            return qf_onnx_fault(call, QF_ERROR_UNSUPPORTED, "qfuse::%s has no attribute '%s'", info->name,
                                 qf_onnx_text(source->name));
        if (!read_attribute(call, &info->attributes[index], source, &attributes[index]))
            return qf_onnx_fault(call, QF_ERROR_PARSE, "attribute '%s' of qfuse::%s cannot be read",
                                 qf_onnx_text(source->name), info->name);
    }
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!info->attributes[i].default_text && !qf_onnx_has(call, info->attributes[i].name))
            return qf_onnx_fault(call, QF_ERROR_VERIFY, "qfuse::%s: expected attribute '%s'", info->name,
                                 info->attributes[i].name);
    for (uint32_t i = 0; i < info->required_operands; i++)
        if (!qf_onnx_in(call, i).id)
            return qf_onnx_fault(call, QF_ERROR_VERIFY, "qfuse::%s: expected operand '%s'", info->name,
                                 info->operands[i].name);
    bool many = info->operand_count && info->operands[info->operand_count - 1].kind == QF_OPERAND_MANY;
    if (op == QF_OP_return || op == QF_OP_opaque || op == QF_OP_parameter || op == QF_OP_constant ||
        (!many && call->input_count > info->operand_count))
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "qfuse::%s does not stand in a model in this form", info->name);
    qf_node node =
        qf_import_node(qf_onnx_target(call), op, call->inputs, call->input_count, attributes, call->output_count);
    if (!node.id) return QF_ONNX_FAILED;
    for (uint32_t i = 0; i < call->output_count; i++) call->outputs[i] = qf_node_result(qf_onnx_graph(call), node, i);
    return QF_ONNX_MAPPED;
}
