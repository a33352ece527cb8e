/* Owns: how dims are written and read.
 * Does not own: what they mean (dim.c, dim_derived.c).
 * Next: dim.h. */
#include <inttypes.h>
#include <string.h>

#include "dim.h"
#include "dim_table.h"

static const struct {
    const char *name;
    qf_symbol_kind kind;
    qf_dim (*make)(qf_context *context, qf_dim a, qf_dim b);
} functions[] = {
    {"floordiv", QF_SYMBOL_FLOOR_DIVIDE, qf_dim_floor_divide},
    {"mod", QF_SYMBOL_MODULO, qf_dim_modulo},
    {"min", QF_SYMBOL_MINIMUM, qf_dim_minimum},
    {"max", QF_SYMBOL_MAXIMUM, qf_dim_maximum},
};

static bool starts_name(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t name_size(qf_text text) {
    if (!text.size || !starts_name(text.data[0])) return 0;
    size_t size = 1;
    while (size < text.size && (starts_name(text.data[size]) || is_digit(text.data[size]) || text.data[size] == '.'))
        size++;
    return size;
}

static void print_symbol(qf_buffer *buffer, const qf_context *context, qf_dim_symbol at) {
    const dim_symbol *symbol = dim_symbol_at(context, at);
    if (symbol->kind == QF_SYMBOL_NAMED) {
        qf_text name = qf_string_text(context, symbol->name);
        if (name.size && name_size(name) == name.size)
            qf_buffer_text(buffer, name);
        else
            qf_buffer_quoted(buffer, name);
        return;
    }
    for (size_t i = 0; i < QF_COUNT_OF(functions); i++)
        if (functions[i].kind == symbol->kind) qf_buffer_print(buffer, "%s(", functions[i].name);
    qf_dim_print(buffer, context, symbol->a);
    qf_buffer_text(buffer, QF_TEXT(", "));
    qf_dim_print(buffer, context, symbol->b);
    qf_buffer_text(buffer, QF_TEXT(")"));
}

void qf_dim_print(qf_buffer *buffer, const qf_context *context, qf_dim dim) {
    if (!dim.id) {
        qf_buffer_text(buffer, QF_TEXT("none"));
        return;
    }
    const dim_polynomial *polynomial = dim_at(context, dim);
    if (!polynomial->count) qf_buffer_text(buffer, QF_TEXT("0"));
    for (uint32_t t = 0; t < polynomial->count; t++) {
        int64_t coefficient = polynomial->terms[t].coefficient;
        const dim_monomial *monomial = dim_monomial_at(context, polynomial->terms[t].monomial);
        uint64_t size = coefficient < 0 ? 0 - (uint64_t)coefficient : (uint64_t)coefficient;
        if (t) qf_buffer_print(buffer, " %c ", coefficient < 0 ? '-' : '+');
        if (!t && coefficient < 0) qf_buffer_text(buffer, QF_TEXT("-"));
        bool number = size != 1 || !monomial->count;
        if (number) qf_buffer_print(buffer, "%" PRIu64, size);
        for (uint32_t i = 0; i < monomial->count; i++) {
            if (i || number) qf_buffer_text(buffer, QF_TEXT("*"));
            print_symbol(buffer, context, monomial->symbols[i]);
        }
    }
}

/* --- reading --- */

typedef struct dim_reader {
    qf_context *context;
    qf_text rest;
    uint32_t depth;
} dim_reader;

static void skip(dim_reader *reader, size_t size) {
    reader->rest.data += size;
    reader->rest.size -= size;
}

static void skip_spaces(dim_reader *reader) {
    while (reader->rest.size && (reader->rest.data[0] == ' ' || reader->rest.data[0] == '\t')) skip(reader, 1);
}

static bool take(dim_reader *reader, char c) {
    skip_spaces(reader);
    if (!reader->rest.size || reader->rest.data[0] != c) return false;
    skip(reader, 1);
    return true;
}

static qf_dim read_sum(dim_reader *reader);

/* Up to 2^63, which only a leading minus makes a 64-bit number. */
static bool read_number(dim_reader *reader, uint64_t *out_value) {
    uint64_t value = 0;
    while (reader->rest.size && is_digit(reader->rest.data[0])) {
        uint64_t digit = (uint64_t)(reader->rest.data[0] - '0');
        if (value > ((uint64_t)1 << 63) / 10 || value * 10 + digit > (uint64_t)1 << 63) return false;
        value = value * 10 + digit;
        skip(reader, 1);
    }
    *out_value = value;
    return true;
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a quoted name; false at a bad escape. */
static bool read_character(dim_reader *reader, char *out) {
    char c = reader->rest.data[0];
    skip(reader, 1);
    *out = c;
    if (c != '\\') return c != '\n';
    if (!reader->rest.size) return false;
    c = reader->rest.data[0];
    skip(reader, 1);
    *out = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    if (c != 'x') return c == 'n' || c == 't' || c == '"' || c == '\\';
    if (reader->rest.size < 2) return false;
    int high = hex_digit(reader->rest.data[0]), low = hex_digit(reader->rest.data[1]);
    if (high < 0 || low < 0) return false;
    *out = (char)(high * 16 + low);
    skip(reader, 2);
    return true;
}

static qf_dim read_quoted(dim_reader *reader) {
    qf_buffer name = {.context = reader->context};
    qf_dim result = {0};
    skip(reader, 1);
    while (reader->rest.size && reader->rest.data[0] != '"') {
        char c;
        if (!read_character(reader, &c)) {
            qf_buffer_destroy(&name);
            return result;
        }
        qf_buffer_append(&name, &c, 1);
    }
    if (take(reader, '"') && !name.failed)
        result = qf_dim_named(reader->context, (qf_text){name.data ? name.data : "", name.size});
    qf_buffer_destroy(&name);
    return result;
}

static qf_dim read_function(dim_reader *reader, size_t which) {
    if (!take(reader, '(')) return (qf_dim){0};
    qf_dim a = read_sum(reader);
    if (!a.id || !take(reader, ',')) return (qf_dim){0};
    qf_dim b = read_sum(reader);
    if (!b.id || !take(reader, ')')) return (qf_dim){0};
    return functions[which].make(reader->context, a, b);
}

static qf_dim read_factor(dim_reader *reader) {
    skip_spaces(reader);
    if (!reader->rest.size) return (qf_dim){0};
    char c = reader->rest.data[0];
    if (is_digit(c)) {
        uint64_t value;
        if (!read_number(reader, &value) || value > INT64_MAX) return (qf_dim){0};
        return qf_dim_constant(reader->context, (int64_t)value);
    }
    if (c == '"') return read_quoted(reader);
    if (c == '(') {
        skip(reader, 1);
        qf_dim inner = read_sum(reader);
        return take(reader, ')') ? inner : (qf_dim){0};
    }
    qf_text name = {reader->rest.data, name_size(reader->rest)};
    if (!name.size) return (qf_dim){0};
    skip(reader, name.size);
    if (reader->rest.size && reader->rest.data[0] == '(')
        for (size_t i = 0; i < QF_COUNT_OF(functions); i++)
            if (qf_text_is(name, functions[i].name)) return read_function(reader, i);
    return qf_dim_named(reader->context, name);
}

static qf_dim read_product(dim_reader *reader, bool negative) {
    skip_spaces(reader);
    qf_dim product = {0};
    if (negative && reader->rest.size && is_digit(reader->rest.data[0])) {
        uint64_t value;
        if (!read_number(reader, &value)) return product;
        product = qf_dim_constant(reader->context, value > INT64_MAX ? INT64_MIN : -(int64_t)value);
        negative = false;
    } else {
        product = read_factor(reader);
    }
    while (product.id && take(reader, '*')) product = qf_dim_multiply(reader->context, product, read_factor(reader));
    return negative && product.id ? qf_dim_subtract(reader->context, qf_dim_constant(reader->context, 0), product)
                                  : product;
}

static qf_dim read_sum(dim_reader *reader) {
    if (reader->depth++ == DIM_MAX_DEPTH) return (qf_dim){0};
    qf_dim sum = read_product(reader, take(reader, '-'));
    while (sum.id) {
        if (take(reader, '+'))
            sum = qf_dim_add(reader->context, sum, read_product(reader, false));
        else if (take(reader, '-'))
            sum = qf_dim_add(reader->context, sum, read_product(reader, true));
        else
            break;
    }
    reader->depth--;
    return sum;
}

qf_dim qf_dim_parse(qf_context *context, qf_text *text) {
    dim_reader reader = {.context = context, .rest = *text};
    qf_status before = context->status;
    qf_dim result = dim_quiet(context, before, read_sum(&reader));
    if (!result.id) return result;
    /* Spaces after the dim were read in search of an operator; they belong to what follows. */
    while (reader.rest.data > text->data && (reader.rest.data[-1] == ' ' || reader.rest.data[-1] == '\t')) {
        reader.rest.data--;
        reader.rest.size++;
    }
    *text = reader.rest;
    return result;
}
