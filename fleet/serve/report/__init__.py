"""Reports of a service: health in git, notifications, metrics, previews."""
