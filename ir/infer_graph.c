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

/* A replacement mentions no symbol that an earlier item replaces. */
typedef struct substitutions {
    qf_graph *graph;
    substitution *items;
    uint32_t count, capacity;
    qf_index by_symbol; /* positions in items, from 1 */
    qf_index of_inputs; /* symbols that types of inputs mention */
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
    for (uint32_t i = 0; i < data->result_count; i++) room->types[i] = qf_value_type(graph, qf_result_at(data, i));
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
        qf_type known = qf_value_type(graph, qf_result_at(data, i));
        if (known.id == room->types[i].id) continue;
        qf_type type = refine(context, known, room->types[i]);
        if (!type.id) return recorded(context);
        qf_graph_set_type(graph, qf_result_at(data, i), type);
    }
    return QF_OK;
}

/* --- choosing what gives way --- */

static uint64_t hash_symbol(uint32_t symbol) {
    return qf_hash_mix(23, symbol);
}

static bool is_symbol(const void *owner, uint32_t id, const void *key) {
    (void)owner;
    return id == *(const uint32_t *)key;
}

static bool replaces_symbol(const void *owner, uint32_t id, const void *key) {
    return ((const substitutions *)owner)->items[id - 1].symbol.id == *(const uint32_t *)key;
}

static bool inputs_mention(const substitutions *list, qf_dim_symbol symbol) {
    return qf_index_find(&list->of_inputs, hash_symbol(symbol.id), is_symbol, NULL, &symbol.id) != 0;
}

static bool add_symbols_of_inputs(substitutions *list, qf_dim dim) {
    qf_context *context = list->graph->context;
    for (uint32_t t = 0; t < qf_dim_term_count(context, dim); t++) {
        qf_dim_term term = qf_dim_term_at(context, dim, t);
        for (uint32_t i = 0; i < term.symbol_count; i++) {
            qf_dim_symbol symbol = term.symbols[i];
            if (inputs_mention(list, symbol)) continue;
            if (!qf_index_add(context, &list->of_inputs, hash_symbol(symbol.id), symbol.id)) return false;
            if (qf_dim_symbol_kind(context, symbol) == QF_SYMBOL_NAMED) continue;
            qf_dim a, b;
            qf_dim_symbol_operands(context, symbol, &a, &b);
            if (!add_symbols_of_inputs(list, a) || !add_symbols_of_inputs(list, b)) return false;
        }
    }
    return true;
}

static bool list_symbols_of_inputs(substitutions *list) {
    const qf_graph *graph = list->graph;
    qf_index_destroy(graph->context, &list->of_inputs);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_type type = qf_value_type(graph, graph->inputs[i]);
        for (uint32_t d = 0; qf_type_is_ranked(graph->context, type) && d < qf_type_rank(graph->context, type); d++)
            if (!add_symbols_of_inputs(list, qf_type_dims(graph->context, type)[d])) return false;
    }
    return true;
}

/* Derived symbols give way first, then those that no input binds, then input symbols; to constants rather than symbols,
 * to symbols rather than sums. */
static int preference(const substitutions *list, qf_dim_symbol symbol, qf_dim replacement) {
    const qf_context *context = list->graph->context;
    int rank = qf_dim_symbol_kind(context, symbol) != QF_SYMBOL_NAMED ? 2 : !inputs_mention(list, symbol);
    int plain = qf_dim_is_constant(context, replacement, NULL) ? 2 : qf_dim_as_symbol(context, replacement).id != 0;
    return rank * 3 + plain;
}

/* Solves left == right for one symbol that stands alone in a term; symbol 0 where there is none. */
static substitution solve(const substitutions *list, qf_dim left, qf_dim right) {
    qf_graph *graph = list->graph;
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
        int wanted = preference(list, term.symbols[0], replacement);
        if (wanted < best_preference) continue;
        best_preference = wanted;
        best = (substitution){term.symbols[0], replacement};
    }
    return best;
}

/* --- substitution --- */

/* The earliest item that replaces a symbol of `dim`, also inside derived symbols; 0: none. */
static uint32_t first_mentioned(const substitutions *list, qf_dim dim) {
    const qf_context *context = list->graph->context;
    uint32_t first = 0;
    for (uint32_t t = 0; t < qf_dim_term_count(context, dim); t++) {
        qf_dim_term term = qf_dim_term_at(context, dim, t);
        for (uint32_t i = 0; i < term.symbol_count; i++) {
            qf_dim_symbol symbol = term.symbols[i];
            uint32_t found[3] = {
                qf_index_find(&list->by_symbol, hash_symbol(symbol.id), replaces_symbol, list, &symbol.id)};
            if (qf_dim_symbol_kind(context, symbol) != QF_SYMBOL_NAMED) {
                qf_dim a, b;
                qf_dim_symbol_operands(context, symbol, &a, &b);
                found[1] = first_mentioned(list, a);
                found[2] = first_mentioned(list, b);
            }
            for (uint32_t f = 0; f < QF_COUNT_OF(found); f++)
                if (found[f] && (!first || found[f] < first)) first = found[f];
        }
    }
    return first;
}

