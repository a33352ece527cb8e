/* Owns: the tensor that the run-time API takes and gives, and its conversion from and to DLPack.
 * Does not own: DLPack's layouts (dlpack.h), who runs on tensors (runtime.h).
 * Next: runtime.h. */
#ifndef QFUSE_TENSOR_H
#define QFUSE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>
#include <qfuse/dlpack.h>
#include <qfuse/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QF_TENSOR_MAX_RANK 8

/* Contiguous row-major elements in memory that the tensor does not own. Zero-initialise: device 0 means host memory.
 * f4E2M1FN packs two elements a byte, the first in the low half. This struct is fixed within a major version: it has no
 * struct_size. */
typedef struct qf_tensor {
    qf_dtype dtype;
    uint32_t rank; /* 0: a scalar */
    int64_t dims[QF_TENSOR_MAX_RANK];
    void *data;          /* may be NULL where a dim is 0 */
    int32_t device_type; /* a qf_dl_device_type; 0 and QF_DL_CPU both mean host memory */
    int32_t device_id;
} qf_tensor;

/* Bytes of the elements. UINT64_MAX when a dim is negative, the rank or dtype is invalid, or the product overflows. Any
 * thread. */
QF_API uint64_t qf_tensor_bytes(const qf_tensor *tensor);

/* Reads a DLPack tensor in place; nothing is copied and nothing is freed. Fails with QF_ERROR_UNSUPPORTED, and a
 * diagnostic that names what was found, on dtypes that QFuse lacks, on strides that are not contiguous row-major
 * (strides of dims of size 1 are ignored), on a rank above QF_TENSOR_MAX_RANK; with QF_ERROR_INVALID_ARGUMENT on
 * impossible fields. */
QF_API QF_MUST_USE qf_status qf_tensor_from_dlpack(qf_context *context, const qf_dl_tensor *source,
                                                   qf_tensor *out_tensor);
/* The same for a managed tensor, whose deleter the caller still calls when done with *out_tensor. */
QF_API QF_MUST_USE qf_status qf_tensor_from_managed(qf_context *context, const qf_dl_managed_tensor *source,
                                                    qf_tensor *out_tensor);
/* The same; another major version is refused with QF_ERROR_VERSION before anything else is read. *out_read_only (may be
 * NULL) says whether the producer forbids writing. */
QF_API QF_MUST_USE qf_status qf_tensor_from_versioned(qf_context *context, const qf_dl_managed_tensor_versioned *source,
                                                      qf_tensor *out_tensor, bool *out_read_only);

/* Wraps a tensor for export. The wrapper is made with the context's allocator and freed by its own deleter, so the
 * context and the tensor's memory must outlive it; `release` (may be NULL) is called with `owner` by the deleter. token
 * and none dtypes fail with QF_ERROR_UNSUPPORTED. On failure *out is NULL and `release` is not called. */
QF_API QF_MUST_USE qf_status qf_tensor_to_versioned(qf_context *context, const qf_tensor *tensor,
                                                    void (*release)(void *owner), void *owner,
                                                    qf_dl_managed_tensor_versioned **out);
/* The same in the form without a version. */
QF_API QF_MUST_USE qf_status qf_tensor_to_managed(qf_context *context, const qf_tensor *tensor,
                                                  void (*release)(void *owner), void *owner,
                                                  qf_dl_managed_tensor **out);

#ifdef __cplusplus
}
#endif

#endif
