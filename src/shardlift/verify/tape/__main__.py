"""``python -m shardlift.verify.tape``: one of two programs; see `child`."""

import sys

from shardlift.verify.tape.child import main

if __name__ == "__main__":
    main(sys.argv[1])
