"""Finds the ONNX backend suite (onnx 1.22): what GALE_TEST_SUITE names, the archive beside the project, or the data of the `onnx` package.
Node cases that a wheel leaves out are generated from its sources."""
import os
import pathlib
import subprocess

import private_python

ARCHIVE = "onnx-backend-tests-1.22.tar.xz"
NODE_CASES = 1765


def from_package(build):
    python, why = private_python.find(build, {"onnx": "onnx==1.22.*"})
    if not python:
        return None, f"the suite is not beside the project, and {why}"
    try:
        code = "import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), 'backend/test/data'))"
        data = pathlib.Path(subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip())
        if len(list((data / "node").glob("test_*"))) < NODE_CASES:
            (data / "node").mkdir(exist_ok=True)
            subprocess.run([str(python), "-m", "onnx.backend.test.cmd_tools", "generate-data", "-o", str(data)], check=True, timeout=600, **private_python.QUIET)
        return data, None
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
