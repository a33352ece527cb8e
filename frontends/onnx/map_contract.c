/* Owns: mappings of matrix products, einsum and convolution.
 * Does not own: quantised products (map_quantise.c).
 * Next: map_quantise.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/maps.h"

static const char *unfit(qf_onnx_call *call, qf_value a, qf_value b) {
    uint32_t a_rank = qf_onnx_rank(call, a), b_rank = qf_onnx_rank(call, b);
    if (a_rank > QF_MAX_RANK || b_rank > QF_MAX_RANK) return "the shape of its input is unknown";
    if (a_rank == 0 || b_rank == 0) return "an operand is a scalar";
    return NULL;
}

qf_onnx_outcome qf_onnx_map_matmul(qf_onnx_call *call) {
    qf_value a = qf_onnx_in(call, 0), b = qf_onnx_in(call, 1);
    const char *reason = unfit(call, a, b);
    if (reason) return qf_onnx_decline(call, reason);
    qf_value sides[] = {a, b};
    bool mixed = qf_onnx_harmonise(call, sides, 2);
    return qf_onnx_done_mixed(call, qf_import_matmul(qf_onnx_target(call), sides[0], sides[1], false, false), mixed);
}

qf_onnx_outcome qf_onnx_map_fused_matmul(qf_onnx_call *call) {
    qf_value a = qf_onnx_in(call, 0), b = qf_onnx_in(call, 1);
    const char *reason = unfit(call, a, b);
    if (reason) return qf_onnx_decline(call, reason);
    if (qf_onnx_int(call, "transBatchA", 0) || qf_onnx_int(call, "transBatchB", 0))
        return qf_onnx_decline(call, "it rotates batch axes");
    bool swap_a = qf_onnx_int(call, "transA", 0) && qf_onnx_rank(call, a) > 1;
    bool swap_b = qf_onnx_int(call, "transB", 0) && qf_onnx_rank(call, b) > 1;
    qf_value product = qf_import_matmul(qf_onnx_target(call), a, b, swap_a, swap_b);
    return qf_onnx_done(call, qf_onnx_scale(call, product, qf_onnx_float(call, "alpha", 1)));
}

qf_onnx_outcome qf_onnx_map_gemm(qf_onnx_call *call) {
    qf_value a = qf_onnx_in(call, 0), b = qf_onnx_in(call, 1), c = qf_onnx_in(call, 2);
    if (qf_onnx_rank(call, a) != 2 || qf_onnx_rank(call, b) != 2)
        return qf_onnx_decline(call, "its operands are no matrices");
    qf_value all[] = {a, b, c};
    bool mixed = qf_onnx_harmonise(call, all, 3), swap_a = qf_onnx_int(call, "transA", 0) != 0;
    qf_value product =
        qf_import_matmul(qf_onnx_target(call), all[0], all[1], swap_a, qf_onnx_int(call, "transB", 0) != 0);
    c = all[2];
    product = qf_onnx_scale(call, product, qf_onnx_float(call, "alpha", 1));
    if (c.id)
        product = qf_import_binary(qf_onnx_target(call), QF_OP_add, product,
                                   qf_onnx_scale(call, c, qf_onnx_float(call, "beta", 1)));
    return qf_onnx_done_mixed(call, product, mixed);
}

/* --- einsum --- */
#define MAX_LABELS (2 * QF_MAX_RANK)

typedef struct term {
    qf_value value;
    char labels[MAX_LABELS + 1];
} term;

/* Copies one operand's labels; an ellipsis becomes capitals from the right of `wide`. Repeated labels (diagonals) are
 * refused. */
static bool read_labels(qf_text text, const char *dots, uint32_t rank, bool is_result, char *out) {
    uint32_t count = 0, letters = 0;
    for (size_t i = 0; i < text.size; i++) letters += text.data[i] != '.' && text.data[i] != ' ';
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == ' ') continue;
        if (c == '.') {
            if (i + 2 >= text.size || text.data[i + 1] != '.' || text.data[i + 2] != '.') return false;
            size_t size = strlen(dots), take = is_result ? size : rank - letters;
            if ((!is_result && rank < letters) || take > size || count + take > MAX_LABELS) return false;
            memcpy(out + count, dots + size - take, take);
            count += (uint32_t)take;
            i += 2;
            continue;
        }
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter || count >= MAX_LABELS || memchr(out, c, count)) return false;
        out[count++] = c;
    }
    out[count] = '\0';
    return is_result || count == rank;
}

/* Labels for `count` ellipsis axes, none of which the equation uses. */
static bool ellipsis_labels(qf_text equation, uint32_t count, char *out) {
    uint32_t found = 0;
    for (char c = 'A'; c <= 'Z' && found < count; c++)
        if (!memchr(equation.data, c, equation.size)) out[found++] = c;
    out[found] = '\0';
    return found == count;
}

