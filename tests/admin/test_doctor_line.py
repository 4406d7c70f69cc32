"""The doctor on the line: proxies, TLS and identity, each fault named with its cure. Only loopback is used."""

import base64
import ssl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cohortsum.coordinator.admission import load_consortium
from cohortsum.crypto.certificates import TlsCredentials, certify
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.doctor_line import LINE_CHECKS, LineSetup, check_line
from cohortsum.node.files import read_key
from cohortsum.node.findings import Finding, Severity
from cohortsum.node.proxy import Proxy, ignored_variables, proxy_for
from tests.admin.desk import admit, make_consortium, make_site
from tests.admin.servers import (
    DAY,
    ConnectProxy,
    answering,
    grpc_coordinator,
    inspecting_ca,
    server_context,
    serving,
    site_anchors,
)

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
ONLY_1_3, ONLY_1_2, BOTH = (TLS_1_3, TLS_1_3), (TLS_1_2, TLS_1_2), (TLS_1_2, TLS_1_3)
CA = "Example Hospital Web Gateway CA"


@dataclass(frozen=True)
class Town:
    """A consortium with an admitted site and one that is not; servers are run under its keys."""

    home: Path
    consortium: Path
    site: Path

    def credentials(self, age: timedelta = timedelta(0), lifetime: timedelta = 30 * DAY) -> TlsCredentials:
        key = read_key(self.consortium / "identity.key")
        return certify(key, "coordinator", datetime.now(UTC) - age, lifetime)

    def context(
        self, versions: tuple[ssl.TLSVersion, ssl.TLSVersion] = ONLY_1_3, tls: TlsCredentials | None = None
    ) -> ssl.SSLContext:
        anchors = site_anchors(load_consortium(self.consortium).rosters[2])
        return server_context(self.home, tls or self.credentials(), versions, anchors)

    def visit(
        self, port: int, environment: dict[str, str] | None = None, host: str = "127.0.0.1", key: str = "nyu",
        ahead: timedelta = timedelta(0),
    ) -> dict[str, Finding]:  # fmt: skip
        roster = load_consortium(self.consortium).rosters[2]
        setup = LineSetup(
            target=f"{host}:{port}",
            coordinator=roster.coordinator,
            site=key,
            key=read_key(self.home / key / "identity.key"),
            environment=environment or {},
            scratch=self.site,
            now=datetime.now(UTC) + ahead,
        )
        findings = list(check_line(setup))
        assert tuple(finding.name for finding in findings) == LINE_CHECKS
        for finding in findings:
            assert bool(finding.cure) == (finding.status in (Severity.WARNING, Severity.FAILURE)), finding
        assert list(self.site.glob("cohortsum-*")) == [], "no private key is left behind"
        return {finding.name: finding for finding in findings}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    home = tmp_path_factory.mktemp("town")
    consortium, site = make_consortium(home), make_site(home, "nyu")
    make_site(home, "stranger")
    admit(consortium, site)
    return Town(home, consortium, site)


def statuses(found: dict[str, Finding]) -> dict[str, str]:
    """Return what is not all right, by name."""
    return {name: finding.status for name, finding in found.items() if finding.status is not Severity.OK}


def skipped_after(name: str) -> dict[str, str]:
    return dict.fromkeys(LINE_CHECKS[LINE_CHECKS.index(name) + 1 :], "skipped")


@contextmanager
def through(proxy: ConnectProxy, context: ssl.SSLContext) -> Generator[tuple[int, dict[str, str]]]:
    """Yield the port of a coordinator and the environment that leads to it through ``proxy``."""
    with ExitStack() as stack:
        port = stack.enter_context(serving(answering(context)))
        door = stack.enter_context(serving(proxy.handle))
        yield port, {"https_proxy": f"http://127.0.0.1:{door}"}


def test_a_good_coordinator_passes_every_check(town: Town) -> None:
    with serving(answering(town.context())) as port:
        assert statuses(town.visit(port)) == {}


def test_the_products_own_server_passes_every_check(town: Town) -> None:
    held = load_consortium(town.consortium)
    with grpc_coordinator(read_key(town.consortium / "identity.key"), held.rosters[2]) as port:
        found = town.visit(port)
    assert statuses(found) == {}
    assert found["tls 1.2"].sentence == "refused, as it should be"


def test_a_site_that_is_not_admitted_is_told_so(town: Town) -> None:
    with grpc_coordinator(
        read_key(town.consortium / "identity.key"), load_consortium(town.consortium).rosters[2]
    ) as port:
        found = town.visit(port, key="stranger")
    assert statuses(found) == {"admission": "failure"}
    assert "ask the operator whether this site is admitted" in found["admission"].cure


