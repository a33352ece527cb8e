/* Owns: warnings, said once a kind: kept by their text, printed with the first place and how many more there were.
 * Does not own: errors and notes, which are printed as they come (main.c).
 * Next: main.c. */
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

struct tool_warning {
    char *message, *location;
    uint64_t count;
};

static char *copy_of(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static void print_warning(const char *location, const char *message, uint64_t count) {
    (void)fflush(stdout);
    if (*location) (void)fprintf(stderr, "%s: ", location);
    (void)fprintf(stderr, "warning: %s", message);
    if (count > 1)
        (void)fprintf(stderr, " (and %llu more place%s)", (unsigned long long)count - 1, count > 2 ? "s" : "");
    (void)fprintf(stderr, "\n");
}

/* More kinds than there is room for, and those that memory is short for, are printed at once. */
void tool_keep_warning(qf_tool *tool, const char *location, const char *message) {
    for (uint32_t i = 0; i < tool->warning_count; i++) {
        if (strcmp(tool->warnings[i].message, message) != 0) continue;
        tool->warnings[i].count++;
        return;
    }
    if (!tool->warnings) tool->warnings = calloc(TOOL_MAX_WARNINGS, sizeof *tool->warnings);
    struct tool_warning kept = {copy_of(message), copy_of(location), 1};
    if (tool->warnings && tool->warning_count < TOOL_MAX_WARNINGS && kept.message && kept.location) {
        tool->warnings[tool->warning_count++] = kept;
        return;
    }
    print_warning(location, message, 1);
    free(kept.message);
    free(kept.location);
}

void tool_print_warnings(qf_tool *tool) {
    for (uint32_t i = 0; i < tool->warning_count; i++) {
        struct tool_warning *warning = &tool->warnings[i];
        print_warning(warning->location, warning->message, warning->count);
        free(warning->message);
        free(warning->location);
    }
    free(tool->warnings);
    tool->warnings = NULL;
    tool->warning_count = 0;
}
