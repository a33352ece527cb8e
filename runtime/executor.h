/* Owns: the state of an executor, shared by its parts.
 * Does not own: the public functions (executor.c).
 * Next: prepare.c, executor.c. */
#ifndef QF_RUNTIME_EXECUTOR_H
#define QF_RUNTIME_EXECUTOR_H

#include "plan/plan.h"
#include "runtime/device.h"
#include "runtime/weights.h"

/* An input, output or parameter as bound by the host. */
typedef struct qf_binding {
    qf_tensor tensor;
    bool bound;
} qf_binding;

/* Memory of the device that the executor holds and grows. */
typedef struct qf_owned {
    void *data;
    size_t size;
} qf_owned;

/* Arrays have one entry an item of the plan and are made once; sizes of tensors never change them. */
struct qf_executor {
    qf_context *context;
    const qf_plan *plan;
    const qf_device_interface *device;
    void *device_state;
    uint32_t thread_count;
    int32_t device_id;
    bool check_hashes, time_steps;
    qf_arena arena;
    qf_weights weights;

    qf_binding *inputs, *outputs, *parameters;
    bool *host_bound; /* symbols that the host gave */
    int64_t *symbols; /* values; HOST ones are set when bound */
    int64_t *values;  /* of expressions */
    uint64_t *tensor_bytes;
    void **addresses; /* of buffers */
    uint64_t *slot_sizes, *slot_offsets;
    qf_kernel_step *steps;
    qf_view *views; /* of references */
    qf_kernel_attribute *attributes;
    int64_t *dim_values;        /* of plan->dims, for DIMS attributes */
    qf_owned *parameter_memory; /* device copies, where weights cannot be used where they lie */
    qf_owned *output_memory;
    qf_owned constants, workspace;
    uint64_t scratch_bytes; /* held by the device */
    qf_plan_life *lives;    /* of buffers */
    uint32_t *last_uses;    /* of references that are results */
    uint64_t unshared_bytes;
    uint32_t cannot_run; /* 1 + the first step without a kernel; 0: all run */
    bool weights_ready, prepared, captured;
    char message[512]; /* where kernels describe faults */

    qf_step_observer observer;
    void *observer_user;
    qf_tensor *observed; /* room for the longest step's operands and results */
};

/* qf_executor_create on a given device instead of one from the list. */
qf_status qf_executor_create_on(qf_context *context, const qf_plan *plan, const qf_executor_options *options,
                                const qf_device_interface *device, qf_executor **out_executor);
/* --- prepare.c: everything that depends on sizes --- */
qf_status qf_executor_prepare_all(qf_executor *executor);
/* The value of a symbol that follows from earlier ones; false where it has none. */
bool qf_executor_derive(const qf_executor *executor, const qf_plan_symbol_record *record, int64_t *out_value);
/* --- memory.c: workspace, outputs, weights, overlap --- */
qf_status qf_executor_place(qf_executor *executor);

/* --- dtypes.c: false where a kernel would move elements between tensors of different types --- */
bool qf_dtypes_agree(const qf_kernel_call *call);

qf_position qf_step_position(const qf_executor *executor, uint32_t step);

#endif
