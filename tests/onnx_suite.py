"""Finds the ONNX backend suite (onnx 1.23): what GALE_TEST_SUITE names, the archive beside the project, or the data of the `onnx` package from
PyPI.  The wheel has no node cases: they are generated from its sources.  Without network, an archive of onnx 1.22 is the fallback.

usage: onnx_suite.py SOURCE BUILD    makes the data, so that no test has to wait for it
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import private_python

ARCHIVE = "onnx-backend-tests-1.23.tar.xz"
OLDER_ARCHIVE = "onnx-backend-tests-1.22.tar.xz"
NODE_CASES = 1884
GENERATE = """import sys, types
from onnx.backend.test import cmd_tools, loader
cases = cmd_tools.model_test.collect_testcases() + loader.load_node_model_tests()
cmd_tools.model_test.collect_testcases = lambda: cases
cmd_tools.generate_data(types.SimpleNamespace(output=sys.argv[1]))
"""  # `cmd_tools generate-data` alone leaves out the cases of single nodes


def fill(folder, python):
    """The data of the package, with the node cases that its wheel leaves out."""
    code = "import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), 'backend/test/data'))"
    data = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    shutil.copytree(data, folder)
    if len(list((folder / "node").glob("test_*"))) < NODE_CASES:
        (folder / "node").mkdir(exist_ok=True)
        subprocess.run([str(python), "-c", GENERATE, str(folder)], check=True, timeout=600, **private_python.QUIET)


def from_package(build):
    python, why = private_python.find(build, ["onnx"])
    if not python:
        return None, f"the suite is not beside the project, and {why}"
    suite = pathlib.Path(build) / "onnx-suite-1.23"
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
    data = pathlib.Path(source).parent / "shared" / "data"
    if (data / ARCHIVE).exists():
        return data / ARCHIVE, None
    suite, why = from_package(build)
    if not suite and (data / OLDER_ARCHIVE).exists():
        return data / OLDER_ARCHIVE, None
    return suite, why


def known(provider):
    """Cases that cannot pass on this provider, with the reason."""
    rows = {}
    for line in (pathlib.Path(__file__).parent / "conformance.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            providers, pattern, why = line.split(None, 2)
            if provider in providers.split(","):
                rows[pattern] = why
    return rows


def excuse(provider, name):
    """Why the case is known to fail, or None."""
    return next((why for pattern, why in known(provider).items() if re.fullmatch(pattern, name)), None)


if __name__ == "__main__":
    _, problem = find(sys.argv[1], sys.argv[2])
    if problem:
        print(f"{problem}: what needs it is skipped")
