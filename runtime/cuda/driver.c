/* Owns: loading the CUDA driver and telling its errors.
 * Does not own: the table of functions (driver.def).
 * Next: driver.h. */
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *qf_library_open(const char *const *names) {
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

void qf_library_close(void *library) {
    if (library) (void)dlclose(library);
}

bool qf_library_find(void *library, const char *name, void *out_function) {
    void *address = dlsym(library, name);
    memcpy(out_function, &address, sizeof address); /* C has no cast from data to function pointers */
    return address != NULL;
}

void qf_cuda_driver_close(qf_cuda_driver *driver) {
    qf_library_close(driver->library);
    *driver = (qf_cuda_driver){0};
}

void qf_cuda_describe(const qf_cuda_driver *driver, qf_cu_result result, char *text, size_t size) {
    const char *name = NULL, *meaning = NULL;
    if (driver->get_error_name) (void)driver->get_error_name(result, &name);
    if (driver->get_error_string) (void)driver->get_error_string(result, &meaning);
    (void)snprintf(text, size, "%s %d (%s)", name ? name : "CUDA error", result, meaning ? meaning : "no description");
}

qf_status qf_cuda_check(const qf_cuda_driver *driver, qf_context *context, qf_cu_result result, const char *what) {
    if (result == 0) return QF_OK;
    char text[256];
    qf_cuda_describe(driver, result, text, sizeof text);
    return qf_fail(context, result == QF_CU_ERROR_OUT_OF_MEMORY ? QF_ERROR_OUT_OF_MEMORY : QF_ERROR_DEVICE, NULL,
                   "%s: %s", what, text);
}

static const char *find_functions(qf_cuda_driver *driver) {
#define DRIVER(name, field, parameters)                                                                                \
    if (!qf_library_find(driver->library, #name, &driver->field)) return #name;
#include "runtime/cuda/driver.def"
    return NULL;
}

qf_status qf_cuda_driver_open(qf_context *context, qf_cuda_driver *out_driver) {
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    *out_driver = (qf_cuda_driver){0};
    out_driver->library = qf_library_open(names);
    if (!out_driver->library)
        return qf_fail(
            context, QF_ERROR_DEVICE, NULL,
            "device cuda needs NVIDIA's driver: looked for libcuda.so.1 and libcuda.so in the loader's path and "
            "found neither; install the driver, or use device cpu");
    const char *missing = find_functions(out_driver);
    if (missing) {
        qf_status status =
            qf_fail(context, QF_ERROR_VERSION, NULL,
                    "the installed NVIDIA driver has no %s; QFuse needs a driver for CUDA 12.0 or newer", missing);
        qf_cuda_driver_close(out_driver);
        return status;
    }
    qf_status status = qf_cuda_check(out_driver, context, out_driver->init(0), "initialising the NVIDIA driver");
    if (status != QF_OK) qf_cuda_driver_close(out_driver);
    return status;
}
