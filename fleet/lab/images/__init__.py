"""Container images without a registry: made from Debian packages, from this project, or brought by a user."""
