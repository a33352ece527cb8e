/* Owns: where an operation comes from, as text, and MLIR's location for a text.
 * Does not own: messages (operations.c).
 * Next: operations.c. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "frontends/mlir/build.h"

#define MAX_TEXT 1024

typedef struct place_text {
    char data[MAX_TEXT];
    size_t size;
} place_text;

static void append_part(MlirStringRef part, void *user) {
    place_text *text = user;
    size_t room = sizeof text->data - 1 - text->size, size = part.length < room ? part.length : room;
    memcpy(text->data + text->size, part.data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

/* The next quoted string from *at on, without escapes resolved; *at comes to stand after it. */
static bool next_quoted(const char **at, qf_text *out) {
    const char *open = strchr(*at, '"');
    if (!open) return false;
    const char *close = open + 1;
    while (*close && *close != '"') close += *close == '\\' && close[1] ? 2 : 1;
    if (!*close) return false;
    *out = (qf_text){open + 1, (size_t)(close - open - 1)};
    *at = close + 1;
    return true;
}

/* loc("file":3:4), loc("name"("file":3:4)), loc(callsite("name" at ...)), loc(fused["a", "b"]): the first file with
 * line and column, and the first name that is no file. */
static void read_place(const char *printed, const char *otherwise, char *out, size_t size) {
    char place[512] = "", name[256] = "";
    qf_text quoted;
    for (const char *at = printed; next_quoted(&at, &quoted);) {
        size_t digits = *at == ':' ? strspn(at + 1, "0123456789:") : 0;
        if (digits && !*place) {
            bool unnamed = qf_text_is(quoted, "-"); /* text that was parsed without a name */
            (void)snprintf(place, sizeof place, "%.*s:%.*s",
                           (int)(unnamed             ? 400
                                 : quoted.size < 400 ? quoted.size
                                                     : 400),
                           unnamed ? otherwise : quoted.data, (int)(digits < 40 ? digits : 40), at + 1);
        } else if (!digits && !*name)
            (void)snprintf(name, sizeof name, "%.*s", (int)(quoted.size < 250 ? quoted.size : 250), quoted.data);
    }
    (void)snprintf(out, size, "%s%s%s", place, *place && *name ? " " : "", name);
}

static bool same_text(const void *owner, uint32_t id, const void *key) {
    const qf_mlir_import_state *import = owner;
    return qf_text_equal(qf_string_text(import->context, import->places[id].text), *(const qf_text *)key);
}

/* Takes no memory: diagnostics look here. */
static uint32_t find_place(const qf_mlir_import_state *import, qf_text text) {
    return qf_index_find(&import->place_index, qf_hash_bytes(text.data, text.size, 3), same_text, import, &text);
}

static bool remember(qf_mlir_import_state *import, qf_string string, MlirLocation location) {
    qf_text text = qf_string_text(import->context, string);
    if (find_place(import, text)) return true;
    uint32_t id = import->place_count ? import->place_count : 1;
    if (!QF_GROW(import->context, import->places, import->place_capacity, (uint64_t)id + 1)) return false;
    import->places[id] = (qf_mlir_place){string, location};
    import->place_count = id + 1;
    return qf_index_add(import->context, &import->place_index, qf_hash_bytes(text.data, text.size, 3), id);
}

/* "model.mlir:12:3 jit(f)/dot_general (stablehlo.dot_general)" */
bool qf_mlir_locate(qf_mlir_import_state *import, MlirOperation operation, const char *name, qf_location *out_location,
                    const char **out_text) {
    place_text printed = {{0}, 0};
    char place[800], text[1024];
    MlirLocation location = mlirOperationGetLocation(operation);
    mlirLocationPrint(location, append_part, &printed);
    read_place(printed.data, import->options.name, place, sizeof place);
    (void)snprintf(text, sizeof text, "%s (%.160s)", *place ? place : import->options.name, name);
    qf_string interned = qf_intern_c(import->context, text);
    if (!interned.id || !remember(import, interned, location)) return false;
    *out_text = qf_string_c(import->context, interned);
    *out_location = qf_location_make(import->graph, qf_string_text(import->context, interned), 0, 0);
    return out_location->id != 0;
}

MlirLocation qf_mlir_place_of(const qf_mlir_import_state *import, const char *text) {
    uint32_t id = find_place(import, qf_text_of(text));
    const char *open = id ? NULL : strchr(text, '['); /* "fused<rule>[a, b]": a, which ends in a parenthesis */
    const char *end = open ? strchr(open, ')') : NULL;
    if (end) id = find_place(import, (qf_text){open + 1, (size_t)(end - open)});
    return id ? import->places[id].location : (MlirLocation){NULL};
}
