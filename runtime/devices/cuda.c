/* Owns: NVIDIA GPUs as a device: context, stream, memory, marks, capture.
 * Does not own: the driver's functions (cuda/driver.c), what steps do (cuda/actions.c).
 * Next: runtime/device.h. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/images.h"
#include "runtime/cuda/actions.h"
#include "runtime/cuda/cards.h"
#include "runtime/device.h"

typedef struct cuda_memory {
    void *data;
    size_t size;
} cuda_memory;

typedef struct cuda_state {
    qf_context *context;
    qf_cuda_driver driver;
    qf_cu_device device;
    int32_t device_id;
    qf_cu_context cu_context;
    bool primary;        /* the context is the primary one, retained */
    qf_cu_stream stream; /* the caller's */
    qf_target target;    /* the best one of the card */
    int capability, processors;
    qf_cuda_actions actions;
    cuda_memory scratch, zeroed;
    int capture_mode; /* of the thread, while we are inside */
    bool busy;        /* something was launched that nobody waited for */
    bool dirty;       /* a launch failed: zeroed memory may not be zero */
    bool host_graph;  /* launches went into a graph of the host, which may be replayed as long as we are here */
    void **retired;   /* memory that such a graph may still use; room for all blocks there are */
    uint32_t retired_count, retired_capacity, block_count;
    qf_cu_event *marks; /* NULL without timing */
    uint32_t mark_count;
    qf_cu_stream capture_stream; /* not NULL: launches are being recorded */
    qf_cu_graph_exec graph;
} cuda_state;

static bool cuda_runs(qf_target target) {
    const qf_target_info *info = qf_target_info_of(target);
    return info && info->is_gpu;
}

/* --- the context is current only inside of our functions --- */

/* Relaxed: what we allocate and free has nothing to do with a capture that the host has going on another stream, which
 * it would end otherwise. */
static bool enter(cuda_state *cuda) {
    qf_status status = qf_cuda_check(&cuda->driver, cuda->context, cuda->driver.context_push(cuda->cu_context),
                                     "making the GPU's context current");
    cuda->capture_mode = QF_CU_CAPTURE_RELAXED;
    if (status == QF_OK) (void)cuda->driver.exchange_capture_mode(&cuda->capture_mode);
    return status == QF_OK;
}

static void leave(cuda_state *cuda) {
    qf_cu_context popped;
    (void)cuda->driver.exchange_capture_mode(&cuda->capture_mode);
    (void)cuda->driver.context_pop(&popped);
}

/* --- opening --- */

static qf_status choose_context(cuda_state *cuda, int32_t device_id) {
    const qf_cuda_driver *driver = &cuda->driver;
    int count = 0;
    qf_status status = qf_cuda_check(driver, cuda->context, driver->device_get_count(&count), "counting GPUs");
    if (status != QF_OK) return status;
    if (!count) return qf_fail(cuda->context, QF_ERROR_DEVICE, NULL, "the driver is there, but it has no GPU");
    if (cuda->stream) {
        status = qf_cuda_check(driver, cuda->context, driver->stream_get_context(cuda->stream, &cuda->cu_context),
                               "asking the stream for its context (options.stream must be a CUstream)");
        if (status != QF_OK || !enter(cuda)) return status != QF_OK ? status : QF_ERROR_DEVICE;
        status = qf_cuda_check(driver, cuda->context, driver->context_get_device(&cuda->device), "asking for the GPU");
        leave(cuda);
        cuda->device_id = cuda->device; /* the driver's handles are the ordinals */
        return status;
    }
    if (device_id < 0 || device_id >= count)
        return qf_fail(cuda->context, QF_ERROR_DEVICE, NULL, "GPU %d was asked for, the driver has %d (counted from 0)",
                       device_id, count);
    cuda->device_id = device_id;
    status = qf_cuda_check(driver, cuda->context, driver->device_get(&cuda->device, device_id), "opening the GPU");
    if (status == QF_OK)
        status = qf_cuda_check(driver, cuda->context, driver->primary_context_retain(&cuda->cu_context, cuda->device),
                               "retaining the GPU's primary context");
    cuda->primary = status == QF_OK;
    return status;
}

/* Builders divide by the processors, so that a query that failed must not pass as 0 of them. */
static qf_status ask(cuda_state *cuda, int which, int *out_value) {
    return qf_cuda_check(&cuda->driver, cuda->context,
                         cuda->driver.device_get_attribute(out_value, which, cuda->device), "asking what the GPU is");
}

