/* Owns: addresses of all buffers: weights, constants, workspace by slots, outputs; refusal of overlapping bindings.
 * Does not own: sizes (prepare.c).
 * Next: executor.h. */
#include <inttypes.h>
#include <string.h>

#include "runtime/executor.h"

#define SLOT_ALIGNMENT 256

static qf_status refuse_in_capture(const qf_executor *executor) {
    if (!executor->device->in_capture || !executor->device->in_capture(executor->device_state)) return QF_OK;
    return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                   "the stream is being captured: this run needs memory on the device first: run the plan with these "
                   "sizes, or call qf_executor_prepare before the capture");
}

static qf_status grow(qf_executor *executor, qf_owned *memory, uint64_t size) {
    if (size <= memory->size) return QF_OK;
    qf_status status = refuse_in_capture(executor);
    if (status != QF_OK) return status;
    if (size > SIZE_MAX / 2)
        return qf_fail(executor->context, QF_ERROR_LIMIT, NULL, "%" PRIu64 " bytes cannot be addressed", size);
    executor->device->release(executor->device_state, memory->data, memory->size);
    *memory = (qf_owned){0};
    memory->data = executor->device->allocate(executor->device_state, (size_t)size);
    if (!memory->data)
        return qf_fail(executor->context, QF_ERROR_OUT_OF_MEMORY, NULL,
                       "the device has no %" PRIu64 " bytes left for this run", size);
    memory->size = (size_t)size;
    return QF_OK;
}

static bool aligned(const void *data, uint32_t dtype) {
    uint32_t width = qf_dtype_bits((qf_dtype)dtype) / 8;
    return width < 2 || (uintptr_t)data % width == 0;
}

/* Host bytes of a parameter: bound by name, remembered by the compiler, or mapped. */
static qf_status find_parameter(qf_executor *executor, uint32_t index, const void **out_data) {
    const qf_plan *plan = executor->plan;
    const qf_plan_parameter_record *parameter = &plan->parameters[index];
    const char *name = qf_plan_string(plan, parameter->name);
    qf_position position = {.location = name};
    if (index < plan->weight_capacity && plan->weights[index].data) {
        if (plan->weights[index].size < parameter->size)
            return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, &position,
                           "parameter \"%s\" takes %" PRIu64 " bytes, the host's memory has %" PRIu64, name,
                           parameter->size, plan->weights[index].size);
        *out_data = plan->weights[index].data;
        return QF_OK;
    }
    qf_status status = qf_weights_find(&executor->weights, name, qf_plan_string(plan, parameter->file),
                                       parameter->offset, parameter->size, out_data);
    if (status != QF_OK || !executor->check_hashes || !parameter->hash) return status;
    if ((uint64_t)parameter->hash == qf_hash_bytes(*out_data, (size_t)parameter->size, 0)) return QF_OK;
    return qf_fail(executor->context, QF_ERROR_VERIFY, &position,
                   "the bytes of parameter \"%s\" changed since the plan was made", name);
}

static qf_status place_parameter(qf_executor *executor, uint32_t index, void **out_address) {
    const qf_plan_parameter_record *parameter = &executor->plan->parameters[index];
    if (executor->parameters[index].bound) {
        *out_address = executor->parameters[index].tensor.data;
        return QF_OK;
    }
    const void *data = NULL;
    qf_status status = find_parameter(executor, index, &data);
    if (status != QF_OK) return status;
    if (executor->device->host_memory && aligned(data, qf_plan_tensor_at(executor->plan, parameter->tensor)->dtype)) {
        *out_address = (void *)(uintptr_t)data; /* validated: no step writes to a parameter */
        return QF_OK;
    }
    qf_owned *copy = &executor->parameter_memory[index];
    status = grow(executor, copy, parameter->size ? parameter->size : 1);
    *out_address = copy->data;
    return status == QF_OK ? executor->device->upload(executor->device_state, copy->data, data, (size_t)parameter->size)
                           : status;
}

/* Addresses that do not depend on sizes; after this only bindings by name change them. */
static qf_status place_weights(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    if (executor->weights_ready) return QF_OK;
    qf_status status = refuse_in_capture(executor);
    if (status != QF_OK) return status;
    if (!executor->device->host_memory && plan->byte_size) {
        status = grow(executor, &executor->constants, plan->byte_size);
        if (status == QF_OK)
            status = executor->device->upload(executor->device_state, executor->constants.data, plan->bytes,
                                              plan->byte_size);
        if (status != QF_OK) return status;
    }
    unsigned char *bytes = executor->device->host_memory ? plan->bytes : executor->constants.data;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const qf_plan_buffer_record *buffer = &plan->buffers[i];
        if (buffer->kind == QF_PLAN_CONSTANT)
            executor->addresses[i] = bytes ? bytes + plan->constants[buffer->index].offset : NULL;
        if (buffer->kind != QF_PLAN_PARAMETER) continue;
        status = place_parameter(executor, buffer->index, &executor->addresses[i]);
        if (status != QF_OK) return status;
    }
    executor->weights_ready = true;
    return QF_OK;
}

