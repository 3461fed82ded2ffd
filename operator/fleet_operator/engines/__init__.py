"""The half of each driver that observes and acts; the half that only knows is in `fleet.apps`."""
