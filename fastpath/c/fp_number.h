/* One spelling for each number. Reference: _number_py.py. */
#ifndef FP_NUMBER_H
#define FP_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* No spelling is longer than the number's text by more than this. */
#define FP_NUMBER_EXTRA 48

/* Write the exact spelling of the JSON number [text, text + length) into out. Returns its size. */
size_t fp_write_exact(const uint8_t *text, size_t length, uint8_t *out);

/* The same for the nearest double. scratch has room for as many bytes as out. */
size_t fp_write_double(const uint8_t *text, size_t length, uint8_t *out, uint8_t *scratch);

#endif
