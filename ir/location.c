/* Owns: source locations, interned per graph, and their text.
 * Does not own: diagnostics (base/context.h).
 * Next: graph.h. */
#include <string.h>

#include "ir/graph.h"

static bool location_equal(const void *owner, uint32_t id, const void *key) {
    const qf_location_data *a = &((const qf_graph *)owner)->locations[id];
    const qf_location_data *b = key;
    return a->file.id == b->file.id && a->line == b->line && a->column == b->column && a->rule.id == b->rule.id &&
           a->part_count == b->part_count &&
           (a->part_count == 0 || memcmp(a->parts, b->parts, a->part_count * sizeof *a->parts) == 0);
}

static qf_location intern_location(qf_graph *graph, qf_location_data data) {
    uint64_t hash = qf_hash_mix(qf_hash_mix(data.file.id, data.line), qf_hash_mix(data.column, data.rule.id));
    hash = qf_hash_bytes(data.parts, data.part_count * sizeof *data.parts, hash);
    uint32_t id = qf_index_find(&graph->location_index, hash, location_equal, graph, &data);
    if (id) return (qf_location){id};
    if (!QF_GROW(graph->context, graph->locations, graph->location_capacity, (uint64_t)graph->location_count + 1))
        return (qf_location){0};
    if (data.part_count) {
        data.parts = qf_arena_copy(&graph->arena, data.parts, data.part_count * sizeof *data.parts);
        if (!data.parts) return (qf_location){0};
    }
    if (!qf_index_add(graph->context, &graph->location_index, hash, graph->location_count)) return (qf_location){0};
    graph->locations[graph->location_count] = data;
    return (qf_location){graph->location_count++};
}

qf_location qf_location_make(qf_graph *graph, qf_text file_or_name, uint32_t line, uint32_t column) {
    qf_string file = qf_intern(graph->context, file_or_name);
    if (!file.id) return (qf_location){0};
    return intern_location(graph, (qf_location_data){.file = file, .line = line, .column = column});
}

qf_location qf_location_fuse(qf_graph *graph, qf_string rule, const qf_location *parts, uint32_t count) {
    return intern_location(graph, (qf_location_data){.rule = rule, .parts = parts, .part_count = count});
}

#define MAX_FUSED_DEPTH 8

static void print_location(qf_buffer *buffer, const qf_graph *graph, qf_location location, uint32_t depth) {
    if (!location.id) return;
    const qf_location_data *data = &graph->locations[location.id];
    if (!data->part_count) {
        qf_buffer_text(buffer, qf_string_text(graph->context, data->file));
        if (!data->line) return;
        qf_buffer_text(buffer, QF_TEXT(":"));
        qf_buffer_unsigned(buffer, data->line);
        qf_buffer_text(buffer, QF_TEXT(":"));
        qf_buffer_unsigned(buffer, data->column);
        return;
    }
    qf_buffer_text(buffer, QF_TEXT("fused<"));
    qf_buffer_text(buffer, qf_string_text(graph->context, data->rule));
    qf_buffer_text(buffer, QF_TEXT(">["));
    for (uint32_t i = 0; i < data->part_count; i++) {
        if (i) qf_buffer_append(buffer, ", ", 2);
        if (depth < MAX_FUSED_DEPTH)
            print_location(buffer, graph, data->parts[i], depth + 1);
        else
            qf_buffer_append(buffer, "...", 3);
    }
    qf_buffer_append(buffer, "]", 1);
}

void qf_location_print(qf_buffer *buffer, const qf_graph *graph, qf_location location) {
    print_location(buffer, graph, location, 0);
}

qf_position qf_node_position(const qf_graph *graph, qf_node node) {
    qf_buffer text = {.context = graph->context};
    qf_location_print(&text, graph, graph->nodes[node.id].location);
    qf_string interned = text.size ? qf_intern(graph->context, (qf_text){text.data, text.size}) : (qf_string){0};
    qf_buffer_destroy(&text);
    return (qf_position){.location = qf_string_c(graph->context, interned)};
}
