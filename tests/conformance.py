#!/usr/bin/env python3
"""The ONNX suite through `gale conformance` on one provider.

usage: conformance.py GALE SOURCE BUILD PROVIDER EVERY

EVERY: only every N-th case (by default in scripts/test half of these), for drivers whose compilers are slow, and all pictures; failures that lie in the nature of a case are listed in
conformance.txt with their reason, and are counted as skipped.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import onnx_suite  # noqa: E402

ON_HOST = "correct, but ImageDecoder ran on the host"  # libraries decode files; nothing else may leave the device


def judge(gale, suite, provider, which):
    """[passed, failed, skipped] of one run of the program; prints a line for every case that does not pass."""
    done = subprocess.run([gale, "conformance", str(suite), "--provider", provider, "--strict", *which], capture_output=True, text=True, check=False,
                          env={"GALE_WATCHDOG_S": "600",  # software drivers on a busy machine are slow, not hung
                               "GALE_POOL_FILL": "1", **os.environ})  # what reads memory that nobody wrote shall not pass by luck
    sums = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout, flags=re.M)
    if not sums:
        missing = done.returncode == 3
        print(f"{'SKIP' if missing else 'FAIL'} conformance {provider}: {done.stderr.strip()[-300:]}")
        return [0, int(not missing), int(missing)]
    passed, failed, skipped = map(int, sums.groups())
    for outcome, name, reason in re.findall(r"^(FAIL|SKIP) \S*?/(\S+): (.*)$", done.stdout, flags=re.M):
        excuse = onnx_suite.excuse(provider, name) if outcome == "FAIL" else reason if reason == ON_HOST else None
        print(f"{'SKIP' if excuse else 'FAIL'} conformance {provider} {name}: {excuse or reason}")
        failed += (not excuse) - (outcome == "FAIL")
        skipped += bool(excuse) - (outcome == "SKIP")
    for line in re.findall(r"^.*a buffer of .* was written .*$", done.stderr, flags=re.M):
        failed += 1
        print(f"FAIL conformance {provider}: {line}")
    return [passed, failed, skipped]


def main():
    gale, source, build, provider, every = sys.argv[1:6]
    suite, why = onnx_suite.find(source, build)
    if not suite:
        print(f"SKIP conformance {provider}: {why}\n0 passed, 0 failed, 1 skipped")
        return 0
    if every != "1" and os.environ.get("GALE_TEST_LIGHT") == "2":
        every = str(2 * int(every))
    sums = judge(gale, suite, provider, ["--every", every])
    if every != "1" and sums[0]:
        sums = [a + b for a, b in zip(sums, judge(gale, suite, provider, ["--filter", "image_decoder"]))]
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    return int(sums[1] > 0)


sys.exit(main())
