/* Owns: the state that the parts of lowering share.
 * Does not own: the public entry point (compile.c), plans (plan/plan.h).
 * Next: compile.c for the order of the parts. */
#ifndef QF_CODEGEN_LOWER_H
#define QF_CODEGEN_LOWER_H

#include "ir/capability.h"
#include "ir/graph.h"
#include "plan/plan.h"

#define QF_NO_STEP UINT32_MAX

/* Where a graph value lies: in a storage (named by its root value), from a byte offset on. */
typedef struct qf_placement {
    qf_value root; /* 0: nowhere (token, unknown shape) */
    qf_dim offset; /* bytes; 0: none */
    bool whole;    /* covers all bytes of the root */
    bool alias;    /* its producer moves no byte and becomes no step */
} qf_placement;

/* Memory under one or more values, by root value's id. Joined storages (in-place updates) point at the first through
 * `joined`. */
typedef struct qf_storage {
    qf_value joined;      /* 0: stands for itself */
    uint32_t last_use;    /* step; QF_NO_STEP: none; the number of steps: it is an output's value */
    uint32_t first_write; /* step; QF_NO_STEP: an input, parameter or constant */
    qf_plan_buffer_kind kind;
    uint32_t index;  /* of input, output, parameter, constant or slot */
    uint32_t buffer; /* plan id, once made */
    uint32_t claim;  /* 1 + the input that it updates in place, should it become an output */
    uint32_t reason; /* plan string: why it updates no input in place */
} qf_storage;

typedef struct qf_lowering {
    qf_context *context;
    const qf_graph *graph;
    qf_plan *plan;
    qf_target target;
    qf_arena arena;
    uint32_t *expressions; /* by dim id: plan id, 0: not yet */
    uint32_t expression_capacity;
    uint32_t *symbols; /* by symbol id */
    uint32_t symbol_capacity;
    uint32_t *tensors;        /* by value id: plan id */
    qf_placement *placements; /* by value id */
    qf_storage *storages;     /* by root value id */
    uint32_t *step_of_node;   /* by node id; QF_NO_STEP: none */
    uint32_t *note_of_node;   /* plan string */
    uint32_t step_count;      /* of graph nodes; output copies follow */
    uint32_t slot_count;
} qf_lowering;

/* --- expressions.c --- */
/* Binds every symbol that inputs' shapes determine. */
bool qf_lower_symbols(qf_lowering *lowering);
/* Plan id of the dim; 0 on failure (recorded). */
uint32_t qf_lower_dim(qf_lowering *lowering, qf_dim dim);

/* --- placement.c --- */
/* Placements of all values, steps of all nodes. */
bool qf_lower_placements(qf_lowering *lowering);

/* --- memory.c --- */
/* Lives, in-place updates, outputs' memory, slots of the workspace. */
bool qf_lower_memory(qf_lowering *lowering);
/* The storage that a placed value lies in, joins followed. */
qf_storage *qf_lower_storage(const qf_lowering *lowering, qf_value value);

/* --- steps.c --- */
/* Buffers, tensors, interface, steps and guards of the plan. */
bool qf_lower_plan(qf_lowering *lowering);

#endif
