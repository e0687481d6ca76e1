#!/usr/bin/env python3
"""The ONNX suite through `gale conformance` on one provider.

usage: conformance.py GALE SOURCE BUILD PROVIDER EVERY

EVERY: only every N-th case, for drivers whose compilers are slow; failures that lie in the nature of a case are listed in conformance.txt
with their reason, and are counted as skipped.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import onnx_suite  # noqa: E402


def main():
    gale, source, build, provider, every = sys.argv[1:6]
    suite, why = onnx_suite.find(source, build)
    if not suite:
        print(f"SKIP conformance {provider}: {why}\n0 passed, 0 failed, 1 skipped")
        return 0
    done = subprocess.run([gale, "conformance", str(suite), "--provider", provider, "--strict", "--every", every], capture_output=True, text=True, check=False,
                          env={"GALE_WATCHDOG_S": "600",  # software drivers on a busy machine are slow, not hung
                               "GALE_POOL_FILL": "1", **os.environ})  # what reads memory that nobody wrote shall not pass by luck
    sums = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout, flags=re.M)
    if not sums:
        missing = done.returncode == 3
        print(f"{'SKIP' if missing else 'FAIL'} conformance {provider}: {done.stderr.strip()[-300:]}\n0 passed, {int(not missing)} failed, {int(missing)} skipped")
        return int(not missing)
    passed, failed, skipped = map(int, sums.groups())
    for name, reason in re.findall(r"^FAIL \S*?/(\S+): (.*)$", done.stdout, flags=re.M):
        excuse = onnx_suite.excuse(provider, name)
        if excuse:
            failed, skipped = failed - 1, skipped + 1
            print(f"SKIP conformance {provider} {name}: {excuse}")
        else:
            print(f"FAIL conformance {provider} {name}: {reason}")
    for line in re.findall(r"^.*a buffer of .* was written .*$", done.stderr, flags=re.M):
        failed += 1
        print(f"FAIL conformance {provider}: {line}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


sys.exit(main())