static qf_status check_target(cuda_state *cuda, qf_target target) {
    int major = 0, minor = 0;
    qf_status status = ask(cuda, QF_CU_ATTRIBUTE_CAPABILITY_MAJOR, &major);
    if (status == QF_OK) status = ask(cuda, QF_CU_ATTRIBUTE_CAPABILITY_MINOR, &minor);
    if (status == QF_OK) status = ask(cuda, QF_CU_ATTRIBUTE_PROCESSOR_COUNT, &cuda->processors);
    if (status != QF_OK) return status;
    if (cuda->processors < 1)
        return qf_fail(cuda->context, QF_ERROR_DEVICE, NULL, "GPU %d has %d multiprocessors, expected 1 or more",
                       cuda->device_id, cuda->processors);
    cuda->capability = 10 * major + minor;
    cuda->target = qf_cuda_best_target(cuda->capability);
    if (target == QF_TARGET_cpu || qf_cuda_card_runs(cuda->capability, target)) return QF_OK;
    return qf_fail(cuda->context, QF_ERROR_DEVICE, NULL,
                   "the plan is for %s, GPU %d has compute capability %d.%d; compile the graph for %s",
                   qf_target_info_of(target)->name, cuda->device_id, cuda->capability / 10, cuda->capability % 10,
                   cuda->target == QF_TARGET_cpu ? "another target" : qf_target_info_of(cuda->target)->name);
}

static qf_status make_marks(cuda_state *cuda, uint32_t count) {
    cuda->marks = qf_allocate(cuda->context, count * sizeof(qf_cu_event));
    if (!cuda->marks) return QF_ERROR_OUT_OF_MEMORY;
    cuda->mark_count = count;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < count; i++)
        status = qf_cuda_check(&cuda->driver, cuda->context,
                               cuda->driver.event_create(&cuda->marks[i], QF_CU_EVENT_DEFAULT), "making an event");
    leave(cuda);
    return status;
}

/* Makes room to retire the block as well. */
static bool allocate_block(cuda_state *cuda, size_t size, qf_cu_address *out_address) {
    *out_address = 0;
    if (!QF_GROW(cuda->context, cuda->retired, cuda->retired_capacity, cuda->block_count + 1u)) return false;
    if (cuda->driver.memory_allocate(out_address, size)) return false;
    cuda->block_count++;
    return true;
}

static void free_block(cuda_state *cuda, void *data) {
    (void)cuda->driver.memory_free((qf_cu_address)data);
    cuda->block_count--;
}

static void free_memory(cuda_state *cuda, cuda_memory *memory) {
    if (memory->data && cuda->host_graph)
        cuda->retired[cuda->retired_count++] = memory->data;
    else if (memory->data)
        free_block(cuda, memory->data);
    *memory = (cuda_memory){0};
}

/* Before things go that launches use. A host may be capturing, so it waits only where it must. */
static void settle(cuda_state *cuda) {
    if (cuda->busy || cuda->host_graph) (void)cuda->driver.stream_synchronize(cuda->stream);
    cuda->busy = false;
}

static void cuda_drop_capture(void *state) {
    cuda_state *cuda = state;
    if (!cuda->graph || !enter(cuda)) return;
    settle(cuda);
    (void)cuda->driver.graph_exec_destroy(cuda->graph);
    cuda->graph = NULL;
    leave(cuda);
}

static void close_inside(cuda_state *cuda) {
    settle(cuda);
    for (uint32_t i = 0; i < cuda->mark_count; i++)
        if (cuda->marks[i]) (void)cuda->driver.event_destroy(cuda->marks[i]);
    if (cuda->capture_stream) (void)cuda->driver.stream_destroy(cuda->capture_stream);
    cuda->host_graph = false;
    for (uint32_t i = 0; i < cuda->retired_count; i++) free_block(cuda, cuda->retired[i]);
    free_memory(cuda, &cuda->scratch);
    free_memory(cuda, &cuda->zeroed);
    qf_cuda_actions_close(&cuda->actions);
}

static void cuda_destroy(void *state) {
    cuda_state *cuda = state;
    if (!cuda) return;
    cuda_drop_capture(cuda);
    if (cuda->cu_context && enter(cuda)) {
        close_inside(cuda);
        leave(cuda);
    }
    if (cuda->primary) (void)cuda->driver.primary_context_release(cuda->device);
    qf_cuda_driver_close(&cuda->driver);
    qf_release(cuda->context, cuda->marks, cuda->mark_count * sizeof *cuda->marks);
    QF_FREE_ITEMS(cuda->context, cuda->retired, cuda->retired_capacity);
    qf_release(cuda->context, cuda, sizeof *cuda);
}

