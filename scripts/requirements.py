"""Does this interpreter have what requirements files pin? Lists what it lacks; exits 1 then.

    python scripts/requirements.py [--import] requirements.txt requirements-test.txt

With --import every package is imported too, which finds half an installation.
"""

import importlib
import importlib.metadata as metadata
import sys

MODULES = {"apache-tvm-ffi": "tvm_ffi", "scikit-learn": "sklearn"}


def problem(name, wanted, do_import):
    try:
        found = metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        return f"{name} is missing"
    if found != wanted:
        return f"{name} is {found}, not {wanted}"
    if do_import:
        module = MODULES.get(name, name)
        try:
            importlib.import_module(module)
        except Exception as error:
            return f"import {module} fails: {error}"
    return None


def main(arguments):
    do_import = "--import" in arguments
    problems = []
    for path in arguments:
        if path.startswith("--"):
            continue
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, pinned, wanted = line.strip().partition("==")
                if pinned and not name.startswith("#"):
                    problems.append(problem(name, wanted, do_import))
    problems = [text for text in problems if text]
    for text in problems:
        print(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