static qf_dim substitute_all(qf_context *context, qf_dim dim, const substitutions *list) {
    for (uint32_t i; dim.id && (i = first_mentioned(list, dim));)
        dim = qf_dim_substitute(context, dim, list->items[i - 1].symbol, list->items[i - 1].replacement);
    return dim;
}

static qf_dim rewrite_dim(void *user, qf_context *context, qf_dim dim) {
    return substitute_all(context, dim, user);
}

static bool add_substitution(substitutions *list, substitution found) {
    qf_context *context = list->graph->context;
    if (!QF_GROW(context, list->items, list->capacity, (uint64_t)list->count + 1)) return false;
    list->items[list->count++] = found;
    if (!qf_index_add(context, &list->by_symbol, hash_symbol(found.symbol.id), list->count)) return false;
    return !inputs_mention(list, found.symbol) || add_symbols_of_inputs(list, found.replacement);
}

/* Chains of symbols that replace each other become short: each replacement is brought to its end once, from the last
 * on, which mentions no replaced symbol. */
static bool resolve(substitutions *list) {
    for (uint32_t i = list->count; i-- > 0;) {
        list->items[i].replacement = substitute_all(list->graph->context, list->items[i].replacement, list);
        if (!list->items[i].replacement.id) return false;
    }
    return true;
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

/* Turns each guard that still says something into a substitution, and makes all of them in one walk. */
static qf_status substitute_guards(substitutions *list, bool *changed) {
    qf_graph *graph = list->graph;
    qf_context *context = graph->context;
    if (!graph->guard_count) return QF_OK;
    if (!list_symbols_of_inputs(list)) return QF_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < graph->guard_count; i++) {
        qf_guard guard = graph->guards[i];
        qf_dim left = substitute_all(context, guard.left, list), right = substitute_all(context, guard.right, list);
        if (!left.id || !right.id) return recorded(context);
        if (qf_dim_equal(left, right)) continue;
        qf_infer_call probe = {.graph = graph};
        if (infer_equal(&probe, left, right) == INFER_NO) return contradiction(graph, &guard, left, right);
        substitution found = solve(list, left, right);
        if (found.symbol.id && !add_substitution(list, found)) return QF_ERROR_OUT_OF_MEMORY;
    }
    if (!list->count) return QF_OK;
    return resolve(list) && qf_graph_rewrite_dims(graph, rewrite_dim, list, changed) ? QF_OK : recorded(context);
}

static qf_status infer_rounds(qf_graph *graph, scratch *room, substitutions *list) {
    for (uint32_t round = 1;; round++) {
        bool changed = false;
        QF_FOR_EACH_NODE(graph, node) INFER_TRY(infer_node(graph, node, room));
        if (round == MAX_ROUNDS || !graph->guard_count) return QF_OK;
        INFER_TRY(substitute_guards(list, &changed));
        if (!changed) return QF_OK;
    }
}

static void release(qf_graph *graph, scratch *room, substitutions *list) {
    QF_FREE_ITEMS(graph->context, room->operands, room->operand_capacity);
    QF_FREE_ITEMS(graph->context, room->types, room->type_capacity);
    QF_FREE_ITEMS(graph->context, list->items, list->capacity);
    qf_index_destroy(graph->context, &list->by_symbol);
    qf_index_destroy(graph->context, &list->of_inputs);
}

qf_status qf_graph_infer_all(qf_graph *graph) {
    scratch room = {NULL, NULL, 0, 0};
    substitutions list = {.graph = graph};
    qf_status status = infer_rounds(graph, &room, &list);
    release(graph, &room, &list);
    return status;
}

qf_status qf_graph_apply_guards(qf_graph *graph, bool *out_changed) {
    scratch room = {NULL, NULL, 0, 0};
    substitutions list = {.graph = graph};
    *out_changed = false;
    qf_status status = substitute_guards(&list, out_changed);
    if (status == QF_OK && *out_changed) status = infer_rounds(graph, &room, &list);
    release(graph, &room, &list);
    return status;
}
