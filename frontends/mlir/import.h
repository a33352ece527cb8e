/* Owns: the state of an import, what a mapping function is given, and the table row that leads to it.
 * Does not own: helpers that read attributes and emit nodes (build.h), the table (ops.def).
 * Next: import.c, operations.c, build.h, ops.def. */
#ifndef QF_FRONTENDS_MLIR_IMPORT_H
#define QF_FRONTENDS_MLIR_IMPORT_H

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/IR.h>

#include <qfuse/mlir.h>

#include "ir/graph.h"
#include "ir/infer.h"

/* Calls inside calls. */
#define QF_MLIR_MAX_DEPTH           64
/* Operands, results, elements of a list in an attribute. */
#define QF_MLIR_MAX_ITEMS           65536
/* Float constants of at most this many bytes are written into the graph; larger ones become parameters. */
#define QF_MLIR_SMALL_BYTES         1024
/* The same for integers and booleans, which are indices and masks that the recogniser reads. */
#define QF_MLIR_SMALL_INTEGER_BYTES ((uint64_t)64 << 10)
/* What an opaque node keeps of its operation's printed form. */
#define QF_MLIR_MAX_PAYLOAD         ((size_t)64 << 10)
/* How many of them keep it. */
#define QF_MLIR_MAX_PRINTED         64
#define QF_MLIR_ANY                 UINT32_MAX

typedef struct qf_mlir_call qf_mlir_call;

typedef enum qf_mlir_outcome {
    QF_MLIR_MAPPED,   /* results are set */
    QF_MLIR_DECLINED, /* well formed, but outside of what the mapping knows; call->reason says why; becomes opaque */
    QF_MLIR_FAILED    /* a failure was recorded */
} qf_mlir_outcome;

typedef qf_mlir_outcome (*qf_mlir_map)(qf_mlir_call *call);

/* One row of ops.def. */
typedef struct qf_mlir_row {
    const char *name;  /* "stablehlo.add" */
    uint32_t operands; /* how many; QF_MLIR_ANY: the mapping looks */
    qf_mlir_map map;
    uint32_t argument; /* of the mapping: mostly a qf_op */
} qf_mlir_row;

/* A function body as it was entered: the function itself is instance 0, every call that is inlined another one, and
 * every round of a loop. */
typedef struct qf_mlir_instance {
    uint32_t parent;
    bool effects;       /* it holds, or calls what holds, an operation that is not pure */
    bool captures;      /* a region: it reads values of the parent as well */
    MlirOperation call; /* in the parent's body; a loop: itself */
} qf_mlir_instance;

/* A value of one instance, and the graph's value for it. */
typedef struct qf_mlir_binding {
    MlirValue value;
    uint32_t instance;
    uint32_t position; /* of its operation in the instance's block, from 1; arguments: 0 */
    qf_value id;
} qf_mlir_binding;

/* Where messages point to: the text that the graph knows, and MLIR's own location. */
typedef struct qf_mlir_place {
    qf_string text;
    MlirLocation location;
} qf_mlir_place;

typedef struct qf_mlir_import {
    qf_context *context;
    qf_graph *graph;
    qf_symbolic *symbolic;
    qf_arena scratch; /* until the end of the import */
    qf_mlir_import_options options;
    MlirModule module;
    MlirOperation function; /* or the operation that has the region which is read */
    intptr_t region;
    MlirOperation *symbols; /* from 1: operations of the module with a symbol name */
    uint32_t symbol_count, symbol_capacity;
    qf_mlir_instance *instances; /* from 0 */
    uint32_t instance_count, instance_capacity;
    qf_mlir_binding *bindings; /* from 1 */
    uint32_t binding_count, binding_capacity;
    qf_mlir_place *places; /* from 1 */
    uint32_t place_count, place_capacity;
    struct qf_mlir_typed {
        const void *key;
        qf_type type;
    } * types; /* from 1 */
    uint32_t type_count, type_capacity;
    const char **warned; /* from 1: names of operations that had their warning */
    uint32_t warned_count, warned_capacity;
    qf_index symbol_index, binding_index, place_index, type_index, row_index, warned_index;
    uint64_t node_count;
    uint32_t printed_count; /* opaque operations that keep their printed form */
    uint32_t weight_count;
    bool uses_stablehlo;
    uint32_t round_count; /* of loops that were unrolled */
    bool keep_loops;      /* they are carried through, whatever is known of them */
    bool failed;          /* some helper failed; the mapping's result is void */
} qf_mlir_import_state;

