/* Owns: the structure of graphs: order, use-lists, definitions, counts; running the op checks over a graph.
 * Does not own: what ops ask for (verify.c, verify.def).
 * Next: verify.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/verify_call.h"

typedef struct graph_verifier {
    const qf_graph *graph;
    qf_graph reader; /* a shallow copy, which inference may be given; it records nothing */
    qf_verify_directory directory;
    uint32_t fault_count;
    uint8_t *defined;    /* by value id: inputs and results of nodes before the current one */
    uint32_t *seen_uses; /* by value id: how many operands read it */
    qf_value *operands;
    qf_type *types;
    uint32_t operand_capacity, type_capacity;
    qf_index passed; /* node ids that passed check_node, by hash_node */
} graph_verifier;

static void structure_fault(graph_verifier *verifier, qf_node node, const char *format, ...) QF_PRINTF(3, 4);
static void structure_fault(graph_verifier *verifier, qf_node node, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    verifier->fault_count++;
    qf_position position = node.id ? qf_node_position(verifier->graph, node) : (qf_position){.location = ""};
    (void)qf_fail(verifier->graph->context, QF_ERROR_VERIFY, &position, "%s%s%s",
                  node.id ? qf_op_name(qf_node_op(verifier->graph, node)) : "graph", ": ", message);
}

static bool value_exists(const qf_graph *graph, qf_value value) {
    return value.id && value.id < graph->value_count;
}

static void check_operands(graph_verifier *verifier, qf_node node, const qf_node_data *data, const qf_op_info *info) {
    for (uint32_t i = 0; i < data->operand_count; i++) {
        const qf_use *use = &data->operands[i];
        uint32_t column = i < info->operand_count ? i : info->operand_count - 1;
        const char *name = info->operand_count ? info->operands[column].name : "";
        if (use->user.id != node.id) structure_fault(verifier, node, "operand %s: its use names another place", name);
        if (!use->value.id) continue;
        if (!value_exists(verifier->graph, use->value)) {
            structure_fault(verifier, node, "operand %s: value %" PRIu32 " does not exist", name, use->value.id);
            continue;
        }
        verifier->seen_uses[use->value.id]++;
        if (!verifier->defined[use->value.id])
            structure_fault(verifier, node, "operand %s is used before it is defined", name);
        if ((use->previous ? use->previous->next : qf_value_at(verifier->graph, use->value)->first_use) != use)
            structure_fault(verifier, node, "operand %s is not in the use-list of its value", name);
    }
}

/* Sizes are 0 or more. */
static void check_sizes(graph_verifier *verifier, qf_node node, qf_value value, const char *what) {
    const qf_graph *graph = verifier->graph;
    uint32_t rank = qf_value_rank(graph, value);
    int64_t size;
    for (uint32_t i = 0; rank != QF_UNRANKED && i < rank; i++)
        if (qf_dim_is_constant(graph->context, qf_value_dims(graph, value)[i], &size) && size < 0)
            structure_fault(verifier, node, "%s has size %" PRId64 " on axis %" PRIu32 ", expected 0 or more", what,
                            size, i);
}

static void check_results(graph_verifier *verifier, qf_node node, const qf_node_data *data, const qf_op_info *info) {
    uint32_t required = 0, most = info->result_count;
    for (uint32_t i = 0; i < info->result_count; i++) {
        required += info->results[i].kind == QF_RESULT_REQUIRED;
        if (info->results[i].kind == QF_RESULT_SEVERAL) most = UINT32_MAX;
    }
    if (data->result_count < required || data->result_count > most)
        structure_fault(verifier, node, "expected %" PRIu32 " results, found %" PRIu32, required, data->result_count);
    for (uint32_t i = 0; i < data->result_count; i++) {
        qf_value result = qf_result_at(data, i);
        if (!value_exists(verifier->graph, result) || verifier->defined[result.id]) {
            structure_fault(verifier, node, "result %" PRIu32 " does not exist or is defined twice", i);
            continue;
        }
        verifier->defined[result.id] = 1;
        const qf_value_data *value = qf_value_at(verifier->graph, result);
        if (value->producer.id != node.id || value->result_index != i)
            structure_fault(verifier, node, "result %s names another producer", qf_verify_result_name(info, i));
        if (!value->type.id)
            structure_fault(verifier, node, "result %s has no type", qf_verify_result_name(info, i));
        else
            check_sizes(verifier, node, result, qf_verify_result_name(info, i));
    }
}

