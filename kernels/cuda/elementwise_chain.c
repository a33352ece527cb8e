/* Owns: which values a chain keeps in registers, whether memory allows it, and writing the chain's program.
 * Does not own: what an op computes (elementwise.cu), which steps are tried (elementwise.c).
 * Next: elementwise_chain.h. */
#include <string.h>

#include "kernels/cuda/elementwise_chain.h"
#include "kernels/cuda/fast.h"

/* --- memory --- */

static bool overlaps(const qf_view *a, const qf_view *b) {
    uint64_t left = qf_cuda_address(a), right = qf_cuda_address(b);
    return left < right + qf_view_bytes(b) && right < left + qf_view_bytes(a);
}

/* Both tensors hold the chain's elements, one beside the other in the same bytes. */
static bool coincide(const qf_cuda_chain *chain, const qf_view *a, const qf_view *b) {
    return a->data == b->data && qf_dtype_bits(a->dtype) == qf_dtype_bits(b->dtype) &&
           qf_view_count(a) == chain->elements && qf_view_count(b) == chain->elements;
}

static const qf_view *result_of(const qf_cuda_link *link) {
    return &link->step->call.results[0];
}

/* The link whose value the operand is: what the last link that writes to this memory leaves there. False where that is
 * not the operand element by element. */
static bool find_producer(const qf_cuda_chain *chain, const qf_view *operand, int32_t *out_producer) {
    *out_producer = -1;
    for (uint32_t i = chain->count; i-- > 0;) {
        const qf_cuda_link *link = &chain->links[i];
        if (!overlaps(operand, result_of(link))) continue;
        *out_producer = (int32_t)i;
        return coincide(chain, operand, result_of(link)) && operand->dtype == result_of(link)->dtype &&
               qf_cuda_chain_has_value(chain, link);
    }
    return true;
}

bool qf_cuda_chain_extend(qf_cuda_chain *chain, const qf_kernel_step *step) {
    if (chain->count == QF_CUDA_MOST_LINKS) return false;
    qf_cuda_link link = {step, {-1, -1, -1}};
    for (uint32_t i = 0; i < step->call.operand_count; i++) {
        const qf_view *operand = qf_call_operand(&step->call, i);
        if (operand && !find_producer(chain, operand, &link.producers[i])) return false;
    }
    chain->links[chain->count++] = link;
    return true;
}

/* A result that is read when the covered steps are done. */
static bool is_stored(const qf_cuda_chain *chain, uint32_t count, uint32_t link) {
    const uint32_t *last_uses = chain->links[link].step->last_uses;
    return !last_uses || last_uses[0] > chain->first_step + count - 1;
}

/* Threads run at different speeds: a stored result may lie in memory that the chain reads only where each thread reads
 * the very elements that it then writes. */
static bool stores_are_safe(const qf_cuda_chain *chain, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!is_stored(chain, count, i)) continue;
        for (uint32_t j = 0; j < count; j++)
            for (uint32_t k = 0; k < chain->links[j].step->call.operand_count; k++) {
                const qf_view *operand = qf_call_operand(&chain->links[j].step->call, k),
                              *y = result_of(&chain->links[i]);
                if (!operand || chain->links[j].producers[k] >= 0 || !overlaps(operand, y)) continue;
                if (j > i || !coincide(chain, operand, y)) return false;
            }
    }
    return true;
}

/* --- the program --- */

typedef struct writer {
    const qf_cuda_chain *chain;
    qf_elementwise_params *params;
    uint32_t links, tensor_count, loop_count, slots_used, slots;
    uint8_t slot_of[QF_CUDA_MOST_LINKS];
    bool full;
    qf_elementwise_code spare; /* written to when the program is full */
} writer;

static bool same_loops(const writer *w, const qf_elementwise_tensor *tensor, const qf_cuda_loops *loops) {
    for (uint32_t i = 0; i < loops->rank; i++) {
        const qf_elementwise_loop *mine = &w->params->loops[tensor->first_loop + i];
        if (mine->size != loops->loop[i].size || mine->stride != loops->loop[i].from) return false;
    }
    return tensor->rank == loops->rank;
}

