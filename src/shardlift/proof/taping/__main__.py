"""``python -m shardlift.proof.taping``: one of two programs; see `child`."""

import sys

from shardlift.proof.taping.child import main

main(sys.argv[1])
