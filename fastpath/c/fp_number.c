#include "fp_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD INT64_C(1000000000000000000) /* exponents below this are computed as integers */
#define WORD_DIGITS 18

enum {
    PLAIN_DIGITS = 21, /* integers of up to as many digits are written without exponent, as in ECMAScript's Number::toString */
    SAFE_DIGITS = 15,  /* DBL_DIG: decimals of so many digits survive the way to a double and back */
    SAFE_LOW = -290,   /* decimal exponents for which that holds, with room to both ends of the normal range */
    SAFE_HIGH = 290,
    KEPT_DIGITS = 800 /* no double needs more than 767 digits to be told from its neighbors */
};

/* A number taken apart: sign, digits without zeros at either end, exponent of the last digit. */
typedef struct {
    const uint8_t *digits; /* may hold one '.' among them */
    size_t count;          /* of digits, the point aside; 0 for zero */
    int negative;
    int64_t power; /* when it fits */
    int big;       /* it does not: it is `small` with the digits of `head` before its WORD_DIGITS */
    int big_negative;
    const uint8_t *head; /* the exponent's own digits, leading zeros aside */
    size_t head_count;
    int64_t small;
} parts;

static int64_t read_int(const uint8_t *p, size_t count) {
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) value = value * 10 + (p[i] - '0');
    return value;
}

static void split(const uint8_t *text, size_t length, parts *n) {
    const uint8_t *p = text, *end = text + length;
    memset(n, 0, sizeof *n);
    if (p < end && *p == '-') {
        n->negative = 1;
        p++;
    }
    const uint8_t *mantissa = p, *point = NULL;
    while (p < end && *p != 'e' && *p != 'E') {
        if (*p == '.') point = p;
        p++;
    }
    const uint8_t *mantissa_end = p;
    const uint8_t *exponent = p < end ? p + 1 : end;
    int exponent_negative = exponent < end && *exponent == '-';
    if (exponent < end && (*exponent == '-' || *exponent == '+')) exponent++;
    while (exponent < end && *exponent == '0') exponent++;
    while (mantissa < mantissa_end && (*mantissa == '0' || *mantissa == '.')) mantissa++;
    if (mantissa == mantissa_end) {
        n->negative = 0;
        return;
    }
    const uint8_t *last = mantissa_end;
    while (last[-1] == '0' || last[-1] == '.') last--;
    n->digits = mantissa;
    n->count = (size_t)(last - mantissa) - (point && point > mantissa && point < last ? 1 : 0);
    /* The exponent of the digit before `last`, were there no exponent. */
    int64_t delta;
    if (point && point < last) {
        delta = -(int64_t)(last - point - 1);
    } else {
        delta = (int64_t)((point ? point : mantissa_end) - last);
    }
    size_t figures = (size_t)(end - exponent);
    if (figures <= WORD_DIGITS) {
        n->power = (exponent_negative ? -read_int(exponent, figures) : read_int(exponent, figures)) + delta;
        return;
    }
    n->big = 1;
    n->big_negative = exponent_negative;
    n->head = exponent;
    n->head_count = figures - WORD_DIGITS;
    n->small = read_int(exponent + n->head_count, WORD_DIGITS) + (exponent_negative ? -delta : delta);
}

static uint8_t *write_digits(const parts *n, size_t limit, uint8_t *out) {
    const uint8_t *p = n->digits;
    for (size_t i = 0; i < n->count && i < limit; p++) {
        if (*p == '.') continue;
        *out++ = *p;
        i++;
    }
    return out;
}

