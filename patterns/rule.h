/* Owns: a rule as data: patterns, bindings, match plan, statistics; and the set of rules of a context.
 * Does not own: the language (docs/rules.md, rule_parse.c), load-time checks (rule_check.c), matching (match.c).
 * Next: rule_parse.c, rule_plan.c. */
#ifndef QF_PATTERNS_RULE_H
#define QF_PATTERNS_RULE_H

#include "patterns/report.h"

/* Rules of one context: each is compared with those before it. */
#define QF_RULE_MAX_RULES        2048
/* Limits of one rule; the loader reports rules beyond them. */
#define QF_RULE_MAX_NODES        16
#define QF_RULE_MAX_VALUES       48
#define QF_RULE_MAX_VARIABLES    48
#define QF_RULE_MAX_CHAINS       8
#define QF_RULE_MAX_PREDICATES   24
#define QF_RULE_MAX_ARGUMENTS    6
#define QF_RULE_MAX_RESULTS      4
#define QF_RULE_MAX_ALTERNATIVES 8
#define QF_CHAIN_MAX             32 /* layout ops that one ~ looks through */
#define QF_NO_INDEX              UINT32_MAX

typedef enum qf_operand_pattern_kind {
    QF_PATTERN_ABSENT,  /* before: must be absent; after: left out */
    QF_PATTERN_VALUE,   /* %x, ~%x, %x? */
    QF_PATTERN_UNIFORM, /* $x: a constant with one value everywhere; after: a scalar constant */
    QF_PATTERN_NUMBER,  /* 1.0: the same with a known value */
    QF_PATTERN_REPLAY,  /* after only: ~c(%x): %x through the layout ops that ~%c looked through */
    QF_PATTERN_REST     /* after only: what `...` took in the before-node `source` */
} qf_operand_pattern_kind;

typedef struct qf_operand_pattern {
    qf_operand_pattern_kind kind;
    bool optional;
    bool first;        /* before: this occurrence binds, later ones compare */
    uint32_t value;    /* VALUE, REPLAY */
    uint32_t chain;    /* VALUE with ~, REPLAY; else QF_NO_INDEX */
    uint32_t variable; /* UNIFORM */
    double number;     /* NUMBER */
} qf_operand_pattern;

typedef enum qf_attribute_pattern_kind {
    QF_PATTERN_DEFAULT,       /* after: the table's default */
    QF_PATTERN_LITERAL,       /* compare / write */
    QF_PATTERN_VARIABLE,      /* $x: bind or compare / write */
    QF_PATTERN_ANY,           /* before only: overwritten by the right side, or a predicate sees the node */
    QF_PATTERN_REST_ATTRIBUTE /* `...`: carried to the right side */
} qf_attribute_pattern_kind;

typedef struct qf_attribute_pattern {
    qf_attribute_pattern_kind kind;
    bool first;
    uint32_t variable;
    qf_attribute literal;
} qf_attribute_pattern;

typedef struct qf_rule_node {
    qf_op op; /* 0: an alias in `after`: %y = %x */
    const qf_op_info *info;
    uint32_t operand_count; /* the op's columns; for ops with MANY operands as many as were written */
    qf_operand_pattern *operands;
    qf_attribute_pattern *attributes;
    bool rest_operands, rest_attributes; /* `...` was written */
    uint32_t source;                     /* after: the before-node whose rest is carried, or QF_NO_INDEX */
    uint32_t result_count;
    uint32_t results[QF_RULE_MAX_RESULTS];
    bool result_optional[QF_RULE_MAX_RESULTS];
    bool result_first[QF_RULE_MAX_RESULTS]; /* before: the step of this node binds the result */
    bool keep;                              /* results may have users outside of the match */
    uint32_t line, column;
} qf_rule_node;

typedef struct qf_rule_value {
    qf_string name;
    uint32_t before, after; /* node that defines it on that side, or QF_NO_INDEX */
    uint32_t result;        /* index in the before-node */
    uint32_t after_result;
    bool optional; /* may be absent */
    bool used_before, used_after;
} qf_rule_value;

typedef struct qf_rule_variable {
    qf_string name;
    qf_attribute_kind kind;
    const qf_enum_info *enumeration;
    bool known_kind;
    bool bound, consumed; /* by load-time checks only */
    bool computed;        /* an output of a predicate */
} qf_rule_variable;

