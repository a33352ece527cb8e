/* Owns: the entry point for tensors whose bytes lie in other files.
 * Does not own: tensors in the model's own bytes (tensor.h).
 * Next: external.c. */
#ifndef QF_FRONTENDS_ONNX_EXTERNAL_H
#define QF_FRONTENDS_ONNX_EXTERNAL_H

#include "frontends/onnx/tensor.h"

/* Finds and maps the file that the tensor names: a regular file below the model's folder or the allowed root, symbolic
 * links resolved; `size` bytes at its offset. */
qf_status qf_onnx_external_bytes(qf_onnx_storage *storage, const qf_onnx_folders *folders,
                                 const Onnx__TensorProto *tensor, uint64_t size, const char *location,
                                 qf_onnx_bytes *out);

#endif
