"""Typed results to tables and figures. Pure: no data access, no sockets."""
