/* Owns: the macros that mark exported functions and must-use results.
 * Does not own: anything else; every other public header includes this one.
 * Next: status.h. */
#ifndef QFUSE_EXPORT_H
#define QFUSE_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define QF_API                                  __attribute__((visibility("default")))
#define QF_MUST_USE                             __attribute__((warn_unused_result))
#define QF_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define QF_API
#define QF_MUST_USE
#define QF_PRINTF(format_index, first_argument)
#endif

#endif