static qf_status open_inside(cuda_state *cuda, const qf_device_settings *settings) {
    qf_status status = qf_cuda_driver_open(cuda->context, &cuda->driver);
    if (status == QF_OK) status = choose_context(cuda, settings->device_id);
    if (status == QF_OK) status = check_target(cuda, settings->target);
    if (status != QF_OK) return status;
    cuda->actions = (qf_cuda_actions){.context = cuda->context, .driver = &cuda->driver};
    cuda->actions.arena.context = cuda->context;
    cuda->actions.modules = qf_allocate(cuda->context, (qf_cuda_image_count + 1) * sizeof *cuda->actions.modules);
    if (!cuda->actions.modules) return QF_ERROR_OUT_OF_MEMORY;
    return settings->time_steps ? make_marks(cuda, settings->step_count + 1) : QF_OK;
}

static qf_status cuda_create(qf_context *context, qf_device_settings *settings, void **out_state) {
    *out_state = NULL;
    cuda_state *cuda = qf_allocate(context, sizeof *cuda);
    if (!cuda) return QF_ERROR_OUT_OF_MEMORY;
    cuda->context = context;
    cuda->stream = settings->stream;
    qf_status status = open_inside(cuda, settings);
    if (status == QF_OK) {
        *out_state = cuda;
        settings->device_id = cuda->device_id;
    } else
        cuda_destroy(cuda);
    return status;
}

/* --- a capture by the owner of the stream --- */

static bool cuda_in_capture(void *state) {
    const cuda_state *cuda = state;
    int capturing = 0;
    return cuda->stream && cuda->driver.stream_is_capturing(cuda->stream, &capturing) == 0 && capturing;
}

/* What the driver refuses meanwhile would end the owner's capture as well. */
static qf_status refuse_in_capture(cuda_state *cuda, const char *what) {
    if (!cuda_in_capture(cuda)) return QF_OK;
    return qf_fail(cuda->context, QF_ERROR_INVALID_ARGUMENT, NULL, "the stream is being captured: %s", what);
}

/* --- memory --- */

static void *cuda_allocate(void *state, size_t size) {
    cuda_state *cuda = state;
    qf_cu_address address = 0;
    if (!enter(cuda)) return NULL;
    bool allocated = allocate_block(cuda, size ? size : 1, &address);
    leave(cuda);
    if (allocated) return (void *)address;
    (void)qf_record(cuda->context, QF_ERROR_OUT_OF_MEMORY);
    return NULL;
}

static void cuda_release(void *state, void *memory, size_t size) {
    cuda_state *cuda = state;
    (void)size;
    if (!memory || !enter(cuda)) return;
    cuda_memory owned = {memory, 0};
    free_memory(cuda, &owned);
    leave(cuda);
}

/* The driver knows no attribute of ordinary host memory. */
static bool cuda_holds(void *state, const void *memory) {
    cuda_state *cuda = state;
    unsigned type = 0;
    if (!enter(cuda)) return false;
    qf_cu_result result = cuda->driver.pointer_get_attribute(&type, QF_CU_POINTER_MEMORY_TYPE, (qf_cu_address)memory);
    leave(cuda);
    return result == 0 && type != QF_CU_MEMORY_HOST;
}

static qf_status wait_inside(cuda_state *cuda, qf_cu_result result, const char *what) {
    if (result == 0) result = cuda->driver.stream_synchronize(cuda->stream);
    if (result == 0) cuda->busy = false;
    leave(cuda);
    return qf_cuda_check(&cuda->driver, cuda->context, result, what);
}

static qf_status cuda_upload(void *state, void *destination, const void *source, size_t size) {
    cuda_state *cuda = state;
    qf_status status = size ? refuse_in_capture(cuda, "nothing can be copied to the GPU and waited for") : QF_OK;
    if (!size || status != QF_OK) return status;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    qf_cu_result result = cuda->driver.copy_to_device((qf_cu_address)destination, source, size, cuda->stream);
    return wait_inside(cuda, result, "copying to the GPU");
}

static qf_status cuda_download(void *state, void *destination, const void *source, size_t size) {
    cuda_state *cuda = state;
    qf_status status = size ? refuse_in_capture(cuda, "nothing can be copied from the GPU and waited for") : QF_OK;
    if (!size || status != QF_OK) return status;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    qf_cu_result result = cuda->driver.copy_to_host(destination, (qf_cu_address)source, size, cuda->stream);
    return wait_inside(cuda, result, "copying from the GPU");
}

static qf_status cuda_wait(void *state) {
    cuda_state *cuda = state;
    qf_status status = refuse_in_capture(cuda, "there is nothing to wait for before its graph is launched");
    if (status != QF_OK) return status;
    return enter(cuda) ? wait_inside(cuda, 0, "waiting for the GPU") : QF_ERROR_DEVICE;
}

