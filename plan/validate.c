/* Owns: what makes a plan valid, apart from sizes: ranges, tables, symbol order, memory lives, in-place claims.
 * Does not own: reading files (read.c), checks that need sizes (runtime/prepare.c).
 * Next: records.def. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

typedef struct checker {
    qf_context *context;
    const qf_plan *plan;
    qf_position position;
    uint32_t target;
    uint32_t *highest;   /* of an expression: its highest symbol id */
    qf_plan_life *lives; /* of buffers */
    uint32_t *busy;      /* of slots: 1 + the last step of its tenant */
    bool *written;       /* of buffers */
} checker;

static bool bad(checker *check, const char *section, uint32_t index, const char *format, ...) QF_PRINTF(4, 5);
static bool bad(checker *check, const char *section, uint32_t index, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)qf_fail(check->context, QF_ERROR_VERIFY, &check->position, "%s[%u]: %s", section, index, text);
    return false;
}

#define IN_RANGE(first, used, total) ((uint64_t)(first) + (used) <= (total))

static bool string_ok(checker *check, const char *section, uint32_t index, uint32_t offset) {
    if (offset < check->plan->string_size) return true;
    return bad(check, section, index, "string at %u, expected below %u", offset, check->plan->string_size);
}

static bool expression_ok(checker *check, const char *section, uint32_t index, uint64_t id, bool optional) {
    if (id <= check->plan->expression_count && (id || optional)) return true;
    return bad(check, section, index, "expression %" PRIu64 ", expected %d to %u", id, !optional,
               check->plan->expression_count);
}

/* Parts tile their array, so that no two records share them and work stays linear in the file. */
static bool tiles(checker *check, const char *section, uint32_t index, uint32_t *next, uint32_t first, uint32_t count,
                  uint32_t total) {
    if (first != *next || !IN_RANGE(first, count, total))
        return bad(check, section, index, "parts %u and %u more, expected to start at %u and to end by %u", first,
                   count, *next, total);
    *next = first + count;
    return true;
}

static bool check_expressions(checker *check) {
    const qf_plan *plan = check->plan;
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->factor_count; i++)
        if (!plan->factors[i].symbol || plan->factors[i].symbol > plan->symbol_count)
            return bad(check, "factors", i, "symbol %u, expected 1 to %u", plan->factors[i].symbol, plan->symbol_count);
    for (uint32_t i = 0; i < plan->term_count; i++) {
        if (plan->terms[i].factor_count > QF_PLAN_MAX_FACTORS)
            return bad(check, "terms", i, "%u factors, expected at most %d", plan->terms[i].factor_count,
                       QF_PLAN_MAX_FACTORS);
        if (!tiles(check, "terms", i, &next, plan->terms[i].first_factor, plan->terms[i].factor_count,
                   plan->factor_count))
            return false;
    }
    next = 0;
    for (uint32_t i = 0; i < plan->expression_count; i++) {
        const qf_plan_expression_record *expression = &plan->expressions[i];
        if (expression->term_count > QF_PLAN_MAX_TERMS)
            return bad(check, "expressions", i, "%u terms, expected at most %d", expression->term_count,
                       QF_PLAN_MAX_TERMS);
        if (!tiles(check, "expressions", i, &next, expression->first_term, expression->term_count, plan->term_count))
            return false;
        for (uint32_t j = 0; j < expression->term_count; j++) {
            const qf_plan_term_record *term = &plan->terms[expression->first_term + j];
            for (uint32_t k = 0; k < term->factor_count; k++) {
                uint32_t symbol = plan->factors[term->first_factor + k].symbol;
                if (symbol > check->highest[i]) check->highest[i] = symbol;
            }
        }
    }
    return true;
}

static bool earlier(checker *check, uint32_t symbol, uint32_t expression) {
    if (!expression || check->highest[expression - 1] <= symbol) return true;
    return bad(check, "symbols", symbol, "depends on symbol %u, expected earlier ones only",
               check->highest[expression - 1]);
}