static uint8_t kind_of(const qf_view *view, const qf_cuda_loops *loops) {
    uint32_t bytes = QF_ELEMENTWISE_VECTOR * qf_dtype_bits(view->dtype) / 8;
    bool aligned = qf_cuda_address(view) % bytes == 0;
    if (loops->rank == 0 || (loops->rank == 1 && loops->loop[0].from == 0)) return QF_ELEMENTWISE_ONE;
    if (loops->rank == 1) return aligned ? QF_ELEMENTWISE_ALIGNED : QF_ELEMENTWISE_SAME;
    if (loops->loop[0].size % QF_ELEMENTWISE_VECTOR) return QF_ELEMENTWISE_LOOPED;
    if (loops->loop[0].from == 0) return QF_ELEMENTWISE_REPEATS;
    for (uint32_t i = 1; i < loops->rank; i++)
        if (loops->loop[i].from % QF_ELEMENTWISE_VECTOR) aligned = false;
    return aligned ? QF_ELEMENTWISE_RUNS : QF_ELEMENTWISE_LOOPED;
}

/* The tensor as it lies under the shape that it broadcasts to; one that the program already has is taken again. */
static uint8_t add_tensor(writer *w, const qf_view *view, const qf_view *shape) {
    int64_t strides[QF_MAX_RANK], from[QF_MAX_RANK] = {0};
    qf_cuda_loops loops;
    uint32_t missing = shape->rank - view->rank;
    qf_view_strides(view, strides);
    for (uint32_t i = 0; i < view->rank; i++) from[missing + i] = view->dims[i] == 1 ? 0 : strides[i];
    qf_cuda_loops_make(&loops, shape->rank, shape->dims, from, from);
    uint8_t kind = kind_of(view, &loops);
    if (kind <= QF_ELEMENTWISE_ONE) loops.rank = 0;
    for (uint32_t i = 0; i < w->tensor_count; i++) {
        const qf_elementwise_tensor *known = &w->params->tensors[i];
        if (known->address == qf_cuda_address(view) && known->dtype == view->dtype && known->kind == kind &&
            same_loops(w, known, &loops))
            return (uint8_t)i;
    }
    if (w->tensor_count == QF_ELEMENTWISE_TENSORS || w->loop_count + loops.rank > QF_ELEMENTWISE_LOOPS) {
        w->full = true;
        return 0;
    }
    for (uint32_t i = 0; i < loops.rank; i++)
        w->params->loops[w->loop_count + i] =
            (qf_elementwise_loop){loops.loop[i].size, loops.loop[i].from, loops.loop[i].magic, loops.loop[i].shift};
    w->params->tensors[w->tensor_count] = (qf_elementwise_tensor){.address = qf_cuda_address(view),
                                                                  .dtype = (uint8_t)view->dtype,
                                                                  .kind = kind,
                                                                  .rank = (uint8_t)loops.rank,
                                                                  .first_loop = (uint8_t)w->loop_count};
    w->loop_count += loops.rank;
    return (uint8_t)w->tensor_count++;
}

/* Only the step right after can find a value where the last instruction left it, and a clamp only its x. */
static bool reads_last(const writer *w, uint32_t link, uint32_t operand) {
    const qf_cuda_link *reader = &w->chain->links[link];
    return reader->producers[operand] == (int32_t)link - 1 && (reader->step->call.op != QF_OP_clamp || operand == 0);
}

/* The last link that uses the value; 0: none. *out_slot: the value has to be kept. */
static uint32_t last_reader(const writer *w, uint32_t link, bool *out_slot) {
    uint32_t last = 0;
    *out_slot = false;
    for (uint32_t j = link + 1; j < w->links; j++)
        for (uint32_t k = 0; k < 3; k++)
            if (w->chain->links[j].producers[k] == (int32_t)link) {
                last = j;
                if (!reads_last(w, j, k)) *out_slot = true;
            }
    return last;
}

static uint8_t source(writer *w, uint32_t link, uint32_t operand) {
    const qf_cuda_link *reader = &w->chain->links[link];
    if (reader->producers[operand] < 0) return add_tensor(w, &reader->step->call.operands[operand], result_of(reader));
    if (reads_last(w, link, operand)) return QF_ELEMENTWISE_LAST;
    return w->slot_of[reader->producers[operand]];
}

static void release_slots(writer *w, uint32_t link) {
    bool keeps;
    for (uint32_t i = 0; i < link; i++)
        if (w->slot_of[i] != QF_ELEMENTWISE_NONE && last_reader(w, i, &keeps) == link)
            w->slots_used &= ~(1u << (w->slot_of[i] - QF_ELEMENTWISE_SLOT(0)));
}

