/* Owns: turning recorded actions into driver calls that are ready to be made.
 * Does not own: recording a step (kernels/cuda).
 * Next: actions.h. */
#include "runtime/cuda/actions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/images.h"

#define MOST_PORTABLE_CLUSTER 8u

/* --- recording --- */

bool qf_cuda_actions_want_blas(const qf_kernel_step *steps, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].call.op == QF_OP_matmul || steps[i].call.op == QF_OP_contract ||
            steps[i].call.op == QF_OP_scaled_matmul)
            return true;
    return false;
}

static void release_products(qf_cuda_actions *actions) {
    for (uint32_t i = 0; i < actions->ready_count; i++) qf_cublas_release(&actions->blas, &actions->ready[i].product);
    actions->ready_count = 0;
}

static qf_status record_step(qf_cuda_actions *actions, qf_cuda_recorder *recorder, uint32_t index,
                             qf_cuda_action **out_first) {
    qf_kernel_step *step = &actions->steps[index];
    qf_cuda_builder build = qf_cuda_builder_of(step->row);
    recorder->index = index;
    recorder->remaining = actions->step_count - index;
    recorder->taken = 1;
    recorder->first = recorder->last = NULL;
    recorder->scratch_used = 0;
    step->call.message[0] = '\0';
    qf_status status = build ? build(recorder, step) : qf_cuda_refuse(step, "the kernel is not one of the GPU's");
    *out_first = recorder->first;
    if (status == QF_OK && recorder->taken >= 1 && recorder->taken <= recorder->remaining) return QF_OK;
    if (status == QF_OK) status = QF_ERROR_INTERNAL;
    if (status == QF_ERROR_OUT_OF_MEMORY) return qf_record(actions->context, status);
    const qf_position position = {.location = step->location};
    return qf_fail(actions->context, status, &position, "step %u (%s, kernel %s): %s", index, qf_op_name(step->call.op),
                   step->row ? step->row->name : "none",
                   step->call.message[0] ? step->call.message : qf_status_name(status));
}

qf_status qf_cuda_actions_record(qf_cuda_actions *actions, qf_cuda_recorder *recorder, qf_kernel_step *steps,
                                 uint32_t count) {
    release_products(actions);
    qf_arena_destroy(&actions->arena);
    actions->arena = (qf_arena){.context = actions->context};
    actions->steps = steps;
    actions->step_count = count;
    recorder->arena = &actions->arena;
    recorder->scratch_size = recorder->zeroed_size = 0;
    qf_cuda_action **by_step = QF_ARENA_NEW(&actions->arena, qf_cuda_action *, count + 1u);
    actions->first = QF_ARENA_NEW(&actions->arena, uint32_t, count + 1u);
    if (!by_step || !actions->first) return QF_ERROR_OUT_OF_MEMORY;
    uint32_t total = 0;
    for (uint32_t i = 0; i < count; i += recorder->taken) {
        qf_status status = record_step(actions, recorder, i, &by_step[i]);
        if (status != QF_OK) return status;
        for (const qf_cuda_action *action = by_step[i]; action; action = action->next) total++;
    }
    actions->ready = QF_ARENA_NEW(&actions->arena, qf_cuda_ready, total + 1u);
    if (!actions->ready) return QF_ERROR_OUT_OF_MEMORY;
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        actions->first[i] = next;
        for (const qf_cuda_action *action = by_step[i]; action; action = action->next)
            actions->ready[next++].action = action;
    }
    actions->first[count] = actions->ready_count = next;
    return QF_OK;
}

/* --- making ready --- */

static int64_t find_image(const char *name) {
    for (uint32_t i = 0; i < qf_cuda_image_count; i++)
        if (strcmp(qf_cuda_images[i].name, name) == 0) return i;
    return -1;
}

