/* Owns: dims as plan expressions; which input's axis gives each symbol its value.
 * Does not own: evaluating them (plan/plan.c, runtime).
 * Next: lower.h. */
#include <string.h>

#include "codegen/lower.h"

#define MAX_DEPTH 64

static uint32_t lower_dim(qf_lowering *lowering, qf_dim dim, uint32_t depth);

/* Makes room for index `id` in an array by id; new entries are 0. */
static bool room_for(qf_context *context, uint32_t **items, uint32_t *capacity, uint32_t id) {
    uint32_t before = *capacity;
    if (!qf_grow(context, (void **)items, capacity, (uint64_t)id + 1, sizeof **items)) return false;
    memset(*items + before, 0, (size_t)(*capacity - before) * sizeof **items);
    return true;
}

static void add_facts(const qf_lowering *lowering, qf_dim_symbol symbol, qf_plan_symbol_record *record) {
    record->minimum = 0;
    record->maximum = INT64_MAX;
    record->divisor = 1;
    for (uint32_t i = 0; i < lowering->graph->fact_count; i++) {
        const qf_symbol_fact *fact = &lowering->graph->facts[i];
        if (fact->symbol.id != symbol.id) continue;
        record->minimum = fact->minimum;
        record->maximum = fact->maximum;
        record->divisor = fact->divisor < 1 ? 1 : fact->divisor;
    }
    if (record->kind >= QF_PLAN_FLOOR_DIVIDE && record->minimum == 0) record->minimum = INT64_MIN;
}

static uint32_t add_symbol(qf_lowering *lowering, qf_dim_symbol symbol, qf_plan_symbol_record *record, qf_text name) {
    record->name = qf_plan_add_string(lowering->plan, name);
    if (record->name == UINT32_MAX) return 0;
    add_facts(lowering, symbol, record);
    if (!room_for(lowering->context, &lowering->symbols, &lowering->symbol_capacity, symbol.id)) return 0;
    return lowering->symbols[symbol.id] = qf_plan_add_symbol(lowering->plan, record);
}

static uint32_t add_derived(qf_lowering *lowering, qf_dim_symbol symbol, uint32_t depth) {
    static const uint32_t kinds[] = {[QF_SYMBOL_FLOOR_DIVIDE] = QF_PLAN_FLOOR_DIVIDE,
                                     [QF_SYMBOL_MODULO] = QF_PLAN_MODULO,
                                     [QF_SYMBOL_MINIMUM] = QF_PLAN_MINIMUM,
                                     [QF_SYMBOL_MAXIMUM] = QF_PLAN_MAXIMUM};
    qf_dim a, b;
    qf_dim_symbol_operands(lowering->context, symbol, &a, &b);
    qf_plan_symbol_record record = {.kind = kinds[qf_dim_symbol_kind(lowering->context, symbol)]};
    record.a = lower_dim(lowering, a, depth + 1);
    record.b = lower_dim(lowering, b, depth + 1);
    if (!record.a || !record.b) return 0;
    qf_buffer name = {.context = lowering->context};
    qf_dim_print(&name, lowering->context, qf_dim_of_symbol(lowering->context, symbol));
    uint32_t id = name.failed ? 0 : add_symbol(lowering, symbol, &record, (qf_text){name.data, name.size});
    qf_buffer_destroy(&name);
    return id;
}

/* Plan id of a symbol: bound before, derived from others, or left to the host. */
static uint32_t lower_symbol(qf_lowering *lowering, qf_dim_symbol symbol, uint32_t depth) {
    if (symbol.id < lowering->symbol_capacity && lowering->symbols[symbol.id]) return lowering->symbols[symbol.id];
    if (qf_dim_symbol_kind(lowering->context, symbol) != QF_SYMBOL_NAMED) return add_derived(lowering, symbol, depth);
    qf_plan_symbol_record record = {.kind = QF_PLAN_HOST};
    return add_symbol(lowering, symbol, &record,
                      qf_string_text(lowering->context, qf_dim_symbol_name(lowering->context, symbol)));
}

/* Symbols first: an expression's terms, and a term's factors, stand together in the plan. */
static bool lower_symbols_of(qf_lowering *lowering, qf_dim dim, uint32_t depth) {
    uint32_t count = qf_dim_term_count(lowering->context, dim);
    bool fits = count <= QF_PLAN_MAX_TERMS && depth < MAX_DEPTH;
    for (uint32_t i = 0; fits && i < count; i++) {
        qf_dim_term term = qf_dim_term_at(lowering->context, dim, i);
        fits = term.symbol_count <= QF_PLAN_MAX_FACTORS;
        for (uint32_t j = 0; fits && j < term.symbol_count; j++)
            if (!lower_symbol(lowering, qf_dim_term_at(lowering->context, dim, i).symbols[j], depth)) return false;
    }
    if (!fits)
        (void)qf_fail(lowering->context, QF_ERROR_LIMIT, NULL,
                      "a size has more than %d terms, %d factors or %d nested operations", QF_PLAN_MAX_TERMS,
                      QF_PLAN_MAX_FACTORS, MAX_DEPTH);
    return fits;
}

