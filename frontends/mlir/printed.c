/* Owns: finding numbers and words in the printed form of attributes, and in JSON that they hold.
 * Does not own: printing them (attributes.c).
 * Next: map_contract.c, map_layout.c. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/mlir/build.h"

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static const char *skip_spaces(const char *at) {
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') at++;
    return at;
}

/* What follows `key =`, where key is a whole word. */
static const char *find_key(const char *text, const char *key) {
    size_t size = strlen(key);
    for (const char *at = strstr(text, key); at; at = strstr(at + 1, key)) {
        if ((at > text && is_word(at[-1])) || is_word(at[size])) continue;
        const char *next = skip_spaces(at + size);
        if (*next == '=') return skip_spaces(next + 1);
    }
    return NULL;
}

static bool read_int(const char **at, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (end == *at || errno) return false;
    *at = end;
    return true;
}

bool qf_mlir_printed_ints(const char *text, const char *key, int64_t *out, uint32_t limit, uint32_t *out_count) {
    const char *at = find_key(text, key);
    *out_count = 0;
    if (!at || *at != '[') return false;
    for (at = skip_spaces(at + 1); *at && *at != ']'; at = skip_spaces(at)) {
        if (*out_count == limit || !read_int(&at, &out[*out_count])) return false;
        ++*out_count;
        at = skip_spaces(at);
        if (*at == ',') at = skip_spaces(at + 1);
    }
    return *at == ']';
}

int64_t qf_mlir_printed_int(const char *text, const char *key, int64_t otherwise) {
    const char *at = find_key(text, key);
    int64_t number;
    return at && read_int(&at, &number) ? number : otherwise;
}

bool qf_mlir_printed_word(const char *text, const char *word) {
    size_t size = strlen(word);
    for (const char *at = text ? strstr(text, word) : NULL; at; at = strstr(at + 1, word))
        if ((at == text || !is_word(at[-1])) && !is_word(at[size])) return true;
    return false;
}

bool qf_mlir_printed_map(const char **text, int64_t *results, uint32_t limit, uint32_t *out_count) {
    const char *at = strstr(*text, "->");
    *out_count = 0;
    if (!at) return false;
    at = skip_spaces(at + 2);
    if (*at++ != '(') return false;
    for (at = skip_spaces(at); *at == 'd'; at = skip_spaces(at)) {
        at++;
        if (*out_count == limit || !read_int(&at, &results[*out_count])) return false;
        ++*out_count;
        at = skip_spaces(at);
        if (*at == ',') at++;
    }
    *text = at;
    return *at == ')';
}

const char *qf_mlir_json_field(const char *text, const char *key) {
    size_t size = strlen(key);
    for (const char *at = text ? strstr(text, key) : NULL; at; at = strstr(at + 1, key)) {
        if (at == text || at[-1] != '"' || at[size] != '"') continue;
        const char *next = skip_spaces(at + size + 1);
        if (*next == ':') return skip_spaces(next + 1);
    }
    return NULL;
}
