/* Owns: preparing a plan for emission: sizes, stand-ins for memory, the map from them to arguments.
 * Does not own: recording (devices/emit.c), the text (emit_text.c).
 * Next: emit.h. */
#include "runtime/emit.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* --- sizes --- */

static const qf_emit_size *given_size(const qf_emit_options *options, const char *name) {
    for (uint32_t i = 0; i < options->size_count; i++)
        if (strcmp(options->sizes[i].name, name) == 0) return &options->sizes[i];
    return NULL;
}

static qf_status check_names(const qf_emission *at, const qf_emit_options *options) {
    for (uint32_t i = 0; i < options->size_count; i++) {
        bool known = false;
        for (uint32_t j = 0; j < at->plan->symbol_count; j++)
            known = known || strcmp(qf_plan_string(at->plan, at->plan->symbols[j].name), options->sizes[i].name) == 0;
        if (!known)
            return qf_fail(at->context, QF_ERROR_INVALID_ARGUMENT, NULL, "the plan has no size named %s",
                           options->sizes[i].name);
    }
    return QF_OK;
}

/* Symbols from the options, or from earlier ones; the executor checks them again once inputs have their dims. */
static qf_status set_sizes(qf_emission *at, const qf_emit_options *options) {
    qf_executor *executor = at->executor;
    for (uint32_t i = 0; i < at->plan->symbol_count; i++) {
        const qf_plan_symbol_record *symbol = &at->plan->symbols[i];
        const char *name = qf_plan_string(at->plan, symbol->name);
        if (symbol->kind != QF_PLAN_BOUND && symbol->kind != QF_PLAN_HOST) {
            if (qf_executor_derive(executor, symbol, &executor->symbols[i])) continue;
            return qf_fail(at->context, QF_ERROR_GUARD, NULL, "%s has no value for these sizes", name);
        }
        const qf_emit_size *size = given_size(options, name);
        if (!size)
            return qf_fail(at->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                           "an emitted program has fixed sizes, and %s has none: give it, as in %s=16", name, name);
        executor->symbols[i] = size->value;
        executor->host_bound[i] = true;
    }
    return QF_OK;
}

/* --- stand-ins --- */

static qf_status add_piece(qf_emission *at, const void *address, uint32_t base, uint64_t offset) {
    if (!qf_grow(at->context, (void **)&at->pieces, &at->piece_capacity, at->piece_count + 1, sizeof *at->pieces))
        return QF_ERROR_OUT_OF_MEMORY;
    at->pieces[at->piece_count++] = (qf_emit_piece){(uintptr_t)address, base, offset};
    return QF_OK;
}

bool qf_emission_find(const qf_emission *at, uintptr_t address, uint32_t *out_base, uint64_t *out_offset) {
    /* An empty tensor without memory: nothing is read or written there, and any address of the program will do. */
    if (address >= QF_EMPTY_ADDRESS && address < QF_EMPTY_ADDRESS + QF_EMIT_STEP)
        address = (uintptr_t)at->device->scratch;
    if (address < QF_EMIT_BASE || address >= QF_EMIT_BASE + QF_EMIT_PIECES * QF_EMIT_STEP) return false;
    uintptr_t start = QF_EMIT_BASE + (address - QF_EMIT_BASE) / QF_EMIT_STEP * QF_EMIT_STEP;
    for (uint32_t i = 0; i < at->piece_count; i++)
        if (at->pieces[i].address == start) {
            *out_base = at->pieces[i].base;
            *out_offset = at->pieces[i].offset + (address - start);
            return true;
        }
    return false;
}

static qf_status stand_in(qf_emission *at, uint32_t tensor, uint32_t base, qf_tensor *out) {
    const qf_plan_tensor_record *record = qf_plan_tensor_at(at->plan, tensor);
    *out = (qf_tensor){.dtype = (qf_dtype)record->dtype, .rank = record->rank, .device_type = QF_DL_CUDA};
    if (record->rank == QF_UNRANKED)
        return qf_fail(at->context, QF_ERROR_UNSUPPORTED, NULL, "\"%s\" has no known shape; the plan cannot run",
                       qf_plan_string(at->plan, record->name));
    for (uint32_t i = 0; i < record->rank; i++)
        if (!qf_plan_evaluate(at->plan, at->plan->dims[record->first_dim + i].expression, at->executor->symbols,
                              &out->dims[i]))
            return qf_fail(at->context, QF_ERROR_LIMIT, NULL, "a size overflows");
    out->data = qf_device_emit.allocate(at->device, 1);
    return out->data ? add_piece(at, out->data, base, 0) : QF_ERROR_LIMIT;
}

