/* Owns: reading a whole file that holds one TensorProto (ONNX's test_data_set_N/input_N.pb).
 * Does not own: tensors inside of models (tensor.h).
 * Next: tensor_file.c. */
#ifndef QF_FRONTENDS_ONNX_TENSOR_FILE_H
#define QF_FRONTENDS_ONNX_TENSOR_FILE_H

#include <qfuse/tensor.h>

#include "base/context.h"

/* Reads the tensor into memory of the context's allocator; out->data is aligned for its elements. On failure *out is
 * zero. The caller frees it with qf_onnx_tensor_free. */
QF_MUST_USE qf_status qf_onnx_tensor_read(qf_context *context, const char *path, qf_tensor *out);
void qf_onnx_tensor_free(qf_context *context, qf_tensor *tensor);

#endif
