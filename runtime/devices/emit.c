/* Owns: the device that records what a GPU would do, over addresses that stand for memory.
 * Does not own: builders (kernels/cuda), text (runtime/emit_text.c).
 * Next: runtime/emit.h. */
#include "runtime/emit.h"

static bool emit_runs(qf_target target) {
    const qf_target_info *info = qf_target_info_of(target);
    return info && info->is_gpu;
}

/* The usual card: A100, L40S, H200, B200. */
static uint32_t usual_processors(qf_target target) {
    switch (target) {
    case QF_TARGET_sm_80: return 108;
    case QF_TARGET_sm_89: return 142;
    case QF_TARGET_sm_90a: return 132;
    default: return 148;
    }
}

static qf_status emit_create(qf_context *context, qf_device_settings *settings, void **out_state) {
    qf_emit_device *device = qf_allocate(context, sizeof *device);
    *out_state = device;
    if (!device) return QF_ERROR_OUT_OF_MEMORY;
    device->context = context;
    device->target = settings->target;
    device->processor_count = usual_processors(settings->target);
    device->actions = (qf_cuda_actions){.context = context};
    device->actions.arena.context = context;
    device->next = QF_EMIT_BASE;
    return QF_OK;
}

static void emit_destroy(void *state) {
    qf_emit_device *device = state;
    qf_arena_destroy(&device->actions.arena);
    qf_release(device->context, device, sizeof *device);
}

static void *emit_allocate(void *state, size_t size) {
    qf_emit_device *device = state;
    uintptr_t address = device->next;
    if (size >= QF_EMIT_STEP || address >= QF_EMIT_BASE + QF_EMIT_PIECES * QF_EMIT_STEP) {
        (void)qf_record(device->context, QF_ERROR_LIMIT);
        return NULL;
    }
    device->next += QF_EMIT_STEP;
    return (void *)address; /* NOLINT(performance-no-int-to-ptr): it stands for memory, and is never followed */
}

static void emit_release(void *state, void *memory, size_t size) {
    (void)state, (void)memory, (void)size;
}

static qf_status emit_upload(void *state, void *destination, const void *source, size_t size) {
    (void)state, (void)destination, (void)source, (void)size;
    return QF_OK; /* constants are written into the file; weights are the caller's */
}

static qf_status emit_download(void *state, void *destination, const void *source, size_t size) {
    (void)destination, (void)source, (void)size;
    return qf_fail(((qf_emit_device *)state)->context, QF_ERROR_UNSUPPORTED, NULL, "nothing runs on this device");
}

/* First to learn how much scratch there is, then with the places where it stands. */
static qf_status emit_prepare(void *state, qf_kernel_step *steps, uint32_t count, size_t *out_scratch) {
    qf_emit_device *device = state;
    for (int pass = 0; pass < 2; pass++) {
        qf_cuda_recorder recorder = {.target = device->target,
                                     .processor_count = device->processor_count,
                                     .has_matmul = false,
                                     .scratch = device->scratch,
                                     .zeroed = device->zeroed};
        qf_status status = qf_cuda_actions_record(&device->actions, &recorder, steps, count);
        if (status != QF_OK) return status;
        device->scratch_size = recorder.scratch_size;
        device->zeroed_size = recorder.zeroed_size;
        if (!device->scratch) device->scratch = emit_allocate(device, recorder.scratch_size);
        if (!device->zeroed) device->zeroed = emit_allocate(device, recorder.zeroed_size);
        if (!device->scratch || !device->zeroed) return QF_ERROR_LIMIT;
    }
    *out_scratch = device->scratch_size + device->zeroed_size;
    return QF_OK;
}

static qf_status emit_launch(void *state, uint32_t step) {
    (void)step;
    return emit_download(state, NULL, NULL, 0);
}

static void emit_mark(void *state, uint32_t mark) {
    (void)state, (void)mark;
}

static uint64_t emit_elapsed(void *state, uint32_t from, uint32_t to) {
    (void)state, (void)from, (void)to;
    return 0;
}

static qf_status emit_wait(void *state) {
    (void)state;
    return QF_OK;
}

static void emit_describe(void *state, qf_device_info *out_info) {
    (void)state, (void)out_info;
}

const qf_device_interface qf_device_emit = {
    .name = "emit",
    .host_memory = false,
    .device_type = QF_DL_CUDA,
    .runs = emit_runs,
    .create = emit_create,
    .destroy = emit_destroy,
    .allocate = emit_allocate,
    .release = emit_release,
    .upload = emit_upload,
    .download = emit_download,
    .prepare = emit_prepare,
    .launch = emit_launch,
    .mark = emit_mark,
    .elapsed = emit_elapsed,
    .wait = emit_wait,
    .describe = emit_describe,
};
