#!/usr/bin/env python3
"""Proposes one work item for a person per open pull request that is older than N days (the first argument)."""

import json
import sys

days = int(sys.argv[1]) if len(sys.argv) > 1 else 7
seen = json.load(sys.stdin)
if seen["version"] != 1:
    sys.exit(f"expected a snapshot of version 1, not {seen['version']}")
for pull in seen["pulls"]:
    if pull["age_s"] is None or pull["age_s"] < days * 24 * 3600:
        continue
    name = f"{pull['repo'] or pull['project_id']}#{pull['number']}"
    item = {
        "propose": "item",
        # The same pull request has the same key: it is proposed every day, and created once.
        "key": f"old:{name}",
        "source": "manual",
        "priority": "P3",
        "title": f"{name} has been open for {pull['age_s'] // 86400} days",
        "description": f"{pull['title']}\n{pull['url']}",
    }
    # Attached to the change if remand watches the pull request, so that it is cancelled on merge or close.
    if pull["change_id"]:
        item["change"] = pull["change_id"]
    else:
        item["project"] = pull["project_id"]
    print(json.dumps(item))
