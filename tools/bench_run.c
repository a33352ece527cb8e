/* Owns: timing a plan on a device: memory, warm-up, graph replay, samples.
 * Does not own: which plans (bench.c).
 * Next: bench.h. */
#include "tools/bench.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SETS    16
#define MOST_INPUTS  256
#define MOST_SAMPLES 25
#define BLOCK        ((int64_t)1 << 22) /* elements of random numbers, repeated in larger tensors */

typedef struct bench_set {
    qf_executor *executor;
    qf_tensor inputs[MOST_INPUTS];
} bench_set;

struct bench_plan {
    tool_device *device;
    qf_plan *plan;
    uint32_t set_count, input_count;
    bench_set *sets;
    bool captured;
    double bytes;
};

/* --- memory --- */

static bool device_room(tool_device *device, qf_tensor *tensor) {
    if (device->host) return tensor_allocate(device->tool, tensor);
    tensor->device_type = device->info.device_type;
    tensor->device_id = device->info.device_id;
    size_t size = (size_t)qf_tensor_bytes(tensor);
    tensor->data = qf_device_allocate(device->device, size ? size : 1);
    return tensor->data != NULL;
}

static void device_drop(tool_device *device, qf_tensor *tensor) {
    if (device->host)
        tensor_free(tensor);
    else if (tensor->data)
        qf_device_release(device->device, tensor->data, (size_t)qf_tensor_bytes(tensor));
    tensor->data = NULL;
}

bool bench_upload(tool_device *device, qf_tensor *tensor, const void *data) {
    return device_room(device, tensor) &&
           qf_device_upload(device->device, tensor->data, data, (size_t)qf_tensor_bytes(tensor)) == QF_OK;
}

bool bench_random(tool_device *device, qf_tensor *tensor, uint64_t seed) {
    qf_tensor block = {.dtype = tensor->dtype, .rank = 1, .dims = {BLOCK}};
    uint64_t total = qf_tensor_bytes(tensor), size = qf_tensor_bytes(&block);
    if (total < size) {
        block.dims[0] = (int64_t)(total * 8 / qf_dtype_bits(tensor->dtype));
        size = qf_tensor_bytes(&block);
    }
    if (!tensor_allocate(device->tool, &block)) return false;
    tensor_randomise(&block, seed);
    bool done = device_room(device, tensor);
    for (uint64_t at = 0; done && at < total; at += size) {
        uint64_t part = total - at < size ? total - at : size;
        done = qf_device_upload(device->device, (char *)tensor->data + at, block.data, (size_t)part) == QF_OK;
    }
    tensor_free(&block);
    return done;
}

/* --- opening --- */

static bool open_set(bench_plan *at, uint32_t index, bench_fill fill, void *user) {
    bench_set *set = &at->sets[index];
    set->executor = tool_executor_open(at->device, at->plan, false);
    if (!set->executor) return false;
    for (uint32_t i = 0; i < at->input_count; i++) {
        qf_plan_tensor_info info;
        if (!qf_plan_input(at->plan, i, &info) || !fill(user, i, index, &info, &set->inputs[i]) ||
            qf_executor_bind_input(set->executor, i, &set->inputs[i]) != QF_OK)
            return false;
    }
    /* Caches are updated where they lie. */
    for (uint32_t i = 0; i < qf_plan_output_count(at->plan); i++) {
        qf_plan_tensor_info info;
        if (qf_plan_output(at->plan, i, &info) && info.in_place >= 0 &&
            qf_executor_bind_output(set->executor, i, &set->inputs[info.in_place]) != QF_OK)
            return false;
    }
    return true;
}

static double bytes_of(const bench_plan *at) {
    double total = 0;
    for (uint32_t i = 0; i < at->input_count; i++) total += (double)qf_tensor_bytes(&at->sets[0].inputs[i]);
    for (uint32_t i = 0; i < qf_plan_output_count(at->plan); i++) {
        qf_tensor tensor;
        if (qf_executor_output(at->sets[0].executor, i, &tensor) == QF_OK) total += (double)qf_tensor_bytes(&tensor);
    }
    for (uint32_t i = 0; i < qf_plan_parameter_count(at->plan); i++) {
        qf_plan_tensor_info info;
        if (qf_plan_parameter(at->plan, i, &info)) total += (double)info.size;
    }
    return total;
}

