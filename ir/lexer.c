/* Owns: cutting source text into tokens, reading their values, messages that point at them.
 * Does not own: grammars (parse.c, patterns/).
 * Next: lexer.h. */
#include "lexer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_byte(char c) {
    return is_letter(c) || is_digit(c) || c == '.';
}

static bool is_hex_digit(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static const char *end_of(const qf_lexer *lexer) {
    return lexer->source.data + lexer->source.size;
}

static void skip_space(qf_lexer *lexer) {
    const char *end = end_of(lexer), *at = lexer->cursor;
    while (at < end) {
        if (*at == '\n') {
            lexer->line++;
            lexer->line_start = ++at;
            lexer->at_line_start = true;
        } else if (*at == ' ' || *at == '\t' || *at == '\r') {
            at++;
        } else if (*at == '/' && end - at > 1 && at[1] == '/') {
            const char *newline = memchr(at, '\n', (size_t)(end - at));
            at = newline ? newline : end;
        } else {
            break;
        }
    }
    lexer->cursor = at;
}

/* Names end before a trailing '.', so that "%a..." reads as a name and "...". */
static const char *scan_name(const char *at, const char *end) {
    while (at < end && is_name_byte(*at)) at++;
    while (at[-1] == '.') at--;
    return at;
}

/* From the opening quote to behind the closing one; NULL where the line or the source ends first. */
static const char *scan_quoted(const char *at, const char *end) {
    for (at++; at < end && *at != '\n'; at++) {
        if (*at == '"') return at + 1;
        if (*at == '\\' && at + 1 < end && at[1] != '\n') at++;
    }
    return NULL;
}

static const char *scan_number(const char *at, const char *end, qf_token_kind *out_kind) {
    *out_kind = QF_TOKEN_INTEGER;
    if (*at == '0' && end - at > 2 && at[1] == 'x' && is_hex_digit(at[2])) {
        for (at += 2; at < end && is_hex_digit(*at);) at++;
        return at;
    }
    while (at < end && is_digit(*at)) at++;
    if (at < end && *at == '.' && !(end - at > 1 && at[1] == '.')) {
        *out_kind = QF_TOKEN_FLOAT;
        for (at++; at < end && is_digit(*at);) at++;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *exponent = at + 1;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) exponent++;
        if (exponent < end && is_digit(*exponent)) {
            *out_kind = QF_TOKEN_FLOAT;
            for (at = exponent; at < end && is_digit(*at);) at++;
        }
    }
    return at;
}

static const char *scan_mark(const char *at, const char *end) {
    static const char *const marks[] = {"...", "==", "!=", "<=", ">=", "->"};
    for (size_t i = 0; i < QF_COUNT_OF(marks); i++) {
        size_t size = strlen(marks[i]);
        if ((size_t)(end - at) >= size && memcmp(at, marks[i], size) == 0) return at + size;
    }
    return *at && strchr("()[]{},:=+-*/?~<>!;|&.", *at) ? at + 1 : NULL;
}

static const char *scan_sigil(const char *at, const char *end) {
    const char *name = at + 1;
    if (name < end && *name == '"' && *at != '$') return scan_quoted(name, end);
    if (name >= end || !is_name_byte(*name) || *name == '.') return NULL;
    return scan_name(name, end);
}

static const char *scan_token(const char *at, const char *end, qf_token_kind *out_kind) {
    if (is_letter(*at)) {
        *out_kind = QF_TOKEN_NAME;
        return scan_name(at, end);
    }
    if (is_digit(*at)) return scan_number(at, end, out_kind);
    switch (*at) {
    case '%': *out_kind = QF_TOKEN_VALUE; return scan_sigil(at, end);
    case '$': *out_kind = QF_TOKEN_VARIABLE; return scan_sigil(at, end);
    case '@': *out_kind = QF_TOKEN_GLOBAL; return scan_sigil(at, end);
    case '"': *out_kind = QF_TOKEN_STRING; return scan_quoted(at, end);
    default: *out_kind = QF_TOKEN_MARK; return scan_mark(at, end);
    }
}

