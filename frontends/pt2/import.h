/* Owns: the state of an import, what a mapping function is given, and the table row that leads to it.
 * Does not own: helpers that read arguments and emit nodes (build.h), the tables (ops.def, customs.def).
 * Next: import.c, tensors.c, build.h, ops.def. */
#ifndef QF_FRONTENDS_PT2_IMPORT_H
#define QF_FRONTENDS_PT2_IMPORT_H

#include <qfuse/pt2.h>

#include "frontends/pt2/archive.h"
#include "frontends/pt2/json.h"
#include "ir/graph.h"
#include "ir/infer.h"

/* Arguments of an operator that has a mapping: they are searched by name. More are refused. */
#define QF_PT2_MAX_ARGUMENTS       256
/* Arguments of other nodes, results of a node, elements of a list in an argument. */
#define QF_PT2_MAX_ITEMS           65536
/* Subgraphs inside subgraphs. */
#define QF_PT2_MAX_SUBGRAPHS       16
/* Float tensors of at most this many bytes are written into the graph; larger ones become parameters. */
#define QF_PT2_SMALL_BYTES         1024
/* The same for integers and booleans, which are indices and masks that the recogniser reads. */
#define QF_PT2_SMALL_INTEGER_BYTES ((uint64_t)64 << 10)

typedef struct qf_pt2_call qf_pt2_call;

typedef enum qf_pt2_outcome {
    QF_PT2_MAPPED,   /* results are set */
    QF_PT2_DECLINED, /* well formed, but outside of what the mapping knows; call->reason says why; becomes opaque */
    QF_PT2_FAILED    /* a failure was recorded */
} qf_pt2_outcome;

typedef qf_pt2_outcome (*qf_pt2_map)(qf_pt2_call *call);

/* Whether the results share memory with the first argument: never, always, or where torch makes no copy. */
typedef enum qf_pt2_sharing { QF_PT2_FRESH, QF_PT2_ALIAS, QF_PT2_SAME } qf_pt2_sharing;

/* One row of ops.def. */
typedef struct qf_pt2_row {
    const char *target;    /* "aten.add.Tensor" */
    const char *arguments; /* names that the mapping reads, separated by commas; any other that is given declines */
    qf_pt2_map map;
    uint32_t argument; /* of the mapping: mostly a qf_op */
    qf_pt2_sharing sharing;
} qf_pt2_row;

/* A row of customs.def: an op of a serving framework as one of the families of map_custom.c. */
typedef struct qf_pt2_custom {
    const char *target; /* "_C.rms_norm" without overload */
    const struct qf_pt2_family *family;
    const char *roles; /* "x=input out=result ..." */
} qf_pt2_custom;

/* A tensor of the program. Tensors that share memory are views of one root; a write to any of them makes a new value of
 * the root, and the others are read again through the layout nodes between (tensors.c). */
typedef struct qf_pt2_tensor {
    qf_value value;
    uint32_t root;       /* the tensor that owns the memory; itself for owners */
    uint32_t version;    /* owners: writes so far; views: of the owner when `value` was made */
    qf_value root_value; /* views: the owner's value that `value` was made from */
    uint32_t source;     /* owners: 1 + index of the signature's input that they are; 0: made by a node */
    bool complex;        /* a last axis more than the program says, of real and imaginary part */
} qf_pt2_tensor;

/* A name of the program: a tensor or a symbolic integer. */
typedef struct qf_pt2_binding {
    uint32_t scope;
    qf_string name;
    uint32_t tensor; /* 0: a number */
    qf_dim dim;
} qf_pt2_binding;

/* The main graph, or one subgraph. */
typedef struct qf_pt2_scope {
    const json_t *graph;
    uint32_t id, depth;
} qf_pt2_scope;

/* Where the bytes of a named weight are. */
typedef struct qf_pt2_weight {
    const char *name;
    const json_t *config; /* of the payload */
    const char *folder;   /* "model/data/weights/" */
} qf_pt2_weight;

/* An input of the signature. */
typedef struct qf_pt2_source {
    const char *kind;    /* "parameter", "buffer", "tensor_constant", "user_input", ... */
    const char *name;    /* of the tensor in the graph */
    const char *foreign; /* of the parameter or buffer in the program; "" for user inputs */
    uint32_t tensor;
    bool written; /* a buffer that the program writes: an input and an output of the graph */
} qf_pt2_source;

/* The KV cache of a layer that is known by its name only: inputs and outputs of the graph. */
typedef struct qf_pt2_layer {
    qf_string name, names[2];    /* of the layer, of its caches */
    uint32_t caches[2];          /* tensors: keys, values */
    qf_value q_scale, scales[2]; /* of FP8 caches */
} qf_pt2_layer;

/* What all layers share: where the rows of this call go, and which pages a sequence has. */
typedef struct qf_pt2_paging {
    qf_value block_table, kv_lens, q_start, slots; /* 0: no layer yet */
    qf_dim tokens;
} qf_pt2_paging;

