/* Owns: comparing two graphs up to the names of values and the order of independent nodes.
 * Does not own: anything else.
 * Next: onnx_corpus_test.c. */
#ifndef QF_TESTS_FRONTENDS_SAME_GRAPH_H
#define QF_TESTS_FRONTENDS_SAME_GRAPH_H

#include "tests/check.h"

#include "ir/graph.h"
#include "ir/text.h"

static uint64_t same_hash_text(const qf_buffer *text, uint64_t seed) {
    return qf_hash_bytes(text->data, text->size, seed);
}

/* Attributes that carry what is the same under other names: a weight by its bytes' hash, an opaque node by its name. */
static bool same_skips(qf_op op, uint32_t index) {
    if (op == QF_OP_parameter) return index != QF_ATTR(parameter, hash);
    return op == QF_OP_opaque && index == QF_ATTR(opaque, payload);
}

/* A number for each graph: op, attributes, types and operands, followed from the outputs. */
static uint64_t same_signature(const qf_graph *graph) {
    uint64_t *hashes = calloc(graph->value_count + 1, sizeof *hashes), result = 1;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_buffer text = {.context = graph->context};
        qf_type_print(&text, graph->context, qf_value_type(graph, graph->inputs[i]));
        hashes[graph->inputs[i].id] = same_hash_text(&text, 100 + i);
        qf_buffer_destroy(&text);
    }
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        const qf_op_info *info = qf_op_info_of(data->op);
        uint64_t hash = qf_hash_mix(7, (uint64_t)data->op);
        qf_buffer text = {.context = graph->context};
        for (uint32_t i = 0; i < info->attribute_count; i++) {
            if (same_skips(data->op, i)) continue;
            qf_attribute_print(&text, graph, &info->attributes[i], &data->attributes[i]);
            qf_buffer_append(&text, ";", 1);
        }
        if (text.size) hash = same_hash_text(&text, hash);
        qf_buffer_destroy(&text);
        for (uint32_t i = 0; i < data->operand_count; i++)
            hash = qf_hash_mix(hash, data->operands[i].value.id ? hashes[data->operands[i].value.id] : 3);
        for (uint32_t i = 0; i < data->result_count; i++) {
            qf_buffer type = {.context = graph->context};
            qf_type_print(&type, graph->context, qf_value_type(graph, qf_result_at(data, i)));
            hashes[qf_result_at(data, i).id] = same_hash_text(&type, qf_hash_mix(hash, i));
            qf_buffer_destroy(&type);
        }
        if (data->op == QF_OP_return) result = hash;
    }
    free(hashes);
    return result;
}

#endif
