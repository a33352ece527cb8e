/* Owns: reading a whole file that holds one TensorProto.
 * Does not own: decoding it (tensor.c).
 * Next: tensor.c. */
#include "frontends/onnx/tensor_file.h"

#include <string.h>

#include "frontends/onnx/tensor.h"

static uint64_t bytes_of(const qf_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= (uint64_t)tensor->dims[i];
    return qf_dtype_bytes(tensor->dtype, count);
}

static qf_status read_tensor(qf_onnx_storage *storage, qf_arena *arena, const char *path, qf_tensor *out) {
    qf_context *context = storage->context;
    qf_position position = {.location = path};
    const qf_onnx_mapping *mapping;
    qf_status status = qf_onnx_storage_map(storage, path, (uint64_t)1 << 36, path, &mapping);
    if (status != QF_OK) return status;
    ProtobufCMessage *message =
        qf_onnx_unpack(context, arena, &onnx__tensor_proto__descriptor, path, mapping->file.data, mapping->file.size);
    if (!message) return qf_context_status(context);
    const Onnx__TensorProto *tensor = (const Onnx__TensorProto *)message;
    qf_type type = qf_onnx_tensor_type(context, tensor, path);
    if (!type.id) return qf_context_status(context);
    out->dtype = qf_type_dtype(context, type);
    out->rank = qf_type_rank(context, type);
    if (out->dtype == QF_DTYPE_NONE)
        return qf_fail(context, QF_ERROR_UNSUPPORTED, &position, "the element type %s is not supported",
                       qf_onnx_dtype_name(tensor->data_type));
    for (uint32_t i = 0; i < out->rank; i++) out->dims[i] = tensor->dims[i];
    qf_onnx_bytes bytes;
    qf_onnx_folders folders = {0};
    status = qf_onnx_tensor_bytes(storage, &folders, tensor, NULL, type, path, &bytes);
    if (status != QF_OK) return status;
    out->data = qf_allocate(context, (size_t)bytes.size);
    if (!out->data) return QF_ERROR_OUT_OF_MEMORY;
    if (bytes.size) memcpy(out->data, bytes.data, (size_t)bytes.size);
    return QF_OK;
}

qf_status qf_onnx_tensor_read(qf_context *context, const char *path, qf_tensor *out) {
    memset(out, 0, sizeof *out);
    qf_onnx_storage *storage = qf_onnx_storage_create(context);
    if (!storage) return QF_ERROR_OUT_OF_MEMORY;
    qf_arena arena = {.context = context};
    qf_status status = read_tensor(storage, &arena, path, out);
    qf_arena_destroy(&arena);
    qf_onnx_storage_destroy(context, storage);
    if (status != QF_OK) memset(out, 0, sizeof *out);
    return status;
}

void qf_onnx_tensor_free(qf_context *context, qf_tensor *tensor) {
    qf_release(context, tensor->data, (size_t)bytes_of(tensor));
    tensor->data = NULL;
}
