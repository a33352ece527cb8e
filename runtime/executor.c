/* Owns: the public executor: making, binding, running, reading.
 * Does not own: sizes (prepare.c), memory (memory.c), devices (device.h).
 * Next: executor.h, prepare.c. */
#include "runtime/executor.h"

#include <inttypes.h>
#include <string.h>

qf_position qf_step_position(const qf_executor *executor, uint32_t step) {
    return (qf_position){.location = qf_plan_string(executor->plan, executor->plan->steps[step].location)};
}

static bool tensor_from_view(const qf_view *view, int32_t device_type, qf_tensor *out_tensor) {
    *out_tensor = (qf_tensor){.dtype = view->dtype, .rank = view->rank, .data = view->data, .device_type = device_type};
    memcpy(out_tensor->dims, view->dims, sizeof out_tensor->dims);
    return view->data != NULL;
}

static bool make_room(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    qf_arena *arena = &executor->arena;
    uint32_t longest = 1;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        uint32_t parts = plan->steps[i].operand_count + plan->steps[i].result_count;
        if (parts > longest) longest = parts;
        if (!plan->steps[i].kernel && !executor->cannot_run) executor->cannot_run = i + 1;
    }
    executor->inputs = QF_ARENA_NEW(arena, qf_binding, plan->input_count);
    executor->outputs = QF_ARENA_NEW(arena, qf_binding, plan->output_count);
    executor->parameters = QF_ARENA_NEW(arena, qf_binding, plan->parameter_count);
    executor->host_bound = QF_ARENA_NEW(arena, bool, plan->symbol_count);
    executor->symbols = QF_ARENA_NEW(arena, int64_t, plan->symbol_count);
    executor->values = QF_ARENA_NEW(arena, int64_t, plan->expression_count);
    executor->tensor_bytes = QF_ARENA_NEW(arena, uint64_t, plan->tensor_count);
    executor->addresses = QF_ARENA_NEW(arena, void *, plan->buffer_count);
    executor->slot_sizes = QF_ARENA_NEW(arena, uint64_t, plan->origins[0].slot_count);
    executor->slot_offsets = QF_ARENA_NEW(arena, uint64_t, plan->origins[0].slot_count);
    executor->steps = QF_ARENA_NEW(arena, qf_kernel_step, plan->step_count);
    executor->views = QF_ARENA_NEW(arena, qf_view, plan->reference_count);
    executor->last_uses = QF_ARENA_NEW(arena, uint32_t, plan->reference_count);
    executor->lives = QF_ARENA_NEW(arena, qf_plan_life, plan->buffer_count);
    if (executor->lives) qf_plan_lives(plan, executor->lives);
    executor->attributes = QF_ARENA_NEW(arena, qf_kernel_attribute, plan->attribute_count);
    executor->dim_values = QF_ARENA_NEW(arena, int64_t, plan->dim_count);
    executor->parameter_memory = QF_ARENA_NEW(arena, qf_owned, plan->parameter_count);
    executor->output_memory = QF_ARENA_NEW(arena, qf_owned, plan->output_count);
    executor->observed = QF_ARENA_NEW(arena, qf_tensor, longest);
    return executor->inputs && executor->outputs && executor->parameters && executor->host_bound && executor->symbols &&
           executor->values && executor->tensor_bytes && executor->addresses && executor->slot_sizes &&
           executor->slot_offsets && executor->steps && executor->views && executor->last_uses && executor->lives &&
           executor->attributes && executor->dim_values && executor->parameter_memory && executor->output_memory &&
           executor->observed;
}

static qf_status open_device(qf_executor *executor, const qf_executor_options *options) {
    const char *target_name = qf_plan_target(executor->plan);
    const qf_target_info *target = qf_target_from_name(qf_text_of(target_name));
    if (!executor->device) executor->device = qf_device_find(options->device, target->target);
    if (!executor->device)
        return qf_fail(executor->context, QF_ERROR_DEVICE, NULL, "this build has no device %s %s",
                       options->device ? "named" : "for target", options->device ? options->device : target_name);
    if (!executor->device->runs(target->target))
        return qf_fail(executor->context, QF_ERROR_DEVICE, NULL,
                       "device %s does not run plans for target %s; compile the graph for another target",
                       executor->device->name, target_name);
    qf_device_settings settings = {.target = target->target,
                                   .device_id = options->device_id,
                                   .step_count = executor->plan->step_count,
                                   .time_steps = executor->time_steps,
                                   .stream = options->stream};
    qf_status status = executor->device->create(executor->context, &settings, &executor->device_state);
    executor->device_id = settings.device_id;
    return status;
}

/* The caller's structure may be older, and so shorter, than ours. */
static qf_executor_options read_options(const qf_executor_options *given) {
    qf_executor_options options;
    memset(&options, 0, sizeof options);
    if (given) memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    return options;
}

