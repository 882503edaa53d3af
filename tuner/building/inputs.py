"""Inputs: text in C that fills arrays with numbers from a seed.

Numbers are those of SplitMix64 [G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014] at
the places seed + 1, seed + 2, ..., from -1 to 1 in steps that every type of 16 bits holds; int8 are from -8 to 7.
"""

from __future__ import annotations

C_INPUTS = """\
static uint64_t drawn(uint64_t place)
{
    uint64_t z = place * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
"""

# Element type -> the function fill_TYPE.
C_FILLS = {
    "fp32": """\
static void fill_fp32(float *array, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        array[i] = (float)((int64_t)(drawn(seed + (uint64_t)i + 1) >> 40) - 8388608) / 8388608.0f;
}
""",
    "bf16": """\
static void fill_bf16(uint16_t *array, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        const float number = (float)((int64_t)(drawn(seed + (uint64_t)i + 1) >> 56) - 128) / 128.0f;
        uint32_t bits;
        memcpy(&bits, &number, 4);
        array[i] = (uint16_t)(bits >> 16);
    }
}
""",
    "fp16": """\
static void fill_fp16(uint16_t *array, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        const float number = (float)((int64_t)(drawn(seed + (uint64_t)i + 1) >> 56) - 128) / 128.0f;
        uint32_t bits;
        memcpy(&bits, &number, 4);
        array[i] = (uint16_t)(number == 0 ? 0 : (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - 0x1c000));
    }
}
""",
    "int8": """\
static void fill_int8(int8_t *array, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        array[i] = (int8_t)((int)(drawn(seed + (uint64_t)i + 1) >> 60) - 8);
}
""",
}


def c_inputs(dtypes: set[str]) -> str:
    """The functions fill_TYPE(array, count, seed) of these element types in C99, after stdint.h and string.h."""
    return C_INPUTS + "".join(C_FILLS[dtype] for dtype in sorted(dtypes))
