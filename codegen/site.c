/* Owns: qf_compile_site: one node of a graph as a graph of its own, from which a plan is made.
 * Does not own: lowering (compile.c), choosing the sites (the host, by the run's report or by the ops).
 * Next: examples/host_custom_call.c. */
#include <qfuse/codegen.h>

#include <stdio.h>
#include <string.h>

#include "ir/graph.h"

#define MAX_DEPTH 64

typedef struct site {
    const qf_graph *graph;
    qf_node node;
    qf_graph *alone;    /* of the same context, so that types, dims and strings need no translation */
    qf_value *operands; /* by position, in `alone`; 0: absent */
} site;

/* --- symbols --- */

static bool type_mentions(const qf_context *context, qf_type type, qf_dim_symbol symbol) {
    uint32_t rank = qf_type_rank(context, type);
    for (uint32_t i = 0; rank != QF_UNRANKED && i < rank; i++)
        if (qf_dim_mentions(context, qf_type_dims(context, type)[i], symbol)) return true;
    return false;
}

static bool attributes_mention(const qf_graph *graph, const qf_node_data *data, qf_dim_symbol symbol) {
    const qf_op_info *info = qf_op_info_of(data->op);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        const qf_attribute *attribute = &data->attributes[i];
        if (info->attributes[i].kind == QF_ATTRIBUTE_DIM && qf_dim_mentions(graph->context, attribute->dim, symbol))
            return true;
        for (uint32_t j = 0; info->attributes[i].kind == QF_ATTRIBUTE_DIMS && j < attribute->count; j++)
            if (qf_dim_mentions(graph->context, attribute->dims[j], symbol)) return true;
    }
    return false;
}

static bool inputs_mention(const qf_graph *graph, qf_dim_symbol symbol) {
    for (uint32_t i = 0; i < graph->input_count; i++)
        if (type_mentions(graph->context, qf_value_type(graph, graph->inputs[i]), symbol)) return true;
    return false;
}

static bool site_mentions(const site *s, qf_dim_symbol symbol) {
    const qf_node_data *data = qf_node_at(s->graph, s->node);
    for (uint32_t i = 0; i < data->result_count; i++)
        if (type_mentions(s->graph->context, qf_value_type(s->graph, qf_result_at(data, i)), symbol)) return true;
    return inputs_mention(s->alone, symbol) || attributes_mention(s->graph, data, symbol);
}

/* What is known of the symbols that the site speaks of. */
static bool add_facts(site *s) {
    for (uint32_t i = 0; i < s->graph->fact_count; i++)
        if (site_mentions(s, s->graph->facts[i].symbol) && !qf_graph_add_fact(s->alone, s->graph->facts[i]))
            return false;
    return true;
}

/* Every named symbol of the dim stands in the shape of an input of the site, and so has a value there. */
static bool has_value(const site *s, qf_dim dim, uint32_t depth) {
    const qf_context *context = s->graph->context;
    if (depth == MAX_DEPTH) return false;
    for (uint32_t i = 0; i < qf_dim_term_count(context, dim); i++) {
        qf_dim_term term = qf_dim_term_at(context, dim, i);
        for (uint32_t j = 0; j < term.symbol_count; j++) {
            qf_dim a, b;
            if (qf_dim_symbol_kind(context, term.symbols[j]) == QF_SYMBOL_NAMED) {
                if (!inputs_mention(s->alone, term.symbols[j])) return false;
                continue;
            }
            qf_dim_symbol_operands(context, term.symbols[j], &a, &b);
            if (!has_value(s, a, depth + 1) || !has_value(s, b, depth + 1)) return false;
        }
    }
    return true;
}

/* The place as it prints, as a place of the site's graph. */
static bool copy_location(const site *s, qf_location from, qf_location *out) {
    *out = (qf_location){0};
    if (!from.id) return true;
    qf_buffer text = {.context = s->graph->context};
    qf_location_print(&text, s->graph, from);
    if (!text.failed) *out = qf_location_make(s->alone, (qf_text){text.data, text.size}, 0, 0);
    qf_buffer_destroy(&text);
    return out->id != 0;
}

/* Equalities that the graph assumed and that can be checked with what a call of the site brings. */
static bool add_guards(site *s) {
    for (uint32_t i = 0; i < s->graph->guard_count; i++) {
        const qf_guard *guard = &s->graph->guards[i];
        if (!has_value(s, guard->left, 0) || !has_value(s, guard->right, 0)) continue;
        qf_location location;
        if (!copy_location(s, guard->location, &location) ||
            !qf_graph_add_guard(s->alone, guard->left, guard->right, location))
            return false;
    }
    return true;
}

/* --- operands --- */

/* A node of the site's graph like `node`, which reads `operands`. */
static qf_node copy_node(site *s, qf_node node, const qf_value *operands) {
    const qf_node_data *data = qf_node_at(s->graph, node);
    qf_type *types = QF_ARENA_NEW(&s->alone->arena, qf_type, data->result_count);
    qf_location location;
    if (!types || !copy_location(s, data->location, &location)) return (qf_node){0};
    for (uint32_t i = 0; i < data->result_count; i++) types[i] = qf_value_type(s->graph, qf_result_at(data, i));
    qf_node_spec spec = {.op = data->op,
                         .operands = operands,
                         .operand_count = data->operand_count,
                         .attributes = data->attributes,
                         .result_count = data->result_count,
                         .result_types = types,
                         .location = location,
                         .tag = data->tag};
    return qf_graph_insert(s->alone, (qf_node){0}, &spec);
}

