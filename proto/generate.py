"""Write, or check, the protobuf and gRPC code in ``proto/generated``.

``python proto/generate.py`` writes it; ``--check`` generates into a temporary folder, compares names and bytes,
names what is stale and exits 1. The generator's version is pinned in the dev extra, because generated code refuses
an older runtime.
"""

import argparse
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

PROTO = Path(__file__).resolve().parent
GENERATED = PROTO / "generated"
PACKAGE_DOCS = {
    "cohortsum/wire": "Generated protobuf and gRPC code: nothing here is written by hand.",
    "cohortsum/wire/v1": "Version 1 of the wire format.",
}


def generate(out: Path) -> None:
    """Write modules and type stubs for every .proto file below ``out``."""
    import grpc_tools
    from grpc_tools import protoc

    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("cohortsum/**/*.proto"))
    scripts = Path(sysconfig.get_path("scripts"))  # plugins are found without an activated environment
    options = [
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
    ]
    include = Path(next(iter(grpc_tools.__path__))) / "_proto"
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{include}", *options, *sources]) != 0:
        raise SystemExit("protoc failed; its message is above")
    for package, text in PACKAGE_DOCS.items():
        (out / package / "__init__.py").write_text(f'"""{text}"""\n', encoding="utf-8")
    (out / "cohortsum/wire/py.typed").write_text("", encoding="utf-8")


def contents(root: Path) -> dict[str, bytes]:
    """Return every generated file below ``root`` by its relative name."""
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def main() -> int:
    """Generate or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        generate(out)
        fresh, held = contents(out), contents(GENERATED)
        if check:
            stale = sorted(name for name in fresh.keys() | held.keys() if fresh.get(name) != held.get(name))
            if stale:
                print("stale generated code; run `python proto/generate.py`:", *stale, sep="\n  ")
                return 1
            return 0
        if GENERATED.exists():
            shutil.rmtree(GENERATED)
        shutil.copytree(out, GENERATED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
