"""From where somebody calls: the address behind a connection, and the operator's list of networks that may.

gRPC shows the address of a connection's other end once the TLS handshake is done and the head of a request has come, not before. So
the list is asked then, before the body of a request is read: it keeps holders of a stolen key out. Strangers are kept out by TLS, and
their packets by a firewall in front. Behind a reverse proxy the address is the proxy's.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import unquote

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def parse_network(text: str) -> Network:
    """Return the network behind ``10.0.0.0/8`` or one address; raises ValueError with the cure."""
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(
            "expected a network such as 192.0.2.0/24 or 2001:db8::/32, with no bit set beyond its length, or one address"
        ) from None


def peer_address(peer: str) -> Address | None:
    """Return the address in gRPC's name of a peer (``ipv4:192.0.2.1:50000``, ``ipv6:[2001:db8::1]:50000``), or None.

    An IPv4 address that comes as an IPv6 one (``::ffff:192.0.2.1``) is the IPv4 address.
    """
    kind, _, rest = unquote(peer).partition(":")
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    if kind not in ("ipv4", "ipv6"):
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_allowed(address: Address | None, allow: Sequence[Network]) -> bool:
    """Return whether a caller may call from an address; an empty list allows all, and no list an unknown one."""
    if not allow:
        return True
    return address is not None and any(address in network for network in allow)


def metered(address: Address | None) -> str:
    """Return under what an address is counted: itself, or of IPv6 its /64 network, which one machine can fill alone."""
    if address is None:
        return "unknown"
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)
