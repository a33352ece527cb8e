/* Owns: the memory plan: lives, in-place updates proven or refused, outputs' memory, workspace slots.
 * Does not own: which values are aliases (placement.c), offsets in bytes (computed at launch from slots' sizes).
 * Next: lower.h; docs/plan.md. */
#include <string.h>

#include "codegen/lower.h"

qf_storage *qf_lower_storage(const qf_lowering *lowering, qf_value value) {
    uint32_t root = lowering->placements[value.id].root.id;
    while (lowering->storages[root].joined.id) root = lowering->storages[root].joined.id;
    return &lowering->storages[root];
}

static bool is_placed(const qf_lowering *lowering, qf_value value) {
    return value.id && lowering->placements[value.id].root.id;
}

static void use(const qf_lowering *lowering, qf_value value, uint32_t step) {
    if (!is_placed(lowering, value)) return;
    qf_storage *storage = qf_lower_storage(lowering, value);
    if (storage->last_use == QF_NO_STEP || step > storage->last_use) storage->last_use = step;
}

/* First writes and last uses as if nothing were updated in place. */
static void find_lives(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    for (uint32_t i = 0; i < graph->value_count; i++)
        lowering->storages[i] =
            (qf_storage){.last_use = QF_NO_STEP, .first_write = QF_NO_STEP, .kind = QF_PLAN_WORKSPACE};
    for (uint32_t i = 0; i < graph->input_count; i++) {
        lowering->storages[graph->inputs[i].id].kind = QF_PLAN_INPUT;
        lowering->storages[graph->inputs[i].id].index = i;
    }
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        uint32_t step = data->op == QF_OP_return ? lowering->step_count : lowering->step_of_node[node.id];
        for (uint32_t i = 0; step != QF_NO_STEP && i < data->operand_count; i++)
            use(lowering, data->operands[i].value, step);
        for (uint32_t i = 0; i < data->result_count; i++) {
            qf_storage *storage = &lowering->storages[qf_result_at(data, i).id];
            storage->first_write = step;
            if (data->op == QF_OP_constant) storage->kind = QF_PLAN_CONSTANT;
            if (data->op == QF_OP_parameter) storage->kind = QF_PLAN_PARAMETER;
        }
    }
}

/* Why the operand's memory may not become the result's, or NULL. */
static const char *refusal(const qf_lowering *lowering, qf_node node, uint32_t operand, const qf_storage *storage) {
    const qf_node_data *data = qf_node_at(lowering->graph, node);
    qf_value value = data->operands[operand].value;
    if (storage->kind == QF_PLAN_PARAMETER || storage->kind == QF_PLAN_CONSTANT)
        return "copied: the old version is a weight or constant, which is never written";
    if (!lowering->placements[value.id].whole) return "copied: the old version is a part of a larger tensor";
    if (storage->last_use == lowering->step_count) return "copied: the old version is an output of the graph";
    if (storage->last_use > lowering->step_of_node[node.id]) return "copied: the old version is read by a later step";
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (i != operand && is_placed(lowering, data->operands[i].value) &&
            qf_lower_storage(lowering, data->operands[i].value) == storage)
            return "copied: another operand lies in the same memory";
    return NULL;
}

static bool note(qf_lowering *lowering, qf_node node, const char *text, uint32_t *out_string) {
    uint32_t string = qf_plan_add_string(lowering->plan, qf_text_of(text));
    if (string == UINT32_MAX) return false;
    lowering->note_of_node[node.id] = string;
    if (out_string) *out_string = string;
    return true;
}

/* Joins result and operand where the table allows and the graph permits it; an input is claimed, to be taken over by an
 * output. */
