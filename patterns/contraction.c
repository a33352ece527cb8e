/* Owns: reading einsum and matmul nodes as letters; labels of their operands.
 * Does not own: which contractions form an attention (attention.c).
 * Next: softmax.h. */
#include "patterns/contraction.h"

#include <string.h>

#include "ir/equation.h"

static uint8_t letter_number(qf_contraction *contraction, char names[QF_MAX_LETTERS], char letter) {
    for (uint32_t i = 0; i < contraction->letter_count; i++)
        if (names[i] == letter) return (uint8_t)i;
    names[contraction->letter_count] = letter; /* at most QF_MAX_RANK in each operand, and none is new in the result */
    return (uint8_t)contraction->letter_count++;
}

static uint32_t read_term(qf_contraction *contraction, char names[QF_MAX_LETTERS], const qf_labels *term,
                          uint8_t *out) {
    for (uint32_t i = 0; i < term->count; i++) out[i] = letter_number(contraction, names, term->at[i]);
    return term->count;
}

static bool read_equation(qf_contraction *contraction, qf_text text) {
    char names[QF_MAX_LETTERS] = {0};
    qf_equation equation;
    if (qf_equation_parse(text, &equation)) return false;
    contraction->rank[0] = read_term(contraction, names, &equation.a, contraction->letter[0]);
    contraction->rank[1] = read_term(contraction, names, &equation.b, contraction->letter[1]);
    contraction->result_rank = read_term(contraction, names, &equation.result, contraction->result_letter);
    return true;
}

/* NumPy matmul of rank >= 1: batch letters right-aligned, a vector operand without its row or column. */
static void letters_of_matmul(qf_contraction *contraction) {
    enum { ROW = QF_MAX_RANK, COLUMN, SUM };
    const uint32_t *rank = contraction->rank;
    uint32_t batch_a = rank[0] > 2 ? rank[0] - 2 : 0, batch_b = rank[1] > 2 ? rank[1] - 2 : 0;
    uint32_t batch = batch_a > batch_b ? batch_a : batch_b, at = 0;
    for (uint32_t i = 0; i < batch; i++) {
        if (i >= batch - batch_a) contraction->letter[0][i - (batch - batch_a)] = (uint8_t)i;
        if (i >= batch - batch_b) contraction->letter[1][i - (batch - batch_b)] = (uint8_t)i;
        contraction->result_letter[at++] = (uint8_t)i;
    }
    if (rank[0] > 1) contraction->letter[0][rank[0] - 2] = contraction->result_letter[at++] = ROW;
    contraction->letter[0][rank[0] - 1] = SUM;
    contraction->letter[1][rank[1] > 1 ? rank[1] - 2 : 0] = SUM;
    if (rank[1] > 1) contraction->letter[1][rank[1] - 1] = contraction->result_letter[at++] = COLUMN;
    contraction->result_rank = at;
    contraction->letter_count = SUM + 1;
}

bool qf_contraction_read(const qf_graph *graph, qf_node node, qf_contraction *out) {
    *out = (qf_contraction){.node = node,
                            .operand = {qf_node_operand(graph, node, 0), qf_node_operand(graph, node, 1)},
                            .result = qf_node_result(graph, node, 0)};
    for (uint32_t i = 0; i < 2; i++)
        if (!out->operand[i].id || qf_value_rank(graph, out->operand[i]) == QF_UNRANKED) return false;
    uint32_t rank[2] = {qf_value_rank(graph, out->operand[0]), qf_value_rank(graph, out->operand[1])};
    if (qf_node_op(graph, node) == QF_OP_matmul) {
        if (!rank[0] || !rank[1]) return false;
        out->rank[0] = rank[0];
        out->rank[1] = rank[1];
        letters_of_matmul(out);
    } else if (qf_node_op(graph, node) == QF_OP_contract) {
        const qf_attribute *equation = qf_node_attribute(graph, node, QF_ATTR(contract, equation));
        if (!read_equation(out, qf_string_text(graph->context, equation->string))) return false;
    } else {
        return false;
    }
    return rank[0] == out->rank[0] && rank[1] == out->rank[1] && qf_value_rank(graph, out->result) == out->result_rank;
}

bool qf_contraction_letter_in(const qf_contraction *contraction, uint32_t operand, uint32_t letter) {
    return memchr(contraction->letter[operand], (int)letter, contraction->rank[operand]) != NULL;
}

static bool letter_in_result(const qf_contraction *contraction, uint32_t letter) {
    return memchr(contraction->result_letter, (int)letter, contraction->result_rank) != NULL;
}

/* The larger extent of the letter's axes: an extent of 1 is broadcast. */
static qf_dim letter_extent(const qf_labelling *labels, const qf_contraction *contraction, uint32_t letter) {
    qf_dim extent = {0};
    for (uint32_t operand = 0; operand < 2; operand++) {
        const qf_dim *dims = qf_value_dims(labels->graph, contraction->operand[operand]);
        for (uint32_t i = 0; i < contraction->rank[operand]; i++)
            if (contraction->letter[operand][i] == letter && (!extent.id || qf_dim_is(labels->context, extent, 1)))
                extent = dims[i];
    }
    return extent;
}

bool qf_contraction_labels(qf_labelling *labels, const qf_contraction *contraction, const qf_axes *result,
                           qf_axes out_operands[2], qf_letter_labels *out_letters, qf_axis *out_summed) {
    *out_summed = (qf_axis){0};
    *out_letters = (qf_letter_labels){0};
    if (result->rank != contraction->result_rank) return false;
    for (uint32_t i = 0; i < contraction->result_rank; i++)
        out_letters->axis[contraction->result_letter[i]] = result->axis[i];
    for (uint32_t letter = 0; letter < contraction->letter_count; letter++) {
        qf_dim extent = letter_extent(labels, contraction, letter);
        if (!extent.id || letter_in_result(contraction, letter)) continue;
        if (!qf_labelling_new(labels, extent, &out_letters->axis[letter]) ||
            !qf_labelling_append(labels, *out_summed, out_letters->axis[letter], out_summed))
            return false;
    }
    for (uint32_t operand = 0; operand < 2; operand++) {
        const qf_dim *dims = qf_value_dims(labels->graph, contraction->operand[operand]);
        out_operands[operand] = (qf_axes){.rank = contraction->rank[operand]};
        for (uint32_t i = 0; i < contraction->rank[operand]; i++)
            if (!qf_dim_is(labels->context, dims[i], 1))
                out_operands[operand].axis[i] = out_letters->axis[contraction->letter[operand][i]];
    }
    return true;
}
