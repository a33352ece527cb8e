/* Owns: the bytes that a host or importer bound to parameters, found by name.
 * Does not own: the bytes.
 * Next: graph.h. */
#include "ir/graph.h"

static bool weight_equal(const void *owner, uint32_t id, const void *key) {
    return ((const qf_graph *)owner)->weights[id - 1].name.id == ((const qf_string *)key)->id;
}

/* Weights may have been appended (by importers, by clones) since the index was made. Of equal names the last one
 * counts. */
static bool update_index(qf_graph *graph) {
    qf_context *context = graph->context;
    if (graph->weight_index.count == graph->weight_count) return true;
    qf_index_destroy(context, &graph->weight_index);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->weight_count; i++) {
        qf_weight weight = graph->weights[i];
        uint64_t hash = qf_hash_mix(weight.name.id, 0);
        uint32_t known = qf_index_find(&graph->weight_index, hash, weight_equal, graph, &weight.name);
        graph->weights[known ? known - 1 : kept] = weight;
        if (!known && !qf_index_add(context, &graph->weight_index, hash, ++kept)) return false;
    }
    graph->weight_count = kept;
    return true;
}

const qf_weight *qf_graph_find_weight(qf_graph *graph, qf_string name) {
    if (!name.id || !update_index(graph)) return NULL;
    uint32_t id = qf_index_find(&graph->weight_index, qf_hash_mix(name.id, 0), weight_equal, graph, &name);
    return id ? &graph->weights[id - 1] : NULL;
}

bool qf_graph_set_weight(qf_graph *graph, qf_string name, const void *data, uint64_t size) {
    qf_context *context = graph->context;
    if (!update_index(graph)) return false;
    const qf_weight weight = {name, data, size};
    uint32_t id = qf_index_find(&graph->weight_index, qf_hash_mix(name.id, 0), weight_equal, graph, &name);
    if (id) {
        graph->weights[id - 1] = weight;
        return true;
    }
    if (!QF_GROW(context, graph->weights, graph->weight_capacity, (uint64_t)graph->weight_count + 1) ||
        !qf_index_add(context, &graph->weight_index, qf_hash_mix(name.id, 0), graph->weight_count + 1))
        return false;
    graph->weights[graph->weight_count++] = weight;
    return true;
}
