/* Owns: tests of loading rules: the embedded ones are sound, every fault is found and said where it stands.
 * Does not own: what rules do (engine_test.c, rules_test.c).
 * Next: patterns/rule_check.c. */
#include "tests/check.h"

#include "patterns/rules.h"

static void embedded_rules_load(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_rule_set *set = qf_rules_of(context);
    if (!set) print_message("%s", check.messages);
    assert_non_null(set);
    assert_ptr_equal(set, qf_rules_of(context));
    assert_true(set->rule_count > 30);
    assert_non_null(qf_rules_phase(set, QF_TEXT("fuse_attention_quant")));
    assert_null(qf_rules_phase(set, QF_TEXT("no_such_phase")));
    check_destroy(context, &check);
}

/* Loads one more rule; the messages must hold `message`, and the set stays as it was. "" for a sound rule. */
static void load(const char *text, const char *message) {
    check_state check;
    qf_context *context = check_context(&check);
    qf_rule_set *set = qf_rules_of(context);
    assert_non_null(set);
    uint32_t count = set->rule_count;
    uint64_t hash = set->hash;
    qf_status status = qf_rules_load(context, qf_text_of(text), "mine.rules");
    if (*message) {
        assert_int_not_equal(status, QF_OK);
        assert_int_equal(set->rule_count, count);
        assert_true(set->hash == hash);
        if (!strstr(check.messages, message)) fail_msg("expected \"%s\", got:\n%s", message, check.messages);
        assert_non_null(strstr(check.messages, "mine.rules:"));
    } else {
        if (status != QF_OK) fail_msg("%s", check.messages);
        assert_true(set->rule_count > count);
        assert_true(set->hash != hash);
    }
    check_destroy(context, &check);
}

#define RULE "rule mine raise numerics exact benefit 77\n\"Why.\"\nbefore\n"
#define ABS  "  %m = neg %x\n  %y = abs %m\n"
#define END  "end\n"

static void a_sound_rule_loads(void **state) {
    (void)state;
    load(RULE ABS "after\n  %y = abs %x\ntest %x = f32[4]\n" END, "");
    load("// Only a comment.\n" RULE ABS "where floating(%x)\nkeep %m\nafter\n  %y = abs %x\n" END, "");
}

static void names_must_be_bound(void **state) {
    (void)state;
    load(RULE ABS "after\n  %y = abs %z\n" END, "%z is bound nowhere");
    load(RULE ABS "where floating(%z)\nafter\n  %y = abs %x\n" END, "an argument of floating is bound nowhere");
    load(RULE "  %y = abs %m\n  %m = neg %x\nafter\n  %y = abs %x\n" END, "%m is used before the line that defines it");
    load(RULE ABS "after\n  %z = abs %x\n" END, "the right side defines no result of the pattern's last node, abs");
    load(RULE "  %y = abs %x\n  %z = neg %w\nafter\n  %y = %x\n" END, "shares no value with the rest");
    load(RULE ABS "after\n  %x = neg %x\n  %y = abs %x\n" END, "%x is an input of the pattern and cannot be replaced");
    load(RULE ABS "  %m = exp %y\nafter\n  %y = abs %x\n" END, "%m is defined twice");
}

static void fault_11_every_attribute_is_consumed(void **state) {
    (void)state;
    load(RULE "  %c = neg %x\n  %y = cast %c {dtype=f16}\nafter\n  %y = cast %x {dtype=f16}\n" END,
         "attribute saturate is neither bound, compared, nor named `any`");
    load(RULE "  %c = neg %x\n  %y = cast %c {dtype=f16, saturate=$s}\nafter\n  %y = cast %x {dtype=f16}\n" END,
         "$s is bound, but neither tested nor used in the right side");
    load(RULE "  %c = neg %x\n  %y = cast %c {dtype=f16, saturate=any}\nafter\n  %y = cast %x {dtype=f16}\n" END,
         "attribute saturate is `any`, but no predicate looks at the node and nothing replaces it");
    load(RULE "  %c = neg %x\n  %y = cast %c {...}\nafter\n  %y = abs %x\n" END,
         "what `...` takes from cast is not carried to the right side");
    load(RULE "  %c = neg %x\n  %y = cast %c {dtype=any, ...}\nafter\n  %y = cast %x {...}\n" END,
         "attribute dtype is `any`");
    load(RULE "  %c = neg %x\n  %y = cast %c {...}\nafter\n  %y = cast %x {dtype=f16, ...}\n" END,
         "attribute dtype is taken by `...` and then overwritten");
    load(RULE "  %c = neg %x\n  %y = quantize %c, ... {...}\nafter\n  %y = quantize %x, %x, ... {...}\n" END,
         "operand scale is taken by `...` and then overwritten");
    load(RULE "  %c = neg %x\n  %y = quantize %c, %s {...}\nafter\n  %y = quantize %x, %s, ... {...}\n" END,
         "no quantize of the left side has the same `...`");
    load(RULE ABS "after\n  %y = cast %x\n" END, "attribute dtype is required");
    load(RULE ABS "after\n  %y = div %x\n" END, "operand b is required");
    load(RULE "  %y = div %x, $c\nafter\n  %y = %x\n" END, "$c is bound, but neither tested nor used");
}

