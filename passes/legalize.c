/* Owns: the pass that gives every node a form that the target has a kernel for.
 * Does not own: which kernels there are (spec/kernels.def), lowering to a plan (codegen/).
 * Next: manager.c. */
#include "ir/capability.h"
#include "passes/pass.h"

qf_status qf_pass_legalize(qf_pass_call *call);

/* On a GPU the graph's normalised P becomes the kernel's own (docs/numerics.md): 1/448 as the scale of P loses small
 * probabilities, and kernels round the unnormalised exponential anyway. */
static bool kernel_p(qf_pass_call *call, qf_node node) {
    qf_graph *graph = call->graph;
    qf_op op = qf_node_op(graph, node);
    if (!call->options->target->is_gpu || (op != QF_OP_attention && op != QF_OP_paged_attention)) return true;
    bool dense = op == QF_OP_attention;
    qf_attribute *p = qf_node_attribute(graph, node, dense ? QF_ATTR(attention, p) : QF_ATTR(paged_attention, p));
    bool float8_v = qf_dtype_is_float8(qf_value_dtype(
        graph, qf_node_operand(graph, node, dense ? QF_IN(attention, v) : QF_IN(paged_attention, v_cache))));
    if (p->integer == QF_VALUE_kernel || (p->integer == QF_VALUE_none && !float8_v)) return true;
    qf_numerics allowed = call->options->numerics;
    if (allowed == QF_NUMERICS_EXACT || allowed == QF_NUMERICS_ROUNDING) return true;
    if (!qf_report_may_rewrite(call->report)) return true;
    qf_rewrite done = {.rule = qf_intern_c(graph->context, "kernel-p"),
                       .numerics = QF_NUMERICS_QUANTISING,
                       .tag = qf_node_at(graph, node)->tag,
                       .location = qf_node_at(graph, node)->location,
                       .note = qf_intern_c(graph->context, "P is rounded to e4m3 as the kernel does")};
    p->integer = QF_VALUE_kernel;
    qf_graph_set_operand(graph, node, dense ? QF_IN(attention, p_scale) : QF_IN(paged_attention, p_scale),
                         (qf_value){0});
    call->changed = true;
    return qf_report_rewrite(call->report, &done);
}

/* A node without a kernel is no failure of the pass: the plan names it when it is run, as it does for opaque ops. */
static void warn_without_kernel(const qf_pass_call *call, qf_node node) {
    const qf_graph *graph = call->graph;
    char reason[256];
    if (qf_node_op(graph, node) == QF_OP_opaque) return;
    if (qf_node_is_runnable(graph, node, call->options->target->target, reason, sizeof reason)) return;
    qf_position position = qf_node_position(graph, node);
    qf_message(graph->context, QF_SEVERITY_WARNING, &position, "%s has no kernel on %s: %s",
               qf_op_name(qf_node_op(graph, node)), call->options->target->name, reason);
}

qf_status qf_pass_legalize(qf_pass_call *call) {
    QF_FOR_EACH_NODE(call->graph, node) {
        if (!kernel_p(call, node)) return QF_ERROR_OUT_OF_MEMORY;
        warn_without_kernel(call, node);
    }
    return QF_OK;
}
