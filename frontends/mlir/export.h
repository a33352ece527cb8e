/* Owns: what the parts of writing a rewritten graph back into its function share.
 * Does not own: the import that it goes back to (import.h).
 * Next: export.c. */
#ifndef QF_FRONTENDS_MLIR_EXPORT_H
#define QF_FRONTENDS_MLIR_EXPORT_H

#include "frontends/mlir/import.h"

/* A value of the graph as the module has it now. */
typedef struct qf_mlir_made {
    MlirValue value;
    uint32_t position; /* it stands before the function's operation of this number; 0: not made */
} qf_mlir_made;

typedef struct qf_mlir_export {
    qf_mlir_import_state *import;
    qf_context *context;
    const qf_graph *before, *graph; /* as imported; as rewritten */
    MlirContext mlir;
    uint32_t *heads; /* by value of the graph: the first binding that stands for it, 0: none */
    uint32_t *nexts; /* by binding */
    qf_mlir_made *made;
    uint32_t *seen; /* by value: the site that met it, from 1 */
    qf_arena scratch;
    bool dry;              /* only ask what is needed */
    MlirOperation inlined; /* a call that must be inlined first; null: none */
    MlirOperation *dead;   /* operations whose results were replaced */
    uint32_t dead_count, dead_capacity;
    uint32_t replaced;
} qf_mlir_export;

/* export.c: writes every attention that the pipeline changed into the function, and erases what nobody reads then.
 * Where that needs a call inlined, nothing is changed, and export->inlined is that call. */
qf_status qf_mlir_export_begin(qf_mlir_export *export, qf_mlir_import_state *import, const qf_graph *before);
qf_status qf_mlir_export_run(qf_mlir_export *export);
void qf_mlir_export_destroy(qf_mlir_export *export);

/* export_operation.c: one node as an operation before `place`; its results are of `types`. Null after a failure. */
MlirOperation qf_mlir_make_operation(qf_mlir_export *export, qf_node node, const MlirValue *operands,
                                     const MlirType *types, MlirLocation location, MlirOperation place);

/* inline.c: the body of the callee in place of the call. */
qf_status qf_mlir_inline_call(const qf_mlir_import_state *import, MlirOperation callee, MlirOperation call);

#endif