static void unknown_words_are_said(void **state) {
    (void)state;
    load(RULE "  %y = absolute %x\nafter\n  %y = %x\n" END, "expected an op");
    load(RULE "  %y = abs z=%x\nafter\n  %y = %x\n" END, "abs has no operand \"z\"");
    load(RULE "  %y = abs %x, %z\nafter\n  %y = %x\n" END, "abs has 1 operands");
    load(RULE "  %y = cast %x {type=f16}\nafter\n  %y = %x\n" END, "cast has no attribute \"type\"");
    load(RULE "  %y = cast %x {dtype=f16, dtype=f16}\nafter\n  %y = %x\n" END, "attribute \"dtype\" is written twice");
    load(RULE ABS "where is_pretty(%x)\nafter\n  %y = %x\n" END, "expected a predicate");
    load("rule mine tidy numerics exact\n\"Why.\"\nbefore\n" ABS "after\n  %y = %x\n" END,
         "there is no phase \"tidy\"");
    load("rule mine raise numerics sloppy\n\"Why.\"\nbefore\n" ABS "after\n  %y = %x\n" END,
         "expected exact, rounding, quantising or relaxed");
    load("rule negate_twice raise numerics exact benefit 77\n\"Why.\"\nbefore\n" ABS "after\n  %y = abs %x\n" END,
         "another rule has the name negate_twice");
    load(RULE ABS "after\n  %y = %x\n", "expected");
    load("rule", "expected the rule's name");
    load("graph @g() { return }", "expected");
}

static void chains_must_be_replayed(void **state) {
    (void)state;
    load(RULE "  %m = neg %x\n  %y = abs ~%m\nafter\n  %y = abs %x\n" END,
         "~%m looks through layout ops that the right side does not replay");
    load(RULE "  %m = permute %x {order=$o}\n  %y = abs ~%m\nafter\n  %y = abs ~m(%x)\n" END,
         "the value comes from a layout op itself");
    load(RULE ABS "after\n  %y = abs ~m(%x)\n" END, "the left side has no ~%m to replay");
    load(RULE "  %m = neg %x\n  %z = exp %x\n  %n = add ~%m, %z\n  %y = abs %n\nafter\n  %y = add ~m(%z), %x\n" END,
         "~ can be replayed on a new result or on an operand of the producer; %z is neither");
}

static void rules_must_terminate(void **state) {
    (void)state;
    load(RULE "  %y = abs %x\nafter\n  %y = abs %x\n" END, "is not smaller");
    load(RULE "  %y = abs %x\nafter\n  %m = neg %x\n  %y = abs %m\n" END, "is not smaller");
    load(RULE "  %m = neg %x\n  %n = neg %m\n  %y = abs %n\nafter\n  %y = add %x, %x\n" END,
         "repeats an input more often than the pattern");
}

static void overlaps_of_equal_benefit_are_faults(void **state) {
    (void)state;
    static const char both[] = "rule one raise numerics exact benefit 77\n\"Why.\"\nbefore\n" ABS
                               "after\n  %y = abs %x\n" END "rule two raise numerics rounding benefit 77\n\"Why.\"\n"
                               "before\n  %m = neg %x\n  %y = abs %m\nwhere floating(%x)\nafter\n  %y = %x\n" END;
    load(both, "rule two: may match the same place as rule one (mine.rules:1) with the same benefit, 77");
    /* Attributes that are compared keep rules apart; so do operands that must be absent. */
    load("rule one raise numerics exact benefit 77\n\"Why.\"\nbefore\n  %m = neg %x\n  %y = bitcast %m {dtype=i8}\n"
         "after\n  %y = bitcast %x {dtype=i8}\n" END
         "rule two raise numerics exact benefit 77\n\"Why.\"\nbefore\n  %m = neg %x\n  %y = bitcast %m {dtype=u8}\n"
         "after\n  %y = bitcast %x {dtype=u8}\n" END,
         "");
}

static void several_faults_are_reported_at_once(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    assert_non_null(qf_rules_of(context));
    assert_int_equal(
        qf_rules_load(context,
                      QF_TEXT("rule a raise numerics exact\n\"Why.\"\nbefore\n  %y = ab %x\nafter\n  %y = %x\n"
                              "end\nrule b raise numerics exact\n\"Why.\"\nbefore\n  %y = bc %x\nafter\n"
                              "  %y = %x\nend\n"),
                      "two.rules"),
        QF_ERROR_PARSE);
    assert_non_null(strstr(check.messages, "two.rules:4:8"));
    assert_non_null(strstr(check.messages, "two.rules:11:8"));
    check_destroy(context, &check);
}

