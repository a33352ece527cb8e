/* Owns: warnings about constant scales that no calibrator means.
 * Does not own: presence and granularity of scales (verify_call.c).
 * Next: verify.h. */
#include <string.h>

#include "base/convert.h"
#include "ir/verify.h"

static const char *odd_scale(qf_dtype dtype, const qf_literal *literal, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        double scale = qf_load_f64(dtype, literal->data, (int64_t)i);
        if (scale != scale) return "NaN";
        if (scale == 0) return "zero";
        if (scale < 0) return "negative";
        if (scale - scale != 0) return "infinite";
        if (scale < 0x1p-126) return "subnormal";
    }
    return NULL;
}

static uint32_t warn_scale(const qf_graph *graph, qf_node node, const qf_op_info *info, uint32_t operand) {
    const qf_literal *literal = qf_value_literal(graph, qf_node_operand(graph, node, operand));
    uint64_t count;
    if (!literal || !qf_type_static_count(graph->context, literal->type, &count)) return 0;
    qf_dtype dtype = qf_type_dtype(graph->context, literal->type);
    const char *odd = qf_dtype_is_float(dtype) ? odd_scale(dtype, literal, count) : NULL;
    if (!odd) return 0;
    qf_position position = qf_node_position(graph, node);
    qf_message(graph->context, QF_SEVERITY_WARNING, &position,
               "%s: operand %s: the constant scale is %s; results follow the arithmetic, but a calibrator may have "
               "failed here",
               info->name, info->operands[operand].name, odd);
    return 1;
}

uint32_t qf_graph_warn_scales(const qf_graph *graph) {
    uint32_t count = 0;
    QF_FOR_EACH_NODE(graph, node) {
        const qf_op_info *info = qf_op_info_of(qf_node_op(graph, node));
        for (uint32_t i = 0; i < info->operand_count; i++) {
            const char *name = info->operands[i].name;
            size_t size = strlen(name);
            if (size >= 5 && strcmp(name + size - 5, "scale") == 0) count += warn_scale(graph, node, info, i);
        }
    }
    return count;
}
