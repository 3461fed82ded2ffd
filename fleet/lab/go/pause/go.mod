module fleet.dev/lab/pause

go 1.26.0
