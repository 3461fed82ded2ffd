"""What others set up, taken over as it runs: recognised and described, compared with git, held, and given back. Pure.

Nothing changes on the way that a member could notice. `discovery` is the contract of an engine that recognises itself,
`rules` what an app type knows of its engine where others set it up, and `takeover` the order in which an app is taken.
"""
