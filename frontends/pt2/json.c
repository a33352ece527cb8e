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

/* --- what nothing reads: a third of a program's values, which jansson would allocate one by one --- */

/* Pairs by key and by how their value begins, since tensors may be called like keys: `object` {"type", a string, a
 * number, or true, false and null. `after`: the pair before has this key. */
static const struct unread {
    const char *key, *begins, *after;
} unread_pairs[] = {{"torch_fn", "\"", NULL},
                    {"from_node", "\"", NULL},
                    {"source_fn_stack", "\"", NULL},
                    {"requires_grad", "tf", NULL},
                    {"is_hop_single_tensor_return", "ntf", NULL},
                    {"layout", "0123456789", NULL},
                    {"device", "{\"type\"", NULL},
                    {"hint", "{n", "expr_str"}};

typedef struct text {
    const uint8_t *data;
    uint64_t size;
} text;

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static uint64_t skip_blanks(text in, uint64_t at) {
    while (at < in.size && is_blank(in.data[at])) at++;
    return at;
}

static bool is_key(text in, uint64_t start, uint64_t end, const char *key) {
    uint64_t size = end - start;
    return key && strlen(key) == size && memcmp(in.data + start, key, size) == 0;
}

/* One past the value that begins at `at`: a string, a word or number, an object without objects and lists in it but for
 * one level. 0: something else, or the end. */
static uint64_t skip_value(text in, uint64_t at, uint32_t depth) {
    if (at >= in.size) return 0;
    if (in.data[at] == '"') return skip_string(in.data, in.size, at + 1);
    if (in.data[at] != '{') {
        uint64_t start = at;
        while (at < in.size && !strchr(",}] \n\t\r\"{[:", in.data[at])) at++;
        return at > start && at < in.size ? at : 0;
    }
    if (depth == 0) return 0;
    for (at = skip_blanks(in, at + 1); at < in.size && in.data[at] != '}'; at = skip_blanks(in, at)) {
        if (in.data[at] == ',' || in.data[at] == ':')
            at++;
        else if (!(at = skip_value(in, at, depth - 1)))
            return 0;
    }
    return at < in.size ? at + 1 : 0;
}

static bool begins_as(text in, uint64_t at, const char *begins) {
    if (at >= in.size) return false;
    if (begins[0] != '{') return strchr(begins, in.data[at]) != NULL;
    if (begins[1] != '"') return in.data[at] == '{' || in.data[at] == begins[1];
    if (in.data[at] != '{') return false;
    uint64_t inner = skip_blanks(in, at + 1), size = strlen(begins + 1);
    return in.size - inner >= size && memcmp(in.data + inner, begins + 1, size) == 0;
}

/* A pair begins here: behind a brace or a comma. */
static bool begins_pair(text in, uint64_t quote) {
    while (quote && is_blank(in.data[quote - 1])) quote--;
    return quote && (in.data[quote - 1] == '{' || in.data[quote - 1] == ',');
}

/* One past the pair whose key lies in start .. end, and past the comma behind it; 0: it is read. *out_last: no pair
 * follows. */
static uint64_t skip_unread(text in, uint64_t start, uint64_t end, const char *before, bool *out_last) {
    uint64_t value = skip_blanks(in, end + 1);
    if (value >= in.size || in.data[value] != ':') return 0;
    value = skip_blanks(in, value + 1);
    for (size_t i = 0; i < QF_COUNT_OF(unread_pairs); i++) {
        const struct unread *pair = &unread_pairs[i];
        if (in.data[start] != (uint8_t)pair->key[0] || !is_key(in, start, end, pair->key)) continue;
        if (pair->after && (!before || strcmp(pair->after, before) != 0)) return 0;
        if (!begins_as(in, value, pair->begins) || !begins_pair(in, start - 1)) return 0;
        uint64_t past = skip_value(in, value, 2);
        if (past) past = skip_blanks(in, past);
        if (!past || past >= in.size || (in.data[past] != ',' && in.data[past] != '}')) return 0;
        *out_last = in.data[past] == '}';
        return *out_last ? past : past + 1;
    }
    return 0;
}

/* "key,path,type;key,path,type": the path of the innermost module, which is all that is read of the modules that a node
 * lies in. False where the string has another form. */
static bool innermost_module(text in, uint64_t start, uint64_t end, uint64_t *out_start, uint64_t *out_end) {
    uint64_t comma[2], count = 0, at = end;
    while (at > start && in.data[at - 1] != ';') at--;
    for (; at < end; at++) {
        if (in.data[at] == '\\') return false;
        if (in.data[at] != ',') continue;
        if (count == 2) return false;
        comma[count++] = at;
    }
    if (count != 2) return false;
    *out_start = comma[0] + 1;
    *out_end = comma[1];
    return true;
}

/* The string that is the value of a key which ends at `past`: behind its opening quote; 0: another value, or no key. */
static uint64_t string_value(text in, uint64_t past) {
    uint64_t value = skip_blanks(in, past);
    if (value >= in.size || in.data[value] != ':') return 0;
    value = skip_blanks(in, value + 1);
    return value < in.size && in.data[value] == '"' ? value + 1 : 0;
}

/* The document without those pairs, and with modules' paths only, in `out` of `size` bytes. Returns its size. */
static uint64_t drop_unread(text in, uint8_t *out) {
    uint64_t used = 0, kept = 0; /* what is before `kept` has been copied */
    const char *before = NULL;   /* the key of the pair before, where it matters */
    for (uint64_t at = 0; at < in.size;) {
        const uint8_t *quote = memchr(in.data + at, '"', (size_t)(in.size - at));
        if (!quote) break;
        bool last = false;
        uint64_t start = (uint64_t)(quote - in.data) + 1, past = skip_string(in.data, in.size, start);
        uint64_t end = past > start && in.data[past - 1] == '"' ? past - 1 : past;
        uint64_t dropped = end > start && end < past ? skip_unread(in, start, end, before, &last) : 0;
        at = past;
        if (!dropped) {
            bool stack = is_key(in, start, end, "nn_module_stack"), expression = is_key(in, start, end, "expr_str");
            uint64_t value = stack || expression ? string_value(in, past) : 0, path, path_end;
            before = value && expression ? "expr_str" : NULL;
            if (!value) continue;
            at = skip_string(in.data, in.size, value);
            if (!stack || at == in.size || !innermost_module(in, value, at - 1, &path, &path_end)) continue;
            memcpy(out + used, in.data + kept, (size_t)(value - kept));
            used += value - kept;
            memcpy(out + used, in.data + path, (size_t)(path_end - path));
            used += path_end - path;
            kept = at - 1;
            continue;
        }
        memcpy(out + used, in.data + kept, (size_t)(start - 1 - kept));
        used += start - 1 - kept;
        at = kept = dropped;
        while (last && used && is_blank(out[used - 1])) used--;
        if (last && used && out[used - 1] == ',') used--;
    }
    memcpy(out + used, in.data + kept, (size_t)(in.size - kept));
    return used + in.size - kept;
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
    json_t *document = shorter ? load(shorter, drop_unread((text){data, size}, shorter), &error) : NULL;
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
