"""The transport to an API server: address, credentials, reads, writes, watches, errors."""
