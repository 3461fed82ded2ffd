"""Conversations with members: where one is, how a request ends in time, and what is taken of an answer.

A member runs an image of its tenant's choice, so it may say anything, and for ever. Every engine's client bounds what
it takes, tells silence from a refusal, and asks before each write whether this process may still lead. `http` does so
for engines with an interface over HTTP; one with a protocol of its own on a raw stream has the same errors
(`endpoint`), the same bounds (`bounds`) and the same question before bytes go out.
"""
