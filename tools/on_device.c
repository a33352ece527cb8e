/* Owns: moving the program's tensors to the device and back.
 * Does not own: files and comparison of tensors (tensors.c).
 * Next: on_device.h. */
#include "tools/on_device.h"

#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>
#include <qfuse/runtime.h>

bool tool_device_open(qf_tool *tool, const char *name, tool_device *out) {
    *out = (tool_device){.tool = tool, .name = name ? name : "cpu"};
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

#define MAX_INPUTS 256

typedef struct device_run {
    qf_plan *plan;
    qf_executor *executor;
    qf_tensor inputs[MAX_INPUTS];
    uint32_t input_count;
} device_run;

static bool execute(tool_device *device, const qf_graph *graph, const qf_tensor *inputs, device_run *run) {
    qf_context *context = device->tool->context;
    qf_compile_options options = {.struct_size = sizeof options, .target = device->info.target};
    qf_executor_options settings = {.struct_size = sizeof settings,
                                    .device = device->name,
                                    .device_id = device->info.device_id,
                                    .thread_count = (uint32_t)device->tool->options.threads,
                                    .weights_root = "."};
    if (qf_compile(graph, &options, &run->plan) != QF_OK ||
        qf_executor_create(context, run->plan, &settings, &run->executor) != QF_OK)
        return false;
    uint32_t count = qf_plan_input_count(run->plan);
    for (uint32_t i = 0; i < count && i < MAX_INPUTS; i++) {
        run->input_count++;
        if (!tool_device_put(device, &inputs[i], &run->inputs[i]) ||
            qf_executor_bind_input(run->executor, i, &run->inputs[i]) != QF_OK)
            return false;
    }
    return qf_executor_run(run->executor) == QF_OK && qf_executor_wait(run->executor) == QF_OK;
}

bool tool_device_run(tool_device *device, const qf_graph *graph, const qf_tensor *inputs, qf_tensor *outputs,
                     uint32_t most_outputs, uint32_t *out_count) {
    *out_count = 0;
    device_run *run = calloc(1, sizeof *run);
    bool done = run && execute(device, graph, inputs, run);
    for (uint32_t i = 0; done && i < qf_plan_output_count(run->plan) && i < most_outputs; i++) {
        qf_tensor placed;
        done = qf_executor_output(run->executor, i, &placed) == QF_OK;
        if (done) (*out_count)++;
        done = done && tool_device_get(device, &placed, &outputs[i]);
    }
    if (run) {
        qf_executor_destroy(run->executor);
        for (uint32_t i = 0; i < run->input_count; i++) tool_device_drop(device, &run->inputs[i]);
        qf_plan_destroy(run->plan);
    }
    free(run);
    return done;
}
