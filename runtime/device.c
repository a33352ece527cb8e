/* Owns: the list of devices, and a device by itself for hosts (qf_device).
 * Does not own: the devices (devices/).
 * Next: device.h. */
#include "runtime/device.h"

#include <string.h>

static const qf_device_interface *const devices[] = {&qf_device_cpu, &qf_device_cuda};

struct qf_device {
    qf_context *context;
    const qf_device_interface *interface;
    void *state;
};

const qf_device_interface *qf_device_find(const char *name, qf_target target) {
    for (uint32_t i = 0; i < QF_COUNT_OF(devices); i++)
        if (name ? strcmp(devices[i]->name, name) == 0 : devices[i]->runs(target)) return devices[i];
    return NULL;
}

qf_status qf_device_open(qf_context *context, const char *name, const qf_device_options *options,
                         qf_device **out_device) {
    *out_device = NULL;
    qf_device_options given = {0};
    if (options) memcpy(&given, options, options->struct_size < sizeof given ? options->struct_size : sizeof given);
    const qf_device_interface *interface = qf_device_find(name, QF_TARGET_cpu);
    if (!interface)
        return qf_fail(context, QF_ERROR_NOT_FOUND, NULL, "no device is named \"%s\"; this build has cpu and cuda",
                       name);
    qf_device *device = qf_allocate(context, sizeof *device);
    if (!device) return QF_ERROR_OUT_OF_MEMORY;
    *device = (qf_device){.context = context, .interface = interface};
    qf_device_settings settings = {.target = QF_TARGET_cpu,
                                   .device_id = given.device_id,
                                   .step_count = QF_DEVICE_MARKS - 1,
                                   .time_steps = true,
                                   .stream = given.stream};
    qf_status status = interface->create(context, &settings, &device->state);
    if (status == QF_OK)
        *out_device = device;
    else
        qf_release(context, device, sizeof *device);
    return status;
}

void qf_device_close(qf_device *device) {
    if (!device) return;
    device->interface->destroy(device->state);
    qf_release(device->context, device, sizeof *device);
}

void qf_device_describe(const qf_device *device, qf_device_info *out_info) {
    size_t size = out_info->struct_size < sizeof *out_info ? out_info->struct_size : sizeof *out_info;
    qf_device_info info = {.struct_size = size, .device_type = device->interface->device_type};
    device->interface->describe(device->state, &info);
    memcpy(out_info, &info, size);
}

void *qf_device_allocate(qf_device *device, size_t size) {
    return device->interface->allocate(device->state, size);
}
void qf_device_release(qf_device *device, void *memory, size_t size) {
    device->interface->release(device->state, memory, size);
}
qf_status qf_device_upload(qf_device *device, void *destination, const void *source, size_t size) {
    return device->interface->upload(device->state, destination, source, size);
}
qf_status qf_device_download(qf_device *device, void *destination, const void *source, size_t size) {
    return device->interface->download(device->state, destination, source, size);
}
qf_status qf_device_wait(qf_device *device) {
    return device->interface->wait(device->state);
}
void qf_device_mark(qf_device *device, uint32_t mark) {
    if (mark < QF_DEVICE_MARKS) device->interface->mark(device->state, mark);
}
uint64_t qf_device_elapsed(qf_device *device, uint32_t from, uint32_t to) {
    return from < QF_DEVICE_MARKS && to < QF_DEVICE_MARKS ? device->interface->elapsed(device->state, from, to) : 0;
}
