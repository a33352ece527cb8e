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

typedef struct operand_list {
    qf_value *items;
    uint32_t count, capacity;
} operand_list;

static bool add_operand(qf_pt2_call *call, operand_list *list, uint32_t tensor) {
    if (!tensor) return true;
    if (!QF_GROW(call->import->context, list->items, list->capacity, (uint64_t)list->count + 1)) return false;
    list->items[list->count] = qf_pt2_read(call, tensor);
    return list->items[list->count++].id != 0;
}

/* The tensors of all arguments, in order. Arguments of higher-order operators have no names. */
static bool read_operands(qf_pt2_call *call, operand_list *list) {
    bool good = true;
    for (size_t i = 0; good && i < json_array_size(call->arguments); i++) {
        const json_t *argument = json_array_get(call->arguments, i);
        uint32_t *tensors, count;
        good = qf_pt2_tensors_of(call, argument, &tensors, &count);
        for (uint32_t t = 0; good && t < count; t++) good = add_operand(call, list, tensors[t]);
    }
    return good && !call->import->failed;
}

/* --- writes: an operator in place writes its first argument; one of another library that gives no tensor may write all
 * of them, except weights, which a program does not change --- */
typedef struct write_list {
    uint32_t *tensors;
    uint32_t count, capacity;
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
    size_t arguments = all ? json_array_size(call->arguments) : is_in_place(call);
    bool good = true;
    for (size_t i = 0; good && i < arguments; i++) {
        uint32_t *tensors, count;
        good = qf_pt2_tensors_of(call, json_array_get(call->arguments, i), &tensors, &count);
        for (uint32_t t = 0; good && t < count; t++) {
            if (!tensors[t] || !may_be_written(call->import, tensors[t])) continue;
            good = QF_GROW(call->import->context, list->tensors, list->capacity, (uint64_t)list->count + 1);
            if (good) list->tensors[list->count++] = tensors[t];
        }
    }
    return good && !call->import->failed;
}

static bool apply_writes(qf_pt2_call *call, const write_list *list, qf_node node, uint32_t first) {
    for (uint32_t i = 0; i < list->count; i++)
        if (!qf_pt2_write(call, list->tensors[i], qf_node_result(call->import->graph, node, first + i))) return false;
    return true;
}

/* The node's own results, then the new values of what it may write. */
static qf_type *all_types(qf_pt2_call *call, const write_list *writes, uint32_t *out_own) {
    qf_pt2_import *import = call->import;
    qf_type *types = QF_ARENA_NEW(&import->scratch, qf_type, (uint64_t)call->output_count + writes->count + 1);
    if (!types || !opaque_types(call, types, out_own)) return NULL;
    for (uint32_t i = 0; i < writes->count; i++)
        types[*out_own + i] = qf_value_type(import->graph, qf_pt2_read(call, writes->tensors[i]));
    return import->failed ? NULL : types;
}

static bool fill_attributes(qf_pt2_call *call, qf_attribute *attributes) {
    qf_context *context = call->import->context;
    char name[200];
    (void)snprintf(name, sizeof name, "torch.%.190s", call->target);
    char *text = json_dumps(call->arguments, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) {
        (void)qf_record(context, QF_ERROR_OUT_OF_MEMORY);
        return false;
    }
    qf_attributes_default(call->import->graph, QF_OP_opaque, attributes);
    attributes[QF_ATTR(opaque, name)].string = qf_intern_c(context, name);
    attributes[QF_ATTR(opaque, payload)].string = qf_intern_c(context, text);
    attributes[QF_ATTR(opaque, pure)].integer = is_aten(call) && !is_random(call);
    free(text);
    return attributes[QF_ATTR(opaque, payload)].string.id != 0;
}

static bool take_results(qf_pt2_call *call, qf_node node) {
    const json_t *metas = qf_pt2_get(call->scope->graph, "tensor_values");
    uint32_t next = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (!*call->output_names[i]) continue;
        if (qf_pt2_get(metas, call->output_names[i]))
            call->outputs[i] = qf_node_result(call->import->graph, node, next++);
        else
            call->output_dims[i] = qf_dim_fresh(call->import->context, "u");
    }
    return !call->import->failed;
}

static qf_status insert_opaque(qf_pt2_call *call, const operand_list *operands, const write_list *writes) {
    uint32_t own = 0;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_type *types = all_types(call, writes, &own);
    if (!types || !fill_attributes(call, attributes)) return QF_ERROR_OUT_OF_MEMORY;
    qf_node_spec spec = {.op = QF_OP_opaque,
                         .operands = operands->items,
                         .operand_count = operands->count,
                         .attributes = attributes,
                         .result_count = own + writes->count,
                         .result_types = types,
                         .location = call->location};
    qf_node node = qf_graph_insert(call->import->graph, (qf_node){0}, &spec);
    if (!node.id || !take_results(call, node) || !apply_writes(call, writes, node, own)) return QF_ERROR_VERIFY;
    if (is_in_place(call) && writes->count && call->output_count) call->output_tensors[0] = writes->tensors[0];
    return QF_OK;
}

qf_status qf_pt2_import_opaque(qf_pt2_call *call) {
    qf_context *context = call->import->context;
    operand_list operands = {0};
    write_list writes = {0};
    bool good = read_operands(call, &operands) && find_writes(call, &writes);
    qf_status status = good ? insert_opaque(call, &operands, &writes) : QF_ERROR_VERIFY;
    QF_FREE_ITEMS(context, operands.items, operands.capacity);
    QF_FREE_ITEMS(context, writes.tensors, writes.capacity);
    return status;
}
