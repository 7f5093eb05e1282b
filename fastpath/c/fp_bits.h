/* Sixty-four bytes at a time: which are quotes, backslashes, control characters. The only machine-specific code of the package.
 *
 * One variant is chosen when compiling: SSE2 (part of every x86-64), NEON (part of every AArch64), else words of eight bytes
 * (SWAR); -DFASTPATH_SWAR forces the last. Bit i of a mask stands for byte i. All loads are unaligned and stay inside the bytes
 * given: 64, or FP_SHORT_BYTES for fp_stops_short, which tells quotes, backslashes and control characters of a short text in
 * one mask.
 */
#ifndef FP_BITS_H
#define FP_BITS_H

#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t quote;     /* '"' */
    uint64_t backslash; /* '\\' */
    uint64_t control;   /* below 0x20 */
} fp_masks;

#if !defined(FASTPATH_SWAR) && (defined(__SSE2__) || defined(_M_X64))
#define FP_BACKEND "c-sse2"
#include <emmintrin.h>

static inline uint64_t fp_gather(__m128i a, __m128i b, __m128i c, __m128i d) {
    uint64_t low = (uint32_t)_mm_movemask_epi8(a) | (uint32_t)_mm_movemask_epi8(b) << 16;
    uint64_t high = (uint32_t)_mm_movemask_epi8(c) | (uint32_t)_mm_movemask_epi8(d) << 16;
    return low | high << 32;
}

static inline uint64_t fp_eq64(const uint8_t *p, uint8_t byte) {
    const __m128i wanted = _mm_set1_epi8((char)byte);
    const __m128i *v = (const __m128i *)(const void *)p;
    return fp_gather(_mm_cmpeq_epi8(_mm_loadu_si128(v), wanted), _mm_cmpeq_epi8(_mm_loadu_si128(v + 1), wanted),
                     _mm_cmpeq_epi8(_mm_loadu_si128(v + 2), wanted), _mm_cmpeq_epi8(_mm_loadu_si128(v + 3), wanted));
}

static inline uint64_t fp_below_space64(const uint8_t *p) {
    const __m128i limit = _mm_set1_epi8(0x1f);
    const __m128i *v = (const __m128i *)(const void *)p;
    __m128i a = _mm_loadu_si128(v), b = _mm_loadu_si128(v + 1), c = _mm_loadu_si128(v + 2), d = _mm_loadu_si128(v + 3);
    __m128i least = _mm_min_epu8(_mm_min_epu8(a, b), _mm_min_epu8(c, d));
    if (!_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(least, limit), least))) return 0; /* as good as always inside a string */
    return fp_gather(_mm_cmpeq_epi8(_mm_min_epu8(a, limit), a), _mm_cmpeq_epi8(_mm_min_epu8(b, limit), b),
                     _mm_cmpeq_epi8(_mm_min_epu8(c, limit), c), _mm_cmpeq_epi8(_mm_min_epu8(d, limit), d));
}

#define FP_SHORT_BYTES 16

static inline uint64_t fp_stops_short(const uint8_t *p) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p), limit = _mm_set1_epi8(0x1f);
    __m128i stops = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    return (uint32_t)_mm_movemask_epi8(_mm_or_si128(stops, _mm_cmpeq_epi8(_mm_min_epu8(v, limit), v)));
}

#elif !defined(FASTPATH_SWAR) && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#define FP_BACKEND "c-neon"
#include <arm_neon.h>

static inline uint64_t fp_gather(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t weight = vld1q_u8(weights);
    uint8x16_t low = vpaddq_u8(vandq_u8(a, weight), vandq_u8(b, weight));
    uint8x16_t high = vpaddq_u8(vandq_u8(c, weight), vandq_u8(d, weight));
    low = vpaddq_u8(low, high);
    low = vpaddq_u8(low, low);
    return vgetq_lane_u64(vreinterpretq_u64_u8(low), 0);
}

