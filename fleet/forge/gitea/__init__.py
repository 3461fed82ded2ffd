"""Gitea, and Forgejo. Its answers and webhooks are made after GitHub's, so most of the reading is that one's."""
