"""What a pull request would change: two revisions against each other, and against the clusters where asked.

sides     both from git's objects: the base, and the base as it is once the head is merged
between   desired against desired, no cluster asked: what the merge itself changes
live      the same against the clusters: what a sync would do after the merge, and what of it is drift
request   the pull request on its forge, and how deep one may look for it
voice     as whom it speaks there
words     what is said
tell      saying it: one comment and a commit status
"""
