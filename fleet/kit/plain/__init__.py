"""App types without an acting half of their own: members stand alone, and are known by their kubelets' word.

Such a type gets installed, grows its volumes, follows its number of members, takes new configuration and versions by a
roll that is taken back where a member does not come up with it, is paused and taken out, and reports its members by
readiness. What needs the word of an engine (who leads, who may join, what data is worth) is for types that name one.
"""
