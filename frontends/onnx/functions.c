/* Owns: model-local functions: finding them, inlining their bodies, attributes that refer to the caller's.
 * Does not own: nodes (import.c).
 * Next: import.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/build.h"

static uint64_t function_hash(const char *domain, const char *name, const char *overload) {
    uint64_t hash = qf_hash_bytes(domain, strlen(domain), 7);
    hash = qf_hash_bytes(name, strlen(name), hash);
    return qf_hash_bytes(overload, strlen(overload), hash);
}

static bool function_equal(const void *owner, uint32_t id, const void *key) {
    const Onnx__FunctionProto *function = ((const qf_onnx_import *)owner)->model.proto->functions[id - 1];
    const Onnx__NodeProto *node = key;
    return strcmp(qf_onnx_text(function->name), qf_onnx_text(node->op_type)) == 0 &&
           strcmp(qf_onnx_text(function->domain), qf_onnx_text(node->domain)) == 0;
}

/* Overloads are a newer field that an older onnx.proto lacks; models that use them have distinct names in practice, so
 * the first function of a name is taken. */
bool qf_onnx_index_functions(qf_onnx_import *import) {
    const Onnx__ModelProto *model = import->model.proto;
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *function = model->functions[i];
        uint64_t hash = function_hash(qf_onnx_text(function->domain), qf_onnx_text(function->name), "");
        if (!qf_index_add(import->context, &import->function_index, hash, (uint32_t)i + 1)) return false;
    }
    return true;
}

const Onnx__FunctionProto *qf_onnx_function_of(qf_onnx_import *import, const Onnx__NodeProto *node) {
    uint64_t hash = function_hash(qf_onnx_text(node->domain), qf_onnx_text(node->op_type), "");
    uint32_t id = qf_index_find(&import->function_index, hash, function_equal, import, node);
    return id ? import->model.proto->functions[id - 1] : NULL;
}

qf_status qf_onnx_inline(qf_onnx_call *call, const Onnx__FunctionProto *function) {
    qf_onnx_import *import = call->import;
    const qf_onnx_scope *outer = call->scope;
    if (outer->depth >= QF_ONNX_MAX_CALLS) {
        (void)qf_onnx_fault(call, QF_ERROR_LIMIT, "functions call each other more than %d deep ('%s' calls itself?)",
                            QF_ONNX_MAX_CALLS, qf_onnx_text(function->name));
        return QF_ERROR_LIMIT;
    }
    size_t size = strlen(call->where) + 2;
    char *path = qf_arena_allocate(&import->scratch, size);
    if (!path) return QF_ERROR_OUT_OF_MEMORY;
    (void)snprintf(path, size, "%s/", call->where);
    qf_onnx_scope scope = {.parent = outer,
                           .id = ++import->scope_count,
                           .depth = outer->depth + 1,
                           .path = path,
                           .opsets = function->n_opset_import ? function->opset_import : outer->opsets,
                           .opset_count = function->n_opset_import ? function->n_opset_import : outer->opset_count,
                           .caller = call->node,
                           .function = function};
    if (call->input_count > function->n_input) {
        (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "function '%s' takes %zu inputs; found %u",
                            qf_onnx_text(function->name), function->n_input, call->input_count);
        return QF_ERROR_VERIFY;
    }
    for (size_t i = 0; i < function->n_input; i++)
        if (!qf_onnx_bind(import, &scope, qf_onnx_text(function->input[i]), qf_onnx_in(call, (uint32_t)i)))
            return QF_ERROR_VERIFY;
    qf_status status = qf_onnx_import_nodes(import, &scope, function->node, function->n_node);
    for (uint32_t i = 0; status == QF_OK && i < call->output_count; i++) {
        if (!qf_onnx_wants(call, i)) continue;
        bool known = false;
        if (i < function->n_output)
            call->outputs[i] = qf_onnx_lookup(import, &scope, qf_onnx_text(function->output[i]), &known);
        if (!call->outputs[i].id) {
            (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "function '%s' does not define its output %u",
                                qf_onnx_text(function->name), i);
            status = QF_ERROR_VERIFY;
        }
    }
    return status;
}

/* What the enclosing function's attribute of this name is at this call: the caller's, else the function's default. */
static const Onnx__AttributeProto *actual(const qf_onnx_scope *scope, const char *name) {
    const Onnx__AttributeProto *given = qf_onnx_attribute(scope->caller, name);
    if (given) return given;
#if QF_ONNX_HAS_DEFAULTS /* a field that older schemas lack */
    for (size_t i = 0; i < scope->function->n_attribute_proto; i++)
        if (strcmp(qf_onnx_text(scope->function->attribute_proto[i]->name), name) == 0)
            return scope->function->attribute_proto[i];
#endif
    return NULL;
}

const Onnx__NodeProto *qf_onnx_resolve(qf_onnx_import *import, const qf_onnx_scope *scope, const Onnx__NodeProto *node,
                                       const char *where) {
    bool refers = false;
    for (size_t i = 0; i < node->n_attribute; i++) refers |= *qf_onnx_text(node->attribute[i]->ref_attr_name) != '\0';
    if (!refers) return node;
    if (!scope->function) {
        qf_position position = {.location = where};
        (void)qf_fail(import->context, QF_ERROR_VERIFY, &position,
                      "an attribute refers to an attribute of a function, but the node is in no function");
        return NULL;
    }
    Onnx__NodeProto *copy = qf_arena_copy(&import->scratch, node, sizeof *node);
    Onnx__AttributeProto **attributes = QF_ARENA_NEW(&import->scratch, Onnx__AttributeProto *, node->n_attribute);
    if (!copy || !attributes) return NULL;
    size_t count = 0;
    for (size_t i = 0; i < node->n_attribute; i++) {
        const char *reference = qf_onnx_text(node->attribute[i]->ref_attr_name);
        if (!*reference) {
            attributes[count++] = node->attribute[i];
            continue;
        }
        const Onnx__AttributeProto *value = actual(scope, reference);
        if (!value) continue; /* not given: the op's own default */
        attributes[count] = qf_arena_copy(&import->scratch, value, sizeof *value);
        if (!attributes[count]) return NULL;
        attributes[count++]->name = node->attribute[i]->name;
    }
    copy->attribute = attributes;
    copy->n_attribute = count;
    return copy;
}
