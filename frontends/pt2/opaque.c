/* Owns: nodes that are carried through as they are, and what they may write.
 * Does not own: the nodes that have a mapping (nodes.c).
 * Next: nodes.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/pt2/build.h"

static bool opaque_types(qf_pt2_call *call, qf_type *types, uint32_t *out_count) {
    const json_t *metas = qf_pt2_get(call->scope->graph, "tensor_values");
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        const json_t *meta = qf_pt2_get(metas, call->output_names[i]);
        if (!*call->output_names[i] || !meta) continue;
        types[count] = qf_pt2_meta_type(call->import, meta, call->where);
        if (!types[count++].id) return false;
    }
    *out_count = count;
    return true;
}

/* An argument's tensors, in order. */
static bool add_operands(qf_pt2_call *call, const json_t *argument, qf_value *operands, uint32_t *count) {
    const char *name = qf_pt2_text(qf_pt2_get(argument, "name"));
    uint32_t *tensors, listed_count = 0;
    if (qf_pt2_tensors(call, name, &tensors, &listed_count))
        for (uint32_t i = 0; i < listed_count; i++) {
            if (!tensors[i] || *count == QF_PT2_MAX_ARGUMENTS) continue;
            operands[(*count)++] = qf_pt2_read(call, tensors[i]);
        }
    uint32_t single = listed_count ? 0 : qf_pt2_tensor_argument(call, name);
    if (single && *count < QF_PT2_MAX_ARGUMENTS) operands[(*count)++] = qf_pt2_read(call, single);
    return !call->import->failed;
}

/* --- writes: an operator in place writes its first argument; one of another library that gives no tensor may write all
 * of them, except weights, which a program does not change --- */
typedef struct write_list {
    uint32_t *tensors;
    uint32_t count;
} write_list;

static bool is_aten(const qf_pt2_call *call) {
    return strncmp(call->target, "aten.", 5) == 0 || strncmp(call->target, "prims.", 6) == 0;
}

/* Operators whose results differ from run to run. */
static bool is_random(const qf_pt2_call *call) {
    static const char *const words[] = {"rand", "bernoulli", "multinomial", "dropout", "normal_"};
    for (size_t i = 0; i < QF_COUNT_OF(words); i++)
        if (strstr(call->target, words[i])) return true;
    return false;
}

static bool is_in_place(const qf_pt2_call *call) {
    const char *underscore = strstr(call->target, "_.");
    return underscore && underscore > call->target && underscore[-1] != '_';
}

static bool gives_tensors(const qf_pt2_call *call) {
    const json_t *metas = qf_pt2_get(call->scope->graph, "tensor_values");
    for (uint32_t i = 0; i < call->output_count; i++)
        if (*call->output_names[i] && qf_pt2_get(metas, call->output_names[i])) return true;
    return false;
}

static bool may_be_written(const qf_pt2_import *import, uint32_t tensor) {
    uint32_t source = import->tensors[import->tensors[tensor].root].source;
    if (!source) return true;
    const char *kind = import->sources[source - 1].kind;
    return strcmp(kind, "buffer") == 0 || strcmp(kind, "user_input") == 0;
}

static bool find_writes(qf_pt2_call *call, write_list *list) {
    bool all = !is_aten(call) && !gives_tensors(call);
    size_t count = all ? json_array_size(call->arguments) : is_in_place(call);
    list->tensors = QF_ARENA_NEW(&call->import->scratch, uint32_t, count + 1);
    for (size_t i = 0; list->tensors && i < count; i++) {
        const char *name = qf_pt2_text(qf_pt2_get(json_array_get(call->arguments, i), "name"));
        uint32_t tensor = qf_pt2_tensor_argument(call, name);
        if (tensor && may_be_written(call->import, tensor)) list->tensors[list->count++] = tensor;
    }
    return list->tensors && !call->import->failed;
}

static bool apply_writes(qf_pt2_call *call, const write_list *list, qf_node node, uint32_t first) {
    for (uint32_t i = 0; i < list->count; i++)
        if (!qf_pt2_write(call, list->tensors[i], qf_node_result(call->import->graph, node, first + i))) return false;
    return true;
}

qf_status qf_pt2_import_opaque(qf_pt2_call *call) {
    qf_pt2_import *import = call->import;
    qf_arena *scratch = &import->scratch;
    qf_value *operands = QF_ARENA_NEW(scratch, qf_value, QF_PT2_MAX_ARGUMENTS);
    qf_type *types = QF_ARENA_NEW(scratch, qf_type, call->output_count + 1);
    uint32_t operand_count = 0, count = 0;
    if (!operands || !types) return QF_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < json_array_size(call->arguments); i++)
        if (!add_operands(call, json_array_get(call->arguments, i), operands, &operand_count)) return QF_ERROR_VERIFY;
    write_list writes = {0};
    if (!opaque_types(call, types, &count) || !find_writes(call, &writes)) return QF_ERROR_VERIFY;
    uint32_t own = count;
    qf_type *all = QF_ARENA_NEW(scratch, qf_type, (uint64_t)count + writes.count + 1);
    if (!all) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(all, types, count * sizeof *types);
    for (uint32_t i = 0; i < writes.count; i++)
        all[count++] = qf_value_type(import->graph, qf_pt2_read(call, writes.tensors[i]));
    char name[200];
    (void)snprintf(name, sizeof name, "torch.%.190s", call->target);
    char *payload = json_dumps(call->arguments, JSON_COMPACT | JSON_SORT_KEYS);
    if (!payload) return qf_record(import->context, QF_ERROR_OUT_OF_MEMORY);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(import->graph, QF_OP_opaque, attributes);
    attributes[QF_ATTR(opaque, name)].string = qf_intern_c(import->context, name);
    attributes[QF_ATTR(opaque, payload)].string = qf_intern_c(import->context, payload);
    attributes[QF_ATTR(opaque, pure)].integer = is_aten(call) && !is_random(call);
    free(payload);
    qf_node_spec spec = {.op = QF_OP_opaque,
                         .operands = operands,
                         .operand_count = operand_count,
                         .attributes = attributes,
                         .result_count = count,
                         .result_types = all,
                         .location = call->location};
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, &spec);
    if (!node.id) return QF_ERROR_VERIFY;
    const json_t *metas = qf_pt2_get(call->scope->graph, "tensor_values");
    uint32_t next = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (!*call->output_names[i]) continue;
        if (qf_pt2_get(metas, call->output_names[i]))
            call->outputs[i] = qf_node_result(import->graph, node, next++);
        else
            call->output_dims[i] = qf_dim_fresh(import->context, "u");
    }
    if (!apply_writes(call, &writes, node, own)) return QF_ERROR_VERIFY;
    if (is_in_place(call) && writes.count && call->output_count) call->output_tensors[0] = writes.tensors[0];
    return QF_OK;
}
