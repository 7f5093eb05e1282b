#include "fp_text.h"

#include <stdlib.h>
#include <string.h>

static int hex_value(uint8_t byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Four hexadecimal digits at p, or -1 and where they fail. */
static int32_t read_unit(const uint8_t *p, const uint8_t *end, const uint8_t **fault) {
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int value = p + i < end ? hex_value(p[i]) : -1;
        if (value < 0) {
            *fault = p + i;
            return -1;
        }
        unit = unit << 4 | value;
    }
    return unit;
}

const uint8_t *fp_read_escape(const uint8_t *p, const uint8_t *end, uint32_t *point, const uint8_t **fault) {
    const uint8_t *ignored;
    if (++p >= end) {
        *fault = end;
        return NULL;
    }
    switch (*p) {
        case '"':
        case '\\':
        case '/': *point = *p; return p + 1;
        case 'b': *point = '\b'; return p + 1;
        case 'f': *point = '\f'; return p + 1;
        case 'n': *point = '\n'; return p + 1;
        case 'r': *point = '\r'; return p + 1;
        case 't': *point = '\t'; return p + 1;
        case 'u': break;
        default: *fault = p; return NULL;
    }
    int32_t unit = read_unit(p + 1, end, fault);
    if (unit < 0) return NULL;
    p += 5;
    *point = (uint32_t)unit;
    if ((unit & 0xfc00) == 0xd800 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
        int32_t low = read_unit(p + 2, end, &ignored);
        if (low >= 0 && (low & 0xfc00) == 0xdc00) {
            *point = 0x10000 + ((uint32_t)(unit & 0x3ff) << 10) + (uint32_t)(low & 0x3ff);
            p += 6;
        }
    }
    return p;
}

int fp_write_utf8(uint32_t point, uint8_t *out) {
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xc0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xe0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (point & 0x3f));
    return 4;
}

/* Where the run of bytes without escapes that begins at p ends. */
static const uint8_t *run_end(const uint8_t *p, const uint8_t *end) {
    if (p == end || *p == '\\') return p; /* escapes often stand together; spare the call */
    const uint8_t *found = memchr(p, '\\', (size_t)(end - p));
    return found ? found : end;
}

static uint8_t *copy_run(uint8_t *out, const uint8_t *from, const uint8_t *to) {
    memcpy(out, from, (size_t)(to - from));
    return out + (to - from);
}

size_t fp_decode(const uint8_t *raw, const uint8_t *end, uint8_t *out, const uint8_t **fault) {
    uint8_t *to = out;
    *fault = NULL;
    while (raw < end) {
        const uint8_t *stop = run_end(raw, end);
        to = copy_run(to, raw, stop);
        if (stop == end) break;
        uint32_t point;
        raw = fp_read_escape(stop, end, &point, fault);
        if (!raw) break;
        to += fp_write_utf8(point, to);
    }
    return (size_t)(to - out);
}

/* The escape of a code point that may not stand plainly, or its UTF-8. Returns the size. */
static int write_spelling(uint32_t point, uint8_t *out) {
    static const char figures[] = "0123456789abcdef";
    char letter = 0;
    switch (point) {
        case '"': letter = '"'; break;
        case '\\': letter = '\\'; break;
        case '\b': letter = 'b'; break;
        case '\t': letter = 't'; break;
        case '\n': letter = 'n'; break;
        case '\f': letter = 'f'; break;
        case '\r': letter = 'r'; break;
        default: break;
    }
    if (letter) {
        out[0] = '\\';
        out[1] = (uint8_t)letter;
        return 2;
    }
    if (point >= 0x20 && (point < 0xd800 || point > 0xdfff)) return fp_write_utf8(point, out);
    out[0] = '\\';
    out[1] = 'u';
    for (int i = 0; i < 4; i++) out[2 + i] = (uint8_t)figures[point >> (12 - 4 * i) & 15];
    return 6;
}

size_t fp_write_canonical(const uint8_t *raw, const uint8_t *end, uint8_t *out) {
    uint8_t *to = out;
    while (raw < end) {
        const uint8_t *stop = run_end(raw, end);
        to = copy_run(to, raw, stop);
        if (stop == end) break;
        uint32_t point;
        const uint8_t *fault;
        raw = fp_read_escape(stop, end, &point, &fault);
        if (!raw) break;
        to += write_spelling(point, to);
    }
    return (size_t)(to - out);
}

/* Length of the UTF-8 sequence (surrogates allowed) that begins at p with two or more bytes, or 0. */
static int sequence_length(const uint8_t *p, const uint8_t *end) {
    uint8_t lead = *p;
    int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || end - p < length) return 0;
    for (int i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if ((lead == 0xe0 && p[1] < 0xa0) || (lead == 0xf0 && p[1] < 0x90) || (lead == 0xf4 && p[1] > 0x8f)) return 0;
    return length;
}

/* The first place at or after `at` where a character begins in a run. */
static const uint8_t *boundary(const uint8_t *run, const uint8_t *at, const uint8_t *end) {
    for (int back = 1; back <= 3 && at - run >= back; back++) {
        int length = sequence_length(at - back, end);
        if (length > back) return at - back + length;
    }
    return at;
}

size_t fp_decode_blocks(const uint8_t *raw, const uint8_t *end, int64_t block_bytes, uint8_t *out, fp_block **blocks,
                        size_t *count, const uint8_t **fault) {
    const uint8_t *p = raw;
    int64_t done = 0, target = block_bytes;
    size_t used = 1, room = (size_t)((end - raw) / block_bytes) + 2;
    *fault = NULL;
    *count = 0;
    fp_block *list = *blocks = malloc(room * sizeof *list);
    if (!list) return 0;
    list[0] = (fp_block){0, 0};
    for (;;) {
        const uint8_t *stop = run_end(p, end);
        int64_t length = stop - p;
        while (target <= done + length) {
            int64_t at = boundary(p, p + (target > done ? target - done : 0), stop) - p;
            list[used++] = (fp_block){p - raw + at, done + at};
            target = ((done + at) / block_bytes + 1) * block_bytes;
        }
        if (length) memcpy(out + done, p, (size_t)length);
        done += length;
        if (stop == end) break;
        uint32_t point;
        p = fp_read_escape(stop, end, &point, fault);
        if (!p) break;
        done += fp_write_utf8(point, out + done);
    }
    if (used > 1 && list[used - 1].start == done) used--;
    *count = used;
    return (size_t)done;
}
