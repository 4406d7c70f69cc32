"""Stored state and transcripts of every version, kept as that version wrote them; see docs/testing.md."""
