"""What a pull request would change: two revisions against each other, and against the clusters where asked.

merge         both sides from git's objects: the base, and the base as it is once the head is merged; also live
compare       desired against desired, without a cluster
comment       the preview on its pull request: one comment and a commit status
comment_file  a preview as a file, for the job that posts it
"""
