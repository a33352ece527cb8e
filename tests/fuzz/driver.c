/* Owns: running a fuzzer without libFuzzer: every file of a corpus, then a fixed number of mutations from a fixed seed.
 * Does not own: what an input means (<name>_fuzz.c).
 * Next: fuzz.h. Usage: [FUZZ_SECONDS=N] fuzzer CORPUS [MUTATIONS [SEED [FIRST]]]; with FUZZ_SECONDS it goes on for that
 * long, whatever the number of mutations; a failure names the mutation to start from. */
#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define MAX_INPUTS 1024
#define MAX_SIZE   ((size_t)1 << 16)

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

static input corpus[MAX_INPUTS];
static size_t corpus_count;
static uint64_t current, seed; /* for the message of a failure */

static uint64_t mix(uint64_t *state) {
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static size_t below(uint64_t *state, size_t limit) {
    return limit ? (size_t)(mix(state) % limit) : 0;
}

static void read_input(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || corpus_count == MAX_INPUTS) return;
    input *in = &corpus[corpus_count++];
    in->data = malloc(MAX_SIZE);
    FUZZ_CHECK(in->data);
    in->size = fread(in->data, 1, MAX_SIZE, file);
    (void)fclose(file);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In order of names, so that a seed means the same everywhere. */
static void read_corpus(const char *folder) {
    char *paths[MAX_INPUTS];
    size_t count = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && count < MAX_INPUTS && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        size_t size = strlen(folder) + strlen(entry->d_name) + 2;
        paths[count] = malloc(size);
        FUZZ_CHECK(paths[count]);
        (void)snprintf(paths[count++], size, "%s/%s", folder, entry->d_name);
    }
    if (directory) (void)closedir(directory);
    if (count) qsort(paths, count, sizeof *paths, by_name);
    for (size_t i = 0; i < count; i++) {
        read_input(paths[i]);
        free(paths[i]);
    }
}

static void cut(input *in, size_t at, size_t size) {
    memmove(in->data + at, in->data + at + size, in->size - at - size);
    in->size -= size;
}

static void put(input *in, size_t at, const uint8_t *data, size_t size) {
    if (in->size + size > MAX_SIZE) return;
    memmove(in->data + at + size, in->data + at, in->size - at);
    memcpy(in->data + at, data, size);
    in->size += size;
}

static void mutate(input *in, uint64_t *state) {
    static const char *const none[] = {NULL};
    const char *const *words = qf_fuzz_dictionary() ? qf_fuzz_dictionary() : none;
    size_t word_count = 0, at = below(state, in->size + 1), size = below(state, 16) + 1;
    while (words[word_count]) word_count++;
    uint8_t piece[64];
    switch (below(state, 8)) {
    case 0:
        if (in->size) in->data[below(state, in->size)] ^= (uint8_t)(1u << below(state, 8));
        break;
    case 1:
        if (in->size) in->data[below(state, in->size)] = (uint8_t)mix(state);
        break;
    case 2: cut(in, at, size < in->size - at ? size : in->size - at); break;
    case 3:
        for (size_t i = 0; i < size; i++) piece[i] = (uint8_t)mix(state);
        put(in, at, piece, size);
        break;
    case 4: { /* a piece of itself again */
        size_t from = below(state, in->size + 1);
        size = size < in->size - from ? size : in->size - from;
        if (size) memcpy(piece, in->data + from, size);
        put(in, at, piece, size);
        break;
    }
    case 5:
        if (word_count) {
            const char *word = words[below(state, word_count)];
            put(in, at, (const uint8_t *)word, strlen(word));
        }
        break;
    case 6: { /* the tail of another input */
        const input *other = &corpus[below(state, corpus_count)];
        size_t from = below(state, other->size + 1);
        in->size = at;
        size = other->size - from < MAX_SIZE - at ? other->size - from : MAX_SIZE - at;
        put(in, at, other->data + from, size);
        break;
    }
    default:
        if (in->size) in->size = below(state, in->size); /* cut short */
        break;
    }
}

static void say_where(int signal_number) {
    static char message[160];
    int size = snprintf(message, sizeof message, "failed in mutation %llu: repeat with 1 %llu %llu\n",
                        (unsigned long long)current, (unsigned long long)seed, (unsigned long long)current);
    if (size > 0 && write(2, message, (size_t)size) < 0) _exit(2);
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int count, char **arguments) {
    if (count < 2) {
        (void)fprintf(stderr, "usage: %s CORPUS [MUTATIONS [SEED [FIRST]]]\n", arguments[0]);
        return 2;
    }
    uint64_t mutations = count > 2 ? strtoull(arguments[2], NULL, 10) : 1000;
    seed = count > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    uint64_t first = count > 4 ? strtoull(arguments[4], NULL, 10) : 0;
    (void)signal(SIGABRT, say_where);
    (void)signal(SIGSEGV, say_where);
    (void)signal(SIGALRM, say_where);
    read_corpus(arguments[1]);
    FUZZ_CHECK(corpus_count > 0);
    if (!first)
        for (size_t i = 0; i < corpus_count; i++) (void)LLVMFuzzerTestOneInput(corpus[i].data, corpus[i].size);
    input in = {malloc(MAX_SIZE), 0};
    FUZZ_CHECK(in.data);
    const char *budget = getenv("FUZZ_SECONDS");
    double end = budget ? now() + strtod(budget, NULL) : 0;
    for (current = first; budget ? now() < end : current < first + mutations; current++) {
        uint64_t state = seed * 0x100000001B3u + current; /* each mutation from its own number */
        const input *from = &corpus[below(&state, corpus_count)];
        memcpy(in.data, from->data, in.size = from->size);
        for (size_t i = below(&state, 6) + 1; i > 0; i--) mutate(&in, &state);
        uint8_t *exact = malloc(in.size ? in.size : 1); /* so that a sanitizer sees reads past the end */
        FUZZ_CHECK(exact);
        memcpy(exact, in.data, in.size);
        (void)alarm(20);
        (void)LLVMFuzzerTestOneInput(exact, in.size);
        free(exact);
    }
    (void)printf("%zu inputs, %llu mutations\n", corpus_count, (unsigned long long)(current - first));
    for (size_t i = 0; i < corpus_count; i++) free(corpus[i].data);
    free(in.data);
    return 0;
}
