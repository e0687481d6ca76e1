#!/usr/bin/env python3
"""The Python package over the library of this build, with any interpreter here that has NumPy.

usage: python_module.py SOURCE_ROOT BUILD_ROOT COMPILER...
"""
import os
import pathlib
import subprocess
import sys

from private_python import find, skip

root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def imports_numpy(python):
    try:
        return subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def interpreter():
    """(path, None) or (None, why there is none).  Debian's own comes first, since that is what most people have."""
    for python in [os.environ.get("GALE_TEST_PYTHON"), "/usr/bin/python3", sys.executable]:
        if python and imports_numpy(python):
            return python, None
    return find(build, ["numpy"])


python, reason = interpreter()
if not python:
    sys.exit(skip("Python package", f"no Python with NumPy here ({reason}); install python3-numpy"))
here = pathlib.Path(__file__).parent
environment = {**os.environ, "PYTHONPATH": f"{root / 'python'}:{here}", "PYTHONDONTWRITEBYTECODE": "1", "GALE_BUILD": str(build), "GALE_PROVIDER": "cpu"}
sys.exit(subprocess.run([str(python), "-W", "error", str(here / "python_cases.py"), *sys.argv[1:]], env=environment, check=False).returncode)
