#!/usr/bin/env python3
"""Writes src/text/unicode.def and src/text/script.def: what Hugging Face's tokenizers takes characters for.

    scripts/text-tables.py        with the package `tokenizers` installed; takes a few minutes

The library mixes tables of several Unicode versions: Rust's own, those of three crates and Oniguruma's.  So every character is shown to the library
itself.  Run it again when a new version of the package gives other tokens.
"""
import pathlib

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src" / "text"
EVERY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
PER_LINE = 12


def bert(**which):
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **which}).normalize_str


def tests():
    """A predicate per bit, in the order of src/text/unicode.h."""
    white, digits, word = pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(True), pre_tokenizers.Whitespace()
    punctuation, clean, accents = pre_tokenizers.Punctuation(), bert(clean_text=True), bert(strip_accents=True)
    marks = normalizers.StripAccents()
    letters, numbers = (pre_tokenizers.Split(Regex(p), "removed") for p in (r"\p{L}", r"\p{N}"))
    return [
        lambda s: not white.pre_tokenize_str(s),
        lambda s: len(digits.pre_tokenize_str("a" + s)) == 2,
        lambda s: [piece for piece, _ in word.pre_tokenize_str("a" + s)] == ["a" + s],
        lambda s: len(punctuation.pre_tokenize_str("a" + s)) == 2,
        lambda s: clean(s) == "",
        lambda s: accents(s) == "",
        lambda s: marks.normalize_str(s) == "",
        lambda s: not letters.pre_tokenize_str(s),
        lambda s: not numbers.pre_tokenize_str(s),
    ]


def changes(value):
    """(first, value) wherever the value differs from the one before; surrogates continue what stands before them."""
    rows, last = [], None
    for c in EVERY:
        v = value(c)
        if v != last:
            rows.append((c, v))
            last = v
    return rows


def scripts():
    """A number per script, 0 for what belongs to none: two characters of the same script are not split."""
    split, known = pre_tokenizers.UnicodeScripts(), []

    def joined(a, b):
        return len(split.pre_tokenize_str(chr(a) + chr(b))) == 1

    def number(c):
        if joined(ord("a"), c) and joined(0x4EAC, c):
            return 0
        for i, other in enumerate(known):
            if joined(other, c):
                known.insert(0, known.pop(i))  # the next character is likely of the same script
                return order[other]
        known.insert(0, c)
        order[c] = len(order) + 1
        return order[c]

    order = {}
    return changes(number)


def write(name, comment, rows, text):
    lines = [comment]
    for i in range(0, len(rows), PER_LINE):
        lines.append(" ".join(f"X({first:#x}, {text(value)})" for first, value in rows[i:i + PER_LINE]))
    (FOLDER / name).write_text("\n".join(lines) + "\n")


def main():
    checks = tests()
    bits = changes(lambda c: sum(1 << i for i, check in enumerate(checks) if check(chr(c))))
    source = f"tokenizers {tokenizers.__version__}; written by scripts/text-tables.py"
    write("unicode.def", f"/* X(first, bits): where characters of other properties begin (unicode.h), as {source}. */", bits, lambda v: f"{v:#x}")
    write("script.def", f"/* X(first, script): where characters of another script begin; 0: of none. As {source}. */", scripts(), str)


main()
