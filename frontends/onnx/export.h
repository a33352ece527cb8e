/* Owns: the state of an export, and what the files that write nodes share.
 * Does not own: the entry points' contract (qfuse/onnx.h).
 * Next: export.c, export_ops.c. */
#ifndef QF_FRONTENDS_ONNX_EXPORT_H
#define QF_FRONTENDS_ONNX_EXPORT_H

#include "frontends/onnx/proto.h"
#include "ir/graph.h"

/* The opset that exports are written in. */
#define QF_ONNX_EXPORT_OPSET 25

typedef struct qf_onnx_list {
    void **items;
    uint32_t count, capacity;
} qf_onnx_list;

typedef struct qf_onnx_export {
    qf_context *context;
    const qf_graph *graph;
    qf_arena arena;          /* all messages and names */
    char **names;            /* of values, by id; NULL: not named yet */
    qf_onnx_list used_names; /* char *, in use */
    qf_index name_index, weight_index, domain_index;
    qf_onnx_list nodes, initializers, value_infos, domains; /* domains: char * */
    bool failed;
} qf_onnx_export;

/* --- export.c --- */
void *qf_onnx_new(qf_onnx_export *export, size_t size); /* zeroed, in the arena; NULL sets failed */
char *qf_onnx_copy_text(qf_onnx_export *export, const char *text);
void qf_onnx_list_add(qf_onnx_export *export, qf_onnx_list *list, void *item);
/* The name of a value, made unique on first use. */
char *qf_onnx_name_of(qf_onnx_export *export, qf_value value);
/* A name like `base` that nothing else has. */
char *qf_onnx_unique_name(qf_onnx_export *export, const char *base);
void qf_onnx_declare(qf_onnx_export *export, qf_value value); /* a value_info entry */
void qf_onnx_use_domain(qf_onnx_export *export, const char *domain);

/* --- export_node.c: building nodes --- */
/* A node with the IR node's operands and results as inputs and outputs, in order, and its location as name; already in
 * the list. */
Onnx__NodeProto *qf_onnx_write_node(qf_onnx_export *export, qf_node node, const char *domain, const char *op_type);
void qf_onnx_write_input(qf_onnx_export *export, Onnx__NodeProto *node, char *name); /* appends one */
void qf_onnx_write_int(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, int64_t value);
void qf_onnx_write_ints(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, const int64_t *values,
                        uint32_t count);
void qf_onnx_write_float(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, double value);
void qf_onnx_write_string(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, const char *text,
                          size_t size);
void qf_onnx_write_tensor(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, Onnx__TensorProto *tensor);
/* A tensor over bytes that outlive the export. */
Onnx__TensorProto *qf_onnx_tensor_proto(qf_onnx_export *export, const char *name, qf_type type, const void *data,
                                        uint64_t size);
/* A new i64 initialiser; its name. */
char *qf_onnx_write_constants(qf_onnx_export *export, const int64_t *values, uint32_t count, bool scalar);

/* --- export_ops.c, export_qfuse.c, export_opaque.c: one node of the graph --- */
/* Standard ONNX; false where there is no such form (nothing was written). */
bool qf_onnx_export_standard(qf_onnx_export *export, qf_node node);
/* Domain qfuse, always possible. */
void qf_onnx_export_qfuse(qf_onnx_export *export, qf_node node);
void qf_onnx_export_opaque(qf_onnx_export *export, qf_node node);

#endif
