"""One run over all clusters: read the commit, evaluate, plan each cluster, check, apply in order, wait, report.

source       the files of a run: the working tree or a commit; its signature and its evaluation
targets      which stacks go to which clusters
planning     read one cluster and plan it
safety       checks on the whole run before the first write: removed placements, rewritten history
suspension   stacks that are left as they are until a user resumes them
apply        apply one stack under its Lease, from a plan made under it; dry run
health       wait until a stack is healthy, gone, or out of time
run          all clusters at once; the failure of one cluster fails that cluster only
rollout/     waves, gates, approvals of waves, rollback
result       what happened, as data, and the exit code that follows from it
redaction    take secret values out of results
report       write results into the status branch and the notes
observe      health of every stack now, once or continuously
progress     what the user at the terminal sees during a run
"""
