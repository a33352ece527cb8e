/* Owns: an unpacked model with the bytes it stands on, and the object that a graph adopts to keep weights alive.
 * Does not own: what the model means (import.c), single tensors (tensor.h).
 * Next: model.c. */
#ifndef QF_FRONTENDS_ONNX_MODEL_H
#define QF_FRONTENDS_ONNX_MODEL_H

#include "base/file.h"
#include "frontends/onnx/proto.h"
#include "frontends/onnx/scan.h"

typedef struct qf_onnx_mapping {
    char *path;
    size_t path_size;
    qf_mapping file;
} qf_onnx_mapping;

/* What outlives the import: mapped files, and copies of weights that could not be used in place. */
typedef struct qf_onnx_storage {
    qf_context *context;
    qf_arena arena;
    qf_onnx_mapping *mappings; /* the model itself first, if it is a file; then external data */
    uint32_t mapping_count, mapping_capacity;
} qf_onnx_storage;

qf_onnx_storage *qf_onnx_storage_create(qf_context *context); /* NULL on failure */
void qf_onnx_storage_destroy(qf_context *context, void *storage);
/* Maps a regular file once. Fails with a located message for what is missing or no regular file. `what` begins the
 * message ("model", "external data of 'w'"). */
qf_status qf_onnx_storage_map(qf_onnx_storage *storage, const char *path, uint64_t max_bytes, const char *location,
                              const qf_onnx_mapping **out_mapping);

typedef struct qf_onnx_model {
    qf_context *context;
    qf_arena arena; /* the unpacked messages */
    Onnx__ModelProto *proto;
    qf_onnx_scan scan; /* bytes and cut weights */
} qf_onnx_model;

/* Scans and unpacks. `model` is zero-initialised by the caller, who calls qf_onnx_model_destroy also after a failure.
 */
qf_status qf_onnx_model_unpack(qf_onnx_model *model, qf_context *context, const char *name, const void *data,
                               uint64_t size, uint64_t max_nodes);
void qf_onnx_model_destroy(qf_onnx_model *model);
/* Any message on its own (a tensor file, an opaque node's payload), unpacked into `arena` after the same scan. NULL
 * after a recorded failure. */
ProtobufCMessage *qf_onnx_unpack(qf_context *context, qf_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                                 const char *name, const void *data, uint64_t size);

#endif
