/* Owns: finding second contractions, raising or reporting each, the entry point.
 * Does not own: the decision (analyse.c), the rewrite (build.c).
 * Next: analyse.c. */
#include "patterns/attention.h"

#include "patterns/candidate.h"

typedef struct raising {
    qf_graph *graph;
    qf_context *context;
    qf_symbolic *symbolic;
    qf_numerics numerics;
    qf_report *report;
    bool changed;
} raising;

/* --- reporting --- */

static qf_string node_text(const qf_graph *graph, qf_node node) {
    if (!node.id) return (qf_string){0};
    if (qf_node_op(graph, node) == QF_OP_opaque) return qf_node_attribute(graph, node, QF_ATTR(opaque, name))->string;
    return qf_intern_c(graph->context, qf_op_name(qf_node_op(graph, node)));
}

static bool report_miss(raising *r, qf_node contraction, qf_reason reason, qf_node blocker, const char *detail,
                        bool recognised) {
    if (!blocker.id) blocker = contraction;
    qf_miss miss = {.reason = reason,
                    .tag = qf_node_at(r->graph, contraction)->tag,
                    .node = blocker,
                    .node_text = node_text(r->graph, blocker),
                    .location = qf_node_at(r->graph, blocker)->location,
                    .recognised = recognised};
    if (detail) miss.detail = qf_intern_c(r->context, detail);
    return qf_report_miss(r->report, &miss);
}

static bool report_rewrite(raising *r, const qf_candidate *c, qf_node made, uint32_t number) {
    const char *note = c->dropped_score_pair ? "dropped the FP8 quantise/dequantise pair on the scores"
                       : qf_value_dtype(r->graph, c->result) != QF_F32
                           ? "16-bit roundings of scores, probabilities and result become one of the result"
                           : "the order of f32 sums changes";
    qf_rewrite rewrite = {.number = number,
                          .rule = qf_intern_c(r->context, "raise_attention"),
                          .numerics = c->dropped_score_pair ? QF_NUMERICS_RELAXED : QF_NUMERICS_ROUNDING,
                          .tag = qf_node_at(r->graph, made)->tag,
                          .location = qf_node_at(r->graph, made)->location,
                          .note = qf_intern_c(r->context, note)};
    return qf_report_rewrite(r->report, &rewrite);
}

static bool rewrite(raising *r, qf_candidate *c, qf_node contraction) {
    if (!qf_report_may_rewrite(r->report))
        return report_miss(r, contraction, QF_REASON_rewrite_limit, contraction, NULL, true);
    uint32_t number = r->report->next_number - 1;
    qf_node made = qf_candidate_build(c);
    if (!made.id) {
        if (qf_context_status(r->context) != QF_OK) return false;
        return report_miss(r, contraction, QF_REASON_roles, contraction, "more axes than a tensor may have", true);
    }
    r->changed = true;
    return report_rewrite(r, c, made, number);
}

/* False only on failure. */
static bool look_at(raising *r, qf_candidate *c, qf_node node) {
    const qf_graph *graph = r->graph;
    qf_labelling probe = {.graph = r->graph, .context = r->context, .symbolic = r->symbolic};
    qf_second_contraction second = {.side = 0};
    qf_reason reason = QF_REASON_none;
    qf_node blocker = {0};
    const char *detail = NULL;
    bool recognised = false;
    if (qf_is_dead(graph, node)) return true;
    for (uint32_t side = 0; side < 2; side++) {
        qf_node opaque;
        if (!qf_reaches_softmax(&probe, qf_node_operand(graph, node, side), &second.certain, &opaque)) continue;
        second.side = side;
        bool readable = qf_contraction_read(graph, node, &second.contraction);
        if (readable && !opaque.id && qf_candidate_analyse(c, &second, r->numerics)) return rewrite(r, c, node);
        if (qf_context_status(r->context) != QF_OK) return false;
        qf_node unknown = opaque.id ? opaque : qf_find_unknown(graph, qf_node_operand(graph, node, side));
        if (!unknown.id && !readable) unknown = qf_find_unknown(graph, qf_node_operand(graph, node, 1 - side));
        qf_reason found = opaque.id || (!readable && unknown.id) ? QF_REASON_unknown_op
                          : !readable                            ? QF_REASON_unknown_shape
                                                                 : c->reason;
        bool silent = !second.certain && (!readable || opaque.id);
        if (found == QF_REASON_none || reason != QF_REASON_none || silent) continue;
        reason = found;
        blocker = found == QF_REASON_unknown_op && unknown.id ? unknown : readable && !opaque.id ? c->blocker : node;
        detail = readable && !opaque.id ? c->detail : NULL;
        recognised = readable && !opaque.id && c->recognised;
    }
    return reason == QF_REASON_none || report_miss(r, node, reason, blocker, detail, recognised);
}

/* Contractions in order; a rewrite erases some of them. */
static qf_node *list_contractions(const qf_graph *graph, uint32_t *out_count) {
    uint32_t count = 0;
    QF_FOR_EACH_NODE(graph, node)
    count += qf_node_op(graph, node) == QF_OP_contract || qf_node_op(graph, node) == QF_OP_matmul;
    *out_count = count;
    qf_node *list = qf_allocate(graph->context, (size_t)count * sizeof *list + 1);
    if (!list) return NULL;
    count = 0;
    QF_FOR_EACH_NODE(graph, node)
    if (qf_node_op(graph, node) == QF_OP_contract || qf_node_op(graph, node) == QF_OP_matmul) list[count++] = node;
    return list;
}

qf_status qf_attention_raise(qf_graph *graph, qf_symbolic *symbolic, qf_numerics numerics, qf_report *report,
                             bool *out_changed) {
    qf_context *context = graph->context;
    raising r = {.graph = graph, .context = context, .symbolic = symbolic, .numerics = numerics, .report = report};
    uint32_t count;
    qf_node *list = list_contractions(graph, &count);
    qf_candidate *candidate = qf_allocate(context, sizeof *candidate);
    bool ok = list && candidate && qf_labelling_init(&candidate->labels, graph, symbolic);
    for (uint32_t i = 0; ok && i < count; i++)
        if (!qf_node_at(graph, list[i])->erased) ok = look_at(&r, candidate, list[i]);
    if (candidate) {
        qf_labelling_destroy(&candidate->labels);
        qf_release(context, candidate, sizeof *candidate);
    }
    if (list) qf_release(context, list, (size_t)count * sizeof *list + 1);
    *out_changed = r.changed;
    qf_status status = qf_context_status(context);
    return ok || status != QF_OK ? status : QF_ERROR_OUT_OF_MEMORY;
}
