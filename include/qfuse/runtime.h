/* Owns: running plans: executors, binding memory, running, reading results, timing; running one op by itself.
 * Does not own: plans (plan.h), tensors (tensor.h), devices' insides (runtime/device.h).
 * Next: tensor.h; examples/. */
#ifndef QFUSE_RUNTIME_H
#define QFUSE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>
#include <qfuse/ops.h>
#include <qfuse/plan.h>
#include <qfuse/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The state of running one plan: bound tensors, workspace, mapped weights. One thread at a time; executors of one plan,
 * each made with a context of its own, run side by side. */
typedef struct qf_executor qf_executor;

typedef struct qf_executor_options {
    size_t struct_size;
    const char *device;    /* "cpu", "cuda"; NULL: the one that the plan's target asks for */
    uint32_t thread_count; /* threads a kernel may use; 0: one */
    const char
        *weights_root; /* folder under which parameters' files lie; NULL: files are refused, the host binds all */
    bool time_steps;   /* measure every step (qf_executor_step_time) */
    bool check_hashes; /* compare parameters' bytes with the hash in the plan when mapped */
    void *stream;      /* the device's stream to launch on (CUstream); NULL: the default stream; NULL on the CPU */
    int32_t device_id; /* the GPU, by the driver's ordinal, where stream does not say it */
} qf_executor_options;

/* Makes an executor. `context` takes its memory and diagnostics and may differ from the plan's. `plan` must outlive it.
 * `options` may be NULL. Weights are mapped at the first run that needs them. On failure *out_executor is NULL. */
QF_API QF_MUST_USE qf_status qf_executor_create(qf_context *context, const qf_plan *plan,
                                                const qf_executor_options *options, qf_executor **out_executor);
/* Unmaps weights and frees workspace and outputs that it owns. NULL is allowed. On a GPU it waits for what runs, which
 * ends a capture of the executor's stream that the host has going: call qf_executor_wait before such a capture begins,
 * and destroy an executor that took part in one only when no capture of its stream is going. */
QF_API void qf_executor_destroy(qf_executor *executor);

/* Binds input `index`. dtype and rank must be the plan's; sizes are checked at the next run. The memory is borrowed
 * until it is bound again or the executor is destroyed, is read by runs, and is written only where the same memory is
 * bound to an output. */
QF_API QF_MUST_USE qf_status qf_executor_bind_input(qf_executor *executor, uint32_t index, const qf_tensor *tensor);
/* Binds memory for output `index`, borrowed likewise; its dims must be those of the result. Optional: an output that is
 * not bound (or bound to NULL) goes to memory of the executor. The memory may be that of an input exactly where
 * qf_plan_output names that input as `in_place` (a KV cache that is updated where it lies); any other overlap is
 * refused at the next run. */
QF_API QF_MUST_USE qf_status qf_executor_bind_output(qf_executor *executor, uint32_t index, const qf_tensor *tensor);
/* Binds a weight by name, in place of its file. dtype and dims must be the plan's. Borrowed. */
QF_API QF_MUST_USE qf_status qf_executor_bind_parameter(qf_executor *executor, const char *name,
                                                        const qf_tensor *tensor);
/* Gives a value to a symbol that no input's shape determines. */
QF_API QF_MUST_USE qf_status qf_executor_bind_symbol(qf_executor *executor, const char *name, int64_t value);

/* Checks shapes and guards, then runs every step. Allocates only where sizes changed since the last run and no earlier
 * run needed as much. A broken guard gives QF_ERROR_GUARD and names both sizes; nothing ran then. A step that cannot
 * run (an opaque op) gives QF_ERROR_UNSUPPORTED with its location before anything ran. Reads no values on the host
 * beyond what CPU kernels read: scales, lengths and tables may change in place between runs.
 *
 * On a GPU it enqueues on the stream and returns: results are there when the stream gets that far (qf_executor_wait).
 * It neither waits nor, once prepared, allocates, so a host may capture it into a CUDA graph of its own, on the
 * executor's stream: run or prepare it with the same sizes before. In the capture other addresses may be bound; what
 * needs memory is refused before it harms the capture. The host's graph may be replayed as long as the executor lives
 * and the bound memory is there; memory that later runs outgrow is kept for it. Steps that the GPU runs as one launch
 * report their time with the first. Values that the CPU would refuse (indices, slots, pages, lengths out of range) read
 * as zero or write nothing. */
QF_API QF_MUST_USE qf_status qf_executor_run(qf_executor *executor);
/* Records the plan into a graph of the device (a CUDA graph), which later runs replay with one launch. Sizes and
 * addresses are frozen: binding another fails with QF_ERROR_INVALID_ARGUMENT until qf_executor_drop_capture; what lies
 * behind the addresses (lengths, page tables, scales, activations) may change between replays. Step times are not
 * measured while captured. QF_ERROR_UNSUPPORTED on the CPU. */
QF_API QF_MUST_USE qf_status qf_executor_capture(qf_executor *executor);
/* Waits for what runs, as qf_executor_destroy does: not while the host captures the stream. */
QF_API void qf_executor_drop_capture(qf_executor *executor);
/* Waits until every run so far has finished. Returns the faults that the GPU met meanwhile. */
QF_API QF_MUST_USE qf_status qf_executor_wait(qf_executor *executor);
/* The shapes, guards and memory of a run without running. After it, qf_executor_output gives outputs' shapes. */
QF_API QF_MUST_USE qf_status qf_executor_prepare(qf_executor *executor);
/* Output `index` of the last run (or prepare); data points to the bound memory or to the executor's, valid until the
 * next run. */
QF_API QF_MUST_USE qf_status qf_executor_output(qf_executor *executor, uint32_t index, qf_tensor *out_tensor);

/* Sizes of the last prepare, in bytes. */
typedef struct qf_executor_memory {
    size_t struct_size;
    uint64_t workspace_bytes; /* intermediates, with reuse */
    uint64_t unshared_bytes;  /* what they would take without reuse */
    uint64_t scratch_bytes;   /* for kernels while they run */
    uint64_t output_bytes;    /* outputs that the executor holds */
    uint64_t mapped_bytes;    /* weights mapped from files */
} qf_executor_memory;
QF_API void qf_executor_memory_use(const qf_executor *executor, qf_executor_memory *out_memory);
/* Nanoseconds of step `index` in the last run; 0 without time_steps. */
QF_API uint64_t qf_executor_step_time(const qf_executor *executor, uint32_t index);

/* Called after each step with its operands and results (data NULL: an absent optional one). Tensors live until it
 * returns. A status other than QF_OK stops the run, which then returns it. Must not use the executor. NULL removes it.
 */
typedef qf_status (*qf_step_observer)(void *user, uint32_t step, const qf_tensor *operands, uint32_t operand_count,
                                      const qf_tensor *results, uint32_t result_count);
QF_API void qf_executor_observe(qf_executor *executor, qf_step_observer observer, void *user);

/* An attribute of an op with every dim evaluated, in the order of docs/ops.md. */
typedef struct qf_op_attribute {
    union {
        int64_t integer;     /* BOOL, INT, DTYPE, ENUM, DIM */
        double number;       /* FLOAT */
        const char *string;  /* STRING, NUL-terminated */
        const int64_t *ints; /* INTS, DIMS */
        const void *bytes;   /* LITERAL */
    } value;
    uint64_t count; /* INTS, DIMS: items; LITERAL: bytes */
} qf_op_attribute;

/* Runs one op on the CPU, in host memory. Operands: in table order; dtype QF_DTYPE_NONE: absent. Results: dtype, shape
 * and memory are the caller's; shapes that do not follow from the operands fail with QF_ERROR_INVALID_ARGUMENT. */
QF_API QF_MUST_USE qf_status qf_op_run(qf_context *context, qf_op op, const qf_tensor *operands, uint32_t operand_count,
                                       const qf_op_attribute *attributes, uint32_t attribute_count,
                                       const qf_tensor *results, uint32_t result_count, uint32_t thread_count);

#ifdef __cplusplus
}
#endif

#endif
