"""`shardlift.replication`: prove from a jaxpr which outputs are equal on all devices.

The package has an underscore because the public function has its plain name.
"""

from shardlift._replication.outcome import NotProven, Proven, Replication
from shardlift._replication.proof import replication

__all__ = ["NotProven", "Proven", "Replication", "replication"]
