/* Owns: contract, matmul and scaled_matmul as strided products.
 * Does not own: the product (gemm.c).
 * Next: gemm.h. */
#include "kernels/cpu/gemm.h"

#include <string.h>

/* Adds a loop to the group it belongs to: in the result or summed, and which operands have it. */
static void add_axis(qf_gemm *gemm, qf_gemm_axis axis, bool in_y) {
    bool in_a = axis.stride[QF_GEMM_A] != 0, in_b = axis.stride[QF_GEMM_B] != 0;
    if (!in_y)
        qf_gemm_add_axis(&gemm->k, axis);
    else if (in_a && in_b)
        qf_gemm_add_axis(&gemm->batch, axis);
    else
        qf_gemm_add_axis(in_b ? &gemm->n : &gemm->m, axis);
}

/* --- contract --- */

/* The labels of one term of the equation. */
typedef struct term {
    const char *labels;
    uint32_t rank;
} term;

static bool is_label(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool read_term(const char **text, term *out) {
    *out = (term){*text, 0};
    while (is_label((*text)[0])) (*text)++, out->rank++;
    return out->rank <= QF_MAX_RANK;
}

static bool read_equation(const char *text, term terms[3]) {
    if (!read_term(&text, &terms[0]) || *text++ != ',') return false;
    if (!read_term(&text, &terms[1]) || text[0] != '-' || text[1] != '>') return false;
    text += 2;
    return read_term(&text, &terms[2]) && *text == '\0';
}

/* Size and stride of a label in one tensor: repeated labels walk the diagonal. False on unequal sizes. */
static bool measure_label(const term *in, const qf_view *view, char label, int64_t *size, int64_t *stride,
                          bool *found) {
    int64_t strides[QF_MAX_RANK];
    qf_view_strides(view, strides);
    for (uint32_t i = 0; i < in->rank; i++) {
        if (in->labels[i] != label) continue;
        if (*size >= 0 && *size != view->dims[i]) return false;
        *size = view->dims[i];
        *stride += strides[i];
        *found = true;
    }
    return true;
}

static bool has_repeats(const term *in) {
    for (uint32_t i = 1; i < in->rank; i++)
        if (memchr(in->labels, in->labels[i], i)) return true;
    return false;
}

static qf_status describe_contract(const qf_kernel_call *call, qf_gemm *gemm) {
    const char *equation = call->attributes[QF_ATTR(contract, equation)].string;
    const qf_view *views[3] = {&call->operands[0], &call->operands[1], &call->results[0]};
    term terms[3];
    bool seen[128] = {false};
    QF_CPU_EXPECT(call, read_equation(equation, terms), "an equation such as \"ij,jk->ik\"");
    for (int t = 0; t < 3; t++) QF_CPU_EXPECT(call, terms[t].rank == views[t]->rank, "one label an axis");
    QF_CPU_EXPECT(call, !has_repeats(&terms[2]), "each label once in the result");
    *gemm = (qf_gemm){.a = views[0], .b = views[1], .y = &call->results[0]};
    for (int t = 0; t < 3; t++) {
        for (uint32_t i = 0; i < terms[t].rank; i++) {
            char label = terms[t].labels[i];
            qf_gemm_axis axis = {.size = -1};
            bool in[3] = {false};
            if (seen[(int)label]) continue;
            seen[(int)label] = true;
            for (int s = 0; s < 3; s++)
                QF_CPU_EXPECT(call, measure_label(&terms[s], views[s], label, &axis.size, &axis.stride[s], &in[s]),
                              "equal sizes of equal labels");
            QF_CPU_EXPECT(call, t < 2, "labels of the result to occur in an operand");
            add_axis(gemm, axis, in[2]);
        }
    }
    return QF_OK;
}

/* --- matmul, with NumPy's rules for rank 1 and batches --- */

static qf_gemm_axis axis_of(int64_t size, int64_t a, int64_t b, int64_t y) {
    return (qf_gemm_axis){.size = size, .stride = {[QF_GEMM_A] = a, [QF_GEMM_B] = b, [QF_GEMM_Y] = y}};
}

/* Stride of axis `i` of the result's batch in an operand with `own` matrix axes; 0 where it is broadcast. */
static qf_status batch_stride(const qf_kernel_call *call, const qf_view *operand, uint32_t own, uint32_t batch_rank,
                              uint32_t i, int64_t size, int64_t *out) {
    int64_t strides[QF_MAX_RANK];
    uint32_t rank = operand->rank - own, missing = batch_rank - rank;
    qf_view_strides(operand, strides);
    *out = 0;
    if (i < missing || operand->dims[i - missing] == 1) return QF_OK;
    QF_CPU_EXPECT(call, operand->dims[i - missing] == size, "batch axes that broadcast");
    *out = strides[i - missing];
    return QF_OK;
}

static qf_status describe_matmul(const qf_kernel_call *call, qf_gemm *gemm) {
    const qf_view *a = &call->operands[0], *b = &call->operands[1];
    qf_view *y = &call->results[0];
    int64_t a_strides[QF_MAX_RANK], b_strides[QF_MAX_RANK], y_strides[QF_MAX_RANK];
    QF_CPU_EXPECT(call, a->rank >= 1 && b->rank >= 1, "operands of rank 1 or more");
    bool has_rows = a->rank > 1, has_columns = b->rank > 1;
    uint32_t a_own = has_rows ? 2 : 1, b_own = has_columns ? 2 : 1, own = (uint32_t)has_rows + has_columns;
    QF_CPU_EXPECT(call, y->rank >= own && a->rank - a_own <= y->rank - own && b->rank - b_own <= y->rank - own,
                  "a result of the broadcast rank");
    int64_t depth = a->dims[a->rank - 1], columns = has_columns ? b->dims[b->rank - 1] : 1;
    QF_CPU_EXPECT(call, b->dims[b->rank - b_own] == depth, "equal inner axes");
    qf_view_strides(a, a_strides);
    qf_view_strides(b, b_strides);
    qf_view_strides(y, y_strides);
    *gemm = (qf_gemm){.a = a, .b = b, .y = y};
    for (uint32_t i = 0; i + own < y->rank; i++) {
        int64_t in_a, in_b;
        qf_status status = batch_stride(call, a, a_own, y->rank - own, i, y->dims[i], &in_a);
        if (!status) status = batch_stride(call, b, b_own, y->rank - own, i, y->dims[i], &in_b);
        if (status) return status;
        add_axis(gemm, axis_of(y->dims[i], in_a, in_b, y_strides[i]), true);
    }
    if (has_rows) {
        QF_CPU_EXPECT(call, y->dims[y->rank - own] == a->dims[a->rank - 2], "a result with a's rows");
        qf_gemm_add_axis(&gemm->m, axis_of(a->dims[a->rank - 2], a_strides[a->rank - 2], 0, y_strides[y->rank - own]));
    }
    if (has_columns) {
        QF_CPU_EXPECT(call, y->dims[y->rank - 1] == columns, "a result with b's columns");
        qf_gemm_add_axis(&gemm->n, axis_of(columns, 0, 1, 1));
    }
    qf_gemm_add_axis(&gemm->k, axis_of(depth, 1, b_strides[b->rank - b_own], 0));
    return QF_OK;
}

/* --- scaled_matmul --- */

/* Rows of a in every axis of m but its own columns; one scale, or one for each row of a or column of b. */
static qf_status describe_scaled(const qf_kernel_call *call, qf_gemm *gemm) {
    qf_status status = describe_matmul(call, gemm);
    if (status) return status;
    const qf_view *a = gemm->a, *b = gemm->b, *bias = qf_call_operand(call, QF_IN(scaled_matmul, bias));
    gemm->a_scale = &call->operands[QF_IN(scaled_matmul, a_scale)];
    gemm->b_scale = &call->operands[QF_IN(scaled_matmul, b_scale)];
    gemm->bias = bias;
    QF_CPU_EXPECT(call, b->rank == 2, "b of rank 2");
    int64_t depth = a->dims[a->rank - 1], rows = depth ? qf_view_count(a) / depth : 0, columns = b->dims[1];
    int64_t a_scales = qf_view_count(gemm->a_scale), b_scales = qf_view_count(gemm->b_scale);
    QF_CPU_EXPECT(call, a_scales == 1 || a_scales == rows, "one a_scale, or one a row of a");
    QF_CPU_EXPECT(call, b_scales == 1 || b_scales == columns, "one b_scale, or one a column of b");
    QF_CPU_EXPECT(call, !bias || qf_view_count(bias) == 1 || qf_view_count(bias) == columns,
                  "one bias, or one a column of b");
    for (uint32_t i = 0; i < gemm->m.rank && a_scales > 1 && depth; i++)
        gemm->m.axis[i].stride[QF_GEMM_A_SCALE] = gemm->m.axis[i].stride[QF_GEMM_A] / depth;
    for (uint32_t i = 0; i < gemm->n.rank; i++) {
        gemm->n.axis[i].stride[QF_GEMM_B_SCALE] = b_scales > 1;
        gemm->n.axis[i].stride[QF_GEMM_BIAS] = bias && qf_view_count(bias) > 1;
    }
    return QF_OK;
}

qf_status qf_gemm_describe(const qf_kernel_call *call, qf_gemm *out_gemm) {
    switch (call->op) {
    case QF_OP_contract: return describe_contract(call, out_gemm);
    case QF_OP_matmul: return describe_matmul(call, out_gemm);
    default: return describe_scaled(call, out_gemm);
    }
}

static qf_status describe(const qf_kernel_call *call, qf_gemm *gemm) {
    qf_status status = qf_gemm_describe(call, gemm);
    if (!status) qf_gemm_orient(gemm);
    return status;
}

size_t qf_cpu_scratch_contract(const qf_kernel_call *call) {
    qf_gemm gemm;
    qf_kernel_call quiet = *call;
    quiet.message = NULL;
    /* A call that the kernel will refuse needs no scratch. */
    return describe(&quiet, &gemm) ? 0 : qf_gemm_scratch(&gemm, qf_cpu_thread_count(call));
}

static qf_status run(const qf_kernel_call *call, const qf_view *out_scale, uint32_t mode) {
    qf_gemm gemm;
    qf_status status = describe(call, &gemm);
    if (!status) status = qf_output_start(call, &gemm.output, gemm.y, out_scale, mode, UINT32_MAX, UINT32_MAX);
    return status ? status : qf_gemm_run(call, &gemm);
}

qf_status qf_cpu_contract(const qf_kernel_call *call) {
    return run(call, NULL, UINT32_MAX);
}

qf_status qf_cpu_matmul(const qf_kernel_call *call) {
    return run(call, NULL, UINT32_MAX);
}

qf_status qf_cpu_scaled_matmul(const qf_kernel_call *call) {
    return run(call, qf_call_operand(call, QF_IN(scaled_matmul, out_scale)), QF_ATTR(scaled_matmul, out_mode));
}
