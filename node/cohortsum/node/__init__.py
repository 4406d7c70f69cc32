"""The site daemon: configuration, tables, policy, durable log and the outbound gRPC edge."""