static void report_invalid(qf_lexer *lexer) {
    const qf_token *token = &lexer->token;
    unsigned char first = (unsigned char)token->text.data[0];
    if (memchr(token->text.data, '"', token->text.size < 2 ? token->text.size : 2))
        (void)qf_lexer_fail(lexer, token, QF_ERROR_PARSE, "the string has no closing quote on its line");
    else if (first == '%' || first == '$' || first == '@')
        (void)qf_lexer_fail(lexer, token, QF_ERROR_PARSE, "expected a name behind '%c'", first);
    else if (first > 0x20 && first < 0x7F)
        (void)qf_lexer_fail(lexer, token, QF_ERROR_PARSE, "'%c' starts no token", first);
    else
        (void)qf_lexer_fail(lexer, token, QF_ERROR_PARSE, "byte 0x%02X starts no token", first);
}

void qf_lexer_next(qf_lexer *lexer) {
    skip_space(lexer);
    const char *at = lexer->cursor, *end = end_of(lexer);
    qf_token *token = &lexer->token;
    token->line = lexer->line;
    token->column = (uint32_t)(at - lexer->line_start) + 1;
    token->line_start = lexer->line_start;
    token->first_on_line = lexer->at_line_start;
    lexer->at_line_start = false;
    if (at == end) {
        token->kind = QF_TOKEN_END;
        token->text = (qf_text){at, 0};
        return;
    }
    const char *behind = scan_token(at, end, &token->kind);
    if (behind) {
        token->text = (qf_text){at, (size_t)(behind - at)};
        lexer->cursor = behind;
        return;
    }
    /* A string without an end swallows its line, so that its inside gives no further faults. */
    token->kind = QF_TOKEN_INVALID;
    behind = at + 1;
    if (memchr(at, '"', end - at < 2 ? (size_t)(end - at) : 2))
        while (behind < end && *behind != '\n') behind++;
    token->text = (qf_text){at, (size_t)(behind - at)};
    lexer->cursor = behind;
    report_invalid(lexer);
}

void qf_lexer_start(qf_lexer *lexer, qf_context *context, qf_text source, const char *file_name) {
    *lexer = (qf_lexer){.context = context,
                        .source = source.data ? source : QF_TEXT(""),
                        .file_name = file_name ? file_name : "",
                        .line = 1,
                        .at_line_start = true};
    lexer->cursor = lexer->line_start = lexer->source.data;
    qf_lexer_next(lexer);
}

bool qf_lexer_is(const qf_lexer *lexer, const char *text) {
    const qf_token *token = &lexer->token;
    return (token->kind == QF_TOKEN_MARK || token->kind == QF_TOKEN_NAME) && qf_text_is(token->text, text);
}

bool qf_lexer_accept(qf_lexer *lexer, const char *text) {
    if (!qf_lexer_is(lexer, text)) return false;
    qf_lexer_next(lexer);
    return true;
}

bool qf_lexer_expect(qf_lexer *lexer, const char *text, const char *purpose) {
    if (qf_lexer_accept(lexer, text)) return true;
    char what[160];
    (void)snprintf(what, sizeof what, "'%s'%s%s", text, *purpose ? " " : "", purpose);
    (void)qf_lexer_unexpected(lexer, what);
    return false;
}

qf_text qf_lexer_rest(const qf_lexer *lexer) {
    const char *at = lexer->token.text.data;
    return (qf_text){at, (size_t)(end_of(lexer) - at)};
}

void qf_lexer_resume(qf_lexer *lexer, qf_text rest) {
    lexer->line = lexer->token.line;
    lexer->line_start = lexer->token.line_start;
    for (const char *at = lexer->token.text.data; at < rest.data; at++) {
        if (*at != '\n') continue;
        lexer->line++;
        lexer->line_start = at + 1;
    }
    lexer->cursor = rest.data;
    lexer->at_line_start = false;
    qf_lexer_next(lexer);
}

