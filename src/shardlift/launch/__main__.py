"""``python -m shardlift.launch JSON``: one process of a job. The launcher calls this."""

import sys

from shardlift.launch.child import main

if __name__ == "__main__":
    main(sys.argv[1])
