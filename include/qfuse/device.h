/* Owns: a device by itself: what it is, memory on it, copies, timing; for hosts that have no memory management of their
 * own. Does not own: running plans (runtime.h), which takes a host framework's memory and stream as well. Next:
 * runtime.h. */
#ifndef QFUSE_DEVICE_H
#define QFUSE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "cpu", or "cuda": an NVIDIA GPU through the driver API, which is loaded when the device is opened. One thread at a
 * time. */
typedef struct qf_device qf_device;

typedef struct qf_device_options {
    size_t struct_size;
    int32_t device_id; /* the driver's ordinal */
    void *stream;      /* CUstream for copies, marks and waits; NULL: the default stream */
} qf_device_options;

/* Opens a device. Fails with QF_ERROR_NOT_FOUND for an unknown name, with QF_ERROR_DEVICE when there is no driver or no
 * such GPU, with QF_ERROR_VERSION when the driver is too old; the diagnostic says what was looked for. A GPU is used
 * through its primary context, which host frameworks share, or through the context of `stream`. On failure *out_device
 * is NULL. `options` may be NULL. */
QF_API QF_MUST_USE qf_status qf_device_open(qf_context *context, const char *name, const qf_device_options *options,
                                            qf_device **out_device);
/* Memory allocated on the device must be released before. NULL is allowed. */
QF_API void qf_device_close(qf_device *device);

typedef struct qf_device_info {
    size_t struct_size;
    char name[64];       /* "NVIDIA H200" */
    char target[16];     /* the best target of its plans: "sm_90a", "cpu"; "" when there is none */
    int32_t device_type; /* a qf_dl_device_type, for tensors */
    int32_t device_id;
    uint32_t processor_count;                       /* multiprocessors; 0 on the CPU */
    uint32_t driver_version;                        /* 1000 * major + 10 * minor of CUDA */
    uint64_t memory_bytes, free_bytes, cache_bytes; /* 0 where unknown; cache_bytes: L2 */
    uint32_t kernel_images;                         /* GPU kernel files in this build; 0: it was built without nvcc */
    uint32_t has_cublaslt;                          /* 1: matrix products go through cuBLASLt */
} qf_device_info;
/* Fills what struct_size covers. */
QF_API void qf_device_describe(const qf_device *device, qf_device_info *out_info);

/* Memory aligned to 256 bytes. NULL on failure (recorded in the context). */
QF_API void *qf_device_allocate(qf_device *device, size_t size);
QF_API void qf_device_release(qf_device *device, void *memory, size_t size);
/* Copies from host memory and back, in the order of the stream; done when they return. */
QF_API QF_MUST_USE qf_status qf_device_upload(qf_device *device, void *destination, const void *source, size_t size);
QF_API QF_MUST_USE qf_status qf_device_download(qf_device *device, void *destination, const void *source, size_t size);
/* Waits for everything on the stream. */
QF_API QF_MUST_USE qf_status qf_device_wait(qf_device *device);

#define QF_DEVICE_MARKS 2
/* Marks a point of the stream, `mark` < QF_DEVICE_MARKS, and gives the nanoseconds between two marks (waits for the
 * later one): 0 where one was not marked, or `to` lies before `from`. */
QF_API void qf_device_mark(qf_device *device, uint32_t mark);
QF_API uint64_t qf_device_elapsed(qf_device *device, uint32_t from, uint32_t to);

#ifdef __cplusplus
}
#endif

#endif
