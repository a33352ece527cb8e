/* Owns: the scan of depth and the call of jansson.
 * Does not own: the schema (import.c).
 * Next: import.h. */
#include "frontends/pt2/json.h"

#include <string.h>

/* One past the closing quote of the string that begins behind an opening one; `size` where none closes it. */
static uint64_t skip_string(const uint8_t *data, uint64_t size, uint64_t at) {
    for (uint64_t start = at; at < size;) {
        const uint8_t *quote = memchr(data + at, '"', (size_t)(size - at));
        if (!quote) break;
        uint64_t end = (uint64_t)(quote - data), slashes = 0;
        while (end - slashes > start && data[end - slashes - 1] == '\\') slashes++;
        if (slashes % 2 == 0) return end + 1;
        at = end + 1;
    }
    return size;
}

/* The place of the first bracket that nests too deep; UINT64_MAX where none does. */
static uint64_t find_too_deep(const uint8_t *data, uint64_t size) {
    uint32_t depth = 0;
    for (uint64_t i = 0; i < size;) {
        uint8_t c = data[i];
        if (c == '"') {
            i = skip_string(data, size, i + 1);
            continue;
        }
        if ((c == '{' || c == '[') && ++depth > QF_PT2_MAX_DEPTH) return i;
        if ((c == '}' || c == ']') && depth) depth--;
        i++;
    }
    return UINT64_MAX;
}

/* Keys of a node's metadata that nothing reads: most of a program's bytes, which jansson would look at one by one. */
static bool is_unread_key(const uint8_t *key, uint64_t size) {
    static const char *const keys[] = {"from_node", "nn_module_stack", "source_fn_stack", "torch_fn"};
    for (size_t i = 0; i < QF_COUNT_OF(keys); i++)
        if (strlen(keys[i]) == size && memcmp(keys[i], key, size) == 0) return true;
    return false;
}

/* The place of the quote that opens the string which is the value of a key that ends at `at`; 0: another value. */
static uint64_t string_value(const uint8_t *data, uint64_t size, uint64_t at) {
    while (at < size && data[at] == ' ') at++;
    if (at == size || data[at] != ':') return 0;
    do at++;
    while (at < size && data[at] == ' ');
    return at < size && data[at] == '"' ? at : 0;
}

/* The document with empty strings in place of those that nothing reads, in `out` of `size` bytes. Returns its size. */
static uint64_t drop_unread(const uint8_t *data, uint64_t size, uint8_t *out) {
    uint64_t used = 0, kept = 0; /* what is before `kept` has been copied */
    for (uint64_t at = 0; at < size;) {
        const uint8_t *quote = memchr(data + at, '"', (size_t)(size - at));
        if (!quote) break;
        uint64_t start = (uint64_t)(quote - data) + 1, end = skip_string(data, size, start);
        uint64_t value = is_unread_key(quote + 1, end - start - (end > start)) ? string_value(data, size, end) : 0;
        at = end;
        if (!value) continue;
        memcpy(out + used, data + kept, (size_t)(value + 1 - kept));
        used += value + 1 - kept;
        at = skip_string(data, size, value + 1);
        kept = at > value + 1 ? at - 1 : at; /* the closing quote, where there is one */
    }
    memcpy(out + used, data + kept, (size_t)(size - kept));
    return used + size - kept;
}

static json_t *load(const uint8_t *data, uint64_t size, json_error_t *error) {
    memset(error, 0, sizeof *error);
    return json_loadb((const char *)data, (size_t)size, 0, error);
}

json_t *qf_pt2_json_parse(qf_context *context, const char *location, const uint8_t *data, uint64_t size) {
    qf_position position = {.location = location};
    uint64_t deep = find_too_deep(data, size);
    if (deep != UINT64_MAX) {
        (void)qf_fail(context, QF_ERROR_LIMIT, &position, "byte %llu: nested deeper than %d", (unsigned long long)deep,
                      QF_PT2_MAX_DEPTH);
        return NULL;
    }
    json_error_t error;
    uint8_t *shorter = size ? qf_allocate(context, (size_t)size) : NULL;
    if (size && !shorter) return NULL;
    json_t *document = shorter ? load(shorter, drop_unread(data, size, shorter), &error) : NULL;
    qf_release(context, shorter, (size_t)size);
    if (document) return document;
    document = load(data, size, &error); /* for the place of the fault */
    if (document) return document;
    if (json_error_code(&error) == json_error_out_of_memory)
        (void)qf_record(context, QF_ERROR_OUT_OF_MEMORY);
    else
        (void)qf_fail(context, QF_ERROR_PARSE, &position, "line %d, byte %d: %s", error.line, error.position,
                      error.text);
    return NULL;
}

json_t *qf_pt2_union(const json_t *value, const char **out_key) {
    union {
        const json_t *read_only;
        json_t *object;
    } holder = {.read_only = value};
    if (json_object_size(value) != 1) return NULL;
    void *member = json_object_iter(holder.object);
    *out_key = json_object_iter_key(member);
    return json_object_iter_value(member);
}

const char *qf_pt2_name_of(const json_t *value) {
    const json_t *tensor = qf_pt2_get(value, "as_tensor");
    return qf_pt2_text(qf_pt2_get(tensor ? tensor : value, "name"));
}
