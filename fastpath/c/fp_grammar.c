#include "fp_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "fp_text.h"

/* Three bytes tell the keys of a dialect apart well enough; the table is sparse. */
static uint32_t hash(const uint8_t *text, int32_t length) {
    if (!length) return 0;
    uint32_t value = (uint32_t)length * 31 + text[0];
    value = value * 31 + text[length / 2];
    value = value * 31 + text[length - 1];
    return value ^ value >> 7;
}

static void fill(int16_t *table, size_t count) {
    for (size_t i = 0; i < count; i++) table[i] = -1;
}

fp_grammar *fp_grammar_new(int32_t shape_count, int32_t atom_count, int32_t field_count) {
    fp_grammar *grammar = calloc(1, sizeof *grammar);
    if (!grammar) return NULL;
    uint32_t slots = 16;
    while (slots < (uint32_t)atom_count * 4) slots *= 2;
    size_t cells = (size_t)shape_count * (size_t)(atom_count + 1) + 1;
    grammar->atom_capacity = atom_count;
    grammar->field_capacity = field_count;
    grammar->shape_count = shape_count;
    grammar->table_mask = slots - 1;
    grammar->atoms = calloc((size_t)atom_count + 1, sizeof *grammar->atoms);
    grammar->text = malloc((size_t)atom_count * FP_ATOM_BYTES + 1);
    grammar->table = malloc(slots * sizeof *grammar->table);
    grammar->shapes = calloc((size_t)shape_count + 1, sizeof *grammar->shapes);
    grammar->fields = calloc((size_t)field_count + 1, sizeof *grammar->fields);
    grammar->field_of = malloc(cells * sizeof *grammar->field_of);
    grammar->case_of = malloc(cells * sizeof *grammar->case_of);
    grammar->item = grammar->system_shape = grammar->tools_shape = -1;
    if (!grammar->atoms || !grammar->text || !grammar->table || !grammar->shapes || !grammar->fields || !grammar->field_of ||
        !grammar->case_of) {
        fp_grammar_free(grammar);
        return NULL;
    }
    fill(grammar->table, slots);
    fill(grammar->field_of, cells);
    fill(grammar->case_of, cells);
    for (int32_t i = 0; i < shape_count; i++) {
        grammar->shapes[i].by = grammar->shapes[i].default_shape = grammar->shapes[i].each = -1;
    }
    return grammar;
}

void fp_grammar_free(fp_grammar *grammar) {
    if (!grammar) return;
    free(grammar->atoms);
    free(grammar->text);
    free(grammar->table);
    free(grammar->shapes);
    free(grammar->fields);
    free(grammar->field_of);
    free(grammar->case_of);
    free(grammar);
}

static uint32_t slot_of(const fp_grammar *grammar, const uint8_t *text, int32_t length) {
    uint32_t slot = hash(text, length) & grammar->table_mask;
    while (grammar->table[slot] >= 0) {
        const fp_atom *atom = &grammar->atoms[grammar->table[slot]];
        if (atom->length == length && memcmp(grammar->text + atom->offset, text, (size_t)length) == 0) break;
        slot = (slot + 1) & grammar->table_mask;
    }
    return slot;
}

int fp_grammar_atom(fp_grammar *grammar, const uint8_t *text, int32_t length) {
    if (length > FP_ATOM_BYTES) return -1;
    uint32_t slot = slot_of(grammar, text, length);
    if (grammar->table[slot] >= 0) return grammar->table[slot];
    if (grammar->atom_count >= grammar->atom_capacity) return -1;
    fp_atom *atom = &grammar->atoms[grammar->atom_count];
    atom->length = length;
    atom->offset = grammar->text_size;
    atom->rank = -1;
    memcpy(grammar->text + grammar->text_size, text, (size_t)length);
    grammar->text_size += (uint32_t)length;
    grammar->table[slot] = (int16_t)grammar->atom_count;
    return grammar->atom_count++;
}

void fp_grammar_root(fp_grammar *grammar, int atom, int root, int rank) {
    grammar->atoms[atom].root = (uint8_t)root;
    grammar->atoms[atom].rank = (int16_t)rank;
}

void fp_grammar_by(fp_grammar *grammar, int shape, int atom) {
    grammar->shapes[shape].by = (int16_t)atom;
    grammar->atoms[atom].used = 1;
}

void fp_grammar_case(fp_grammar *grammar, int shape, int atom, int picked) {
    grammar->case_of[(size_t)shape * (size_t)grammar->atom_capacity + (size_t)atom] = (int16_t)picked;
}

void fp_grammar_field(fp_grammar *grammar, int shape, int atom, fp_field field) {
    if (grammar->field_count >= grammar->field_capacity) return;
    grammar->fields[grammar->field_count] = field;
    grammar->field_of[(size_t)shape * (size_t)grammar->atom_capacity + (size_t)atom] = (int16_t)grammar->field_count++;
    grammar->atoms[atom].used = 1;
    if (field.shape >= 0) grammar->atoms[atom].descends = 1;
}

int fp_find_atom(const fp_grammar *grammar, const uint8_t *raw, int32_t length, int escaped) {
    uint8_t plain[6 * FP_ATOM_BYTES];
    if (length > 6 * FP_ATOM_BYTES) return -1; /* an escape is at most six times as long as what it stands for */
    if (escaped && memchr(raw, '\\', (size_t)length)) {
        const uint8_t *fault;
        length = (int32_t)fp_decode(raw, raw + length, plain, &fault);
        raw = plain;
    }
    if (length > FP_ATOM_BYTES) return -1;
    return grammar->table[slot_of(grammar, raw, length)];
}
