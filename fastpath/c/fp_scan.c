#include "fp_scan.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    fp_scan *scan;
    const fp_grammar *grammar;
    fp_reader reader;
    fp_tape tape;
    fp_parts scratch;  /* parts of system and tools, of which only the markers are counted */
    int rank;          /* of the history found so far; the smaller wins */
    int32_t not_array; /* where the history's value begins when it is no array, or -1 */
} root;

static int32_t fail(root *r, int32_t position, int error) {
    r->reader.error = error;
    r->reader.offset = position;
    return -1;
}

/* Room for one more row in a growing array. */
static void *grow(void *rows, int32_t count, int32_t *capacity, size_t size) {
    if (count < *capacity) return rows;
    int32_t wanted = *capacity ? *capacity * 2 : 32;
    void *more = realloc(rows, (size_t)wanted * size);
    if (more) *capacity = wanted;
    return more;
}

static int has_high_byte(const uint8_t *p, int32_t size) {
    uint64_t any[4] = {0}, words[4];
    int32_t i = 0;
    for (; i + 32 <= size; i += 32) {
        memcpy(words, p + i, 32);
        for (int k = 0; k < 4; k++) any[k] |= words[k];
    }
    for (; i < size; i++) any[0] |= p[i]; /* into one of the word's eight bytes, whatever the byte order */
    return ((any[0] | any[1] | any[2] | any[3]) & UINT64_C(0x8080808080808080)) != 0;
}

static int size_class(int kind) {
    switch (kind) {
        case FP_KIND_CALL:
        case FP_KIND_SERVER_CALL: return FP_CALLS;
        case FP_KIND_RESULT:
        case FP_KIND_SERVER_RESULT: return FP_RESULTS;
        case FP_KIND_REASONING: return FP_REASONINGS;
        case FP_KIND_MEDIA: return FP_MEDIA;
        default: return -1;
    }
}

/* Count each byte of an item's parts once: with the outermost part that has a class, but media always apart. */
static void count_bytes(fp_item *item, fp_part *rows) {
    for (int32_t i = item->first_part; i < item->first_part + item->part_count; i++) {
        int around = rows[i].parent >= 0 ? rows[rows[i].parent].counted : -1;
        int own = size_class(rows[i].kind);
        if (around >= 0 && !(own == FP_MEDIA && around != FP_MEDIA)) {
            own = around;
        } else if (own >= 0) {
            item->bytes[own] += rows[i].end - rows[i].start;
            if (around >= 0) item->bytes[around] -= rows[i].end - rows[i].start;
        }
        rows[i].counted = (int8_t)own;
    }
}

/* Read one item and make its rows. The offset after it, or -1. */
static int32_t read_item(root *r, int32_t position) {
    fp_scan *scan = r->scan;
    fp_match match;
    if (scan->item_count >= FP_ITEM_LIMIT) return fail(r, position, FP_TOO_MANY_ITEMS);
    r->tape.count = 0;
    int32_t end = fp_read_value(&r->reader, position, 2, &r->tape, r->grammar, 1);
    if (end < 0) return -1;
    fp_item *items = grow(scan->items, scan->item_count, &scan->item_capacity, sizeof *items);
    if (!items) return fail(r, position, FP_NO_MEMORY);
    scan->items = items;
    int32_t first = scan->parts.count;
    if (fp_match_tape(r->grammar, r->reader.body, &r->tape, r->grammar->item, scan->item_count, &scan->parts, &match))
        return fail(r, position, FP_NO_MEMORY);
    fp_item *item = &items[scan->item_count++];
    *item = (fp_item){
        position, end, first, scan->parts.count - first, {0}, r->reader.value_count, match.marker_count, (uint8_t)match.role,
        0};
    if (match.marked) item->flags |= FP_ITEM_MARKED;
    if (has_high_byte(r->reader.body + position, end - position)) item->flags |= FP_ITEM_NON_ASCII;
    count_bytes(item, scan->parts.rows);
    return end;
}

/* Read elements of the history array, from its first (or from behind an item, when `comma` may come first) to its end. */
static int32_t read_items(root *r, int32_t position, int comma) {
    fp_scan *scan = r->scan;
    const fp_reader *reader = &r->reader;
    position = fp_skip_space(reader, position);
    while (!(position < reader->end && reader->body[position] == ']')) {
        if (comma) {
            position = fp_expect(&r->reader, position, ',');
            if (position < 0) return -1;
            position = fp_skip_space(reader, position);
        }
        comma = 1;
        position = read_item(r, position);
        if (position < 0) return -1;
        position = fp_skip_space(reader, position);
    }
    scan->history_end = scan->members[scan->member_count - 1].end = position + 1;
    return position + 1;
}

