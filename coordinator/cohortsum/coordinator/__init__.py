"""The consortium service: store, rounds and the gRPC server edge."""
