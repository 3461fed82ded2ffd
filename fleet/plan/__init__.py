"""Desired × inventory × live → steps, and the views of them. Pure: no network, no files, no clock."""

from fleet.plan.claim import Claim
from fleet.plan.decide import keys_beside, keys_to_read, leave, plan
from fleet.plan.forest import Branch
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.step import Change, Plan, Step, Verb

__all__ = [
    "Branch",
    "Change",
    "Claim",
    "Entry",
    "Inventory",
    "Plan",
    "Step",
    "Verb",
    "keys_beside",
    "keys_to_read",
    "leave",
    "plan",
]
