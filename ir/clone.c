/* Owns: copying, exchanging and substituting over whole graphs.
 * Does not own: single nodes and values (graph.c).
 * Next: graph.h. */
#include <string.h>

#include "ir/graph.h"

#define COPY_ITEMS(context, to, from, items, count, capacity)                                                          \
    (QF_GROW(context, (to)->items, (to)->capacity, (from)->count) &&                                                   \
     ((from)->count == 0 || memcpy((to)->items, (from)->items, (from)->count * sizeof *(from)->items)) &&              \
     (((to)->count = (from)->count), true))

/* Uses still point into the original. */
static bool clone_node(qf_graph *to, const qf_node_data *from, qf_node_data *copy) {
    *copy = *from;
    if (from->erased) {
        copy->operand_count = copy->result_count = 0;
        copy->operands = NULL;
        copy->attributes = NULL;
        return true;
    }
    const qf_op_info *info = qf_op_info_of(from->op);
    size_t operands = from->operand_count * sizeof(qf_use), attributes = info->attribute_count * sizeof(qf_attribute);
    char *room = qf_arena_room(&to->arena, 1, operands + attributes);
    if (!room) return false;
    copy->operands = (void *)room;
    copy->attributes = (void *)(room + operands);
    if (operands) memcpy(copy->operands, from->operands, operands);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        copy->attributes[i] = from->attributes[i];
        if (!qf_attribute_own(&to->arena, info->attributes[i].kind, &copy->attributes[i])) return false;
    }
    return true;
}

static qf_use *counterpart(const qf_graph *from, const qf_graph *to, const qf_use *use) {
    return use ? &to->nodes[use->user.id].operands[qf_use_index(from, use)] : NULL;
}

/* Lists keep their order. Node by node: neighbours in a list are mostly the same operand of the layers before and
 * after, which are near then. */
static void relink_uses(const qf_graph *from, qf_graph *to) {
    for (uint32_t n = 1; n < to->node_count; n++)
        for (uint32_t i = 0; i < to->nodes[n].operand_count; i++) {
            qf_use *use = &to->nodes[n].operands[i];
            use->next = counterpart(from, to, use->next);
            use->previous = counterpart(from, to, use->previous);
            if (use->value.id && !use->previous) to->values[use->value.id].first_use = use;
        }
}

static bool clone_locations(const qf_graph *from, qf_graph *to) {
    if (!COPY_ITEMS(to->context, to, from, locations, location_count, location_capacity)) return false;
    for (uint32_t i = 1; i < to->location_count; i++) {
        qf_location_data *location = &to->locations[i];
        if (!location->part_count) continue;
        location->parts = qf_arena_copy(&to->arena, location->parts, location->part_count * sizeof *location->parts);
        if (!location->parts) return false;
    }
    to->location_index = (qf_index){.capacity = from->location_index.capacity, .count = from->location_index.count};
    if (!from->location_index.capacity) return true;
    size_t size = (size_t)from->location_index.capacity * sizeof *from->location_index.slots;
    to->location_index.slots = qf_allocate(to->context, size);
    if (!to->location_index.slots) {
        to->location_index.capacity = 0;
        return false;
    }
    memcpy(to->location_index.slots, from->location_index.slots, size);
    return true;
}

static bool copy_declared(const qf_graph *from, qf_graph *to) {
    if (!QF_GROW(to->context, to->declared, to->declared_capacity, from->input_count)) return false;
    if (from->input_count) memcpy(to->declared, from->declared, from->input_count * sizeof *from->declared);
    return true;
}

static bool clone_into(const qf_graph *from, qf_graph *to) {
    qf_context *context = to->context;
    if (!COPY_ITEMS(context, to, from, values, value_count, value_capacity) ||
        !QF_GROW(context, to->nodes, to->node_capacity, from->node_count) ||
        !COPY_ITEMS(context, to, from, inputs, input_count, input_capacity) || !copy_declared(from, to) ||
        !COPY_ITEMS(context, to, from, output_names, output_name_count, output_name_capacity) ||
        !COPY_ITEMS(context, to, from, facts, fact_count, fact_capacity) ||
        !COPY_ITEMS(context, to, from, guards, guard_count, guard_capacity) ||
        !COPY_ITEMS(context, to, from, weights, weight_count, weight_capacity) || !clone_locations(from, to))
        return false;
    to->nodes[0] = from->nodes[0];
    for (uint32_t i = 1; i < from->node_count; i++)
        if (!clone_node(to, &from->nodes[i], &to->nodes[i])) return false;
    to->node_count = from->node_count;
    to->live_node_count = from->live_node_count;
    to->first = from->first;
    to->last = from->last;
    to->next_tag = from->next_tag;
    to->text_file = from->text_file;
    relink_uses(from, to);
    return true;
}

