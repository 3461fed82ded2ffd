"""Kubernetes objects as plain data: identity, shape, redaction, normal form, comparison. Pure and light."""
