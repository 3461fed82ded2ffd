"""Only what was approved is applied: a preview is recorded in git, and a sync does that and nothing more.

record     what was approved, as a file; pure
branch     the branch of records
recording  a preview as a record
policy     the rule that approval is required, and who set it
judge      which records stand for a commit of a branch, and what they allow; pure
gate       asked by a sync before it writes
"""
