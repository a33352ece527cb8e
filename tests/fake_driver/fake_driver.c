/* Owns: the driver API on host memory: copies are made, kernels are counted, captures are recorded and replayed.
 * Does not own: the real one.
 * Next: fake_driver.h. */
#include "tests/fake_driver/fake_driver.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/driver.h"

#define MOST_RECORDED 64

/* Programs that are only linked with the driver do not reset it. */
#define ONE_GPU                                                                                                        \
    { .device_count = 1, .capability = 90, .processors = 132 }
static qf_fake_state state = ONE_GPU;
static _Thread_local int capture_mode; /* 0: global */

/* The prototypes of what is exported here. */
#define DRIVER(name, field, parameters) qf_cu_result name parameters;
#include "runtime/cuda/driver.def"
qf_fake_state *qf_fake_reset(void);

qf_fake_state *qf_fake_reset(void) {
    state = (qf_fake_state)ONE_GPU;
    return &state;
}

/* Relaxed: threads that meet here must not look ordered to ThreadSanitizer. */
#define ADD(field, amount) atomic_fetch_add_explicit(&state.field, amount, memory_order_relaxed)

#define CALL()                                                                                                         \
    do {                                                                                                               \
        if (ADD(calls, 1) + 1 == state.fail_at) return 999;                                                            \
    } while (0)

static qf_cu_result break_capture(void) {
    ADD(broken_captures, 1);
    return 900; /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */
}

/* Unless the thread said that it knows what it does. */
#define UNSAFE_IN_CAPTURE()                                                                                            \
    do {                                                                                                               \
        if (state.capturing && capture_mode != QF_CU_CAPTURE_RELAXED) return break_capture();                          \
    } while (0)

typedef struct recorded {
    void *to;
    const void *from;
    size_t size;
} recorded;

/* Every handle is one of these. */
typedef struct object {
    bool capturing;
    uint32_t count;
    recorded copies[MOST_RECORDED];
} object;

static int make(void *out) {
    object *made = calloc(1, sizeof *made);
    if (!made) return QF_CU_ERROR_OUT_OF_MEMORY;
    memcpy(out, &made, sizeof made);
    ADD(live, 1);
    return 0;
}
static int destroy(void *handle) {
    free(handle);
    ADD(live, -1);
    return 0;
}