qf_graph *qf_graph_clone(const qf_graph *graph) {
    qf_graph *copy = NULL;
    if (qf_graph_create(graph->context, qf_string_c(graph->context, graph->name), &copy) != QF_OK) {
        (void)qf_record(graph->context, QF_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    if (!clone_into(graph, copy)) {
        qf_graph_destroy(copy);
        return NULL;
    }
    return copy;
}

void qf_graph_swap(qf_graph *a, qf_graph *b) {
    qf_graph swapped = *a;
    *a = *b;
    *b = swapped;
    qf_adopted *adopted = a->adopted;
    uint32_t count = a->adopted_count, capacity = a->adopted_capacity;
    a->adopted = b->adopted;
    a->adopted_count = b->adopted_count;
    a->adopted_capacity = b->adopted_capacity;
    b->adopted = adopted;
    b->adopted_count = count;
    b->adopted_capacity = capacity;
}

/* --- dims of a whole graph --- */

typedef struct dim_rewriting {
    qf_graph *graph;
    qf_dim_rewrite rewrite;
    void *user;
    bool changed;
} dim_rewriting;

static bool rewrite_dim(dim_rewriting *r, qf_dim *dim) {
    if (!dim->id) return true;
    qf_dim changed = r->rewrite(r->user, r->graph->context, *dim);
    r->changed |= changed.id != dim->id;
    *dim = changed;
    return changed.id != 0;
}

static bool rewrite_list(dim_rewriting *r, const qf_dim **dims, uint32_t count) {
    if (!count) return true;
    qf_dim *changed = NULL;
    for (uint32_t i = 0; i < count; i++) {
        qf_dim dim = (*dims)[i];
        if (!rewrite_dim(r, &dim)) return false;
        if (dim.id == (*dims)[i].id) continue;
        if (!changed) changed = qf_arena_copy(&r->graph->arena, *dims, count * sizeof *changed);
        if (!changed) return false;
        changed[i] = dim;
    }
    if (changed) *dims = changed;
    return true;
}

static bool rewrite_type(dim_rewriting *r, qf_type *type) {
    qf_context *context = r->graph->context;
    if (!type->id || !qf_type_is_ranked(context, *type)) return true;
    uint32_t rank = qf_type_rank(context, *type);
    qf_dim changed[QF_MAX_RANK];
    bool differs = false;
    for (uint32_t i = 0; i < rank; i++) {
        changed[i] = qf_type_dims(context, *type)[i];
        if (!rewrite_dim(r, &changed[i])) return false;
        differs |= changed[i].id != qf_type_dims(context, *type)[i].id;
    }
    if (differs) *type = qf_type_tensor(context, qf_type_dtype(context, *type), changed, rank);
    return type->id != 0;
}

static bool rewrite_values(dim_rewriting *r) {
    for (uint32_t v = 1; v < r->graph->value_count; v++)
        if (!rewrite_type(r, &r->graph->values[v].type)) return false;
    return true;
}

static bool rewrite_attributes(dim_rewriting *r, qf_node_data *data) {
    const qf_op_info *info = qf_op_info_of(data->op);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        qf_attribute *attribute = &data->attributes[i];
        if (info->attributes[i].kind == QF_ATTRIBUTE_DIM && !rewrite_dim(r, &attribute->dim)) return false;
        if (info->attributes[i].kind == QF_ATTRIBUTE_DIMS && !rewrite_list(r, &attribute->dims, attribute->count))
            return false;
    }
    return true;
}

bool qf_graph_rewrite_dims(qf_graph *graph, qf_dim_rewrite rewrite, void *user, bool *out_changed) {
    dim_rewriting r = {.graph = graph, .rewrite = rewrite, .user = user};
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_value_data *input = &graph->values[graph->inputs[i].id];
        qf_type before = input->type;
        if (!rewrite_type(&r, &input->type)) return false;
        if (before.id == input->type.id) continue;
        if (!graph->declared[i].id) graph->declared[i] = before;
    }
    bool good = rewrite_values(&r);
    QF_FOR_EACH_NODE(graph, node) good = good && rewrite_attributes(&r, &graph->nodes[node.id]);
    *out_changed |= r.changed;
    return good;
}
