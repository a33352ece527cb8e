/* Owns: building, freeing and reading a plan; values of its expressions.
 * Does not own: files (read.c, write.c), checks (validate.c), text (print.c).
 * Next: plan.h. */
#include "plan/plan.h"

#include <string.h>

qf_plan *qf_plan_new(qf_context *context) {
    qf_plan *plan = qf_allocate(context, sizeof *plan);
    if (!plan) return NULL;
    plan->context = context;
    if (qf_plan_add_string(plan, QF_TEXT("")) == UINT32_MAX) {
        qf_plan_destroy(plan);
        return NULL;
    }
    return plan;
}

void qf_plan_destroy(qf_plan *plan) {
    if (!plan) return;
    qf_context *context = plan->context;
#define RECORD(section, name, plural, fields) QF_FREE_ITEMS(context, plan->plural, plan->name##_capacity);
#define U32(field)
#define U64(field)
#define I64(field)
#include "plan/records.def"
    QF_FREE_ITEMS(context, plan->strings, plan->string_capacity);
    QF_FREE_ITEMS(context, plan->bytes, plan->byte_capacity);
    QF_FREE_ITEMS(context, plan->weights, plan->weight_capacity);
    qf_release(context, plan, sizeof *plan);
}

#define RECORD(section, name, plural, fields)                                                                          \
    uint32_t qf_plan_add_##name(qf_plan *plan, const qf_plan_##name##_record *record) {                                \
        if (!QF_GROW(plan->context, plan->plural, plan->name##_capacity, (uint64_t)plan->name##_count + 1)) return 0;  \
        plan->plural[plan->name##_count++] = *record;                                                                  \
        return plan->name##_count;                                                                                     \
    }
#define U32(field)
#define U64(field)
#define I64(field)
#include "plan/records.def"

uint32_t qf_plan_add_string(qf_plan *plan, qf_text text) {
    const char *zero = text.size ? memchr(text.data, 0, text.size) : NULL;
    size_t size = zero ? (size_t)(zero - text.data) : text.size;
    if (!size && plan->string_size) return 0;
    if (!QF_GROW(plan->context, plan->strings, plan->string_capacity, (uint64_t)plan->string_size + size + 1))
        return UINT32_MAX;
    uint32_t offset = plan->string_size;
    if (size) memcpy(plan->strings + offset, text.data, size);
    plan->strings[offset + size] = '\0';
    plan->string_size += (uint32_t)size + 1;
    return offset;
}

uint64_t qf_plan_add_bytes(qf_plan *plan, const void *data, uint64_t size) {
    uint64_t offset = ((uint64_t)plan->byte_size + 63) & ~(uint64_t)63;
    if (size > UINT32_MAX || !QF_GROW(plan->context, plan->bytes, plan->byte_capacity, offset + size)) {
        (void)qf_record(plan->context, QF_ERROR_LIMIT);
        return UINT64_MAX;
    }
    memset(plan->bytes + plan->byte_size, 0, (size_t)(offset - plan->byte_size));
    if (size) memcpy(plan->bytes + offset, data, (size_t)size);
    plan->byte_size = (uint32_t)(offset + size);
    return offset;
}

bool qf_plan_evaluate(const qf_plan *plan, uint32_t id, const int64_t *symbols, int64_t *out_value) {
    const qf_plan_expression_record *expression = &plan->expressions[id - 1];
    int64_t sum = 0;
    for (uint32_t i = 0; i < expression->term_count; i++) {
        const qf_plan_term_record *term = &plan->terms[expression->first_term + i];
        int64_t product = term->coefficient;
        for (uint32_t j = 0; j < term->factor_count; j++)
            if (__builtin_mul_overflow(product, symbols[plan->factors[term->first_factor + j].symbol - 1], &product))
                return false;
        if (__builtin_add_overflow(sum, product, &sum)) return false;
    }
    *out_value = sum;
    return true;
}

bool qf_plan_expression_is_constant(const qf_plan *plan, uint32_t id, int64_t *out_value) {
    const qf_plan_expression_record *expression = &plan->expressions[id - 1];
    for (uint32_t i = 0; i < expression->term_count; i++)
        if (plan->terms[expression->first_term + i].factor_count) return false;
    return qf_plan_evaluate(plan, id, NULL, out_value);
}

static void touch(const qf_plan *plan, qf_plan_life *lives, uint32_t tensor, uint32_t step, bool writes) {
    uint32_t buffer = tensor ? qf_plan_tensor_at(plan, tensor)->buffer : 0;
    if (!buffer) return;
    qf_plan_life *life = &lives[buffer - 1];
    if (writes && step < life->first_write) life->first_write = step;
    if (life->last_use == UINT32_MAX || step > life->last_use) life->last_use = step;
}

void qf_plan_lives(const qf_plan *plan, qf_plan_life *lives) {
    for (uint32_t i = 0; i < plan->buffer_count; i++) lives[i] = (qf_plan_life){UINT32_MAX, UINT32_MAX};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const qf_plan_step_record *step = &plan->steps[i];
        for (uint32_t j = 0; j < step->operand_count; j++)
            touch(plan, lives, plan->references[step->first_operand + j].tensor, i, false);
        for (uint32_t j = 0; j < step->result_count; j++)
            touch(plan, lives, plan->references[step->first_result + j].tensor, i, true);
    }
}

/* --- public reading --- */

qf_fingerprint qf_plan_fingerprint(const qf_plan *plan) {
    return plan->fingerprint;
}

const char *qf_plan_target(const qf_plan *plan) {
    return plan->origin_count ? qf_plan_string(plan, plan->origins[0].target) : "";
}

uint32_t qf_plan_input_count(const qf_plan *plan) {
    return plan->input_count;
}

uint32_t qf_plan_output_count(const qf_plan *plan) {
    return plan->output_count;
}

uint32_t qf_plan_parameter_count(const qf_plan *plan) {
    return plan->parameter_count;
}

uint32_t qf_plan_symbol_count(const qf_plan *plan) {
    return plan->symbol_count;
}

uint32_t qf_plan_step_count(const qf_plan *plan) {
    return plan->step_count;
}

static void fill_info(const qf_plan *plan, uint32_t name, uint32_t tensor, qf_plan_tensor_info *out) {
    const qf_plan_tensor_record *record = qf_plan_tensor_at(plan, tensor);
    *out = (qf_plan_tensor_info){.name = qf_plan_string(plan, name),
                                 .dtype = (qf_dtype)record->dtype,
                                 .rank = record->rank,
                                 .file = "",
                                 .in_place = -1,
                                 .reason = ""};
    for (uint32_t i = 0; record->rank != QF_UNRANKED && i < record->rank; i++)
        if (!qf_plan_expression_is_constant(plan, plan->dims[record->first_dim + i].expression, &out->dims[i]))
            out->dims[i] = -1;
}

bool qf_plan_input(const qf_plan *plan, uint32_t index, qf_plan_tensor_info *out_info) {
    if (index >= plan->input_count) return false;
    fill_info(plan, plan->inputs[index].name, plan->inputs[index].tensor, out_info);
    return true;
}

bool qf_plan_output(const qf_plan *plan, uint32_t index, qf_plan_tensor_info *out_info) {
    if (index >= plan->output_count) return false;
    const qf_plan_output_record *output = &plan->outputs[index];
    fill_info(plan, output->name, output->tensor, out_info);
    out_info->in_place = (int32_t)output->in_place - 1;
    out_info->reason = qf_plan_string(plan, output->reason);
    return true;
}

bool qf_plan_parameter(const qf_plan *plan, uint32_t index, qf_plan_tensor_info *out_info) {
    if (index >= plan->parameter_count) return false;
    const qf_plan_parameter_record *parameter = &plan->parameters[index];
    fill_info(plan, parameter->name, parameter->tensor, out_info);
    out_info->file = qf_plan_string(plan, parameter->file);
    out_info->offset = parameter->offset;
    out_info->size = parameter->size;
    return true;
}

int32_t qf_plan_find_input(const qf_plan *plan, const char *name) {
    for (uint32_t i = 0; name && i < plan->input_count; i++)
        if (strcmp(qf_plan_string(plan, plan->inputs[i].name), name) == 0) return (int32_t)i;
    return -1;
}

int32_t qf_plan_find_output(const qf_plan *plan, const char *name) {
    for (uint32_t i = 0; name && i < plan->output_count; i++)
        if (strcmp(qf_plan_string(plan, plan->outputs[i].name), name) == 0) return (int32_t)i;
    return -1;
}

const char *qf_plan_symbol(const qf_plan *plan, uint32_t index) {
    return index < plan->symbol_count ? qf_plan_string(plan, plan->symbols[index].name) : "";
}

bool qf_plan_step(const qf_plan *plan, uint32_t index, qf_plan_step_info *out_info) {
    if (index >= plan->step_count) return false;
    const qf_plan_step_record *step = &plan->steps[index];
    const qf_kernel_row *row = qf_kernel_row_of(step->kernel);
    uint32_t first = step->result_count ? plan->references[step->first_result].tensor : 0;
    *out_info = (qf_plan_step_info){.op = (qf_op)step->op,
                                    .tag = step->tag,
                                    .kernel = row ? row->name : "none",
                                    .location = qf_plan_string(plan, step->location),
                                    .result = first ? qf_plan_string(plan, qf_plan_tensor_at(plan, first)->name) : "",
                                    .operand_count = step->operand_count,
                                    .result_count = step->result_count};
    return true;
}
