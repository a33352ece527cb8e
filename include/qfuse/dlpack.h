/* Owns: our own declaration of DLPack's published ABI 1.x (tensor exchange between frameworks), under qf_ names.
 * Does not own: conversion to and from qf_tensor (tensor.h).
 * Next: tensor.h. */
#ifndef QFUSE_DLPACK_H
#define QFUSE_DLPACK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Layouts and numbers are those of dlpack.h 1.x; a pointer to DLTensor may be cast to qf_dl_tensor and so on. */
#define QF_DL_MAJOR 1
#define QF_DL_MINOR 1

typedef enum qf_dl_device_type {
    QF_DL_CPU = 1,
    QF_DL_CUDA = 2,
    QF_DL_CUDA_HOST = 3,
    QF_DL_CUDA_MANAGED = 13
} qf_dl_device_type;

typedef enum qf_dl_type_code {
    QF_DL_INT = 0,
    QF_DL_UINT = 1,
    QF_DL_FLOAT = 2,
    QF_DL_OPAQUE = 3,
    QF_DL_BFLOAT = 4,
    QF_DL_COMPLEX = 5,
    QF_DL_BOOL = 6,
    QF_DL_FLOAT8_E3M4 = 7,
    QF_DL_FLOAT8_E4M3 = 8,
    QF_DL_FLOAT8_E4M3B11FNUZ = 9,
    QF_DL_FLOAT8_E4M3FN = 10,
    QF_DL_FLOAT8_E4M3FNUZ = 11,
    QF_DL_FLOAT8_E5M2 = 12,
    QF_DL_FLOAT8_E5M2FNUZ = 13,
    QF_DL_FLOAT8_E8M0FNU = 14,
    QF_DL_FLOAT6_E2M3FN = 15,
    QF_DL_FLOAT6_E3M2FN = 16,
    QF_DL_FLOAT4_E2M1FN = 17
} qf_dl_type_code;

typedef struct qf_dl_version {
    uint32_t major, minor;
} qf_dl_version;

typedef struct qf_dl_device {
    int32_t device_type; /* qf_dl_device_type */
    int32_t device_id;
} qf_dl_device;

typedef struct qf_dl_data_type {
    uint8_t code; /* qf_dl_type_code */
    uint8_t bits;
    uint16_t lanes;
} qf_dl_data_type;

/* `strides` counts elements and may be NULL for contiguous row-major tensors (before 1.2). */
typedef struct qf_dl_tensor {
    void *data;
    qf_dl_device device;
    int32_t ndim;
    qf_dl_data_type dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} qf_dl_tensor;

/* The form without a version (DLPack before 1.0). */
typedef struct qf_dl_managed_tensor {
    qf_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct qf_dl_managed_tensor *self);
} qf_dl_managed_tensor;

#define QF_DL_FLAG_READ_ONLY      ((uint64_t)1)
#define QF_DL_FLAG_COPIED         ((uint64_t)2)
#define QF_DL_FLAG_SUBBYTE_PADDED ((uint64_t)4)

/* The form of DLPack 1.x. A reader looks at `version` first; another major has another layout after it. */
typedef struct qf_dl_managed_tensor_versioned {
    qf_dl_version version;
    void *manager_ctx;
    void (*deleter)(struct qf_dl_managed_tensor_versioned *self);
    uint64_t flags;
    qf_dl_tensor dl_tensor;
} qf_dl_managed_tensor_versioned;

#ifdef __cplusplus
}
#endif

#endif
