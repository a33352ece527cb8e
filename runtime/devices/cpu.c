/* Owns: the CPU as a device: host memory, kernels called directly, steps timed by the monotonic clock.
 * Does not own: the kernels (kernels/cpu).
 * Next: runtime/device.h. */
#include <string.h>
#include <time.h>

#include "runtime/device.h"

#define ALIGNMENT 256

typedef struct cpu_state {
    qf_context *context;
    qf_kernel_step *steps; /* of the last prepare */
    void *scratch;
    size_t scratch_size;
    uint64_t *marks; /* step_count + 1, NULL without timing */
    uint32_t mark_count;
} cpu_state;

static bool cpu_runs(qf_target target) {
    return target == QF_TARGET_cpu;
}

static void cpu_release(void *state, void *memory, size_t size) {
    cpu_state *cpu = state;
    if (!memory) return;
    unsigned char *start = memory;
    qf_release(cpu->context, start - start[-1] - 1, size + ALIGNMENT);
}

static void cpu_destroy(void *state) {
    cpu_state *cpu = state;
    if (!cpu) return;
    cpu_release(cpu, cpu->scratch, cpu->scratch_size);
    qf_release(cpu->context, cpu->marks, cpu->mark_count * sizeof *cpu->marks);
    qf_release(cpu->context, cpu, sizeof *cpu);
}

static qf_status cpu_create(qf_context *context, qf_device_settings *settings, void **out_state) {
    *out_state = NULL;
    if (settings->stream)
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "the CPU device takes no stream; leave it NULL");
    cpu_state *cpu = qf_allocate(context, sizeof *cpu);
    if (!cpu) return QF_ERROR_OUT_OF_MEMORY;
    cpu->context = context;
    if (settings->time_steps) {
        cpu->marks = qf_allocate(context, ((size_t)settings->step_count + 1) * sizeof *cpu->marks);
        if (!cpu->marks) {
            cpu_destroy(cpu);
            return QF_ERROR_OUT_OF_MEMORY;
        }
        cpu->mark_count = settings->step_count + 1;
    }
    *out_state = cpu;
    return QF_OK;
}

/* The block starts earlier by 1 to 256 bytes; the byte before the result says how many, less one. */
static void *cpu_allocate(void *state, size_t size) {
    cpu_state *cpu = state;
    unsigned char *block = size < SIZE_MAX - ALIGNMENT ? qf_allocate(cpu->context, size + ALIGNMENT) : NULL;
    if (!block) {
        (void)qf_record(cpu->context, QF_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    size_t shift = ALIGNMENT - (uintptr_t)block % ALIGNMENT;
    block[shift - 1] = (unsigned char)(shift - 1);
    return block + shift;
}

static qf_status cpu_copy(void *state, void *destination, const void *source, size_t size) {
    (void)state;
    if (size) memcpy(destination, source, size);
    return QF_OK;
}

static qf_status cpu_prepare(void *state, qf_kernel_step *steps, uint32_t count, size_t *out_scratch) {
    cpu_state *cpu = state;
    size_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t size = qf_cpu_scratch_size(&steps[i].call);
        if (size > most) most = size;
    }
    if (most > cpu->scratch_size) {
        cpu_release(cpu, cpu->scratch, cpu->scratch_size);
        cpu->scratch_size = 0;
        cpu->scratch = cpu_allocate(cpu, most);
        if (!cpu->scratch)
            return qf_fail(cpu->context, QF_ERROR_OUT_OF_MEMORY, NULL,
                           "there are no %zu bytes left for kernels' scratch", most);
        cpu->scratch_size = most;
    }
    cpu->steps = steps;
    for (uint32_t i = 0; i < count; i++) steps[i].call.scratch = cpu->scratch;
    *out_scratch = cpu->scratch_size;
    return QF_OK;
}

static qf_status cpu_launch(void *state, uint32_t step) {
    const cpu_state *cpu = state;
    const qf_kernel_call *call = &cpu->steps[step].call;
    qf_cpu_kernel kernel = qf_cpu_kernel_of(call->op);
    return kernel ? kernel(call) : QF_ERROR_UNSUPPORTED;
}

static qf_status cpu_wait(void *state) {
    (void)state;
    return QF_OK;
}

static void cpu_describe(void *state, qf_device_info *out_info) {
    (void)state;
    static const char name[] = "host processor";
    memcpy(out_info->name, name, sizeof name);
    memcpy(out_info->target, "cpu", sizeof "cpu");
}

static void cpu_mark(void *state, uint32_t mark) {
    cpu_state *cpu = state;
    struct timespec now;
    if (mark >= cpu->mark_count || clock_gettime(CLOCK_MONOTONIC, &now) != 0) return;
    cpu->marks[mark] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_elapsed(void *state, uint32_t from, uint32_t to) {
    const cpu_state *cpu = state;
    if (from >= cpu->mark_count || to >= cpu->mark_count || !cpu->marks[from]) return 0;
    return cpu->marks[to] > cpu->marks[from] ? cpu->marks[to] - cpu->marks[from] : 0;
}

const qf_device_interface qf_device_cpu = {
    .name = "cpu",
    .host_memory = true,
    .device_type = QF_DL_CPU,
    .runs = cpu_runs,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .upload = cpu_copy,
    .download = cpu_copy,
    .prepare = cpu_prepare,
    .launch = cpu_launch,
    .mark = cpu_mark,
    .elapsed = cpu_elapsed,
    .wait = cpu_wait,
    .describe = cpu_describe,
};
