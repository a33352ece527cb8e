/* Owns: inference over whole graphs: assumed equalities become substitutions, and types are propagated again.
 * Does not own: single nodes (infer.c), where equalities come from (infer_*.c).
 * Next: infer.h. */
#include <string.h>

#include "ir/infer.h"
#include "ir/infer_rules.h"

#define MAX_ROUNDS 4

/* Room for one node's operands and results, reused from node to node. */
typedef struct scratch {
    qf_value *operands;
    qf_type *types;
    uint32_t operand_capacity, type_capacity;
} scratch;

typedef struct substitution {
    qf_dim_symbol symbol;
    qf_dim replacement;
} substitution;

typedef struct substitutions {
    substitution *items;
    uint32_t count, capacity;
} substitutions;

/* The failure that a callee recorded; dims record limits without a message. */
static qf_status recorded(const qf_context *context) {
    return context->status != QF_OK ? context->status : QF_ERROR_LIMIT;
}

/* What was known of a result and the rule cannot know better is kept. */
static qf_type refine(qf_context *context, qf_type known, qf_type inferred) {
    qf_dtype dtype = qf_type_dtype(context, inferred);
    if (dtype == QF_DTYPE_NONE) dtype = qf_type_dtype(context, known);
    bool ranked = qf_type_is_ranked(context, inferred);
    return qf_type_with_dtype(context, ranked || !qf_type_is_ranked(context, known) ? inferred : known, dtype);
}

static qf_status infer_node(qf_graph *graph, qf_node node, scratch *room) {
    qf_context *context = graph->context;
    const qf_node_data *data = qf_node_at(graph, node);
    if (!QF_GROW(context, room->operands, room->operand_capacity, data->operand_count) ||
        !QF_GROW(context, room->types, room->type_capacity, data->result_count))
        return QF_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < data->operand_count; i++) room->operands[i] = data->operands[i].value;
    for (uint32_t i = 0; i < data->result_count; i++) room->types[i] = qf_value_type(graph, data->results[i]);
    qf_infer_call call = {.graph = graph,
                          .info = qf_op_info_of(data->op),
                          .operands = room->operands,
                          .operand_count = data->operand_count,
                          .attributes = data->attributes,
                          .result_count = data->result_count,
                          .out_types = room->types,
                          .location = data->location};
    INFER_TRY(qf_infer(&call));
    for (uint32_t i = 0; i < data->result_count; i++) {
        qf_type known = qf_value_type(graph, data->results[i]);
        if (known.id == room->types[i].id) continue;
        qf_type type = refine(context, known, room->types[i]);
        if (!type.id) return recorded(context);
        qf_graph_set_type(graph, data->results[i], type);
    }
    return QF_OK;
}

/* --- choosing what gives way --- */

static bool inputs_mention(const qf_graph *graph, qf_dim_symbol symbol) {
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_type type = qf_value_type(graph, graph->inputs[i]);
        for (uint32_t d = 0; qf_type_is_ranked(graph->context, type) && d < qf_type_rank(graph->context, type); d++)
            if (qf_dim_mentions(graph->context, qf_type_dims(graph->context, type)[d], symbol)) return true;
    }
    return false;
}

/* Derived symbols give way first, then those that no input binds, then input symbols; to constants rather than symbols,
 * to symbols rather than sums. */
static int preference(const qf_graph *graph, qf_dim_symbol symbol, qf_dim replacement) {
    const qf_context *context = graph->context;
    int rank = qf_dim_symbol_kind(context, symbol) != QF_SYMBOL_NAMED ? 2 : !inputs_mention(graph, symbol);
    int plain = qf_dim_is_constant(context, replacement, NULL) ? 2 : qf_dim_as_symbol(context, replacement).id != 0;
    return rank * 3 + plain;
}

/* Solves left == right for one symbol that stands alone in a term; symbol 0 where there is none. */
static substitution solve(qf_graph *graph, qf_dim left, qf_dim right) {
    qf_context *context = graph->context;
    substitution best = {{0}, {0}};
    qf_symbol_facts facts = qf_graph_facts(graph);
    int best_preference = -1;
    qf_dim difference = qf_dim_subtract(context, left, right);
    if (!difference.id) return best;
    for (uint32_t t = 0; t < qf_dim_term_count(context, difference); t++) {
        qf_dim_term term = qf_dim_term_at(context, difference, t);
        if (term.symbol_count != 1 || (term.coefficient != 1 && term.coefficient != -1)) continue;
        qf_dim symbol = qf_dim_of_symbol(context, term.symbols[0]);
        qf_dim replacement = term.coefficient == 1 ? qf_dim_subtract(context, symbol, difference)
                                                   : qf_dim_add(context, symbol, difference);
        if (!replacement.id || qf_dim_mentions(context, replacement, term.symbols[0])) continue;
        if (!qf_dim_nonnegative(context, &facts, replacement)) continue;
        int wanted = preference(graph, term.symbols[0], replacement);
        if (wanted < best_preference) continue;
        best_preference = wanted;
        best = (substitution){term.symbols[0], replacement};
    }
    return best;
}

/* --- substitution --- */

