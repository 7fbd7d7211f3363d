"""`shardlift migrate`: from the sites and idioms of a file to the text that replaces them."""
