"""What is known about an app at one moment, and what its type answers about it. Pure."""
