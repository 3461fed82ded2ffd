"""One run over the fleet: resolve → evaluate → per cluster, concurrently: look, plan, apply, wait → report into git.

source      which files: the working tree, or a commit written into a directory of its own
trust       whether the commit is signed by somebody who may
choice      which stacks and clusters the flags mean
look        what one cluster has and what is to be done there; reads only
held        which stacks are suspended; suspend writes that word
guard       what stops a run once all plans are made: departures (what left git), lineage (rewritten history)
apply       carry it out there, under a Lease and from a plan made under it
gate        who is asked between the plan and the first write
ahead       load what talks to clusters while stacks are evaluated
waiting     until it is healthy, gone, or out of time
run         all clusters at once, one failure failing one cluster only
outcome     what happened, as data, and the exit code that it makes
status      outcome → the status branch and the notes
observe     how everything is now; watch: again and again
rollback    which files a stack is taken back with
progress    what the person at the terminal sees meanwhile
"""
