/* Owns: writing and reading the tensors of constants.
 * Does not own: other attribute values (print.c, parse.c).
 * Next: literal.h. */
#include "ir/literal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"

#define MAX_WRITTEN_NUMBERS 64

/* The storage of one element; f4E2M1FN gives its half byte. */
static uint64_t element_bits(qf_dtype dtype, const void *data, uint64_t index) {
    uint64_t bits = 0;
    uint32_t size = qf_dtype_bits(dtype) / 8;
    if (size)
        memcpy(&bits, (const char *)data + index * size, size);
    else
        bits = (((const uint8_t *)data)[index / 2] >> (index % 2 * 4)) & 0xF;
    return bits;
}

static bool reads_back(qf_dtype dtype, const char *text, uint64_t bits) {
    uint64_t storage[1] = {0};
    qf_store_f64(dtype, storage, 0, strtod(text, NULL), false);
    return element_bits(dtype, storage, 0) == bits;
}

#define EXACT_DIGITS 9

/* The exact number where it is short (448, not 4.5e+02), else the shortest spelling that reads back as the same bits;
 * false where there is none (a NaN with a payload). */
static bool spell_float(qf_dtype dtype, const void *data, uint64_t index, char text[40]) {
    uint64_t bits = element_bits(dtype, data, index);
    double number = qf_load_f64(dtype, data, (int64_t)index);
    if (number != number || number - number != 0) {
        (void)snprintf(text, 40, "%s", number != number ? "nan" : number > 0 ? "inf" : "-inf");
        return reads_back(dtype, text, bits);
    }
    bool found = false;
    for (int digits = 1; digits <= EXACT_DIGITS && !found; digits++) {
        (void)snprintf(text, 40, "%.*g", digits, number);
        found = strtod(text, NULL) == number;
    }
    for (int digits = 1; digits <= 17 && !found; digits++) {
        (void)snprintf(text, 40, "%.*g", digits, number);
        found = reads_back(dtype, text, bits);
    }
    if (!strpbrk(text, ".e")) memcpy(text + strlen(text), ".0", sizeof ".0");
    return reads_back(dtype, text, bits);
}

static bool spell_element(qf_dtype dtype, const void *data, uint64_t index, char text[40]) {
    if (qf_dtype_is_float(dtype)) return spell_float(dtype, data, index, text);
    if (dtype == QF_I1) {
        uint64_t bits = element_bits(dtype, data, index);
        (void)snprintf(text, 40, "%s", bits ? "true" : "false");
        return bits <= 1;
    }
    (void)snprintf(text, 40, "%" PRId64, qf_load_i64(dtype, data, (int64_t)index));
    return true;
}

static bool print_numbers(qf_buffer *buffer, qf_dtype dtype, const qf_literal *literal, uint64_t count, bool scalar) {
    char text[40];
    for (uint64_t i = 0; i < count; i++)
        if (!spell_element(dtype, literal->data, i, text)) return false;
    if (!scalar) qf_buffer_append(buffer, "[", 1);
    for (uint64_t i = 0; i < count; i++) {
        (void)spell_element(dtype, literal->data, i, text);
        if (i) qf_buffer_append(buffer, ", ", 2);
        qf_buffer_text(buffer, qf_text_of(text));
    }
    if (!scalar) qf_buffer_append(buffer, "]", 1);
    return true;
}

void qf_literal_print(qf_buffer *buffer, const qf_context *context, const qf_literal *literal) {
    if (!literal) {
        qf_buffer_text(buffer, QF_TEXT("none"));
        return;
    }
    uint64_t count;
    qf_type_print(buffer, context, literal->type);
    qf_buffer_append(buffer, " ", 1);
    qf_dtype dtype = qf_type_dtype(context, literal->type);
    if (qf_type_static_count(context, literal->type, &count) && count <= MAX_WRITTEN_NUMBERS &&
        (count % 2 == 0 || qf_dtype_bits(dtype) != 4) &&
        print_numbers(buffer, dtype, literal, count, qf_type_rank(context, literal->type) == 0))
        return;
    static const char digits[] = "0123456789ABCDEF";
    qf_buffer_text(buffer, QF_TEXT("hex \""));
    const uint8_t *bytes = literal->data;
    char piece[256];
    for (uint64_t i = 0; i < literal->size;) {
        size_t used = 0;
        for (; i < literal->size && used < sizeof piece; i++) {
            piece[used++] = digits[bytes[i] >> 4];
            piece[used++] = digits[bytes[i] & 0xF];
        }
        qf_buffer_append(buffer, piece, used);
    }
    qf_buffer_append(buffer, "\"", 1);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const void *parse_hex(qf_lexer *lexer, qf_arena *arena, uint64_t size) {
    const qf_token token = lexer->token;
    if (token.kind != QF_TOKEN_STRING) {
        (void)qf_lexer_unexpected(lexer, "the bytes in a string, two hexadecimal digits each");
        return NULL;
    }
    uint64_t given = token.text.size - 2;
    if (given % 2 || given / 2 != size) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE,
                            "expected %" PRIu64 " bytes (two digits each) for the type of the constant, found %" PRIu64
                            " digits",
                            size, given);
        return NULL;
    }
    uint8_t *bytes = qf_arena_allocate(arena, (size_t)size);
    for (uint64_t i = 0; bytes && i < size; i++) {
        int high = hex_digit(token.text.data[1 + 2 * i]), low = hex_digit(token.text.data[2 + 2 * i]);
        if (high < 0 || low < 0) {
            (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE, "expected hexadecimal digits only");
            return NULL;
        }
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    if (bytes) qf_lexer_next(lexer);
    return bytes;
}

