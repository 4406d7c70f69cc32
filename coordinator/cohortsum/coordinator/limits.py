"""How much one caller and one address may ask for at once, and in a while; the numbers behind every refusal.

**An honest site never meets these limits.** What it does follows from the protocol:

- *One attempt is 14 calls*: seven packets fetched, six messages and one upload sent. A message leaves once per tick at most, so
  with the default tick of 100 ms an attempt lasts 0.6 s or longer: 23 calls a second for one study, whatever the network.
  `calls_per_s` is four such fits side by side at full pace, and `calls_burst` 140 attempts at any pace.
- *Long polls*: one for the list of studies and one per study under way, twice as many while a line that broke is not noticed yet,
  and two for a person at the site's machine: ``2 * (1 + studies) + 2`` calls at once. Uploads: one per study, and one more.
- *Bytes* go both ways. An iteration of 10^5 numbers sends 0.8 MB and brings the words of all sites, 32 MiB at most (a plan with
  more is refused). `bytes_burst` is a fit of 30 such iterations, and `bytes_per_s` a 134 Mbit/s line that is never idle.
- *200 sites behind one address* (a proxy), each with one study at full pace: 200 * 23 = 4600 calls a second; a gigabit line,
  full both ways, is 238 MiB/s.
- *Connections*: two per identity while a channel is renewed, of 200 sites and 56 people.
- *Disk*: an upload for every study under way, and what replaces it, of 2 * 10^7 numbers each.

Calls are paid when they are taken. Bytes are paid when they have come or gone, for nobody knows them before: whoever is in debt is
refused until the debt is gone. So one caller can cost the coordinator no more than the burst and one message beyond it.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from cohortsum.protocol.limits import KIB, MIB, Option, answering_options

Count = Annotated[int, Field(ge=1, le=2**53)]
Rate = Annotated[float, Field(gt=0, le=2**53, allow_inf_nan=False)]


class Limits(BaseModel):
    """Limits of one coordinator, the key ``limits`` of ``coordinator.yaml``.

    Attributes:
        studies: studies under way at once; a further one is refused.
        calls_per_s: calls of one identity, in the long run.
        calls_burst: calls of one identity, at once after a rest.
        bytes_per_s: bytes of one identity, both ways, in the long run.
        bytes_burst: bytes of one identity, at once after a rest.
        address_calls_per_s: as `calls_per_s`, of one address (of IPv6, one /64 network).
        address_calls_burst: as `calls_burst`, of one address.
        address_bytes_per_s: as `bytes_per_s`, of one address.
        address_bytes_burst: as `bytes_burst`, of one address.
        spool_bytes: uploads of one site on disk.
        connections: open connections, of strangers too until their handshake fails.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    studies: Count = 30
    calls_per_s: Rate = 100
    calls_burst: Count = 2000
    bytes_per_s: Rate = 16 * MIB
    bytes_burst: Count = 1024 * MIB
    address_calls_per_s: Rate = 5000
    address_calls_burst: Count = 100_000
    address_bytes_per_s: Rate = 256 * MIB
    address_bytes_burst: Count = 16 * 1024 * MIB
    spool_bytes: Count = 10 * 1024 * MIB
    connections: Count = 512

    @property
    def calls_at_once(self) -> int:
        """Calls of one identity that are open at the same time, long polls included."""
        return 2 * (1 + self.studies) + 2

    @property
    def uploads_at_once(self) -> int:
        """Of these, uploads."""
        return self.studies + 1


AS_BUILT = Limits()
"""The defaults."""

COSTLY_AT_ONCE = 2
"""Calls of one identity that may hold a large message or a thread at the same time; further ones wait."""
COSTLY_CALLS = 10
"""How many calls a question costs that makes the coordinator read or compute much."""
BODY_S = 60.0
"""A request of one message that is not there by then is given up; callers give up after as long."""
IDLE_S = 30.0
"""An upload of which nothing has come for so long is given up, so that the next one finds its place free."""
HOLD_S = 0.5
"""A refusal waits so long, so that whoever calls again at once costs little."""
HELD = 64
"""Refusals of one caller that wait at the same time; further ones are refused at once."""
ADDRESSES = 4096
"""Addresses that are remembered; the one that was quiet for longest is forgotten."""
WINDOW_BYTES = 64 * KIB
"""Of a request, before anybody reads it; when its message is read, there is room for the whole of it."""

HOUR_MS = 3_600_000


def server_options(limits: Limits) -> tuple[Option, ...]:
    """Return the options of the server: sizes of messages, and what connections may do.

    One connection holds no more calls than one identity may have open and waiting for a refusal; further ones wait at the caller.
    A connection is closed after six hours, with time for the longest upload; one whose other end does not answer a ping, after 80 s,
    and one without a call after ten minutes. Pings of callers more often than every 30 s close it too.
    """
    return (
        *answering_options(),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", limits.calls_at_once + HELD),
        ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
        (
            "grpc.http2.bdp_probe",
            0,
        ),  # or a fast line gets windows of megabytes, for calls that nobody reads too
        ("grpc.server_handshake_timeout_ms", 20_000),
        ("grpc.max_connection_age_ms", 6 * HOUR_MS),
        ("grpc.max_connection_age_grace_ms", 6 * HOUR_MS),
        ("grpc.max_connection_idle_ms", 600_000),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 30_000),
        ("grpc.http2.max_ping_strikes", 2),
        ("grpc.enable_channelz", 0),
        ("grpc.so_reuseport", 0),
    )
