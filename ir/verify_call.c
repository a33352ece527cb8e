/* Owns: helpers of the op checks: dtype sets, dims that provably differ, scales, messages.
 * Does not own: which op asks for what (verify.def, verify_*.c).
 * Next: verify_call.h. */
#include "ir/verify_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool qf_class_holds(qf_verify_class kind, qf_dtype dtype) {
    qf_dtype_kind numbers = qf_dtype_kind_of(dtype);
    bool real = dtype == QF_F64 || dtype == QF_F32 || dtype == QF_F16 || dtype == QF_BF16;
    bool float8 = qf_dtype_is_float8(dtype) && dtype != QF_F8E8M0FNU;
    if (dtype == QF_DTYPE_NONE) return true;
    switch (kind) {
    case QF_CLASS_ANY: return true;
    case QF_CLASS_TENSOR: return dtype != QF_TOKEN;
    case QF_CLASS_NUMBER: return qf_dtype_is_float(dtype) || numbers == QF_DTYPE_KIND_INTEGER;
    case QF_CLASS_FLOAT: return qf_dtype_is_float(dtype);
    case QF_CLASS_REAL: return real;
    case QF_CLASS_COMPUTE: return real && dtype != QF_F64;
    case QF_CLASS_BOOL: return dtype == QF_I1;
    case QF_CLASS_INDEX: return dtype == QF_I32 || dtype == QF_I64;
    case QF_CLASS_I32: return dtype == QF_I32;
    case QF_CLASS_SCALE: return real || dtype == QF_F8E8M0FNU;
    case QF_CLASS_FLOAT8: return float8;
    case QF_CLASS_ATTENTION: return float8 || real;
    case QF_CLASS_QUANTISED:
        return float8 || dtype == QF_F4E2M1FN || dtype == QF_I8 || dtype == QF_U8 || dtype == QF_I32;
    }
    return false;
}

const char *qf_class_text(qf_verify_class kind) {
    switch (kind) {
    case QF_CLASS_ANY: return "anything";
    case QF_CLASS_TENSOR: return "a tensor";
    case QF_CLASS_NUMBER: return "floats or integers";
    case QF_CLASS_FLOAT: return "floats";
    case QF_CLASS_REAL: return "f64, f32, f16 or bf16";
    case QF_CLASS_COMPUTE: return "f32, f16 or bf16";
    case QF_CLASS_BOOL: return "i1";
    case QF_CLASS_INDEX: return "i32 or i64";
    case QF_CLASS_I32: return "i32";
    case QF_CLASS_SCALE: return "f64, f32, f16, bf16 or f8E8M0FNU";
    case QF_CLASS_FLOAT8: return "an FP8 type";
    case QF_CLASS_ATTENTION:
        return "f64, f32, f16, bf16 or an FP8 type (bytes of a cache need a bitcast to their FP8 type)";
    case QF_CLASS_QUANTISED: return "an FP8 type, f4E2M1FN, i8, u8 or i32";
    }
    return "";
}

void qf_verify_fault(qf_verify_call *call, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    call->fault_count++;
    qf_position position = call->position;
    qf_buffer place = {.context = call->graph->context};
    if (!position.location) {
        qf_location_print(&place, call->graph, call->location);
        position.location = place.data;
    }
    (void)qf_fail(call->graph->context, QF_ERROR_VERIFY, &position, "%s: %s", call->info->name, message);
    qf_buffer_destroy(&place);
}

bool qf_verify_has(const qf_verify_call *call, uint32_t operand) {
    return operand < call->operand_count && call->operands[operand].id;
}

qf_type qf_verify_type(const qf_verify_call *call, uint32_t operand) {
    return qf_verify_has(call, operand) ? qf_value_type(call->graph, call->operands[operand]) : (qf_type){0};
}

qf_dtype qf_verify_dtype(const qf_verify_call *call, uint32_t operand) {
    return qf_verify_has(call, operand) ? qf_type_dtype(call->graph->context, qf_verify_type(call, operand))
                                        : QF_DTYPE_NONE;
}

uint32_t qf_verify_rank(const qf_verify_call *call, uint32_t operand) {
    return qf_verify_has(call, operand) ? qf_type_rank(call->graph->context, qf_verify_type(call, operand))
                                        : QF_UNRANKED;
}

qf_dim qf_verify_dim(const qf_verify_call *call, uint32_t operand, int32_t axis) {
    if (qf_verify_rank(call, operand) == QF_UNRANKED) return (qf_dim){0};
    return qf_type_dim(call->graph->context, qf_verify_type(call, operand), axis);
}

const char *qf_verify_name(const qf_verify_call *call, uint32_t operand) {
    const qf_op_info *info = call->info;
    return info->operands[operand < info->operand_count ? operand : info->operand_count - 1].name;
}

static qf_verify_text cut(qf_buffer *buffer) {
    qf_verify_text text;
    (void)snprintf(text.data, sizeof text.data, "%s", buffer->data && !buffer->failed ? buffer->data : "?");
    if (buffer->size >= sizeof text.data) memcpy(text.data + sizeof text.data - 4, "...", 4);
    qf_buffer_destroy(buffer);
    return text;
}