static bool integer_fits(qf_dtype dtype, int64_t value) {
    switch (dtype) {
    case QF_I8: return value >= INT8_MIN && value <= INT8_MAX;
    case QF_U8: return value >= 0 && value <= UINT8_MAX;
    case QF_I32: return value >= INT32_MIN && value <= INT32_MAX;
    default: return true;
    }
}

static bool parse_element(qf_lexer *lexer, qf_dtype dtype, void *out) {
    const qf_token token = lexer->token;
    double number;
    int64_t integer;
    if (qf_dtype_is_float(dtype)) {
        if (!qf_lexer_number(lexer, "a number", &number)) return false;
        qf_store_f64(dtype, out, 0, number, false);
        return true;
    }
    if (dtype == QF_I1) {
        if (!qf_lexer_is(lexer, "true") && !qf_lexer_is(lexer, "false")) {
            (void)qf_lexer_unexpected(lexer, "true or false");
            return false;
        }
        *(uint8_t *)out = qf_lexer_is(lexer, "true");
        qf_lexer_next(lexer);
        return true;
    }
    if (!qf_lexer_integer(lexer, "an integer", &integer)) return false;
    if (!integer_fits(dtype, integer)) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE, "%" PRId64 " does not fit %s", integer,
                            qf_dtype_name(dtype));
        return false;
    }
    qf_store_i64(dtype, out, 0, integer);
    return true;
}

/* Elements go into a buffer that grows with the text, so that a type that claims much costs nothing. */
static bool parse_list(qf_lexer *lexer, qf_dtype dtype, qf_buffer *bytes, uint64_t *out_count) {
    uint32_t size = qf_dtype_bits(dtype) / 8;
    uint64_t count = 0;
    while (!qf_lexer_is(lexer, "]")) {
        uint64_t storage[1] = {0};
        if (count && !qf_lexer_expect(lexer, ",", "between the elements of a constant")) return false;
        if (!parse_element(lexer, dtype, storage)) return false;
        if (size)
            qf_buffer_append(bytes, storage, size);
        else if (count % 2 == 0)
            qf_buffer_append(bytes, storage, 1);
        else if (!bytes->failed)
            bytes->data[count / 2] = (char)((bytes->data[count / 2] & 0xF) | (*(uint8_t *)storage & 0xF) << 4);
        count++;
        if (bytes->failed) return false;
    }
    qf_lexer_next(lexer);
    *out_count = count;
    return true;
}

static const void *parse_numbers(qf_lexer *lexer, qf_arena *arena, const qf_literal *literal, uint64_t count) {
    const qf_token start = lexer->token;
    qf_dtype dtype = qf_type_dtype(lexer->context, literal->type);
    if (qf_type_rank(lexer->context, literal->type) == 0) {
        uint64_t storage[1] = {0};
        return parse_element(lexer, dtype, storage) ? qf_arena_copy(arena, storage, (size_t)literal->size) : NULL;
    }
    if (!qf_lexer_expect(lexer, "[", "or hex before the elements of a constant")) return NULL;
    qf_buffer bytes = {.context = lexer->context};
    uint64_t given;
    const void *data = NULL;
    if (parse_list(lexer, dtype, &bytes, &given)) {
        if (given == count)
            data = qf_arena_copy(arena, bytes.data, (size_t)literal->size);
        else
            (void)qf_lexer_fail(lexer, &start, QF_ERROR_PARSE,
                                "expected %" PRIu64 " elements for the type of the constant, found %" PRIu64, count,
                                given);
    }
    qf_buffer_destroy(&bytes);
    return data;
}

const qf_literal *qf_literal_parse(qf_lexer *lexer, qf_arena *arena) {
    const qf_token start = lexer->token;
    qf_text rest = qf_lexer_rest(lexer);
    qf_literal literal = {.type = qf_type_parse(lexer->context, &rest)};
    uint64_t count;
    if (!literal.type.id) {
        (void)qf_lexer_unexpected(lexer, "the type of the constant, such as f32[2, 3]");
        return NULL;
    }
    qf_lexer_resume(lexer, rest);
    qf_dtype dtype = qf_type_dtype(lexer->context, literal.type);
    if (!qf_type_static_count(lexer->context, literal.type, &count) || !qf_dtype_bits(dtype)) {
        (void)qf_lexer_fail(lexer, &start, QF_ERROR_PARSE,
                            "the type of a constant needs an element type with storage and constant dims");
        return NULL;
    }
    literal.size = qf_dtype_bytes(dtype, count);
    literal.data = qf_lexer_accept(lexer, "hex") ? parse_hex(lexer, arena, literal.size)
                                                 : parse_numbers(lexer, arena, &literal, count);
    return literal.data ? qf_arena_copy(arena, &literal, sizeof literal) : NULL;
}