static bool update_in_place(qf_lowering *lowering, qf_node node, uint32_t result) {
    const qf_graph *graph = lowering->graph;
    int32_t operand = qf_kernel_in_place_operand(qf_node_op(graph, node), result);
    qf_value to = qf_node_result(graph, node, result);
    if (operand < 0 || !is_placed(lowering, to)) return true;
    qf_value from = qf_node_operand(graph, node, (uint32_t)operand);
    if (!is_placed(lowering, from)) return true;
    qf_storage *old = qf_lower_storage(lowering, from), *new = &lowering->storages[to.id];
    const char *why = refusal(lowering, node, (uint32_t)operand, old);
    if (why) return note(lowering, node, why, &new->reason);
    if (old->kind == QF_PLAN_INPUT) {
        new->claim = old->index + 1;
        return note(lowering, node, "in place where the host binds input and output to the same memory", NULL);
    }
    new->joined = (qf_value){(uint32_t)(old - lowering->storages)};
    if (new->last_use != QF_NO_STEP &&new->last_use > old->last_use) old->last_use = new->last_use;
    return note(lowering, node, "in place", NULL);
}

/* The first output that covers a whole storage gets to hold it; others are copied at the end. */
static void give_outputs(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    const qf_node_data *end = qf_node_at(graph, graph->last);
    for (uint32_t i = 0; i < end->operand_count; i++) {
        qf_value value = end->operands[i].value;
        if (!is_placed(lowering, value) || !lowering->placements[value.id].whole) continue;
        qf_storage *storage = qf_lower_storage(lowering, value);
        if (storage->kind != QF_PLAN_WORKSPACE) continue;
        storage->kind = QF_PLAN_OUTPUT;
        storage->index = i;
    }
}

/* --- slots: tenants whose lives do not overlap share one; a slot is as large as its largest tenant --- */

#define CLASSES 256 /* four a power of two */

typedef struct slots {
    uint32_t *free_of_class[CLASSES]; /* stacks */
    uint32_t count_of_class[CLASSES], capacity_of_class[CLASSES];
    uint64_t *sizes; /* nominal, by slot */
    uint32_t size_capacity;
} slots;

/* Sizes are compared for typical values of the symbols; any value runs, only reuse is better near these. */
#define TYPICAL_SYMBOL 128

static bool typical(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    const qf_graph *graph = user;
    *out_value = TYPICAL_SYMBOL;
    for (uint32_t i = 0; i < graph->fact_count; i++) {
        const qf_symbol_fact *fact = &graph->facts[i];
        if (fact->symbol.id != symbol.id) continue;
        if (*out_value < fact->minimum) *out_value = fact->minimum;
        if (*out_value > fact->maximum) *out_value = fact->maximum;
        if (fact->divisor > 1 && *out_value % fact->divisor) *out_value += fact->divisor - *out_value % fact->divisor;
    }
    return true;
}

static uint64_t nominal_size(const qf_lowering *lowering, qf_value value) {
    const qf_graph *graph = lowering->graph;
    uint64_t count = 1;
    for (uint32_t i = 0; i < qf_value_rank(graph, value); i++) {
        int64_t dim;
        if (!qf_dim_evaluate(graph->context, qf_value_dims(graph, value)[i], typical, (void *)(uintptr_t)graph, &dim) ||
            dim < 0 || __builtin_mul_overflow(count, (uint64_t)dim, &count))
            return UINT64_MAX;
    }
    return qf_dtype_bytes(qf_value_dtype(graph, value), count);
}

static uint32_t class_of(uint64_t size) {
    if (size < 4) return (uint32_t)size;
    uint32_t power = 63 - (uint32_t)__builtin_clzll(size);
    return power * 4 + (uint32_t)(size >> (power - 2) & 3);
}

static bool release_slot(qf_lowering *lowering, slots *all, uint32_t slot) {
    uint32_t class = class_of(all->sizes[slot]); /* taken before, so there are sizes. NOLINT(*NullDereference) */
    if (!qf_grow(lowering->context, (void **)&all->free_of_class[class], &all->capacity_of_class[class],
                 (uint64_t)all->count_of_class[class] + 1, sizeof(uint32_t)))
        return false;
    all->free_of_class[class][all->count_of_class[class]++] = slot;
    return true;
}

