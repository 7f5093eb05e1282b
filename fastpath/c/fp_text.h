/* JSON string text to content and to its one spelling. Reference: _text_py.py. */
#ifndef FP_TEXT_H
#define FP_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Read the escape whose backslash stands at p. Returns the offset after it and sets the code point (a lone surrogate is
 * itself); NULL when there is none, and *fault is then the first byte that cannot be (end, when the text ends in it). */
const uint8_t *fp_read_escape(const uint8_t *p, const uint8_t *end, uint32_t *point, const uint8_t **fault);

/* Write the UTF-8 bytes of a code point, surrogates like any other. Returns their count, 1 to 4. */
int fp_write_utf8(uint32_t point, uint8_t *out);

/* Decode [raw, end) into out, which has room for as many bytes. Returns the size of the content and sets *fault to NULL, or
 * stops at a bad escape and sets *fault as above. */
size_t fp_decode(const uint8_t *raw, const uint8_t *end, uint8_t *out, const uint8_t **fault);

/* Write the canonical spelling of [raw, end) into out, which has room for as many bytes. The escapes must be valid. Returns its
 * size. */
size_t fp_write_canonical(const uint8_t *raw, const uint8_t *end, uint8_t *out);

typedef struct {
    int64_t raw_start, start;
} fp_block;

/* Decode as fp_decode does and note where blocks begin. *blocks is allocated here and freed by the caller; NULL and *count 0
 * when there is no memory. The first block is (0, 0). */
size_t fp_decode_blocks(const uint8_t *raw, const uint8_t *end, int64_t block_bytes, uint8_t *out, fp_block **blocks,
                        size_t *count, const uint8_t **fault);

#endif
