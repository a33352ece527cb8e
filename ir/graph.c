/* Owns: creating graphs, inserting nodes and values, use-lists, order.
 * Does not own: copies and whole-graph substitution (clone.c), locations (location.c), result types (infer.h).
 * Next: clone.c. */
#include "ir/graph.h"

#include <stdlib.h>
#include <string.h>

#include "ir/infer.h"

#define ORDER_STEP ((uint64_t)1 << 20)

qf_status qf_graph_create(qf_context *context, const char *name, qf_graph **out_graph) {
    if (!out_graph) return QF_ERROR_INVALID_ARGUMENT;
    *out_graph = NULL;
    if (!context) return QF_ERROR_INVALID_ARGUMENT;
    if (context->build != QF_BUILD) return QF_ERROR_VERSION; /* libqfuse and libqfuse_rt of different releases */
    qf_graph *graph = qf_allocate(context, sizeof *graph);
    if (!graph) return QF_ERROR_OUT_OF_MEMORY;
    graph->context = context;
    graph->arena.context = context;
    graph->name = qf_intern_c(context, name && *name ? name : "main");
    graph->next_tag = 1;
    graph->node_count = graph->value_count = graph->location_count = 1;
    if (!graph->name.id || !QF_GROW(context, graph->nodes, graph->node_capacity, 64) ||
        !QF_GROW(context, graph->values, graph->value_capacity, 64) ||
        !QF_GROW(context, graph->locations, graph->location_capacity, 64)) {
        qf_graph_destroy(graph);
        return QF_ERROR_OUT_OF_MEMORY;
    }
    memset(&graph->nodes[0], 0, sizeof graph->nodes[0]);
    memset(&graph->values[0], 0, sizeof graph->values[0]);
    memset(&graph->locations[0], 0, sizeof graph->locations[0]);
    *out_graph = graph;
    return QF_OK;
}

void qf_graph_destroy(qf_graph *graph) {
    if (!graph) return;
    qf_context *context = graph->context;
    for (uint32_t i = graph->adopted_count; i-- > 0;) graph->adopted[i].release(context, graph->adopted[i].object);
    QF_FREE_ITEMS(context, graph->adopted, graph->adopted_capacity);
    QF_FREE_ITEMS(context, graph->weights, graph->weight_capacity);
    QF_FREE_ITEMS(context, graph->guards, graph->guard_capacity);
    qf_index_destroy(context, &graph->guard_index);
    QF_FREE_ITEMS(context, graph->facts, graph->fact_capacity);
    QF_FREE_ITEMS(context, graph->output_names, graph->output_name_capacity);
    QF_FREE_ITEMS(context, graph->inputs, graph->input_capacity);
    QF_FREE_ITEMS(context, graph->declared, graph->declared_capacity);
    QF_FREE_ITEMS(context, graph->locations, graph->location_capacity);
    QF_FREE_ITEMS(context, graph->values, graph->value_capacity);
    QF_FREE_ITEMS(context, graph->nodes, graph->node_capacity);
    qf_index_destroy(context, &graph->location_index);
    qf_index_destroy(context, &graph->weight_index);
    qf_arena_destroy(&graph->arena);
    qf_release(context, graph, sizeof *graph);
}

/* --- reading --- */

qf_node qf_producer_of_op(const qf_graph *graph, qf_value value, qf_op op) {
    qf_node producer = qf_value_producer(graph, value);
    return producer.id && graph->nodes[producer.id].op == op ? producer : (qf_node){0};
}

bool qf_node_before(const qf_graph *graph, qf_node a, qf_node b) {
    return graph->nodes[a.id].order < graph->nodes[b.id].order;
}

const qf_literal *qf_value_literal(const qf_graph *graph, qf_value value) {
    qf_node node = qf_producer_of_op(graph, value, QF_OP_constant);
    return node.id ? qf_node_attribute(graph, node, QF_ATTR(constant, value))->literal : NULL;
}

/* --- use-lists --- */

static void link_use(qf_graph *graph, qf_use *use) {
    if (!use->value.id) return;
    qf_value_data *value = &graph->values[use->value.id];
    use->previous = NULL;
    use->next = value->first_use;
    if (value->first_use) value->first_use->previous = use;
    value->first_use = use;
    value->use_count++;
}

