/* A dialect's tables. An atom is a key or a case that the grammar names, by number. The rules are in grammar.py. */
#ifndef FP_GRAMMAR_H
#define FP_GRAMMAR_H

#include <stdint.h>

#define FP_ATOM_BYTES 255 /* no key of a grammar is longer */

enum {
    FP_CODE_NONE,
    FP_CODE_ID,
    FP_CODE_NAME,
    FP_CODE_PAYLOAD,
    FP_CODE_ERROR,
    FP_CODE_SIGNATURE,
    FP_CODE_MARKER,
    FP_CODE_FAILURE
}; /* as Code */
enum { FP_ROOT_NONE, FP_ROOT_HISTORY, FP_ROOT_SYSTEM, FP_ROOT_TOOLS };

typedef struct {
    int16_t shape; /* or -1 */
    uint8_t code, kind, text_block;
} fp_field;

typedef struct {
    int16_t by;            /* atom, or -1 */
    int16_t default_shape; /* or -1 */
    int16_t each;          /* or -1 */
    uint8_t kind, role;
} fp_shape;

typedef struct {
    int32_t length;
    uint32_t offset;  /* in text */
    int16_t rank;     /* of a history key */
    uint8_t root;     /* FP_ROOT_... */
    uint8_t used;     /* some shape has a field or a `by` of this key */
    uint8_t descends; /* some field of this key has a shape */
} fp_atom;

typedef struct {
    fp_atom *atoms;
    uint8_t *text;
    int32_t atom_count, atom_capacity;
    uint32_t text_size;
    int16_t *table; /* open addressing, -1 is free */
    uint32_t table_mask;
    fp_shape *shapes;
    int32_t shape_count;
    fp_field *fields;
    int32_t field_count, field_capacity;
    int16_t *field_of; /* [shape][atom], or -1 */
    int16_t *case_of;  /* [shape][atom]: shape, or -1 */
    int16_t item, system_shape, tools_shape;
    uint8_t history_text; /* a string in the place of the history is its only item */
} fp_grammar;

/* NULL when there is no memory. Counts are upper bounds. */
fp_grammar *fp_grammar_new(int32_t shape_count, int32_t atom_count, int32_t field_count);
void fp_grammar_free(fp_grammar *grammar);

/* The number of a key or case, which is added when it is new; -1 when there is no more room or it is too long. */
int fp_grammar_atom(fp_grammar *grammar, const uint8_t *text, int32_t length);
void fp_grammar_root(fp_grammar *grammar, int atom, int root, int rank);
void fp_grammar_by(fp_grammar *grammar, int shape, int atom);
void fp_grammar_case(fp_grammar *grammar, int shape, int atom, int picked);
void fp_grammar_field(fp_grammar *grammar, int shape, int atom, fp_field field);

/* The atom of a raw text between quotes, or -1. `escaped`: escapes may be in it. */
int fp_find_atom(const fp_grammar *grammar, const uint8_t *raw, int32_t length, int escaped);

#endif
