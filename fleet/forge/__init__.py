"""The only code that talks to forges: GitHub, GitLab and Gitea (and Forgejo, which speaks Gitea's API).

forge     what all of them have, in one vocabulary, and what can be asked of any; `connect` opens one for a repository
detect    which forge a repository is on, its token, and the pull request that a CI job runs for
http      requests over HTTP, refusals explained, and what the clients share
json      JSON of a forge, read field by field
webhook   what a forge sends, once its signature is checked
comments  one comment that is found again and edited in place; a maintainer's approval of one commit of a fork

`github`, `gitlab` and `gitea` have what differs, each declared as a `ForgeKind`: how to recognise the forge and its CI,
how to ask it and read its answers, and how its webhooks are signed.
"""

from collections.abc import Mapping

# By the name in fleet.toml, the module and object of each: they are loaded when a forge is needed. A forge whose CI
# sets the variables of another one's comes before that, as Gitea does.
FORGES: Mapping[str, str] = {
    "gitea": "fleet.forge.gitea:GITEA",
    "github": "fleet.forge.github:GITHUB",
    "gitlab": "fleet.forge.gitlab:GITLAB",
}

TOKEN_VARIABLE = "FLEET_FORGE_TOKEN"  # noqa: S105 - the name of the variable; it goes before those of single forges
