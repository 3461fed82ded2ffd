"""What people ask of an app once: a switchover, a roll, a backup. One at a time, when nothing speaks against it.

`operation` is the kind with its status, `queue` whose turn it is and what is said of those that wait, `verbs` what each
verb needs and does next, and `decide` what follows for a reconcile. All of it is pure: an Operation's own status is the
only memory, so an operator that dies anywhere goes on from what it finds.
"""