static void unlink_use(qf_graph *graph, qf_use *use) {
    if (!use->value.id) return;
    qf_value_data *value = &graph->values[use->value.id];
    if (use->previous)
        use->previous->next = use->next;
    else
        value->first_use = use->next;
    if (use->next) use->next->previous = use->previous;
    use->next = use->previous = NULL;
    value->use_count--;
}

void qf_graph_set_operand(qf_graph *graph, qf_node node, uint32_t index, qf_value value) {
    qf_use *use = &graph->nodes[node.id].operands[index];
    unlink_use(graph, use);
    use->value = value;
    link_use(graph, use);
}

void qf_graph_replace_all_uses(qf_graph *graph, qf_value from, qf_value to) {
    if (from.id == to.id) return;
    graph->values[from.id].replaced_by = to;
    while (graph->values[from.id].first_use) {
        qf_use *use = graph->values[from.id].first_use;
        qf_graph_set_operand(graph, use->user, qf_use_index(graph, use), to);
    }
}

qf_value qf_graph_current_value(const qf_graph *graph, qf_value value) {
    for (uint32_t steps = 0; steps < graph->value_count; steps++) {
        const qf_value_data *data = &graph->values[value.id];
        if (!value.id || !data->producer.id || !graph->nodes[data->producer.id].erased) return value;
        value = data->replaced_by;
    }
    return (qf_value){0};
}

/* --- the node list --- */

/* Spreads order numbers anew; amortised over the insertions that used up a gap. */
static void renumber(qf_graph *graph) {
    uint64_t order = 0;
    QF_FOR_EACH_NODE(graph, node) graph->nodes[node.id].order = order += ORDER_STEP;
}

static void link_node(qf_graph *graph, qf_node node, qf_node before) {
    qf_node_data *data = &graph->nodes[node.id];
    qf_node previous = before.id ? graph->nodes[before.id].previous : graph->last;
    data->previous = previous;
    data->next = before;
    if (previous.id)
        graph->nodes[previous.id].next = node;
    else
        graph->first = node;
    if (before.id)
        graph->nodes[before.id].previous = node;
    else
        graph->last = node;
    uint64_t low = previous.id ? graph->nodes[previous.id].order : 0;
    uint64_t high = before.id ? graph->nodes[before.id].order : low + 2 * ORDER_STEP;
    data->order = low + (high - low) / 2;
    if (data->order == low) renumber(graph);
}

static void unlink_node(qf_graph *graph, qf_node node) {
    qf_node_data *data = &graph->nodes[node.id];
    if (data->previous.id)
        graph->nodes[data->previous.id].next = data->next;
    else
        graph->first = data->next;
    if (data->next.id)
        graph->nodes[data->next.id].previous = data->previous;
    else
        graph->last = data->previous;
    data->previous = data->next = (qf_node){0};
}

void qf_graph_erase(qf_graph *graph, qf_node node) {
    qf_node_data *data = &graph->nodes[node.id];
    for (uint32_t i = 0; i < data->operand_count; i++) unlink_use(graph, &data->operands[i]);
    unlink_node(graph, node);
    data->erased = true;
    graph->live_node_count--;
}

void qf_graph_move_before(qf_graph *graph, qf_node node, qf_node before) {
    if (node.id == before.id) return;
    unlink_node(graph, node);
    link_node(graph, node, before);
}

void qf_graph_set_type(qf_graph *graph, qf_value value, qf_type type) {
    graph->values[value.id].type = type;
}

/* --- building --- */

static bool parse_default(const qf_graph *graph, const qf_attribute_info *info, qf_attribute *out) {
    const char *text = info->default_text;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: out->integer = strcmp(text, "true") == 0; return true;
    case QF_ATTRIBUTE_INT: out->integer = strtoll(text, NULL, 10); return true;
    case QF_ATTRIBUTE_FLOAT: out->number = strtod(text, NULL); return true;
    case QF_ATTRIBUTE_DTYPE: out->integer = qf_dtype_from_name(text); return true;
    case QF_ATTRIBUTE_ENUM: out->integer = qf_enum_number(info->enumeration, qf_text_of(text)); return true;
    case QF_ATTRIBUTE_DIM: out->dim = qf_dim_constant(graph->context, strtoll(text, NULL, 10)); return out->dim.id != 0;
    default: return true; /* "" and empty lists are zero */
    }
}

