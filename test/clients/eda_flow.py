"""Runs the event source of Ansible Event-Driven Automation, and prints each event that it hands to the rulebook."""

import asyncio
import importlib.util
import json
import sys

plugin, address, token, pattern = sys.argv[1:]
spec = importlib.util.spec_from_file_location("vault_events", plugin)
source = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source)


class Queue:
    async def put(self, event):
        print(json.dumps(event), flush=True)


asyncio.run(
    source.main(
        Queue(),
        {
            "vault_addr": address,
            "vault_token": token,
            "event_paths": [pattern],
            "ping_interval": 1,
            "filter_expression": 'event_type contains "-" or event_type contains "/"',
        },
    )
)
