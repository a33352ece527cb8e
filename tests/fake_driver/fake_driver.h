/* Owns: how tests steer the fake driver; threads may use it side by side.
 * Does not own: the functions of the driver API (runtime/cuda/driver.def).
 * Next: fake_driver.c. */
#ifndef QF_TESTS_FAKE_DRIVER_H
#define QF_TESTS_FAKE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct qf_fake_state {
    int device_count, capability; /* 90: compute capability 9.0 */
    int processors;
    _Atomic uint64_t calls;
    uint64_t fail_at;                 /* the fail_at-th call fails; 0: none */
    bool capturing;                   /* the caller's stream is being captured by its owner */
    _Atomic uint64_t broken_captures; /* calls meanwhile that the driver refuses, and that end the owner's capture */
    const void *foreign;              /* an address that the driver does not know */
    _Atomic int64_t live;             /* contexts, streams, events, modules, graphs, memory blocks that exist */
    _Atomic int64_t live_bytes;
    _Atomic uint64_t launches, copies, graph_launches;
    _Atomic int context_depth; /* of the context stack; 0 between calls into the library */
} qf_fake_state;

/* Zeroes everything and sets one GPU of capability 9.0 with 132 multiprocessors. */
typedef qf_fake_state *(*qf_fake_reset_function)(void);

#endif
