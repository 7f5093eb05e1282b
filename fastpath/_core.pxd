# cython: language_level=3
"""What _fast.pyx uses of the C core. Structs name only the members that are read or written here; c/*.h explains each."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cdef extern from "fp_bits.h":
    const char *FP_BACKEND

cdef extern from "fp_grammar.h":
    enum:
        FP_ROOT_HISTORY
        FP_ROOT_SYSTEM
        FP_ROOT_TOOLS
    ctypedef struct fp_field:
        int16_t shape
        uint8_t code
        uint8_t kind
        uint8_t text_block
    ctypedef struct fp_shape:
        int16_t default_shape
        int16_t each
        uint8_t kind
        uint8_t role
    ctypedef struct fp_atom:
        uint8_t root
    ctypedef struct fp_grammar:
        fp_atom *atoms
        fp_shape *shapes
        int16_t item
        int16_t system_shape
        int16_t tools_shape
        uint8_t history_text
    fp_grammar *fp_grammar_new(int32_t shape_count, int32_t atom_count, int32_t field_count) nogil
    void fp_grammar_free(fp_grammar *grammar) nogil
    int fp_grammar_atom(fp_grammar *grammar, const uint8_t *text, int32_t length) nogil
    void fp_grammar_root(fp_grammar *grammar, int atom, int root, int rank) nogil
    void fp_grammar_by(fp_grammar *grammar, int shape, int atom) nogil
    void fp_grammar_case(fp_grammar *grammar, int shape, int atom, int picked) nogil
    void fp_grammar_field(fp_grammar *grammar, int shape, int atom, fp_field field) nogil

cdef extern from "fp_json.h":
    enum:
        FP_OK
        FP_UNEXPECTED
        FP_TOO_DEEP
        FP_TOO_MANY_VALUES
        FP_TOO_MANY_ITEMS
        FP_NOT_AN_OBJECT
        FP_NOT_AN_ARRAY
        FP_NO_HISTORY
        FP_NO_MEMORY
        FP_SHADOWED
        FP_STRING
    ctypedef struct fp_node:
        int32_t start
        int32_t end
        int32_t key_start
        int32_t next
        int32_t parent
        int32_t index
        uint8_t type
        uint8_t flags
    ctypedef struct fp_tape:
        fp_node *nodes
        int32_t count
    ctypedef struct fp_reader:
        const uint8_t *body
        int32_t end
        int32_t value_count
        int error
        int32_t offset
    int32_t fp_skip_space(const fp_reader *reader, int32_t position) nogil
    int32_t fp_read_value(fp_reader *reader, int32_t position, int depth, fp_tape *tape, const fp_grammar *grammar,
                          int prune) nogil

cdef extern from "fp_match.h":
    ctypedef struct fp_part:
        int32_t item
        int32_t parent
        int32_t start
        int32_t end
        int32_t id_start
        int32_t id_end
        int32_t name_start
        int32_t name_end
        int32_t payload_start
        int32_t payload_end
        uint8_t kind
        uint8_t flags
        uint8_t payload_type
    ctypedef struct fp_parts:
        fp_part *rows
        int32_t count

cdef extern from "fp_scan.h":
    ctypedef struct fp_item:
        int32_t start
        int32_t end
        int32_t first_part
        int32_t part_count
        int32_t bytes[4]
        uint8_t role
        uint8_t flags
    ctypedef struct fp_member:
        int32_t key_start
        int32_t key_end
        int32_t start
        int32_t end
        int16_t atom
        uint8_t last
    ctypedef struct fp_scan:
        fp_item *items
        int32_t item_count
        fp_parts parts
        fp_member *members
        int32_t member_count
        int32_t history_start
        int32_t history_end
        int32_t reused_item_count
        int32_t marker_count
        int64_t sizes[10]
        int error
        int32_t offset
    int fp_scan_run(fp_scan *scan, const fp_grammar *grammar, const uint8_t *body, int32_t size, const fp_scan *previous,
                    const uint8_t *previous_body, int32_t previous_size) nogil
    void fp_scan_free(fp_scan *scan) nogil

cdef extern from "fp_text.h":
    ctypedef struct fp_block:
        int64_t raw_start
        int64_t start
    size_t fp_decode(const uint8_t *raw, const uint8_t *end, uint8_t *out, const uint8_t **fault) nogil
    size_t fp_decode_blocks(const uint8_t *raw, const uint8_t *end, int64_t block_bytes, uint8_t *out, fp_block **blocks,
                            size_t *count, const uint8_t **fault) nogil

cdef extern from "fp_canon.h":
    ctypedef struct fp_buffer:
        uint8_t *data
        size_t size
    ctypedef struct fp_tree:
        fp_reader reader
        fp_tape tape
    int fp_tree_read(fp_tree *tree, const fp_grammar *grammar, const uint8_t *body, int32_t start, int32_t end) nogil
    void fp_tree_free(fp_tree *tree) nogil
    const uint8_t *fp_tree_key(const fp_tree *tree, int32_t node, int32_t *size) nogil
    int fp_write_canon(const fp_tree *tree, int loose, fp_buffer *out, int *differs) nogil
    int fp_write_stripped(const fp_tree *tree, int32_t start, int32_t end, fp_buffer *out) nogil

cdef extern from "fp_path.h":
    ctypedef struct fp_child:
        int32_t start
        int32_t end
        int32_t outer_start
        int32_t before_end
        int32_t after_start
    int fp_find_member(fp_reader *reader, int32_t position, const uint8_t *key, int32_t size, fp_child *child) nogil
    int fp_find_element(fp_reader *reader, int32_t position, int64_t index, fp_child *child) nogil
