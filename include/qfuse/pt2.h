/* Owns: reading torch.export archives (.pt2) into graphs.
 * Does not own: the graph (graph.h), what each operator maps to (frontends/pt2/ops.def, customs.def).
 * Next: docs/pt2.md. */
#ifndef QFUSE_PT2_H
#define QFUSE_PT2_H

#include <qfuse/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qf_pt2_import_options {
    size_t struct_size;
    const char *name;    /* import from memory: what messages call the archive; default "model.pt2" */
    uint64_t max_bytes;  /* size of the archive; default 1 TiB */
    uint64_t max_json;   /* size of the JSON graph, uncompressed; default 1 GiB */
    uint64_t max_nodes;  /* nodes of the graph, those of subgraphs counted; default 4 million */
    const char *customs; /* rows for more custom operators, in the form of frontends/pt2/customs.def; NULL: none.
                          * They stand before the built-in ones. */
    /* The KV cache of attentions that are only a layer's name, as serving frameworks call its element type: "auto" (the
     * keys' type), "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", ... NULL: no cache; such an attention is causal over the
     * tokens of the call. See below. */
    const char *kv_cache;
    uint32_t page_size; /* rows of a page of such caches; 0: a symbol */
} qf_pt2_import_options;

/* With options.kv_cache, each layer's cache is a pair of inputs "<layer>.k_cache" and "<layer>.v_cache", [pages,
 * page_size, heads, head size], after all other inputs, and a pair of outputs of the same names, after all other
 * outputs, which may lie in the same memory. FP8 caches come with f32[] inputs "<layer>.q_scale", "<layer>.k_scale",
 * "<layer>.v_scale". All layers share the inputs "block_table" i32[sequences, pages of a sequence], "kv_lens"
 * i32[sequences] (rows of this call included), "q_start" i32[sequences + 1] and "slots" i64[tokens] (page * page_size +
 * row; -1: not written). The call's keys and values are written before they are read. */

/* Reads an archive. On failure *out_graph is NULL, and one diagnostic names the node or entry at fault. `options` may
 * be NULL. Schema major version 8 is read. Nothing is unpickled: weights that the archive stores as pickles (tensor
 * subclasses) become parameters without bytes, which qf_graph_bind_weight may give later, and sample inputs are
 * skipped.
 *
 * Inputs are the program's own, in order, then every buffer that the program writes, by its name; qf_graph_weight gives
 * the value that the archive holds for such a buffer. Outputs are the program's own, then the new value of every such
 * buffer under the buffer's name, in the same order.
 *
 * What is not known stays in the graph as an `opaque` node. The graph keeps the file mapped: weights are read from it
 * until the graph is destroyed, so the file must not change meanwhile. Memory: at most 64 bytes a byte of JSON, plus
 * 16 MiB; weights are not copied where they are stored uncompressed and contiguous. */
QF_API QF_MUST_USE qf_status qf_pt2_import_file(qf_context *context, const char *path,
                                                const qf_pt2_import_options *options, qf_graph **out_graph);
/* The same from memory, which must stay as it is until the graph is destroyed. */
QF_API QF_MUST_USE qf_status qf_pt2_import_memory(qf_context *context, const void *data, size_t size,
                                                  const qf_pt2_import_options *options, qf_graph **out_graph);

#ifdef __cplusplus
}
#endif

#endif