/* --- nodes alike ---
 * The op's checks see a node's attributes and the types of its operands and results, nothing else. So one node of many
 * alike is checked for all of them; layers of a model mostly repeat. Only nodes that passed stand for others: each
 * fault is found and located anew. */

static uint32_t operand_type(const qf_graph *graph, const qf_use *use) {
    return use->value.id ? qf_value_type(graph, use->value).id + 1 : 0;
}

/* Leaves are mostly different from each other, and cheap to check. */
static bool may_be_alike(const qf_node_data *data, const qf_op_info *info) {
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (info->attributes[i].kind == QF_ATTRIBUTE_LITERAL) return false;
    return data->operand_count > 0;
}

static uint64_t hash_node(const qf_graph *graph, const qf_node_data *data, const qf_op_info *info) {
    uint64_t hash = qf_hash_mix((uint64_t)data->op, data->operand_count);
    for (uint32_t i = 0; i < data->operand_count; i++)
        hash = qf_hash_mix(hash, operand_type(graph, &data->operands[i]));
    for (uint32_t i = 0; i < data->result_count; i++)
        hash = qf_hash_mix(hash, qf_value_type(graph, qf_result_at(data, i)).id);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        hash = qf_attribute_hash(info->attributes[i].kind, &data->attributes[i], hash);
    return hash;
}

static bool nodes_alike(const void *owner, uint32_t id, const void *key) {
    const qf_graph *graph = owner;
    const qf_node_data *a = &graph->nodes[id], *b = key;
    if (a->op != b->op || a->operand_count != b->operand_count || a->result_count != b->result_count) return false;
    for (uint32_t i = 0; i < a->operand_count; i++)
        if (operand_type(graph, &a->operands[i]) != operand_type(graph, &b->operands[i])) return false;
    for (uint32_t i = 0; i < a->result_count; i++)
        if (qf_value_type(graph, qf_result_at(a, i)).id != qf_value_type(graph, qf_result_at(b, i)).id) return false;
    const qf_op_info *info = qf_op_info_of(a->op);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!qf_attribute_same(info->attributes[i].kind, &a->attributes[i], &b->attributes[i])) return false;
    return true;
}

/* The op itself and its types; only where the structure holds. */
static bool check_node(graph_verifier *verifier, const qf_node_data *data, const qf_op_info *info) {
    qf_context *context = verifier->graph->context;
    if (!QF_GROW(context, verifier->operands, verifier->operand_capacity, data->operand_count) ||
        !QF_GROW(context, verifier->types, verifier->type_capacity, data->result_count))
        return false;
    for (uint32_t i = 0; i < data->operand_count; i++) verifier->operands[i] = data->operands[i].value;
    for (uint32_t i = 0; i < data->result_count; i++)
        verifier->types[i] = qf_value_type(verifier->graph, qf_result_at(data, i));
    qf_verify_call call = {.graph = verifier->graph,
                           .info = info,
                           .operands = verifier->operands,
                           .operand_count = data->operand_count,
                           .attributes = data->attributes,
                           .result_count = data->result_count,
                           .location = data->location,
                           .reader = &verifier->reader};
    if (qf_verify_operation_by(&call, &verifier->directory))
        (void)qf_verify_types(&call, NULL, verifier->types, verifier->types);
    verifier->fault_count += call.fault_count;
    return true;
}

static bool check_node_once(graph_verifier *verifier, qf_node node, const qf_node_data *data, const qf_op_info *info) {
    if (!may_be_alike(data, info)) return check_node(verifier, data, info);
    uint64_t hash = hash_node(verifier->graph, data, info);
    if (qf_index_find(&verifier->passed, hash, nodes_alike, verifier->graph, data)) return true;
    uint32_t before = verifier->fault_count;
    if (!check_node(verifier, data, info)) return false;
    return verifier->fault_count != before || qf_index_add(verifier->graph->context, &verifier->passed, hash, node.id);
}