void qf_attributes_default(const qf_graph *graph, qf_op op, qf_attribute *attributes) {
    const qf_op_info *info = qf_op_info_of(op);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        memset(&attributes[i], 0, sizeof attributes[i]);
        if (info->attributes[i].default_text) (void)parse_default(graph, &info->attributes[i], &attributes[i]);
    }
}

static uint32_t required_results(const qf_op_info *info) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < info->result_count; i++) count += info->results[i].kind == QF_RESULT_REQUIRED;
    return count;
}

/* Trailing columns that the caller left out are absent operands; MANY operands only follow when all columns are given.
 */
static uint32_t operand_slots(const qf_op_info *info, uint32_t given) {
    uint32_t named = info->operand_count;
    if (named && info->operands[named - 1].kind == QF_OPERAND_MANY) named--;
    return given > named ? given : named;
}

static bool add_results(qf_graph *graph, qf_node node, const qf_node_spec *spec, const qf_type *types, uint32_t count) {
    qf_node_data *data = &graph->nodes[node.id];
    data->result_count = count;
    data->first_result = (qf_value){graph->value_count};
    if (!QF_GROW(graph->context, graph->values, graph->value_capacity, (uint64_t)graph->value_count + count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        qf_value value = {graph->value_count++};
        graph->values[value.id] = (qf_value_data){.type = types[i],
                                                  .producer = node,
                                                  .result_index = i,
                                                  .name = spec->result_names ? spec->result_names[i] : (qf_string){0}};
    }
    return true;
}

static bool infer_types(qf_graph *graph, const qf_node_spec *spec, const qf_op_info *info,
                        const qf_attribute *attributes, uint32_t operand_count, uint32_t result_count, qf_type *types) {
    qf_value *operands = QF_ARENA_NEW(&graph->arena, qf_value, operand_count);
    if (!operands) return false;
    if (spec->operand_count) memcpy(operands, spec->operands, spec->operand_count * sizeof *operands);
    qf_infer_call call = {.graph = graph,
                          .info = info,
                          .operands = operands,
                          .operand_count = operand_count,
                          .attributes = attributes,
                          .result_count = result_count,
                          .out_types = types,
                          .location = spec->location};
    return qf_infer(&call) == QF_OK;
}

qf_node qf_graph_insert(qf_graph *graph, qf_node before, const qf_node_spec *spec) {
    qf_context *context = graph->context;
    const qf_op_info *info = qf_op_info_of(spec->op);
    if (!info) {
        (void)qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "op number %d does not exist", (int)spec->op);
        return (qf_node){0};
    }
    uint32_t operand_count = operand_slots(info, spec->operand_count);
    uint32_t result_count = spec->result_count ? spec->result_count : required_results(info);
    qf_attribute *attributes = QF_ARENA_NEW(&graph->arena, qf_attribute, info->attribute_count);
    qf_use *operands = QF_ARENA_NEW(&graph->arena, qf_use, operand_count);
    qf_type *types = QF_ARENA_NEW(&graph->arena, qf_type, result_count);
    if (!attributes || !operands || !types ||
        !QF_GROW(context, graph->nodes, graph->node_capacity, (uint64_t)graph->node_count + 1))
        return (qf_node){0};
    if (spec->attributes)
        memcpy(attributes, spec->attributes, info->attribute_count * sizeof *attributes);
    else
        qf_attributes_default(graph, spec->op, attributes);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!qf_attribute_own(&graph->arena, info->attributes[i].kind, &attributes[i])) return (qf_node){0};
    if (spec->result_types) {
        if (result_count) memcpy(types, spec->result_types, result_count * sizeof *types);
    } else if (!infer_types(graph, spec, info, attributes, operand_count, result_count, types)) {
        return (qf_node){0};
    }
    qf_node node = {graph->node_count};
    graph->nodes[node.id] = (qf_node_data){.op = spec->op,
                                           .operand_count = operand_count,
                                           .operands = operands,
                                           .attributes = attributes,
                                           .location = spec->location,
                                           .tag = spec->tag ? spec->tag : graph->next_tag};
    if (!add_results(graph, node, spec, types, result_count)) return (qf_node){0};
    graph->node_count++;
    graph->live_node_count++;
    if (graph->nodes[node.id].tag >= graph->next_tag) graph->next_tag = graph->nodes[node.id].tag + 1;
    if (!graph->next_tag) graph->next_tag = 1; /* 0 asks for a new tag */
    if (!before.id && graph->last.id && graph->nodes[graph->last.id].op == QF_OP_return) before = graph->last;
    link_node(graph, node, before);
    for (uint32_t i = 0; i < operand_count; i++) {
        operands[i] = (qf_use){.user = node};
        if (i < spec->operand_count) operands[i].value = spec->operands[i];
        link_use(graph, &operands[i]);
    }
    return node;
}

