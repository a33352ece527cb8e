/* Owns: what a device has to do for the executor.
 * Does not own: the devices (devices/), what a kernel is (kernels/kernel.h).
 * Next: devices/cpu.c, devices/cuda.c, executor.h. */
#ifndef QF_RUNTIME_DEVICE_H
#define QF_RUNTIME_DEVICE_H

#include <qfuse/device.h>
#include <qfuse/runtime.h>

#include "kernels/kernel.h"
#include "spec/kernels.h"

typedef struct qf_device_settings {
    qf_target target;    /* of the plan; refused where the hardware cannot run it */
    int32_t device_id;   /* create changes it to the stream's */
    uint32_t step_count; /* marks are 0 .. step_count */
    bool time_steps;     /* without it marks do nothing */
    void *stream;
} qf_device_settings;

/* One instance belongs to one executor or qf_device, and to one thread at a time. Functions that fail describe why
 * through qf_fail on the context given at creation, except launch, which writes call.message of the step and leaves the
 * place to the executor. Order of a run: prepare whenever sizes or addresses changed, then for each step mark and
 * launch, then mark once more. Nothing between the marks may allocate or wait. */
typedef struct qf_device_interface {
    const char *name;
    /* Host code may read and write device memory, so that weights and constants are used where they lie. */
    bool host_memory;
    /* The DLPack device type of tensors that may be bound. */
    int32_t device_type;
    bool (*runs)(qf_target target);
    qf_status (*create)(qf_context *context, qf_device_settings *settings, void **out_state);
    void (*destroy)(void *state);
    /* Aligned to 256 bytes; NULL on failure (recorded). */
    void *(*allocate)(void *state, size_t size);
    void (*release)(void *state, void *memory, size_t size);
    /* Whether the address can be memory of the device, as far as the driver knows; NULL: any may. */
    bool (*holds)(void *state, const void *memory);
    /* Between host and device memory; done when it returns. */
    qf_status (*upload)(void *state, void *destination, const void *source, size_t size);
    qf_status (*download)(void *state, void *destination, const void *source, size_t size);
    /* Makes the steps ready, which stay where they are until the next prepare, and holds the memory that kernels need
     * while they run: its size goes to *out_scratch. */
    qf_status (*prepare)(void *state, qf_kernel_step *steps, uint32_t count, size_t *out_scratch);
    qf_status (*launch)(void *state, uint32_t step);
    void (*mark)(void *state, uint32_t mark);
    uint64_t (*elapsed)(void *state, uint32_t from, uint32_t to); /* nanoseconds between two marks; waits for them */
    /* Until everything launched has run. */
    qf_status (*wait)(void *state);
    /* The caller's stream is being captured into a graph of its owner: nothing may be allocated, copied from the host
     * or waited for. NULL: never. */
    bool (*in_capture)(void *state);
    void (*describe)(void *state, qf_device_info *out_info);
    /* Launches between begin and end are recorded instead of run; replay runs them. NULL: the device has no graphs. */
    qf_status (*begin_capture)(void *state);
    qf_status (*end_capture)(void *state);
    qf_status (*replay)(void *state);
    void (*drop_capture)(void *state);
} qf_device_interface;

extern const qf_device_interface qf_device_cpu, qf_device_cuda;

/* The device of this name, or the first that runs the target where name is NULL. NULL: there is none. */
const qf_device_interface *qf_device_find(const char *name, qf_target target);

#endif
