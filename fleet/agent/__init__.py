"""`fleet serve` turned round: one cluster, which reads what was rendered for it and reports what became of that.

reading    the branch of the cluster as what is wanted, in the place of an evaluation
once       one sync of it, for a person who looks
manifests  the agent in its cluster
"""