qf_value qf_graph_add_input_value(qf_graph *graph, qf_string name, qf_type type) {
    qf_context *context = graph->context;
    if (!QF_GROW(context, graph->values, graph->value_capacity, (uint64_t)graph->value_count + 1) ||
        !QF_GROW(context, graph->declared, graph->declared_capacity, (uint64_t)graph->input_count + 1) ||
        !QF_GROW(context, graph->inputs, graph->input_capacity, (uint64_t)graph->input_count + 1))
        return (qf_value){0};
    qf_value value = {graph->value_count++};
    graph->values[value.id] = (qf_value_data){.type = type, .result_index = graph->input_count, .name = name};
    graph->declared[graph->input_count] = (qf_type){0};
    graph->inputs[graph->input_count++] = value;
    return value;
}

bool qf_graph_set_outputs(qf_graph *graph, const qf_value *outputs, const qf_string *names, uint32_t count) {
    if (!QF_GROW(graph->context, graph->output_names, graph->output_name_capacity, count)) return false;
    qf_node_spec spec = {.op = QF_OP_return, .operands = outputs, .operand_count = count};
    if (!qf_graph_insert(graph, (qf_node){0}, &spec).id) return false;
    for (uint32_t i = 0; i < count; i++) graph->output_names[i] = names ? names[i] : (qf_string){0};
    graph->output_name_count = count;
    return true;
}

/* --- guards, facts, adopted objects --- */

static uint64_t hash_guard(const qf_guard *guard) {
    uint32_t a = guard->left.id, b = guard->right.id;
    return a < b ? qf_hash_mix(qf_hash_mix(19, a), b) : qf_hash_mix(qf_hash_mix(19, b), a);
}

static bool guard_equal(const void *owner, uint32_t id, const void *key) {
    const qf_guard *a = &((const qf_graph *)owner)->guards[id - 1], *b = key;
    return (a->left.id == b->left.id && a->right.id == b->right.id) ||
           (a->left.id == b->right.id && a->right.id == b->left.id);
}

bool qf_graph_add_guard(qf_graph *graph, qf_dim left, qf_dim right, qf_location location) {
    const qf_guard guard = {left, right, location};
    uint64_t hash = hash_guard(&guard);
    for (uint32_t i = graph->guard_index.count; i < graph->guard_count; i++) /* of the graph that this is a clone of */
        if (!qf_index_add(graph->context, &graph->guard_index, hash_guard(&graph->guards[i]), i + 1)) return false;
    if (qf_index_find(&graph->guard_index, hash, guard_equal, graph, &guard)) return true;
    if (!QF_GROW(graph->context, graph->guards, graph->guard_capacity, (uint64_t)graph->guard_count + 1) ||
        !qf_index_add(graph->context, &graph->guard_index, hash, graph->guard_count + 1))
        return false;
    graph->guards[graph->guard_count++] = guard;
    return true;
}

static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x > INT64_MAX / b ? a : a / x * b;
}

bool qf_graph_add_fact(qf_graph *graph, qf_symbol_fact fact) {
    if (fact.divisor < 1) fact.divisor = 1;
    for (uint32_t i = 0; i < graph->fact_count; i++) {
        qf_symbol_fact *known = &graph->facts[i];
        if (known->symbol.id != fact.symbol.id) continue;
        if (fact.minimum > known->minimum) known->minimum = fact.minimum;
        if (fact.maximum < known->maximum) known->maximum = fact.maximum;
        known->divisor = common_multiple(known->divisor, fact.divisor);
        return true;
    }
    if (!QF_GROW(graph->context, graph->facts, graph->fact_capacity, (uint64_t)graph->fact_count + 1)) return false;
    graph->facts[graph->fact_count++] = fact;
    return true;
}

bool qf_graph_adopt(qf_graph *graph, void *object, void (*release)(qf_context *context, void *object)) {
    if (!QF_GROW(graph->context, graph->adopted, graph->adopted_capacity, (uint64_t)graph->adopted_count + 1))
        return false;
    graph->adopted[graph->adopted_count++] = (qf_adopted){object, release};
    return true;
}