static bool check_symbols(checker *check) {
    const qf_plan *plan = check->plan;
    for (uint32_t i = 0; i < plan->symbol_count; i++) {
        const qf_plan_symbol_record *symbol = &plan->symbols[i];
        bool derived = symbol->kind >= QF_PLAN_FLOOR_DIVIDE;
        if (symbol->kind >= QF_PLAN_SYMBOL_KIND_COUNT)
            return bad(check, "symbols", i, "kind %u is not known", symbol->kind);
        if (!string_ok(check, "symbols", i, symbol->name) || !expression_ok(check, "symbols", i, symbol->a, !derived) ||
            !expression_ok(check, "symbols", i, symbol->b, !derived) || !earlier(check, i, symbol->a) ||
            !earlier(check, i, symbol->b))
            return false;
        if (symbol->minimum > symbol->maximum || symbol->divisor < 1)
            return bad(check, "symbols", i, "minimum %" PRId64 ", maximum %" PRId64 ", divisor %" PRId64 " cannot hold",
                       symbol->minimum, symbol->maximum, symbol->divisor);
        if (symbol->kind != QF_PLAN_BOUND) continue;
        if (symbol->input >= plan->input_count)
            return bad(check, "symbols", i, "input %u, expected below %u", symbol->input, plan->input_count);
        const qf_plan_tensor_record *tensor = qf_plan_tensor_at(plan, plan->inputs[symbol->input].tensor);
        if (tensor->rank == QF_UNRANKED || symbol->axis >= tensor->rank)
            return bad(check, "symbols", i, "axis %u of input %u, which has rank %u", symbol->axis, symbol->input,
                       tensor->rank);
    }
    return true;
}

static bool check_tensors(checker *check) {
    const qf_plan *plan = check->plan;
    for (uint32_t i = 0; i < plan->dim_count; i++)
        if (!expression_ok(check, "dims", i, plan->dims[i].expression, false)) return false;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const qf_plan_tensor_record *tensor = &plan->tensors[i];
        bool ranked = tensor->rank != QF_UNRANKED;
        if (tensor->dtype >= QF_DTYPE_COUNT || (ranked && tensor->dtype == QF_DTYPE_NONE))
            return bad(check, "tensors", i, "dtype %u is not known", tensor->dtype);
        if (ranked && tensor->rank > QF_MAX_RANK)
            return bad(check, "tensors", i, "rank %u, expected at most %d", tensor->rank, QF_MAX_RANK);
        if (ranked && !IN_RANGE(tensor->first_dim, tensor->rank, plan->dim_count))
            return bad(check, "tensors", i, "dims from %u, expected below %u", tensor->first_dim, plan->dim_count);
        if (!tensor->buffer || tensor->buffer > plan->buffer_count)
            return bad(check, "tensors", i, "buffer %u, expected 1 to %u", tensor->buffer, plan->buffer_count);
        if (!expression_ok(check, "tensors", i, tensor->offset, true) || !string_ok(check, "tensors", i, tensor->name))
            return false;
        bool nowhere = !ranked || tensor->dtype == QF_TOKEN;
        if (nowhere != (qf_plan_buffer_at(plan, tensor->buffer)->kind == QF_PLAN_NOWHERE))
            return bad(check, "tensors", i, "a tensor of %s stands in a buffer of kind %u",
                       nowhere ? "unknown size" : "known shape", qf_plan_buffer_at(plan, tensor->buffer)->kind);
    }
    return true;
}

/* The tensor that the owner of a buffer (an input, ...) names, 0 where the index is out of range or there is no owner.
 */
