"""How a change reaches clusters: waves, gates, approvals of waves, rollback."""
