"""Attacks on what a study would release, tried on invented people before anybody releases anything."""
