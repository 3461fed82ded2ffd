"""App types without an acting half of their own: members stand alone, and are known by their kubelets' word.

    observation    what the cluster holds of such an app, by role
    decide         what to do next about it
    engine         the half that acts, as the operator's core asks for it

Such a type gets installed, grows its volumes, follows its number of members, takes new configuration and versions by a
roll that is taken back where a member does not come up with it, is paused and taken out, and reports its members by
readiness. What needs the word of an engine (who leads, who may join, what data is worth) is for types that name one.
"""
