"""Test vectors with their origin; see README.md."""