static bool type_mentions(const qf_context *context, qf_type type, qf_dim_symbol symbol) {
    uint32_t rank = qf_type_is_ranked(context, type) ? qf_type_rank(context, type) : 0;
    for (uint32_t i = 0; i < rank; i++)
        if (qf_dim_mentions(context, qf_type_dims(context, type)[i], symbol)) return true;
    return false;
}

static bool node_mentions(const qf_graph *graph, const qf_node_data *node, qf_dim_symbol symbol) {
    const qf_op_info *info = qf_op_info_of(node->op);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        const qf_attribute *attribute = &node->attributes[i];
        if (info->attributes[i].kind == QF_ATTRIBUTE_DIM && qf_dim_mentions(graph->context, attribute->dim, symbol))
            return true;
        for (uint32_t d = 0; info->attributes[i].kind == QF_ATTRIBUTE_DIMS && d < attribute->count; d++)
            if (qf_dim_mentions(graph->context, attribute->dims[d], symbol)) return true;
    }
    return false;
}

static bool graph_mentions(const qf_graph *graph, qf_dim_symbol symbol) {
    for (uint32_t i = 0; i < graph->input_count; i++)
        if (type_mentions(graph->context, qf_value_type(graph, graph->inputs[i]), symbol)) return true;
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        for (uint32_t i = 0; i < data->result_count; i++)
            if (type_mentions(graph->context, qf_value_type(graph, data->results[i]), symbol)) return true;
        if (node_mentions(graph, data, symbol)) return true;
    }
    return false;
}

static qf_dim substitute_all(qf_context *context, qf_dim dim, const substitutions *list) {
    for (uint32_t i = 0; i < list->count; i++)
        dim = qf_dim_substitute(context, dim, list->items[i].symbol, list->items[i].replacement);
    return dim;
}

static qf_status contradiction(qf_graph *graph, const qf_guard *guard, qf_dim left, qf_dim right) {
    qf_context *context = graph->context;
    qf_buffer message = {.context = context}, place = {.context = context};
    qf_dim_print(&message, context, left);
    qf_buffer_text(&message, QF_TEXT(" and "));
    qf_dim_print(&message, context, right);
    qf_location_print(&place, graph, guard->location);
    qf_position position = {.location = place.data};
    qf_status status = qf_fail(context, QF_ERROR_VERIFY, &position,
                               "sizes %s must be equal here, which other sizes that must be equal rule out",
                               message.failed ? "" : message.data);
    qf_buffer_destroy(&place);
    qf_buffer_destroy(&message);
    return status;
}

/* Turns each guard that still says something into a substitution. */
static qf_status substitute_guards(qf_graph *graph, substitutions *list, bool *changed) {
    qf_context *context = graph->context;
    for (uint32_t i = 0; i < graph->guard_count; i++) {
        qf_guard guard = graph->guards[i];
        qf_dim left = substitute_all(context, guard.left, list), right = substitute_all(context, guard.right, list);
        if (!left.id || !right.id) return recorded(context);
        if (qf_dim_equal(left, right)) continue;
        qf_infer_call probe = {.graph = graph};
        if (infer_equal(&probe, left, right) == INFER_NO) return contradiction(graph, &guard, left, right);
        substitution found = solve(graph, left, right);
        if (!found.symbol.id) continue;
        if (!QF_GROW(context, list->items, list->capacity, (uint64_t)list->count + 1)) return QF_ERROR_OUT_OF_MEMORY;
        list->items[list->count++] = found;
        if (!graph_mentions(graph, found.symbol)) continue;
        if (!qf_graph_substitute(graph, found.symbol, found.replacement)) return recorded(context);
        *changed = true;
    }
    return QF_OK;
}

static qf_status infer_rounds(qf_graph *graph, scratch *room, substitutions *list) {
    for (uint32_t round = 1;; round++) {
        bool changed = false;
        QF_FOR_EACH_NODE(graph, node) INFER_TRY(infer_node(graph, node, room));
        if (round == MAX_ROUNDS || !graph->guard_count) return QF_OK;
        INFER_TRY(substitute_guards(graph, list, &changed));
        if (!changed) return QF_OK;
    }
}

static void release(qf_graph *graph, scratch *room, substitutions *list) {
    QF_FREE_ITEMS(graph->context, room->operands, room->operand_capacity);
    QF_FREE_ITEMS(graph->context, room->types, room->type_capacity);
    QF_FREE_ITEMS(graph->context, list->items, list->capacity);
}

qf_status qf_graph_infer_all(qf_graph *graph) {
    scratch room = {NULL, NULL, 0, 0};
    substitutions list = {NULL, 0, 0};
    qf_status status = infer_rounds(graph, &room, &list);
    release(graph, &room, &list);
    return status;
}

qf_status qf_graph_apply_guards(qf_graph *graph, bool *out_changed) {
    scratch room = {NULL, NULL, 0, 0};
    substitutions list = {NULL, 0, 0};
    *out_changed = false;
    qf_status status = substitute_guards(graph, &list, out_changed);
    if (status == QF_OK && *out_changed) status = infer_rounds(graph, &room, &list);
    release(graph, &room, &list);
    return status;
}