qf_status qf_executor_create_on(qf_context *context, const qf_plan *plan, const qf_executor_options *options,
                                const qf_device_interface *device, qf_executor **out_executor) {
    *out_executor = NULL;
    qf_executor_options settings = read_options(options);
    qf_executor *executor = qf_allocate(context, sizeof *executor);
    if (!executor) return QF_ERROR_OUT_OF_MEMORY;
    executor->context = context;
    executor->plan = plan;
    executor->device = device;
    executor->arena.context = context;
    executor->thread_count = settings.thread_count ? settings.thread_count : 1;
    executor->check_hashes = settings.check_hashes;
    executor->time_steps = settings.time_steps;
    qf_status status = open_device(executor, &settings);
    if (status == QF_OK) status = qf_weights_open(context, settings.weights_root, &executor->weights);
    if (status == QF_OK && !make_room(executor)) status = QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK)
        *out_executor = executor;
    else
        qf_executor_destroy(executor);
    return status;
}

qf_status qf_executor_create(qf_context *context, const qf_plan *plan, const qf_executor_options *options,
                             qf_executor **out_executor) {
    return qf_executor_create_on(context, plan, options, NULL, out_executor);
}

static void release(qf_executor *executor, qf_owned *memory) {
    executor->device->release(executor->device_state, memory->data, memory->size);
}

void qf_executor_destroy(qf_executor *executor) {
    if (!executor) return;
    if (executor->device_state) {
        for (uint32_t i = 0; executor->parameter_memory && i < executor->plan->parameter_count; i++)
            release(executor, &executor->parameter_memory[i]);
        for (uint32_t i = 0; executor->output_memory && i < executor->plan->output_count; i++)
            release(executor, &executor->output_memory[i]);
        release(executor, &executor->constants);
        release(executor, &executor->workspace);
        executor->device->destroy(executor->device_state);
    }
    qf_weights_close(&executor->weights);
    qf_arena_destroy(&executor->arena);
    qf_release(executor->context, executor, sizeof *executor);
}

/* --- binding --- */

static bool same_memory(const qf_tensor *bound, const qf_tensor *given) {
    return bound->data == given->data && bound->dtype == given->dtype && bound->rank == given->rank &&
           memcmp(bound->dims, given->dims, bound->rank * sizeof *bound->dims) == 0;
}

/* Binding what is bound already changes nothing that was prepared. */
static void bind(qf_executor *executor, qf_binding *binding, const qf_tensor *given) {
    bool same = given ? binding->bound && same_memory(&binding->tensor, given) : !binding->bound;
    *binding = given ? (qf_binding){*given, true} : (qf_binding){{0}, false};
    executor->prepared = executor->prepared && same;
}

/* A captured graph holds addresses and sizes; only what lies behind the addresses may change. */
static qf_status check_frozen(const qf_executor *executor, const char *what, const qf_tensor *bound,
                              const qf_tensor *given) {
    if (!executor->captured || (bound && given && same_memory(bound, given))) return QF_OK;
    return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                   "%s: the plan was captured into a graph, which keeps sizes and addresses; write new lengths, tables "
                   "and scales into the bound memory, or call qf_executor_drop_capture first",
                   what);
}

static qf_status check_tensor(const qf_executor *executor, const char *what, uint32_t name, uint32_t tensor,
                              const qf_tensor *given) {
    const qf_plan_tensor_record *record = qf_plan_tensor_at(executor->plan, tensor);
    const char *text = qf_plan_string(executor->plan, name);
    if (record->rank == QF_UNRANKED)
        return qf_fail(executor->context, QF_ERROR_UNSUPPORTED, NULL,
                       "%s \"%s\" has no known shape; the plan cannot run", what, text);
    if ((uint32_t)given->dtype != record->dtype || given->rank != record->rank)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "%s \"%s\": expected %s of rank %u, found %s of rank %u", what, text,
                       qf_dtype_name((qf_dtype)record->dtype), record->rank, qf_dtype_name(given->dtype), given->rank);
    uint64_t bytes = qf_tensor_bytes(given);
    if (bytes == UINT64_MAX || (bytes && !given->data))
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL, "%s \"%s\": %s", what, text,
                       bytes == UINT64_MAX ? "a dim is negative or too large" : "data is NULL");
    uint32_t width = qf_dtype_bits(given->dtype) / 8;
    if (width > 1 && (uintptr_t)given->data % width)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL, "%s \"%s\": data is not aligned to %u bytes",
                       what, text, width);
    int32_t device_type = given->device_type ? given->device_type : QF_DL_CPU;
    if (device_type != executor->device->device_type)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "%s \"%s\" lies on a device of DLPack type %d, expected type %d", what, text, device_type,
                       executor->device->device_type);
    if (!executor->device->host_memory && given->device_id != executor->device_id)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "%s \"%s\" lies on device %d, the executor runs on device %d", what, text, given->device_id,
                       executor->device_id);
    if (bytes && executor->device->holds && !executor->device->holds(executor->device_state, given->data))
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "%s \"%s\": %p is not memory of device %s; copy the tensor there first", what, text, given->data,
                       executor->device->name);
    return QF_OK;
}

