/* Owns: faults, threads, scratch arithmetic, strided copies and fills.
 * Does not own: kernels.
 * Next: cpu.h. */
#include "kernels/cpu/cpu.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

qf_status qf_cpu_fail(const qf_kernel_call *call, qf_status status, const char *format, ...) {
    if (call->message && call->message_size) {
        va_list arguments;
        va_start(arguments, format);
        int written = vsnprintf(call->message, call->message_size, format, arguments);
        va_end(arguments);
        if (written < 0) call->message[0] = '\0';
    }
    return status;
}

/* --- threads --- */

typedef struct piece {
    qf_cpu_body body;
    void *context;
    uint32_t thread;
    int64_t first, last;
} piece;

static void *run_piece(void *argument) {
    const piece *work = argument;
    /* There is a first piece. NOLINTNEXTLINE(*CallAndMessage) */
    work->body(work->context, work->thread, work->first, work->last);
    return NULL;
}

static int64_t cut(int64_t count, uint32_t part, uint32_t parts) {
    return count / parts * part + count % parts * part / parts;
}

void qf_cpu_parallel(uint32_t thread_count, int64_t count, int64_t grain, qf_cpu_body body, void *context) {
    if (count <= 0) return;
    uint32_t threads = thread_count < QF_CPU_MAX_THREADS ? thread_count : QF_CPU_MAX_THREADS;
    int64_t useful = grain > 1 ? (count - 1) / grain + 1 : count;
    if (threads < 1) threads = 1;
    if ((int64_t)threads > useful) threads = (uint32_t)useful;
    piece pieces[QF_CPU_MAX_THREADS];
    pthread_t handles[QF_CPU_MAX_THREADS];
    bool started[QF_CPU_MAX_THREADS] = {false};
    for (uint32_t i = 0; i < threads; i++)
        pieces[i] = (piece){body, context, i, cut(count, i, threads), cut(count, i + 1, threads)};
    for (uint32_t i = 1; i < threads; i++) started[i] = pthread_create(&handles[i], NULL, run_piece, &pieces[i]) == 0;
    run_piece(&pieces[0]);
    for (uint32_t i = 1; i < threads; i++) {
        /* A thread that could not start is work for this one; joining a started thread cannot fail. */
        if (started[i])
            (void)pthread_join(handles[i], NULL);
        else
            run_piece(&pieces[i]);
    }
}

uint32_t qf_cpu_thread_count(const qf_kernel_call *call) {
    if (call->thread_count < 1) return 1;
    return call->thread_count < QF_CPU_MAX_THREADS ? call->thread_count : QF_CPU_MAX_THREADS;
}

size_t qf_cpu_scratch_add(size_t total, uint64_t count, size_t item_size) {
    if (total > SIZE_MAX - 64 || count > (SIZE_MAX - 64 - total) / item_size) return SIZE_MAX;
    return total + (((size_t)count * item_size + 63) & ~(size_t)63);
}

/* --- moving elements --- */

static unsigned nibble(const void *data, int64_t index) {
    return (unsigned)(((const unsigned char *)data)[index >> 1] >> ((index & 1) * 4)) & 0xF;
}

static void set_nibble(void *data, int64_t index, unsigned value) {
    unsigned char *byte = (unsigned char *)data + (index >> 1);
    *byte = (unsigned char)(index & 1 ? (*byte & 0x0F) | value << 4 : (*byte & 0xF0) | value);
}

void qf_cpu_copy_run(uint32_t bits, void *to, int64_t to_offset, const void *from, int64_t from_offset, int64_t count) {
    if (count <= 0) return;
    if (bits == 4) {
        for (int64_t i = 0; i < count; i++) set_nibble(to, to_offset + i, nibble(from, from_offset + i));
        return;
    }
    int64_t size = bits / 8;
    memcpy((unsigned char *)to + to_offset * size, (const unsigned char *)from + from_offset * size,
           (size_t)(count * size));
}

#define COPY_ELEMENTS(type)                                                                                            \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type element;                                                                                                  \
        memcpy(&element, (const type *)from + from_offset + i * from_stride, sizeof element);                          \
        memcpy((type *)to + to_offset + i * to_stride, &element, sizeof element);                                      \
    }                                                                                                                  \
    return

static void copy_line(uint32_t bits, int64_t count, void *to, int64_t to_offset, int64_t to_stride, const void *from,
                      int64_t from_offset, int64_t from_stride) {
    if (to_stride == 1 && from_stride == 1) {
        qf_cpu_copy_run(bits, to, to_offset, from, from_offset, count);
        return;
    }
    switch (bits) {
    case 8: COPY_ELEMENTS(uint8_t);
    case 16: COPY_ELEMENTS(uint16_t);
    case 32: COPY_ELEMENTS(uint32_t);
    case 64: COPY_ELEMENTS(uint64_t);
    default:
        for (int64_t i = 0; i < count; i++)
            set_nibble(to, to_offset + i * to_stride, nibble(from, from_offset + i * from_stride));
    }
}

void qf_cpu_copy_strided(uint32_t bits, uint32_t rank, const int64_t *dims, void *to, int64_t to_offset,
                         const int64_t *to_strides, const void *from, int64_t from_offset,
                         const int64_t *from_strides) {
    int64_t sizes[QF_MAX_RANK + 1], to_steps[QF_MAX_RANK + 1], from_steps[QF_MAX_RANK + 1], at[QF_MAX_RANK + 1] = {0};
    uint32_t loops = 0;
    /* Drop axes of size one and merge neighbours that step alike on both sides. */
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0) return;
        if (dims[i] == 1) continue;
        if (loops && to_steps[loops - 1] == to_strides[i] * dims[i] &&
            from_steps[loops - 1] == from_strides[i] * dims[i])
            sizes[loops - 1] *= dims[i];
        else
            sizes[loops++] = dims[i];
        to_steps[loops - 1] = to_strides[i];
        from_steps[loops - 1] = from_strides[i];
    }
    if (loops == 0) sizes[loops] = 1, to_steps[loops] = 1, from_steps[loops++] = 1;
    for (;;) {
        copy_line(bits, sizes[loops - 1], to, to_offset, to_steps[loops - 1], from, from_offset, from_steps[loops - 1]);
        uint32_t axis = loops - 1;
        for (;;) {
            if (axis-- == 0) return;
            to_offset += to_steps[axis];
            from_offset += from_steps[axis];
            if (++at[axis] < sizes[axis]) break;
            to_offset -= to_steps[axis] * sizes[axis];
            from_offset -= from_steps[axis] * sizes[axis];
            at[axis] = 0;
        }
    }
}

void qf_cpu_fill(uint32_t bits, void *to, int64_t first, int64_t count, const void *value) {
    copy_line(bits, count, to, first, 1, value, 0, 0);
}
