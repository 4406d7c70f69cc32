"""Whatever daemon the command runs, gRPC hears which cipher suites are left before it is imported: TLS 1.3 alone."""

import subprocess
import sys

CODE = """
import sys
import cohortsum.cli
import os
assert "grpc" not in sys.modules, "gRPC reads its settings once, when it is imported"
print(os.environ["GRPC_SSL_CIPHER_SUITES"])
import cohortsum.cli.main
assert "grpc" in sys.modules, "if nothing imports it any more, this test can go"
"""


def test_cipher_suites_are_set_before_grpc_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ECDHE-RSA-AES256-GCM-SHA384\n"