qf_status qf_executor_bind_input(qf_executor *executor, uint32_t index, const qf_tensor *tensor) {
    if (index >= executor->plan->input_count)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL, "input %u, the plan has %u", index,
                       executor->plan->input_count);
    const qf_plan_input_record *input = &executor->plan->inputs[index];
    qf_status status = check_tensor(executor, "input", input->name, input->tensor, tensor);
    if (status == QF_OK) status = check_frozen(executor, "input", &executor->inputs[index].tensor, tensor);
    if (status != QF_OK || executor->captured) return status;
    bind(executor, &executor->inputs[index], tensor);
    return QF_OK;
}

qf_status qf_executor_bind_output(qf_executor *executor, uint32_t index, const qf_tensor *tensor) {
    if (index >= executor->plan->output_count)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL, "output %u, the plan has %u", index,
                       executor->plan->output_count);
    const qf_plan_output_record *output = &executor->plan->outputs[index];
    qf_status status = tensor ? check_tensor(executor, "output", output->name, output->tensor, tensor) : QF_OK;
    if (status == QF_OK) status = check_frozen(executor, "output", &executor->outputs[index].tensor, tensor);
    if (status != QF_OK || executor->captured) return status;
    bind(executor, &executor->outputs[index], tensor);
    return QF_OK;
}

/* Dims of a parameter are constant. */
static qf_status check_parameter_dims(const qf_executor *executor, uint32_t index, const qf_tensor *given) {
    const qf_plan_parameter_record *parameter = &executor->plan->parameters[index];
    const qf_plan_tensor_record *record = qf_plan_tensor_at(executor->plan, parameter->tensor);
    for (uint32_t i = 0; i < record->rank; i++) {
        int64_t dim;
        if (!qf_plan_expression_is_constant(executor->plan, executor->plan->dims[record->first_dim + i].expression,
                                            &dim) ||
            dim != given->dims[i])
            return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                           "parameter \"%s\" axis %u is %" PRId64 ", which is not the plan's",
                           qf_plan_string(executor->plan, parameter->name), i, given->dims[i]);
    }
    return QF_OK;
}

qf_status qf_executor_bind_parameter(qf_executor *executor, const char *name, const qf_tensor *tensor) {
    bool found = false;
    for (uint32_t i = 0; i < executor->plan->parameter_count; i++) {
        const qf_plan_parameter_record *parameter = &executor->plan->parameters[i];
        if (strcmp(qf_plan_string(executor->plan, parameter->name), name) != 0) continue;
        qf_status status = check_tensor(executor, "parameter", parameter->name, parameter->tensor, tensor);
        if (status == QF_OK) status = check_parameter_dims(executor, i, tensor);
        if (status != QF_OK) return status;
        status = check_frozen(executor, "parameter", &executor->parameters[i].tensor, tensor);
        if (status != QF_OK) return status;
        executor->parameters[i] = (qf_binding){*tensor, true};
        found = true;
    }
    if (!executor->captured) executor->prepared = executor->weights_ready = false;
    return found ? QF_OK
                 : qf_fail(executor->context, QF_ERROR_NOT_FOUND, NULL, "the plan has no parameter \"%s\"", name);
}

qf_status qf_executor_bind_symbol(qf_executor *executor, const char *name, int64_t value) {
    for (uint32_t i = 0; i < executor->plan->symbol_count; i++) {
        const qf_plan_symbol_record *symbol = &executor->plan->symbols[i];
        if (strcmp(qf_plan_string(executor->plan, symbol->name), name) != 0) continue;
        if (symbol->kind != QF_PLAN_HOST)
            return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                           "%s follows from the inputs' shapes; it cannot be bound", name);
        if (executor->captured && executor->symbols[i] == value) return QF_OK;
        qf_status status = check_frozen(executor, name, NULL, NULL);
        if (status != QF_OK) return status;
        executor->symbols[i] = value;
        executor->host_bound[i] = true;
        executor->prepared = false;
        return QF_OK;
    }
    return qf_fail(executor->context, QF_ERROR_NOT_FOUND, NULL, "the plan has no size named %s", name);
}

/* --- running --- */

static qf_status observe(qf_executor *executor, uint32_t index) {
    const qf_kernel_call *call = &executor->steps[index].call;
    qf_tensor *results = executor->observed + call->operand_count;
    for (uint32_t i = 0; i < call->operand_count; i++)
        (void)tensor_from_view(&call->operands[i], executor->device->device_type, &executor->observed[i]);
    for (uint32_t i = 0; i < call->result_count; i++)
        (void)tensor_from_view(&call->results[i], executor->device->device_type, &results[i]);
    return executor->observer(executor->observer_user, index, executor->observed, call->operand_count, results,
                              call->result_count);
}