static uint8_t take_slot(writer *w) {
    for (uint32_t i = 0; i < QF_ELEMENTWISE_SLOTS; i++) {
        if (w->slots_used >> i & 1) continue;
        w->slots_used |= 1u << i;
        if (w->slots < i + 1) w->slots = i + 1;
        return (uint8_t)QF_ELEMENTWISE_SLOT(i);
    }
    w->full = true;
    return QF_ELEMENTWISE_NONE;
}

/* Results of these ops are numbers that the dtype of their operands has. */
static bool keeps_numbers(qf_op op) {
    switch (op) {
    case QF_OP_neg:
    case QF_OP_abs:
    case QF_OP_floor:
    case QF_OP_ceil:
    case QF_OP_round:
    case QF_OP_sign:
    case QF_OP_relu:
    case QF_OP_minimum:
    case QF_OP_maximum:
    case QF_OP_where:
    case QF_OP_clamp: return true;
    default: return false;
    }
}

/* What the value is rounded to before others read it; storing rounds by itself. */
static qf_dtype rounding(const writer *w, const qf_cuda_link *link, bool is_read) {
    qf_dtype dtype = result_of(link)->dtype;
    qf_op op = link->step->call.op;
    if (w->chain->wide) return dtype;
    if (!is_read || dtype == QF_F32 || (dtype == QF_I1 && op != QF_OP_cast)) return QF_DTYPE_NONE;
    return (dtype == QF_F16 || dtype == QF_BF16) && keeps_numbers(op) ? QF_DTYPE_NONE : dtype;
}

static qf_elementwise_code *add_code(writer *w, qf_op op, const qf_cuda_link *link, qf_dtype dtype, uint8_t first,
                                     uint8_t second) {
    const qf_kernel_call *call = &link->step->call;
    if (w->params->code_count == QF_ELEMENTWISE_CODES) {
        w->full = true;
        return &w->spare;
    }
    qf_dtype computing = call->op == QF_OP_where ? call->results[0].dtype : call->operands[0].dtype;
    qf_elementwise_code *code = &w->params->codes[w->params->code_count++];
    *code = (qf_elementwise_code){.op = (uint8_t)op,
                                  .domain = (uint8_t)qf_domain_of(computing),
                                  .dtype = (uint8_t)dtype,
                                  .saturate = 1,
                                  .first = first,
                                  .second = second,
                                  .slot = QF_ELEMENTWISE_NONE,
                                  .result = QF_ELEMENTWISE_NONE};
    return code;
}

static qf_elementwise_code *write_clamp(writer *w, uint32_t link, qf_dtype dtype) {
    const qf_cuda_link *clamp = &w->chain->links[link];
    uint8_t x = source(w, link, 0);
    qf_elementwise_code *code = NULL;
    for (uint32_t i = 1; i <= 2; i++) {
        if (!qf_call_operand(&clamp->step->call, i)) continue;
        code = add_code(w, i == 1 ? QF_OP_maximum : QF_OP_minimum, clamp, dtype, x, source(w, link, i));
        x = QF_ELEMENTWISE_LAST;
    }
    return code ? code : add_code(w, QF_OP_where, clamp, dtype, x, x);
}

/* The instructions of a link; returns the last one, whose value is the link's. */
static qf_elementwise_code *write_codes(writer *w, uint32_t link, qf_dtype dtype) {
    const qf_cuda_link *now = &w->chain->links[link];
    const qf_kernel_call *call = &now->step->call;
    qf_elementwise_code *code;
    switch (call->op) {
    case QF_OP_clamp: return write_clamp(w, link, dtype);
    case QF_OP_where:
        code = add_code(w, QF_OP_where, now, dtype, QF_ELEMENTWISE_LAST, source(w, link, 0));
        code->op = QF_ELEMENTWISE_CONDITION;
        return add_code(w, QF_OP_where, now, dtype, source(w, link, 1), source(w, link, 2));
    case QF_OP_cast:
        code = add_code(w, QF_OP_cast, now, dtype, source(w, link, 0), QF_ELEMENTWISE_NONE);
        /* The attribute concerns 8-bit floats; integers saturate in any case. */
        code->saturate = call->attributes[QF_ATTR(cast, saturate)].integer != 0 ||
                         !qf_dtype_is_float8(call->results[0].dtype) ||
                         qf_domain_of(call->operands[0].dtype) == QF_DOMAIN_I64;
        return code;
    default:
        code = add_code(w, call->op, now, dtype, source(w, link, 0),
                        qf_cuda_elementwise_operands(call->op) == 2 ? source(w, link, 1) : QF_ELEMENTWISE_NONE);
        if (call->op == QF_OP_gelu) code->mode = (uint8_t)call->attributes[QF_ATTR(gelu, approximate)].integer;
        if (call->op == QF_OP_mod) code->mode = call->attributes[QF_ATTR(mod, fmod)].integer != 0;
        return code;
    }
}

