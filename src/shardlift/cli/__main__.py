"""``python -m shardlift.cli``."""

from shardlift.cli import main

if __name__ == "__main__":
    main()
