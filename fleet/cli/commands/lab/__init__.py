"""Commands of `fleet lab`."""
