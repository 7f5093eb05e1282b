/* Values on a tape matched against a grammar's shapes. Reference: _match_py.py; the rules are in grammar.py. */
#ifndef FP_MATCH_H
#define FP_MATCH_H

#include <stdint.h>

#include "fp_json.h"

enum { FP_PART_ERROR = 1, FP_PART_SIGNED = 2, FP_PART_MARKED = 4 }; /* as PartFlag */
enum {
    FP_KIND_MARKER = 3,
    FP_KIND_MEDIA = 5,
    FP_KIND_RESULT,
    FP_KIND_CALL,
    FP_KIND_SERVER_RESULT,
    FP_KIND_SERVER_CALL,
    FP_KIND_REASONING
};

typedef struct {
    int32_t item, parent; /* parent: index among all parts, or -1 */
    int32_t start, end;
    int32_t id_start, id_end, name_start, name_end, payload_start, payload_end;
    int32_t node;         /* on the tape; means something only while the item is being read */
    int32_t marker_count; /* members with code MARKER that are neither null nor false */
    uint8_t kind, flags, payload_type;
    int8_t counted; /* size class that the part's bytes are counted in, see fp_scan.c */
} fp_part;

typedef struct {
    fp_part *rows;
    int32_t count, capacity;
} fp_parts;

typedef struct {
    int role;
    int marked;
    int32_t marker_count;
} fp_match;

/* Match node 0 of the tape against a shape (-1: none), appending parts. Marks nodes FP_DROP and FP_TEXT_BLOCK. As deep as the
 * tape, which is bounded. FP_OK or FP_NO_MEMORY. */
int fp_match_tape(const fp_grammar *grammar, const uint8_t *body, fp_tape *tape, int shape, int32_t item, fp_parts *parts,
                  fp_match *match);

#endif
