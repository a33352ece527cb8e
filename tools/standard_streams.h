/* Owns: what programs make sure of before they open a file: that its number is not one of the standard streams'.
 * Does not own: what is read from them and written to them.
 * Next: main.c, mlir/main.c. */
#ifndef QF_TOOLS_STANDARD_STREAMS_H
#define QF_TOOLS_STANDARD_STREAMS_H

#include <fcntl.h>
#include <unistd.h>

/* The next file takes the lowest free number: where a caller closed a stream, what is printed would go into that file.
 * Open for reading only, so that writing to a closed stream still fails. */
static inline void tool_reserve_standard_streams(void) {
    int file;
    do file = open("/dev/null", O_RDONLY);
    while (file >= 0 && file <= STDERR_FILENO);
    if (file >= 0) (void)close(file);
}

#endif