static uint32_t sets_wanted(const bench_plan *at) {
    double cache = (double)at->device->info.cache_bytes;
    double wanted = at->bytes > 0 ? 4 * cache / at->bytes + 1 : 1;
    return wanted > MOST_SETS ? MOST_SETS : wanted < 1 ? 1 : (uint32_t)wanted;
}

static bool open_sets(bench_plan *at, uint32_t sets, bench_fill fill, void *user) {
    at->input_count = qf_plan_input_count(at->plan);
    at->sets = calloc(MOST_SETS, sizeof *at->sets);
    if (!at->sets || at->input_count > MOST_INPUTS) {
        (void)qf_fail(at->device->tool->context, QF_ERROR_UNSUPPORTED, NULL, "the plan has %u inputs, bench takes %d",
                      at->input_count, MOST_INPUTS);
        return false;
    }
    at->set_count = 1;
    if (!open_set(at, 0, fill, user) || qf_executor_prepare(at->sets[0].executor) != QF_OK) return false;
    at->bytes = bytes_of(at);
    uint32_t wanted = sets ? sets : sets_wanted(at);
    for (; at->set_count < wanted; at->set_count++)
        if (!open_set(at, at->set_count, fill, user)) {
            at->set_count++;
            return false;
        }
    return true;
}

bench_plan *bench_plan_open(tool_device *device, qf_plan *plan, uint32_t sets, bench_fill fill, void *user) {
    bench_plan *at = calloc(1, sizeof *at);
    if (!at) {
        qf_plan_destroy(plan);
        return NULL;
    }
    at->device = device;
    at->plan = plan;
    if (open_sets(at, sets, fill, user)) return at;
    bench_plan_close(at);
    return NULL;
}

void bench_plan_close(bench_plan *at) {
    if (!at) return;
    for (uint32_t i = 0; at->sets && i < MOST_SETS; i++) {
        qf_executor_destroy(at->sets[i].executor);
        for (uint32_t j = 0; j < at->input_count && j < MOST_INPUTS; j++)
            device_drop(at->device, &at->sets[i].inputs[j]);
    }
    free(at->sets);
    qf_plan_destroy(at->plan);
    free(at);
}

double bench_plan_bytes(const bench_plan *at) {
    return at->bytes;
}

/* --- timing --- */

/* Runs `count` times, set after set; microseconds of all by the device's clock (on the CPU, the host's). */
static bool run_many(bench_plan *at, uint32_t count, double *out_time) {
    double began = tool_now();
    qf_device_mark(at->device->device, 0);
    for (uint32_t i = 0; i < count; i++)
        if (qf_executor_run(at->sets[i % at->set_count].executor) != QF_OK) return false;
    qf_device_mark(at->device->device, 1);
    if (qf_executor_wait(at->sets[0].executor) != QF_OK) return false;
    *out_time = (double)qf_device_elapsed(at->device->device, 0, 1) * 1e-3;
    if (at->device->host) *out_time = (tool_now() - began) * 1e6;
    return true;
}

static bool capture_all(bench_plan *at) {
    for (uint32_t i = 0; i < at->set_count; i++) {
        if (qf_executor_run(at->sets[i].executor) != QF_OK || qf_executor_wait(at->sets[i].executor) != QF_OK)
            return false;
        if (at->device->host) continue;
        if (qf_executor_capture(at->sets[i].executor) != QF_OK) return false;
        at->captured = true;
    }
    return true;
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

bool bench_plan_time(bench_plan *at, double seconds, bench_times *out) {
    double samples[MOST_SAMPLES], time = 0;
    *out = (bench_times){.runs = at->set_count};
    if (!capture_all(at) || !run_many(at, at->set_count, &time)) return false;
    /* A sample is long against the clock's resolution, and there are several. */
    double each = time / at->set_count, wanted = seconds * 1e6 / MOST_SAMPLES;
    if (each * out->runs < wanted) out->runs = (uint32_t)(wanted / (each > 0.01 ? each : 0.01)) + 1;
    if (!run_many(at, out->runs, &time)) return false;
    double deadline = tool_now() + 2 * seconds;
    while (out->samples < MOST_SAMPLES && (out->samples < 3 || tool_now() < deadline)) {
        if (!run_many(at, out->runs, &time)) return false;
        samples[out->samples++] = time / out->runs;
    }
    qsort(samples, out->samples, sizeof *samples, by_size);
    out->median = samples[out->samples / 2];
    out->least = samples[0];
    out->most = samples[out->samples - 1];
    out->replayed = at->captured;
    return true;
}