/* The magnitude of an integer token; false where it does not fit 64 bits. */
static bool token_magnitude(const qf_token *token, uint64_t *out_value) {
    const char *at = token->text.data, *end = at + token->text.size;
    bool hex = token->text.size > 2 && at[0] == '0' && at[1] == 'x';
    uint64_t value = 0, base = hex ? 16 : 10;
    for (at += hex ? 2 : 0; at < end; at++) {
        uint64_t digit = is_digit(*at) ? (uint64_t)(*at - '0') : (uint64_t)((*at | 0x20) - 'a') + 10;
        if (value > (UINT64_MAX - digit) / base) return false;
        value = value * base + digit;
    }
    *out_value = value;
    return true;
}

bool qf_lexer_integer(qf_lexer *lexer, const char *what, int64_t *out_value) {
    bool negative = qf_lexer_accept(lexer, "-");
    if (lexer->token.kind != QF_TOKEN_INTEGER) {
        (void)qf_lexer_unexpected(lexer, what);
        return false;
    }
    uint64_t magnitude, limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    bool hex = lexer->token.text.size > 2 && lexer->token.text.data[1] == 'x';
    if (!token_magnitude(&lexer->token, &magnitude) || (magnitude > limit && (negative || !hex))) {
        (void)qf_lexer_fail(lexer, &lexer->token, QF_ERROR_PARSE, "expected %s of at most 64 bits, found %.*s", what,
                            (int)(lexer->token.text.size > 60 ? 60 : lexer->token.text.size), lexer->token.text.data);
        return false;
    }
    if (negative) magnitude = 0 - magnitude;
    memcpy(out_value, &magnitude, sizeof magnitude); /* hexadecimal numbers may use the sign bit */
    qf_lexer_next(lexer);
    return true;
}

static bool decimal(const qf_token *token, double *out_value) {
    char text[400];
    if (token->text.size >= sizeof text) return false;
    memcpy(text, token->text.data, token->text.size);
    text[token->text.size] = '\0';
    *out_value = strtod(text, NULL);
    return true;
}

bool qf_lexer_number(qf_lexer *lexer, const char *what, double *out_value) {
    bool negative = qf_lexer_accept(lexer, "-");
    const qf_token *token = &lexer->token;
    double value;
    if (token->kind == QF_TOKEN_NAME && (qf_text_is(token->text, "inf") || qf_text_is(token->text, "nan"))) {
        value = token->text.data[0] == 'i' ? (double)INFINITY : (double)NAN;
    } else if (token->kind == QF_TOKEN_INTEGER && token->text.size > 2 && token->text.data[1] == 'x') {
        uint64_t bits;
        if (negative || !token_magnitude(token, &bits)) {
            (void)qf_lexer_fail(lexer, token, QF_ERROR_PARSE, "expected %s; 0x... gives the 64 bits of a double", what);
            return false;
        }
        memcpy(&value, &bits, sizeof value);
    } else if ((token->kind != QF_TOKEN_INTEGER && token->kind != QF_TOKEN_FLOAT) || !decimal(token, &value)) {
        (void)qf_lexer_unexpected(lexer, what);
        return false;
    }
    *out_value = negative ? -value : value;
    qf_lexer_next(lexer);
    return true;
}