/* Read one root member. The offset after it, or -1. */
static int32_t read_member(root *r, int32_t position) {
    fp_scan *scan = r->scan;
    const fp_grammar *grammar = r->grammar;
    int32_t key_end;
    int32_t start = fp_read_key(&r->reader, position, &key_end);
    if (start < 0) return -1;
    int atom = fp_find_atom(grammar, r->reader.body + position + 1, key_end - position - 2, 1);
    int meaning = atom < 0 ? FP_ROOT_NONE : grammar->atoms[atom].root;
    fp_member *members = grow(scan->members, scan->member_count, &scan->member_capacity, sizeof *members);
    if (!members) return fail(r, position, FP_NO_MEMORY);
    scan->members = members;
    fp_member *member = &members[scan->member_count++];
    *member = (fp_member){position, key_end, start, -1, 0, (int16_t)atom, 0};
    if (meaning == FP_ROOT_HISTORY && grammar->atoms[atom].rank <= r->rank) {
        r->rank = grammar->atoms[atom].rank;
        scan->item_count = scan->parts.count = 0;
        if (start < r->reader.end && r->reader.body[start] == '[') {
            r->not_array = -1;
            scan->history_start = start;
            scan->history_member = scan->member_count - 1;
            if (++r->reader.value_count > FP_VALUE_LIMIT) return fail(r, start, FP_TOO_MANY_VALUES);
            return read_items(r, start + 1, 0);
        }
        if (grammar->history_text && start < r->reader.end && r->reader.body[start] == '"') {
            r->not_array = -1;
            scan->history_start = start;
            scan->history_member = scan->member_count - 1;
            int32_t text_end = read_item(r, start);
            if (text_end >= 0) scan->history_end = member->end = text_end;
            return text_end;
        }
        r->not_array = start;
        scan->history_member = -1;
    }
    int shape = meaning == FP_ROOT_SYSTEM ? grammar->system_shape : meaning == FP_ROOT_TOOLS ? grammar->tools_shape : -1;
    r->tape.count = r->scratch.count = 0;
    int32_t end = fp_read_value(&r->reader, start, 1, shape < 0 ? NULL : &r->tape, grammar, 1);
    if (end < 0) return -1;
    member->end = end;
    if (shape >= 0) {
        fp_match match;
        if (fp_match_tape(grammar, r->reader.body, &r->tape, shape, 0, &r->scratch, &match))
            return fail(r, start, FP_NO_MEMORY);
        member->marker_count = match.marker_count;
    }
    return end;
}

/* ---- resuming ---- */

static int32_t common_prefix(const uint8_t *one, const uint8_t *other, int32_t size) {
    int32_t at = 0;
    while (size - at >= 4096 && memcmp(one + at, other + at, 4096) == 0) at += 4096;
    while (size - at >= 64 && memcmp(one + at, other + at, 64) == 0) at += 64;
    while (at < size && one[at] == other[at]) at++;
    return at;
}

/* How many leading items lie in the prefix. A bare number or literal must be followed by a byte of the prefix: it could go on.
 */
static int32_t whole_items(const fp_scan *previous, const uint8_t *body, int32_t common) {
    int32_t low = 0, high = previous->item_count; /* ends rise: find the first item that ends past the prefix */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (previous->items[middle].end <= common) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low && previous->items[low - 1].end == common) {
        uint8_t last = body[common - 1];
        if (last != '}' && last != ']' && last != '"') low--;
    }
    return low;
}

static void *copy_rows(const void *rows, int32_t count, size_t size) {
    void *copy = malloc((size_t)count * size + 1);
    if (copy && count) memcpy(copy, rows, (size_t)count * size);
    return copy;
}

/* Take over what both bodies begin with. The offset to go on from inside the history array; 0 for none; -1 when there is no
 * memory. */
static int32_t resume(root *r, const fp_scan *previous, const uint8_t *previous_body, int32_t previous_size) {
    fp_scan *scan = r->scan;
    if (previous_body[previous->history_start] != '[') return 0;
    int32_t shorter = previous_size < r->reader.end ? previous_size : r->reader.end;
    int32_t count = whole_items(previous, r->reader.body, common_prefix(r->reader.body, previous_body, shorter));
    if (count == 0) return 0;
    const fp_item *last = &previous->items[count - 1];
    scan->item_count = scan->item_capacity = scan->reused_item_count = count;
    scan->parts.count = scan->parts.capacity = last->first_part + last->part_count;
    scan->member_count = scan->member_capacity = previous->history_member + 1;
    scan->items = copy_rows(previous->items, scan->item_count, sizeof *scan->items);
    scan->parts.rows = copy_rows(previous->parts.rows, scan->parts.count, sizeof *scan->parts.rows);
    scan->members = copy_rows(previous->members, scan->member_count, sizeof *scan->members);
    if (!scan->items || !scan->parts.rows || !scan->members) return fail(r, 0, FP_NO_MEMORY);
    scan->history_member = previous->history_member;
    scan->history_start = previous->history_start;
    r->rank = r->grammar->atoms[scan->members[scan->history_member].atom].rank;
    r->reader.value_count = last->value_count;
    return last->end;
}

