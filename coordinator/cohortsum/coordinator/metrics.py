"""What monitoring may count at the coordinator: studies, sites, attempts, refusals, the age of its certificate.

Nothing here depends on data: sites are counted, never people, and no label holds more than ids of studies and sites. Values
are read from the hub when they are asked for; whoever scrapes can learn when sites are present, so the address stays inside.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cohortsum.coordinator.hub import Hub
from cohortsum.crypto.errors import CohortsumError, ConfigurationError, LimitError

PREFIX = "cohortsum_coordinator"


class Tally:
    """Calls that were refused, by call and class of error, and for a limit by call and limit; shared with the edge.

    Calls, classes and limits are those of the program: nothing that a caller sends becomes a label.
    """

    def __init__(self) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()
        self.limited: Counter[tuple[str, str]] = Counter()

    def note(self, call: str, error: CohortsumError) -> None:
        """Count a refusal."""
        self.refused[call, type(error).__name__] += 1
        if isinstance(error, LimitError):
            self.limited[call, error.limit] += 1


class HubCollector(Collector):
    """Reads a hub whenever it is scraped.

    Args:
        hub: the studies.
        tally: what the edge refused.
    """

    def __init__(self, hub: Hub, tally: Tally) -> None:
        self._hub, self._tally = hub, tally

    def collect(self) -> Iterable[Metric]:
        """Yield every metric."""
        yield from self._studies()
        yield from self._sites()
        refused = CounterMetricFamily(
            f"{PREFIX}_refused_calls", "Calls that were refused.", labels=("call", "error")
        )
        for (call, error), number in sorted(self._tally.refused.items()):
            refused.add_metric((call, error), number)
        yield refused
        limited = CounterMetricFamily(
            f"{PREFIX}_limited_calls", "Calls that were refused for a limit.", labels=("call", "limit")
        )
        for (call, limit), number in sorted(self._tally.limited.items()):
            limited.add_metric((call, limit), number)
        yield limited

    def _studies(self) -> Iterator[Metric]:
        entries = self._hub.entries()
        studies = GaugeMetricFamily(f"{PREFIX}_studies", "Studies in the store.", labels=("state",))
        for state, number in sorted(Counter(entry.state for entry in entries).items()):
            studies.add_metric((state,), number)
        yield studies
        attempts = GaugeMetricFamily(f"{PREFIX}_attempts", "Attempts at rounds.", labels=("state",))
        for state, number in sorted(self._hub.attempts().items()):
            attempts.add_metric((state,), number)
        yield attempts

    def _sites(self) -> Iterator[Metric]:
        invited = GaugeMetricFamily(
            f"{PREFIX}_sites_invited", "Sites of a study's roster.", labels=("study",)
        )
        approved = GaugeMetricFamily(f"{PREFIX}_sites_approved", "Sites that approved.", labels=("study",))
        present = GaugeMetricFamily(f"{PREFIX}_sites_present", "Sites that are present.", labels=("study",))
        for runner in self._hub.runners:
            if runner.over:
                continue
            who = runner.enrolment
            label = (f"{runner.plan.study.study}@{runner.plan.study.version}",)
            invited.add_metric(label, len(who.names))
            approved.add_metric(label, sum(who.answers.values()))
            present.add_metric(label, sum(map(who.presence.is_present, who.names)))
        yield from (invited, approved, present)


@contextmanager
def served_metrics(address: str | None, hub: Hub, tally: Tally) -> Generator[None]:
    """Serve ``/metrics`` over HTTP while inside, if there is an address; raises ConfigurationError if it is taken."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(HubCollector(hub, tally))
    try:
        server, thread = start_http_server(int(port), host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"coordinator.yaml: metrics: {address} cannot be listened on ({error.strerror}); name another address"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
