/* Owns: what the program's guards say of sizes: "L['x'].size()[0] <= 2*L['y'].size()[1]" as facts and assumptions.
 * Does not own: ranges of symbols (types.c), who checks assumptions (runtime/).
 * Next: import.c. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/pt2/import.h"

#define MAX_NESTING 32
#define MAX_NAME    256
#define MAX_PARTS   16 /* joined by "and" */
#define MAX_GUARDS  65536
#define MAX_BYTES   65536 /* of one guard */

/* A guard is a Python expression that torch prints; it was true at export, and the program is valid where it is true.
 */
typedef struct reader {
    qf_pt2_import *import;
    const qf_pt2_scope *scope;
    const char *at;
    uint32_t depth;
} reader;

typedef enum comparison { EQUAL, UNEQUAL, AT_MOST, BELOW, AT_LEAST, ABOVE, NONE } comparison;

static bool accept(reader *in, const char *text) {
    while (*in->at == ' ') in->at++;
    if (strncmp(in->at, text, strlen(text)) != 0) return false;
    in->at += strlen(text);
    return true;
}

static bool read_number(reader *in, int64_t *out) {
    char *end;
    while (*in->at == ' ') in->at++;
    if (!isdigit((unsigned char)*in->at)) return false;
    long long number = strtoll(in->at, &end, 10);
    if (end - in->at > 18) return false;
    in->at = end;
    *out = number;
    return true;
}

/* --- names --- */

typedef struct name {
    char text[MAX_NAME];
    size_t size;
} name;

/* Placeholders are called after the path to them: lower case, what is no letter or digit as '_', parts joined by '_'.
 */
static bool add_part(name *to, const char *part, size_t size, bool attribute) {
    if (to->size + size + 2 > sizeof to->text) return false;
    if (to->size) to->text[to->size++] = '_';
    for (size_t i = 0; i < size; i++) {
        unsigned char letter = (unsigned char)part[i];
        to->text[to->size++] = (char)(isalnum(letter) ? tolower(letter) : '_');
    }
    to->text[to->size] = '\0';
    return size > 0 || attribute;
}

