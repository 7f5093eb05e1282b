#include <stdlib.h>
#include <string.h>

#include "fp_canon.h"
#include "fp_text.h"

enum { FEW = 16 }; /* members of an object up to which they are sorted by insertion */

typedef struct {
    const uint8_t *key;
    int32_t size, node;
} entry;

static int by_key(const void *one, const void *other) {
    const entry *a = one, *b = other;
    int32_t shorter = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->key, b->key, (size_t)shorter);
    if (order) return order;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node; /* of equal keys the later member comes last */
}

static int same_key(const entry *a, const entry *b) {
    return a->size == b->size && memcmp(a->key, b->key, (size_t)a->size) == 0;
}

const uint8_t *fp_tree_key(const fp_tree *tree, int32_t node, int32_t *size) {
    const fp_node *member = &tree->tape.nodes[node];
    *size = tree->key_size[node];
    return tree->key_at[node] < 0 ? tree->reader.body + member->key_start + 1 : tree->keys + tree->key_at[node];
}

/* Decode the keys that have escapes. FP_OK or FP_NO_MEMORY. */
static int decode_keys(fp_tree *tree) {
    const uint8_t *body = tree->reader.body;
    size_t count = (size_t)tree->tape.count, escaped = 0;
    const uint8_t *fault;
    tree->key_at = malloc((count + 1) * sizeof *tree->key_at);
    tree->key_size = malloc((count + 1) * sizeof *tree->key_size);
    if (!tree->key_at || !tree->key_size) return FP_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const fp_node *node = &tree->tape.nodes[i];
        tree->key_at[i] = -1;
        tree->key_size[i] = node->key_start < 0 ? 0 : node->key_end - node->key_start - 2;
        if (tree->key_size[i] && memchr(body + node->key_start + 1, '\\', (size_t)tree->key_size[i])) {
            tree->key_at[i] = (int32_t)escaped;
            escaped += (size_t)tree->key_size[i];
        }
    }
    if (!escaped) return FP_OK;
    tree->keys = malloc(escaped);
    if (!tree->keys) return FP_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (tree->key_at[i] < 0) continue;
        const uint8_t *raw = body + tree->tape.nodes[i].key_start + 1;
        tree->key_size[i] = (int32_t)fp_decode(raw, raw + tree->key_size[i], tree->keys + tree->key_at[i], &fault);
    }
    return FP_OK;
}

/* Sort entries by insertion when few, else by the library. */
static void sort(entry *entries, size_t count) {
    if (count > FEW) {
        qsort(entries, count, sizeof *entries, by_key);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        entry moved = entries[i];
        size_t place = i;
        for (; place && by_key(&entries[place - 1], &moved) > 0; place--) entries[place] = entries[place - 1];
        entries[place] = moved;
    }
}

/* Sort the members of every object and mark those that a later one shadows. FP_OK or FP_NO_MEMORY. */
static int order_members(fp_tree *tree) {
    size_t count = 0, capacity = 0, nodes_count = (size_t)tree->tape.count;
    entry *entries = NULL;
    fp_node *nodes = tree->tape.nodes;
    tree->first = malloc((nodes_count + 1) * sizeof *tree->first);
    tree->follow = malloc((nodes_count + 1) * sizeof *tree->follow);
    if (!tree->first || !tree->follow) return FP_NO_MEMORY;
    for (int32_t object = 0; object < tree->tape.count; object++) {
        tree->first[object] = -1;
        if (nodes[object].type != FP_OBJECT) continue;
        count = 0;
        for (int32_t i = object + 1; i < nodes[object].next; i = nodes[i].next) {
            if (count == capacity) {
                capacity = capacity ? capacity * 2 : 64;
                entry *more = realloc(entries, capacity * sizeof *entries);
                if (!more) {
                    free(entries);
                    return FP_NO_MEMORY;
                }
                entries = more;
            }
            entries[count].key = fp_tree_key(tree, i, &entries[count].size);
            entries[count++].node = i;
        }
        if (!count) continue;
        sort(entries, count);
        tree->first[object] = entries[0].node;
        for (size_t i = 0; i < count; i++) {
            tree->follow[entries[i].node] = i + 1 < count ? entries[i + 1].node : -1;
            if (i && same_key(&entries[i - 1], &entries[i])) nodes[entries[i - 1].node].flags |= FP_SHADOWED;
        }
    }
    free(entries);
    return FP_OK;
}

int fp_tree_read(fp_tree *tree, const fp_grammar *grammar, const uint8_t *body, int32_t start, int32_t end) {
    fp_match match;
    memset(tree, 0, sizeof *tree);
    int error = fp_tape_init(&tree->tape, grammar);
    if (!error) error = fp_read_span(&tree->reader, body, start, end, &tree->tape, grammar);
    if (!error) error = decode_keys(tree);
    if (!error) error = order_members(tree);
    if (!error && grammar) error = fp_match_tape(grammar, body, &tree->tape, grammar->item, 0, &tree->parts, &match);
    tree->reader.error = error;
    return error;
}

void fp_tree_free(fp_tree *tree) {
    fp_tape_free(&tree->tape);
    free(tree->parts.rows);
    free(tree->first);
    free(tree->follow);
    free(tree->keys);
    free(tree->key_at);
    free(tree->key_size);
    memset(tree, 0, sizeof *tree);
}