static uint32_t owner_tensor(const qf_plan *plan, const qf_plan_buffer_record *buffer) {
    switch ((qf_plan_buffer_kind)buffer->kind) {
    case QF_PLAN_INPUT: return buffer->index < plan->input_count ? plan->inputs[buffer->index].tensor : 0;
    case QF_PLAN_OUTPUT: return buffer->index < plan->output_count ? plan->outputs[buffer->index].tensor : 0;
    case QF_PLAN_PARAMETER: return buffer->index < plan->parameter_count ? plan->parameters[buffer->index].tensor : 0;
    case QF_PLAN_CONSTANT: return buffer->index < plan->constant_count ? buffer->tensor : 0;
    case QF_PLAN_WORKSPACE: return buffer->index < plan->origins[0].slot_count ? buffer->tensor : 0;
    default: return buffer->tensor;
    }
}

static bool check_buffers(checker *check) {
    const qf_plan *plan = check->plan;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const qf_plan_buffer_record *buffer = &plan->buffers[i];
        if (buffer->kind >= QF_PLAN_BUFFER_KIND_COUNT)
            return bad(check, "buffers", i, "kind %u is not known", buffer->kind);
        if (!buffer->tensor || buffer->tensor > plan->tensor_count)
            return bad(check, "buffers", i, "tensor %u, expected 1 to %u", buffer->tensor, plan->tensor_count);
        const qf_plan_tensor_record *tensor = qf_plan_tensor_at(plan, buffer->tensor);
        if (tensor->buffer != i + 1 || tensor->offset)
            return bad(check, "buffers", i, "tensor %u does not span it", buffer->tensor);
        if (owner_tensor(plan, buffer) != buffer->tensor)
            return bad(check, "buffers", i, "index %u is out of range, or its owner has another tensor", buffer->index);
    }
    return true;
}

static bool place_ok(checker *check, const char *section, uint32_t index, uint32_t tensor, qf_plan_buffer_kind kind) {
    const qf_plan *plan = check->plan;
    if (!tensor || tensor > plan->tensor_count)
        return bad(check, section, index, "tensor %u, expected 1 to %u", tensor, plan->tensor_count);
    uint32_t id = qf_plan_tensor_at(plan, tensor)->buffer;
    if (!id || id > plan->buffer_count)
        return bad(check, section, index, "buffer %u, expected 1 to %u", id, plan->buffer_count);
    const qf_plan_buffer_record *buffer = qf_plan_buffer_at(plan, id);
    if (buffer->kind == QF_PLAN_NOWHERE && (kind == QF_PLAN_INPUT || kind == QF_PLAN_OUTPUT)) return true;
    if (buffer->kind != (uint32_t)kind || buffer->index != index || buffer->tensor != tensor)
        return bad(check, section, index, "tensor %u lies in a buffer that is not its own", tensor);
    return true;
}

/* Bytes of a tensor whose dims are all constant; UINT64_MAX otherwise. */
static uint64_t static_bytes(const qf_plan *plan, uint32_t id) {
    const qf_plan_tensor_record *tensor = qf_plan_tensor_at(plan, id);
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int64_t dim;
        if (!qf_plan_expression_is_constant(plan, plan->dims[tensor->first_dim + i].expression, &dim) || dim < 0 ||
            __builtin_mul_overflow(count, (uint64_t)dim, &count))
            return UINT64_MAX;
    }
    return qf_dtype_bytes((qf_dtype)tensor->dtype, count);
}