static qf_status find_function(qf_cuda_actions *actions, const qf_cuda_launch *launch, qf_cu_function *out_function) {
    int64_t image = find_image(launch->image);
    if (image < 0)
        return qf_fail(actions->context, QF_ERROR_DEVICE, NULL, "this build has no GPU kernel file \"%s\"%s",
                       launch->image, qf_cuda_image_count ? "" : ": it was built without nvcc (QF_CUDA=OFF)");
    if (actions->in_capture && !actions->modules[image])
        return qf_fail(actions->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "the stream is being captured: " QF_CUDA_PREPARE_FIRST);
    char what[160];
    (void)snprintf(what, sizeof what, "loading kernel %s of \"%s\"", launch->kernel, launch->image);
    qf_cu_result result = 0;
    if (!actions->modules[image])
        result = actions->driver->module_load_data(&actions->modules[image], qf_cuda_images[image].start);
    if (result == 0)
        result = actions->driver->module_get_function(out_function, actions->modules[image], launch->kernel);
    return qf_cuda_check(actions->driver, actions->context, result, what);
}

static qf_status encode_map(const qf_cuda_actions *actions, const qf_cuda_launch *launch,
                            const qf_cuda_tensor_map *map) {
    const uint32_t steps[5] = {1, 1, 1, 1, 1};
    /* The driver wants the descriptor aligned to 64 bytes; parameter blocks are aligned to 16. */
    _Alignas(64) unsigned char descriptor[128];
    if (map->params_offset % 64 || map->params_offset + sizeof descriptor > launch->params_size)
        return qf_fail(actions->context, QF_ERROR_INTERNAL, NULL,
                       "kernel %s: a tensor map lies outside of its parameters", launch->kernel);
    qf_cu_result result = actions->driver->tensor_map_encode(
        descriptor, map->element_bytes == 2 ? QF_CU_MAP_UINT16 : QF_CU_MAP_UINT8, map->rank, map->address, map->extents,
        map->strides, map->box, steps, 0, qf_cuda_swizzle_code(map), qf_cuda_promotion_code(map), 0);
    char what[160];
    (void)snprintf(what, sizeof what, "describing a tensor of rank %u at %p to kernel %s", map->rank, map->address,
                   launch->kernel);
    if (result == 0) memcpy((char *)launch->params + map->params_offset, descriptor, sizeof descriptor);
    return qf_cuda_check(actions->driver, actions->context, result, what);
}

static void fill_config(qf_cuda_ready *ready, const qf_cuda_launch *launch) {
    qf_cu_launch_config *config = &ready->config;
    for (int i = 0; i < 3; i++) config->grid[i] = launch->grid[i], config->block[i] = launch->block[i];
    config->shared_bytes = launch->shared_bytes;
    config->attributes = ready->attributes;
    qf_cu_launch_attribute *attribute = ready->attributes;
    if (launch->dependent) {
        attribute->id = QF_CU_LAUNCH_DEPENDENT;
        attribute->value = 1;
        attribute++;
    }
    if (launch->cluster) {
        attribute->id = QF_CU_LAUNCH_CLUSTER_DIMENSION;
        attribute->cluster.x = launch->cluster;
        attribute->cluster.y = attribute->cluster.z = 1;
        attribute++;
        attribute->id = QF_CU_LAUNCH_CLUSTER_POLICY;
        attribute->value = QF_CU_CLUSTER_POLICY_LOAD_BALANCING;
        attribute++;
    }
    config->attribute_count = (unsigned)(attribute - ready->attributes);
}

/* A kernel starts out with 48 KiB less what it declares statically; what another launch of it got is never taken away.
 */
static qf_cu_result allow_shared(const qf_cuda_actions *actions, qf_cu_function function, uint32_t bytes) {
    int allowed = 0;
    if (!bytes) return 0;
    qf_cu_result result = actions->driver->function_get_attribute(&allowed, QF_CU_FUNCTION_SHARED_BYTES, function);
    if (result != 0 || bytes <= (uint32_t)allowed) return result;
    return actions->driver->function_set_attribute(function, QF_CU_FUNCTION_SHARED_BYTES, (int)bytes);
}

