/* Owns: reading equations.
 * Does not own: dims of labels (infer_contraction.c).
 * Next: equation.h. */
#include "ir/equation.h"

#include <string.h>

int32_t qf_labels_axis(const qf_labels *labels, char label) {
    for (uint32_t i = 0; i < labels->count; i++)
        if (labels->at[i] == label) return (int32_t)i;
    return -1;
}

static bool is_label(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *read_labels(qf_text *text, qf_labels *out) {
    out->count = 0;
    for (; text->size && is_label(text->data[0]); text->data++, text->size--) {
        if (out->count == QF_MAX_RANK) return "more labels on one side than a tensor has axes";
        if (qf_labels_has(out, text->data[0])) return "a label stands twice on one side";
        out->at[out->count++] = text->data[0];
    }
    return NULL;
}

static bool take(qf_text *text, qf_text expected) {
    if (text->size < expected.size || memcmp(text->data, expected.data, expected.size) != 0) return false;
    text->data += expected.size;
    text->size -= expected.size;
    return true;
}

const char *qf_equation_parse(qf_text text, qf_equation *out) {
    static const char form[] = "the form is \"labels,labels->labels\" with letters as labels";
    const char *fault = read_labels(&text, &out->a);
    if (fault) return fault;
    if (!take(&text, QF_TEXT(","))) return form;
    fault = read_labels(&text, &out->b);
    if (fault) return fault;
    if (!take(&text, QF_TEXT("->"))) return form;
    fault = read_labels(&text, &out->result);
    if (fault) return fault;
    if (text.size) return form;
    for (uint32_t i = 0; i < out->result.count; i++)
        if (!qf_labels_has(&out->a, out->result.at[i]) && !qf_labels_has(&out->b, out->result.at[i]))
            return "a label of the result stands in neither operand";
    return NULL;
}
