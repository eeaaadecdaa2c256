"""Is every Python symbol that a module leaves undefined in the stable ABI of CPython 3.11?

    python scripts/check_symbols.py build/moontensor/bridge.so

CPython keeps the list itself, in test/test_stable_abi_ctypes.py. Debian splits `test` from its interpreters; where it is
missing, scripts/stable_abi_3_11.txt, made from the same file of CPython 3.11 by --list, stands in for it.
"""

import ast
import importlib.util
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STORED = os.path.join(HERE, "stable_abi_3_11.txt")
# Exported by every CPython since 3.9 and used through declarations of our own; part of the stable ABI from 3.12 on.
VECTORCALL = {"PyObject_Vectorcall", "PyObject_VectorcallMethod", "PyVectorcall_Call", "PyVectorcall_NARGS",
              "PyVectorcall_Function"}


def names_of(path):
    with open(path, encoding="utf-8") as file:
        for node in ast.walk(ast.parse(file.read())):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SYMBOL_NAMES":
                return set(ast.literal_eval(node.value))
    raise SystemExit(f"{path}: no SYMBOL_NAMES")


def stable_abi():
    """The names, and where they were read."""
    if sys.version_info[:2] == (3, 11):  # a later list has later names
        spec = importlib.util.find_spec("test")
        for folder in spec.submodule_search_locations if spec else []:
            path = os.path.join(folder, "test_stable_abi_ctypes.py")
            if os.path.exists(path):
                return names_of(path), path
    with open(STORED, encoding="utf-8") as file:
        return {line.strip() for line in file if line.strip()}, STORED


def undefined(module):
    output = subprocess.run(["nm", "-D", "--undefined-only", module], check=True, capture_output=True, text=True)
    return {line.split()[-1].split("@")[0] for line in output.stdout.splitlines()}


def main(module):
    if module == "--list":
        print("\n".join(sorted(stable_abi()[0])))
        return 0
    names, source = stable_abi()
    used = {name for name in undefined(module) if re.match(r"_?Py", name)}
    if not used:
        print(f"{module} uses no Python symbol at all")
        return 1
    bad = sorted(used - names - VECTORCALL)
    for name in bad:
        print(f"{module}: {name} is not in {source}")
    if not bad:
        print(f"{len(used)} symbols, all in {source}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
