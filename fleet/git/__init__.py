"""The only code that talks to git: read trees of revisions, write refs of fleet's own. It never checks anything out.

command         one hardened way to run git; environment: its variables, configuration and limits
repository      a clone or a bare mirror: revisions, changes, remotes
objects         single objects and small refs, from one process
tree            the files of one revision: list, read, materialise
publish         compare-and-swap writes of refs, on a remote or locally
status_records  files of the status branch; pure
status          the status branch, the notes and the page: publish and read
"""
