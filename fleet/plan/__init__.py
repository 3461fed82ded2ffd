"""Desired × inventory × live → steps, and the views of them. Pure: no network, no files, no clock."""

from fleet.objects.compare import Change
from fleet.plan.decide import keys_beside, keys_to_read, leave, plan
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.ownership import Claim
from fleet.plan.step import Plan, Step, Verb
from fleet.plan.views.summary import Branch

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
