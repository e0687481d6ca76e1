"""A Python with packages from PyPI, in a folder of the build: for peers and data that tests compare with, never for the product.

usage: private_python.py BUILD    installs the packages, so that no test has to wait for them

Tests run side by side, so the folder is filled under a temporary name, behind a lock, and renamed once it is complete.  What could not be had
is written down there, and asked for again only by the command above.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
PACKAGES = {"numpy": "numpy", "onnx": "onnx==1.23.*", "onnxruntime": "onnxruntime", "OpenEXR": "OpenEXR==3.*", "PIL": "pillow", "tokenizers": "tokenizers==0.23.3", "sentencepiece": "sentencepiece==0.2.2"}  # module: what pip installs


def folder_of(build):
    """Named after what is in it, so that a build that was kept gets a package that is new."""
    return pathlib.Path(build) / f"private-python-{hashlib.sha256(repr(sorted(PACKAGES.items())).encode()).hexdigest()[:8]}"


@contextlib.contextmanager
def filled(folder):
    """Yields a path to fill, which becomes `folder` when the block ends without an exception; None where that has been done already."""
    folder = pathlib.Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        part = pathlib.Path(f"{folder}.part")
        shutil.rmtree(part, ignore_errors=True)
        yield part
        part.rename(folder)


def install(folder):
    """A virtual environment with all packages that can be had; installed.json says which those are."""
    python = folder / "bin" / "python3"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120, **QUIET)
        pip = [str(python), "-m", "pip", "install", "-q", "--no-compile", "--retries", "1", "--timeout", "20"]
        if subprocess.run([*pip, *PACKAGES.values()], check=False, timeout=600, **QUIET).returncode:
            for wheel in PACKAGES.values():  # one that cannot be had must not keep the others away
                subprocess.run([*pip, wheel], check=False, timeout=300, **QUIET)
    except (OSError, subprocess.SubprocessError):
        folder.mkdir(parents=True, exist_ok=True)
    have = [module for module in PACKAGES if python.exists() and subprocess.run([str(python), "-c", f"import {module}"], check=False, **QUIET).returncode == 0]
    (folder / "installed.json").write_text(json.dumps(have))


def find(build, modules):
    """(path of an interpreter that imports the modules, None) or (None, why there is none)."""
    named = os.environ.get("GALE_TEST_PYTHON")
    if named:
        return pathlib.Path(named), None
    folder = folder_of(build)
    try:
        with filled(folder) as part:
            if part:
                install(part)
        have = json.loads((folder / "installed.json").read_text())
    except OSError as error:
        return None, f"no folder for packages from PyPI ({error.strerror})"
    missing = [PACKAGES[module] for module in modules if module not in have]
    return (None, f"{', '.join(missing)} cannot be had from PyPI") if missing else (folder / "bin" / "python3", None)


def skip(name, why):
    """The last lines of a test that cannot run here."""
    print(f"SKIP {name}: {why}\n0 passed, 0 failed, 1 skipped")
    return 0


def forget_incomplete(folder):
    try:
        complete = set(json.loads((folder / "installed.json").read_text())) >= set(PACKAGES)
    except OSError:
        complete = False
    if not complete:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    forget_incomplete(folder_of(sys.argv[1]))
    _, problem = find(sys.argv[1], PACKAGES)
    if problem:
        print(f"{problem}: what needs it is skipped")
