"""A Python with packages from PyPI, in a folder of the build: for peers and data that tests compare with, never for the product."""
import os
import pathlib
import subprocess
import sys

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def find(build, packages):
    """(path of an interpreter, None) or (None, why there is none).  packages: {module: what pip installs}."""
    folder = pathlib.Path(build) / "private-python"
    python = folder / "bin" / "python3"
    named = os.environ.get("GALE_TEST_PYTHON")
    if named:
        return pathlib.Path(named), None
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120, **QUIET)
        missing = [wheel for module, wheel in packages.items() if subprocess.run([str(python), "-c", f"import {module}"], check=False, **QUIET).returncode]
        if missing:
            subprocess.run([str(python), "-m", "pip", "install", "-q", *missing], check=True, timeout=300, **QUIET)
        return python, None
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{', '.join(packages)} cannot be had from PyPI ({type(error).__name__})"


def skip(name, why):
    """The last lines of a test that cannot run here."""
    print(f"SKIP {name}: {why}\n0 passed, 0 failed, 1 skipped")
    return 0
