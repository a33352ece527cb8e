/* Owns: the status codes that every fallible function returns, in one table.
 * Does not own: the located messages that go with them (context.h).
 * Next: context.h. */
#ifndef QFUSE_STATUS_H
#define QFUSE_STATUS_H

#include <qfuse/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* number, enumerator, name, what it means. Numbers are never reused. */
#define QF_STATUS_TABLE(X)                                                                                             \
    X(0, QF_OK, "ok", "success")                                                                                       \
    X(1, QF_ERROR_OUT_OF_MEMORY, "out_of_memory", "the allocator returned nothing")                                    \
    X(2, QF_ERROR_INVALID_ARGUMENT, "invalid_argument", "the caller broke a documented precondition")                  \
    X(3, QF_ERROR_PARSE, "parse", "input bytes do not have the form that the format asks for")                         \
    X(4, QF_ERROR_VERIFY, "verify", "a graph, rule or plan breaks an invariant")                                       \
    X(5, QF_ERROR_UNSUPPORTED, "unsupported", "well formed, but outside of what is implemented")                       \
    X(6, QF_ERROR_IO, "io", "a file could not be read or written")                                                     \
    X(7, QF_ERROR_LIMIT, "limit", "input exceeds a documented limit on size, depth or count")                          \
    X(8, QF_ERROR_NOT_FOUND, "not_found", "a name, file or symbol does not exist")                                     \
    X(9, QF_ERROR_VERSION, "version", "written by an incompatible version")                                            \
    X(10, QF_ERROR_GUARD, "guard", "a size assumed at compile time does not hold for these inputs")                    \
    X(11, QF_ERROR_DEVICE, "device", "the device or its driver is missing or failed")                                  \
    X(12, QF_ERROR_INTERNAL, "internal", "a bug in QFuse")

typedef enum qf_status {
#define X(number, enumerator, name, meaning) enumerator = number,
    QF_STATUS_TABLE(X)
#undef X
} qf_status;

/* The name of a status ("parse"), or "unknown". Static storage. Any thread. */
QF_API const char *qf_status_name(qf_status status);

#ifdef __cplusplus
}
#endif

#endif
