"""Proof: what can be said of a program without running it, and of two programs by running both."""

from __future__ import annotations

from shardlift.proof.outcome import NotProven, Proven, Replication
from shardlift.proof.prove import replication

__all__ = ["NotProven", "Proven", "Replication", "replication"]
