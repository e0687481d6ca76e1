#!/usr/bin/env python3
"""What the tests of some suites need built, so that a build of which few tests are run stays small.

usage: suite-targets.py BUILD SUITE...

Prints the files, for ninja, relative to BUILD.
"""
import json
import pathlib
import sys

build, suites = pathlib.Path(sys.argv[1]), {f"gale:{name}" for name in sys.argv[2:]}
tests = json.loads((build / "meson-info" / "intro-tests.json").read_text())
targets = {target["id"]: target["filename"] for target in json.loads((build / "meson-info" / "intro-targets.json").read_text())}
needed = {name for test in tests if suites & set(test["suite"]) for name in test["depends"]}
root = build.resolve()
print("\n".join(sorted(str(pathlib.Path(file).relative_to(root)) for name in needed for file in targets[name])))