static qf_status run_step(qf_executor *executor, uint32_t index) {
    const qf_kernel_step *step = &executor->steps[index];
    executor->message[0] = '\0';
    executor->device->mark(executor->device_state, index);
    qf_status status = executor->device->launch(executor->device_state, index);
    if (status == QF_OK) return executor->observer ? observe(executor, index) : QF_OK;
    qf_position position = qf_step_position(executor, index);
    return qf_fail(executor->context, status, &position, "step %u (%s, kernel %s): %s", index,
                   qf_op_name(step->call.op), step->row ? step->row->name : "none",
                   executor->message[0] ? executor->message : qf_status_name(status));
}

qf_status qf_executor_prepare(qf_executor *executor) {
    return executor->prepared ? QF_OK : qf_executor_prepare_all(executor);
}

static qf_status run_steps(qf_executor *executor) {
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < executor->plan->step_count; i++) status = run_step(executor, i);
    if (status == QF_OK) executor->device->mark(executor->device_state, executor->plan->step_count);
    return status;
}

qf_status qf_executor_run(qf_executor *executor) {
    if (executor->captured) return executor->device->replay(executor->device_state);
    qf_status status = qf_executor_prepare(executor);
    return status == QF_OK ? run_steps(executor) : status;
}

qf_status qf_executor_capture(qf_executor *executor) {
    if (executor->captured) return QF_OK;
    if (!executor->device->begin_capture)
        return qf_fail(executor->context, QF_ERROR_UNSUPPORTED, NULL, "device %s has no graphs to capture into",
                       executor->device->name);
    if (executor->observer)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "an observed plan cannot be captured: remove the observer first");
    qf_status status = qf_executor_prepare(executor);
    if (status == QF_OK) status = executor->device->begin_capture(executor->device_state);
    if (status != QF_OK) return status;
    status = run_steps(executor);
    qf_status ended = executor->device->end_capture(executor->device_state);
    if (status == QF_OK) status = ended;
    executor->captured = status == QF_OK;
    if (!executor->captured) executor->device->drop_capture(executor->device_state);
    return status;
}

void qf_executor_drop_capture(qf_executor *executor) {
    if (executor->captured) executor->device->drop_capture(executor->device_state);
    executor->captured = false;
}

qf_status qf_executor_wait(qf_executor *executor) {
    return executor->device->wait(executor->device_state);
}

qf_status qf_executor_output(qf_executor *executor, uint32_t index, qf_tensor *out_tensor) {
    *out_tensor = (qf_tensor){0};
    if (index >= executor->plan->output_count)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL, "output %u, the plan has %u", index,
                       executor->plan->output_count);
    if (!executor->prepared)
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "outputs have no shapes before a run: call qf_executor_run first");
    const qf_plan_tensor_record *tensor = qf_plan_tensor_at(executor->plan, executor->plan->outputs[index].tensor);
    out_tensor->dtype = (qf_dtype)tensor->dtype;
    out_tensor->rank = tensor->rank;
    out_tensor->device_type = executor->device->device_type;
    out_tensor->device_id = executor->device_id;
    out_tensor->data = executor->addresses[tensor->buffer - 1];
    for (uint32_t i = 0; i < tensor->rank; i++)
        out_tensor->dims[i] = executor->values[executor->plan->dims[tensor->first_dim + i].expression - 1];
    return QF_OK;
}

void qf_executor_memory_use(const qf_executor *executor, qf_executor_memory *out_memory) {
    size_t size = out_memory->struct_size < sizeof *out_memory ? out_memory->struct_size : sizeof *out_memory;
    qf_executor_memory memory = {.struct_size = size,
                                 .workspace_bytes = executor->workspace.size,
                                 .unshared_bytes = executor->unshared_bytes,
                                 .scratch_bytes = executor->scratch_bytes,
                                 .mapped_bytes = qf_weights_mapped_bytes(&executor->weights)};
    for (uint32_t i = 0; i < executor->plan->output_count; i++) memory.output_bytes += executor->output_memory[i].size;
    memcpy(out_memory, &memory, size);
}

uint64_t qf_executor_step_time(const qf_executor *executor, uint32_t index) {
    return index < executor->plan->step_count ? executor->device->elapsed(executor->device_state, index, index + 1) : 0;
}

void qf_executor_observe(qf_executor *executor, qf_step_observer observer, void *user) {
    if (observer) qf_executor_drop_capture(executor);
    executor->prepared = executor->prepared && !observer == !executor->observer;
    executor->observer = observer;
    executor->observer_user = user;
}
