/* Owns: what the tables of standard ops share: their rows, and reading a node.
 * Does not own: building messages (export.h).
 * Next: export_ops.c, export_layout.c. */
#ifndef QF_FRONTENDS_ONNX_EXPORT_OPS_H
#define QF_FRONTENDS_ONNX_EXPORT_OPS_H

#include "frontends/onnx/export.h"

/* Each writer returns false before it has written anything where the op has no standard form; the form must read back
 * as the same op. A failure is in export->failed and ends the export. */
typedef bool (*qf_onnx_writer)(qf_onnx_export *export, qf_node node, const char *op_type);

typedef struct qf_onnx_export_row {
    qf_op op;
    const char *op_type;
    qf_onnx_writer write;
} qf_onnx_export_row;

/* export_layout.c: the row of an op that makes shapes or moves elements; NULL for others. */
const qf_onnx_export_row *qf_onnx_export_layout_row(qf_op op);
/* A node with the op's first attribute as its axis. A qf_onnx_writer. */
bool qf_onnx_export_axis(qf_onnx_export *export, qf_node node, const char *op_type);

/* What writers read of a node. */

static inline const qf_attribute *attribute_of(const qf_onnx_export *export, qf_node node, uint32_t index) {
    return qf_node_attribute(export->graph, node, index);
}

static inline qf_type operand_type(const qf_onnx_export *export, qf_node node, uint32_t index) {
    qf_value value = qf_node_operand(export->graph, node, index);
    return value.id ? qf_value_type(export->graph, value) : (qf_type){0};
}

static inline bool has_operand(const qf_onnx_export *export, qf_node node, uint32_t index) {
    return qf_node_operand(export->graph, node, index).id != 0;
}

#endif