static bool check_nodes(graph_verifier *verifier) {
    const qf_graph *graph = verifier->graph;
    qf_node previous = {0};
    uint32_t count = 0;
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        const qf_op_info *info = qf_op_info_of(data->op);
        if (++count > graph->node_count || !info || data->erased) {
            structure_fault(verifier, node, "the node list is broken");
            return true;
        }
        uint32_t before = verifier->fault_count;
        if (data->previous.id != previous.id || (previous.id && qf_node_at(graph, previous)->order >= data->order))
            structure_fault(verifier, node, "the node stands out of order");
        if ((data->op == QF_OP_return) != (node.id == graph->last.id))
            structure_fault(verifier, node, "return is the last node, and only the last");
        check_operands(verifier, node, data, info);
        check_results(verifier, node, data, info);
        if (verifier->fault_count == before && !check_node_once(verifier, node, data, info)) return false;
        previous = node;
    }
    if (qf_node_op(graph, graph->last) != QF_OP_return) structure_fault(verifier, (qf_node){0}, "has no return");
    if (count != graph->live_node_count)
        structure_fault(verifier, (qf_node){0}, "counts %" PRIu32 " nodes, found %" PRIu32, graph->live_node_count,
                        count);
    return true;
}

static void check_inputs(graph_verifier *verifier) {
    const qf_graph *graph = verifier->graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_value value = graph->inputs[i];
        if (!value_exists(graph, value) || qf_value_producer(graph, value).id || verifier->defined[value.id])
            structure_fault(verifier, (qf_node){0}, "input %" PRIu32 " is no input value of its own", i);
        else if (!qf_value_type(graph, value).id)
            structure_fault(verifier, (qf_node){0}, "input %" PRIu32 " has no type", i);
        else
            check_sizes(verifier, (qf_node){0}, value, qf_string_c(graph->context, qf_value_at(graph, value)->name));
        if (value_exists(graph, value)) verifier->defined[value.id] = 1;
    }
}

static void check_use_counts(graph_verifier *verifier) {
    const qf_graph *graph = verifier->graph;
    for (uint32_t i = 1; i < graph->value_count; i++) {
        if (verifier->seen_uses[i] == graph->values[i].use_count) continue;
        structure_fault(verifier, graph->values[i].producer, "a value counts %" PRIu32 " uses, found %" PRIu32,
                        graph->values[i].use_count, verifier->seen_uses[i]);
    }
}

static void verifier_destroy(graph_verifier *verifier) {
    qf_context *context = verifier->graph->context;
    QF_FREE_ITEMS(context, verifier->operands, verifier->operand_capacity);
    QF_FREE_ITEMS(context, verifier->types, verifier->type_capacity);
    qf_index_destroy(context, &verifier->passed);
    qf_release(context, verifier->defined, verifier->graph->value_count);
    qf_release(context, verifier->seen_uses, (size_t)verifier->graph->value_count * sizeof *verifier->seen_uses);
}

qf_status qf_graph_verify(const qf_graph *graph) {
    qf_context *context = graph->context;
    graph_verifier verifier = {.graph = graph, .reader = *graph};
    qf_verify_directory_init(&verifier.directory);
    verifier.defined = qf_allocate(context, graph->value_count);
    verifier.seen_uses = qf_allocate(context, (size_t)graph->value_count * sizeof *verifier.seen_uses);
    bool ok = verifier.defined && verifier.seen_uses;
    if (ok) {
        check_inputs(&verifier);
        ok = check_nodes(&verifier);
        if (ok) check_use_counts(&verifier);
    }
    verifier_destroy(&verifier);
    if (verifier.fault_count) return QF_ERROR_VERIFY;
    return ok ? QF_OK : qf_record(context, QF_ERROR_OUT_OF_MEMORY);
}
