"""Plant the faults of mutants.toml one at a time, each in a copy of the checkout, and demand that its spec fails.

    run.py [words ...]      all of them, or those whose names have all the words
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor

root = pathlib.Path(__file__).resolve().parents[2]
core, core_test = "build/moontensor/core.so", "../../build/spec/c/core_test"
patience = 120  # seconds; a spec that hangs has failed too


def run(where, *command, timeout=600):
    """The status, None where the time is over, and the output."""
    keep = {k: v for k, v in os.environ.items() if k not in ("BUILD", "OUT", "MAKEFLAGS")}
    process = subprocess.Popen(command, cwd=where, env=keep, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None, ""


def build(where, killer):
    if killer.startswith("c "):
        return run(where, "make", "-s", "-C", "spec/c", core_test)
    return run(where, "make", "-s", core)


def judge(where, killer):
    if killer.startswith("c "):
        return run(where, "build/spec/c/core_test", killer[2:], timeout=patience)
    return run(where, "scripts/env.sh", "scripts/busted.sh", killer, timeout=patience)


def copy_checkout(to):
    """The sources, and of what is built whatever is not made anew: the objects keep their times."""
    def left_out(folder, names):
        here = pathlib.Path(folder).relative_to(root).as_posix()
        if here == ".":
            return {".git", ".venv", "out"} & set(names)
        if here == "build":
            return set(names) - {"flags", "src", "devices", "moontensor", "spec"}
        return {"asan", "tsan", "core_test_asan", "core_test_tsan"} & set(names) if here == "build/spec/c" else set()

    shutil.copytree(root, to, ignore=left_out, symlinks=True)
    if (root / ".venv").exists():
        (to / ".venv").symlink_to((root / ".venv").resolve())


def plant(mutant, where):
    """Returns what became of it: how it was killed, or an error."""
    file = where / mutant["file"]
    text = file.read_text()
    if text.count(mutant["old"]) != 1:
        return None, f"its text occurs {text.count(mutant['old'])} times in {mutant['file']}"
    file.write_text(text.replace(mutant["old"], mutant["new"]))
    status, output = build(where, mutant["killer"])
    if status != 0 or "warning:" in output:
        return None, "it does not compile, or not without a warning:\n" + output
    status, output = judge(where, mutant["killer"])
    if status is None:
        return f"{mutant['killer']}, by hanging", None
    if status < 0:
        return f"{mutant['killer']}, by signal {-status}", None
    if status == 0:
        return None, f"it survives {mutant['killer']}"
    counts = re.findall(r"^\d+ passed, \d+ failed", output, re.M)
    return mutant["killer"] + (f": {counts[-1]}" if counts else f", by status {status}"), None


def main():
    mutants = tomllib.loads((root / "spec/mutants/mutants.toml").read_text())["mutant"]
    chosen = [m for m in mutants if all(word in m["name"] for word in sys.argv[1:])]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        base = pathlib.Path(scratch) / "base"
        copy_checkout(base)
        killers = sorted({m["killer"] for m in chosen})
        for killer in killers:
            status, output = build(base, killer)
            if status == 0:
                status, output = judge(base, killer)
            if status != 0:
                print(f"FAIL {killer} without any fault\n{output}")
                failed += 1

        def attempt(numbered):
            number, mutant = numbered
            where = pathlib.Path(scratch) / str(number)
            shutil.copytree(base, where, symlinks=True)
            try:
                return mutant, *plant(mutant, where)
            finally:
                shutil.rmtree(where)

        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            for mutant, killed, error in pool.map(attempt, enumerate(chosen)) if not failed else ():
                print(f"ok   mutant {mutant['name']} (killed by {killed})" if killed else f"FAIL mutant {mutant['name']}: {error}",
                      flush=True)
                passed, failed = passed + bool(killed), failed + (not killed)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
