/* Find a child of a value that is known to be valid. Reference: _path_py.py. */
#ifndef FP_PATH_H
#define FP_PATH_H

#include "fp_json.h"

typedef struct {
    int32_t start, end;  /* of the child's value; -1 when there is none */
    int32_t outer_start; /* of its key, or of the value in an array */
    int32_t before_end;  /* end of the child before it, or -1 */
    int32_t after_start; /* outer start of the child behind it, or -1 */
} fp_child;

/* Find the last member with a decoded key in the object at position (or nothing, when no object stands there). FP_OK or the
 * error. */
int fp_find_member(fp_reader *reader, int32_t position, const uint8_t *key, int32_t size, fp_child *child);

/* Find an element by its index in the array at position. FP_OK or the error. */
int fp_find_element(fp_reader *reader, int32_t position, int64_t index, fp_child *child);

#endif
