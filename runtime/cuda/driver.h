/* Owns: the CUDA driver API as a table of functions found at run time, with our own declaration of the published ABI.
 * Does not own: which functions (driver.def), the device (devices/cuda.c).
 * Next: driver.def. */
#ifndef QF_RUNTIME_CUDA_DRIVER_H
#define QF_RUNTIME_CUDA_DRIVER_H

#include "base/context.h"

typedef int qf_cu_result; /* 0: success */
typedef int qf_cu_device;
typedef uintptr_t qf_cu_address;
typedef struct qf_cu_context_object *qf_cu_context;
typedef struct qf_cu_stream_object *qf_cu_stream;
typedef struct qf_cu_event_object *qf_cu_event;
typedef struct qf_cu_module_object *qf_cu_module;
typedef struct qf_cu_function_object *qf_cu_function;
typedef struct qf_cu_graph_object *qf_cu_graph;
typedef struct qf_cu_graph_exec_object *qf_cu_graph_exec;

/* Values of the published ABI; tests/runtime/cuda_abi_test.c compares them with cuda.h where a toolkit is there. */
enum {
    QF_CU_ERROR_OUT_OF_MEMORY = 2,
    QF_CU_ERROR_NO_DEVICE = 100,
    QF_CU_ATTRIBUTE_PROCESSOR_COUNT = 16,
    QF_CU_ATTRIBUTE_L2_SIZE = 38,
    QF_CU_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    QF_CU_ATTRIBUTE_CAPABILITY_MINOR = 76,
    QF_CU_FUNCTION_SHARED_BYTES = 8,
    QF_CU_FUNCTION_NON_PORTABLE_CLUSTER = 14,
    QF_CU_LAUNCH_CLUSTER_DIMENSION = 4,
    QF_CU_LAUNCH_CLUSTER_POLICY = 5,
    QF_CU_LAUNCH_DEPENDENT = 6, /* programmatic stream serialisation */
    QF_CU_CLUSTER_POLICY_LOAD_BALANCING = 2,
    QF_CU_CAPTURE_THREAD_LOCAL = 1,
    QF_CU_CAPTURE_RELAXED = 2,
    QF_CU_STREAM_NON_BLOCKING = 1,
    QF_CU_EVENT_DEFAULT = 0,
    QF_CU_MAP_UINT8 = 0,
    QF_CU_MAP_UINT16 = 1,
    QF_CU_POINTER_MEMORY_TYPE = 2,
    QF_CU_MEMORY_HOST = 1
};

typedef struct qf_cu_launch_attribute {
    int id;
    char padding[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int value;
    };
} qf_cu_launch_attribute;

typedef struct qf_cu_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    qf_cu_stream stream;
    qf_cu_launch_attribute *attributes;
    unsigned attribute_count;
} qf_cu_launch_config;

typedef struct qf_cuda_driver {
    void *library; /* NULL: not open */
#define DRIVER(name, field, parameters) qf_cu_result(*field) parameters;
#include "runtime/cuda/driver.def"
} qf_cuda_driver;

/* Loads libcuda.so.1, finds every function and initialises the driver. On failure one diagnostic says what was looked
 * for, and *out_driver is closed. The library is reference-counted by the system: each executor opens its own. */
qf_status qf_cuda_driver_open(qf_context *context, qf_cuda_driver *out_driver);
void qf_cuda_driver_close(qf_cuda_driver *driver);

/* QF_OK for 0; else records "what: CUDA_ERROR_NAME (text)" in the context and gives QF_ERROR_OUT_OF_MEMORY or
 * QF_ERROR_DEVICE. */
qf_status qf_cuda_check(const qf_cuda_driver *driver, qf_context *context, qf_cu_result result, const char *what);
/* "CUDA_ERROR_NAME (text)" into `text`. */
void qf_cuda_describe(const qf_cuda_driver *driver, qf_cu_result result, char *text, size_t size);

/* A library opened by the first of `names` (NULL-terminated) that is found; NULL: none. */
void *qf_library_open(const char *const *names);
void qf_library_close(void *library);
/* Stores the address of a function into *out_function, a pointer to function. */
bool qf_library_find(void *library, const char *name, void *out_function);

#endif
