"""``python -m shardlift``."""

from shardlift.cli import main

if __name__ == "__main__":
    main(prog_name="shardlift")
