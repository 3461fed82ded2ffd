"""Backups of an etcd: made by a CronJob, checked, kept and counted on a volume, and put back into a new app's volumes.

Images of etcd have no shell, so each pod is a row of small steps: what etcd's own tools do runs in the app's image with
a plain argument vector, and what must be checked, chosen or renamed is a command of the operator's image (`command`).

    backup    prepare → etcdctl snapshot save → keep
    restore   pick    → etcdutl snapshot restore → place

The manifests (`schedule`, `restoration`) and what is read back from pods (`outcome`) are pure.
"""