static bool share_weight(site *s, qf_node parameter) {
    qf_string name = qf_node_attribute(s->graph, parameter, QF_ATTR(parameter, name))->string;
    for (uint32_t i = 0; i < s->graph->weight_count; i++) {
        const qf_weight *weight = &s->graph->weights[i];
        if (weight->name.id == name.id) return qf_graph_set_weight(s->alone, name, weight->data, weight->size);
    }
    return true;
}

/* "q"; the items of a list are "parts.0", "parts.1". 0 on failure. */
static qf_string declared_name(qf_context *context, const char *name, bool item, uint32_t index) {
    char text[64];
    if (!item) return qf_intern_c(context, name);
    (void)snprintf(text, sizeof text, "%.40s.%u", name, (unsigned)index);
    return qf_intern_c(context, text);
}

static qf_string operand_name(const site *s, uint32_t index) {
    const qf_op_info *info = qf_op_info_of(qf_node_op(s->graph, s->node));
    uint32_t column = index < info->operand_count ? index : info->operand_count - 1;
    const qf_operand_info *operand = &info->operands[column];
    return declared_name(s->graph->context, operand->name, operand->kind == QF_OPERAND_MANY, index - column);
}

static qf_string result_name(const site *s, uint32_t index) {
    const qf_op_info *info = qf_op_info_of(qf_node_op(s->graph, s->node));
    uint32_t column = index < info->result_count ? index : info->result_count - 1;
    const qf_result_info *result = &info->results[column];
    return declared_name(s->graph->context, result->name, result->kind == QF_RESULT_SEVERAL, index - column);
}

/* Constants and weights come along; everything else is an input. */
static bool add_operand(site *s, uint32_t index) {
    qf_value value = qf_node_operand(s->graph, s->node, index);
    if (!value.id) return true;
    qf_node producer = qf_value_producer(s->graph, value);
    qf_op op = qf_node_op(s->graph, producer);
    if (op == QF_OP_constant || op == QF_OP_parameter) {
        if (op == QF_OP_parameter && !share_weight(s, producer)) return false;
        qf_node copy = copy_node(s, producer, NULL);
        s->operands[index] = copy.id ? qf_node_result(s->alone, copy, 0) : (qf_value){0};
    } else {
        qf_string name = operand_name(s, index);
        if (!name.id) return false;
        s->operands[index] = qf_graph_add_input_value(s->alone, name, qf_value_type(s->graph, value));
    }
    return s->operands[index].id != 0;
}

static bool add_node(site *s) {
    const qf_node_data *data = qf_node_at(s->graph, s->node);
    s->operands = QF_ARENA_NEW(&s->alone->arena, qf_value, data->operand_count);
    qf_string *names = QF_ARENA_NEW(&s->alone->arena, qf_string, data->result_count);
    qf_value *results = QF_ARENA_NEW(&s->alone->arena, qf_value, data->result_count);
    if (!s->operands || !names || !results) return false;
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (!add_operand(s, i)) return false;
    for (uint32_t i = 0; i < data->result_count; i++) {
        names[i] = result_name(s, i);
        if (!names[i].id) return false;
    }
    qf_node copy = copy_node(s, s->node, s->operands);
    if (!copy.id || !add_facts(s) || !add_guards(s)) return false;
    for (uint32_t i = 0; i < data->result_count; i++) results[i] = qf_node_result(s->alone, copy, i);
    return qf_graph_set_outputs(s->alone, results, names, data->result_count);
}

/* --- the entry point --- */

static bool node_exists(const qf_graph *graph, qf_node node) {
    return node.id && node.id < graph->node_count && !graph->nodes[node.id].erased;
}

static bool is_call(qf_op op) {
    return op != QF_OP_opaque && op != QF_OP_return && op != QF_OP_constant && op != QF_OP_parameter;
}

static qf_status refuse(const qf_graph *graph, qf_node node) {
    qf_op op = qf_node_op(graph, node);
    qf_position position = qf_node_position(graph, node);
    if (op == QF_OP_opaque)
        return qf_fail(graph->context, QF_ERROR_UNSUPPORTED, &position,
                       "an opaque op has no plan: only what its vendor provides can run it");
    return qf_fail(graph->context, QF_ERROR_INVALID_ARGUMENT, &position,
                   "%s computes nothing: expected a node that a kernel runs", qf_op_name(op));
}

qf_status qf_compile_site(const qf_graph *graph, qf_node node, const qf_compile_options *options, qf_plan **out_plan) {
    if (!graph || !out_plan) return QF_ERROR_INVALID_ARGUMENT;
    *out_plan = NULL;
    qf_context *context = graph->context;
    if (!node_exists(graph, node))
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "node %u is no node of the graph", (unsigned)node.id);
    if (!is_call(qf_node_op(graph, node))) return refuse(graph, node);
    site s = {.graph = graph, .node = node};
    qf_status status = qf_graph_create(context, qf_string_c(context, graph->name), &s.alone);
    if (status != QF_OK) return status;
    if (add_node(&s))
        status = qf_compile(s.alone, options, out_plan);
    else
        status = qf_context_status(context) != QF_OK ? qf_context_status(context) : QF_ERROR_OUT_OF_MEMORY;
    qf_graph_destroy(s.alone);
    return status;
}
