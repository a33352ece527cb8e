/* Owns: the readable dump of a plan.
 * Does not own: the binary form (write.c).
 * Next: plan.h. */
#include <inttypes.h>
#include <string.h>

#include "plan/plan.h"

void qf_plan_print_expression(qf_buffer *buffer, const qf_plan *plan, uint32_t id) {
    const qf_plan_expression_record *expression = &plan->expressions[id - 1];
    if (!expression->term_count) qf_buffer_text(buffer, QF_TEXT("0"));
    for (uint32_t i = 0; i < expression->term_count; i++) {
        const qf_plan_term_record *term = &plan->terms[expression->first_term + i];
        int64_t coefficient = term->coefficient;
        if (i) qf_buffer_print(buffer, "%s", coefficient < 0 ? " - " : " + ");
        bool flip = i && coefficient < 0 && coefficient != INT64_MIN;
        if (flip) coefficient = -coefficient;
        bool number = !term->factor_count || coefficient != 1;
        if (number) qf_buffer_print(buffer, "%" PRId64, coefficient);
        for (uint32_t j = 0; j < term->factor_count; j++)
            qf_buffer_print(buffer, "%s%s", number || j ? "*" : "",
                            qf_plan_string(plan, plan->symbols[plan->factors[term->first_factor + j].symbol - 1].name));
    }
}

/* "f32[T, 64]" */
static void print_tensor_type(qf_buffer *buffer, const qf_plan *plan, uint32_t id) {
    const qf_plan_tensor_record *tensor = qf_plan_tensor_at(plan, id);
    qf_buffer_print(buffer, "%s[", qf_dtype_name((qf_dtype)tensor->dtype));
    if (tensor->rank == QF_UNRANKED) qf_buffer_text(buffer, QF_TEXT("*"));
    for (uint32_t i = 0; tensor->rank != QF_UNRANKED && i < tensor->rank; i++) {
        if (i) qf_buffer_text(buffer, QF_TEXT(", "));
        qf_plan_print_expression(buffer, plan, plan->dims[tensor->first_dim + i].expression);
    }
    qf_buffer_text(buffer, QF_TEXT("]"));
}

static void print_string(qf_buffer *buffer, const qf_plan *plan, uint32_t offset) {
    qf_buffer_quoted(buffer, qf_text_of(qf_plan_string(plan, offset)));
}

static void print_head(qf_buffer *buffer, const qf_plan *plan) {
    const qf_plan_origin_record *origin = &plan->origins[0];
    qf_buffer_text(buffer, QF_TEXT("plan "));
    print_string(buffer, plan, origin->graph);
    qf_buffer_text(buffer, QF_TEXT("\n  target "));
    print_string(buffer, plan, origin->target);
    qf_buffer_text(buffer, QF_TEXT("\n  pipeline "));
    print_string(buffer, plan, origin->pipeline);
    qf_buffer_text(buffer, QF_TEXT("\n  numerics "));
    print_string(buffer, plan, origin->numerics);
    qf_buffer_text(buffer, QF_TEXT("\n  generator "));
    print_string(buffer, plan, origin->generator);
    qf_buffer_text(buffer, QF_TEXT("\n  fingerprint "));
    for (uint32_t i = 0; i < 16; i++) qf_buffer_print(buffer, "%02x", plan->fingerprint.bytes[i]);
    qf_buffer_print(buffer, "\n  slots %u\n", origin->slot_count);
}

static void print_symbol(qf_buffer *buffer, const qf_plan *plan, const qf_plan_symbol_record *symbol) {
    static const char *const calls[] = {"", "", "floordiv", "mod", "min", "max"};
    qf_buffer_print(buffer, "symbol %s ", qf_plan_string(plan, symbol->name));
    if (symbol->kind == QF_PLAN_HOST) {
        qf_buffer_text(buffer, QF_TEXT("bound by the host"));
    } else if (symbol->kind == QF_PLAN_BOUND) {
        qf_buffer_text(buffer, QF_TEXT("from input "));
        print_string(buffer, plan, plan->inputs[symbol->input].name);
        qf_buffer_print(buffer, " axis %u", symbol->axis);
        if (symbol->a)
            qf_buffer_text(buffer, QF_TEXT(" divided by ")), qf_plan_print_expression(buffer, plan, symbol->a);
        if (symbol->b) qf_buffer_text(buffer, QF_TEXT(" after ")), qf_plan_print_expression(buffer, plan, symbol->b);
    } else {
        qf_buffer_print(buffer, "= %s(", calls[symbol->kind]);
        qf_plan_print_expression(buffer, plan, symbol->a);
        qf_buffer_text(buffer, QF_TEXT(", "));
        qf_plan_print_expression(buffer, plan, symbol->b);
        qf_buffer_text(buffer, QF_TEXT(")"));
    }
    if (symbol->minimum > 0) qf_buffer_print(buffer, " min %" PRId64, symbol->minimum);
    if (symbol->maximum != INT64_MAX) qf_buffer_print(buffer, " max %" PRId64, symbol->maximum);
    if (symbol->divisor > 1) qf_buffer_print(buffer, " div %" PRId64, symbol->divisor);
    qf_buffer_text(buffer, QF_TEXT("\n"));
}

