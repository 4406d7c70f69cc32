"""A whole consortium on one machine: throw-away keys, one process per site, real gRPC and TLS on loopback."""
