/* Owns: tokens of QFuse's text languages (graphs, rules), with their places, and messages that point at them.
 * Does not own: grammars (parse.c, patterns/), dims and types, which base/ reads from the remaining text.
 * Next: lexer.c, parse.c. */
#ifndef QF_IR_LEXER_H
#define QF_IR_LEXER_H

#include "base/context.h"

typedef enum qf_token_kind {
    QF_TOKEN_END,
    QF_TOKEN_NAME,     /* attention, f16, x.y: [A-Za-z_][A-Za-z0-9_.]*, no '.' at the end */
    QF_TOKEN_VALUE,    /* %name or %"any text" */
    QF_TOKEN_VARIABLE, /* $name */
    QF_TOKEN_GLOBAL,   /* @name or @"any text" */
    QF_TOKEN_INTEGER,  /* 12, 0x1F; a sign is a token of its own */
    QF_TOKEN_FLOAT,    /* 0.5, 1e-05 */
    QF_TOKEN_STRING,   /* "..." with \" \\ \n \t \xNN */
    QF_TOKEN_MARK,     /* ( ) [ ] { } , : = + - * / ? ~ < > ! ; | & . and == != <= >= -> ... */
    QF_TOKEN_INVALID   /* a byte that starts no token, or a string without an end; already reported */
} qf_token_kind;

typedef struct qf_token {
    qf_token_kind kind;
    bool first_on_line;
    uint32_t line, column; /* from 1; columns count bytes */
    qf_text text;          /* as written, with sigil and quotes; borrowed from the source */
    const char *line_start;
} qf_token;

/* Comments run from "//" to the end of the line. The source must outlive the lexer; nothing is allocated. */
typedef struct qf_lexer {
    qf_context *context;
    qf_text source;
    const char *file_name;
    const char *cursor; /* behind `token` */
    const char *line_start;
    uint32_t line;
    bool at_line_start;
    qf_token token;       /* the current one */
    uint32_t fault_count; /* messages sent through qf_lexer_fail */
} qf_lexer;

/* Stands on the first token afterwards. `file_name` ("rules/raise.rules") must outlive the lexer too. */
void qf_lexer_start(qf_lexer *lexer, qf_context *context, qf_text source, const char *file_name);
void qf_lexer_next(qf_lexer *lexer);
/* The current token is this mark or name. */
bool qf_lexer_is(const qf_lexer *lexer, const char *text);
/* Steps over the token if it is this mark or name. */
bool qf_lexer_accept(qf_lexer *lexer, const char *text);
/* As accept, else a fault "expected `text` <purpose>, found ...". `purpose` may be "". */
bool qf_lexer_expect(qf_lexer *lexer, const char *text, const char *purpose);

/* The source from the current token on, for readers such as qf_type_parse that advance a qf_text; resume behind what
 * they read. */
qf_text qf_lexer_rest(const qf_lexer *lexer);
void qf_lexer_resume(qf_lexer *lexer, qf_text rest);

/* Values of tokens at the cursor; each steps over what it read, or reports a fault that names `what` and gives false.
 */
bool qf_lexer_integer(qf_lexer *lexer, const char *what, int64_t *out_value); /* with an optional sign */
bool qf_lexer_number(qf_lexer *lexer, const char *what, double *out_value); /* integer, float, inf, nan, bits 0x.... */
bool qf_lexer_string(qf_lexer *lexer, const char *what, qf_string *out_string); /* unescaped, interned */
/* The text behind the sigil of a VALUE, VARIABLE or GLOBAL, or a NAME, unescaped and interned; does not step. 0 on
 * failure. */
qf_string qf_lexer_name(qf_lexer *lexer, const qf_token *token);

/* The place of a token. The printed location goes into `storage`, which must outlive the position. */
#define QF_LOCATION_SIZE 1024
qf_position qf_lexer_position(const qf_lexer *lexer, const qf_token *token, char storage[QF_LOCATION_SIZE]);
/* Sends a located message and counts the fault. Returns `status`. */
qf_status qf_lexer_fail(qf_lexer *lexer, const qf_token *token, qf_status status, const char *format, ...)
    QF_PRINTF(4, 5);
/* The same with "expected <what>, found <token>". */
qf_status qf_lexer_unexpected(qf_lexer *lexer, const char *what);

/* True where `text` may stand behind '%' or '@' without quotes. */
bool qf_text_is_plain_name(qf_text text);
/* `text` behind `sigil`, quoted where it must be. */
void qf_buffer_sigil_name(qf_buffer *buffer, char sigil, qf_text text);

#endif
