#include "fp_match.h"

#include <stdlib.h>
#include <string.h>

#include "fp_text.h"

typedef struct {
    const fp_grammar *grammar;
    const uint8_t *body;
    fp_tape *tape;
    fp_parts *parts;
    fp_match *match;
    int32_t item;
} context;

static int32_t open_part(context *c, int kind, int32_t parent, int32_t node) {
    fp_parts *parts = c->parts;
    if (parts->count == parts->capacity) {
        int32_t capacity = parts->capacity ? parts->capacity * 2 : 64;
        fp_part *rows = realloc(parts->rows, (size_t)capacity * sizeof *rows);
        if (!rows) return -1;
        parts->rows = rows;
        parts->capacity = capacity;
    }
    const fp_node *over = &c->tape->nodes[node];
    parts->rows[parts->count] =
        (fp_part){c->item, parent, over->start, over->end, -1, -1, -1, -1, -1, -1, node, 0, (uint8_t)kind, 0, FP_NONE, -1};
    return parts->count++;
}

/* The shape that `by` leads to. */
static int pick(const context *c, int32_t node, int shape) {
    const fp_grammar *grammar = c->grammar;
    const fp_node *nodes = c->tape->nodes;
    while (grammar->shapes[shape].by >= 0 && nodes[node].type == FP_OBJECT) {
        int16_t by = grammar->shapes[shape].by;
        int picked = grammar->shapes[shape].default_shape;
        for (int32_t i = node + 1; i < nodes[node].next; i = nodes[i].next) {
            if (nodes[i].atom != by || nodes[i].type != FP_STRING || nodes[i].flags & FP_SHADOWED) continue;
            int atom = fp_find_atom(grammar, c->body + nodes[i].start + 1, nodes[i].end - nodes[i].start - 2, 1);
            int found = atom < 0 ? -1 : grammar->case_of[(size_t)shape * (size_t)grammar->atom_capacity + (size_t)atom];
            if (found >= 0) picked = found;
        }
        if (picked < 0) break;
        shape = picked;
    }
    return shape;
}

/* Is the string, quotes included in the node's span, this text? */
static int is_text(const context *c, const fp_node *node, const char *text) {
    uint8_t plain[64];
    const uint8_t *fault;
    size_t length = strlen(text);
    int32_t raw = node->end - node->start - 2;
    if ((size_t)raw > 6 * length || (size_t)raw > sizeof plain) return 0;
    const uint8_t *from = c->body + node->start + 1;
    return fp_decode(from, from + raw, plain, &fault) == length && memcmp(plain, text, length) == 0;
}

static void file_value(context *c, const fp_node *node, int code, int32_t part, int real) {
    fp_part *open = part >= 0 ? &c->parts->rows[part] : NULL;
    if (code == FP_CODE_MARKER) {
        c->match->marked = 1;
        if (!open) c->match->marker_count += real;
    }
    if (!open) return;
    switch (code) {
        case FP_CODE_ID:
            open->id_start = node->start;
            open->id_end = node->end;
            break;
        case FP_CODE_NAME:
            open->name_start = node->start;
            open->name_end = node->end;
            break;
        case FP_CODE_PAYLOAD:
            open->payload_start = node->start;
            open->payload_end = node->end;
            open->payload_type = node->type;
            break;
        case FP_CODE_ERROR:
            if (node->type == FP_TRUE || (node->type == FP_STRING && is_text(c, node, "error"))) open->flags |= FP_PART_ERROR;
            break;
        case FP_CODE_FAILURE:
            if (real) open->flags |= FP_PART_ERROR;
            break;
        case FP_CODE_SIGNATURE:
            if (node->type == FP_STRING && node->end - node->start > 2) open->flags |= FP_PART_SIGNED;
            break;
        case FP_CODE_MARKER:
            open->flags |= FP_PART_MARKED;
            open->marker_count += real;
            break;
        default: break;
    }
}

static int match_node(context *c, int32_t at, int shape, int32_t part) {
    const fp_grammar *grammar = c->grammar;
    fp_node *nodes = c->tape->nodes; /* the tape does not grow while it is matched */
    fp_node *node = &nodes[at];
    shape = pick(c, at, shape);
    const fp_shape *rule = &grammar->shapes[shape];
    if (rule->role) c->match->role = rule->role;
    if (rule->kind) {
        part = open_part(c, rule->kind, part, at);
        if (part < 0) return FP_NO_MEMORY;
    }
    if (node->type == FP_STRING && rule->kind) {
        file_value(c, node, FP_CODE_PAYLOAD, part, 1);
    } else if (node->type == FP_ARRAY && rule->each >= 0) {
        for (int32_t i = at + 1; i < node->next; i = nodes[i].next) {
            if (match_node(c, i, rule->each, part)) return FP_NO_MEMORY;
        }
    } else if (node->type == FP_OBJECT) {
        const int16_t *field_of = grammar->field_of + (size_t)shape * (size_t)grammar->atom_capacity;
        for (int32_t i = at + 1; i < node->next; i = nodes[i].next) {
            if (nodes[i].atom < 0 || field_of[nodes[i].atom] < 0) continue;
            const fp_field *field = &grammar->fields[field_of[nodes[i].atom]];
            if (field->code == FP_CODE_MARKER) nodes[i].flags |= FP_DROP;
            if (nodes[i].flags & FP_SHADOWED) continue;
            int real = nodes[i].type != FP_NULL && nodes[i].type != FP_FALSE;
            if (part >= 0 && real && field->kind > c->parts->rows[part].kind) c->parts->rows[part].kind = field->kind;
            if (field->text_block && nodes[i].type == FP_STRING) nodes[i].flags |= FP_TEXT_BLOCK;
            file_value(c, &nodes[i], field->code, part, real);
            if (field->shape >= 0 && match_node(c, i, field->shape, part)) return FP_NO_MEMORY;
        }
    }
    return FP_OK;
}

int fp_match_tape(const fp_grammar *grammar, const uint8_t *body, fp_tape *tape, int shape, int32_t item, fp_parts *parts,
                  fp_match *match) {
    context c = {grammar, body, tape, parts, match, item};
    int32_t first = parts->count;
    *match = (fp_match){0, 0, 0};
    if (shape >= 0 && tape->count && match_node(&c, 0, shape, -1)) return FP_NO_MEMORY;
    for (int32_t i = first; i < parts->count; i++) {
        const fp_part *part = &parts->rows[i];
        if (part->kind != FP_KIND_MARKER) {
            match->marker_count += part->marker_count;
            continue;
        }
        match->marked = 1;
        match->marker_count++;
        if (tape->nodes[part->node].key_start < 0) tape->nodes[part->node].flags |= FP_DROP;
    }
    return FP_OK;
}