qf_verify_text qf_verify_type_text(const qf_verify_call *call, qf_type type) {
    qf_buffer buffer = {.context = call->graph->context};
    qf_type_print(&buffer, call->graph->context, type);
    return cut(&buffer);
}

qf_verify_text qf_verify_dim_text(const qf_verify_call *call, qf_dim dim) {
    qf_buffer buffer = {.context = call->graph->context};
    qf_dim_print(&buffer, call->graph->context, dim);
    return cut(&buffer);
}

bool qf_verify_dims_differ(const qf_verify_call *call, qf_dim a, qf_dim b) {
    qf_context *context = call->graph->context;
    int64_t x, y;
    if (!a.id || !b.id || qf_dim_equal(a, b)) return false;
    if (qf_dim_is_constant(context, a, &x) && qf_dim_is_constant(context, b, &y)) return x != y;
    qf_symbol_facts facts = qf_graph_facts(call->graph);
    qf_dim difference = qf_dim_subtract(context, a, b);
    return difference.id && ((qf_dim_lower_bound(context, &facts, difference, &x) && x > 0) ||
                             (qf_dim_upper_bound(context, &facts, difference, &x) && x < 0));
}

bool qf_verify_not_divisible(const qf_verify_call *call, qf_dim dim, qf_dim factor) {
    qf_context *context = call->graph->context;
    int64_t rest;
    if (!dim.id || !factor.id || qf_dim_is(context, factor, 0)) return false;
    qf_dim modulo = qf_dim_modulo(context, dim, factor);
    return modulo.id && qf_dim_is_constant(context, modulo, &rest) && rest != 0;
}

bool qf_verify_operand_class(qf_verify_call *call, uint32_t operand, qf_verify_class kind) {
    if (qf_class_holds(kind, qf_verify_dtype(call, operand))) return true;
    qf_verify_fault(call, "operand %s: expected %s, found %s", qf_verify_name(call, operand), qf_class_text(kind),
                    qf_verify_type_text(call, qf_verify_type(call, operand)).data);
    return false;
}

bool qf_verify_operand_rank(qf_verify_call *call, uint32_t operand, uint32_t least, uint32_t most) {
    uint32_t rank = qf_verify_rank(call, operand);
    if (rank == QF_UNRANKED || (rank >= least && rank <= most)) return true;
    qf_verify_text found = qf_verify_type_text(call, qf_verify_type(call, operand));
    if (least == most)
        qf_verify_fault(call, "operand %s: expected rank %" PRIu32 ", found %s", qf_verify_name(call, operand), least,
                        found.data);
    else
        qf_verify_fault(call, "operand %s: expected rank %" PRIu32 " to %" PRIu32 ", found %s",
                        qf_verify_name(call, operand), least, most, found.data);
    return false;
}

bool qf_verify_operand_dim(qf_verify_call *call, uint32_t operand, int32_t axis, qf_dim expected, const char *what) {
    if (!qf_verify_dims_differ(call, qf_verify_dim(call, operand, axis), expected)) return true;
    qf_verify_fault(call, "operand %s: axis %" PRId32 " is %s: expected %s, found %s", qf_verify_name(call, operand),
                    axis < 0 ? axis + (int32_t)qf_verify_rank(call, operand) : axis, what,
                    qf_verify_dim_text(call, expected).data,
                    qf_verify_type_text(call, qf_verify_type(call, operand)).data);
    return false;
}

bool qf_verify_same_dtype(qf_verify_call *call, uint32_t a, uint32_t b) {
    qf_dtype x = qf_verify_dtype(call, a), y = qf_verify_dtype(call, b);
    if (x == y || x == QF_DTYPE_NONE || y == QF_DTYPE_NONE) return true;
    qf_verify_fault(call, "operand %s: expected %s, the element type of %s, found %s; insert a cast",
                    qf_verify_name(call, b), qf_dtype_name(x), qf_verify_name(call, a),
                    qf_verify_type_text(call, qf_verify_type(call, b)).data);
    return false;
}

bool qf_verify_scale(qf_verify_call *call, uint32_t operand, qf_dim heads) {
    if (!qf_verify_has(call, operand)) return true;
    if (!qf_verify_operand_class(call, operand, QF_CLASS_SCALE)) return false;
    uint32_t rank = qf_verify_rank(call, operand);
    qf_dim count = qf_verify_dim(call, operand, 0), one = qf_dim_constant(call->graph->context, 1);
    if (rank == QF_UNRANKED || rank == 0) return true;
    if (rank == 1 &&
        (!qf_verify_dims_differ(call, count, one) || (heads.id && !qf_verify_dims_differ(call, count, heads))))
        return true;
    if (heads.id)
        qf_verify_fault(call, "operand %s: expected one scale ([] or [1]) or one a KV head ([%s]), found %s",
                        qf_verify_name(call, operand), qf_verify_dim_text(call, heads).data,
                        qf_verify_type_text(call, qf_verify_type(call, operand)).data);
    else
        qf_verify_fault(call, "operand %s: expected one scale ([] or [1]), found %s", qf_verify_name(call, operand),
                        qf_verify_type_text(call, qf_verify_type(call, operand)).data);
    return false;
}

