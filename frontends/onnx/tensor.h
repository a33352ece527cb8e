/* Owns: reading TensorProto: type, bytes in place or decoded, external data.
 * Does not own: turning tensors into nodes (import.c), whole .pb tensor files (tensor_file.h).
 * Next: tensor.c. */
#ifndef QF_FRONTENDS_ONNX_TENSOR_H
#define QF_FRONTENDS_ONNX_TENSOR_H

#include "frontends/onnx/model.h"

/* Where a tensor's bytes lie. `file` is NULL unless they are in a file, at `offset`. */
typedef struct qf_onnx_bytes {
    const void *data;
    uint64_t size;
    const char *file;
    uint64_t offset;
} qf_onnx_bytes;

/* Where external data may be: regular files below `directory` or `root` (each NULL: none). */
typedef struct qf_onnx_folders {
    const char *directory, *root;
} qf_onnx_folders;

/* The type, with constant dims. dtype none for element types that QFuse lacks. 0 after a located failure. */
qf_type qf_onnx_tensor_type(qf_context *context, const Onnx__TensorProto *tensor, const char *location);

/* The elements of a tensor whose dtype QFuse has, row-major, little-endian, aligned to their size, in place where
 * possible, else in the storage's arena. `cut` is where raw_data lies when it was not unpacked, else NULL. The number
 * of bytes is checked against the type. */
qf_status qf_onnx_tensor_bytes(qf_onnx_storage *storage, const qf_onnx_folders *folders,
                               const Onnx__TensorProto *tensor, const qf_onnx_bytes *cut, qf_type type,
                               const char *location, qf_onnx_bytes *out);

#endif
