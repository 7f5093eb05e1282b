/* Drive the C core without Python: every function over every file given, over truncated and mutated copies, and print one
 * digest a file.
 *
 * Two builds that differ only in compiler, machine or mask variant must print the same; a build with sanitizers must print
 * nothing else. Copies have exactly the size of their content, so that a read past the end is seen. Usage: harness [-r ROUNDS]
 * [-b] FILE... -r: mutated copies of each file (fewer for large ones). -b: time the scan instead. Linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc and compiled with -DWRAPPED, every allocation of the core also fails once for
 * small files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fp_bits.h"
#include "fp_canon.h"
#include "fp_path.h"
#include "fp_scan.h"
#include "fp_text.h"

static uint64_t digest;

static void mix(const void *data, size_t size) {
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) digest = (digest ^ p[i]) * UINT64_C(1099511628211);
}

static void mix_int(int64_t value) {
    for (int i = 0; i < 8; i++) digest = (digest ^ ((uint64_t)value >> (8 * i) & 255)) * UINT64_C(1099511628211);
}

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void *need(void *memory) {
    if (!memory) die("no memory");
    return memory;
}

/* ---- allocations that fail ---- */

static long until_failure = -1; /* allocations that still succeed; -1: all do */

#ifdef WRAPPED
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static int fails(void) {
    return until_failure >= 0 && until_failure-- == 0;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return fails() ? NULL : __real_realloc(memory, size);
}
#endif

/* ---- a grammar that sees something in every dialect ---- */

enum { ITEM, USER, ASSISTANT, TOOL, CONTENT, BLOCK, TEXT, CALL, RESULT, THINKING, MEDIA, CALLS, FUNCTION, OTHER, SHAPES };

static int atom(fp_grammar *g, const char *text) {
    return fp_grammar_atom(g, (const uint8_t *)text, (int32_t)strlen(text));
}

static void field(fp_grammar *g, int shape, const char *key, int code, int kind, int next, int text_block) {
    fp_field row = {(int16_t)next, (uint8_t)code, (uint8_t)kind, (uint8_t)text_block};
    fp_grammar_field(g, shape, atom(g, key), row);
}

static void shape(fp_grammar *g, int number, int kind, int role, int each) {
    g->shapes[number].kind = (uint8_t)kind;
    g->shapes[number].role = (uint8_t)role;
    g->shapes[number].each = (int16_t)each;
    field(g, number, "cache_control", FP_CODE_MARKER, 0, -1, 0);
}

