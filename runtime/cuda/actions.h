/* Owns: the actions of a plan's steps, recorded and made ready, and enqueuing them.
 * Does not own: contexts, streams, memory (devices/cuda.c), what builders record (kernels/cuda).
 * Next: actions.c. */
#ifndef QF_RUNTIME_CUDA_ACTIONS_H
#define QF_RUNTIME_CUDA_ACTIONS_H

#include "runtime/cuda/blas.h"

typedef struct qf_cuda_ready {
    const qf_cuda_action *action;
    qf_cu_function function;
    qf_cu_launch_config config;
    qf_cu_launch_attribute attributes[3];
    qf_cublas_product product;
} qf_cuda_ready;

typedef struct qf_cuda_actions {
    qf_context *context;
    const qf_cuda_driver *driver;
    qf_cublas blas;
    bool blas_tried;
    qf_arena arena; /* of the actions; emptied at each recording */
    qf_kernel_step *steps;
    uint32_t *first; /* by step, count + 1 entries: index into ready */
    qf_cuda_ready *ready;
    uint32_t step_count, ready_count;
    qf_cu_module *modules; /* by image; NULL: not loaded */
    bool in_capture;       /* the caller's stream is being captured: no module may be loaded */
} qf_cuda_actions;

#define QF_CUDA_PREPARE_FIRST                                                                                          \
    "this run needs memory or kernels first: run the plan with these sizes, or call qf_executor_prepare before the "   \
    "capture"

/* Records every step and counts what it needs; `recorder` has the given part filled. May be called again. */
qf_status qf_cuda_actions_record(qf_cuda_actions *actions, qf_cuda_recorder *recorder, qf_kernel_step *steps,
                                 uint32_t count);
/* Loads kernels, encodes tensor maps, chooses products. *out_without_blas: cuBLASLt lacks a product; record again
 * without it. */
qf_status qf_cuda_actions_finish(qf_cuda_actions *actions, bool *out_without_blas);
/* Enqueues the actions of a step; a fault is described in the step's call.message. */
qf_status qf_cuda_actions_enqueue(qf_cuda_actions *actions, uint32_t step, qf_cu_stream stream);
bool qf_cuda_actions_want_blas(const qf_kernel_step *steps, uint32_t count);
void qf_cuda_actions_close(qf_cuda_actions *actions);

#endif
