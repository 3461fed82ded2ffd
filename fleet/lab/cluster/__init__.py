"""One cluster of a lab: control plane, nodes, network, volumes."""
