/* Scan a body for its items and parts. Reference: _scan_py.py. */
#ifndef FP_SCAN_H
#define FP_SCAN_H

#include <stdint.h>

#include "fp_match.h"

enum { FP_ITEM_MARKED = 1, FP_ITEM_NON_ASCII = 2 };                                      /* as ItemFlag */
enum { FP_ROLE_OTHER, FP_ROLE_SYSTEM, FP_ROLE_USER, FP_ROLE_ASSISTANT, FP_ROLE_RESULT }; /* as Role */
enum { FP_CALLS, FP_RESULTS, FP_REASONINGS, FP_MEDIA, FP_CLASSES };                      /* size classes */

typedef struct {
    int32_t start, end;
    int32_t first_part, part_count;
    int32_t bytes[FP_CLASSES];
    int32_t value_count;  /* values read from the body's start to this item's end */
    int32_t marker_count; /* cache markers in it */
    uint8_t role, flags;
} fp_item;

typedef struct {
    int32_t key_start, key_end; /* with quotes */
    int32_t start, end;         /* of the value */
    int32_t marker_count;
    int16_t atom; /* when the grammar knows the key, or -1 */
    uint8_t last; /* no later member has the same key; set for system and tools only */
} fp_member;

typedef struct {
    fp_item *items;
    int32_t item_count, item_capacity;
    fp_parts parts;
    fp_member *members;
    int32_t member_count, member_capacity;
    int32_t history_member; /* index, or -1 */
    int32_t history_start, history_end;
    int32_t reused_item_count;
    int32_t marker_count;
    int64_t sizes[10]; /* in the order of rows.Sizes */
    int error;         /* FP_OK, or what is wrong with the body, at offset */
    int32_t offset;
} fp_scan;

/* Fill a zeroed scan. previous may be NULL; it must come from the same grammar, and previous_body is what it scanned. Always to
 * be freed. */
int fp_scan_run(fp_scan *scan, const fp_grammar *grammar, const uint8_t *body, int32_t size, const fp_scan *previous,
                const uint8_t *previous_body, int32_t previous_size);
void fp_scan_free(fp_scan *scan);

#endif
