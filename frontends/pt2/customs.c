/* Owns: the table of custom operators: reading its lines, finding an operator, its roles.
 * Does not own: what the families do (map_custom.c).
 * Next: map_custom.c. */
#include "frontends/pt2/custom.h"

#include <string.h>

#define CUSTOM(line) line,
static const char *const built_in[] = {
#include "frontends/pt2/customs.def"
};
#undef CUSTOM

/* "_C.rms_norm" of "_C.rms_norm.default": the namespace and the name, without an overload. */
static size_t plain_size(const char *target) {
    size_t first = strcspn(target, ".");
    return target[first] ? first + 1 + strcspn(target + first + 1, ".") : first;
}

static bool custom_equal(const void *owner, uint32_t id, const void *key) {
    const char *target = ((const qf_pt2_import *)owner)->customs[id].target;
    const char *wanted = key;
    size_t size = plain_size(wanted);
    return strlen(target) == size && memcmp(target, wanted, size) == 0;
}

const qf_pt2_custom *qf_pt2_custom_of(const qf_pt2_import *import, const char *target) {
    uint32_t id = qf_index_find(&import->custom_index, qf_hash_bytes(target, plain_size(target), 31), custom_equal,
                                import, target);
    return id ? &import->customs[id] : NULL;
}

static bool bad_line(qf_pt2_import *import, const char *line, const char *what) {
    qf_position position = {.location = "customs"};
    (void)qf_fail(import->context, QF_ERROR_PARSE, &position, "'%.80s': %s", line, what);
    return false;
}

/* A word of the line, in scratch memory; *at moves past it. "" at the end, NULL when memory is out. */
static const char *next_word(qf_pt2_import *import, const char **at) {
    *at += strspn(*at, " \t\r");
    size_t size = strcspn(*at, " \t\r\n");
    char *word = qf_arena_allocate(&import->scratch, size + 1);
    if (word) memcpy(word, *at, size);
    *at += size;
    return word;
}

static bool add_line(qf_pt2_import *import, const char *line) {
    const char *at = line, *family = next_word(import, &at), *target = next_word(import, &at);
    if (!family || !target) return false;
    if (!*family || *family == '#') return true;
    at += strspn(at, " \t");
    size_t size = strcspn(at, "\n");
    char *roles = qf_arena_allocate(&import->scratch, size + 1);
    if (!roles) return false;
    memcpy(roles, at, size);
    qf_pt2_custom custom = {.target = target, .family = qf_pt2_family_of(family), .roles = roles};
    if (!custom.family) return bad_line(import, line, "expected the name of a family first");
    if (!strchr(target, '.') || target[plain_size(target)])
        return bad_line(import, line, "expected namespace.operator second");
    if (qf_pt2_custom_of(import, target)) return true; /* an earlier line is stronger */
    if (!import->custom_count) import->custom_count = 1;
    if (!QF_GROW(import->context, import->customs, import->custom_capacity, (uint64_t)import->custom_count + 1))
        return false;
    import->customs[import->custom_count] = custom;
    return qf_index_add(import->context, &import->custom_index, qf_hash_bytes(target, strlen(target), 31),
                        import->custom_count++);
}

bool qf_pt2_index_customs(qf_pt2_import *import) {
    for (const char *line = import->options.customs; line && *line; line += line[0] == '\n') {
        if (!add_line(import, line)) return false;
        line += strcspn(line, "\n");
    }
    for (size_t i = 0; i < QF_COUNT_OF(built_in); i++)
        if (!add_line(import, built_in[i])) return false;
    return true;
}

/* --- roles --- */
/* The n-th "role=argument" of this role. */
static bool find_role(const qf_pt2_custom *custom, const char *role, uint32_t which, qf_text *out) {
    size_t size = strlen(role);
    for (const char *at = custom->roles; *at;) {
        size_t length = strcspn(at, " \t\r");
        if (length > size && memcmp(at, role, size) == 0 && at[size] == '=' && which-- == 0) {
            *out = (qf_text){at + size + 1, length - size - 1};
            return true;
        }
        at += length;
        at += strspn(at, " \t\r");
    }
    return false;
}

const char *qf_pt2_role(qf_pt2_call *call, const char *role) {
    qf_text found;
    if (!find_role(call->custom, role, 0, &found)) return "";
    char *name = qf_arena_allocate(&call->import->scratch, found.size + 1);
    if (!name) {
        call->import->failed = true;
        return "";
    }
    memcpy(name, found.data, found.size);
    return name;
}

bool qf_pt2_role_is(const qf_pt2_call *call, const char *role, const char *value) {
    qf_text found;
    return find_role(call->custom, role, 0, &found) && qf_text_is(found, value);
}

/* Whether some role is this argument. */
static bool is_read(const qf_pt2_custom *custom, const char *argument) {
    size_t size = strlen(argument);
    for (const char *at = custom->roles; *at;) {
        size_t length = strcspn(at, " \t\r"), name = strcspn(at, "=");
        if (name < length && length - name - 1 == size && memcmp(at + name + 1, argument, size) == 0) return true;
        at += length;
        at += strspn(at, " \t\r");
    }
    return false;
}

/* A functionalised call carries "_result_base_index", "_all_bases" and the like beside the operator's own arguments. */
static bool is_bookkeeping(const qf_pt2_call *call, const char *argument) {
    return call->override_count && (*argument == '_' || *argument == '\0');
}

qf_pt2_outcome qf_pt2_map_custom(qf_pt2_call *call) {
    for (size_t i = 0; i < json_array_size(call->arguments); i++) {
        const char *name = qf_pt2_text(qf_pt2_get(json_array_get(call->arguments, i), "name"));
        if (is_bookkeeping(call, name) || is_read(call->custom, name) || !qf_pt2_has(call, name)) continue;
        return qf_pt2_decline(call, "it has an argument that its line in the table of custom operators does not name");
    }
    return call->custom->family->map(call);
}
