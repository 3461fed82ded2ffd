"""Approval of changes: only what was approved is applied. A preview is recorded in git, and a sync does that and no
more.

record     what was approved, as a file; pure
branch     the branch of records
recording  a preview as a record
policy     the rule that approval is required, and who set it
judge      which records stand for a commit of a branch, and what they allow; pure
gate       the check that a sync makes before it writes
"""
