"""etcd, observed and steered over its own protocol."""
