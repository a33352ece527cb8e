/* Owns: modules of MLIR in memory: reading functions into graphs, rewriting modules in place, a pass for a host's pass
 *       manager.
 * Does not own: the graph (graph.h), files (the program qfuse-mlir), what each operation maps to
 * (frontends/mlir/ops.def). Next: docs/mlir.md. */
#ifndef QFUSE_MLIR_H
#define QFUSE_MLIR_H

#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>

#include <qfuse/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* These functions are in libqfuse-mlir, which holds no MLIR: the host's own copy serves, whose C API (mlir-c, LLVM 19
 * to 22) the host must make visible to shared libraries: by linking the shared library that has it, or by exporting its
 * own symbols (-rdynamic). Two copies of MLIR in one process do not work.
 *
 * Attributes and types of dialects are read through their printed form, so it does not matter whether the host has
 * registered StableHLO. Threads: as for the context given, and for MLIR as for any other change of the module. */

typedef struct qf_mlir_import_options {
    size_t struct_size;
    const char *function;        /* the symbol to read; NULL: main, else the first public function with a body */
    const char *name;            /* what messages call the module where it has no locations; default "module.mlir" */
    uint64_t max_nodes;          /* operations, those of inlined calls counted each time; default 4 million */
    uint64_t max_constant_bytes; /* constants above become parameters that refer to MLIR's memory; default 1 KiB for
                                    floats, 64 KiB for integers and booleans */
} qf_mlir_import_options;

/* Reads one function. On failure *out_graph is NULL and one diagnostic names the operation at fault. `options` may be
 * NULL. Calls and composites are inlined, constants are folded into the graph or referred to: the MlirContext must
 * outlive the graph. Operations that are not known become `opaque` nodes with a warning each kind. Inputs are named
 * arg0, arg1, ... in order. The module is not changed. Memory: linear in the operations read. */
QF_API QF_MUST_USE qf_status qf_mlir_import(qf_context *context, MlirModule module,
                                            const qf_mlir_import_options *options, qf_graph **out_graph);

typedef struct qf_mlir_rewrite_options {
    size_t struct_size;
    const char *passes;   /* as in qf_pipeline_options; NULL: "default" */
    const char *numerics; /* NULL: "default" */
    const char *target;   /* NULL: "cpu" */
    const char *query_scale;
    bool remarks; /* a remark for each attention: fused by which rule, or why not */
    /* Gets warnings and remarks, for which MLIR's C API has no diagnostics; their locations are text. NULL: dropped.
     * Must not call into QFuse. */
    qf_diagnostic_handler handler;
    void *handler_user;
} qf_mlir_rewrite_options;

typedef struct qf_mlir_report {
    size_t struct_size;
    uint32_t functions;  /* read */
    uint32_t skipped;    /* functions that could not be read; each has a warning */
    uint32_t attentions; /* recognised */
    uint32_t fused;      /* of those, with FP8 output */
    uint32_t replaced;   /* qfuse.attention operations that the module got */
} qf_mlir_report;

/* Runs a pipeline on every public function of the module and writes what was fused back into it: each attention that
 * the pipeline changed becomes one operation `qfuse.attention` (docs/mlir.md), its operands and users stay the module's
 * own, and operations that nobody reads any more are erased. All other operations stay as and where they are; calls are
 * inlined only where an attention lies in the callee. `qfuse` is a dialect without registration, so the MlirContext
 * must allow those (mlirContextSetAllowUnregisteredDialects). Messages go through MLIR's diagnostics, at the
 * operation's location. `options` and `out_report` may be NULL. On failure the module may hold inlined calls, but
 * computes what it did. */
QF_API QF_MUST_USE qf_status qf_mlir_rewrite(MlirModule module, const qf_mlir_rewrite_options *options,
                                             qf_mlir_report *out_report);

/* Adds a pass called `qfuse-fuse-attention-quant`, which does that, to a pass manager of modules. The manager owns it;
 * `options` (NULL: defaults) are copied. Returns false where memory ran out. */
QF_API QF_MUST_USE bool qfuse_mlir_register_pass(MlirOpPassManager manager, const qf_mlir_rewrite_options *options);

#ifdef __cplusplus
}
#endif

#endif
