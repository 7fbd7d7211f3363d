"""`shardlift verify`: run two programs and compare what their mapped functions computed."""