typedef struct qf_pt2_import {
    qf_context *context;
    qf_graph *graph;
    qf_symbolic *symbolic;
    qf_arena scratch; /* until the end of the import */
    qf_pt2_import_options options;
    qf_pt2_storage *storage; /* adopted by the graph */
    qf_pt2_archive archive;
    const char *folder, *model; /* of the program in the archive: "model/", "model" */
    const char *name;           /* what messages call the archive */
    json_t *program;            /* models/model.json */
    json_t *configs[2];         /* of weights and constants */
    qf_pt2_weight *weights;     /* from 1 */
    uint32_t weight_count, weight_capacity;
    qf_pt2_source *sources;
    uint32_t source_count;
    qf_pt2_tensor *tensors; /* from 1 */
    uint32_t tensor_count, tensor_capacity;
    qf_pt2_binding *bindings; /* from 1 */
    uint32_t binding_count, binding_capacity;
    qf_pt2_custom *customs; /* from 1 */
    uint32_t custom_count, custom_capacity;
    qf_pt2_layer *layers;
    uint32_t layer_count, layer_capacity;
    qf_pt2_paging paging;
    qf_dtype cache_dtype; /* of options.kv_cache: none for "auto" */
    bool said_unbound;
    bool has_complex;   /* some tensor is complex */
    bool unread_number; /* a mapping asked for a number that is known only in a run: its result is void */
    qf_index weight_index, binding_index, row_index, custom_index;
    uint32_t scope_count;
    uint64_t node_count;
    uint32_t warning_count, warnings_sent; /* of this attempt; in all */
    bool again;  /* a buffer turned out to be written: import once more, now that it is known */
    bool failed; /* some helper failed; the mapping's result is void */
} qf_pt2_import;

/* An argument that a functionalised call passes in another way than by its node. */
typedef struct qf_pt2_override {
    const char *name;
    uint32_t tensor; /* 0: none */
} qf_pt2_override;

struct qf_pt2_call {
    qf_pt2_import *import;
    const qf_pt2_scope *scope;
    const qf_pt2_row *row;
    const qf_pt2_custom *custom;
    const char *target; /* "aten.add.Tensor" */
    const json_t *node;
    const json_t *arguments; /* the node's */
    const qf_pt2_override *overrides;
    uint32_t override_count;
    qf_location location;
    const char *where;         /* the same as text */
    const char **output_names; /* of tensors and numbers, lists spread out; "" where none is wanted */
    qf_value *outputs;
    uint32_t *output_tensors; /* set by a mapping that gives tensors, not values */
    qf_dim *output_dims;      /* of outputs that are numbers */
    uint32_t output_count;
    bool complex; /* what it reads first is complex: values have a last axis that its arguments do not count */
    const char *reason;
};

/* tables.c */
const qf_pt2_row *qf_pt2_rows(uint32_t *out_count);

/* tensors.c. 0 or false after a failure. */
uint32_t qf_pt2_tensor_new(qf_pt2_import *import, qf_value value);
uint32_t qf_pt2_tensor_view(qf_pt2_import *import, uint32_t of,
                            qf_value value); /* `value` was made from qf_pt2_read(of) */
qf_value qf_pt2_read(qf_pt2_call *call, uint32_t tensor);
/* The tensor holds `value` from now on, cast and broadcast to what it was. */
bool qf_pt2_write(qf_pt2_call *call, uint32_t tensor, qf_value value);
const qf_pt2_binding *qf_pt2_lookup(const qf_pt2_import *import, const qf_pt2_scope *scope, const char *name);
bool qf_pt2_bind(qf_pt2_import *import, const qf_pt2_scope *scope, const char *name, uint32_t tensor, qf_dim dim);

/* types.c */
qf_dtype qf_pt2_dtype(int64_t code); /* none: unknown to QFuse */
/* Of the parts of a complex type; none: another type. */
qf_dtype qf_pt2_part_dtype(int64_t code);
/* Those of the parts where the tensor is complex. */
qf_dtype qf_pt2_meta_dtype(const json_t *meta);
bool qf_pt2_meta_is_complex(const json_t *meta);
/* The dim of {"as_int": n} or {"as_expr": ...}; a fresh symbol where the expression is not understood. */
qf_dim qf_pt2_size(qf_pt2_import *import, const json_t *size);
/* A complex tensor has a last axis of two more. 0 after a failure. */
qf_type qf_pt2_meta_type(qf_pt2_import *import, const json_t *meta, const char *location);
bool qf_pt2_add_ranges(qf_pt2_import *import);

/* guards.c: facts and assumptions from the program's guards, once its inputs are bound. What is not understood is one
 * warning. False when memory ran out. */
bool qf_pt2_add_guards(qf_pt2_import *import, const qf_pt2_scope *scope);

/* weights.c */
qf_status qf_pt2_index_weights(qf_pt2_import *import);
/* The tensor that a signature's input is: a constant, a parameter or an input of the graph. 0 after a failure. */
qf_value qf_pt2_source_value(qf_pt2_import *import, const qf_pt2_source *source, const json_t *meta);

/* nodes.c */
qf_status qf_pt2_import_nodes(qf_pt2_import *import, const qf_pt2_scope *scope);

/* opaque.c: the node as it is, carried through. */
qf_status qf_pt2_import_opaque(qf_pt2_call *call);

/* customs.c */
bool qf_pt2_index_customs(qf_pt2_import *import);
const qf_pt2_custom *qf_pt2_custom_of(const qf_pt2_import *import, const char *target);
qf_pt2_outcome qf_pt2_map_custom(qf_pt2_call *call);

/* A located warning, sent once although an import may begin anew. */
void qf_pt2_warn(qf_pt2_import *import, const char *location, const char *format, ...) QF_PRINTF(3, 4);
/* A located failure of the node; sets import->failed. Always returns QF_PT2_FAILED. */
qf_pt2_outcome qf_pt2_fault(qf_pt2_call *call, qf_status status, const char *format, ...) QF_PRINTF(3, 4);

#endif
