"""The exact files of engines that come as jars, locked by checksum, from any repository that has them."""
