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

json_t *qf_pt2_json_parse(qf_context *context, const char *location, const uint8_t *data, uint64_t size) {
    qf_position position = {.location = location};
    uint64_t deep = find_too_deep(data, size);
    if (deep != UINT64_MAX) {
        (void)qf_fail(context, QF_ERROR_LIMIT, &position, "byte %llu: nested deeper than %d", (unsigned long long)deep,
                      QF_PT2_MAX_DEPTH);
        return NULL;
    }
    json_error_t error;
    memset(&error, 0, sizeof error);
    json_t *document = json_loadb((const char *)data, (size_t)size, 0, &error);
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