/* ['key'], [3] or .attribute, until a method or the end of the path. */
static bool read_path(reader *in, name *out) {
    *out = (name){.size = 0};
    for (;;) {
        if (*in->at == '.' && !isalpha((unsigned char)in->at[1])) return false;
        if (*in->at == '.') {
            size_t size = strspn(in->at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
            if (in->at[1 + size] == '(') return out->size > 0;
            if (!add_part(out, in->at + 1, size, true)) return false;
            in->at += 1 + size;
            continue;
        }
        if (*in->at != '[') return out->size > 0;
        in->at++;
        char quote = *in->at;
        size_t size = quote == '\'' || quote == '"' ? strcspn(in->at + 1, quote == '"' ? "\"" : "'")
                                                    : strspn(in->at, "0123456789");
        bool quoted = quote == '\'' || quote == '"';
        const char *part = in->at + quoted;
        if (part[size] != (quoted ? quote : ']') || part[size + quoted] != ']') return false;
        if (!add_part(out, part, size, false)) return false;
        in->at = part + size + quoted + 1;
    }
}

/* L['x'].size()[0], or L['n'] where that is a number. */
static qf_dim read_source(reader *in) {
    name path;
    int64_t axis;
    if (!read_path(in, &path)) return (qf_dim){0};
    const qf_pt2_binding *binding = qf_pt2_lookup(in->import, in->scope, path.text);
    if (!binding) return (qf_dim){0};
    if (!accept(in, ".size()")) return binding->tensor ? (qf_dim){0} : binding->dim;
    if (!binding->tensor || !accept(in, "[") || !read_number(in, &axis) || !accept(in, "]")) return (qf_dim){0};
    qf_type type = qf_value_type(in->import->graph, in->import->tensors[binding->tensor].value);
    uint32_t rank = qf_type_rank(in->import->context, type);
    if (rank == QF_UNRANKED || axis >= rank) return (qf_dim){0};
    return qf_type_dims(in->import->context, type)[axis];
}

/* --- expressions --- */

static qf_dim read_sum(reader *in);

static qf_dim read_pair(reader *in, qf_dim (*combine)(qf_context *context, qf_dim a, qf_dim b)) {
    qf_dim a = read_sum(in);
    if (!a.id || !accept(in, ",")) return (qf_dim){0};
    qf_dim b = read_sum(in);
    if (!b.id || !accept(in, ")")) return (qf_dim){0};
    return combine(in->import->context, a, b);
}

static qf_dim read_atom(reader *in) {
    int64_t number;
    qf_context *context = in->import->context;
    if (read_number(in, &number)) return qf_dim_constant(context, number);
    if (accept(in, "L[")) {
        in->at--;
        return read_source(in);
    }
    if (accept(in, "torch.sym_max(") || accept(in, "max(")) return read_pair(in, qf_dim_maximum);
    if (accept(in, "torch.sym_min(") || accept(in, "min(")) return read_pair(in, qf_dim_minimum);
    if (!accept(in, "(")) return (qf_dim){0};
    qf_dim inner = read_sum(in);
    return inner.id && accept(in, ")") ? inner : (qf_dim){0};
}

static qf_dim read_factor(reader *in) {
    if (in->depth == MAX_NESTING) return (qf_dim){0};
    in->depth++;
    qf_context *context = in->import->context;
    bool negative = accept(in, "-");
    qf_dim result = negative ? read_factor(in) : read_atom(in);
    if (negative && result.id) result = qf_dim_multiply(context, result, qf_dim_constant(context, -1));
    in->depth--;
    return result;
}

static qf_dim read_product(reader *in) {
    qf_context *context = in->import->context;
    qf_dim result = read_factor(in);
    while (result.id) {
        bool divides = accept(in, "//"), modulo = !divides && accept(in, "%");
        if (!divides && !modulo && !accept(in, "*")) break;
        qf_dim next = read_factor(in); /* "**" has no factor behind its first star */
        if (!next.id) return next;
        result = divides  ? qf_dim_floor_divide(context, result, next)
                 : modulo ? qf_dim_modulo(context, result, next)
                          : qf_dim_multiply(context, result, next);
    }
    return result;
}

static qf_dim read_sum(reader *in) {
    qf_dim result = read_product(in);
    while (result.id) {
        bool minus = accept(in, "-");
        if (!minus && !accept(in, "+")) break;
        qf_dim next = read_product(in);
        if (!next.id) return next;
        result =
            minus ? qf_dim_subtract(in->import->context, result, next) : qf_dim_add(in->import->context, result, next);
    }
    return result;
}

/* --- what a comparison says --- */

static comparison read_comparison(reader *in) {
    if (accept(in, "==")) return EQUAL;
    if (accept(in, "!=")) return UNEQUAL;
    if (accept(in, "<=")) return AT_MOST;
    if (accept(in, ">=")) return AT_LEAST;
    if (accept(in, "<")) return BELOW;
    return accept(in, ">") ? ABOVE : NONE;
}

static bool assume(reader *in, qf_dim left, qf_dim right, qf_location location) {
    return qf_dim_equal(left, right) || qf_graph_add_guard(in->import->graph, left, right, location);
}

static qf_dim_symbol named(const reader *in, qf_dim dim) {
    qf_dim_symbol symbol = qf_dim_as_symbol(in->import->context, dim);
    bool is = symbol.id && qf_dim_symbol_kind(in->import->context, symbol) == QF_SYMBOL_NAMED;
    return is ? symbol : (qf_dim_symbol){0};
}

/* small <= large: a bound of a symbol where one side is a number, else min(small, large) == small. */
static bool order(reader *in, qf_dim small, qf_dim large, qf_location location) {
    qf_context *context = in->import->context;
    qf_symbol_facts facts = qf_graph_facts(in->import->graph);
    if (qf_dim_nonnegative(context, &facts, qf_dim_subtract(context, large, small))) return true;
    qf_symbol_fact fact = {.maximum = INT64_MAX, .divisor = 1};
    int64_t bound;
    if (qf_dim_is_constant(context, large, &bound) && (fact.symbol = named(in, small)).id && bound >= 0) {
        fact.maximum = bound;
        return qf_graph_add_fact(in->import->graph, fact);
    }
    if (qf_dim_is_constant(context, small, &bound) && (fact.symbol = named(in, large)).id) {
        fact.minimum = bound;
        return qf_graph_add_fact(in->import->graph, fact);
    }
    qf_dim least = qf_dim_minimum(context, small, large);
    return least.id && assume(in, least, small, location);
}

static bool strict_order(reader *in, qf_dim small, qf_dim large, qf_location location) {
    qf_context *context = in->import->context;
    if (qf_dim_is_constant(context, large, NULL))
        return order(in, small, qf_dim_add_constant(context, large, -1), location);
    return order(in, qf_dim_add_constant(context, small, 1), large, location);
}

/* min((a - b)^2, 1) == 1 */
static bool differ(reader *in, qf_dim a, qf_dim b, qf_location location) {
    qf_context *context = in->import->context;
    qf_dim apart = qf_dim_subtract(context, a, b), one = qf_dim_constant(context, 1);
    qf_symbol_facts facts = qf_graph_facts(in->import->graph);
    int64_t low, high;
    if (qf_dim_lower_bound(context, &facts, apart, &low) && low > 0) return true;
    if (qf_dim_upper_bound(context, &facts, apart, &high) && high < 0) return true;
    qf_dim least = qf_dim_minimum(context, qf_dim_multiply(context, apart, apart), one);
    return least.id && assume(in, least, one, location);
}

/* x % k == 0 of a symbol is a fact of it. */
static bool divides(reader *in, qf_dim left, qf_dim right) {
    qf_context *context = in->import->context;
    qf_dim_symbol modulo = qf_dim_as_symbol(context, left);
    qf_symbol_fact fact = {.maximum = INT64_MAX};
    if (!qf_dim_is(context, right, 0) || !modulo.id || qf_dim_symbol_kind(context, modulo) != QF_SYMBOL_MODULO)
        return false;
    qf_dim a, b;
    qf_dim_symbol_operands(context, modulo, &a, &b);
    fact.symbol = named(in, a);
    return fact.symbol.id && qf_dim_is_constant(context, b, &fact.divisor) && fact.divisor > 0 &&
           qf_graph_add_fact(in->import->graph, fact);
}

/* Two numbers: nothing to check, or a guard that never holds and so was not understood. */
static bool holds(int64_t a, comparison relation, int64_t b) {
    switch (relation) {
    case EQUAL: return a == b;
    case UNEQUAL: return a != b;
    case AT_MOST: return a <= b;
    case BELOW: return a < b;
    case AT_LEAST: return a >= b;
    case ABOVE: return a > b;
    case NONE: break;
    }
    return false;
}

static bool relate(reader *in, qf_dim a, comparison relation, qf_dim b, qf_location location) {
    qf_context *context = in->import->context;
    int64_t left, right;
    if (qf_dim_is_constant(context, a, &left) && qf_dim_is_constant(context, b, &right))
        return holds(left, relation, right);
    switch (relation) {
    case EQUAL: return divides(in, a, b) || assume(in, a, b, location);
    case UNEQUAL: return differ(in, a, b, location);
    case AT_MOST: return order(in, a, b, location);
    case BELOW: return strict_order(in, a, b, location);
    case AT_LEAST: return order(in, b, a, location);
    case ABOVE: return strict_order(in, b, a, location);
    case NONE: break;
    }
    return false;
}

/* Comparisons joined by "and". Nothing is said before all is understood: "or" may follow. False where it is not, or
 * memory ran out. */
static bool read_guard(reader *in, qf_location location) {
    struct {
        qf_dim left, right;
        comparison relation;
    } said[MAX_PARTS];
    uint32_t count = 0;
    do {
        if (count == MAX_PARTS) return false;
        said[count].left = read_sum(in);
        said[count].relation = said[count].left.id ? read_comparison(in) : NONE;
        if (said[count].relation == NONE) return false;
        said[count].right = read_sum(in);
        if (!said[count++].right.id) return false;
    } while (accept(in, "and "));
    if (!accept(in, "") || *in->at) return false;
    bool good = true;
    for (uint32_t i = 0; i < count; i++)
        good = relate(in, said[i].left, said[i].relation, said[i].right, location) && good;
    return good;
}

bool qf_pt2_add_guards(qf_pt2_import *import, const qf_pt2_scope *scope) {
    const json_t *guards = qf_pt2_get(import->program, "guards_code");
    uint32_t missed = 0;
    const char *first = "";
    for (size_t i = 0; i < json_array_size(guards); i++) {
        const char *text = qf_pt2_text(json_array_get(guards, i));
        reader in = {.import = import, .scope = scope, .at = text};
        qf_status before = qf_context_status(import->context);
        qf_location location = {0};
        bool read = i < MAX_GUARDS && strlen(text) <= MAX_BYTES;
        if (read) {
            location = qf_location_make(import->graph, qf_text_of(text), 0, 0);
            read = location.id && read_guard(&in, location);
        }
        if (qf_context_status(import->context) == QF_ERROR_OUT_OF_MEMORY) return false;
        /* A coefficient that overflowed: the guard is not understood, the program is. */
        if (before == QF_OK) qf_context_clear_status(import->context);
        if (!read && !missed++) first = text;
    }
    if (missed)
        qf_pt2_warn(
            import, import->name,
            "%u of the program's guards are not checked, as they speak of more than sizes or in another form than "
            "torch 2.8 and later print; the first is: %.200s",
            missed, first);
    return true;
}