static bool check_interface(checker *check) {
    const qf_plan *plan = check->plan;
    for (uint32_t i = 0; i < plan->input_count; i++)
        if (!string_ok(check, "inputs", i, plan->inputs[i].name) ||
            !place_ok(check, "inputs", i, plan->inputs[i].tensor, QF_PLAN_INPUT))
            return false;
    for (uint32_t i = 0; i < plan->output_count; i++) {
        const qf_plan_output_record *output = &plan->outputs[i];
        if (!string_ok(check, "outputs", i, output->name) || !string_ok(check, "outputs", i, output->reason) ||
            !place_ok(check, "outputs", i, output->tensor, QF_PLAN_OUTPUT))
            return false;
        if (output->in_place > plan->input_count)
            return bad(check, "outputs", i, "in place of input %u of %u", output->in_place - 1, plan->input_count);
    }
    for (uint32_t i = 0; i < plan->parameter_count; i++) {
        const qf_plan_parameter_record *parameter = &plan->parameters[i];
        if (!string_ok(check, "parameters", i, parameter->name) ||
            !string_ok(check, "parameters", i, parameter->file) ||
            !place_ok(check, "parameters", i, parameter->tensor, QF_PLAN_PARAMETER))
            return false;
        if (static_bytes(plan, parameter->tensor) != parameter->size || parameter->size == UINT64_MAX ||
            parameter->offset > INT64_MAX - parameter->size)
            return bad(check, "parameters", i, "%" PRIu64 " bytes at %" PRIu64 " do not fit its shape", parameter->size,
                       parameter->offset);
    }
    for (uint32_t i = 0; i < plan->constant_count; i++)
        if (plan->constants[i].offset > plan->byte_size ||
            plan->constants[i].size > plan->byte_size - plan->constants[i].offset || plan->constants[i].offset % 64)
            return bad(check, "constants", i,
                       "%" PRIu64 " bytes at %" PRIu64 ", expected inside of %u and aligned to 64",
                       plan->constants[i].size, plan->constants[i].offset, plan->byte_size);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const qf_plan_buffer_record *buffer = &plan->buffers[i];
        if (buffer->kind == QF_PLAN_CONSTANT &&
            static_bytes(plan, buffer->tensor) != plan->constants[buffer->index].size)
            return bad(check, "buffers", i, "constant %u has %" PRIu64 " bytes, which do not fit its shape",
                       buffer->index, plan->constants[buffer->index].size);
    }
    return true;
}

static bool attribute_ok(checker *check, uint32_t index, const qf_attribute_info *info) {
    const qf_plan *plan = check->plan;
    const qf_plan_attribute_record *attribute = &plan->attributes[index];
    uint64_t value = (uint64_t)attribute->value;
    if (attribute->kind != (uint32_t)info->kind)
        return bad(check, "attributes", index, "%s has kind %u, expected %d", info->name, attribute->kind,
                   (int)info->kind);
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL:
        if (value <= 1) return true;
        break;
    case QF_ATTRIBUTE_INT:
    case QF_ATTRIBUTE_FLOAT: return true;
    case QF_ATTRIBUTE_DTYPE:
        if (value < QF_DTYPE_COUNT) return true;
        break;
    case QF_ATTRIBUTE_ENUM:
        if (qf_enum_name(info->enumeration, attribute->value)) return true;
        break;
    case QF_ATTRIBUTE_DIM: return expression_ok(check, "attributes", index, value, false);
    case QF_ATTRIBUTE_DIMS:
        if (value <= plan->dim_count && attribute->count <= plan->dim_count - value) return true;
        break;
    case QF_ATTRIBUTE_INTS:
        if (value <= plan->integer_count && attribute->count <= plan->integer_count - value) return true;
        break;
    case QF_ATTRIBUTE_STRING:
        if (value < plan->string_size) return true;
        break;
    case QF_ATTRIBUTE_LITERAL: break;
    }
    return bad(check, "attributes", index, "%s has value %" PRId64 " (%u), which its kind does not allow", info->name,
               attribute->value, attribute->count);
}

static bool counts_ok(checker *check, uint32_t index, const qf_op_info *info) {
    const qf_plan_step_record *step = &check->plan->steps[index];
    bool many = info->operand_count && info->operands[info->operand_count - 1].kind == QF_OPERAND_MANY;
    bool several = info->result_count && info->results[info->result_count - 1].kind == QF_RESULT_SEVERAL;
    uint32_t least_results = 0;
    for (uint32_t i = 0; i < info->result_count; i++) least_results += info->results[i].kind == QF_RESULT_REQUIRED;
    if (step->operand_count < info->required_operands || (step->operand_count > info->operand_count && !many))
        return bad(check, "steps", index, "%s has %u operands, expected %u to %u", info->name, step->operand_count,
                   info->required_operands, info->operand_count);
    if (step->result_count < least_results || (step->result_count > info->result_count && !several))
        return bad(check, "steps", index, "%s has %u results, expected %u to %u", info->name, step->result_count,
                   least_results, info->result_count);
    if (step->attribute_count != info->attribute_count)
        return bad(check, "steps", index, "%s has %u attributes, expected %u", info->name, step->attribute_count,
                   info->attribute_count);
    return true;
}

