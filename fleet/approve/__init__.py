"""Approved is applied: what a preview showed is recorded in git, and a sync does that and nothing more.

state      what git wants of an object, as one text
record     what was approved, and its file; pure
change     two sides, or a plan for clusters → what is recorded; pure
policy     the rule that approval is required, which must not change unseen either
applied    that rule in what clusters have
ledger     the branch with the records, the edge to git
recording  preview → record
judge      which records stand for which commit of a branch, and what they allow; pure
gate       what a sync asks before it writes
"""