/* Without "->": the labels that occur once, in alphabetical order, after the ellipsis. */
static void implicit_result(const term *terms, uint32_t count, const char *dots, char *out) {
    uint32_t size = (uint32_t)strlen(dots);
    memcpy(out, dots, size);
    for (int c = 'A'; c <= 'z'; c++) {
        uint32_t seen = 0;
        for (uint32_t i = 0; i < count; i++) seen += strchr(terms[i].labels, c) != NULL;
        if (seen == 1 && !strchr(dots, c) && size < MAX_LABELS) out[size++] = (char)c;
    }
    out[size] = '\0';
}

/* Sums the labels that the result lacks, then permutes. */
static qf_value single_term(qf_onnx_call *call, const term *operand, const char *result) {
    int64_t summed[QF_MAX_RANK], order[QF_MAX_RANK];
    char kept[MAX_LABELS + 1] = "";
    uint32_t summed_count = 0, kept_count = 0, rank = (uint32_t)strlen(result);
    for (uint32_t i = 0; operand->labels[i]; i++) {
        if (strchr(result, operand->labels[i]))
            kept[kept_count++] = operand->labels[i];
        else
            summed[summed_count++] = i;
    }
    qf_value x = operand->value;
    if (summed_count) x = qf_import_reduce(qf_onnx_target(call), QF_OP_reduce_sum, x, summed, summed_count, false);
    for (uint32_t i = 0; i < rank; i++) order[i] = strchr(kept, result[i]) - kept;
    bool moved = false;
    for (uint32_t i = 0; i < rank; i++) moved |= order[i] != (int64_t)i;
    return moved ? qf_import_permute(qf_onnx_target(call), x, order, rank) : x;
}

/* The labels of a product of the first two operands: all that the result or a later operand still needs. */
static void needed_labels(const term *terms, uint32_t count, uint32_t next, const char *result, const char *a,
                          const char *b, char *out) {
    uint32_t size = 0;
    for (uint32_t side_index = 0; side_index < 2; side_index++)
        for (const char *label = side_index ? b : a; *label; label++) {
            bool needed = strchr(result, *label) != NULL;
            for (uint32_t i = next; i < count; i++) needed |= strchr(terms[i].labels, *label) != NULL;
            if (needed && !memchr(out, *label, size) && size < MAX_LABELS) out[size++] = *label;
        }
    out[size] = '\0';
}

static bool labels_known(const term *terms, uint32_t count, const char *result) {
    for (const char *label = result; *label; label++) {
        bool known = false;
        for (uint32_t i = 0; i < count; i++) known |= strchr(terms[i].labels, *label) != NULL;
        if (!known) return false;
    }
    return strlen(result) <= QF_MAX_RANK;
}

qf_onnx_outcome qf_onnx_map_einsum(qf_onnx_call *call) {
    static const char odd[] = "its equation has a form that QFuse lacks (diagonals, broadcast labels)";
    qf_text equation = qf_onnx_string(call, "equation", "");
    term terms[8];
    char dots[MAX_LABELS + 1] = "", result[MAX_LABELS + 1] = "";
    uint32_t count = call->input_count, widest = 0;
    const char *arrow = NULL;
    for (size_t i = 0; i + 1 < equation.size; i++)
        if (equation.data[i] == '-' && equation.data[i + 1] == '>') arrow = equation.data + i;
    qf_text left = {equation.data, arrow ? (size_t)(arrow - equation.data) : equation.size};
    for (uint32_t pass = 0; pass < 2; pass++) { /* first the ellipsis' width, then the labels */
        if (pass && !ellipsis_labels(equation, widest, dots)) return qf_onnx_decline(call, odd);
        size_t at = 0;
        for (uint32_t i = 0; i < count; i++) {
            size_t end = at;
            while (end < left.size && left.data[end] != ',') end++;
            qf_text part = {left.data + at, end - at};
            uint32_t rank = qf_onnx_rank(call, qf_onnx_in(call, i)), letters = 0;
            if (rank > QF_MAX_RANK || (end == left.size) != (i + 1 == count)) return qf_onnx_decline(call, odd);
            for (size_t c = 0; c < part.size; c++) letters += part.data[c] != '.' && part.data[c] != ' ';
            bool has_dots = memchr(part.data, '.', part.size) != NULL;
            if (!pass && has_dots && rank > letters && rank - letters > widest) widest = rank - letters;
            terms[i].value = qf_onnx_in(call, i);
            if (pass && !read_labels(part, dots, rank, false, terms[i].labels)) return qf_onnx_decline(call, odd);
            at = end + 1;
        }
    }
    if (!arrow)
        implicit_result(terms, count, dots, result);
    else if (!read_labels((qf_text){arrow + 2, (size_t)(equation.data + equation.size - arrow - 2)}, dots, 0, true,
                          result))
        return qf_onnx_decline(call, odd);
    if (!labels_known(terms, count, result)) return qf_onnx_decline(call, odd);
    if (count == 1) return qf_onnx_done(call, single_term(call, &terms[0], result));
    term product = terms[0];
    for (uint32_t i = 1; i < count; i++) {
        char labels[MAX_LABELS + 1], text[4 * MAX_LABELS];
        if (i + 1 == count)
            memcpy(labels, result, sizeof result);
        else
            needed_labels(terms, count, i + 1, result, product.labels, terms[i].labels, labels);
        if (strlen(labels) > QF_MAX_RANK) return qf_onnx_decline(call, odd);
        (void)snprintf(text, sizeof text, "%s,%s->%s", product.labels, terms[i].labels, labels);
        product.value = qf_import_contract(qf_onnx_target(call), text, product.value, terms[i].value);
        memcpy(product.labels, labels, sizeof labels);
    }
    return qf_onnx_done(call, product.value);
}

