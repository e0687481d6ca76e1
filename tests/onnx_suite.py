"""Finds the ONNX backend suite (onnx 1.22): what GALE_TEST_SUITE names, the archive beside the project, or the data of the `onnx` package,
installed with pip into a folder of the build.  Node cases that a wheel leaves out are generated from its sources."""
import os
import pathlib
import subprocess
import sys

ARCHIVE = "onnx-backend-tests-1.22.tar.xz"
NODE_CASES = 1765


def from_package(folder):
    """Path of the package's own data, or None with a reason."""
    python = folder / "bin" / "python3"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120, **quiet)
        find = "import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), 'backend/test/data'))"
        if subprocess.run([str(python), "-c", find], **quiet).returncode:
            subprocess.run([str(python), "-m", "pip", "install", "-q", "onnx==1.22.*"], check=True, timeout=300, **quiet)
        data = pathlib.Path(subprocess.run([str(python), "-c", find], check=True, capture_output=True, text=True).stdout.strip())
        if len(list((data / "node").glob("test_*"))) < NODE_CASES:
            (data / "node").mkdir(exist_ok=True)
            subprocess.run([str(python), "-m", "onnx.backend.test.cmd_tools", "generate-data", "-o", str(data)], check=True, timeout=600, **quiet)
        return data, None
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"the suite is not beside the project, and the onnx package cannot be had ({type(error).__name__})"


def find(source, build):
    """(path, None) or (None, why there is none)."""
    named = os.environ.get("GALE_TEST_SUITE")
    if named:
        return pathlib.Path(named), None
    beside = pathlib.Path(source).parent / "shared" / "data" / ARCHIVE
    if beside.exists():
        return beside, None
    return from_package(pathlib.Path(build) / "onnx-package")
