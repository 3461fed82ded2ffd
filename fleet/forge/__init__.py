"""The only code that talks to forges: GitHub, GitLab and Gitea (and Forgejo, which speaks Gitea's API).

forge     what all of them have, in one vocabulary, and what can be asked of any; `connect` opens one for a repository
detect    which forge a repository is on, its token, and the pull request that a CI job runs for
http      requests over HTTP, refusals explained, and what the clients share
json      JSON of a forge, read field by field
webhook   what a forge sends, once its signature is checked
comments  one comment that is found again and edited in place; a maintainer's approval of one commit of a fork

`github`, `gitlab` and `gitea` have what differs: how to ask, and how to read the answer.
"""