static void print_named(qf_buffer *buffer, const qf_plan *plan, const char *what, uint32_t index, uint32_t name,
                        uint32_t tensor) {
    qf_buffer_print(buffer, "%s %u ", what, index);
    print_string(buffer, plan, name);
    qf_buffer_text(buffer, QF_TEXT(" "));
    print_tensor_type(buffer, plan, tensor);
}

static void print_interface(qf_buffer *buffer, const qf_plan *plan) {
    for (uint32_t i = 0; i < plan->input_count; i++) {
        print_named(buffer, plan, "input", i, plan->inputs[i].name, plan->inputs[i].tensor);
        qf_buffer_text(buffer, QF_TEXT("\n"));
    }
    for (uint32_t i = 0; i < plan->parameter_count; i++) {
        const qf_plan_parameter_record *parameter = &plan->parameters[i];
        print_named(buffer, plan, "parameter", i, parameter->name, parameter->tensor);
        if (parameter->file) {
            qf_buffer_text(buffer, QF_TEXT(" in "));
            print_string(buffer, plan, parameter->file);
            qf_buffer_print(buffer, " at %" PRIu64, parameter->offset);
        }
        qf_buffer_print(buffer, " bytes %" PRIu64, parameter->size);
        if (parameter->hash) qf_buffer_print(buffer, " hash %016" PRIx64, (uint64_t)parameter->hash);
        qf_buffer_text(buffer, QF_TEXT("\n"));
    }
    for (uint32_t i = 0; i < plan->constant_count; i++)
        qf_buffer_print(buffer, "constant %u bytes %" PRIu64 "\n", i, plan->constants[i].size);
    for (uint32_t i = 0; i < plan->output_count; i++) {
        const qf_plan_output_record *output = &plan->outputs[i];
        print_named(buffer, plan, "output", i, output->name, output->tensor);
        if (output->in_place) qf_buffer_print(buffer, " may lie in input %u", output->in_place - 1);
        if (output->reason) qf_buffer_print(buffer, " not in place: %s", qf_plan_string(plan, output->reason));
        qf_buffer_text(buffer, QF_TEXT("\n"));
    }
}

static void print_place(qf_buffer *buffer, const qf_plan *plan, uint32_t tensor) {
    static const char *const kinds[] = {"input", "output", "parameter", "constant", "slot", "nowhere"};
    if (!tensor) {
        qf_buffer_text(buffer, QF_TEXT("_"));
        return;
    }
    const qf_plan_tensor_record *record = qf_plan_tensor_at(plan, tensor);
    const qf_plan_buffer_record *place = qf_plan_buffer_at(plan, record->buffer);
    print_tensor_type(buffer, plan, tensor);
    qf_buffer_print(buffer, " %s", kinds[place->kind]);
    if (place->kind != QF_PLAN_NOWHERE) qf_buffer_print(buffer, " %u", place->index);
    if (record->offset) {
        qf_buffer_text(buffer, QF_TEXT("+"));
        qf_plan_print_expression(buffer, plan, record->offset);
    }
}

