"""What the tests in Python count, and how they say it."""
counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(name, good, why=""):
    counts["passed" if good else "failed"] += 1
    if not good:
        print(f"FAIL {name}: {why}")


def skip(name, why):
    print(f"SKIP {name}: {why}")
    counts["skipped"] += 1


def finish():
    """The last line; the exit code."""
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return int(counts["failed"] > 0)