static bool references_ok(checker *check, uint32_t index, const qf_op_info *info) {
    const qf_plan *plan = check->plan;
    const qf_plan_step_record *step = &plan->steps[index];
    for (uint32_t i = 0; i < step->operand_count + step->result_count; i++) {
        bool result = i >= step->operand_count;
        uint32_t column = result ? i - step->operand_count : i;
        uint32_t tensor = plan->references[(result ? step->first_result : step->first_operand) + column].tensor;
        if (tensor > plan->tensor_count)
            return bad(check, "steps", index, "tensor %u, expected at most %u", tensor, plan->tensor_count);
        bool optional = result ? column < info->result_count && info->results[column].kind == QF_RESULT_OPTIONAL
                               : column < info->operand_count && info->operands[column].kind == QF_OPERAND_OPTIONAL;
        if (!tensor && !optional)
            return bad(check, "steps", index, "%s lacks %s %u", info->name, result ? "result" : "operand", column);
        if (!tensor) continue;
        uint32_t kind = qf_plan_buffer_at(plan, qf_plan_tensor_at(plan, tensor)->buffer)->kind;
        if (result && (kind == QF_PLAN_INPUT || kind == QF_PLAN_PARAMETER || kind == QF_PLAN_CONSTANT))
            return bad(check, "steps", index, "%s writes to memory that is only read", info->name);
        if (step->kernel && kind == QF_PLAN_NOWHERE)
            return bad(check, "steps", index, "%s has a kernel and a value of unknown size", info->name);
    }
    return true;
}

static bool check_steps(checker *check) {
    const qf_plan *plan = check->plan;
    uint32_t next_reference = 0, next_attribute = 0;
    uint64_t dims = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const qf_plan_step_record *step = &plan->steps[i];
        const qf_op_info *info = qf_op_info_of((qf_op)step->op);
        if (step->op > INT32_MAX || !info || step->op == QF_OP_return || step->op == QF_OP_constant ||
            step->op == QF_OP_parameter)
            return bad(check, "steps", i, "op %u is no step", step->op);
        const qf_kernel_row *row = qf_kernel_row_of(step->kernel);
        if (step->kernel && (!row || row->op != info->op || !(row->targets >> check->target & 1u)))
            return bad(check, "steps", i, "kernel %u does not run %s on this target", step->kernel, info->name);
        if (!counts_ok(check, i, info) ||
            !tiles(check, "steps", i, &next_reference, step->first_operand, step->operand_count,
                   plan->reference_count) ||
            !tiles(check, "steps", i, &next_reference, step->first_result, step->result_count, plan->reference_count) ||
            !tiles(check, "steps", i, &next_attribute, step->first_attribute, step->attribute_count,
                   plan->attribute_count) ||
            !references_ok(check, i, info) || !string_ok(check, "steps", i, step->location) ||
            !string_ok(check, "steps", i, step->note))
            return false;
        for (uint32_t j = 0; j < step->attribute_count; j++) {
            if (!attribute_ok(check, step->first_attribute + j, &info->attributes[j])) return false;
            if (info->attributes[j].kind == QF_ATTRIBUTE_DIMS)
                dims += plan->attributes[step->first_attribute + j].count;
        }
    }
    if (dims > plan->dim_count) return bad(check, "attributes", 0, "lists of dims share elements");
    return true;
}

static uint32_t buffer_of(const qf_plan *plan, uint32_t first, uint32_t column) {
    uint32_t tensor = plan->references[first + column].tensor;
    return tensor ? qf_plan_tensor_at(plan, tensor)->buffer : 0;
}

