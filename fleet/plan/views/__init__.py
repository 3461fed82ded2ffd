"""Views of a plan, one module per form. All of them start from `summary`."""
