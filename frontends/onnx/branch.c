/* Owns: If whose condition is known while reading: the nodes of the branch that is taken stand in its place.
 * Does not own: other control flow, which is carried through (opaque.c).
 * Next: functions.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/maps.h"

static bool bind_initializers(qf_onnx_call *call, const qf_onnx_scope *scope, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const char *name = qf_onnx_text(graph->initializer[i]->name);
        qf_value value =
            qf_onnx_import_tensor(call->import, graph->initializer[i], NULL, name, call->location, call->where);
        if (!value.id || !qf_onnx_bind(call->import, scope, name, value)) return false;
    }
    return true;
}

static qf_onnx_outcome take(qf_onnx_call *call, const Onnx__GraphProto *graph) {
    qf_onnx_import *import = call->import;
    size_t size = strlen(call->where) + 2;
    char *path = qf_arena_allocate(&import->scratch, size);
    if (!path) return QF_ONNX_FAILED;
    (void)snprintf(path, size, "%s/", call->where);
    qf_onnx_scope scope = *call->scope;
    scope.parent = call->scope;
    scope.sees_parent = true;
    scope.id = ++import->scope_count;
    scope.depth++;
    scope.path = path;
    if (scope.depth > QF_ONNX_MAX_CALLS)
        return qf_onnx_fault(call, QF_ERROR_LIMIT, "branches and functions lie more than %d deep", QF_ONNX_MAX_CALLS);
    if (!bind_initializers(call, &scope, graph) ||
        qf_onnx_import_nodes(import, &scope, graph->node, graph->n_node) != QF_OK)
        return QF_ONNX_FAILED;
    for (uint32_t i = 0; i < call->output_count; i++) {
        bool known;
        if (!qf_onnx_wants(call, i)) continue;
        const char *name = i < graph->n_output ? qf_onnx_text(graph->output[i]->name) : "";
        call->outputs[i] = qf_onnx_lookup(import, &scope, name, &known);
        if (!call->outputs[i].id)
            return qf_onnx_fault(call, QF_ERROR_VERIFY, "If: the branch does not define output %u ('%s')", i, name);
    }
    return QF_ONNX_MAPPED;
}

qf_onnx_outcome qf_onnx_map_if(qf_onnx_call *call) {
    int64_t condition;
    uint32_t count;
    if (!qf_onnx_constants(call, qf_onnx_in(call, 0), &condition, 1, &count) || count != 1)
        return qf_onnx_decline(call, "its condition is computed at run time");
    const Onnx__AttributeProto *branch = qf_onnx_attribute(call->node, condition ? "then_branch" : "else_branch");
    if (!branch || !branch->g) return qf_onnx_fault(call, QF_ERROR_VERIFY, "If: expected two branches");
    return take(call, branch->g);
}
