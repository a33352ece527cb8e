/* Owns: the device that --device names: its target, tensors on it and back.
 * Does not own: devices (qfuse/device.h), running (qfuse/runtime.h).
 * Next: on_device.c. */
#ifndef QF_TOOLS_ON_DEVICE_H
#define QF_TOOLS_ON_DEVICE_H

#include <qfuse/device.h>

#include "tools/tensors.h"

typedef struct tool_device {
    qf_tool *tool;
    qf_device *device;
    qf_device_info info;
    const char *name; /* "cpu" where --device is not given */
    bool host;        /* host tensors are used where they lie */
} tool_device;

/* Opens --device; false after a message. */
bool tool_device_open(qf_tool *tool, tool_device *out);
void tool_device_close(tool_device *device);
/* --target, or the device's own. */
const char *tool_device_target(const tool_device *device);

/* A copy on the device (of the same host memory where host); dropped by tool_device_drop. */
bool tool_device_put(tool_device *device, const qf_tensor *host, qf_tensor *out);
void tool_device_drop(tool_device *device, qf_tensor *tensor);
/* A copy in host memory, freed by tensor_free. */
bool tool_device_get(tool_device *device, const qf_tensor *tensor, qf_tensor *out_host);

#endif
