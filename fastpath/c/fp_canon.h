/* One form for all spellings of an item, and an item without its cache markers. Reference: _canon_py.py. */
#ifndef FP_CANON_H
#define FP_CANON_H

#include <stddef.h>
#include <stdint.h>

#include "fp_match.h"

typedef struct {
    uint8_t *data;
    size_t size, capacity;
} fp_buffer;

/* A value read whole, with its keys decoded and in order. All arrays are by node. */
typedef struct {
    fp_reader reader; /* error and offset, when reading failed */
    fp_tape tape;
    fp_parts parts;
    int32_t *first;    /* of an object: its member with the least key, or -1 */
    int32_t *follow;   /* of a member: the next in order of decoded keys, duplicates in order of position; or -1 */
    uint8_t *keys;     /* decoded text of keys that have escapes */
    int32_t *key_at;   /* where in keys, or -1 when the key stands plainly in the body */
    int32_t *key_size; /* bytes of the decoded key */
} fp_tree;

/* Read body[start:end] with all members; marks members whose key occurs again FP_SHADOWED. With a grammar (else NULL) its item
 * shape is matched and marks FP_DROP and FP_TEXT_BLOCK. FP_OK or the error. Always to be freed. */
int fp_tree_read(fp_tree *tree, const fp_grammar *grammar, const uint8_t *body, int32_t start, int32_t end);
void fp_tree_free(fp_tree *tree);

/* Decoded key of a node. */
const uint8_t *fp_tree_key(const fp_tree *tree, int32_t node, int32_t *size);

/* Canonical form of a tree; *differs is set when the loose form is another. FP_OK or FP_NO_MEMORY. */
int fp_write_canon(const fp_tree *tree, int loose, fp_buffer *out, int *differs);

/* The tree's bytes from start to end without dropped nodes. FP_OK or FP_NO_MEMORY. */
int fp_write_stripped(const fp_tree *tree, int32_t start, int32_t end, fp_buffer *out);

#endif
