/* Owns: the list of devices.
 * Does not own: the devices (devices/).
 * Next: device.h. */
#include "runtime/device.h"

#include <string.h>

static const qf_device_interface *const devices[] = {&qf_device_cpu};

const qf_device_interface *qf_device_find(const char *name, qf_target target) {
    for (uint32_t i = 0; i < QF_COUNT_OF(devices); i++)
        if (name ? strcmp(devices[i]->name, name) == 0 : devices[i]->runs(target)) return devices[i];
    return NULL;
}
