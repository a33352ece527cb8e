/* Owns: building a case: its text, inputs, outputs; random numbers.
 * Does not own: values of tensors (fill.c), running (run.c).
 * Next: cases.h. */
#include "tests/gpu/conformance/cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double *case_numbers(test_case *test, size_t count) {
    suite *of = test->of;
    if (of->numbers_used + count > sizeof of->number_room / sizeof of->number_room[0]) {
        test->failed_to_build = true;
        return of->number_room;
    }
    double *room = of->number_room + of->numbers_used;
    of->numbers_used += count;
    return room;
}

void case_begin(suite *of, test_case *test, qf_op op, const char *format, ...) {
    *test = (test_case){.of = of, .op = op};
    of->numbers_used = 0;
    int used = snprintf(test->name, sizeof test->name, "%s/", op == QF_OP_return ? "chain" : qf_op_name(op));
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(test->name + used, sizeof test->name - (size_t)used, format, arguments);
    va_end(arguments);
}

uint32_t case_add_input(test_case *test, const char *name, qf_dtype dtype, shape dims, fill values) {
    if (test->input_count == MOST_INPUTS) {
        test->failed_to_build = true;
        return 0;
    }
    case_input *input = &test->inputs[test->input_count];
    *input = (case_input){.dtype = dtype, .dims = dims, .fill = values};
    (void)snprintf(input->name, sizeof input->name, "%s", name);
    return test->input_count++;
}

static void append_line(test_case *test, char *text, size_t size, const char *format, va_list arguments) {
    size_t used = strlen(text);
    int wrote = vsnprintf(text + used, size - used, format, arguments);
    if (wrote < 0 || used + (size_t)wrote + 2 > size) {
        test->failed_to_build = true;
        return;
    }
    (void)strcat(text, "\n");
}

void case_node(test_case *test, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append_line(test, test->body, sizeof test->body, format, arguments);
    va_end(arguments);
}

void case_other_node(test_case *test, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append_line(test, test->other, sizeof test->other, format, arguments);
    va_end(arguments);
}

void case_output(test_case *test, const char *name, bound within) {
    if (test->output_count == MOST_OUTPUTS) {
        test->failed_to_build = true;
        return;
    }
    (void)snprintf(test->outputs[test->output_count], sizeof test->outputs[0], "%s", name);
    test->in_place[test->output_count] = -1;
    test->bounds[test->output_count++] = within;
}

void case_end(test_case *test) {
    suite *of = test->of;
    of->visit(of, test);
}

/* --- text --- */

static char *next_text(void) {
    static char texts[8][160];
    static unsigned turn;
    char *text = texts[turn++ % 8];
    text[0] = '\0';
    return text;
}

const char *list_text(const int64_t *items, uint32_t count) {
    char *text = next_text();
    size_t used = (size_t)snprintf(text, 160, "[");
    for (uint32_t i = 0; i < count && used < 150; i++)
        used += (size_t)snprintf(text + used, 160 - used, "%s%" PRId64, i ? ", " : "", items[i]);
    (void)snprintf(text + used, 160 - used, "]");
    return text;
}

const char *shape_text(shape dims) {
    return list_text(dims.dims, dims.rank);
}

int64_t shape_count(shape dims) {
    int64_t count = 1;
    for (uint32_t i = 0; i < dims.rank; i++) count *= dims.dims[i];
    return count;
}

/* --- random numbers --- */

uint64_t random_bits(random_state *random) {
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t random_between(random_state *random, int64_t low, int64_t high) {
    return low + (int64_t)(random_bits(random) % (uint64_t)(high - low + 1));
}

double random_uniform(random_state *random) {
    return (double)(random_bits(random) >> 11) / 9007199254740992.0;
}

/* Roughly normal: six 10-bit pieces of one draw, scaled to deviation 1. */
double random_normal(random_state *random) {
    uint64_t bits = random_bits(random);
    double sum = 0;
    for (int i = 0; i < 6; i++, bits >>= 10) sum += (double)(bits & 1023);
    return (sum - 3 * 1023) / 723.8;
}
