"""``python -m shardlift``."""

import sys

if __name__ == "__main__":
    # Python put the current folder in front: a `json.py` or a `jax.py` in it would be imported,
    # and so executed, in the place of the real one. What `run` starts gets its own folder there.
    if not sys.flags.safe_path:
        sys.path[0] = __file__.rpartition("shardlift")[0].rstrip("/\\") or "/"

    from shardlift.cli import main

    main(prog_name="shardlift")
