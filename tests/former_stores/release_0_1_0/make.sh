#!/bin/sh
# Makes store.tar.xz by release 0.1.0, killed in the middle of its work:
#     sh make.sh FOLDER      with `taskqueue` and `python` of that release in the PATH; FOLDER is made
set -eu
made=$(cd "$(dirname "$0")" && pwd)/store.tar.xz
mkdir "$1" && cd "$1"
export TASKQUEUE_URL="ipc://$PWD/socket" TASKQUEUE_BIND="ipc://$PWD/socket"
taskqueue scheduler --store store > log 2>&1 &
daemon=$!
until taskqueue status > /dev/null 2>&1; do :; done
python -c '
import os, time
from taskqueue import Client
client = Client()
client.project_set("news", {"rate": float("inf"), "retries": 2, "keep_success": "365000d"})
client.project_set("shop", {"rate": 0.5})
for name in ("done", "failed", "retried", "leased", "ready"):
    client.push("news", f"http://a.example/{name}", taskid=name)
client.push("news", "http://a.example/later", taskid="later", exetime=time.time() + 3e9)
client.push("shop", "http://b.example/", priority=7, body={"page": 1})
done, failed, retried, leased = client.select(4, projects=["news"])
client.done(done)
client.failed(failed, "no such page", retry=False)
client.failed(retried, "no route", retry_after=1.0)
os._exit(0)  # The lease of the fourth is still in force.
'
kill -KILL $daemon
rm -f store/LOG* store/LOCK
tar cJf "$made" --sort=name --owner=0 --group=0 --numeric-owner store
