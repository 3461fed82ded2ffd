"""Backups of apps of any type: made by a CronJob, checked, kept and counted in a store, and put back into new apps.

Images of engines may have no shell, so each pod is a row of small steps: what the engine's own tools do runs in the
app's image with a plain argument vector, and what must be checked, chosen or renamed is a command of the operator's
image (`commands`). What differs between engines is said in a `BackupPlan`.

    backup    prepare → save (the engine's) → keep
    restore   pick    → restore (the engine's, or a copy) → place

What is made of it (`jobs`, `schedule`, `restoration`) and what is read back from pods (`outcome`) is pure; `records`,
`shelf`, `content`, `retention` and `volumes` touch files of the volumes that a pod has, and nothing else.
"""
