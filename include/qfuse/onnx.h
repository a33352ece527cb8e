/* Owns: reading ONNX models into graphs and writing graphs as ONNX models.
 * Does not own: the graph (graph.h), what each op maps to (frontends/onnx/ops.def).
 * Next: docs/onnx.md. */
#ifndef QFUSE_ONNX_H
#define QFUSE_ONNX_H

#include <qfuse/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operators Attention-23 and Attention-24 were changed in place, without a new version number: where the soft cap
 * stands against the mask, what qk_matmul_output modes 1 and 2 mean, how causal rows are aligned to cached keys, in
 * which order grouped heads are repeated, and what a row without any key gives. A file does not say which reading its
 * producer had. */
typedef enum qf_onnx_revision {
    QF_ONNX_REVISION_NEWEST =
        0, /* corrected text (onnx 1.23): cap before mask, offset-aware causal, zeros for empty rows */
    QF_ONNX_REVISION_FIRST = 1 /* as first published (onnx 1.18): mask before cap, causal from the upper left corner,
                                  heads repeated as a whole, NaN for empty rows */
} qf_onnx_revision;

typedef struct qf_onnx_import_options {
    size_t struct_size;
    qf_onnx_revision revision;
    const char *external_root; /* a second folder that external data may lie in; NULL: only the model's own */
    const char *directory;     /* import from memory: the model's folder; NULL: external data is refused */
    const char *name;          /* import from memory: what messages call the model; default "model.onnx" */
    uint64_t max_bytes;        /* size of a model file; default 2 GiB, the limit of the format */
    uint64_t max_nodes;        /* nodes, those of subgraphs and of inlined functions counted; default 4 million */
    int stepwise_16bit; /* not 0: Softmax and Sigmoid of 16-bit floats round after every step of their definition, as
                           onnx.reference computes them; 0: once, at the end, as run times do */
} qf_onnx_import_options;

/* Reads a model. On failure *out_graph is NULL, and one diagnostic names the node or byte at fault. `options` may be
 * NULL. Opsets 13 to 25 are read. What is not known stays in the graph as an `opaque` node and is written back as it
 * was. The graph keeps the file mapped: weights are read from it until the graph is destroyed, so the file must not
 * change meanwhile. Memory: at most 32 bytes a byte of the file, plus 16 MiB (weights are not copied where their place
 * in the file suits their element type); a model that would need more is refused before it is unpacked. */
QF_API QF_MUST_USE qf_status qf_onnx_import_file(qf_context *context, const char *path,
                                                 const qf_onnx_import_options *options, qf_graph **out_graph);
/* The same from memory, which must stay as it is until the graph is destroyed. */
QF_API QF_MUST_USE qf_status qf_onnx_import_memory(qf_context *context, const void *data, size_t size,
                                                   const qf_onnx_import_options *options, qf_graph **out_graph);

/* Writes the graph as an ONNX model: standard ops where there are some, ops of domain `qfuse` otherwise (fused
 * attention among them, with all their attributes), opaque nodes as they were read. Weights are copied into the file.
 * The file is written under another name in the same folder, then renamed. */
QF_API QF_MUST_USE qf_status qf_onnx_export_file(const qf_graph *graph, const char *path);
/* The same to memory of the context's allocator; free it with qf_onnx_free. On failure *out_data is NULL. */
QF_API QF_MUST_USE qf_status qf_onnx_export_memory(const qf_graph *graph, void **out_data, size_t *out_size);
QF_API void qf_onnx_free(qf_context *context, void *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif
