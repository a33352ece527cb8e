/* Owns: writing a plan for a GPU as a C source file that makes its launches.
 * Does not own: plans (plan.h), running them through the library (runtime.h).
 * Next: plan.h; examples/emitted/. */
#ifndef QFUSE_EMIT_H
#define QFUSE_EMIT_H

#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>
#include <qfuse/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a size. */
typedef struct qf_emit_size {
    const char *name; /* of a symbol of the plan */
    int64_t value;
} qf_emit_size;

typedef struct qf_emit_options {
    size_t struct_size;
    const char *name;          /* prefix of every name in the file, a C identifier; NULL: "plan" */
    const qf_emit_size *sizes; /* of symbols; those that follow from others need no value */
    uint32_t size_count;
    uint32_t processor_count; /* multiprocessors that launches are shaped for; 0: the usual card of the target. The
                                 program refuses a card with fewer. */
} qf_emit_options;

/* Writes C11 that needs no header of CUDA and no library but the driver's (libcuda): the launches of the plan for the
 * given sizes, with the kernels' images and the plan's constants as arrays. How it is called stands at its head:
 * pointers of inputs, outputs, weights and one workspace are arguments. An output that may share an input's memory
 * (qf_plan_output) does so. Products are kernels of QFuse, not cuBLASLt.
 *
 * QF_ERROR_INVALID_ARGUMENT: a plan for the CPU, an unknown name among `sizes`, a size without a value, `name` is no
 * identifier, a processor_count above 2^31 - 1; QF_ERROR_GUARD: sizes that the plan does not allow;
 * QF_ERROR_UNSUPPORTED: a step without a kernel; QF_ERROR_DEVICE: the library was built without the kernels that are
 * needed. Nothing is written then. */
QF_API QF_MUST_USE qf_status qf_plan_emit_c(qf_context *context, const qf_plan *plan, const qf_emit_options *options,
                                            qf_write_function write, void *user);

#ifdef __cplusplus
}
#endif

#endif
