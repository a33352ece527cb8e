/* Owns: reading an operand in the element order of the shape that it broadcasts to.
 * Does not own: what is computed from it (elementwise.c).
 * Next: cpu.h. */
#include "kernels/cpu/cpu.h"

bool qf_reader_start(qf_reader *reader, const qf_view *operand, const qf_view *shape) {
    int64_t strides[QF_MAX_RANK];
    if (operand->rank > shape->rank) return false;
    qf_view_strides(operand, strides);
    *reader = (qf_reader){.view = operand};
    for (uint32_t i = 0; i < shape->rank; i++) {
        uint32_t missing = shape->rank - operand->rank;
        int64_t size = i < missing ? 1 : operand->dims[i - missing], step = 0;
        if (size != 1 && size != shape->dims[i]) return false;
        if (size != 1) step = strides[i - missing];
        if (shape->dims[i] == 1) continue;
        if (reader->rank && reader->strides[reader->rank - 1] == step * shape->dims[i]) {
            reader->dims[reader->rank - 1] *= shape->dims[i];
            reader->strides[reader->rank - 1] = step;
        } else {
            reader->dims[reader->rank] = shape->dims[i];
            reader->strides[reader->rank++] = step;
        }
    }
    if (reader->rank == 0) reader->dims[0] = 1, reader->strides[0] = 0, reader->rank = 1;
    return true;
}

/* Coordinates and offset of the element `first`. */
static int64_t seek(const qf_reader *reader, int64_t first, int64_t *at) {
    int64_t offset = 0;
    for (uint32_t i = reader->rank; i-- > 0;) {
        at[i] = first % reader->dims[i];
        first /= reader->dims[i];
        offset += at[i] * reader->strides[i];
    }
    return offset;
}

/* Offset of the next line of the innermost loop, whose coordinate was at its end. */
static int64_t next_line(const qf_reader *reader, int64_t *at) {
    int64_t offset = 0;
    at[reader->rank - 1] = 0;
    for (uint32_t i = reader->rank - 1; i-- > 0;) {
        if (++at[i] < reader->dims[i]) break;
        at[i] = 0;
    }
    for (uint32_t i = 0; i < reader->rank; i++) offset += at[i] * reader->strides[i];
    return offset;
}

/* Operands are contiguous, so the innermost loop steps by one or repeats an element. */
#define DEFINE_READER(suffix, type)                                                                                    \
    void qf_reader_##suffix(const qf_reader *reader, int64_t first, int64_t count, type *out) {                        \
        int64_t at[QF_MAX_RANK] = {0}, offset = seek(reader, first, at);                                               \
        uint32_t inner = reader->rank - 1;                                                                             \
        while (count > 0) {                                                                                            \
            int64_t run = reader->dims[inner] - at[inner];                                                             \
            if (run > count) run = count;                                                                              \
            if (reader->strides[inner] == 1) {                                                                         \
                qf_load_array_##suffix(reader->view->dtype, reader->view->data, offset, run, out);                     \
            } else {                                                                                                   \
                type element = qf_load_##suffix(reader->view->dtype, reader->view->data, offset);                      \
                for (int64_t i = 0; i < run; i++) out[i] = element;                                                    \
            }                                                                                                          \
            out += run;                                                                                                \
            count -= run;                                                                                              \
            if (count > 0) offset = next_line(reader, at);                                                             \
        }                                                                                                              \
    }

DEFINE_READER(f32, float)
DEFINE_READER(f64, double)
DEFINE_READER(i64, int64_t)