/* --- preparing --- */

static qf_status grow(cuda_state *cuda, cuda_memory *memory, size_t size, bool *out_grown) {
    if (size <= memory->size) return QF_OK;
    qf_status status = refuse_in_capture(cuda, QF_CUDA_PREPARE_FIRST);
    if (status != QF_OK) return status;
    qf_cu_address address = 0;
    free_memory(cuda, memory);
    if (!allocate_block(cuda, size, &address))
        return qf_fail(cuda->context, QF_ERROR_OUT_OF_MEMORY, NULL,
                       "the GPU has no %zu bytes left for kernels' scratch", size);
    *memory = (cuda_memory){(void *)address, size};
    *out_grown = true;
    return QF_OK;
}

/* Records, grows memory to what was asked for, and records again where addresses moved. */
static qf_status record(cuda_state *cuda, qf_kernel_step *steps, uint32_t count, bool with_blas) {
    bool grown = true;
    for (int pass = 0; grown && pass < 3; pass++) {
        qf_cuda_recorder recorder = {.target = cuda->target,
                                     .processor_count = (uint32_t)cuda->processors,
                                     .has_matmul = with_blas,
                                     .scratch = cuda->scratch.data,
                                     .zeroed = cuda->zeroed.data};
        qf_status status = qf_cuda_actions_record(&cuda->actions, &recorder, steps, count);
        if (status != QF_OK) return status;
        grown = false;
        status = grow(cuda, &cuda->scratch, recorder.scratch_size, &grown);
        if (status == QF_OK) status = grow(cuda, &cuda->zeroed, recorder.zeroed_size, &grown);
        if (status != QF_OK) return status;
        if (grown && cuda->zeroed.data) cuda->dirty = true;
    }
    return QF_OK;
}

/* In a capture of the host this is recorded, not done. */
static qf_status clean(cuda_state *cuda) {
    if (!cuda->dirty || !cuda->zeroed.data) return QF_OK;
    qf_cu_result result = cuda->driver.memory_set((qf_cu_address)cuda->zeroed.data, 0, cuda->zeroed.size, cuda->stream);
    cuda->dirty = result != 0 || cuda_in_capture(cuda);
    return qf_cuda_check(&cuda->driver, cuda->context, result, "clearing kernels' counters");
}

static qf_status prepare_inside(cuda_state *cuda, qf_kernel_step *steps, uint32_t count) {
    if (!cuda->actions.blas_tried && qf_cuda_actions_want_blas(steps, count)) {
        qf_status refused = refuse_in_capture(cuda, QF_CUDA_PREPARE_FIRST);
        if (refused != QF_OK) return refused;
        cuda->actions.blas_tried = true;
        (void)qf_cublas_open(&cuda->actions.blas);
    }
    bool with_blas = cuda->actions.blas.handle != NULL, without = false;
    qf_status status = record(cuda, steps, count, with_blas);
    if (status == QF_OK) status = qf_cuda_actions_finish(&cuda->actions, &without);
    if (status == QF_OK && without) {
        status = record(cuda, steps, count, false);
        if (status == QF_OK) status = qf_cuda_actions_finish(&cuda->actions, &without);
    }
    return status == QF_OK ? clean(cuda) : status;
}

static qf_status cuda_prepare(void *state, qf_kernel_step *steps, uint32_t count, size_t *out_scratch) {
    cuda_state *cuda = state;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    cuda->actions.in_capture = cuda_in_capture(cuda);
    qf_status status = prepare_inside(cuda, steps, count);
    leave(cuda);
    *out_scratch = cuda->scratch.size + cuda->zeroed.size;
    return status;
}

/* --- running --- */

static qf_status cuda_launch(void *state, uint32_t step) {
    cuda_state *cuda = state;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    qf_status status = QF_OK;
    cuda->busy = true;
    if (step == 0) {
        cuda->host_graph = cuda->host_graph || cuda_in_capture(cuda);
        status = clean(cuda);
    }
    if (status == QF_OK)
        status =
            qf_cuda_actions_enqueue(&cuda->actions, step, cuda->capture_stream ? cuda->capture_stream : cuda->stream);
    if (status != QF_OK) cuda->dirty = true;
    leave(cuda);
    return status;
}

static void cuda_mark(void *state, uint32_t mark) {
    cuda_state *cuda = state;
    if (mark >= cuda->mark_count || cuda->capture_stream || !enter(cuda)) return;
    (void)cuda->driver.event_record(cuda->marks[mark], cuda->stream);
    leave(cuda);
}

