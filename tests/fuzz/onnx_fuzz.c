/* Owns: fuzzing the ONNX frontend: arbitrary bytes give an error or a verified graph, which is written and read again.
 * Does not own: damaged files on purpose (tests/frontends/onnx_hostile_test.c).
 * Next: driver.c. */
#include "tests/fuzz/fuzz.h"

#include <qfuse/onnx.h>

#include "ir/graph.h"
#include "ir/verify.h"

/* Names of ops and attributes, which mutations of bytes alone hardly find. */
const char *const *qf_fuzz_dictionary(void) {
    static const char *const words[] = {"Attention",
                                        "GroupQueryAttention",
                                        "MultiHeadAttention",
                                        "RotaryEmbedding",
                                        "MatMul",
                                        "Gemm",
                                        "Einsum",
                                        "QuantizeLinear",
                                        "DequantizeLinear",
                                        "QLinearMatMul",
                                        "Reshape",
                                        "Slice",
                                        "Expand",
                                        "Transpose",
                                        "Split",
                                        "Concat",
                                        "Gather",
                                        "Pad",
                                        "Range",
                                        "Constant",
                                        "ConstantOfShape",
                                        "Shape",
                                        "If",
                                        "Loop",
                                        "TopK",
                                        "Conv",
                                        "Softmax",
                                        "LayerNormalization",
                                        "ReduceSum",
                                        "Tile",
                                        "com.microsoft",
                                        "trt",
                                        "qfuse",
                                        "axis",
                                        "perm",
                                        "to",
                                        "is_causal",
                                        "q_num_heads",
                                        "kv_num_heads",
                                        "num_heads",
                                        "equation",
                                        "bhtd,bhsd->bhts",
                                        "location",
                                        "../x",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                                        NULL};
    return words;
}

/* The documented bound of unpacking, and as much again for the graph and what is written from it. */
#define MEMORY_FACTOR 400
#define MEMORY_FIXED  ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory memory;
    qf_context *context = fuzz_context(&memory, MEMORY_FIXED + MEMORY_FACTOR * size);
    qf_graph *graph = NULL, *again = NULL;
    qf_onnx_import_options options = {.struct_size = sizeof options, .max_nodes = 20000};
    qf_status status = qf_onnx_import_memory(context, data, size, &options, &graph);
    FUZZ_CHECK((status == QF_OK) == (graph != NULL));
    FUZZ_CHECK(status == qf_context_status(context));
    if (graph && qf_graph_verify(graph) == QF_OK) {
        void *written = NULL;
        size_t written_size = 0;
        qf_context_clear_status(context);
        if (qf_onnx_export_memory(graph, &written, &written_size) == QF_OK) {
            qf_context_clear_status(context);
            status = qf_onnx_import_memory(context, written, written_size, NULL, &again);
            FUZZ_CHECK((status == QF_OK) == (again != NULL));
        }
        qf_onnx_free(context, written, written_size);
    }
    qf_graph_destroy(again);
    qf_graph_destroy(graph);
    fuzz_destroy(context, &memory);
    return 0;
}