/* --- convolution --- */
static bool list_or(qf_onnx_call *call, const char *name, uint32_t count, int64_t otherwise, int64_t *out) {
    const int64_t *given;
    uint32_t found;
    bool there = qf_onnx_ints(call, name, &given, &found);
    if (there && found != count) {
        (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "Conv: expected %u numbers in %s, found %u", count, name, found);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) out[i] = there ? given[i] : otherwise;
    return true;
}

/* SAME_UPPER and SAME_LOWER: as much padding as keeps ceil(size / stride) outputs; sizes must be constants. */
static bool same_padding(qf_onnx_call *call, bool upper, uint32_t spatial, const int64_t *strides,
                         const int64_t *dilations, int64_t *pads) {
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t size, kernel;
        if (!qf_dim_is_constant(call->import->context, qf_onnx_dim(call, qf_onnx_in(call, 0), (int32_t)i + 2), &size) ||
            !qf_dim_is_constant(call->import->context, qf_onnx_dim(call, qf_onnx_in(call, 1), (int32_t)i + 2), &kernel))
            return false;
        int64_t outputs = (size + strides[i] - 1) / strides[i];
        int64_t total = (outputs - 1) * strides[i] + (kernel - 1) * dilations[i] + 1 - size;
        if (total < 0) total = 0;
        int64_t small = total / 2, large = total - small;
        pads[i] = upper ? small : large;
        pads[spatial + i] = upper ? large : small;
    }
    return true;
}

qf_onnx_outcome qf_onnx_map_convolution(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0), weight = qf_onnx_in(call, 1);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank < 3 || rank > QF_MAX_RANK || qf_onnx_rank(call, weight) != rank)
        return qf_onnx_decline(call, "the shape of its input is unknown");
    uint32_t spatial = rank - 2;
    int64_t strides[QF_MAX_RANK], dilations[QF_MAX_RANK], pads[2 * QF_MAX_RANK];
    if (!list_or(call, "strides", spatial, 1, strides) || !list_or(call, "dilations", spatial, 1, dilations) ||
        !list_or(call, "pads", 2 * spatial, 0, pads))
        return QF_ONNX_FAILED;
    for (uint32_t i = 0; i < spatial; i++)
        if (strides[i] < 1 || dilations[i] < 1)
            return qf_onnx_fault(call, QF_ERROR_VERIFY, "Conv: expected positive strides and dilations");
    qf_text mode = qf_onnx_string(call, "auto_pad", "NOTSET");
    bool upper = qf_text_is(mode, "SAME_UPPER"), lower = qf_text_is(mode, "SAME_LOWER");
    if (qf_text_is(mode, "VALID")) memset(pads, 0, sizeof pads);
    if ((upper || lower) && !same_padding(call, upper, spatial, strides, dilations, pads))
        return qf_onnx_decline(call, "its padding depends on sizes that are not known");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_conv, attributes);
    attributes[QF_ATTR(conv, strides)] = (qf_attribute){.ints = strides, .count = spatial};
    attributes[QF_ATTR(conv, dilations)] = (qf_attribute){.ints = dilations, .count = spatial};
    attributes[QF_ATTR(conv, pads_before)] = (qf_attribute){.ints = pads, .count = spatial};
    attributes[QF_ATTR(conv, pads_after)] = (qf_attribute){.ints = pads + spatial, .count = spatial};
    attributes[QF_ATTR(conv, groups)].integer = qf_onnx_int(call, "group", 1);
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_conv,
                                           (qf_value[]){x, weight, qf_onnx_in(call, 2)}, 3, attributes));
}
