"""A client for S3 and stores that speak it, on the standard library alone: the only code that talks to such stores.

`signature` is pure; `address` says which URL an object has; `transport` sends one request until it is answered;
`bucket` has what is done with objects. Memory does not grow with the size of an object: what is sent and read comes in
parts.
"""
