"""Desired × inventory × live → steps, and the views of them. Pure: no network, no files, no clock."""

from fleet.objects.compare import Change
from fleet.plan.decide import adoption_keys, keys_to_read, plan, plan_removed_placement
from fleet.plan.inventory import Entry, Inventory
from fleet.plan.ownership import RepositoryOwnership
from fleet.plan.step import Plan, Step, Verb
from fleet.plan.views.summary import PlanView

__all__ = [
    "Change",
    "Entry",
    "Inventory",
    "Plan",
    "PlanView",
    "RepositoryOwnership",
    "Step",
    "Verb",
    "adoption_keys",
    "keys_to_read",
    "plan",
    "plan_removed_placement",
]
