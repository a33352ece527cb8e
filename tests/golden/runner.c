/* Owns: running golden files: a command line and its input against whole output, messages and exit code.
 * Does not own: the files (tests/golden/<folder>/<name>.golden), their format in words (README.md).
 * Next: README.md, scripts/bless.sh. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGUMENTS  64
#define SECONDS_A_CASE 60

enum { ARGS, INPUT, EXPECT, REMARKS, EXIT, SECTION_COUNT };
static const char *const section_names[SECTION_COUNT] = {"args", "input", "expect", "remarks", "exit"};

typedef struct text {
    char *data;
    size_t size;
} text;

static void die(const char *what, const char *name) {
    (void)fprintf(stderr, "golden: %s %s: %s\n", what, name, strerror(errno));
    exit(2);
}

static void append(text *to, const char *data, size_t size) {
    char *grown = realloc(to->data, to->size + size + 1);
    if (!grown) die("out of memory for", "text");
    if (size) memcpy(grown + to->size, data, size);
    to->data = grown;
    to->size += size;
    to->data[to->size] = '\0';
}

static text read_file(const char *path) {
    text result = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file) die("cannot open", path);
    char piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;) append(&result, piece, got);
    (void)fclose(file);
    append(&result, "", 0);
    return result;
}

/* The section that a line "--- name" opens, or -1. */
static int section_of(const char *line, size_t size) {
    if (size < 5 || memcmp(line, "--- ", 4) != 0) return -1;
    for (int i = 0; i < SECTION_COUNT; i++)
        if (strlen(section_names[i]) == size - 4 && memcmp(line + 4, section_names[i], size - 4) == 0) return i;
    return -1;
}

/* Reads the next case: comment lines before its args, then its sections. False at the end of the file. */
static bool read_case(const char *path, const char **cursor, text *comment, text sections[SECTION_COUNT]) {
    int current = -1;
    const char *at = *cursor;
    while (*at) {
        const char *end = strchr(at, '\n');
        size_t size = end ? (size_t)(end - at) : strlen(at), whole = end ? size + 1 : size;
        int opened = section_of(at, size);
        if (opened == ARGS && current >= 0) break;
        if (opened >= 0)
            current = opened;
        else if (size >= 4 && memcmp(at, "--- ", 4) == 0) {
            (void)fprintf(stderr, "golden: %s: unknown section '%.*s'\n", path, (int)size, at);
            exit(2);
        } else
            append(current < 0 ? comment : &sections[current], at, whole);
        at += whole;
    }
    *cursor = at;
    return current >= 0;
}

/* Splits at blanks; "..." keeps blanks. The pieces point into `line`, which changes. */
static int split(char *line, char *arguments[MAX_ARGUMENTS]) {
    int count = 0;
    for (char *at = line; *at && count < MAX_ARGUMENTS - 1;) {
        while (*at == ' ' || *at == '\t' || *at == '\n') at++;
        if (!*at) break;
        char *to = at;
        bool quoted = false;
        arguments[count++] = to;
        while (*at && (quoted || (*at != ' ' && *at != '\t' && *at != '\n'))) {
            if (*at == '"')
                quoted = !quoted;
            else
                *to++ = *at;
            at++;
        }
        if (*at) at++;
        *to = '\0';
    }
    arguments[count] = NULL;
    return count;
}

static int temporary(const char *content, size_t size) {
    const char *folder = getenv("TMPDIR");
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/qfuse_golden_XXXXXX", folder && *folder ? folder : "/tmp");
    int file = mkstemp(path);
    if (file < 0) die("cannot make", path);
    (void)unlink(path);
    while (size) {
        ssize_t written = write(file, content, size);
        if (written < 0) die("cannot write", path);
        content += written;
        size -= (size_t)written;
    }
    (void)lseek(file, 0, SEEK_SET);
    return file;
}

static void read_back(int file, text *out) {
    char piece[4096];
    (void)lseek(file, 0, SEEK_SET);
    for (ssize_t got; (got = read(file, piece, sizeof piece)) > 0;) append(out, piece, (size_t)got);
    append(out, "", 0);
    (void)close(file);
}