/* ---- the root ---- */

static int32_t read_root(root *r, const fp_scan *previous, const uint8_t *previous_body, int32_t previous_size) {
    fp_reader *reader = &r->reader;
    int32_t position = fp_skip_space(reader, 0);
    if (position == reader->end) return fp_fail(reader, position);
    if (reader->body[position] != '{') return fail(r, position, FP_NOT_AN_OBJECT);
    int32_t resumed = previous ? resume(r, previous, previous_body, previous_size) : 0;
    if (resumed < 0) return -1;
    if (resumed > 0) {
        position = read_items(r, resumed, 1);
    } else {
        reader->value_count = 1;
        position = fp_skip_space(reader, position + 1);
        if (position >= reader->end || reader->body[position] != '}') position = read_member(r, position);
    }
    if (position < 0) return -1;
    position = fp_skip_space(reader, position);
    while (!(position < reader->end && reader->body[position] == '}')) {
        position = fp_expect(reader, position, ',');
        if (position < 0) return -1;
        position = read_member(r, fp_skip_space(reader, position));
        if (position < 0) return -1;
        position = fp_skip_space(reader, position);
    }
    int32_t closing = position;
    position = fp_skip_space(reader, position + 1);
    if (position != reader->end) return fp_fail(reader, position);
    if (r->not_array >= 0) return fail(r, r->not_array, FP_NOT_AN_ARRAY);
    if (r->scan->history_member < 0) return fail(r, closing, FP_NO_HISTORY);
    return position;
}

/* Fill in what follows from the rows. last_of: by atom, from the tape's scratch space. */
static void measure(fp_scan *scan, const fp_grammar *grammar, int32_t size, int32_t *last_of) {
    enum { TOTAL, SYSTEM, TOOLS, USER, ASSISTANT, REASONING, CALL, RESULT, MEDIA, OTHER };
    int64_t *sizes = scan->sizes;
    int64_t by_role[5] = {0};
    for (int32_t i = 0; i < scan->member_count; i++) {
        if (scan->members[i].atom >= 0) last_of[scan->members[i].atom] = i;
    }
    for (int32_t i = 0; i < scan->member_count; i++) {
        fp_member *member = &scan->members[i];
        member->last = 0; /* rows taken over may say otherwise */
        int meaning = member->atom < 0 ? FP_ROOT_NONE : grammar->atoms[member->atom].root;
        if ((meaning != FP_ROOT_SYSTEM && meaning != FP_ROOT_TOOLS) || last_of[member->atom] != i) continue;
        member->last = 1;
        sizes[meaning == FP_ROOT_SYSTEM ? SYSTEM : TOOLS] += member->end - member->start;
        scan->marker_count += member->marker_count;
    }
    for (int32_t i = 0; i < scan->item_count; i++) {
        const fp_item *item = &scan->items[i];
        int32_t rest = item->end - item->start - item->bytes[FP_CALLS] - item->bytes[FP_REASONINGS] - item->bytes[FP_MEDIA];
        sizes[CALL] += item->bytes[FP_CALLS];
        sizes[REASONING] += item->bytes[FP_REASONINGS];
        sizes[MEDIA] += item->bytes[FP_MEDIA];
        if (item->role != FP_ROLE_RESULT) {
            sizes[RESULT] += item->bytes[FP_RESULTS];
            rest -= item->bytes[FP_RESULTS];
        }
        by_role[item->role] += rest;
        scan->marker_count += item->marker_count;
    }
    sizes[SYSTEM] += by_role[FP_ROLE_SYSTEM];
    sizes[USER] = by_role[FP_ROLE_USER];
    sizes[ASSISTANT] = by_role[FP_ROLE_ASSISTANT];
    sizes[RESULT] += by_role[FP_ROLE_RESULT];
    sizes[TOTAL] = sizes[OTHER] = size;
    for (int i = SYSTEM; i < OTHER; i++) sizes[OTHER] -= sizes[i];
}

int fp_scan_run(fp_scan *scan, const fp_grammar *grammar, const uint8_t *body, int32_t size, const fp_scan *previous,
                const uint8_t *previous_body, int32_t previous_size) {
    root r = {scan, grammar, {body, size, 0, FP_OK, 0, 0}, {0}, {0}, INT16_MAX, -1};
    scan->history_member = scan->history_start = scan->history_end = -1;
    if (fp_tape_init(&r.tape, grammar)) {
        fail(&r, 0, FP_NO_MEMORY);
    } else if (read_root(&r, previous, previous_body, previous_size) >= 0) {
        measure(scan, grammar, size, r.tape.holders);
    }
    fp_tape_free(&r.tape);
    free(r.scratch.rows);
    scan->error = r.reader.error;
    scan->offset = r.reader.offset;
    return scan->error;
}

void fp_scan_free(fp_scan *scan) {
    free(scan->items);
    free(scan->parts.rows);
    free(scan->members);
    memset(scan, 0, sizeof *scan);
}
