/* What the functions of tile programs need when they are compiled as C: types, math.h by type, and the halves. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

static inline float gt_float_of(uint32_t bits) { float x; memcpy(&x, &bits, sizeof x); return x; }
static inline uint32_t gt_bits_of(float x) { uint32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }

/* Towards zero, saturating at 64 bits; NaN is 0. */
static inline int64_t gt_to_int(double x)
{
    if (x != x) return 0;
    if (x >= 9223372036854775808.0) return INT64_MAX;
    if (x <= -9223372036854775808.0) return INT64_MIN;
    return (int64_t)x;
}

static inline float gt_bf16_to_f32(uint16_t h) { return gt_float_of((uint32_t)h << 16); }

/* To nearest, ties to even; a NaN stays one. */
static inline uint16_t gt_f32_to_bf16(float x)
{
    uint32_t bits = gt_bits_of(x);
    if (x != x) return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float gt_f16_to_f32(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    if ((h & 0x7c00) == 0x7c00) return gt_float_of(magnitude | 0x7f800000 | sign);
    /* Moved into place the number is 2^112 too small; so are subnormal ones. */
    return gt_float_of(gt_bits_of(gt_float_of(magnitude) * gt_float_of(239u << 23)) | sign);
}

/* To nearest, ties to even; too large is infinite; a NaN stays one. */
static inline uint16_t gt_f32_to_f16(float x)
{
    uint32_t magnitude = gt_bits_of(x) & 0x7fffffff, sign = (gt_bits_of(x) >> 16) & 0x8000;
    uint32_t result;
    if (magnitude > 0x7f800000) result = 0x7e00;
    else if (magnitude >= 143u << 23) result = 0x7c00;
    /* A subnormal half is a count of 2^-24: adding 0.5 makes the adder round to that unit. */
    else if (magnitude < 113u << 23) result = gt_bits_of(gt_float_of(magnitude) + 0.5f) - gt_bits_of(0.5f);
    else {
        result = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
        if (result > 0x7c00) result = 0x7c00;
    }
    return (uint16_t)(result | sign);
}
