"""The agent: `fleet serve` turned round. One cluster reads what was rendered for it and reports what became of that.

agent      the branch of the cluster as what is desired, in the place of an evaluation; one sync of it
manifests  the agent in its cluster
"""