/* Write |value| in decimal, padded with zeros to `width` digits. */
static uint8_t *write_int(int64_t value, int width, uint8_t *out) {
    uint8_t figures[24];
    int count = 0;
    uint64_t rest = value < 0 ? (uint64_t)-value : (uint64_t)value;
    do {
        figures[count++] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (count < width) figures[count++] = '0';
    while (count) *out++ = figures[--count];
    return out;
}

/* Write the digits of an exponent that is too big for an integer: carry into the head or borrow from it. */
static uint8_t *write_big(const parts *n, uint8_t *out) {
    uint8_t *head = out;
    int64_t low = n->small;
    int step = low >= WORD ? 1 : low < 0 ? -1 : 0;
    *out++ = '0'; /* room for a carry */
    memcpy(out, n->head, n->head_count);
    out += n->head_count;
    if (step) {
        uint8_t edge = step > 0 ? '9' : '0', wrap = step > 0 ? '0' : '9';
        uint8_t *place = out - 1;
        while (*place == edge)
            *place-- = wrap; /* stops at the room for a carry, or at the head's first digit, which is no zero */
        *place = (uint8_t)(*place + step);
        low -= step * WORD;
    }
    out = write_int(low, WORD_DIGITS, out);
    uint8_t *first = head;
    while (*first == '0' && first < out - 1) first++;
    memmove(head, first, (size_t)(out - first));
    return out - (first - head);
}

static size_t join(const parts *n, uint8_t *out) {
    uint8_t *to = out;
    if (!n->count) {
        *to = '0';
        return 1;
    }
    if (n->negative) *to++ = '-';
    to = write_digits(n, n->count, to);
    if (n->big) {
        *to++ = 'e';
        if (n->big_negative) *to++ = '-';
        to = write_big(n, to);
    } else if (n->power == 0 || (n->power > 0 && n->power < 100 && n->count + (size_t)n->power <= PLAIN_DIGITS)) {
        for (int64_t i = 0; i < n->power; i++) *to++ = '0';
    } else {
        *to++ = 'e';
        if (n->power < 0) *to++ = '-';
        to = write_int(n->power, 0, to);
    }
    return (size_t)(to - out);
}

size_t fp_write_exact(const uint8_t *text, size_t length, uint8_t *out) {
    parts n;
    split(text, length, &n);
    return join(&n, out);
}

static size_t write_word(const char *word, uint8_t *out) {
    memcpy(out, word, strlen(word));
    return strlen(word);
}

/* The shortest of `count` digits and up that reads as value. printf's decimal point depends on the locale, so what stands
 * between digits is left out and the exponent moved. */
static size_t write_shortest(double value, uint8_t *out) {
    char printed[64], plain[64];
    for (int digits = fabs(value) >= 1e-290 ? 15 : 1; digits <= 17; digits++) {
        int size = snprintf(printed, sizeof printed, "%.*e", digits - 1, value);
        char *to = plain, *p = printed;
        if (size <= 0 || size >= (int)sizeof printed) break;
        if (*p == '-') *to++ = *p++;
        for (; *p && *p != 'e'; p++) {
            if (*p >= '0' && *p <= '9') *to++ = *p;
        }
        if (*p != 'e') break;
        int exponent = (int)strtol(p + 1, NULL, 10) - (digits - 1);
        size = snprintf(to, sizeof plain - (size_t)(to - plain), "e%d", exponent);
        if (strtod(plain, NULL) == value || digits == 17)
            return fp_write_exact((const uint8_t *)plain, (size_t)(to - plain) + (size_t)size, out);
    }
    return write_word("0", out); /* not reached: a C library that prints a double without exponent */
}

size_t fp_write_double(const uint8_t *text, size_t length, uint8_t *out, uint8_t *scratch) {
    parts n;
    split(text, length, &n);
    if (!n.count) return write_word("0", out);
    if (n.big || n.power >= WORD / 10 || n.power <= -(WORD / 10)) {
        if (n.big ? n.big_negative : n.power < 0) return write_word("0", out);
        return write_word(n.negative ? "-1e999" : "1e999", out);
    }
    int64_t power = n.power;
    if (n.count <= SAFE_DIGITS && power >= SAFE_LOW && power + (int64_t)n.count <= SAFE_HIGH) return join(&n, out);
    uint8_t *to = scratch;
    if (n.negative) *to++ = '-';
    to = write_digits(&n, KEPT_DIGITS, to);
    if (n.count > KEPT_DIGITS) {
        power += (int64_t)n.count - KEPT_DIGITS - 1;
        *to++ = '1'; /* stands for the rest, which is not zero */
    }
    *to++ = 'e';
    if (power < 0) *to++ = '-';
    to = write_int(power, 0, to);
    *to = 0;
    double value = strtod((const char *)scratch, NULL);
    if (value == 0) return write_word("0", out);
    if (isinf(value)) return write_word(n.negative ? "-1e999" : "1e999", out);
    return write_shortest(value, out);
}
