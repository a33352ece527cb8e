/* Owns: moving the program's tensors to the device and back.
 * Does not own: files and comparison of tensors (tensors.c).
 * Next: on_device.h. */
#include "tools/on_device.h"

#include <string.h>

bool tool_device_open(qf_tool *tool, tool_device *out) {
    *out = (tool_device){.tool = tool, .name = tool->options.device ? tool->options.device : "cpu"};
    if (qf_device_open(tool->context, out->name, NULL, &out->device) != QF_OK) return false;
    out->info.struct_size = sizeof out->info;
    qf_device_describe(out->device, &out->info);
    out->host = out->info.device_type == QF_DL_CPU;
    return true;
}

void tool_device_close(tool_device *device) {
    qf_device_close(device->device);
    device->device = NULL;
}

const char *tool_device_target(const tool_device *device) {
    return device->tool->options.target ? device->tool->options.target : device->info.target;
}

bool tool_device_put(tool_device *device, const qf_tensor *host, qf_tensor *out) {
    *out = *host;
    if (device->host) return true;
    size_t size = (size_t)qf_tensor_bytes(host);
    out->device_type = device->info.device_type;
    out->device_id = device->info.device_id;
    out->data = qf_device_allocate(device->device, size ? size : 1);
    return out->data && qf_device_upload(device->device, out->data, host->data, size) == QF_OK;
}

void tool_device_drop(tool_device *device, qf_tensor *tensor) {
    if (!device->host && device->device)
        qf_device_release(device->device, tensor->data, (size_t)qf_tensor_bytes(tensor));
    tensor->data = NULL;
}

bool tool_device_get(tool_device *device, const qf_tensor *tensor, qf_tensor *out_host) {
    *out_host = (qf_tensor){.dtype = tensor->dtype, .rank = tensor->rank};
    memcpy(out_host->dims, tensor->dims, sizeof out_host->dims);
    if (!tensor_allocate(device->tool, out_host)) return false;
    size_t size = (size_t)qf_tensor_bytes(tensor);
    return qf_device_download(device->device, out_host->data, tensor->data, size) == QF_OK;
}
