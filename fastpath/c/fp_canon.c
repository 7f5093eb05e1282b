#include "fp_canon.h"

#include <stdlib.h>
#include <string.h>

#include "fp_number.h"
#include "fp_text.h"

/* Room for `more` bytes at the end of a buffer, or NULL. */
static uint8_t *room(fp_buffer *out, size_t more) {
    if (out->capacity - out->size < more) {
        size_t capacity = out->capacity + out->capacity / 2 + more;
        uint8_t *data = realloc(out->data, capacity);
        if (!data) return NULL;
        out->data = data;
        out->capacity = capacity;
    }
    return out->data + out->size;
}

static int put(fp_buffer *out, const void *data, size_t size) {
    if (!size) return FP_OK;
    uint8_t *to = room(out, size);
    if (!to) return FP_NO_MEMORY;
    memcpy(to, data, size);
    out->size += size;
    return FP_OK;
}

static int put_text(fp_buffer *out, const char *text) {
    return put(out, text, strlen(text));
}

/* Write the string whose quotes are the first and last byte of body[start:end]. */
static int put_string(fp_buffer *out, const uint8_t *body, int32_t start, int32_t end) {
    uint8_t *to = room(out, (size_t)(end - start));
    if (!to) return FP_NO_MEMORY;
    *to = '"';
    size_t size = fp_write_canonical(body + start + 1, body + end - 1, to + 1);
    to[size + 1] = '"';
    out->size += size + 2;
    return FP_OK;
}

typedef struct {
    const fp_tree *tree;
    fp_buffer *out;
    int loose;
    int *differs;
} writer;

static int put_number(writer *w, const fp_node *node) {
    const uint8_t *text = w->tree->reader.body + node->start;
    size_t length = (size_t)(node->end - node->start), size;
    size_t most = length + FP_NUMBER_EXTRA;
    uint8_t *exact = room(w->out, 3 * most); /* two spellings and what one of them is made in */
    if (!exact) return FP_NO_MEMORY;
    uint8_t *nearest = exact + most;
    size = fp_write_exact(text, length, exact);
    size_t other = fp_write_double(text, length, nearest, nearest + most);
    if (size != other || memcmp(exact, nearest, size) != 0) {
        *w->differs = 1;
        if (w->loose) memmove(exact, nearest, size = other);
    }
    w->out->size += size;
    return FP_OK;
}

static int put_value(writer *w, int32_t at);

static int put_object(writer *w, int32_t at) {
    const fp_tree *tree = w->tree;
    int error, any = 0;
    for (int32_t i = tree->first[at]; i >= 0; i = tree->follow[i]) {
        const fp_node *member = &tree->tape.nodes[i];
        if (member->flags & (FP_SHADOWED | FP_DROP)) continue;
        if (member->type == FP_NULL) {
            *w->differs = 1;
            if (w->loose) continue;
        }
        if ((error = put_text(w->out, any ? "," : "{"))) return error;
        any = 1;
        if ((error = put_string(w->out, tree->reader.body, member->key_start, member->key_end))) return error;
        if ((error = put_text(w->out, ":"))) return error;
        if ((error = put_value(w, i))) return error;
    }
    return put_text(w->out, any ? "}" : "{}");
}

static int put_array(writer *w, int32_t at) {
    const fp_node *nodes = w->tree->tape.nodes;
    int error, any = 0;
    for (int32_t i = at + 1; i < nodes[at].next; i = nodes[i].next) {
        if (nodes[i].flags & FP_DROP) continue;
        if ((error = put_text(w->out, any ? "," : "["))) return error;
        any = 1;
        if ((error = put_value(w, i))) return error;
    }
    return put_text(w->out, any ? "]" : "[]");
}

/* As deep as the value, which is bounded. */
static int put_value(writer *w, int32_t at) {
    const fp_node *node = &w->tree->tape.nodes[at];
    int error;
    switch (node->type) {
        case FP_OBJECT: return put_object(w, at);
        case FP_ARRAY: return put_array(w, at);
        case FP_NUMBER: return put_number(w, node);
        case FP_STRING:
            if (!(node->flags & FP_TEXT_BLOCK)) return put_string(w->out, w->tree->reader.body, node->start, node->end);
            if ((error = put_text(w->out, "[{\"text\":"))) return error;
            if ((error = put_string(w->out, w->tree->reader.body, node->start, node->end))) return error;
            return put_text(w->out, ",\"type\":\"text\"}]");
        case FP_TRUE: return put_text(w->out, "true");
        case FP_FALSE: return put_text(w->out, "false");
        default: return put_text(w->out, "null");
    }
}

int fp_write_canon(const fp_tree *tree, int loose, fp_buffer *out, int *differs) {
    writer w = {tree, out, loose, differs};
    *differs = 0;
    return put_value(&w, 0);
}

typedef struct {
    const fp_tree *tree;
    fp_buffer *out;
    int32_t position; /* up to here the bytes are written or left out */
} stripper;

static int cut(stripper *s, int32_t start, int32_t end) {
    int error = put(s->out, s->tree->reader.body + s->position, (size_t)(start - s->position));
    s->position = end;
    return error;
}

/* Cut out the dropped nodes inside a value, each with one comma: the one before it, or when nothing stays before it the one
 * behind. */
static int strip(stripper *s, int32_t at) {
    const fp_node *nodes = s->tree->tape.nodes;
    int32_t pending = -1, before = -1; /* where a run of leading children that go begins; end of the child before */
    int error, kept = 0;
    for (int32_t i = at + 1; i < nodes[at].next; before = nodes[i].end, i = nodes[i].next) {
        int32_t start = nodes[i].key_start < 0 ? nodes[i].start : nodes[i].key_start;
        if (nodes[i].flags & FP_DROP) {
            if (kept && (error = cut(s, before, nodes[i].end))) return error;
            if (!kept && pending < 0) pending = start;
            continue;
        }
        if (pending >= 0 && (error = cut(s, pending, start))) return error;
        pending = -1;
        kept = 1;
        if ((error = strip(s, i))) return error;
    }
    return pending >= 0 ? cut(s, pending, before) : FP_OK;
}

int fp_write_stripped(const fp_tree *tree, int32_t start, int32_t end, fp_buffer *out) {
    stripper s = {tree, out, start};
    int error = strip(&s, 0);
    return error ? error : cut(&s, end, end);
}
