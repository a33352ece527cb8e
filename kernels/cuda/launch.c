/* Owns: the recorder: appending actions, handing out scratch and zeroed memory.
 * Does not own: what is recorded (the builders).
 * Next: launch.h. */
#include "kernels/cuda/builder.h"

#include <stdarg.h>
#include <stdio.h>

#define ALIGNMENT            256
#define BLOCKS_PER_PROCESSOR 32

static qf_cuda_action *append(qf_cuda_recorder *recorder, qf_cuda_action_kind kind) {
    qf_cuda_action *action = QF_ARENA_NEW(recorder->arena, qf_cuda_action, 1);
    if (!action) return NULL;
    action->kind = kind;
    if (recorder->last)
        recorder->last->next = action;
    else
        recorder->first = action;
    recorder->last = action;
    return action;
}

qf_cuda_launch *qf_cuda_add_launch(qf_cuda_recorder *recorder, const char *image, const char *kernel,
                                   size_t params_size) {
    void *params = qf_arena_allocate(recorder->arena, params_size);
    qf_cuda_action *action = params ? append(recorder, QF_CUDA_LAUNCH) : NULL;
    if (!action) return NULL;
    action->launch = (qf_cuda_launch){.image = image,
                                      .kernel = kernel,
                                      .grid = {1, 1, 1},
                                      .block = {1, 1, 1},
                                      .params_size = params_size,
                                      .params = params};
    return &action->launch;
}

qf_cuda_tensor_map *qf_cuda_add_tensor_map(qf_cuda_recorder *recorder, qf_cuda_launch *launch, size_t params_offset) {
    qf_cuda_tensor_map *map = QF_ARENA_NEW(recorder->arena, qf_cuda_tensor_map, 1);
    if (!map) return NULL;
    map->params_offset = (uint32_t)params_offset;
    map->next = launch->maps;
    launch->maps = map;
    return map;
}

qf_cuda_matmul *qf_cuda_add_matmul(qf_cuda_recorder *recorder) {
    qf_cuda_action *action = append(recorder, QF_CUDA_MATMUL);
    return action ? &action->matmul : NULL;
}

qf_cuda_action *qf_cuda_add_driver_copy(qf_cuda_recorder *recorder) {
    return append(recorder, QF_CUDA_COPY);
}

void *qf_cuda_scratch(qf_cuda_recorder *recorder, size_t size) {
    uintptr_t address = (uintptr_t)recorder->scratch + recorder->scratch_used;
    recorder->scratch_used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (recorder->scratch_used > recorder->scratch_size) recorder->scratch_size = recorder->scratch_used;
    return (void *)address;
}

void *qf_cuda_zeroed(qf_cuda_recorder *recorder, size_t size) {
    if (size > recorder->zeroed_size) recorder->zeroed_size = size;
    return recorder->zeroed;
}

qf_status qf_cuda_refuse(const qf_kernel_step *step, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(step->call.message, step->call.message_size, format, arguments);
    va_end(arguments);
    return QF_ERROR_UNSUPPORTED;
}

qf_status qf_cuda_wrong(const qf_kernel_step *step, const char *what) {
    (void)snprintf(step->call.message, step->call.message_size, "%s: expected %s", qf_op_name(step->call.op), what);
    return QF_ERROR_INVALID_ARGUMENT;
}

qf_cuda_launch *qf_cuda_add_grid(qf_cuda_recorder *recorder, const char *image, const char *kernel, size_t params_size,
                                 uint64_t items, uint32_t block) {
    qf_cuda_launch *launch = qf_cuda_add_launch(recorder, image, kernel, params_size);
    if (!launch) return NULL;
    uint64_t blocks = (items + block - 1) / block, most = (uint64_t)recorder->processor_count * BLOCKS_PER_PROCESSOR;
    if (most < 1) most = 1;
    launch->grid[0] = (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most);
    launch->block[0] = block;
    launch->dependent = recorder->target >= QF_TARGET_sm_90a;
    return launch;
}