def test_the_tunnel_of_a_proxy_is_followed_to_the_end(town: Town) -> None:
    proxy = ConnectProxy()
    with through(proxy, town.context()) as (port, environment):
        found = town.visit(port, environment)
    assert statuses(found) == {}
    assert found["proxy"].sentence.endswith("(from https_proxy)")
    assert "through the proxy" in found["connection"].sentence
    assert proxy.asked[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n")


def test_a_name_that_only_the_proxy_knows_is_left_to_it(town: Town) -> None:
    """As in a network without outside name resolution: gRPC hands the name on, and so does the doctor."""
    proxy = ConnectProxy(status=502)
    with through(proxy, town.context()) as (port, environment):
        found = town.visit(port, environment, host="hub.invalid")
    assert found["resolution"].status is Severity.OK
    assert "the proxy resolves" in found["resolution"].sentence
    assert proxy.asked[0].startswith(f"CONNECT hub.invalid:{port} ")
    assert "check the address under coordinator" in found["connection"].cure


@pytest.mark.parametrize(
    ("status", "cure"),
    [(403, "allow CONNECT to 127.0.0.1:"), (407, "user and password into https_proxy"), (502, "may reach"),
     (418, "ask IT why the proxy refuses")],
)  # fmt: skip
def test_a_proxy_that_refuses_is_quoted_with_a_cure(town: Town, status: int, cure: str) -> None:
    with through(ConnectProxy(status), town.context()) as (port, environment):
        found = town.visit(port, environment)
    assert statuses(found) == {"connection": "failure"} | skipped_after("connection")
    assert f"answers CONNECT with {status}" in found["connection"].sentence
    assert cure in found["connection"].cure


def test_a_password_reaches_the_proxy_and_no_screen(town: Town) -> None:
    proxy = ConnectProxy()
    with through(proxy, town.context()) as (port, environment):
        secret = environment["https_proxy"].replace("http://", "http://anna:p%40ss@")
        found = town.visit(port, {"https_proxy": secret})
    assert statuses(found) == {}
    sent = base64.b64encode(b"anna:p@ss").decode()
    assert f"Proxy-Authorization: Basic {sent}\r\n" in proxy.asked[0]
    assert not any(
        "p@ss" in finding.sentence + finding.cure or "p%40ss" in finding.sentence
        for finding in found.values()
    )


@pytest.mark.parametrize("versions", [ONLY_1_3, BOTH, ONLY_1_2], ids=["1.3", "both", "1.2"])
def test_a_tls_inspecting_proxy_is_named_by_its_issuer(
    town: Town, versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
) -> None:
    inspector = server_context(town.home, inspecting_ca(CA, "coordinator"), versions)
    with through(ConnectProxy(inspector=inspector), town.context()) as (port, environment):
        found = town.visit(port, environment)
    spoken = {"tls 1.3": "failure"} if versions == ONLY_1_2 else {}
    assert statuses(found) == spoken | {"identity": "failure"} | skipped_after("identity")
    assert f"issued by CN={CA}" in found["identity"].sentence
    assert "TLS-inspecting proxy" in found["identity"].sentence
    assert f"exempt 127.0.0.1:{port} from TLS inspection" in found["identity"].cure


def test_an_inspector_without_a_proxy_setting_is_found_as_well(town: Town) -> None:
    inspector = server_context(town.home, inspecting_ca(CA, "coordinator"), BOTH)
    with serving(answering(inspector)) as port:
        assert f"CN={CA}" in town.visit(port)["identity"].sentence


def test_an_issuer_cannot_write_to_the_terminal(town: Town) -> None:
    inspector = server_context(town.home, inspecting_ca("evil\x1b[2J\nok", "coordinator"), BOTH)
    with serving(answering(inspector)) as port:
        sentence = town.visit(port)["identity"].sentence
    assert sentence.isprintable()
    assert "evil" in sentence


def test_a_coordinator_with_another_key_is_not_taken_for_an_inspector(town: Town, tmp_path: Path) -> None:
    other = make_consortium(tmp_path)
    tls = certify(read_key(other / "identity.key"), "coordinator", datetime.now(UTC), DAY)
    with serving(answering(server_context(town.home, tls, BOTH))) as port:
        found = town.visit(port)
    assert "the roster's key did not certify it" in found["identity"].sentence
    assert "node pin" in found["identity"].cure


def test_a_coordinator_that_takes_tls_1_2_is_a_warning(town: Town) -> None:
    with serving(answering(town.context(BOTH))) as port:
        assert statuses(town.visit(port)) == {"tls 1.2": "warning"}


def test_a_coordinator_that_speaks_tls_1_2_only_is_a_failure(town: Town) -> None:
    with serving(answering(town.context(ONLY_1_2))) as port:
        found = town.visit(port)
    assert statuses(found) == {"tls 1.3": "failure", "admission": "skipped", "tls 1.2": "warning"}
    assert "coordinator run" in found["tls 1.3"].cure


def test_something_that_is_not_tls_is_told_from_a_closed_port(town: Town) -> None:
    with serving(lambda line: line.sendall(b"220 mail ready\r\n")) as port:
        found = town.visit(port)
    assert statuses(found) == {"tls 1.3": "failure"} | skipped_after("tls 1.3")
    closed = town.visit(port)
    assert statuses(closed) == {"connection": "failure"} | skipped_after("connection")
    assert "export https_proxy=" in closed["connection"].cure


def test_a_proxy_that_is_none_is_named(town: Town) -> None:
    with serving(lambda line: line.sendall(b"220 mail ready\r\n\r\n")) as port:
        found = town.visit(1, {"https_proxy": f"http://127.0.0.1:{port}"})
    assert "does not speak HTTP CONNECT" in found["connection"].sentence


def test_a_name_that_does_not_resolve_is_named(town: Town) -> None:
    found = town.visit(443, host="hub.invalid")
    assert statuses(found) == {"resolution": "failure"} | skipped_after("resolution")
    assert "hub.invalid, does not resolve" in found["resolution"].sentence


@pytest.mark.parametrize(
    ("age", "lifetime", "expected"),
    [
        (0, 30, {}),
        (22, 30, {}),
        (24, 30, {"certificate": "warning"}),
        (340, 365, {"certificate": "warning"}),
        (330, 365, {}),
        (31, 30, {"admission": "failure", "clock": "warning", "certificate": "failure"}),
    ],
)
def test_what_is_left_of_the_certificate_is_judged(
    town: Town, age: int, lifetime: int, expected: dict[str, str]
) -> None:
    tls = town.credentials(age * DAY, lifetime * DAY)
    with serving(answering(town.context(tls=tls))) as port:
        assert statuses(town.visit(port)) == expected


def test_a_clock_that_is_behind_is_named(town: Town) -> None:
    with serving(answering(town.context())) as port:
        found = town.visit(port, ahead=-2 * DAY)
    assert found["clock"].status is Severity.FAILURE
    assert "before the coordinator's certificate begins" in found["clock"].sentence


@pytest.mark.parametrize(
    ("environment", "host", "expected"),
    [
        ({}, "hub", None),
        ({"grpc_proxy": "http://a:1", "https_proxy": "http://b:2"}, "hub", ("a", 1)),
        ({"https_proxy": "http://b:2", "http_proxy": "http://c:3"}, "hub", ("b", 2)),
        ({"http_proxy": "http://c"}, "hub", ("c", 80)),
        ({"HTTPS_PROXY": "http://b:2"}, "hub", None),
        ({"https_proxy": "http://b:2", "no_proxy": "x.org, .Example.org"}, "hub.example.org", None),
        ({"https_proxy": "http://b:2", "no_proxy": "example.org"}, "hub.example.com", ("b", 2)),
        ({"https_proxy": "http://b:2", "no_proxy": "10.0.0.0/8"}, "10.1.2.3", None),
        ({"https_proxy": "http://b:2", "no_proxy": "10.0.0.0/8"}, "11.1.2.3", ("b", 2)),
        ({"https_proxy": "http://b:2", "no_grpc_proxy": "x", "no_proxy": "hub"}, "hub", ("b", 2)),
    ],
)
def test_the_proxy_is_chosen_as_grpc_chooses_it(
    environment: dict[str, str], host: str, expected: tuple[str, int] | None
) -> None:
    proxy = proxy_for(host, environment)
    assert (None if proxy is None else (proxy.host, proxy.port)) == expected


@pytest.mark.parametrize("value", ["https://b:2", "b:2", "socks5://b:2", "http://", "http://b:port"])
def test_a_proxy_that_grpc_cannot_use_is_refused(town: Town, value: str) -> None:
    with pytest.raises(ConfigurationError, match="https_proxy: expected http://host:port"):
        proxy_for("hub", {"https_proxy": value})
    found = town.visit(1, {"https_proxy": value})
    assert statuses(found) == {"proxy": "failure"} | skipped_after("proxy")


def test_a_proxy_in_capitals_is_a_warning_because_grpc_does_not_read_it(town: Town) -> None:
    environment = {"HTTPS_PROXY": "http://b:2"}
    assert ignored_variables(environment) == ("HTTPS_PROXY",)
    with serving(answering(town.context())) as port:
        found = town.visit(port, environment)
    assert statuses(found) == {"proxy": "warning"}
    assert "export https_proxy" in found["proxy"].cure


def test_credentials_of_a_proxy_are_in_no_repr() -> None:
    assert "secret" not in repr(Proxy("b", 2, "https_proxy", "anna:secret"))
