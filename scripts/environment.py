#!/usr/bin/env python3
"""Writes docs/environment.md from src/base/env.def; with --check only tests whether it is up to date."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# Environment variables

Generated from `src/base/env.def` by `scripts/environment.py`; `gale --help env` prints the same table. A command-line option
overrides a `GALE_` variable, which overrides its alias from other programs. If a variable and its alias differ, a
warning states which one is used. An empty value counts as unset.

| variable | alias | default | meaning |
|---|---|---|---|
"""


def cell(text):
    return text.replace("|", "\\|")


def make():
    row = re.compile(r'^X\(\w+, "([^"]*)", (NULL|"[^"]*"), "([^"]*)", "([^"]*)"\)', re.M)
    rows = row.findall((root / "src/base/env.def").read_text())
    lines = []
    for name, alias, value, text in rows:
        aliases = " ".join("`%s`" % a for a in alias.strip('"').split()) if alias != "NULL" else ""
        lines.append("| `%s` | %s | %s | %s |" % (name, aliases, "`%s`" % value if value else "", cell(text)))
    return HEAD + "\n".join(lines) + "\n"


def main():
    path = root / "docs/environment.md"
    if "--check" in sys.argv:
        return 0 if path.exists() and path.read_text() == make() else 1
    path.write_text(make())
    return 0


sys.exit(main())
