#!/bin/sh
# Installs cohortsum from this folder into a new virtual environment. Needs no network and no root.
#
#   sh install.sh TARGET [PYTHON]
#
# TARGET   folder of the new environment; must not exist yet
# PYTHON   interpreter of the version named in platform.txt; found by itself if it is on the PATH
#
# First every file is compared with SHA256SUMS, then pip compares every wheel with requirements.txt. Against a folder that was
# swapped as a whole compare the digest of the archive with the one you were told on another way.
set -eu
umask 022
unset PYTHONPATH PYTHONHOME || true

fail() {
    echo "install.sh: $1" >&2
    exit 2
}

fact() {
    sed -n "s/^$1 //p" platform.txt
}

case $# in
    1 | 2) ;;
    *) fail "usage: sh install.sh TARGET [PYTHON]" ;;
esac
case $1 in
    /*) target=$1 ;;
    *) target=$(pwd)/$1 ;;
esac
case ${2-} in
    */*) python=$(cd "$(dirname "$2")" && pwd)/$(basename "$2") ;;
    *) python=${2-} ;;
esac
[ ! -e "$target" ] || fail "$target exists already; name a new folder, nothing is overwritten"
cd "$(dirname "$0")"

# 1. The files are those that were packed.
[ -f SHA256SUMS ] || fail "SHA256SUMS is missing; unpack the archive again"
if command -v sha256sum >/dev/null 2>&1; then
    check="sha256sum -c"
elif command -v shasum >/dev/null 2>&1; then
    check="shasum -a 256 -c"
else
    fail "neither sha256sum nor shasum is here; install one of them"
fi
if ! report=$($check SHA256SUMS 2>&1); then
    echo "$report" | grep -v ': OK$' >&2 || true
    fail "files differ from SHA256SUMS; do not use this copy, get the archive again"
fi

# 2. This machine is one that the wheels were made for.
wanted=$(fact python)
if [ -z "$python" ]; then
    for name in "python$wanted" python3 python; do
        if command -v "$name" >/dev/null 2>&1; then
            python=$name
            break
        fi
    done
fi
[ -n "$python" ] || fail "no Python here; install Python $wanted"
found=$("$python" -I -c 'import sys; print("%s %d.%d" % (sys.implementation.name, sys.version_info[0], sys.version_info[1]))') ||
    fail "$python does not run; name another interpreter: sh install.sh TARGET PYTHON"
[ "$found" = "cpython $wanted" ] ||
    fail "$python is $found, this bundle is for cpython $wanted; name another interpreter or get another bundle"
[ "$(uname -s)" = "$(fact system)" ] ||
    fail "this machine runs $(uname -s), this bundle is for $(fact system); get another bundle"
[ "$(uname -m)" = "$(fact machine)" ] ||
    fail "this machine is $(uname -m), this bundle is for $(fact machine); get another bundle"
oldest=$(fact glibc)
if [ -n "$oldest" ]; then
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
    case $libc in
        "glibc 2."*) ;;
        *) fail "this system has no glibc 2 (musl, as in Alpine?); this bundle needs glibc $oldest or newer" ;;
    esac
    minor=${libc#glibc 2.}
    [ "${minor%%.*}" -ge "${oldest#2.}" ] ||
        fail "this system has $libc, this bundle needs glibc $oldest or newer; use a newer system or build a bundle on it"
fi

# 3. Install; what is half made goes away again.
trap 'rm -rf "$target"' EXIT
trap 'exit 130' INT TERM
"$python" -I -m venv "$target" ||
    fail "no virtual environment could be made; Debian and Ubuntu have it in the package python$wanted-venv"
PIP_CONFIG_FILE=/dev/null "$target/bin/python" -I -m pip --isolated --disable-pip-version-check --no-cache-dir --quiet install \
    --no-index --find-links wheels --only-binary :all: --require-hashes -r requirements.txt ||
    fail "pip refused or failed; its message is above"
version=$("$target/bin/cohortsum" --version) || fail "what was installed does not run; its message is above"
trap - EXIT

echo "$version is installed in $target"
echo "Next: $target/bin/cohortsum demo     (a whole consortium on synthetic data, on this machine alone)"
echo "Then: docs/admin-guide.md; services: systemd/README.md"
