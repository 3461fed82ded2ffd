"""What is etcd's own about its backups: the command lines of its tools, and how to read its snapshots without it."""
