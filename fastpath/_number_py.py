"""One spelling for each number: the reference of c/fp_number.c.

Exact: equal by decimal value, whatever the spelling. Double: equal as IEEE doubles. Neither ever builds the number itself:
exponents may be of any size, and what is computed with them is text.
"""

from __future__ import annotations

import re

__all__ = ["double_spelling", "exact_spelling"]

_PARTS = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")
_WORD = 10**18  # exponents below this are computed as integers
_PLAIN_DIGITS = 21  # integers of up to as many digits are written without exponent, as in ECMAScript's Number::toString
_SAFE_DIGITS = 15  # DBL_DIG: decimals of so many digits survive the way to a double and back
_SAFE_LOW, _SAFE_HIGH = -290, 290  # decimal exponents for which that holds, with room to both ends of the normal range
_KEPT_DIGITS = 800  # no double needs more than 767 digits to be told from its neighbors


def _add(negative: bool, digits: bytes, delta: int) -> tuple[bool, bytes]:
    """Add a small integer (|delta| < 10**18) to a decimal integer of any size without leading zeros."""
    if len(digits) <= 18:
        total = (-int(digits) if negative else int(digits)) + delta
        return total < 0, b"%d" % abs(total)
    if negative:
        delta = -delta
    head, low = digits[:-18], int(digits[-18:]) + delta
    if 0 <= low < _WORD:
        return negative, head + b"%018d" % low
    step = 1 if low >= _WORD else -1
    low -= step * _WORD
    figures = bytearray(head)
    place = len(figures) - 1
    wrap, edge = (0x30, 0x39) if step > 0 else (0x39, 0x30)
    while place >= 0 and figures[place] == edge:
        figures[place] = wrap
        place -= 1
    if place >= 0:
        figures[place] += step
    else:
        figures[:0] = b"1"  # only upwards: a head is never zero
    return negative, (bytes(figures) + b"%018d" % low).lstrip(b"0")


def _split(text: bytes) -> tuple[bytes, bytes, bool, bytes]:
    """Sign, digits without zeros at either end, sign and digits of the exponent of the last digit; no digits for zero."""
    match = _PARTS.fullmatch(text)
    if match is None:
        raise ValueError("not a JSON number")
    sign, whole, fraction, exponent_sign, exponent = match.groups()
    fraction = fraction or b""
    figures = (whole + fraction).lstrip(b"0")
    digits = figures.rstrip(b"0")
    if not digits:
        return b"", b"", False, b"0"
    delta = len(figures) - len(digits) - len(fraction)
    negative, power = _add(exponent_sign == b"-", (exponent or b"0").lstrip(b"0") or b"0", delta)
    return sign, digits, negative, power


def _join(sign: bytes, digits: bytes, negative: bool, power: bytes) -> bytes:
    if not digits:
        return b"0"
    if power == b"0" or (not negative and len(power) <= 2 and len(digits) + int(power) <= _PLAIN_DIGITS):
        return sign + digits + b"0" * int(power)
    return sign + digits + (b"e-" if negative else b"e") + power


def exact_spelling(text: bytes) -> bytes:
    """The one spelling of a JSON number by exact decimal value: an integer, or digits and an exponent. O(n).

    1.0, 1e0 and 10e-1 are `1`; -0 is `0`; 1.50 is `15e-1`.
    """
    return _join(*_split(text))


def double_spelling(text: bytes) -> bytes:
    """The exact spelling of the shortest decimal that reads as the nearest double. O(n).

    Whatever overflows is `1e999` or `-1e999`; whatever underflows is `0`.
    """
    sign, digits, negative, power = _split(text)
    if not digits:
        return b"0"
    if len(power) > 17:
        return b"0" if negative else sign + b"1e999"
    exponent = -int(power) if negative else int(power)
    if len(digits) <= _SAFE_DIGITS and exponent >= _SAFE_LOW and exponent + len(digits) <= _SAFE_HIGH:
        return _join(sign, digits, negative, power)
    if len(digits) > _KEPT_DIGITS:
        exponent += len(digits) - _KEPT_DIGITS - 1
        digits = digits[:_KEPT_DIGITS] + b"1"  # stands for the rest, which is not zero
    value = float(b"%s%se%d" % (sign, digits, exponent))
    if value == 0:
        return b"0"
    if value in (float("inf"), float("-inf")):
        return sign + b"1e999"
    for count in range(14 if abs(value) >= 1e-290 else 0, 17):  # zeros at the end of 15 digits go again
        shortest = b"%.*e" % (count, value)
        if float(shortest) == value:
            return exact_spelling(shortest)
    raise AssertionError("seventeen digits name a double")
