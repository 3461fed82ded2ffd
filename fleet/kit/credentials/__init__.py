"""Certificates, passwords and the Secrets of an app: made once, renewed, never lost by accident."""
