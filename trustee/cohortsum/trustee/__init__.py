"""The key holder of two-key mode, a trust domain of its own: it draws a key per attempt and decrypts one masked sum under it."""
