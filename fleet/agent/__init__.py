"""Agent: `fleet serve` the other way round. One cluster reads the bundle rendered for it and reports the results.

agent      read the cluster's branch in the place of an evaluation; one sync of it
manifests  objects of the agent in its cluster
"""
