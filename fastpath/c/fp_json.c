#include "fp_json.h"

#include <stdlib.h>
#include <string.h>

#include "fp_bits.h"
#include "fp_text.h"

/* ---- the tape ---- */

int fp_tape_init(fp_tape *tape, const fp_grammar *grammar) {
    memset(tape, 0, sizeof *tape);
    if (!grammar) return FP_OK;
    tape->stamps = calloc((size_t)grammar->atom_count + 1, sizeof *tape->stamps);
    tape->holders = calloc((size_t)grammar->atom_count + 1, sizeof *tape->holders);
    if (tape->stamps && tape->holders) return FP_OK;
    fp_tape_free(tape);
    return FP_NO_MEMORY;
}

void fp_tape_free(fp_tape *tape) {
    free(tape->nodes);
    free(tape->stamps);
    free(tape->holders);
    memset(tape, 0, sizeof *tape);
}

/* Room for one more node; the bound on values keeps the count far inside 32 bits. */
static fp_node *add_node(fp_tape *tape) {
    if (tape->count == tape->capacity) {
        int32_t capacity = tape->capacity ? tape->capacity * 2 : 64;
        fp_node *nodes = realloc(tape->nodes, (size_t)capacity * sizeof *nodes);
        if (!nodes) return NULL;
        tape->nodes = nodes;
        tape->capacity = capacity;
    }
    return &tape->nodes[tape->count++];
}

/* Mark members of an object whose known key occurs again later in it. O(members): what an atom's stamp says of other objects is
 * void. */
static void mark_shadowed(fp_tape *tape, int32_t object) {
    int64_t epoch = ++tape->epoch;
    for (int32_t i = object + 1; i < tape->count; i = tape->nodes[i].next) {
        int16_t atom = tape->nodes[i].atom;
        if (atom < 0) continue;
        if (tape->stamps[atom] == epoch) tape->nodes[tape->holders[atom]].flags |= FP_SHADOWED;
        tape->stamps[atom] = epoch;
        tape->holders[atom] = i;
    }
}

/* ---- scalars ---- */

int32_t fp_fail(fp_reader *reader, int32_t position) {
    reader->error = FP_UNEXPECTED;
    reader->offset = position < reader->end ? position : reader->end;
    return -1;
}

static int32_t fail_with(fp_reader *reader, int32_t position, int error) {
    reader->error = error;
    reader->offset = position;
    return -1;
}

int32_t fp_expect(fp_reader *reader, int32_t position, uint8_t byte) {
    if (position >= reader->end || reader->body[position] != byte) return fp_fail(reader, position);
    return position + 1;
}

/* Offset after the string whose first byte after the quote stands at position. */
static int32_t string_rest(fp_reader *reader, int32_t position) {
    const uint8_t *body = reader->body;
    const uint8_t *end = body + reader->end;
    const uint8_t *p = body + position;
    uint64_t carry = 0;
    uint8_t last[64];
    reader->escaped = 0;
    if (end - p >= FP_SHORT_BYTES) { /* most strings are keys and names */
        uint64_t stops = fp_stops_short(p);
        int place = stops ? fp_lowest_bit(stops) : FP_SHORT_BYTES;
        if (stops && p[place] == '"') return position + place + 1;
        p += place;
    }
    for (;; p += 64) {
        const uint8_t *block = p;
        if (end - p < 64) {
            memset(last, 0, sizeof last); /* a zero byte past the end is a control character: the loop stops there */
            memcpy(last, p, (size_t)(end - p));
            block = last;
        }
        fp_masks masks = fp_classify(block);
        uint64_t stops = masks.quote | masks.control, escaped = 0;
        if (masks.backslash | carry) {
            reader->escaped = 1;
            escaped = fp_escaped(masks.backslash, &carry);
            stops &= ~escaped;
            stops |= escaped & ~(masks.quote | fp_eq64(block, 'n') | fp_eq64(block, 't')); /* others are looked at one by one */
        }
        for (; stops; stops &= stops - 1) {
            int place = fp_lowest_bit(stops);
            const uint8_t *at = p + place;
            if (at >= end) return fp_fail(reader, reader->end);
            if (escaped >> place & 1) {
                uint32_t point;
                const uint8_t *fault;
                if (!fp_read_escape(at - 1, end, &point, &fault)) return fp_fail(reader, (int32_t)(fault - body));
            } else if (*at == '"') {
                return (int32_t)(at - body) + 1;
            } else {
                return fp_fail(reader, (int32_t)(at - body));
            }
        }
    }
}

int32_t fp_read_string(fp_reader *reader, int32_t position) {
    if (fp_expect(reader, position, '"') < 0) return -1;
    return string_rest(reader, position + 1);
}

int32_t fp_read_key(fp_reader *reader, int32_t position, int32_t *key_end) {
    int32_t at = fp_read_string(reader, position);
    if (at < 0) return -1;
    *key_end = at;
    at = fp_expect(reader, fp_skip_space(reader, at), ':');
    return at < 0 ? -1 : fp_skip_space(reader, at);
}

static int is_digit(const fp_reader *reader, int32_t position) {
    return position < reader->end && reader->body[position] >= '0' && reader->body[position] <= '9';
}

/* Offset after the digits at position, of which there must be one. */
static int32_t digits(fp_reader *reader, int32_t position) {
    if (!is_digit(reader, position)) return fp_fail(reader, position);
    while (is_digit(reader, position)) position++;
    return position;
}