bool qf_verify_scale_presence(qf_verify_call *call, uint32_t scale, uint32_t of) {
    qf_dtype dtype = qf_verify_dtype(call, of);
    bool float8 = qf_dtype_is_float8(dtype);
    if (dtype == QF_DTYPE_NONE || float8 == qf_verify_has(call, scale)) return true;
    if (float8)
        qf_verify_fault(call, "operand %s is %s and needs its dequantisation scale: give %s=...",
                        qf_verify_name(call, of), qf_dtype_name(dtype), qf_verify_name(call, scale));
    else
        qf_verify_fault(call, "operand %s: a scale needs an FP8 %s, found %s", qf_verify_name(call, scale),
                        qf_verify_name(call, of), qf_verify_type_text(call, qf_verify_type(call, of)).data);
    return false;
}

bool qf_verify_broadcasts_to(qf_verify_call *call, uint32_t operand, const qf_dim *dims, uint32_t rank,
                             const char *what) {
    uint32_t own = qf_verify_rank(call, operand);
    if (own == QF_UNRANKED) return true;
    bool ok = own <= rank;
    qf_dim one = qf_dim_constant(call->graph->context, 1);
    for (uint32_t i = 1; ok && i <= own; i++) {
        qf_dim dim = qf_verify_dim(call, operand, -(int32_t)i);
        ok = !qf_verify_dims_differ(call, dim, one) || !qf_verify_dims_differ(call, dim, dims[rank - i]);
    }
    if (ok) return true;
    qf_buffer expected = {.context = call->graph->context};
    for (uint32_t i = 0; i < rank; i++) {
        qf_buffer_text(&expected, qf_text_of(i ? ", " : "["));
        if (dims[i].id)
            qf_dim_print(&expected, call->graph->context, dims[i]);
        else
            qf_buffer_text(&expected, QF_TEXT("any"));
    }
    qf_buffer_text(&expected, qf_text_of(rank ? "]" : "[]"));
    qf_verify_fault(call, "operand %s: expected a shape that broadcasts to %s %s, found %s",
                    qf_verify_name(call, operand), what, expected.failed ? "" : expected.data,
                    qf_verify_type_text(call, qf_verify_type(call, operand)).data);
    qf_buffer_destroy(&expected);
    return false;
}

void qf_verify_output_quantisation(qf_verify_call *call, const qf_verify_output *output) {
    const qf_attribute *attributes = call->attributes;
    qf_dtype out = (qf_dtype)attributes[output->out].integer;
    bool scaled = qf_verify_has(call, output->out_scale);
    int64_t mode = attributes[output->out_mode].integer;
    qf_dtype compute = output->out_compute < 0 ? QF_F32 : (qf_dtype)attributes[output->out_compute].integer;
    qf_dtype via = output->via < 0 ? QF_DTYPE_NONE : (qf_dtype)attributes[output->via].integer;
    if (!qf_class_holds(QF_CLASS_ATTENTION, out))
        qf_verify_fault(call, "attribute out: expected none, f64, f32, f16, bf16 or an FP8 type, found %s",
                        qf_dtype_name(out));
    else if (qf_dtype_is_float8(out) && !scaled)
        qf_verify_fault(call, "attribute out is %s and needs the scale of the result: give %s=...", qf_dtype_name(out),
                        qf_verify_name(call, output->out_scale));
    else if (!qf_dtype_is_float8(out) && scaled)
        qf_verify_fault(call, "operand %s: a scale of the result needs an FP8 out, found out=%s",
                        qf_verify_name(call, output->out_scale), qf_dtype_name(out));
    (void)qf_verify_scale(call, output->out_scale, (qf_dim){0});
    if (compute == QF_DTYPE_NONE || !qf_class_holds(QF_CLASS_COMPUTE, compute))
        qf_verify_fault(call, "attribute out_compute: expected f32, f16 or bf16, found %s", qf_dtype_name(compute));
    else if (mode == QF_VALUE_mul_recip && compute != QF_F32)
        qf_verify_fault(call, "attribute out_compute: mul_recip multiplies by an f32 reciprocal, found out_compute=%s",
                        qf_dtype_name(compute));
    if (!qf_class_holds(QF_CLASS_COMPUTE, via))
        qf_verify_fault(call, "attribute via: expected none, f32, f16 or bf16, found %s", qf_dtype_name(via));
    if (!scaled && (mode != QF_VALUE_div || compute != QF_F32 || via != QF_DTYPE_NONE))
        qf_verify_fault(call, "attributes out_mode, out_compute and via have no effect without %s; leave them out",
                        qf_verify_name(call, output->out_scale));
}
