"""The only code that talks to git: it reads trees of revisions, writes fleet's own refs, and never checks anything out.

command         one hardened way to run git
environment     variables, configuration and limits of git
errors          git's stderr as errors
refs            which urls, revisions and ref names are let through
repository      a clone or a bare mirror: revisions, changes, remotes
objects         single objects and small refs, from one process
tree            the files of one revision: list, read, materialise
merge           merge and commit without a checkout
publish         compare-and-swap writes of refs, on a remote or locally
signature       commit signatures
history         commits, and what became of them
status_records  files of the status branch; pure
status          the status branch, the notes and the page: publish and read
"""
