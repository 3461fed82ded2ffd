"""The only code that talks to git: read trees of revisions, write status refs. It never checks anything out.

command        one hardened way to run git: environment, configuration, limits; GitPython starts what writes
repository     a clone or a bare repository: revisions, changes, remotes
objects        single objects and small refs, from one process
tree           the files of one revision: list, read, materialise
mirror         a bare copy of a remote that only fleet uses
publication    compare-and-swap updates of refs, on a remote or locally
status, page, notes    pure: what the status branch and the notes say
reporting      the edge of those three: publish and read
"""