struct qf_mlir_call {
    qf_mlir_import_state *import;
    uint32_t instance, depth, position;
    const qf_mlir_row *row;
    MlirOperation operation;
    const char *name; /* "stablehlo.add" */
    qf_location location;
    const char *where; /* the same as text */
    qf_value *operands;
    uint32_t operand_count;
    qf_value *results;
    uint32_t result_count;
    const char *reason;
};

/* table.c */
const qf_mlir_row *qf_mlir_rows(uint32_t *out_count);

/* import.c */
typedef struct qf_mlir_scope {
    MlirOperation operation; /* null: the function of the options; else one of its regions, as if it were a function */
    intptr_t region;
    bool keep_loops; /* else loops that count are unrolled */
} qf_mlir_scope;
/* Reads the function of the options, or the region, into import->graph, and keeps what was bound to what. The caller
 * destroys the state whatever comes back, and the graph as well. */
qf_status qf_mlir_import_begin(qf_mlir_import_state *import, qf_context *context, MlirModule module,
                               const qf_mlir_import_options *options, qf_mlir_scope scope);
void qf_mlir_import_destroy(qf_mlir_import_state *import);
MlirOperation qf_mlir_symbol(const qf_mlir_import_state *import, qf_text name); /* null where there is none */

/* operations.c */
/* The only block of a function or composite body; null where there is none or are several. */
MlirBlock qf_mlir_only_block(MlirOperation operation, intptr_t region);
/* Imports the operations of a block; *out_terminator is its last one. */
qf_status qf_mlir_import_block(qf_mlir_import_state *import, MlirBlock block, uint32_t instance, uint32_t depth,
                               MlirOperation *out_terminator);
/* calls.c: the block as one more instance, its arguments bound to `arguments`, one each. False: a recorded failure. */
bool qf_mlir_import_instance(qf_mlir_call *call, MlirBlock block, const qf_value *arguments, bool captures,
                             uint32_t *out_instance, MlirOperation *out_terminator);
qf_value qf_mlir_lookup(const qf_mlir_import_state *import, MlirValue value, uint32_t instance); /* 0: not bound */
/* The same; what a region reads from around it becomes an input, unless it is a constant. 0: not bound, or a failure.
 */
qf_value qf_mlir_read(qf_mlir_import_state *import, MlirValue value, uint32_t instance);
bool qf_mlir_bind(qf_mlir_import_state *import, MlirValue value, uint32_t instance, uint32_t position, qf_value id);
/* A located failure of the operation; sets import->failed. Always returns QF_MLIR_FAILED. */
qf_mlir_outcome qf_mlir_fault(qf_mlir_call *call, qf_status status, const char *format, ...) QF_PRINTF(3, 4);

/* opaque.c: the operation as it is, carried through. */
qf_status qf_mlir_import_opaque(qf_mlir_call *call);

/* locate.c: text and location of an operation. False after a failure. */
bool qf_mlir_locate(qf_mlir_import_state *import, MlirOperation operation, const char *name, qf_location *out_location,
                    const char **out_text);
/* MLIR's location of a text that locate gave, or that holds one; null where none is known. */
MlirLocation qf_mlir_place_of(const qf_mlir_import_state *import, const char *text);

/* types.c */
qf_dtype qf_mlir_dtype(MlirType element); /* none: unknown to QFuse */
/* Tensors and scalars (rank 0); anything else is a value of unknown type. 0 after a failure. */
qf_type qf_mlir_type(qf_mlir_import_state *import, MlirType type);
/* The type as MLIR has it; null where the context does not know the element type. */
MlirType qf_mlir_type_back(MlirContext context, const qf_context *qfuse, qf_type type);

/* calls.c */
qf_mlir_outcome qf_mlir_map_call(qf_mlir_call *call);
qf_mlir_outcome qf_mlir_map_composite(qf_mlir_call *call);

#endif
