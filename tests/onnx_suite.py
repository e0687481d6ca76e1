"""Finds the ONNX backend suite (onnx 1.22): what GALE_TEST_SUITE names, the archive beside the project, or the data of the `onnx` package.
Node cases that a wheel leaves out are generated from its sources.

usage: onnx_suite.py SOURCE BUILD    makes the data, so that no test has to wait for it
"""
import os
import pathlib
import shutil
import subprocess
import sys

import private_python

ARCHIVE = "onnx-backend-tests-1.22.tar.xz"
NODE_CASES = 1765


def fill(folder, python):
    """The data of the package, with the node cases that its wheel leaves out."""
    code = "import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), 'backend/test/data'))"
    data = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    shutil.copytree(data, folder)
    if len(list((folder / "node").glob("test_*"))) < NODE_CASES:
        (folder / "node").mkdir(exist_ok=True)
        subprocess.run([str(python), "-m", "onnx.backend.test.cmd_tools", "generate-data", "-o", str(folder)], check=True, timeout=600, **private_python.QUIET)


def from_package(build):
    python, why = private_python.find(build, ["onnx"])
    if not python:
        return None, f"the suite is not beside the project, and {why}"
    suite = pathlib.Path(build) / "onnx-suite"
    try:
        with private_python.filled(suite) as part:
            if part:
                fill(part, python)
        return suite, None
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"the onnx package gives no data ({type(error).__name__})"


def find(source, build):
    """(path, None) or (None, why there is none)."""
    named = os.environ.get("GALE_TEST_SUITE")
    if named:
        return pathlib.Path(named), None
    beside = pathlib.Path(source).parent / "shared" / "data" / ARCHIVE
    if beside.exists():
        return beside, None
    return from_package(build)


if __name__ == "__main__":
    _, problem = find(sys.argv[1], sys.argv[2])
    if problem:
        print(f"{problem}: what needs it is skipped")
