#include "fp_path.h"

#include <stdlib.h>
#include <string.h>

#include "fp_text.h"

/* Is the raw text of a key the decoded one? -1 when there is no memory. */
static int is_key(const uint8_t *raw, int32_t length, const uint8_t *key, int32_t size) {
    const uint8_t *fault;
    if (!memchr(raw, '\\', (size_t)length)) return length == size && memcmp(raw, key, (size_t)size) == 0;
    if (length < size || (int64_t)length > 6 * (int64_t)size) return 0;
    uint8_t *plain = malloc((size_t)length);
    if (!plain) return -1;
    size_t decoded = fp_decode(raw, raw + length, plain, &fault);
    int same = decoded == (size_t)size && memcmp(plain, key, decoded) == 0;
    free(plain);
    return same;
}

int fp_find_member(fp_reader *reader, int32_t position, const uint8_t *key, int32_t size, fp_child *child) {
    *child = (fp_child){-1, -1, -1, -1, -1};
    reader->value_count = 0;
    if (position >= reader->end || reader->body[position] != '{') return FP_OK;
    int32_t before = -1, key_end;
    position = fp_skip_space(reader, position + 1);
    if (position < reader->end && reader->body[position] == '}') return FP_OK;
    for (;;) {
        int32_t start = fp_read_key(reader, position, &key_end);
        if (start < 0) return reader->error;
        int32_t end = fp_read_value(reader, start, 1, NULL, NULL, 0);
        if (end < 0) return reader->error;
        if (child->start >= 0 && child->after_start < 0) child->after_start = position;
        int same = is_key(reader->body + position + 1, key_end - position - 2, key, size);
        if (same < 0) return reader->error = FP_NO_MEMORY;
        if (same) *child = (fp_child){start, end, position, before, -1};
        before = end;
        position = fp_skip_space(reader, end);
        if (position < reader->end && reader->body[position] == '}') return FP_OK;
        position = fp_expect(reader, position, ',');
        if (position < 0) return reader->error;
        position = fp_skip_space(reader, position);
    }
}

int fp_find_element(fp_reader *reader, int32_t position, int64_t index, fp_child *child) {
    *child = (fp_child){-1, -1, -1, -1, -1};
    reader->value_count = 0;
    if (position >= reader->end || reader->body[position] != '[') return FP_OK;
    int32_t before = -1;
    position = fp_skip_space(reader, position + 1);
    if (position < reader->end && reader->body[position] == ']') return FP_OK;
    for (int64_t place = 0;; place++) {
        if (child->start >= 0) {
            child->after_start = position;
            return FP_OK;
        }
        int32_t end = fp_read_value(reader, position, 1, NULL, NULL, 0);
        if (end < 0) return reader->error;
        if (place == index) *child = (fp_child){position, end, position, before, -1};
        before = end;
        position = fp_skip_space(reader, end);
        if (position < reader->end && reader->body[position] == ']') return FP_OK;
        position = fp_expect(reader, position, ',');
        if (position < 0) return reader->error;
        position = fp_skip_space(reader, position);
    }
}
