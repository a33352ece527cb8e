/* Owns: the context (allocator, diagnostic sink, interned names), version, located diagnostics.
 * Does not own: graphs (graph.h), plans (plan.h).
 * Next: graph.h. */
#ifndef QFUSE_CONTEXT_H
#define QFUSE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include <qfuse/export.h>
#include <qfuse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QF_VERSION_MAJOR 0
#define QF_VERSION_MINOR 1
#define QF_VERSION_PATCH 0

/* "0.1.0" of the library in use, which may be newer than the header. Static storage. Any thread. */
QF_API const char *qf_version(void);

/* A context owns strings, types, dims, the diagnostic sink and the allocator. One thread at a time uses a context and
 * what was made from it; several contexts run side by side. */
typedef struct qf_context qf_context;

/* One function for all memory, in the manner of Lua: new_size 0 frees `pointer` and returns NULL; pointer NULL
 * allocates; otherwise resizes and keeps the first min(old_size, new_size) bytes. Returns NULL when it cannot; then the
 * old block stays valid. Results are aligned for any C object. It must not call into QFuse. */
typedef void *(*qf_reallocate_function)(void *user, void *pointer, size_t old_size, size_t new_size);

typedef struct qf_allocator {
    qf_reallocate_function reallocate;
    void *user;
} qf_allocator;

typedef enum qf_severity {
    QF_SEVERITY_ERROR = 0,
    QF_SEVERITY_WARNING = 1,
    QF_SEVERITY_REMARK = 2,
    QF_SEVERITY_NOTE = 3
} qf_severity;

/* One message. `location` is "file:line:column", an importer's node name, or "" where there is none. All strings are
 * NUL-terminated, belong to the library and live until the handler returns. `source_line` is the text of the line for
 * excerpts ("" if unknown) and `column` counts from 1 (0 if unknown). */
typedef struct qf_diagnostic {
    size_t struct_size;
    qf_severity severity;
    qf_status status; /* QF_OK for remarks and notes */
    const char *location;
    const char *message;
    const char *source_line;
    uint32_t column;
} qf_diagnostic;

/* Called synchronously on the thread that uses the context; must not call into QFuse. */
typedef void (*qf_diagnostic_handler)(void *user, const qf_diagnostic *diagnostic);

typedef struct qf_context_options {
    size_t struct_size;
    qf_allocator allocator;        /* default: malloc family */
    qf_diagnostic_handler handler; /* default: diagnostics are dropped, statuses remain */
    void *handler_user;
} qf_context_options;

/* Makes a context; `options` may be NULL. On failure *out_context is NULL. The caller destroys it. */
QF_API QF_MUST_USE qf_status qf_context_create(const qf_context_options *options, qf_context **out_context);

/* Frees the context. Graphs, plans and executors made from it must be destroyed before. NULL is allowed. */
QF_API void qf_context_destroy(qf_context *context);

/* The first failure since the last qf_context_clear_status, or QF_OK. Constructors that return 0 record theirs here. */
QF_API qf_status qf_context_status(const qf_context *context);
QF_API void qf_context_clear_status(qf_context *context);

#ifdef __cplusplus
}
#endif

#endif
