/* Owns: the public launch plan: loading, saving, printing, reading its interface.
 * Does not own: making one from a graph (codegen.h), running it (runtime.h), the data model (plan/plan.h).
 * Next: runtime.h; docs/plan.md for the file format. */
#ifndef QFUSE_PLAN_H
#define QFUSE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>
#include <qfuse/dtype.h>
#include <qfuse/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ordered steps with everything that running them needs: symbols, buffers, constants, references to weights, guards.
 * Immutable once made; any number of threads may read it and run executors of it. Memory comes from the context that
 * made it, which must outlive it; making and destroying count as uses of that context. */
typedef struct qf_plan qf_plan;

/* 128 bits over graph text, rules, pipeline, target and numerics (codegen.h). Equal inputs give equal fingerprints on
 * every machine. It identifies; it does not authenticate. */
typedef struct qf_fingerprint {
    uint8_t bytes[16];
} qf_fingerprint;

/* Receives a run of bytes of a text or file. Must not call into QFuse. */
typedef void (*qf_write_function)(void *user, const char *data, size_t size);

/* Reads a plan. The bytes are not trusted: every offset, id, extent, dtype, op and attribute is checked; a fault gives
 * QF_ERROR_PARSE or QF_ERROR_VERIFY and one diagnostic "section[index]: expected, found". Another major format version
 * is refused with QF_ERROR_VERSION, another minor one of the same major loads. Takes at most 8 bytes of memory a byte
 * of input, plus 64 KiB. The bytes are not needed afterwards. On failure *out_plan is NULL. */
QF_API QF_MUST_USE qf_status qf_plan_from_bytes(qf_context *context, const void *data, size_t size, qf_plan **out_plan);
/* The same from a regular file of at most 1 GiB. */
QF_API QF_MUST_USE qf_status qf_plan_load(qf_context *context, const char *path, qf_plan **out_plan);
/* Writes the binary form, in one or more runs. */
QF_API QF_MUST_USE qf_status qf_plan_to_bytes(qf_context *context, const qf_plan *plan, qf_write_function write,
                                              void *user);
/* Writes `path` by way of a temporary file beside it and a rename, so that readers see the old plan or the new one. */
QF_API QF_MUST_USE qf_status qf_plan_save(qf_context *context, const qf_plan *plan, const char *path);
/* Writes the readable dump. Its form is for people and may change; equal plans give equal text. */
QF_API QF_MUST_USE qf_status qf_plan_print(qf_context *context, const qf_plan *plan, qf_write_function write,
                                           void *user);
/* Executors of the plan must be destroyed before. NULL is allowed. */
QF_API void qf_plan_destroy(qf_plan *plan);

/* Reading. Any thread. Strings are NUL-terminated and live as long as the plan. Indices out of range give "", 0 or
 * false. */
QF_API qf_fingerprint qf_plan_fingerprint(const qf_plan *plan);
QF_API const char *qf_plan_target(const qf_plan *plan); /* "cpu", "sm_90a" */
QF_API uint32_t qf_plan_input_count(const qf_plan *plan);
QF_API uint32_t qf_plan_output_count(const qf_plan *plan);
QF_API uint32_t qf_plan_parameter_count(const qf_plan *plan);
QF_API uint32_t qf_plan_symbol_count(const qf_plan *plan);
QF_API uint32_t qf_plan_step_count(const qf_plan *plan);

/* An input, output or parameter. A dim is -1 where it depends on symbols; qf_plan_print shows the expression. */
typedef struct qf_plan_tensor_info {
    const char *name; /* "" where unnamed */
    qf_dtype dtype;
    uint32_t rank; /* UINT32_MAX: the shape is unknown, and the plan cannot run */
    int64_t dims[8];
    const char *file;   /* parameters: the file that holds the bytes, "" if the host must bind it */
    uint64_t offset;    /* parameters: where in the file */
    uint64_t size;      /* parameters: bytes */
    int32_t in_place;   /* outputs: the input whose memory may be bound to this output too, or -1 */
    const char *reason; /* outputs: why no input may share its memory, where one was considered; else "" */
} qf_plan_tensor_info;

QF_API bool qf_plan_input(const qf_plan *plan, uint32_t index, qf_plan_tensor_info *out_info);
QF_API bool qf_plan_output(const qf_plan *plan, uint32_t index, qf_plan_tensor_info *out_info);
QF_API bool qf_plan_parameter(const qf_plan *plan, uint32_t index, qf_plan_tensor_info *out_info);
/* The index of the input or output of this name, or -1. */
QF_API int32_t qf_plan_find_input(const qf_plan *plan, const char *name);
QF_API int32_t qf_plan_find_output(const qf_plan *plan, const char *name);
QF_API const char *qf_plan_symbol(const qf_plan *plan, uint32_t index);

typedef struct qf_plan_step_info {
    qf_op op;
    uint64_t tag;         /* of the graph node that the step came from; 0: made by the compiler */
    const char *kernel;   /* the row of the kernel table; "none": the step cannot run */
    const char *location; /* source place */
    const char *result;   /* name of the first result, "" if unnamed */
    uint32_t operand_count, result_count;
} qf_plan_step_info;
QF_API bool qf_plan_step(const qf_plan *plan, uint32_t index, qf_plan_step_info *out_info);

#ifdef __cplusplus
}
#endif

#endif