static int32_t number(fp_reader *reader, int32_t position) {
    const uint8_t *body = reader->body;
    if (body[position] == '-') position++;
    if (position < reader->end && body[position] == '0') {
        position++;
    } else {
        position = digits(reader, position);
    }
    if (position >= 0 && position < reader->end && body[position] == '.') position = digits(reader, position + 1);
    if (position >= 0 && position < reader->end && (body[position] | 0x20) == 'e') {
        position++;
        if (position < reader->end && (body[position] == '+' || body[position] == '-')) position++;
        position = digits(reader, position);
    }
    return position;
}

static int32_t literal(fp_reader *reader, int32_t position, const char *text) {
    for (; *text; text++, position++) {
        if (position >= reader->end || reader->body[position] != (uint8_t)*text) return fp_fail(reader, position);
    }
    return position;
}

/* Read a value that is neither array nor object; sets its type. */
static int32_t scalar(fp_reader *reader, int32_t position, uint8_t *type) {
    if (position >= reader->end) return fp_fail(reader, position);
    switch (reader->body[position]) {
        case '"': *type = FP_STRING; return string_rest(reader, position + 1);
        case 'n': *type = FP_NULL; return literal(reader, position, "null");
        case 'f': *type = FP_FALSE; return literal(reader, position, "false");
        case 't': *type = FP_TRUE; return literal(reader, position, "true");
        case '-':
        case '0':
        case '1':
        case '2':
        case '3':
        case '4':
        case '5':
        case '6':
        case '7':
        case '8':
        case '9': *type = FP_NUMBER; return number(reader, position);
        default: return fp_fail(reader, position);
    }
}

/* ---- values ---- */

typedef struct {
    int32_t node;        /* of the container, or -1 when it is not recorded */
    int32_t child_count; /* recorded children */
    uint8_t object;
    uint8_t began_quiet; /* nothing inside is recorded, and it was the first so */
} frame;

int32_t fp_read_value(fp_reader *reader, int32_t position, int depth, fp_tape *tape, const fp_grammar *grammar, int prune) {
    frame frames[FP_DEPTH_LIMIT];
    int open = 0;             /* frames in use */
    int quiet = tape == NULL; /* no nodes are made */
    int wanted = !quiet;      /* the next value gets a node */
    int leaf = 0;             /* but what is inside it does not */
    int32_t key_start = -1, key_end = -1, atom = -1;
    const uint8_t *body = reader->body;

    for (;;) {
        if (++reader->value_count > FP_VALUE_LIMIT) return fail_with(reader, position, FP_TOO_MANY_VALUES);
        uint8_t byte = position < reader->end ? body[position] : 0;
        int container = byte == '{' || byte == '[';
        int32_t own = -1;
        if (container && depth + open >= FP_DEPTH_LIMIT) return fail_with(reader, position, FP_TOO_DEEP);
        uint8_t type = byte == '{' ? FP_OBJECT : FP_ARRAY;
        int32_t after = container ? position + 1 : scalar(reader, position, &type);
        if (after < 0) return -1;
        if (wanted) {
            fp_node *node = add_node(tape);
            if (!node) return fail_with(reader, position, FP_NO_MEMORY);
            own = tape->count - 1;
            frame *around = open ? &frames[open - 1] : NULL;
            *node = (fp_node){position,
                              after,
                              key_start,
                              key_end,
                              tape->count,
                              around ? around->node : -1,
                              around ? around->child_count++ : 0,
                              (int16_t)atom,
                              type,
                              0};
        }
        int opened = container;
        if (container) {
            frames[open++] = (frame){own, 0, byte == '{', (uint8_t)(!quiet && (!wanted || leaf))};
            quiet |= !wanted || leaf;
        } else if (!open) {
            return after;
        }
        position = fp_skip_space(reader, after);

        /* Close what ends here; then go on to the next member or element. */
        frame *top;
        for (;;) {
            top = &frames[open - 1];
            if (position < reader->end && body[position] == (top->object ? '}' : ']')) {
                position++;
                if (top->node >= 0) {
                    tape->nodes[top->node].end = position;
                    tape->nodes[top->node].next = tape->count;
                    if (top->object && grammar) mark_shadowed(tape, top->node);
                }
                if (top->began_quiet) quiet = 0;
                if (!--open) return position;
                position = fp_skip_space(reader, position);
                opened = 0;
                continue;
            }
            if (!opened) {
                position = fp_expect(reader, position, ',');
                if (position < 0) return -1;
                position = fp_skip_space(reader, position);
            }
            break;
        }
        wanted = !quiet;
        leaf = 0;
        if (top->object) {
            key_start = position;
            position = fp_read_key(reader, position, &key_end);
            int key_escaped = reader->escaped;
            if (position < 0) return -1;
            if (wanted && grammar) {
                atom = fp_find_atom(grammar, body + key_start + 1, key_end - key_start - 2, key_escaped);
                if (prune) {
                    wanted = atom >= 0 && grammar->atoms[atom].used;
                    leaf = wanted && !grammar->atoms[atom].descends;
                }
            }
        } else {
            key_start = key_end = atom = -1;
        }
    }
}

int fp_read_span(fp_reader *reader, const uint8_t *body, int32_t start, int32_t end, fp_tape *tape, const fp_grammar *grammar) {
    *reader = (fp_reader){body, end, 0, FP_OK, 0, 0};
    int32_t after = fp_read_value(reader, fp_skip_space(reader, start), 0, tape, grammar, 0);
    if (after < 0) return reader->error;
    after = fp_skip_space(reader, after);
    if (after != end) fp_fail(reader, after);
    return reader->error;
}