static inline uint64_t fp_eq64(const uint8_t *p, uint8_t byte) {
    const uint8x16_t wanted = vdupq_n_u8(byte);
    return fp_gather(vceqq_u8(vld1q_u8(p), wanted), vceqq_u8(vld1q_u8(p + 16), wanted), vceqq_u8(vld1q_u8(p + 32), wanted),
                     vceqq_u8(vld1q_u8(p + 48), wanted));
}

static inline uint64_t fp_below_space64(const uint8_t *p) {
    const uint8x16_t limit = vdupq_n_u8(0x20);
    return fp_gather(vcltq_u8(vld1q_u8(p), limit), vcltq_u8(vld1q_u8(p + 16), limit), vcltq_u8(vld1q_u8(p + 32), limit),
                     vcltq_u8(vld1q_u8(p + 48), limit));
}

#define FP_SHORT_BYTES 16

static inline uint64_t fp_stops_short(const uint8_t *p) {
    const uint8x16_t v = vld1q_u8(p), none = vdupq_n_u8(0);
    uint8x16_t stops = vorrq_u8(vceqq_u8(v, vdupq_n_u8('"')), vceqq_u8(v, vdupq_n_u8('\\')));
    return fp_gather(vorrq_u8(stops, vcltq_u8(v, vdupq_n_u8(0x20))), none, none, none);
}

#else
#define FP_BACKEND "c-swar"

/* The first byte of memory in the lowest bits, whatever the machine's byte order. */
static inline uint64_t fp_load_word(const uint8_t *p) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
#else
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = word << 8 | p[i];
    return word;
#endif
}

/* Bit i is set when byte i of the word is zero; exact, no carry passes from byte to byte. */
static inline uint64_t fp_zero_bytes(uint64_t word) {
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t zero = ~(((word & low) + low) | word | low);
    return (zero >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static inline uint64_t fp_eq64(const uint8_t *p, uint8_t byte) {
    const uint64_t wanted = UINT64_C(0x0101010101010101) * byte;
    uint64_t mask = 0;
    for (int i = 0; i < 8; i++) mask |= fp_zero_bytes(fp_load_word(p + 8 * i) ^ wanted) << (8 * i);
    return mask;
}

static inline uint64_t fp_below_space64(const uint8_t *p) {
    uint64_t mask = 0;
    for (int i = 0; i < 8; i++) mask |= fp_zero_bytes(fp_load_word(p + 8 * i) & UINT64_C(0xe0e0e0e0e0e0e0e0)) << (8 * i);
    return mask;
}

#define FP_SHORT_BYTES 8

static inline uint64_t fp_stops_short(const uint8_t *p) {
    const uint64_t word = fp_load_word(p), each = UINT64_C(0x0101010101010101);
    return fp_zero_bytes(word ^ each * '"') | fp_zero_bytes(word ^ each * '\\') | fp_zero_bytes(word & each * 0xe0);
}
#endif

static inline int fp_lowest_bit(uint64_t mask) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctzll(mask);
#else
    int place = 0;
    while (!(mask & 1)) {
        mask >>= 1;
        place++;
    }
    return place;
#endif
}

static inline fp_masks fp_classify(const uint8_t *p) {
    return (fp_masks){fp_eq64(p, '"'), fp_eq64(p, '\\'), fp_below_space64(p)};
}

/* Which bytes stand escaped after a run of backslashes, other than backslashes themselves. *carry is 1 when the first byte is
 * escaped by the block before, and is left so for the block after.
 *
 * Adding a run's first bit to the run moves it past the run's end; whether the run is odd then shows in the parity of where it
 * ended, seen from the parity of where it began. */
static inline uint64_t fp_escaped(uint64_t backslash, uint64_t *carry) {
    const uint64_t even = UINT64_C(0x5555555555555555);
    uint64_t first = *carry & ~backslash;
    uint64_t runs = backslash & ~*carry;
    uint64_t starts = runs & ~(runs << 1);
    uint64_t past_even = runs + (starts & even);
    uint64_t past_odd = runs + (starts & ~even);
    *carry = past_odd < runs; /* a run from an odd place to the block's end is odd */
    return first | (past_even & ~runs & ~even) | (past_odd & ~runs & even);
}

#endif