static uint32_t lower_dim(qf_lowering *lowering, qf_dim dim, uint32_t depth) {
    qf_plan *plan = lowering->plan;
    if (!dim.id) {
        (void)qf_record(lowering->context, QF_ERROR_INTERNAL);
        return 0;
    }
    if (dim.id < lowering->expression_capacity && lowering->expressions[dim.id]) return lowering->expressions[dim.id];
    if (!lower_symbols_of(lowering, dim, depth)) return 0;
    qf_plan_expression_record expression = {plan->term_count, qf_dim_term_count(lowering->context, dim)};
    for (uint32_t i = 0; i < expression.term_count; i++) {
        qf_dim_term term = qf_dim_term_at(lowering->context, dim, i);
        qf_plan_term_record record = {term.coefficient, plan->factor_count, term.symbol_count};
        for (uint32_t j = 0; j < term.symbol_count; j++) {
            qf_plan_factor_record factor = {lowering->symbols[term.symbols[j].id]};
            if (!qf_plan_add_factor(plan, &factor)) return 0;
        }
        if (!qf_plan_add_term(plan, &record)) return 0;
    }
    if (!room_for(lowering->context, &lowering->expressions, &lowering->expression_capacity, dim.id)) return 0;
    return lowering->expressions[dim.id] = qf_plan_add_expression(plan, &expression);
}

uint32_t qf_lower_dim(qf_lowering *lowering, qf_dim dim) {
    return lower_dim(lowering, dim, 0);
}

static bool is_bound(const qf_lowering *lowering, qf_dim_symbol symbol) {
    return symbol.id < lowering->symbol_capacity && lowering->symbols[symbol.id];
}

/* Every symbol inside of the dim, also those inside derived ones, has its value already. */
static bool all_bound(const qf_lowering *lowering, qf_dim dim, uint32_t depth) {
    uint32_t count = qf_dim_term_count(lowering->context, dim);
    for (uint32_t i = 0; i < count; i++) {
        qf_dim_term term = qf_dim_term_at(lowering->context, dim, i);
        for (uint32_t j = 0; j < term.symbol_count; j++) {
            if (is_bound(lowering, term.symbols[j])) continue;
            if (depth >= MAX_DEPTH || qf_dim_symbol_kind(lowering->context, term.symbols[j]) == QF_SYMBOL_NAMED)
                return false;
            qf_dim a, b;
            qf_dim_symbol_operands(lowering->context, term.symbols[j], &a, &b);
            if (!all_bound(lowering, a, depth + 1) || !all_bound(lowering, b, depth + 1)) return false;
        }
    }
    return true;
}

/* dim == factor * symbol + rest for the one unbound named symbol of `dim`; false where there is no such form. */
static bool solve(qf_lowering *lowering, qf_dim dim, qf_dim_symbol *out_symbol, qf_dim *out_factor, qf_dim *out_rest) {
    qf_context *context = lowering->context;
    *out_symbol = (qf_dim_symbol){0};
    uint32_t count = qf_dim_term_count(context, dim);
    for (uint32_t i = 0; i < count; i++) {
        qf_dim_term term = qf_dim_term_at(context, dim, i);
        for (uint32_t j = 0; j < term.symbol_count; j++) {
            if (qf_dim_symbol_kind(context, term.symbols[j]) != QF_SYMBOL_NAMED || is_bound(lowering, term.symbols[j]))
                continue;
            if (out_symbol->id && out_symbol->id != term.symbols[j].id) return false;
            *out_symbol = term.symbols[j];
        }
    }
    if (!out_symbol->id) return false;
    *out_rest = qf_dim_substitute(context, dim, *out_symbol, qf_dim_constant(context, 0));
    if (!out_rest->id) return false;
    qf_dim linear = qf_dim_subtract(context, dim, *out_rest);
    *out_factor = qf_dim_divide_exactly(context, linear, qf_dim_of_symbol(context, *out_symbol));
    return out_factor->id && !qf_dim_mentions(context, *out_factor, *out_symbol) &&
           !qf_dim_mentions(context, *out_rest, *out_symbol) && all_bound(lowering, *out_factor, 0) &&
           all_bound(lowering, *out_rest, 0);
}

static bool bind(qf_lowering *lowering, qf_dim_symbol symbol, uint32_t input, uint32_t axis, qf_dim factor,
                 qf_dim rest) {
    qf_plan_symbol_record record = {.kind = QF_PLAN_BOUND, .input = input, .axis = axis};
    if (!qf_dim_is(lowering->context, factor, 1) && !(record.a = qf_lower_dim(lowering, factor))) return false;
    if (!qf_dim_is(lowering->context, rest, 0) && !(record.b = qf_lower_dim(lowering, rest))) return false;
    return add_symbol(lowering, symbol, &record,
                      qf_string_text(lowering->context, qf_dim_symbol_name(lowering->context, symbol))) != 0;
}

/* One round over all inputs: axes that are a symbol first, then axes that can be solved for one. */
static bool bind_round(qf_lowering *lowering, bool solving, bool *out_changed) {
    const qf_graph *graph = lowering->graph;
    qf_context *context = lowering->context;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_type type = qf_input_type(graph, i);
        uint32_t rank = qf_type_rank(context, type);
        for (uint32_t axis = 0; rank != QF_UNRANKED && axis < rank; axis++) {
            qf_dim dim = qf_type_dims(context, type)[axis];
            qf_dim_symbol symbol = qf_dim_as_symbol(context, dim);
            qf_dim factor = qf_dim_constant(context, 1), rest = qf_dim_constant(context, 0);
            bool found =
                symbol.id && qf_dim_symbol_kind(context, symbol) == QF_SYMBOL_NAMED && !is_bound(lowering, symbol);
            if (!found && solving) found = solve(lowering, dim, &symbol, &factor, &rest);
            if (!found) continue;
            if (!bind(lowering, symbol, i, axis, factor, rest)) return false;
            *out_changed = true;
        }
    }
    return true;
}

bool qf_lower_symbols(qf_lowering *lowering) {
    bool changed = false;
    if (!bind_round(lowering, false, &changed)) return false;
    do {
        changed = false;
        if (!bind_round(lowering, true, &changed)) return false;
    } while (changed);
    return qf_context_status(lowering->context) != QF_ERROR_OUT_OF_MEMORY;
}