typedef struct qf_rule_argument {
    enum { QF_ARGUMENT_VALUE, QF_ARGUMENT_VARIABLE, QF_ARGUMENT_NUMBER, QF_ARGUMENT_NAME } kind;
    uint32_t index; /* VALUE, VARIABLE */
    double number;
    qf_string name; /* NAME: "f32", "pointwise" */
} qf_rule_argument;

typedef struct qf_rule_predicate {
    const struct qf_predicate_info *info;
    bool negated;
    uint32_t argument_count;
    qf_rule_argument arguments[QF_RULE_MAX_ARGUMENTS];
    uint32_t line, column;
} qf_rule_predicate;

/* What the automatic tests draw an input or variable from: texts of types or attribute values. Samples of one `test`
 * clause belong together. */
typedef struct qf_rule_sample {
    uint32_t test;
    bool is_value;
    qf_string name; /* "x": an input or variable; "y.scale", "y.dtype": what `...` or `any` of the node that defines %y
                       takes */
    uint32_t alternative_count;
    qf_string alternatives[QF_RULE_MAX_ALTERNATIVES];
} qf_rule_sample;

/* The match plan: steps in the order in which they run. What is bound at a step is known when the rule is loaded. */
typedef struct qf_match_step {
    enum { QF_STEP_NODE, QF_STEP_USER, QF_STEP_PREDICATE } kind;
    uint32_t node;      /* NODE: producer of a bound value; USER: any user of `value` at `operand` */
    uint32_t value;     /* NODE: through which it is reached (QF_NO_INDEX: the anchor); USER: the bound value */
    uint32_t operand;   /* USER */
    uint32_t predicate; /* PREDICATE */
} qf_match_step;

typedef struct qf_rule_statistics {
    uint64_t tried, matched, rewritten;
    uint64_t refused[64]; /* by reason number */
} qf_rule_statistics;

typedef struct qf_rule {
    qf_string name, phase, doc;
    qf_string file;
    uint32_t line;
    qf_numerics numerics;
    uint32_t benefit; /* tried in falling order; default: number of before-nodes */
    qf_rule_node before[QF_RULE_MAX_NODES], after[QF_RULE_MAX_NODES];
    uint32_t before_count, after_count;
    qf_rule_value values[QF_RULE_MAX_VALUES];
    uint32_t value_count;
    qf_rule_variable variables[QF_RULE_MAX_VARIABLES];
    uint32_t variable_count;
    qf_rule_predicate predicates[QF_RULE_MAX_PREDICATES];
    uint32_t predicate_count;
    uint32_t chain_count;
    struct {
        uint32_t value;    /* the value that ~ stands before */
        uint32_t consumer; /* before-node that ~ was written in */
        uint32_t operand;
        bool replayed;
        bool crosses_producer; /* replayed on an operand of the producer, else on a new result */
        uint32_t producer_operand;
    } chains[QF_RULE_MAX_CHAINS];
    qf_rule_sample *samples;
    uint32_t sample_count, sample_capacity, test_count;
    uint32_t anchor; /* before-node that a match starts at: a sink of the pattern */
    qf_match_step steps[QF_RULE_MAX_NODES + QF_RULE_MAX_PREDICATES];
    uint32_t step_count;
    qf_rule_statistics statistics;
} qf_rule;

/* Rules of one phase, indexed by the op of their anchor. */
typedef struct qf_rule_phase {
    qf_string name;
    qf_rule **rules; /* grouped by op, falling benefit, then by name */
    uint32_t rule_count;
    uint32_t first[256], count[256]; /* by op number */
} qf_rule_phase;

typedef struct qf_rule_set {
    qf_context *context;
    qf_arena arena;
    qf_rule **rules; /* in the order of loading */
    uint32_t rule_count, rule_capacity;
    qf_rule_phase **phases;
    uint32_t phase_count, phase_capacity;
    uint64_t hash; /* of all rule text, for fingerprints */
} qf_rule_set;

/* rule_parse.c: appends the rules of `text` to the set, unchecked. Several faults are reported. */
qf_status qf_rules_parse(qf_rule_set *set, qf_text text, const char *file_name);
/* rule_check.c: one rule against the promises of docs/rules.md; then pairs for overlap. */
qf_status qf_rule_check(qf_rule_set *set, qf_rule *rule);
qf_status qf_rules_check_overlap(qf_rule_set *set, uint32_t first_new);
/* rule_plan.c: anchor, steps and first occurrences. */
qf_status qf_rule_plan(qf_rule_set *set, qf_rule *rule);
qf_position qf_rule_position(const qf_rule_set *set, const qf_rule *rule, uint32_t line, uint32_t column);

#endif
