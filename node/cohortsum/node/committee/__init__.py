"""The committee at a node: a worker process that computes on shares, and its way to the other members."""
