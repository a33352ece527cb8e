/* Owns: the state of an import, what a mapping function is given, and the table row that leads to it.
 * Does not own: helpers that emit nodes (build.h), the table (ops.def).
 * Next: import.c, build.h, ops.def. */
#ifndef QF_FRONTENDS_ONNX_IMPORT_H
#define QF_FRONTENDS_ONNX_IMPORT_H

#include <qfuse/onnx.h>

#include "frontends/onnx/tensor.h"
#include "ir/graph.h"
#include "ir/infer.h"

/* More opset imports in a model or function, or attributes on a node, are refused: they are searched in order. */
#define QF_ONNX_MAX_OPSETS          256
#define QF_ONNX_MAX_ATTRIBUTES      1024
/* What a call of a function copies (constants, opaque nodes) counts as a node for so many bytes, so that repeated calls
 * stay within the limit on nodes. */
#define QF_ONNX_BYTES_A_NODE        64
/* Functions may call functions to this depth. */
#define QF_ONNX_MAX_CALLS           64
/* Float initialisers and constants of at most this many bytes are written into the graph; larger ones become
 * parameters. */
#define QF_ONNX_SMALL_BYTES         1024
/* The same for integers and booleans, which are indices and masks that the recogniser reads. */
#define QF_ONNX_SMALL_INTEGER_BYTES ((uint64_t)64 << 10)

typedef struct qf_onnx_call qf_onnx_call;

typedef enum qf_onnx_outcome {
    QF_ONNX_MAPPED,   /* call->outputs are set */
    QF_ONNX_DECLINED, /* well formed, but outside of what the mapping knows; call->reason says why; becomes opaque */
    QF_ONNX_FAILED    /* a failure was recorded */
} qf_onnx_outcome;

typedef qf_onnx_outcome (*qf_onnx_map)(qf_onnx_call *call);

/* One row of ops.def: an op over a range of opset versions. */
typedef struct qf_onnx_row {
    const char *domain, *op_type;
    uint32_t first, last; /* versions of the domain */
    uint32_t least_inputs, most_inputs;
    const char *attributes; /* names that the mapping reads, separated by commas; any other declines */
    qf_onnx_map map;
    uint32_t argument; /* of the mapping: mostly a qf_op */
} qf_onnx_row;

/* A list of nodes being imported: the main graph, one call of a function, or a branch. */
typedef struct qf_onnx_scope {
    const struct qf_onnx_scope *parent;
    uint32_t id, depth;
    bool sees_parent; /* a branch: names that it does not define are its parent's */
    const char *path; /* begins the location of its nodes */
    Onnx__OperatorSetIdProto **opsets;
    size_t opset_count;
    const Onnx__NodeProto *caller; /* functions: attributes are looked up here */
    const Onnx__FunctionProto *function;
} qf_onnx_scope;

typedef struct qf_onnx_binding {
    uint32_t scope;
    qf_string name;
    qf_value value; /* 0: an optional input that was not given */
} qf_onnx_binding;

typedef struct qf_onnx_import {
    qf_context *context;
    qf_graph *graph;
    qf_symbolic *symbolic;
    qf_arena scratch; /* until the end of the import */
    qf_onnx_import_options options;
    qf_onnx_model model;
    qf_onnx_storage *storage; /* adopted by the graph */
    qf_onnx_folders folders;
    const char *name;          /* what messages call the model */
    qf_onnx_binding *bindings; /* index 0 unused */
    uint32_t binding_count, binding_capacity;
    qf_index binding_index, row_index, function_index, info_index;
    Onnx__ValueInfoProto **infos; /* value_info and outputs of the main graph */
    uint32_t info_count, info_capacity;
    uint32_t scope_count;
    uint64_t node_count;
    bool reported; /* a fault was sent */
    bool failed;   /* some helper failed; the mapping's result is void */
} qf_onnx_import;

struct qf_onnx_call {
    qf_onnx_import *import;
    const qf_onnx_scope *scope;
    const qf_onnx_row *row;
    const Onnx__NodeProto *node;
    int64_t version; /* of the node's domain */
    qf_location location;
    const char *where;      /* the same as text */
    const qf_value *inputs; /* 0: absent */
    uint32_t input_count;
    qf_value *outputs;
    uint32_t output_count;
    const char *reason;
};

/* table.c */
const qf_onnx_row *qf_onnx_rows(uint32_t *out_count);
/* The first opset that allows FP8 operands of a standard op; UINT32_MAX: none does. */
uint32_t qf_onnx_float8_since(const char *op_type);

/* names.c */
qf_value qf_onnx_lookup(qf_onnx_import *import, const qf_onnx_scope *scope, const char *name, bool *out_known);
bool qf_onnx_bind(qf_onnx_import *import, const qf_onnx_scope *scope, const char *name, qf_value value);
/* The type that the model declares for a value of the main graph; 0 where it declares none. */
qf_type qf_onnx_declared_type(qf_onnx_import *import, const char *name);
/* The type of a TypeProto: unranked, dtype none for what is no tensor. 0 after a failure. */
qf_type qf_onnx_type(qf_onnx_import *import, const Onnx__TypeProto *proto, const char *name);
/* Remembers what value_info or outputs declare; entries without a type are skipped, of equal names the first counts. */
bool qf_onnx_add_infos(qf_onnx_import *import, Onnx__ValueInfoProto **infos, size_t count);

/* import.c */
qf_status qf_onnx_import_nodes(qf_onnx_import *import, const qf_onnx_scope *scope, Onnx__NodeProto **nodes,
                               size_t count);

/* weights.c: a constant, a parameter, or an opaque node for element types that QFuse lacks. 0 after a failure. */
qf_value qf_onnx_import_tensor(qf_onnx_import *import, const Onnx__TensorProto *tensor, const qf_onnx_bytes *cut,
                               const char *name, qf_location location, const char *where);

/* opaque.c: the node as it is, carried through. */
qf_status qf_onnx_import_opaque(qf_onnx_call *call);
/* Calls `visit` for each place where the node's subgraphs read a name from outside, in order. `visit` may replace the
 * name. False: out of memory, or `visit` said so. */
typedef bool (*qf_onnx_capture_visitor)(void *user, char **name);
bool qf_onnx_visit_captures(qf_context *context, qf_arena *scratch, Onnx__NodeProto *node,
                            qf_onnx_capture_visitor visit, void *user);

/* functions.c */
/* The model-local function that the node calls, or NULL. */
const Onnx__FunctionProto *qf_onnx_function_of(qf_onnx_import *import, const Onnx__NodeProto *node);
bool qf_onnx_index_functions(qf_onnx_import *import);
qf_status qf_onnx_inline(qf_onnx_call *call, const Onnx__FunctionProto *function);
/* The node with attributes that refer to the enclosing function's ones replaced by them; the node itself outside of
 * functions. NULL after a failure. */
const Onnx__NodeProto *qf_onnx_resolve(qf_onnx_import *import, const qf_onnx_scope *scope, const Onnx__NodeProto *node,
                                       const char *where);

/* A located failure of the node; sets import->failed. Always returns QF_ONNX_FAILED. */
qf_onnx_outcome qf_onnx_fault(qf_onnx_call *call, qf_status status, const char *format, ...) QF_PRINTF(3, 4);
void qf_onnx_warn(const qf_onnx_call *call, const char *format, ...) QF_PRINTF(2, 3);

#endif
