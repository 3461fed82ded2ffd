"""Desired × inventory × live → steps, and the views of them. Pure: no network, no files, no clock."""
