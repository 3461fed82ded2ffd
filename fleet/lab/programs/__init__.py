"""The programs that a lab runs: built, installed, started and found again."""