static bool same_extent(const qf_plan *plan, uint32_t left, uint32_t right) {
    const qf_plan_tensor_record *a = qf_plan_tensor_at(plan, left), *b = qf_plan_tensor_at(plan, right);
    if (a->dtype != b->dtype || a->rank != b->rank || a->rank == QF_UNRANKED || a->offset != b->offset) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (plan->dims[a->first_dim + i].expression != plan->dims[b->first_dim + i].expression) return false;
    return true;
}

/* Result `column` may share `buffer` with the operand that the table names, alone and with the same extent. */
static bool shares_rightly(checker *check, uint32_t index, uint32_t column, uint32_t buffer) {
    const qf_plan *plan = check->plan;
    const qf_plan_step_record *step = &plan->steps[index];
    int32_t allowed = qf_kernel_in_place_operand((qf_op)step->op, column);
    for (uint32_t i = 0; i < step->operand_count; i++) {
        if (buffer_of(plan, step->first_operand, i) != buffer) continue;
        if ((int32_t)i != allowed || !same_extent(plan, plan->references[step->first_operand + i].tensor,
                                                  plan->references[step->first_result + column].tensor))
            return bad(check, "steps", index, "result %u lies in the memory of operand %u", column, i);
    }
    for (uint32_t i = 0; i < column; i++)
        if (buffer_of(plan, step->first_result, i) == buffer)
            return bad(check, "steps", index, "results %u and %u share a buffer", i, column);
    return true;
}

static bool check_flow_of(checker *check, uint32_t index) {
    const qf_plan *plan = check->plan;
    const qf_plan_step_record *step = &plan->steps[index];
    for (uint32_t i = 0; i < step->operand_count; i++) {
        uint32_t buffer = buffer_of(plan, step->first_operand, i);
        uint32_t kind = buffer ? qf_plan_buffer_at(plan, buffer)->kind : QF_PLAN_INPUT;
        if ((kind == QF_PLAN_WORKSPACE || kind == QF_PLAN_OUTPUT) && !check->written[buffer - 1])
            return bad(check, "steps", index, "operand %u is read before it is written", i);
    }
    for (uint32_t i = 0; i < step->result_count; i++) {
        uint32_t buffer = buffer_of(plan, step->first_result, i);
        if (!buffer || qf_plan_buffer_at(plan, buffer)->kind == QF_PLAN_NOWHERE) continue;
        if (!shares_rightly(check, index, i, buffer)) return false;
        if (qf_plan_buffer_at(plan, buffer)->kind == QF_PLAN_WORKSPACE && !check->written[buffer - 1]) {
            uint32_t slot = qf_plan_buffer_at(plan, buffer)->index;
            if (check->busy[slot] > index)
                return bad(check, "steps", index, "result %u moves into slot %u, whose tenant is used until step %u", i,
                           slot, check->busy[slot] - 1);
            check->busy[slot] = check->lives[buffer - 1].last_use + 1;
        }
        check->written[buffer - 1] = true;
    }
    return true;
}

/* The claim that output `index` may lie in an input's memory: the first write to the output is the in-place write of
 * that input, and nothing else reads the input then or later. */
static bool claim_ok(checker *check, uint32_t index) {
    const qf_plan *plan = check->plan;
    uint32_t input = plan->inputs[plan->outputs[index].in_place - 1].tensor, output = plan->outputs[index].tensor;
    uint32_t from = qf_plan_tensor_at(plan, input)->buffer, to = qf_plan_tensor_at(plan, output)->buffer;
    uint32_t write = check->lives[to - 1].first_write;
    if (write == UINT32_MAX || check->lives[from - 1].last_use != write) return false;
    const qf_plan_step_record *step = &plan->steps[write];
    bool found = false;
    for (uint32_t i = 0; i < step->result_count; i++) {
        if (buffer_of(plan, step->first_result, i) != to) continue;
        int32_t operand = qf_kernel_in_place_operand((qf_op)step->op, i);
        if (operand < 0 || (uint32_t)operand >= step->operand_count ||
            buffer_of(plan, step->first_operand, (uint32_t)operand) != from)
            return false;
        uint32_t source = plan->references[step->first_operand + (uint32_t)operand].tensor,
                 result = plan->references[step->first_result + i].tensor;
        found = same_extent(plan, source, result) && !qf_plan_tensor_at(plan, source)->offset;
    }
    uint32_t reads = 0;
    for (uint32_t i = 0; i < step->operand_count; i++) reads += buffer_of(plan, step->first_operand, i) == from;
    return found && reads == 1;
}

