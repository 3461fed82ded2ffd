"""Commands of the command line, one module each, imported when that command runs."""
