/* Owns: growable text and the number and string spellings that every text output uses.
 * Does not own: the formats that are written with it.
 * Next: context.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

static bool reserve(qf_buffer *buffer, size_t more) {
    if (buffer->failed) return false;
    if (more > SIZE_MAX / 4 - buffer->size) {
        (void)qf_record(buffer->context, QF_ERROR_OUT_OF_MEMORY);
        buffer->failed = true;
        return false;
    }
    size_t needed = buffer->size + more + 1;
    if (needed <= buffer->capacity) return true;
    size_t capacity = buffer->capacity * 2 > needed ? buffer->capacity * 2 : needed + 64;
    char *data = qf_reallocate(buffer->context, buffer->data, buffer->capacity, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void qf_buffer_append(qf_buffer *buffer, const void *data, size_t size) {
    if (!reserve(buffer, size)) return;
    if (size) memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void qf_buffer_text(qf_buffer *buffer, qf_text text) {
    qf_buffer_append(buffer, text.data, text.size);
}

void qf_buffer_print(qf_buffer *buffer, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    size_t room = buffer->failed ? 0 : buffer->capacity - buffer->size;
    int length = vsnprintf(room ? buffer->data + buffer->size : NULL, room, format, arguments);
    if (length > 0 && (size_t)length < room)
        buffer->size += (size_t)length;
    else if (length > 0 && reserve(buffer, (size_t)length)) {
        (void)vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, again);
        buffer->size += (size_t)length;
    } else if (room)
        buffer->data[buffer->size] = '\0';
    va_end(again);
    va_end(arguments);
}

void qf_buffer_unsigned(qf_buffer *buffer, uint64_t number) {
    char digits[20];
    size_t first = sizeof digits;
    do digits[--first] = (char)('0' + number % 10);
    while (number /= 10);
    qf_buffer_append(buffer, digits + first, sizeof digits - first);
}

void qf_buffer_double(qf_buffer *buffer, double number) {
    char text[40];
    if (isnan(number)) {
        qf_buffer_text(buffer, QF_TEXT("nan"));
        return;
    }
    if (isinf(number)) {
        qf_buffer_text(buffer, number > 0 ? QF_TEXT("inf") : QF_TEXT("-inf"));
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    if (!strpbrk(text, ".e")) memcpy(text + strlen(text), ".0", sizeof ".0");
    qf_buffer_append(buffer, text, strlen(text));
}

void qf_buffer_quoted(qf_buffer *buffer, qf_text text) {
    qf_buffer_append(buffer, "\"", 1);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\')
            qf_buffer_print(buffer, "\\%c", c);
        else if (c == '\n')
            qf_buffer_append(buffer, "\\n", 2);
        else if (c == '\t')
            qf_buffer_append(buffer, "\\t", 2);
        else if (c < 0x20 || c == 0x7F)
            qf_buffer_print(buffer, "\\x%02X", c);
        else
            qf_buffer_append(buffer, &text.data[i], 1);
    }
    qf_buffer_append(buffer, "\"", 1);
}

void qf_buffer_destroy(qf_buffer *buffer) {
    qf_release(buffer->context, buffer->data, buffer->capacity);
    buffer->data = NULL;
    buffer->size = buffer->capacity = 0;
}
