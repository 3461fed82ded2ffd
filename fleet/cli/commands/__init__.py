"""Commands of the command line, one module each, imported when that command runs.

Each has its line in `COMMANDS` of `fleet.cli`.
"""