/* Base pointers of the emitted program: inputs, outputs, weights, then the workspace. */
static qf_status bind_interface(qf_emission *at) {
    const qf_plan *plan = at->plan;
    qf_status status = QF_OK;
    qf_tensor tensor;
    for (uint32_t i = 0; status == QF_OK && i < plan->input_count; i++) {
        status = stand_in(at, plan->inputs[i].tensor, i, &tensor);
        if (status == QF_OK) status = qf_executor_bind_input(at->executor, i, &tensor);
    }
    for (uint32_t i = 0; status == QF_OK && i < plan->output_count; i++) {
        uint32_t in_place = plan->outputs[i].in_place;
        if (in_place)
            tensor = at->executor->inputs[in_place - 1].tensor;
        else
            status = stand_in(at, plan->outputs[i].tensor, plan->input_count + i, &tensor);
        if (status == QF_OK) status = qf_executor_bind_output(at->executor, i, &tensor);
    }
    for (uint32_t i = 0; status == QF_OK && i < plan->parameter_count; i++) {
        status = stand_in(at, plan->parameters[i].tensor, plan->input_count + plan->output_count + i, &tensor);
        if (status == QF_OK)
            status = qf_executor_bind_parameter(at->executor, qf_plan_string(plan, plan->parameters[i].name), &tensor);
    }
    return status;
}

static uint64_t aligned(uint64_t size) {
    return (size + 255) / 256 * 256;
}

/* One workspace: intermediates, scratch, memory that starts as zero, constants. */
static qf_status lay_out_workspace(qf_emission *at) {
    const qf_plan *plan = at->plan;
    uint32_t base = plan->input_count + plan->output_count + plan->parameter_count;
    uint64_t offset = 0;
    qf_status status = add_piece(at, at->executor->workspace.data, base, offset);
    offset += aligned(at->executor->workspace.size);
    if (status == QF_OK) status = add_piece(at, at->device->scratch, base, offset);
    offset += aligned(at->device->scratch_size);
    at->zeroed_offset = offset;
    if (status == QF_OK) status = add_piece(at, at->device->zeroed, base, offset);
    offset += aligned(at->device->zeroed_size);
    at->constants_offset = offset;
    if (status == QF_OK) status = add_piece(at, at->executor->constants.data, base, offset);
    at->workspace_bytes = offset + aligned(plan->byte_size);
    return status;
}

/* --- the public function --- */

static qf_emit_options read_options(const qf_emit_options *given) {
    qf_emit_options options;
    memset(&options, 0, sizeof options);
    if (given) memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    if (!options.name) options.name = "plan";
    return options;
}

static bool is_identifier(const char *name) {
    if (!isalpha((unsigned char)*name) && *name != '_') return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_') return false;
    return true;
}

static qf_status prepare(qf_emission *at, const qf_emit_options *options) {
    qf_executor_options settings = {.struct_size = sizeof settings};
    const qf_target_info *target = qf_target_from_name(qf_text_of(qf_plan_target(at->plan)));
    if (!target || !target->is_gpu)
        return qf_fail(at->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "a plan for %s has no launches to emit; compile the graph for a GPU (sm_80, sm_89, sm_90a, "
                       "sm_100a)",
                       qf_plan_target(at->plan));
    if (!is_identifier(options->name))
        return qf_fail(at->context, QF_ERROR_INVALID_ARGUMENT, NULL, "'%s' is no C identifier", options->name);
    if (options->processor_count > INT32_MAX)
        return qf_fail(at->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "options.processor_count is %u, expected 1 to 2^31 - 1 multiprocessors, or 0",
                       options->processor_count);
    qf_status status = qf_executor_create_on(at->context, at->plan, &settings, &qf_device_emit, &at->executor);
    if (status != QF_OK) return status;
    at->device = at->executor->device_state;
    if (options->processor_count) at->device->processor_count = options->processor_count;
    status = check_names(at, options);
    if (status == QF_OK) status = set_sizes(at, options);
    if (status == QF_OK) status = bind_interface(at);
    if (status == QF_OK) status = qf_executor_prepare(at->executor);
    return status == QF_OK ? lay_out_workspace(at) : status;
}

qf_status qf_plan_emit_c(qf_context *context, const qf_plan *plan, const qf_emit_options *given,
                         qf_write_function write, void *user) {
    qf_emit_options options = read_options(given);
    qf_emission at = {.context = context, .plan = plan, .name = options.name};
    qf_buffer text = {.context = context};
    qf_status status = prepare(&at, &options);
    if (status == QF_OK) qf_emission_print(&at, &text);
    if (status == QF_OK) status = at.status;
    if (status == QF_OK && text.failed) status = QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK) write(user, text.data, text.size);
    qf_buffer_destroy(&text);
    qf_executor_destroy(at.executor);
    QF_FREE_ITEMS(context, at.pieces, at.piece_capacity);
    return status;
}
