"""Views of a plan, one module per form. All of them start from `summary`.

Commands show those that are in the table `VIEWS` of `fleet.cli.plans`.
"""
