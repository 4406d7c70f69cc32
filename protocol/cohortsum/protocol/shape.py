"""How many fields a message has, counted before any object is made of it.

A message of 16 MiB may consist of eight million empty parts of two bytes each, and a parser makes an object of a hundred bytes or more
of every one. So the bytes are walked first, along the types that the parser would use: every field counts one, of packed numbers every
byte. The walk makes no objects and ends at the first field too many. What it lets through, a parser holds in a small multiple of its
bytes and `MAX_FIELDS` objects.

With `MAX_SITES` sites a payload has 10 000 fields at most, and a request 1000 attachments. The greatest replies are lists without
such a bound: a site's trail has six fields for every masked input of its life, a transcript 30 000.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError

from cohortsum.crypto.errors import RemoteProtocolError

MAX_FIELDS = 20_000
"""Of a payload."""
MAX_REQUEST_FIELDS = 4096
MAX_REPLY_FIELDS = 250_000
MAX_DEPTH = 8
"""Of messages in messages."""

VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
NOT_A_MESSAGE = "malformed message: the bytes are not a message of this kind"

R = TypeVar("R")


class Shape:
    """What of a message type matters here: which of its fields are messages, and which are packed numbers."""

    def __init__(self, inner: Mapping[int, Descriptor], packed: frozenset[int]) -> None:
        self.inner, self.packed = inner, packed


_SHAPES: dict[str, Shape] = {}


def check_shape(kind: Descriptor, data: bytes, most: int = MAX_FIELDS) -> None:
    """Raise RemoteProtocolError (M2) for bytes that are no message, or one with more than ``most`` fields in all.

    Args:
        kind: the type that the bytes will be parsed as.
        data: the bytes.
        most: how many fields are read.
    """
    open_messages = [(kind, 0, len(data), 1)]
    left = most
    while open_messages:
        inside, at, end, depth = open_messages.pop()
        shape = _shape(inside)
        while at < end:
            left -= 1
            tag, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at, end)
            number, wire = tag >> 3, tag & 7
            if wire == LENGTH:
                size, at = (data[at], at + 1) if at < end and data[at] < 128 else _varint(data, at, end)
                if size > end - at:
                    raise _malformed()
                within = shape.inner.get(number)
                if within is not None:
                    if depth == MAX_DEPTH:
                        raise _malformed(f"malformed message: nested deeper than {MAX_DEPTH}")
                    open_messages.append((within, at, at + size, depth + 1))
                elif number in shape.packed:
                    left -= size
                at += size
            elif wire == VARINT:
                _, at = _varint(data, at, end)
            elif wire in (EIGHT, FOUR):
                at += 8 if wire == EIGHT else 4
            else:
                raise _malformed()
            if at > end:
                raise _malformed()
            if left < 0:
                raise _malformed(f"malformed message: more than {most} fields")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number at a place and the place behind it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _malformed()


def _shape(kind: Descriptor) -> Shape:
    held = _SHAPES.get(kind.full_name)
    if held is None:
        texts = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
        inner = {one.number: one.message_type for one in kind.fields if one.message_type is not None}
        packed = {one.number for one in kind.fields if one.type not in texts and one.number not in inner}
        held = _SHAPES[kind.full_name] = Shape(inner, frozenset(packed))
    return held


def _malformed(sentence: str = NOT_A_MESSAGE) -> RemoteProtocolError:
    return RemoteProtocolError("M2", sentence)


class CheckedChannel:
    """A channel whose replies are counted before they are parsed; a reply that does not pass, or does not parse, comes as None.

    Args:
        channel: any channel of gRPC.
        service: what is called on it.
    """

    def __init__(self, channel: Any, service: ServiceDescriptor) -> None:
        self._channel, self._service = channel, service

    def unary_unary(self, path: str, **options: Any) -> Any:
        """As the channel's."""
        return self._channel.unary_unary(path, **self._checked(path, options))

    def unary_stream(self, path: str, **options: Any) -> Any:
        """As the channel's."""
        return self._channel.unary_stream(path, **self._checked(path, options))

    def stream_unary(self, path: str, **options: Any) -> Any:
        """As the channel's."""
        return self._channel.stream_unary(path, **self._checked(path, options))

    def stream_stream(self, path: str, **options: Any) -> Any:
        """As the channel's."""
        return self._channel.stream_stream(path, **self._checked(path, options))

    def _checked(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        kind = self._service.methods_by_name[path.rpartition("/")[2]].output_type
        return {**options, "response_deserializer": checked(options["response_deserializer"], kind)}


def checked(parse: Callable[[bytes], R], kind: Descriptor) -> Callable[[bytes], R | None]:
    """Return a parser that counts first, and returns None for what is no message of this kind or has too many fields."""

    def read(data: bytes) -> R | None:
        try:
            check_shape(kind, data, MAX_REPLY_FIELDS)
            return parse(data)
        except (RemoteProtocolError, DecodeError):
            return None

    return read