qf_cu_result cuGetErrorName(qf_cu_result error, const char **text) {
    *text = error == 999 ? "CUDA_ERROR_UNKNOWN" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
    return 0;
}
qf_cu_result cuGetErrorString(qf_cu_result error, const char **text) {
    *text = error == 999 ? "unknown error" : "fake error";
    return 0;
}
qf_cu_result cuInit(unsigned flags) {
    CALL();
    return flags ? 1 : state.device_count < 0 ? QF_CU_ERROR_NO_DEVICE : 0;
}
qf_cu_result cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
qf_cu_result cuDeviceGetCount(int *count) {
    CALL();
    *count = state.device_count;
    return 0;
}
qf_cu_result cuDeviceGet(qf_cu_device *device, int ordinal) {
    CALL();
    *device = ordinal;
    return 0;
}
qf_cu_result cuDeviceGetName(char *name, int size, qf_cu_device device) {
    static const char text[] = "fake GPU";
    if (device < 0 || (size_t)size < sizeof text) return 1;
    memcpy(name, text, sizeof text);
    return 0;
}
qf_cu_result cuDeviceGetAttribute(int *value, int attribute, qf_cu_device device) {
    CALL();
    if (device < 0) return 1;
    *value = attribute == QF_CU_ATTRIBUTE_CAPABILITY_MAJOR   ? state.capability / 10
             : attribute == QF_CU_ATTRIBUTE_CAPABILITY_MINOR ? state.capability % 10
             : attribute == QF_CU_ATTRIBUTE_PROCESSOR_COUNT  ? state.processors
                                                             : 1 << 20;
    return 0;
}
qf_cu_result cuDeviceTotalMem_v2(size_t *bytes, qf_cu_device device) {
    *bytes = device < 0 ? 0 : (size_t)1 << 30;
    return 0;
}
qf_cu_result cuDevicePrimaryCtxRetain(qf_cu_context *context, qf_cu_device device) {
    static object primary;
    CALL();
    if (device < 0) return 1;
    *context = (qf_cu_context)(void *)&primary;
    ADD(live, 1);
    return 0;
}
qf_cu_result cuDevicePrimaryCtxRelease_v2(qf_cu_device device) {
    ADD(live, -1);
    return device < 0;
}
qf_cu_result cuCtxPushCurrent_v2(qf_cu_context context) {
    CALL();
    if (!context) return 201;
    ADD(context_depth, 1);
    return 0;
}
qf_cu_result cuCtxPopCurrent_v2(qf_cu_context *context) {
    *context = NULL;
    ADD(context_depth, -1);
    return 0;
}
qf_cu_result cuCtxGetDevice(qf_cu_device *device) {
    CALL();
    *device = 0;
    return 0;
}
qf_cu_result cuStreamGetCtx(qf_cu_stream stream, qf_cu_context *context) {
    CALL();
    *context = (qf_cu_context)(void *)stream;
    return 0;
}
qf_cu_result cuStreamCreate(qf_cu_stream *stream, unsigned flags) {
    CALL();
    return flags > 1 ? 1 : make(stream);
}
qf_cu_result cuStreamDestroy_v2(qf_cu_stream stream) {
    return destroy(stream);
}
qf_cu_result cuStreamSynchronize(qf_cu_stream stream) {
    CALL();
    if (state.capturing) return break_capture();
    return stream && ((object *)(void *)stream)->capturing ? 900 : 0;
}
qf_cu_result cuStreamIsCapturing(qf_cu_stream stream, int *status) {
    *status = stream && state.capturing;
    return 0;
}
qf_cu_result cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return 0;
}
qf_cu_result cuStreamBeginCapture_v2(qf_cu_stream stream, int mode) {
    CALL();
    if (mode < 0 || !stream) return 1;
    ((object *)(void *)stream)->capturing = true;
    return 0;
}
qf_cu_result cuStreamEndCapture(qf_cu_stream stream, qf_cu_graph *graph) {
    object *from = (object *)(void *)stream;
    from->capturing = false;
    CALL();
    int result = make(graph);
    if (result == 0) memcpy(*graph, from, sizeof *from);
    return result;
}
qf_cu_result cuGraphInstantiateWithFlags(qf_cu_graph_exec *exec, qf_cu_graph graph, unsigned long long flags) {
    CALL();
    int result = flags ? 1 : make(exec);
    if (result == 0) memcpy(*exec, graph, sizeof(object));
    return result;
}
qf_cu_result cuGraphLaunch(qf_cu_graph_exec exec, qf_cu_stream stream) {
    const object *graph = (const object *)(const void *)exec;
    (void)stream;
    CALL();
    ADD(graph_launches, 1);
    for (uint32_t i = 0; i < graph->count; i++)
        memmove(graph->copies[i].to, graph->copies[i].from, graph->copies[i].size);
    return 0;
}
qf_cu_result cuGraphExecDestroy(qf_cu_graph_exec exec) {
    return destroy(exec);
}
qf_cu_result cuGraphDestroy(qf_cu_graph graph) {
    return destroy(graph);
}
qf_cu_result cuEventCreate(qf_cu_event *event, unsigned flags) {
    CALL();
    return flags > 7 ? 1 : make(event);
}
qf_cu_result cuEventDestroy_v2(qf_cu_event event) {
    return destroy(event);
}
qf_cu_result cuEventRecord(qf_cu_event event, qf_cu_stream stream) {
    (void)stream;
    return event ? 0 : 1;
}
qf_cu_result cuEventSynchronize(qf_cu_event event) {
    return event ? 0 : 1;
}
qf_cu_result cuEventElapsedTime(float *milliseconds, qf_cu_event start, qf_cu_event end) {
    *milliseconds = 0.25f;
    return start && end ? 0 : 1;
}
qf_cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = (size_t)1 << 30;
    return 0;
}
/* The block's size stands before it, so that live_bytes can be kept. */
qf_cu_result cuMemAlloc_v2(qf_cu_address *address, size_t size) {
    CALL();
    UNSAFE_IN_CAPTURE();
    char *block = size < (size_t)1 << 30 ? aligned_alloc(256, (size + 511) / 256 * 256) : NULL;
    if (!block) return QF_CU_ERROR_OUT_OF_MEMORY;
    memcpy(block, &size, sizeof size);
    memset(block + 256, 0xFF, size);
    *address = (qf_cu_address)(block + 256);
    ADD(live, 1);
    ADD(live_bytes, (int64_t)size);
    return 0;
}
qf_cu_result cuMemFree_v2(qf_cu_address address) {
    size_t size;
    UNSAFE_IN_CAPTURE();
    char *block = (char *)address - 256;
    memcpy(&size, block, sizeof size);
    ADD(live_bytes, -(int64_t)size);
    return destroy(block);
}
static int copy(void *to, const void *from, size_t size, qf_cu_stream stream) {
    CALL();
    object *recording = (object *)(void *)stream;
    ADD(copies, 1);
    if (!recording || !recording->capturing) {
        memmove(to, from, size);
        return 0;
    }
    if (recording->count == MOST_RECORDED) return 1;
    recording->copies[recording->count++] = (recorded){to, from, size};
    return 0;
}
qf_cu_result cuMemcpyHtoDAsync_v2(qf_cu_address to, const void *from, size_t size, qf_cu_stream stream) {
    if (state.capturing) return break_capture();
    return copy((void *)to, from, size, stream);
}
qf_cu_result cuMemcpyDtoHAsync_v2(void *to, qf_cu_address from, size_t size, qf_cu_stream stream) {
    if (state.capturing) return break_capture();
    return copy(to, (const void *)from, size, stream);
}
qf_cu_result cuMemcpyDtoDAsync_v2(qf_cu_address to, qf_cu_address from, size_t size, qf_cu_stream stream) {
    return copy((void *)to, (const void *)from, size, stream);
}
qf_cu_result cuMemsetD8Async(qf_cu_address to, unsigned char value, size_t size, qf_cu_stream stream) {
    (void)stream;
    CALL();
    memset((void *)to, value, size);
    return 0;
}
qf_cu_result cuPointerGetAttribute(void *value, int attribute, qf_cu_address address) {
    CALL();
    memset(value, 0, sizeof(unsigned));
    return attribute != QF_CU_POINTER_MEMORY_TYPE || address == (qf_cu_address)state.foreign;
}
qf_cu_result cuModuleLoadData(qf_cu_module *module, const void *image) {
    CALL();
    UNSAFE_IN_CAPTURE();
    return image ? make(module) : 1;
}
qf_cu_result cuModuleUnload(qf_cu_module module) {
    return destroy(module);
}
qf_cu_result cuModuleGetFunction(qf_cu_function *function, qf_cu_module module, const char *name) {
    CALL();
    *function = (qf_cu_function)(void *)module;
    return *name ? 0 : 500;
}
qf_cu_result cuFuncGetAttribute(int *value, int attribute, qf_cu_function function) {
    CALL();
    *value = 49152;
    return function && attribute ? 0 : 1;
}
qf_cu_result cuFuncSetAttribute(qf_cu_function function, int attribute, int value) {
    CALL();
    return function && attribute && value ? 0 : 1;
}
qf_cu_result cuLaunchKernelEx(const qf_cu_launch_config *config, qf_cu_function function, void **parameters,
                              void **extra) {
    CALL();
    ADD(launches, 1);
    return config->grid[0] && config->block[0] && function && parameters[0] && !extra ? 0 : 1;
}
qf_cu_result cuTensorMapEncodeTiled(void *map, int data_type, uint32_t rank, void *address, const uint64_t *extents,
                                    const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                                    int interleave, int swizzle, int promotion, int fill) {
    CALL();
    (void)data_type, (void)strides, (void)element_strides, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    memset(map, 0, 128);
    return rank && address && extents[0] && box[0] ? 0 : 1;
}
