/* Owns: a plan on the device with its tensors.
 * Does not own: what is checked with it.
 * Next: live.h. */
#include "tests/gpu/conformance/live.h"

#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>

#include "ir/text.h"

static void check(live *at, qf_status status) {
    if (status != QF_OK) at->failed = true;
}

static void open_executor(live *at) {
    qf_executor_options options = {
        .struct_size = sizeof options, .device = at->of->options.device, .thread_count = at->of->options.threads};
    check(at, qf_executor_create(at->context, at->plan, &options, &at->executor));
}

bool live_open(live *at, suite *of, const char *text) {
    *at = (live){.of = of};
    at->context = open_context(at->messages);
    qf_graph *graph = at->context ? qf_graph_parse(at->context, qf_text_of(text), "check") : NULL;
    qf_compile_options options = {.struct_size = sizeof options, .target = of->target};
    check(at, graph ? qf_compile(graph, &options, &at->plan) : QF_ERROR_PARSE);
    qf_graph_destroy(graph);
    if (!at->failed) open_executor(at);
    return !at->failed;
}

bool live_open_again(live *at, const live *like) {
    *at = (live){.of = like->of, .plan = like->plan, .shared_plan = true};
    at->context = open_context(at->messages);
    if (at->context)
        open_executor(at);
    else
        at->failed = true;
    return !at->failed;
}

void live_close(live *at) {
    qf_executor_destroy(at->executor);
    for (uint32_t i = 0; i < MOST_INPUTS; i++)
        if (at->inputs[i].data) qf_device_release(at->of->device, at->inputs[i].data, at->sizes[i]);
    if (!at->shared_plan) qf_plan_destroy(at->plan);
    if (at->context) qf_context_destroy(at->context);
}

static int32_t input_of(live *at, const char *name) {
    int32_t index = at->failed ? -1 : qf_plan_find_input(at->plan, name);
    if (index >= 0 && index < MOST_INPUTS) return index;
    at->failed = true;
    return -1;
}

void live_room(live *at, const char *name, qf_dtype dtype, shape dims) {
    int32_t index = input_of(at, name);
    if (index < 0) return;
    qf_device_info info = {.struct_size = sizeof info};
    qf_device_describe(at->of->device, &info);
    qf_tensor *tensor = &at->inputs[index];
    *tensor = (qf_tensor){.dtype = dtype, .rank = dims.rank, .device_type = info.device_type};
    tensor->device_id = info.device_id;
    memcpy(tensor->dims, dims.dims, dims.rank * sizeof *dims.dims);
    at->sizes[index] = (size_t)qf_tensor_bytes(tensor) + 1;
    tensor->data = qf_device_allocate(at->of->device, at->sizes[index]);
    check(at, tensor->data ? qf_executor_bind_input(at->executor, (uint32_t)index, tensor) : QF_ERROR_OUT_OF_MEMORY);
}

void live_input(live *at, const char *name, qf_dtype dtype, shape dims, fill values, uint64_t seed) {
    live_room(at, name, dtype, dims);
    if (at->failed) return;
    case_input input = {.dtype = dtype, .dims = dims, .fill = values};
    qf_tensor host = {.dtype = dtype, .rank = dims.rank};
    memcpy(host.dims, dims.dims, dims.rank * sizeof *dims.dims);
    size_t size = (size_t)qf_tensor_bytes(&host);
    host.data = calloc(1, size + 1);
    random_state random = {seed};
    if (!host.data) {
        at->failed = true;
        return;
    }
    fill_tensor(&input, &host, &random);
    live_write(at, name, 0, host.data, size);
    free(host.data);
}

void live_write(live *at, const char *name, size_t offset, const void *data, size_t size) {
    int32_t index = input_of(at, name);
    if (index < 0) return;
    check(at, qf_device_upload(at->of->device, (char *)at->inputs[index].data + offset, data, size));
}

void live_run(live *at) {
    if (at->failed) return;
    check(at, qf_executor_run(at->executor));
    if (!at->failed) check(at, qf_executor_wait(at->executor));
}

size_t live_output_size(live *at, uint32_t index) {
    qf_tensor tensor;
    if (at->failed) return 0;
    check(at, qf_executor_output(at->executor, index, &tensor));
    return at->failed ? 0 : (size_t)qf_tensor_bytes(&tensor);
}

void live_read(live *at, uint32_t index, size_t offset, void *out, size_t size) {
    qf_tensor tensor;
    if (at->failed) return;
    check(at, qf_executor_output(at->executor, index, &tensor));
    if (!at->failed) check(at, qf_device_download(at->of->device, out, (char *)tensor.data + offset, size));
}

void *live_outputs(live *at, size_t *out_size) {
    uint32_t count = at->failed ? 0 : qf_plan_output_count(at->plan);
    size_t total = 0, used = 0;
    for (uint32_t i = 0; i < count; i++) total += live_output_size(at, i);
    char *all = calloc(1, total + 1);
    for (uint32_t i = 0; all && i < count; i++) {
        size_t size = live_output_size(at, i);
        live_read(at, i, 0, all + used, size);
        used += size;
    }
    *out_size = total;
    if (all && !at->failed) return all;
    at->failed = true;
    free(all);
    return NULL;
}

bool live_ok(const live *at, char *message, size_t size) {
    if (at->failed)
        (void)snprintf(message, size, "%s", at->messages[0] ? at->messages : "a step of the check itself failed");
    return !at->failed;
}