static int hex_value(char c) {
    return is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Undoes escapes of the inside of a quoted token into `out`. False after a fault. */
static bool unescape(qf_lexer *lexer, const qf_token *token, qf_text inside, qf_buffer *out) {
    const char *at = inside.data, *end = at + inside.size;
    while (at < end) {
        const char *plain = at;
        while (at < end && *at != '\\') at++;
        qf_buffer_append(out, plain, (size_t)(at - plain));
        if (at == end) break;
        char escape = at + 1 < end ? at[1] : '\0', byte = escape;
        at += 2;
        if (escape == 'n') {
            byte = '\n';
        } else if (escape == 't') {
            byte = '\t';
        } else if (escape == 'x' && end - at >= 2 && is_hex_digit(at[0]) && is_hex_digit(at[1])) {
            byte = (char)(hex_value(at[0]) * 16 + hex_value(at[1]));
            at += 2;
        } else if (escape != '"' && escape != '\\') {
            (void)qf_lexer_fail(lexer, token, QF_ERROR_PARSE,
                                "unknown escape in the string; expected \\\", \\\\, \\n, \\t or \\xNN");
            return false;
        }
        qf_buffer_append(out, &byte, 1);
    }
    return !out->failed;
}

/* Interns text between quotes; most strings have no escapes and need no copy. */
static bool intern_quoted(qf_lexer *lexer, const qf_token *token, qf_text inside, qf_string *out_string) {
    if (!inside.size || !memchr(inside.data, '\\', inside.size)) {
        *out_string = qf_intern(lexer->context, inside);
        return out_string->id != 0;
    }
    qf_buffer buffer = {.context = lexer->context};
    bool ok = unescape(lexer, token, inside, &buffer);
    if (ok) *out_string = qf_intern(lexer->context, (qf_text){buffer.data, buffer.size});
    qf_buffer_destroy(&buffer);
    return ok && out_string->id != 0;
}

bool qf_lexer_string(qf_lexer *lexer, const char *what, qf_string *out_string) {
    const qf_token token = lexer->token;
    if (token.kind != QF_TOKEN_STRING) {
        (void)qf_lexer_unexpected(lexer, what);
        return false;
    }
    if (!intern_quoted(lexer, &token, (qf_text){token.text.data + 1, token.text.size - 2}, out_string)) return false;
    qf_lexer_next(lexer);
    return true;
}

qf_string qf_lexer_name(qf_lexer *lexer, const qf_token *token) {
    qf_text text = token->text;
    if (token->kind != QF_TOKEN_NAME) text = (qf_text){text.data + 1, text.size - 1};
    if (!text.size || text.data[0] != '"') return qf_intern(lexer->context, text);
    qf_string name = {0};
    if (!intern_quoted(lexer, token, (qf_text){text.data + 1, text.size - 2}, &name)) return (qf_string){0};
    return name;
}

qf_position qf_lexer_position(const qf_lexer *lexer, const qf_token *token, char storage[QF_LOCATION_SIZE]) {
    (void)snprintf(storage, QF_LOCATION_SIZE, "%s:%u:%u", lexer->file_name, token->line, token->column);
    size_t rest = (size_t)(end_of(lexer) - token->line_start);
    const char *newline = rest ? memchr(token->line_start, '\n', rest) : NULL;
    size_t size = newline ? (size_t)(newline - token->line_start) : rest;
    if (size && token->line_start[size - 1] == '\r') size--;
    return (qf_position){.location = storage, .source_line = {token->line_start, size}, .column = token->column};
}

qf_status qf_lexer_fail(qf_lexer *lexer, const qf_token *token, qf_status status, const char *format, ...) {
    char storage[QF_LOCATION_SIZE];
    va_list arguments;
    qf_position position = qf_lexer_position(lexer, token, storage);
    lexer->fault_count++;
    va_start(arguments, format);
    (void)qf_fail_list(lexer->context, status, &position, format, arguments);
    va_end(arguments);
    return status;
}

qf_status qf_lexer_unexpected(qf_lexer *lexer, const char *what) {
    const qf_token *token = &lexer->token;
    if (token->kind == QF_TOKEN_INVALID) return QF_ERROR_PARSE; /* the lexer has said so */
    if (token->kind == QF_TOKEN_END)
        return qf_lexer_fail(lexer, token, QF_ERROR_PARSE, "expected %s, found the end of the text", what);
    size_t size = token->text.size > 60 ? 60 : token->text.size;
    return qf_lexer_fail(lexer, token, QF_ERROR_PARSE, "expected %s, found '%.*s%s'", what, (int)size, token->text.data,
                         size < token->text.size ? "..." : "");
}

bool qf_text_is_plain_name(qf_text text) {
    if (!text.size || text.data[0] == '.' || text.data[text.size - 1] == '.') return false;
    bool digits_only = true;
    for (size_t i = 0; i < text.size; i++) {
        if (!is_name_byte(text.data[i])) return false;
        digits_only = digits_only && is_digit(text.data[i]);
    }
    return !digits_only; /* %0, %1, ... are the numbers of unnamed values */
}

void qf_buffer_sigil_name(qf_buffer *buffer, char sigil, qf_text text) {
    qf_buffer_append(buffer, &sigil, 1);
    if (qf_text_is_plain_name(text))
        qf_buffer_text(buffer, text);
    else
        qf_buffer_quoted(buffer, text);
}