/* Runs the program on the case, in the folder of the golden file. */
static void run(const char *program, const char *folder, text sections[SECTION_COUNT], text found[SECTION_COUNT]) {
    char *arguments[MAX_ARGUMENTS], line[64];
    text args = {NULL, 0};
    append(&args, "qfuse ", 6);
    append(&args, sections[ARGS].data ? sections[ARGS].data : "", sections[ARGS].size);
    (void)split(args.data, arguments);
    int in = temporary(sections[INPUT].data ? sections[INPUT].data : "", sections[INPUT].size);
    int out = temporary("", 0), err = temporary("", 0), status = 0;
    pid_t child = fork();
    if (child < 0) die("cannot run", program);
    if (child == 0) {
        if (chdir(folder) != 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
        (void)alarm(SECONDS_A_CASE);
        (void)execv(program, arguments);
        _exit(127);
    }
    if (waitpid(child, &status, 0) < 0) die("cannot wait for", program);
    (void)close(in);
    read_back(out, &found[EXPECT]);
    read_back(err, &found[REMARKS]);
    if (WIFSIGNALED(status))
        (void)snprintf(line, sizeof line, "signal %d\n", WTERMSIG(status));
    else
        (void)snprintf(line, sizeof line, "%d\n", WEXITSTATUS(status));
    append(&found[EXIT], line, strlen(line));
    free(args.data);
}

static bool same(const text *a, const char *b) {
    return strcmp(a->data ? a->data : "", b) == 0;
}

/* Shows the first line that differs, then both texts. */
static void show_difference(const char *path, int number, const char *section, const char *expected,
                            const char *found) {
    int line = 1;
    for (const char *a = expected, *b = found; *a && *a == *b; a++, b++) line += *a == '\n';
    (void)printf("%s, case %d: %s differs from line %d on\n--- expected\n%s--- found\n%s", path, number, section, line,
                 expected, found);
}

static bool compare(const char *path, int number, text sections[SECTION_COUNT], text found[SECTION_COUNT]) {
    bool equal = true;
    for (int i = EXPECT; i < SECTION_COUNT; i++) {
        const char *expected = sections[i].data ? sections[i].data : i == EXIT ? "0\n" : "";
        if (same(&found[i], expected)) continue;
        show_difference(path, number, section_names[i], expected, found[i].data);
        equal = false;
    }
    return equal;
}

static void write_section(text *out, int section, const text *content) {
    if (!content->size) return;
    append(out, "--- ", 4);
    append(out, section_names[section], strlen(section_names[section]));
    append(out, "\n", 1);
    append(out, content->data, content->size);
    if (content->data[content->size - 1] != '\n') append(out, "\n", 1);
}

static bool file_passes(const char *program, const char *path, bool bless) {
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        (void)snprintf(folder, sizeof folder, ".");
    text file = read_file(path), blessed = {NULL, 0};
    const char *cursor = file.data;
    bool ok = true;
    int number = 0;
    for (;;) {
        text comment = {NULL, 0}, sections[SECTION_COUNT] = {{NULL, 0}}, found[SECTION_COUNT] = {{NULL, 0}};
        if (!read_case(path, &cursor, &comment, sections)) break;
        run(program, folder, sections, found);
        ok = compare(path, ++number, sections, found) && ok;
        append(&blessed, comment.data ? comment.data : "", comment.size);
        write_section(&blessed, ARGS, &sections[ARGS]);
        write_section(&blessed, INPUT, &sections[INPUT]);
        write_section(&blessed, EXPECT, &found[EXPECT]);
        write_section(&blessed, REMARKS, &found[REMARKS]);
        if (!same(&found[EXIT], "0\n")) write_section(&blessed, EXIT, &found[EXIT]);
        free(comment.data);
        for (int i = 0; i < SECTION_COUNT; i++) {
            free(sections[i].data);
            free(found[i].data);
        }
    }
    if (!number) {
        (void)printf("%s holds no case\n", path);
        ok = false;
    }
    if (bless && number && !same(&blessed, file.data)) {
        FILE *out = fopen(path, "wb");
        if (!out || fwrite(blessed.data, 1, blessed.size, out) != blessed.size || fclose(out) != 0)
            die("cannot write", path);
        (void)printf("blessed %s\n", path);
    }
    free(blessed.data);
    free(file.data);
    return ok;
}

int main(int count, char **arguments) {
    bool bless = count > 1 && strcmp(arguments[1], "--bless") == 0;
    int first = bless ? 2 : 1;
    if (count < first + 2) {
        (void)fprintf(stderr, "usage: golden_runner [--bless] PROGRAM FILE.golden...\n");
        return 2;
    }
    bool ok = true;
    for (int i = first + 1; i < count; i++) ok = file_passes(arguments[first], arguments[i], bless) && ok;
    return ok || bless ? 0 : 1;
}
