#!/usr/bin/env python3
"""Sums up Meson's test logs: the last line `N passed, N failed, N skipped` of every test program.

usage: sum-tests.py LOG.json...

Prints what was skipped, one line a reason, and then the three sums; a program that died counts as one failure.
"""
import collections
import json
import re
import sys

passed = failed = skipped = 0
reasons = collections.defaultdict(list)
for path in sys.argv[1:]:
    for line in open(path, encoding="utf-8"):
        test = json.loads(line)
        output = test.get("stdout", "")
        sums = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", output, flags=re.M)
        good = test["result"] in ("OK", "SKIP", "EXPECTEDFAIL")
        p, f, s = map(int, sums[-1]) if sums else (int(test["result"] == "OK"), 0, int(test["result"] == "SKIP"))
        passed, failed, skipped = passed + p, failed + (f if f or good else 1), skipped + s
        for name, why in re.findall(r"^SKIP ([^:\n]*): (.*)$", output, flags=re.M):
            reasons[why].append(name)
for why, names in sorted(reasons.items()):
    print(f"SKIP {names[0] if len(names) == 1 else f'{len(names)} tests'}: {why}")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