static fp_grammar *make_grammar(void) {
    static const char *cases[][2] = {{"text", "6"},          {"input_text", "6"},  {"tool_use", "7"},
                                     {"function_call", "7"}, {"tool_result", "8"}, {"function_call_output", "8"},
                                     {"thinking", "9"},      {"reasoning", "9"},   {"image", "10"},
                                     {"image_url", "10"},    {"input_image", "10"}};
    fp_grammar *g = need(fp_grammar_new(SHAPES, 200, 200));
    fp_grammar_root(g, atom(g, "messages"), FP_ROOT_HISTORY, 0);
    fp_grammar_root(g, atom(g, "contents"), FP_ROOT_HISTORY, 1);
    fp_grammar_root(g, atom(g, "input"), FP_ROOT_HISTORY, 2);
    fp_grammar_root(g, atom(g, "system"), FP_ROOT_SYSTEM, 0);
    fp_grammar_root(g, atom(g, "tools"), FP_ROOT_TOOLS, 0);
    g->item = ITEM;
    g->system_shape = g->tools_shape = CONTENT;
    fp_grammar_by(g, ITEM, atom(g, "role"));
    fp_grammar_case(g, ITEM, atom(g, "user"), USER);
    fp_grammar_case(g, ITEM, atom(g, "assistant"), ASSISTANT);
    fp_grammar_case(g, ITEM, atom(g, "model"), ASSISTANT);
    fp_grammar_case(g, ITEM, atom(g, "tool"), TOOL);
    g->shapes[ITEM].default_shape = BLOCK;
    shape(g, USER, 0, FP_ROLE_USER, -1);
    shape(g, ASSISTANT, 0, FP_ROLE_ASSISTANT, -1);
    shape(g, TOOL, FP_KIND_RESULT, FP_ROLE_RESULT, -1);
    shape(g, CONTENT, 0, 0, BLOCK);
    shape(g, TEXT, 2, 0, -1);
    shape(g, CALL, FP_KIND_CALL, FP_ROLE_ASSISTANT, -1);
    shape(g, RESULT, FP_KIND_RESULT, 0, -1);
    shape(g, THINKING, FP_KIND_REASONING, 0, -1);
    shape(g, MEDIA, FP_KIND_MEDIA, 0, -1);
    shape(g, CALLS, 0, 0, CALL);
    shape(g, FUNCTION, 0, 0, -1);
    shape(g, OTHER, 1, 0, BLOCK);
    fp_grammar_by(g, BLOCK, atom(g, "type"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fp_grammar_case(g, BLOCK, atom(g, cases[i][0]), atoi(cases[i][1]));
    g->shapes[BLOCK].default_shape = OTHER;
    for (int number = USER; number < SHAPES; number++) {
        if (number == CONTENT || number == BLOCK || number == CALLS) continue;
        field(g, number, "content", FP_CODE_PAYLOAD, 0, CONTENT, 1);
        field(g, number, "parts", FP_CODE_NONE, 0, CONTENT, 0);
        field(g, number, "tool_calls", FP_CODE_NONE, 0, CALLS, 0);
        field(g, number, "function", FP_CODE_NONE, 0, FUNCTION, 0);
        field(g, number, "functionCall", FP_CODE_NONE, FP_KIND_CALL, FUNCTION, 0);
        field(g, number, "toolResult", FP_CODE_NONE, FP_KIND_RESULT, FUNCTION, 0);
        field(g, number, "cachePoint", FP_CODE_MARKER, FP_KIND_MARKER, -1, 0);
        field(g, number, "id", FP_CODE_ID, 0, -1, 0);
        field(g, number, "name", FP_CODE_NAME, 0, -1, 0);
        field(g, number, "text", FP_CODE_PAYLOAD, 0, -1, 0);
        field(g, number, "arguments", FP_CODE_PAYLOAD, 0, -1, 0);
        field(g, number, "is_error", FP_CODE_ERROR, 0, -1, 0);
        field(g, number, "signature", FP_CODE_SIGNATURE, 0, -1, 0);
    }
    return g;
}

/* ---- one body ---- */

static void mix_scan(const fp_scan *scan) {
    mix_int(scan->error);
    mix_int(scan->offset);
    if (scan->error) return;
    mix_int(scan->history_start);
    mix_int(scan->history_end);
    mix_int(scan->marker_count);
    for (int i = 0; i < 10; i++) mix_int(scan->sizes[i]);
    for (int32_t i = 0; i < scan->item_count; i++) {
        const fp_item *item = &scan->items[i];
        mix(item, offsetof(fp_item, role));
        mix_int(item->role << 8 | item->flags);
    }
    for (int32_t i = 0; i < scan->parts.count; i++) {
        const fp_part *part = &scan->parts.rows[i];
        mix(part, offsetof(fp_part, node));
        mix_int(part->kind << 16 | part->flags << 8 | part->payload_type);
    }
    for (int32_t i = 0; i < scan->member_count; i++) mix(&scan->members[i], offsetof(fp_member, atom));
}

static uint64_t digest_of(const fp_scan *scan) {
    uint64_t kept = digest, own;
    digest = UINT64_C(14695981039346656037);
    mix_scan(scan);
    own = digest;
    digest = kept;
    return own;
}

/* Decode and locate every string of a value. */
static void walk_strings(const uint8_t *body, int32_t start, int32_t end) {
    fp_tree tree;
    if (fp_tree_read(&tree, NULL, body, start, end) == FP_OK) {
        for (int32_t i = 0; i < tree.tape.count; i++) {
            const fp_node *node = &tree.tape.nodes[i];
            if (node->type != FP_STRING) continue;
            const uint8_t *fault, *raw = body + node->start + 1, *stop = body + node->end - 1;
            size_t count;
            fp_block *blocks;
            uint8_t *out = need(malloc((size_t)(stop - raw) + 1));
            mix(out, fp_decode_blocks(raw, stop, 100, out, &blocks, &count, &fault));
            if (!blocks || fault) die("a string that was read cannot be decoded");
            for (size_t b = 0; b < count; b++) mix_int(blocks[b].raw_start);
            free(blocks);
            free(out);
        }
    }
    mix_int(tree.reader.error);
    fp_tree_free(&tree);
}

static void item_forms(const fp_grammar *g, const uint8_t *body, int32_t start, int32_t end) {
    fp_tree tree;
    fp_buffer out = {0};
    fp_child child;
    int differs;
    if (fp_tree_read(&tree, g, body, start, end)) die("an item that was scanned cannot be read");
    if (fp_write_canon(&tree, 0, &out, &differs) || fp_write_canon(&tree, 1, &out, &differs) ||
        fp_write_stripped(&tree, start, end, &out))
        die("no memory");
    mix(out.data, out.size);
    free(out.data);
    fp_reader reader = {body, end, 0, FP_OK, 0, 0};
    if (fp_find_member(&reader, start, (const uint8_t *)"content", 7, &child))
        die("an item that was scanned cannot be searched");
    mix(&child, sizeof child);
    if (child.start >= 0 && fp_find_element(&reader, child.start, 1, &child))
        die("a content that was scanned cannot be searched");
    mix(&child, sizeof child);
    fp_tree_free(&tree);
}

static void check_body(const fp_grammar *g, const uint8_t *body, int32_t size, const fp_scan *earlier,
                       const uint8_t *earlier_body, int32_t earlier_size, int forms) {
    fp_scan scan = {0}, resumed = {0};
    fp_scan_run(&scan, g, body, size, NULL, NULL, 0);
    mix_scan(&scan);
    if (earlier) {
        fp_scan_run(&resumed, g, body, size, earlier, earlier_body, earlier_size);
        if (digest_of(&scan) != digest_of(&resumed)) die("a resumed scan differs");
        fp_scan_free(&resumed);
    }
    for (int32_t i = 0; !scan.error && forms && i < scan.item_count; i++) {
        item_forms(g, body, scan.items[i].start, scan.items[i].end);
        walk_strings(body, scan.items[i].start, scan.items[i].end);
    }
    fp_scan_free(&scan);
}

/* Everything that allocates, once. FP_OK or FP_NO_MEMORY. */
static int run_all(const fp_grammar *g, const uint8_t *body, int32_t size, const fp_scan *earlier) {
    fp_scan scan = {0};
    fp_tree tree = {0};
    fp_buffer out = {0};
    fp_block *blocks;
    fp_child child;
    size_t count;
    int differs;
    const uint8_t *fault;
    static uint8_t decoded[20000];
    fp_reader reader = {body, size, 0, FP_OK, 0, 0};
    int error = fp_scan_run(&scan, g, body, size, earlier, body, size);
    fp_scan_free(&scan);
    if (!error) error = fp_scan_run(&scan, g, body, size, NULL, NULL, 0);
    fp_scan_free(&scan);
    if (!error) error = fp_tree_read(&tree, g, body, 0, size);
    if (error) {
        fp_tree_free(&tree);
        return error;
    }
    error = fp_write_canon(&tree, 0, &out, &differs);
    if (!error) error = fp_write_stripped(&tree, 0, size, &out);
    if (!error) error = fp_find_member(&reader, 0, (const uint8_t *)"m\\u00e9", 8, &child);
    fp_tree_free(&tree);
    free(out.data);
    if (error) return error;
    fp_decode_blocks((const uint8_t *)"abc", (const uint8_t *)"abc" + 3, 1, decoded, &blocks, &count, &fault);
    error = blocks ? FP_OK : FP_NO_MEMORY;
    free(blocks);
    return error;
}

static void starve(const fp_grammar *g, const uint8_t *body, int32_t size) {
    fp_scan earlier = {0};
    if (fp_scan_run(&earlier, g, body, size, NULL, NULL, 0)) die("a file that was read cannot be read again");
    for (long allowed = 0;; allowed++) {
        until_failure = allowed;
        int error = run_all(g, body, size, &earlier);
        int failed = until_failure == -1;
        until_failure = -1;
        if (error != (failed ? FP_NO_MEMORY : FP_OK)) die("a failed allocation was not reported");
        if (!failed) break;
    }
    fp_scan_free(&earlier);
}

/* ---- files ---- */

static uint64_t seed;

static uint32_t below(uint32_t limit) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((seed >> 33) % limit);
}

static uint8_t *copy_of(const uint8_t *body, int32_t size) {
    uint8_t *copy = need(malloc((size_t)size + !size));
    if (size) memcpy(copy, body, (size_t)size);
    return copy;
}

static void torment(const fp_grammar *g, const uint8_t *body, int32_t size, int rounds) {
    static const char troubles[] = "\"\\{}[],:0-eE.nut \n\x01\xff";
    fp_scan scan = {0};
    if (fp_scan_run(&scan, g, body, size, NULL, NULL, 0)) die("a file that was read cannot be read again");
    for (int i = 0; i < rounds; i++) {
        int32_t cut = (int32_t)below((uint32_t)size);
        uint8_t *part = copy_of(body, cut);
        check_body(g, part, cut, &scan, body, size, 0);
        free(part);
        uint8_t *changed = copy_of(body, size);
        for (uint32_t n = below(3) + 1; n; n--) changed[below((uint32_t)size)] = (uint8_t)troubles[below(sizeof troubles - 1)];
        check_body(g, changed, size, &scan, body, size, size < 20000);
        walk_strings(changed, (int32_t)below((uint32_t)size), size);
        free(changed);
    }
    fp_scan_free(&scan);
}

static uint8_t *read_file(const char *path, int32_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) die("a file cannot be read");
    *size = (int32_t)ftell(file);
    rewind(file);
    uint8_t *body = need(malloc((size_t)*size + !*size));
    if (fread(body, 1, (size_t)*size, file) != (size_t)*size) die("a file cannot be read");
    fclose(file);
    return body;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void time_scan(const fp_grammar *g, const uint8_t *body, int32_t size) {
    double best = 1e9;
    for (int i = 0; i < 300; i++) {
        fp_scan scan = {0};
        double start = now();
        fp_scan_run(&scan, g, body, size, NULL, NULL, 0);
        double taken = now() - start;
        if (taken < best) best = taken;
        fp_scan_free(&scan);
    }
    printf("%9d bytes %8.1f us %6.2f GB/s ", size, best * 1e6, size / best / 1e9);
}

int main(int argc, char **argv) {
    int rounds = 20, timing = 0, first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (argv[first][1] == 'b') timing = 1;
        if (argv[first][1] == 'r' && first + 1 < argc) rounds = atoi(argv[++first]);
    }
    fp_grammar *g = make_grammar();
    fprintf(stderr, "%s\n", FP_BACKEND);
    for (int i = first; i < argc; i++) {
        int32_t size;
        uint8_t *body = read_file(argv[i], &size);
        digest = UINT64_C(14695981039346656037);
        seed = (uint64_t)size;
        if (timing) {
            time_scan(g, body, size);
        } else {
            fp_scan scan = {0};
            int error = fp_scan_run(&scan, g, body, size, NULL, NULL, 0);
            fp_scan_free(&scan);
            check_body(g, body, size, NULL, NULL, 0, 1);
            int32_t most = 4000000 / (size + 1000) + 2;
            if (!error && size) torment(g, body, size, most < rounds ? most : rounds);
            if (!error && size < 20000) starve(g, body, size);
            printf("%016llx ", (unsigned long long)digest);
        }
        const char *name = strrchr(argv[i], '/');
        printf("%s\n", name ? name + 1 : argv[i]);
        free(body);
    }
    fp_grammar_free(g);
    return 0;
}
