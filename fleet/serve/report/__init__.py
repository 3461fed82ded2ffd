"""What a service tells others: health in git, notifications, metrics, previews."""
