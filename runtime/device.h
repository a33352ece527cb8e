/* Owns: what a device has to do for the executor.
 * Does not own: the devices (devices/), what a kernel is (kernels/kernel.h).
 * Next: devices/cpu.c, executor.h. */
#ifndef QF_RUNTIME_DEVICE_H
#define QF_RUNTIME_DEVICE_H

#include <qfuse/runtime.h>

#include "kernels/kernel.h"
#include "spec/kernels.h"

typedef struct qf_device_settings {
    uint32_t thread_count;
    uint32_t step_count;
    bool time_steps;
    void *stream;
} qf_device_settings;

/* One instance belongs to one executor. Functions that fail describe why through qf_fail on the context given at
 * creation, except launch, which writes call->message and leaves the place to the executor. `run` order: prepare
 * whenever sizes or addresses changed, then for each step mark and launch, then mark once more. Nothing between the
 * marks may allocate or wait. */
typedef struct qf_device_interface {
    const char *name;
    /* Host code may read and write device memory, so that weights and constants are used where they lie. */
    bool host_memory;
    /* The DLPack device type of tensors that may be bound. */
    int32_t device_type;
    bool (*runs)(qf_target target);
    qf_status (*create)(qf_context *context, const qf_device_settings *settings, void **out_state);
    void (*destroy)(void *state);
    /* Aligned to 256 bytes; NULL on failure (recorded). */
    void *(*allocate)(void *state, size_t size);
    void (*release)(void *state, void *memory, size_t size);
    /* Host memory to device memory; done when it returns. */
    qf_status (*upload)(void *state, void *destination, const void *source, size_t size);
    /* Bytes of scratch that the steps need at most, given that they run one after another. */
    qf_status (*prepare)(void *state, const qf_kernel_step *steps, uint32_t count, size_t *out_scratch);
    qf_status (*launch)(void *state, qf_kernel_step *step);
    void (*mark)(void *state, uint32_t step);
    uint64_t (*elapsed)(void *state, uint32_t step); /* nanoseconds between the marks of step and step + 1 */
} qf_device_interface;

extern const qf_device_interface qf_device_cpu;

/* The device of this name, or the first that runs the target where name is NULL. NULL: there is none. */
const qf_device_interface *qf_device_find(const char *name, qf_target target);

#endif
