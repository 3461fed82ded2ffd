"""GitLab, the one at gitlab.com and any other."""
