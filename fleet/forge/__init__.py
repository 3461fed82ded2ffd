"""The places where pull requests are: GitHub, GitLab and Gitea (and Forgejo, which speaks Gitea's API).

model     what all of them have, in one vocabulary: repositories, pull requests, comments, statuses, events
client    what can be asked of any of them; `connect` gives the one for a repository
find      which forge a repository is on, and the token for it
webhook   what a forge sends, once its signature is checked
ci        what a CI job knows of the pull request that it runs for
sticky    one comment that is found again and edited in place
approval  a maintainer's word for one commit of a fork

`github`, `gitlab` and `gitea` have what differs: how to ask, and how to read what they say.
"""
