/* Owns: making loops: merging, widening elements, constants of division.
 * Does not own: which loops an op needs (the builders).
 * Next: loops.h. */
#include "kernels/cuda/loops.h"

#include "base/type.h"

_Static_assert(QF_CUDA_MOST_LOOPS >= QF_MAX_RANK, "an axis may need a loop of its own");

void qf_cuda_division(int64_t size, uint32_t *out_magic, uint32_t *out_shift) {
    uint32_t shift = 0;
    while (((int64_t)1 << shift) < size) shift++;
    *out_shift = shift;
    *out_magic = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - (uint64_t)size)) / (uint64_t)size + 1);
}

static void finish(qf_cuda_loops *loops) {
    loops->count = 1;
    for (uint32_t i = 0; i < loops->rank; i++) loops->count *= loops->loop[i].size;
    loops->narrow = loops->count < INT32_MAX;
    for (uint32_t i = 0; i < loops->rank; i++) {
        qf_cuda_loop *loop = &loops->loop[i];
        loop->magic = loop->shift = 0;
        if (loop->size > 0 && loop->size < INT32_MAX) qf_cuda_division(loop->size, &loop->magic, &loop->shift);
    }
}

/* Inner loops first. */
static void append(qf_cuda_loops *loops, int64_t size, int64_t from, int64_t to) {
    qf_cuda_loop *inner = loops->rank ? &loops->loop[loops->rank - 1] : NULL;
    if (size == 1) return;
    if (inner && from == inner->from * inner->size && to == inner->to * inner->size)
        inner->size *= size;
    else
        loops->loop[loops->rank++] = (qf_cuda_loop){.size = size, .from = from, .to = to};
}

void qf_cuda_loops_make(qf_cuda_loops *loops, uint32_t rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to) {
    *loops = (qf_cuda_loops){0};
    for (uint32_t i = rank; i-- > 0;) append(loops, dims[i], from[i], to[i]);
    finish(loops);
}

void qf_cuda_loops_keep(qf_cuda_loops *loops, uint32_t rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to) {
    *loops = (qf_cuda_loops){.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        loops->loop[i] = (qf_cuda_loop){.size = dims[rank - 1 - i], .from = from[rank - 1 - i], .to = to[rank - 1 - i]};
    finish(loops);
}

static bool divides(uint64_t unit, const qf_cuda_loops *loops) {
    if (loops->loop[0].size % (int64_t)unit) return false;
    for (uint32_t i = 1; i < loops->rank; i++)
        if (loops->loop[i].from % (int64_t)unit || loops->loop[i].to % (int64_t)unit) return false;
    return true;
}

uint32_t qf_cuda_loops_widen(qf_cuda_loops *loops, uint32_t element_bytes, uint64_t addresses) {
    uint32_t unit = 1; /* elements */
    if (!loops->rank || loops->loop[0].from != 1 || loops->loop[0].to != 1) return element_bytes;
    while (unit * 2 * element_bytes <= 16 && addresses % (unit * 2 * element_bytes) == 0 && divides(unit * 2, loops))
        unit *= 2;
    qf_cuda_loops narrow = *loops;
    loops->rank = 0;
    append(loops, narrow.loop[0].size / unit, 1, 1);
    for (uint32_t i = 1; i < narrow.rank; i++)
        append(loops, narrow.loop[i].size, narrow.loop[i].from / unit, narrow.loop[i].to / unit);
    finish(loops);
    return unit * element_bytes;
}

uint32_t qf_cuda_loops_repeat(qf_cuda_loops *loops, uint32_t element_bytes, uint64_t destination) {
    uint32_t unit = 1;
    while (unit * 2 * element_bytes <= 16 && destination % (unit * 2 * element_bytes) == 0) {
        bool fits = loops->loop[0].size % (int64_t)(unit * 2) == 0;
        for (uint32_t i = 1; i < loops->rank; i++) fits = fits && loops->loop[i].to % (int64_t)(unit * 2) == 0;
        if (!fits) break;
        unit *= 2;
    }
    loops->loop[0].size /= unit;
    for (uint32_t i = 1; i < loops->rank; i++) loops->loop[i].to /= unit;
    finish(loops);
    return unit;
}
