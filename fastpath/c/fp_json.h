/* JSON text to a tape of values, every byte checked. Reference: _json_py.py, whose errors have the same offsets. */
#ifndef FP_JSON_H
#define FP_JSON_H

#include <stdint.h>

#include "fp_grammar.h"

#define FP_DEPTH_LIMIT 512
#define FP_ITEM_LIMIT 1000000
#define FP_VALUE_LIMIT 4000000

enum { FP_NONE, FP_NULL, FP_FALSE, FP_TRUE, FP_NUMBER, FP_STRING, FP_ARRAY, FP_OBJECT }; /* as ValueType */

enum {
    FP_OK,
    FP_UNEXPECTED, /* a byte, or the end */
    FP_TOO_DEEP,
    FP_TOO_MANY_VALUES,
    FP_TOO_MANY_ITEMS,
    FP_NOT_AN_OBJECT,
    FP_NOT_AN_ARRAY,
    FP_NO_HISTORY,
    FP_NO_MEMORY
};

enum { FP_SHADOWED = 1, FP_DROP = 2, FP_TEXT_BLOCK = 4 }; /* flags of a node */

typedef struct {
    int32_t start, end;         /* span of the value */
    int32_t key_start, key_end; /* span of the key with its quotes; -1 for an element and for the root */
    int32_t next;               /* index of the first node after this value's own */
    int32_t parent;             /* index of the node it stands in, or -1 */
    int32_t index;              /* its place in an array */
    int16_t atom;               /* its key, when the grammar knows it, or -1 */
    uint8_t type;
    uint8_t flags;
} fp_node;

typedef struct {
    fp_node *nodes;
    int32_t count, capacity;
    int64_t *stamps; /* by atom: in which object it was last seen, and by which node; see fp_read_value */
    int32_t *holders;
    int64_t epoch;
} fp_tape;

typedef struct {
    const uint8_t *body;
    int32_t end; /* the body is read as if it ended here */
    int32_t value_count;
    int error; /* FP_OK or what went wrong */
    int32_t offset;
    int escaped; /* the string read last has escapes */
} fp_reader;

int fp_tape_init(fp_tape *tape, const fp_grammar *grammar); /* grammar may be NULL; FP_OK or FP_NO_MEMORY */
void fp_tape_free(fp_tape *tape);

/* Offset of the next byte that is not white space; may be the end. */
static inline int32_t fp_skip_space(const fp_reader *reader, int32_t position) {
    while (position < reader->end) {
        uint8_t byte = reader->body[position];
        if (byte > ' ' || (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t')) break;
        position++;
    }
    return position;
}

/* Offset after the string, colon or byte that must stand at position; -1 and reader->error otherwise. */
int32_t fp_read_string(fp_reader *reader, int32_t position);
int32_t fp_read_key(fp_reader *reader, int32_t position, int32_t *key_end); /* to the first byte of the value */
int32_t fp_expect(fp_reader *reader, int32_t position, uint8_t byte);

/* Note an unexpected byte, or the end, at position. Returns -1. */
int32_t fp_fail(fp_reader *reader, int32_t position);

/* Read one value that begins at position inside `depth` open containers. Returns the offset after it, or -1.
 *
 * tape: NULL only checks. Otherwise nodes are appended in order of position.
 * grammar: NULL knows no atoms.
 * prune: leave out what no shape of the grammar can look at: members whose key is in no shape, and what is inside members that
 * lead to no shape. Members with a known key that occurs again later in their object are marked FP_SHADOWED. */
int32_t fp_read_value(fp_reader *reader, int32_t position, int depth, fp_tape *tape, const fp_grammar *grammar, int prune);

/* Read the one value that [start, end) must be, white space aside, with all nodes. FP_OK or the error, also in the reader. */
int fp_read_span(fp_reader *reader, const uint8_t *body, int32_t start, int32_t end, fp_tape *tape, const fp_grammar *grammar);

#endif