static qf_status finish_launch(qf_cuda_actions *actions, qf_cuda_ready *ready) {
    const qf_cuda_launch *launch = &ready->action->launch;
    qf_status status = find_function(actions, launch, &ready->function);
    if (status != QF_OK) return status;
    qf_cu_result result = allow_shared(actions, ready->function, launch->shared_bytes);
    if (result == 0 && launch->cluster > MOST_PORTABLE_CLUSTER)
        result = actions->driver->function_set_attribute(ready->function, QF_CU_FUNCTION_NON_PORTABLE_CLUSTER, 1);
    status = qf_cuda_check(actions->driver, actions->context, result, launch->kernel);
    for (const qf_cuda_tensor_map *map = launch->maps; status == QF_OK && map; map = map->next)
        status = encode_map(actions, launch, map);
    fill_config(ready, launch);
    return status;
}

qf_status qf_cuda_actions_finish(qf_cuda_actions *actions, bool *out_without_blas) {
    *out_without_blas = false;
    for (uint32_t i = 0; i < actions->ready_count; i++) {
        qf_cuda_ready *ready = &actions->ready[i];
        qf_status status = QF_OK;
        if (ready->action->kind == QF_CUDA_LAUNCH) status = finish_launch(actions, ready);
        if (status != QF_OK) return status;
        if (ready->action->kind == QF_CUDA_MATMUL &&
            !qf_cublas_prepare(&actions->blas, &ready->action->matmul, &ready->product)) {
            *out_without_blas = true;
            return QF_OK;
        }
    }
    return QF_OK;
}

/* --- enqueuing --- */

static qf_status enqueue(const qf_cuda_actions *actions, qf_cuda_ready *ready, qf_cu_stream stream, char *message,
                         size_t message_size) {
    const qf_cuda_action *action = ready->action;
    char error[200];
    if (action->kind == QF_CUDA_MATMUL) {
        int code = qf_cublas_enqueue(&actions->blas, &action->matmul, &ready->product, stream);
        if (code == 0) return QF_OK;
        (void)snprintf(message, message_size,
                       "cuBLASLt refused the product %" PRId64 " x %" PRId64 " x %" PRId64 ": status %d",
                       action->matmul.m, action->matmul.n, action->matmul.k, code);
        return QF_ERROR_DEVICE;
    }
    qf_cu_result result;
    if (action->kind == QF_CUDA_COPY) {
        result = actions->driver->copy_on_device((qf_cu_address)action->copy.to, (qf_cu_address)action->copy.from,
                                                 action->copy.size, stream);
    } else {
        void *parameters[] = {action->launch.params};
        ready->config.stream = stream;
        result = actions->driver->launch_kernel(&ready->config, ready->function, parameters, NULL);
    }
    if (result == 0) return QF_OK;
    qf_cuda_describe(actions->driver, result, error, sizeof error);
    (void)snprintf(message, message_size, "%s: %s",
                   action->kind == QF_CUDA_COPY ? "a copy on the device" : action->launch.kernel, error);
    return QF_ERROR_DEVICE;
}

qf_status qf_cuda_actions_enqueue(qf_cuda_actions *actions, uint32_t step, qf_cu_stream stream) {
    const qf_kernel_call *call = &actions->steps[step].call;
    for (uint32_t i = actions->first[step]; i < actions->first[step + 1]; i++) {
        qf_status status = enqueue(actions, &actions->ready[i], stream, call->message, call->message_size);
        if (status != QF_OK) return status;
    }
    return QF_OK;
}

void qf_cuda_actions_close(qf_cuda_actions *actions) {
    release_products(actions);
    qf_cublas_close(&actions->blas);
    for (uint32_t i = 0; actions->modules && i < qf_cuda_image_count; i++)
        if (actions->modules[i]) (void)actions->driver->module_unload(actions->modules[i]);
    qf_release(actions->context, actions->modules, (qf_cuda_image_count + 1) * sizeof *actions->modules);
    qf_arena_destroy(&actions->arena);
}