static void files_load(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    assert_int_equal(qf_rules_load_file(context, "/no/such/file.rules"), QF_ERROR_NOT_FOUND);
    assert_non_null(strstr(check.messages, "/no/such/file.rules"));
    qf_context_clear_status(context);
    /* The embedded rules again: their names are taken. */
    assert_int_equal(qf_rules_load_file(context, QF_SOURCE_DIR "/patterns/rules/cleanup.rules"), QF_ERROR_VERIFY);
    check_destroy(context, &check);
}

/* The text of an embedded file with names that are not taken; freed by the caller. */
static char *renamed_rules(const char *path, size_t *out_size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = malloc(1 << 16), *out = malloc(1 << 17);
    size_t size = fread(text, 1, (1 << 16) - 1, file), used = 0;
    (void)fclose(file);
    for (size_t i = 0; i < size; i++) {
        out[used++] = text[i];
        if (i >= 5 && memcmp(text + i - 5, "\nrule ", 6) == 0) out[used++] = 'z';
    }
    free(text);
    *out_size = used;
    return out;
}

/* Bytes changed, cut out and doubled: a fault or a sound rule, never a crash or a leak. */
static void damaged_files_are_faults(void **state) {
    (void)state;
    size_t size;
    char *text = renamed_rules(QF_SOURCE_DIR "/patterns/rules/attention.rules", &size), *damaged = malloc(size * 2);
    uint64_t random = 88172645463325252u;
    uint32_t sound = 0;
    for (uint32_t round = 0; round < 150; round++) {
        size_t length = size;
        memcpy(damaged, text, size);
        for (uint32_t change = 0; change < 1 + round % 4; change++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t at = (size_t)(random >> 20) % length, run = (size_t)(random >> 8) % 24;
            if (at + run >= length) continue;
            switch (random % 3) {
            case 0: damaged[at] = (char)(random >> 40); break;
            case 1:
                memmove(damaged + at, damaged + at + run, length - at - run);
                length -= run;
                break;
            default:
                if (length + run > size * 2) break;
                memmove(damaged + at + run, damaged + at, length - at);
                length += run;
                break;
            }
        }
        check_state check;
        qf_context *context = check_context(&check);
        assert_non_null(qf_rules_of(context));
        qf_status status = qf_rules_load(context, (qf_text){damaged, length}, "damaged.rules");
        assert_int_equal(status == QF_OK, check.messages[0] == 0);
        sound += status == QF_OK;
        check_destroy(context, &check);
    }
    assert_true(sound < 150);
    free(text);
    free(damaged);
}

/* Many rules in one file: an error, in time that does not grow with their square; and one fault a rule, not one a pair.
 */
static void too_many_rules_are_a_fault(void **state) {
    (void)state;
    enum { RULES = 20000 };
    static const char form[] =
        "rule many_%05d raise numerics exact\n\"Why.\"\nbefore\n  %%m = neg %%x\n  %%y = abs %%m\n"
        "after\n  %%y = abs %%x\nend\n";
    size_t room = RULES * (sizeof form + 8), size = 0;
    char *text = malloc(room);
    assert_non_null(text);
    for (int i = 0; i < RULES; i++) size += (size_t)snprintf(text + size, room - size, form, i);
    check_state check;
    qf_context *context = check_context(&check);
    assert_non_null(qf_rules_of(context));
    assert_int_equal(qf_rules_load(context, (qf_text){text, size}, "many.rules"), QF_ERROR_PARSE);
    assert_non_null(strstr(check.messages, "are at most 2048"));
    assert_null(strstr(strstr(check.messages, "error ") + 1, "\nerror "));
    check_destroy(context, &check);
    context = check_context(&check);
    assert_non_null(qf_rules_of(context));
    size_t three = 3 * size / RULES;
    assert_int_equal(qf_rules_load(context, (qf_text){text, three}, "three.rules"), QF_ERROR_VERIFY);
    uint32_t errors = 0;
    for (const char *at = check.messages; (at = strstr(at, "same benefit")); at++) errors++;
    assert_int_equal(errors, 2);
    check_destroy(context, &check);
    free(text);
}

/* Fails the n-th allocation until loading passes; nothing leaks, and the status says why. */
static void memory_may_run_out(void **state) {
    (void)state;
    for (uint64_t n = 1;; n += 7) {
        check_state check;
        qf_context *context = check_context(&check);
        check.fail_at = check.allocations + n;
        qf_rule_set *set = qf_rules_of(context);
        if (!set) assert_int_equal(qf_context_status(context), QF_ERROR_OUT_OF_MEMORY);
        check_destroy(context, &check);
        if (set) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedded_rules_load),
        cmocka_unit_test(a_sound_rule_loads),
        cmocka_unit_test(names_must_be_bound),
        cmocka_unit_test(fault_11_every_attribute_is_consumed),
        cmocka_unit_test(unknown_words_are_said),
        cmocka_unit_test(chains_must_be_replayed),
        cmocka_unit_test(rules_must_terminate),
        cmocka_unit_test(overlaps_of_equal_benefit_are_faults),
        cmocka_unit_test(several_faults_are_reported_at_once),
        cmocka_unit_test(files_load),
        cmocka_unit_test(damaged_files_are_faults),
        cmocka_unit_test(too_many_rules_are_a_fault),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