static uint64_t cuda_elapsed(void *state, uint32_t from, uint32_t to) {
    cuda_state *cuda = state;
    float milliseconds = 0;
    if (from >= cuda->mark_count || to >= cuda->mark_count || !enter(cuda)) return 0;
    bool known = cuda->driver.event_synchronize(cuda->marks[to]) == 0 &&
                 cuda->driver.event_elapsed_time(&milliseconds, cuda->marks[from], cuda->marks[to]) == 0;
    leave(cuda);
    return known && milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
}

static void cuda_describe(void *state, qf_device_info *out_info) {
    cuda_state *cuda = state;
    size_t available = 0, total = 0;
    int version = 0, cache = 0;
    if (!enter(cuda)) return;
    (void)cuda->driver.memory_get_info(&available, &total);
    (void)cuda->driver.driver_get_version(&version);
    (void)cuda->driver.device_get_attribute(&cache, QF_CU_ATTRIBUTE_L2_SIZE, cuda->device);
    (void)cuda->driver.device_get_name(out_info->name, (int)sizeof out_info->name, cuda->device);
    if (!cuda->actions.blas_tried) {
        cuda->actions.blas_tried = true;
        (void)qf_cublas_open(&cuda->actions.blas);
    }
    leave(cuda);
    if (cuda->target != QF_TARGET_cpu)
        (void)snprintf(out_info->target, sizeof out_info->target, "%s", qf_target_info_of(cuda->target)->name);
    out_info->device_id = cuda->device_id;
    out_info->processor_count = (uint32_t)cuda->processors;
    out_info->driver_version = (uint32_t)version;
    out_info->memory_bytes = total;
    out_info->free_bytes = available;
    out_info->cache_bytes = cache > 0 ? (uint64_t)cache : 0;
    out_info->kernel_images = qf_cuda_image_count;
    out_info->has_cublaslt = cuda->actions.blas.handle != NULL;
}

/* --- capture: on a stream of our own, since the default stream cannot be captured --- */

static qf_status cuda_begin_capture(void *state) {
    cuda_state *cuda = state;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    qf_status status = clean(cuda);
    if (status == QF_OK)
        status = qf_cuda_check(&cuda->driver, cuda->context,
                               cuda->driver.stream_create(&cuda->capture_stream, QF_CU_STREAM_NON_BLOCKING),
                               "making a stream for the capture");
    if (status == QF_OK)
        status = qf_cuda_check(&cuda->driver, cuda->context,
                               cuda->driver.stream_begin_capture(cuda->capture_stream, QF_CU_CAPTURE_THREAD_LOCAL),
                               "beginning the capture");
    if (status != QF_OK && cuda->capture_stream) {
        (void)cuda->driver.stream_destroy(cuda->capture_stream);
        cuda->capture_stream = NULL;
    }
    leave(cuda);
    return status;
}

static qf_status cuda_end_capture(void *state) {
    cuda_state *cuda = state;
    qf_cu_graph graph = NULL;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    qf_cu_result result = cuda->driver.stream_end_capture(cuda->capture_stream, &graph);
    if (result == 0) result = cuda->driver.graph_instantiate(&cuda->graph, graph, 0);
    if (graph) (void)cuda->driver.graph_destroy(graph);
    (void)cuda->driver.stream_destroy(cuda->capture_stream);
    cuda->capture_stream = NULL;
    leave(cuda);
    return qf_cuda_check(&cuda->driver, cuda->context, result, "making a graph of the plan");
}

static qf_status cuda_replay(void *state) {
    cuda_state *cuda = state;
    if (!enter(cuda)) return QF_ERROR_DEVICE;
    cuda->busy = true;
    qf_cu_result result = cuda->driver.graph_launch(cuda->graph, cuda->stream);
    leave(cuda);
    return qf_cuda_check(&cuda->driver, cuda->context, result, "launching the captured graph");
}

const qf_device_interface qf_device_cuda = {
    .name = "cuda",
    .host_memory = false,
    .device_type = QF_DL_CUDA,
    .runs = cuda_runs,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .holds = cuda_holds,
    .upload = cuda_upload,
    .download = cuda_download,
    .prepare = cuda_prepare,
    .launch = cuda_launch,
    .mark = cuda_mark,
    .elapsed = cuda_elapsed,
    .wait = cuda_wait,
    .in_capture = cuda_in_capture,
    .describe = cuda_describe,
    .begin_capture = cuda_begin_capture,
    .end_capture = cuda_end_capture,
    .replay = cuda_replay,
    .drop_capture = cuda_drop_capture,
};