static qf_status place_workspace(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    uint32_t slots = plan->origins[0].slot_count;
    for (uint32_t i = 0; i < slots; i++) executor->slot_sizes[i] = 0;
    executor->unshared_bytes = 0;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const qf_plan_buffer_record *buffer = &plan->buffers[i];
        if (buffer->kind != QF_PLAN_WORKSPACE) continue;
        uint64_t bytes = executor->tensor_bytes[buffer->tensor - 1];
        executor->unshared_bytes += bytes;
        if (bytes > executor->slot_sizes[buffer->index]) executor->slot_sizes[buffer->index] = bytes;
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < slots; i++) {
        executor->slot_offsets[i] = total;
        if (executor->slot_sizes[i] > SIZE_MAX / 4 - total)
            return qf_fail(executor->context, QF_ERROR_LIMIT, NULL, "the workspace does not fit the address space");
        total += (executor->slot_sizes[i] + SLOT_ALIGNMENT - 1) & ~(uint64_t)(SLOT_ALIGNMENT - 1);
    }
    qf_status status = grow(executor, &executor->workspace, total);
    for (uint32_t i = 0; status == QF_OK && i < plan->buffer_count; i++)
        if (plan->buffers[i].kind == QF_PLAN_WORKSPACE)
            executor->addresses[i] = executor->workspace.data ? (char *)executor->workspace.data +
                                                                    executor->slot_offsets[plan->buffers[i].index]
                                                              : NULL;
    return status;
}

static qf_status place_interface(qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const qf_plan_buffer_record *buffer = &plan->buffers[i];
        if (buffer->kind == QF_PLAN_INPUT) executor->addresses[i] = executor->inputs[buffer->index].tensor.data;
        if (buffer->kind != QF_PLAN_OUTPUT) continue;
        if (executor->outputs[buffer->index].bound) {
            executor->addresses[i] = executor->outputs[buffer->index].tensor.data;
            continue;
        }
        qf_owned *memory = &executor->output_memory[buffer->index];
        uint64_t bytes = executor->tensor_bytes[buffer->tensor - 1];
        qf_status status = grow(executor, memory, bytes ? bytes : 1);
        if (status != QF_OK) return status;
        executor->addresses[i] = memory->data;
    }
    return QF_OK;
}

static bool overlap(const void *a, uint64_t a_size, const void *b, uint64_t b_size) {
    uintptr_t left = (uintptr_t)a, right = (uintptr_t)b;
    return a_size && b_size && left < right + b_size && right < left + a_size;
}

/* Output `output` may share memory with an input only if the plan proved it and both are the same bytes. */
static qf_status check_against_inputs(const qf_executor *executor, uint32_t output, const void *data, uint64_t size) {
    const qf_plan *plan = executor->plan;
    const qf_plan_output_record *record = &plan->outputs[output];
    for (uint32_t i = 0; i < plan->input_count; i++) {
        const qf_tensor *input = &executor->inputs[i].tensor;
        uint64_t input_size = executor->tensor_bytes[plan->inputs[i].tensor - 1];
        if (!overlap(data, size, input->data, input_size)) continue;
        if (record->in_place == i + 1 && data == input->data && size == input_size) continue;
        const char *reason =
            record->reason ? qf_plan_string(plan, record->reason) : "the plan does not update that input in place";
        return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "output %u \"%s\" lies in the memory of input %u \"%s\": %s; bind memory of its own", output,
                       qf_plan_string(plan, record->name), i, qf_plan_string(plan, plan->inputs[i].name),
                       record->in_place == i + 1 ? "the two are not the same bytes" : reason);
    }
    return QF_OK;
}

static qf_status check_overlaps(const qf_executor *executor) {
    const qf_plan *plan = executor->plan;
    for (uint32_t i = 0; i < plan->output_count; i++) {
        if (!executor->outputs[i].bound) continue;
        const void *data = executor->outputs[i].tensor.data;
        uint64_t size = executor->tensor_bytes[plan->outputs[i].tensor - 1];
        qf_status status = check_against_inputs(executor, i, data, size);
        if (status != QF_OK) return status;
        for (uint32_t j = 0; j < i; j++)
            if (executor->outputs[j].bound && overlap(data, size, executor->outputs[j].tensor.data,
                                                      executor->tensor_bytes[plan->outputs[j].tensor - 1]))
                return qf_fail(executor->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                               "outputs %u and %u are bound to the same memory", j, i);
    }
    return QF_OK;
}

qf_status qf_executor_place(qf_executor *executor) {
    qf_status status = check_overlaps(executor);
    if (status == QF_OK) status = place_weights(executor);
    if (status == QF_OK) status = place_workspace(executor);
    if (status == QF_OK) status = place_interface(executor);
    return status;
}