static void print_attribute(qf_buffer *buffer, const qf_plan *plan, const qf_attribute_info *info,
                            const qf_plan_attribute_record *attribute) {
    qf_buffer_print(buffer, "%s=", info->name);
    double number;
    switch ((qf_attribute_kind)attribute->kind) {
    case QF_ATTRIBUTE_BOOL: qf_buffer_print(buffer, "%s", attribute->value ? "true" : "false"); break;
    case QF_ATTRIBUTE_INT: qf_buffer_print(buffer, "%" PRId64, attribute->value); break;
    case QF_ATTRIBUTE_FLOAT:
        memcpy(&number, &attribute->value, sizeof number);
        qf_buffer_double(buffer, number);
        break;
    case QF_ATTRIBUTE_DTYPE: qf_buffer_print(buffer, "%s", qf_dtype_name((qf_dtype)attribute->value)); break;
    case QF_ATTRIBUTE_ENUM: qf_buffer_print(buffer, "%s", qf_enum_name(info->enumeration, attribute->value)); break;
    case QF_ATTRIBUTE_DIM: qf_plan_print_expression(buffer, plan, (uint32_t)attribute->value); break;
    case QF_ATTRIBUTE_DIMS:
    case QF_ATTRIBUTE_INTS:
        qf_buffer_text(buffer, QF_TEXT("["));
        for (uint32_t i = 0; i < attribute->count; i++) {
            if (i) qf_buffer_text(buffer, QF_TEXT(", "));
            if (attribute->kind == QF_ATTRIBUTE_DIMS)
                qf_plan_print_expression(buffer, plan, plan->dims[(uint32_t)attribute->value + i].expression);
            else
                qf_buffer_print(buffer, "%" PRId64, plan->integers[(uint32_t)attribute->value + i].value);
        }
        qf_buffer_text(buffer, QF_TEXT("]"));
        break;
    case QF_ATTRIBUTE_STRING: print_string(buffer, plan, (uint32_t)attribute->value); break;
    case QF_ATTRIBUTE_LITERAL: break; /* never in a step */
    }
}

static void print_step(qf_buffer *buffer, const qf_plan *plan, uint32_t index) {
    const qf_plan_step_record *step = &plan->steps[index];
    const qf_op_info *info = qf_op_info_of((qf_op)step->op);
    const qf_kernel_row *row = qf_kernel_row_of(step->kernel);
    qf_buffer_print(buffer, "step %u %s kernel %s", index, info->name, row ? row->name : "none");
    if (step->attribute_count) {
        qf_buffer_text(buffer, QF_TEXT(" {"));
        for (uint32_t i = 0; i < step->attribute_count; i++) {
            if (i) qf_buffer_text(buffer, QF_TEXT(", "));
            print_attribute(buffer, plan, &info->attributes[i], &plan->attributes[step->first_attribute + i]);
        }
        qf_buffer_text(buffer, QF_TEXT("}"));
    }
    if (step->location) qf_buffer_print(buffer, " at "), print_string(buffer, plan, step->location);
    qf_buffer_text(buffer, QF_TEXT("\n"));
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const char *name =
            i < info->operand_count ? info->operands[i].name : info->operands[info->operand_count - 1].name;
        qf_buffer_print(buffer, "  in  %s ", name);
        print_place(buffer, plan, plan->references[step->first_operand + i].tensor);
        qf_buffer_text(buffer, QF_TEXT("\n"));
    }
    for (uint32_t i = 0; i < step->result_count; i++) {
        uint32_t tensor = plan->references[step->first_result + i].tensor;
        qf_buffer_text(buffer, QF_TEXT("  out "));
        if (tensor && qf_plan_tensor_at(plan, tensor)->name)
            print_string(buffer, plan, qf_plan_tensor_at(plan, tensor)->name), qf_buffer_text(buffer, QF_TEXT(" "));
        print_place(buffer, plan, tensor);
        qf_buffer_text(buffer, QF_TEXT("\n"));
    }
    if (step->note) qf_buffer_print(buffer, "  note %s\n", qf_plan_string(plan, step->note));
}

qf_status qf_plan_print(qf_context *context, const qf_plan *plan, qf_write_function write, void *user) {
    qf_buffer buffer = {.context = context};
    print_head(&buffer, plan);
    for (uint32_t i = 0; i < plan->symbol_count; i++) print_symbol(&buffer, plan, &plan->symbols[i]);
    print_interface(&buffer, plan);
    for (uint32_t i = 0; i < plan->guard_count; i++) {
        qf_buffer_text(&buffer, QF_TEXT("guard "));
        qf_plan_print_expression(&buffer, plan, plan->guards[i].left);
        qf_buffer_text(&buffer, QF_TEXT(" == "));
        qf_plan_print_expression(&buffer, plan, plan->guards[i].right);
        if (plan->guards[i].location)
            qf_buffer_text(&buffer, QF_TEXT(" at ")), print_string(&buffer, plan, plan->guards[i].location);
        qf_buffer_text(&buffer, QF_TEXT("\n"));
    }
    for (uint32_t i = 0; i < plan->step_count; i++) print_step(&buffer, plan, i);
    bool failed = buffer.failed;
    if (!failed) write(user, buffer.data, buffer.size);
    qf_buffer_destroy(&buffer);
    return failed ? QF_ERROR_OUT_OF_MEMORY : QF_OK;
}