static bool check_flow(checker *check) {
    const qf_plan *plan = check->plan;
    qf_plan_lives(plan, check->lives);
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (!check_flow_of(check, i)) return false;
    for (uint32_t i = 0; i < plan->output_count; i++) {
        uint32_t buffer = qf_plan_tensor_at(plan, plan->outputs[i].tensor)->buffer;
        if (qf_plan_buffer_at(plan, buffer)->kind == QF_PLAN_OUTPUT && !check->written[buffer - 1])
            return bad(check, "outputs", i, "no step writes it");
        if (plan->outputs[i].in_place && !claim_ok(check, i))
            return bad(check, "outputs", i,
                       "it may not lie in input %u: no step updates that input in place, or it is read later",
                       plan->outputs[i].in_place - 1);
    }
    return true;
}

static bool check_guards(checker *check) {
    const qf_plan *plan = check->plan;
    for (uint32_t i = 0; i < plan->guard_count; i++)
        if (!expression_ok(check, "guards", i, plan->guards[i].left, false) ||
            !expression_ok(check, "guards", i, plan->guards[i].right, false) ||
            !string_ok(check, "guards", i, plan->guards[i].location))
            return false;
    return true;
}

static bool check_origin(checker *check) {
    const qf_plan *plan = check->plan;
    if (plan->origin_count != 1) return bad(check, "origins", 0, "%u records, expected 1", plan->origin_count);
    const qf_plan_origin_record *origin = &plan->origins[0];
    if (!string_ok(check, "origins", 0, origin->graph) || !string_ok(check, "origins", 0, origin->target) ||
        !string_ok(check, "origins", 0, origin->pipeline) || !string_ok(check, "origins", 0, origin->numerics) ||
        !string_ok(check, "origins", 0, origin->generator))
        return false;
    const qf_target_info *target = qf_target_from_name(qf_text_of(qf_plan_string(plan, origin->target)));
    if (!target) return bad(check, "origins", 0, "target is not in the table of targets");
    check->target = (uint32_t)target->target;
    if (origin->slot_count > plan->buffer_count)
        return bad(check, "origins", 0, "%u slots for %u buffers", origin->slot_count, plan->buffer_count);
    return true;
}

/* In this order, later checks index what earlier ones proved to be in range. */
static bool check_all(checker *check) {
    return check_origin(check) && check_expressions(check) && check_tensors(check) && check_buffers(check) &&
           check_interface(check) && check_symbols(check) && check_steps(check) && check_flow(check) &&
           check_guards(check);
}

qf_status qf_plan_validate(qf_context *context, const qf_plan *plan, const char *location) {
    size_t expressions = plan->expression_count * sizeof(uint32_t), lives = plan->buffer_count * sizeof(qf_plan_life);
    size_t slots = plan->buffer_count * sizeof(uint32_t), size = lives + expressions + slots + plan->buffer_count;
    char *memory = qf_allocate(context, size);
    if (!memory) return QF_ERROR_OUT_OF_MEMORY;
    checker check = {.context = context, .plan = plan, .position = {.location = location}};
    check.lives = (qf_plan_life *)(void *)memory;
    check.highest = (uint32_t *)(void *)(memory + lives);
    check.busy = (uint32_t *)(void *)(memory + lives + expressions);
    check.written = (bool *)(memory + lives + expressions + slots);
    bool valid = check_all(&check);
    qf_release(context, memory, size);
    return valid ? QF_OK : QF_ERROR_VERIFY;
}
