#!/usr/bin/env python3
"""A spread of the ONNX suite, every model brought to the newest opset and folded by `gale convert`, must still pass.

usage: converted.py GALE SOURCE BUILD EVERY
"""
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import onnx_suite  # noqa: E402


def unpack(suite, folder):
    if suite.is_dir():
        return suite
    with tarfile.open(suite) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    return folder


def convert(gale, case, to, options):
    """One case with its model converted; what was wrong, or None."""
    to.mkdir(parents=True)
    for path in case.iterdir():
        if path.name != "model.onnx":
            (to / path.name).symlink_to(path)
    done = subprocess.run([gale, "convert", str(case / "model.onnx"), "-o", str(to / "model.onnx"), *options], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


def main():
    gale, source, build, every = sys.argv[1:5]
    suite, why = onnx_suite.find(source, build)
    if not suite:
        print(f"SKIP converted models: {why}\n0 passed, 0 failed, 1 skipped")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cases = sorted(path.parent for path in unpack(suite, folder / "suite").rglob("model.onnx"))[:: int(every)]
        for case in cases:
            wrong = convert(gale, case.resolve(), folder / "converted" / case.parent.name / case.name, ["--opset", "newest", "--fold"])
            if wrong:
                print(f"FAIL {case.name}: {wrong}")
                failed += 1
        done = subprocess.run([gale, "conformance", str(folder / "converted"), "--provider", "cpu"], capture_output=True, text=True, check=False)
    sums = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout, flags=re.M)
    if not sums:
        print(f"FAIL conformance: {done.stderr.strip()[-300:]}\n0 passed, 1 failed, 0 skipped")
        return 1
    skipped = int(sums[3])
    for name, reason in re.findall(r"^FAIL \S*?/(\S+): (.*)$", done.stdout, flags=re.M):
        excuse = onnx_suite.excuse("cpu", name)
        print(f"SKIP {name}: {excuse}" if excuse else f"FAIL {name}: {reason}")
        failed, skipped = failed + (not excuse), skipped + bool(excuse)
    print(f"{sums[1]} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