/* The closest free slot: up to four times too large, else the largest that is too small, which then grows; else a new
 * one. */
static bool take_slot(qf_lowering *lowering, slots *all, uint64_t size, uint32_t *out_slot) {
    uint32_t class = class_of(size), found = CLASSES;
    for (uint32_t c = class; c < CLASSES && c <= class + 8 && found == CLASSES; c++)
        if (all->count_of_class[c]) found = c;
    for (uint32_t c = class; c-- > 0 && found == CLASSES;)
        if (all->count_of_class[c]) found = c;
    if (found < CLASSES) {
        *out_slot = all->free_of_class[found][--all->count_of_class[found]]; /* NOLINT(*NullDereference): counted */
    } else {
        *out_slot = lowering->slot_count;
        if (!QF_GROW(lowering->context, all->sizes, all->size_capacity, (uint64_t)lowering->slot_count + 1))
            return false;
        all->sizes[lowering->slot_count++] = 0; /* NOLINT(*NullDereference) */
    }
    if (all->sizes[*out_slot] < size) all->sizes[*out_slot] = size; /* NOLINT(*NullDereference) */
    return true;
}

static bool wants_slot(const qf_lowering *lowering, qf_value value) {
    return lowering->placements[value.id].root.id == value.id && !lowering->storages[value.id].joined.id &&
           lowering->storages[value.id].kind == QF_PLAN_WORKSPACE;
}

/* Slots of one step: results move in while operands still live, then what ended moves out. */
static bool slots_of_step(qf_lowering *lowering, slots *all, uint32_t *ending, uint32_t *next, qf_node node) {
    const qf_graph *graph = lowering->graph;
    const qf_node_data *data = qf_node_at(graph, node);
    uint32_t step = lowering->step_of_node[node.id];
    for (uint32_t i = 0; i < data->result_count; i++) {
        qf_value value = qf_result_at(data, i);
        if (!wants_slot(lowering, value)) continue;
        qf_storage *storage = &lowering->storages[value.id];
        if (!take_slot(lowering, all, nominal_size(lowering, value), &storage->index)) return false;
        uint32_t end = storage->last_use == QF_NO_STEP ? step : storage->last_use;
        next[value.id] = ending[end];
        ending[end] = value.id;
    }
    for (uint32_t id = ending[step]; id; id = next[id])
        if (!release_slot(lowering, all, lowering->storages[id].index)) return false;
    return true;
}

static bool assign_slots(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    slots all;
    memset(&all, 0, sizeof all);
    uint32_t *ending = QF_ARENA_NEW(&lowering->arena, uint32_t, (uint64_t)lowering->step_count + 1);
    uint32_t *next = QF_ARENA_NEW(&lowering->arena, uint32_t, graph->value_count);
    bool done = ending && next;
    for (qf_node node = graph->first; done && node.id; node = qf_node_at(graph, node)->next)
        if (lowering->step_of_node[node.id] != QF_NO_STEP) done = slots_of_step(lowering, &all, ending, next, node);
    for (uint32_t i = 0; i < CLASSES; i++)
        qf_release(lowering->context, all.free_of_class[i], (size_t)all.capacity_of_class[i] * sizeof(uint32_t));
    QF_FREE_ITEMS(lowering->context, all.sizes, all.size_capacity);
    return done;
}

bool qf_lower_memory(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    find_lives(lowering);
    QF_FOR_EACH_NODE(graph, node) {
        if (lowering->step_of_node[node.id] == QF_NO_STEP) continue;
        for (uint32_t i = 0; i < qf_node_at(graph, node)->result_count; i++)
            if (!update_in_place(lowering, node, i)) return false;
    }
    give_outputs(lowering);
    return assign_slots(lowering);
}
