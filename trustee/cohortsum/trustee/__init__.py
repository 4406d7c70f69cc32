"""The key holder of two-key mode, a separate trust domain. Two-key mode is not in this version."""
