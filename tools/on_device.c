/* Owns: moving the program's tensors to the device and back.
 * Does not own: files and comparison of tensors (tensors.c).
 * Next: on_device.h. */
#include "tools/on_device.h"

#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>

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

/* A copy on the device (the host's memory itself where that will do), until it is dropped. */
static bool put(tool_device *device, const qf_tensor *host, qf_tensor *out) {
    *out = *host;
    if (device->host) return true;
    size_t size = (size_t)qf_tensor_bytes(host);
    out->device_type = device->info.device_type;
    out->device_id = device->info.device_id;
    out->data = qf_device_allocate(device->device, size ? size : 1);
    return out->data && qf_device_upload(device->device, out->data, host->data, size) == QF_OK;
}

static void drop(tool_device *device, qf_tensor *tensor) {
    if (!device->host && device->device)
        qf_device_release(device->device, tensor->data, (size_t)qf_tensor_bytes(tensor));
    tensor->data = NULL;
}

/* A copy in host memory, freed by tensor_free. */
static bool get(tool_device *device, const qf_tensor *tensor, qf_tensor *out_host) {
    *out_host = (qf_tensor){.dtype = tensor->dtype, .rank = tensor->rank};
    memcpy(out_host->dims, tensor->dims, sizeof out_host->dims);
    if (!tensor_allocate(device->tool, out_host)) return false;
    size_t size = (size_t)qf_tensor_bytes(tensor);
    return qf_device_download(device->device, out_host->data, tensor->data, size) == QF_OK;
}

qf_executor *tool_executor_open(const tool_device *device, const qf_plan *plan, bool time_steps) {
    qf_executor *executor = NULL;
    qf_executor_options settings = {.struct_size = sizeof settings,
                                    .device = device->name,
                                    .device_id = device->info.device_id,
                                    .thread_count = (uint32_t)device->tool->options.threads,
                                    .weights_root = ".",
                                    .time_steps = time_steps};
    return qf_executor_create(device->tool->context, plan, &settings, &executor) == QF_OK ? executor : NULL;
}

/* --- a plan with its inputs on the device --- */

bool placed_run_open(tool_device *device, const qf_plan *plan, bool time_steps, placed_run *out) {
    *out = (placed_run){.device = device, .executor = tool_executor_open(device, plan, time_steps)};
    if (!out->executor || qf_plan_input_count(plan) <= QF_COUNT_OF(out->inputs)) return out->executor != NULL;
    (void)qf_fail(device->tool->context, QF_ERROR_UNSUPPORTED, NULL, "the plan has %u inputs, %zu are taken",
                  qf_plan_input_count(plan), QF_COUNT_OF(out->inputs));
    return false;
}

bool placed_run_bind(placed_run *run, const qf_tensor *host) {
    uint32_t index = run->input_count++;
    return put(run->device, host, &run->inputs[index]) &&
           qf_executor_bind_input(run->executor, index, &run->inputs[index]) == QF_OK;
}

bool placed_run_get(const placed_run *run, uint32_t index, qf_tensor *out_host) {
    qf_tensor placed;
    return qf_executor_output(run->executor, index, &placed) == QF_OK && get(run->device, &placed, out_host);
}

void placed_run_close(placed_run *run) {
    qf_executor_destroy(run->executor);
    for (uint32_t i = 0; i < run->input_count; i++) drop(run->device, &run->inputs[i]);
    *run = (placed_run){0};
}

/* --- a graph, once --- */

static bool run_once(tool_device *device, const qf_plan *plan, const qf_tensor *inputs, placed_run *run) {
    bool done = placed_run_open(device, plan, false, run);
    for (uint32_t i = 0; done && i < qf_plan_input_count(plan); i++) done = placed_run_bind(run, &inputs[i]);
    return done && qf_executor_run(run->executor) == QF_OK && qf_executor_wait(run->executor) == QF_OK;
}

bool tool_device_run(tool_device *device, const qf_graph *graph, const qf_tensor *inputs, qf_tensor *outputs,
                     uint32_t most_outputs, uint32_t *out_count) {
    *out_count = 0;
    qf_plan *plan = NULL;
    qf_compile_options options = {.struct_size = sizeof options, .target = device->info.target};
    placed_run *run = calloc(1, sizeof *run);
    bool done = run && qf_compile(graph, &options, &plan) == QF_OK && run_once(device, plan, inputs, run);
    for (uint32_t i = 0; done && i < qf_plan_output_count(plan) && i < most_outputs; i++) {
        (*out_count)++;
        done = placed_run_get(run, i, &outputs[i]);
    }
    if (run) placed_run_close(run);
    free(run);
    qf_plan_destroy(plan);
    return done;
}
