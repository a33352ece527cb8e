/* Owns: how a kernel is called, and the table from op to CPU kernel.
 * Does not own: the kernels (cpu/, cuda/), tensors of the public run-time API (runtime/).
 * Next: cpu/cpu.h, cuda/launch.h. */
#ifndef QF_KERNELS_KERNEL_H
#define QF_KERNELS_KERNEL_H

#include "spec/kernels.h"

/* A contiguous row-major tensor in the device's memory. An absent optional operand or result is all zero; an empty
 * tensor is present and its data is not NULL. */
typedef struct qf_view {
    qf_dtype dtype;
    uint32_t rank;
    int64_t dims[QF_MAX_RANK];
    void *data;
} qf_view;

/* Stands for the data of an empty tensor that has no memory: no address of the host nor of a device, so that reading or
 * writing there is a fault of the processor. Aligned for every type. */
#define QF_EMPTY_ADDRESS ((uintptr_t)0x7A50000000000000u)

/* An attribute with every dim evaluated. Strings are NUL-terminated. */
typedef struct qf_kernel_attribute {
    union {
        int64_t integer; /* BOOL, INT, DTYPE, ENUM, DIM */
        double number;
        const char *string;
        const int64_t *ints; /* INTS, DIMS */
        const void *bytes;   /* LITERAL */
    };
    uint64_t count; /* INTS, DIMS: items; LITERAL: bytes */
} qf_kernel_attribute;

/* Memory a kernel may use while it runs; the result of qf_cpu_scratch_size bytes, aligned to 64. */
typedef struct qf_kernel_call {
    qf_op op;
    uint32_t operand_count, result_count;
    const qf_view *operands;
    qf_view *results;                      /* shapes are given; data to be written in full */
    const qf_kernel_attribute *attributes; /* table order: attributes[QF_ATTR(softmax, axis)] */
    void *scratch;
    uint32_t thread_count; /* >= 1: threads a kernel may use */
    char *message;         /* a fault is described here */
    size_t message_size;
} qf_kernel_call;

/* One step of a plan with sizes and addresses filled in. Views hold addresses of the device. */
typedef struct qf_kernel_step {
    const qf_kernel_row *row;
    qf_kernel_call call;
    /* By result: the last step (its number in the plan) that touches the result's memory while it holds the result;
     * UINT32_MAX: it is read after the plan (an output), or is observed. */
    const uint32_t *last_uses;
    const char *location; /* in the source, for messages; NULL: unknown */
} qf_kernel_step;

/* QF_OK, or QF_ERROR_INVALID_ARGUMENT / QF_ERROR_UNSUPPORTED with message filled. Shapes were inferred by ir/infer, but
 * values (indices, slots, block tables) come from users: out of range is a fault, never a wild access. Allocates
 * nothing. */
typedef qf_status (*qf_cpu_kernel)(const qf_kernel_call *call);

/* NULL for ops without a CPU kernel. */
qf_cpu_kernel qf_cpu_kernel_of(qf_op op);
/* Scratch bytes that the call needs (data pointers are not looked at). */
size_t qf_cpu_scratch_size(const qf_kernel_call *call);

#endif