static void write_link(writer *w, uint32_t link) {
    const qf_cuda_link *now = &w->chain->links[link];
    bool keeps;
    uint32_t last = last_reader(w, link, &keeps);
    qf_elementwise_code *code = write_codes(w, link, rounding(w, now, last != 0));
    release_slots(w, link);
    w->slot_of[link] = keeps ? take_slot(w) : QF_ELEMENTWISE_NONE;
    code->slot = w->slot_of[link];
    if (is_stored(w->chain, w->links, link)) code->result = add_tensor(w, result_of(now), result_of(now));
}

bool qf_cuda_chain_program(const qf_cuda_chain *chain, uint32_t count, qf_elementwise_params *params,
                           uint32_t *out_slots) {
    if (!stores_are_safe(chain, count)) return false;
    memset(params, 0, sizeof *params);
    params->count = chain->elements;
    params->narrow = chain->elements < INT32_MAX;
    writer w = {.chain = chain, .params = params, .links = count};
    for (uint32_t i = 0; i < count && !w.full; i++) write_link(&w, i);
    *out_slots = w.slots;
    return !w.full;
}

/* --- programs for the kernel of aligned runs --- */

static bool is_common(uint32_t op) {
    switch (op) {
    case QF_OP_cast:
    case QF_OP_neg:
    case QF_OP_abs:
    case QF_OP_relu:
    case QF_OP_exp:
    case QF_OP_sigmoid:
    case QF_OP_silu:
    case QF_OP_add:
    case QF_OP_sub:
    case QF_OP_mul:
    case QF_OP_div:
    case QF_OP_minimum:
    case QF_OP_maximum: return true;
    default: return false;
    }
}

static bool tensor_has_runs(const qf_elementwise_params *params, const qf_elementwise_tensor *tensor) {
    const qf_elementwise_loop *loops = &params->loops[tensor->first_loop];
    if (!qf_cuda_is_fast((qf_dtype)tensor->dtype)) return false;
    if (tensor->kind == QF_ELEMENTWISE_ONE) return true;
    const void *data = (const void *)(uintptr_t)tensor->address;
    if (!qf_cuda_is_aligned(data, (qf_dtype)tensor->dtype, QF_ELEMENTWISE_RUN)) return false;
    if (tensor->kind == QF_ELEMENTWISE_ALIGNED) return true;
    if (tensor->kind != QF_ELEMENTWISE_RUNS || !params->narrow || loops[0].size % QF_ELEMENTWISE_RUN) return false;
    for (uint32_t i = 1; i < tensor->rank; i++)
        if (loops[i].stride % QF_ELEMENTWISE_RUN) return false;
    return true;
}

static bool is_taken_from(uint32_t source) {
    return source < QF_ELEMENTWISE_SLOT(0) || source == QF_ELEMENTWISE_LAST || source == QF_ELEMENTWISE_NONE;
}

bool qf_cuda_program_has_runs(const qf_elementwise_params *params) {
    uint32_t tensors = 0;
    if (params->count % QF_ELEMENTWISE_RUN) return false;
    for (uint32_t i = 0; i < params->code_count; i++) {
        const qf_elementwise_code *code = &params->codes[i];
        bool saturates = code->saturate != 0, rounds = code->dtype != QF_DTYPE_NONE;
        if (!is_common(code->op) || code->slot != QF_ELEMENTWISE_NONE) return false;
        if (!is_taken_from(code->first) || !is_taken_from(code->second)) return false;
        if (!saturates || (rounds && !qf_cuda_is_fast((qf_dtype)code->dtype))) return false;
        const uint8_t used[] = {code->first, code->second, code->result};
        for (uint32_t k = 0; k < QF_COUNT_OF(used); k++)
            if (used[k] < QF_ELEMENTWISE_SLOT(0) && used[k] >= tensors) tensors = used[k] + 1u;
    }
    for (uint32_t i = 0; i < tensors; i++)
        if (!tensor_has_runs(params, &params->tensors[i])) return false;
    return true;
}
