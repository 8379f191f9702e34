"""Judging what was measured: pure."""
