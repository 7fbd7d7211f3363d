"""``python -m shardlift.proof.taping``: one of two programs; see `child`."""

import sys

from shardlift.proof.taping.child import main

if __name__ == "__main__":
    main(sys.argv[1])
