/* Owns: the ONNX entry points of a build without the frontend: each fails and says so.
 * Does not own: the frontend (import.c, export.c).
 * Next: frontends/CMakeLists.txt. */
#include <qfuse/onnx.h>

#include <string.h>

#include "frontends/onnx/tensor_file.h"
#include "ir/graph.h"

static qf_status absent(qf_context *context) {
    return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL,
                   "this build of QFuse has no ONNX frontend: build with protobuf-c and onnx.proto installed");
}

qf_status qf_onnx_import_file(qf_context *context, const char *path, const qf_onnx_import_options *options,
                              qf_graph **out_graph) {
    (void)path;
    (void)options;
    if (out_graph) *out_graph = NULL;
    return absent(context);
}

qf_status qf_onnx_import_memory(qf_context *context, const void *data, size_t size,
                                const qf_onnx_import_options *options, qf_graph **out_graph) {
    (void)data;
    (void)size;
    (void)options;
    if (out_graph) *out_graph = NULL;
    return absent(context);
}

qf_status qf_onnx_export_file(const qf_graph *graph, const char *path) {
    (void)path;
    return absent(graph->context);
}

qf_status qf_onnx_export_memory(const qf_graph *graph, void **out_data, size_t *out_size) {
    *out_data = NULL;
    *out_size = 0;
    return absent(graph->context);
}

void qf_onnx_free(qf_context *context, void *data, size_t size) {
    qf_release(context, data, size);
}

qf_status qf_onnx_tensor_read(qf_context *context, const char *path, qf_tensor *out) {
    (void)path;
    memset(out, 0, sizeof *out);
    return absent(context);
}

void qf_onnx_tensor_free(qf_context *context, qf_tensor *tensor) {
    (void)context;
    tensor->data = NULL;
}
