/* Owns: what a plan's launches are before they become text: recorded over addresses that stand for memory.
 * Does not own: the text (emit_text.c), the public function (emit.c).
 * Next: emit.c. */
#ifndef QF_RUNTIME_EMIT_H
#define QF_RUNTIME_EMIT_H

#include <qfuse/emit.h>

#include "runtime/cuda/actions.h"
#include "runtime/executor.h"

/* Every piece of memory stands at an address that no memory has and no size, float or double of a launch looks like:
 * piece i at QF_EMIT_BASE + i * QF_EMIT_STEP. */
#define QF_EMIT_BASE   ((uintptr_t)0x7A51000000000000u)
#define QF_EMIT_STEP   ((uintptr_t)1 << 40)
#define QF_EMIT_PIECES 4000u

/* State of the device that only records. */
typedef struct qf_emit_device {
    qf_context *context;
    qf_target target;
    uint32_t processor_count;
    qf_cuda_actions actions;
    uintptr_t next; /* address of the next piece */
    char *scratch, *zeroed;
    size_t scratch_size, zeroed_size;
} qf_emit_device;

extern const qf_device_interface qf_device_emit;

/* Where a piece lies in the emitted program: base pointer number `base`, plus `offset`. */
typedef struct qf_emit_piece {
    uintptr_t address;
    uint32_t base;
    uint64_t offset;
} qf_emit_piece;

typedef struct qf_emission {
    qf_context *context;
    const qf_plan *plan;
    const char *name;
    qf_executor *executor;
    qf_emit_device *device;
    qf_emit_piece *pieces;
    uint32_t piece_count, piece_capacity;
    uint64_t workspace_bytes, constants_offset, zeroed_offset; /* of the emitted workspace */
    qf_status status;
} qf_emission;

/* The piece that the address lies in (or just behind); false where it is no address of ours. */
bool qf_emission_find(const qf_emission *emission, uintptr_t address, uint32_t *out_base, uint64_t *out_offset);
/* The whole file. emission->status says whether it could be written. */
void qf_emission_print(qf_emission *emission, qf_buffer *out);

#endif
