#!/bin/sh
# Makes the files of this folder, by the last version whose stores have format 7 and whose exports have version 5:
#     sh make.sh FOLDER      with `taskqueue` and `python` of that version in the PATH; FOLDER is made
# Each setting that got another name afterwards is said by `project set`.
set -eu
mkdir "$1" && cd "$1"
cat > taskqueue.toml <<END
[server]
bind = "ipc://$PWD/socket"
[store]
path = "store"
END
export TASKQUEUE_URL="ipc://$PWD/socket"
taskqueue scheduler -c taskqueue.toml > log 2>&1 &
daemon=$!
until taskqueue status > /dev/null 2>&1; do sleep 0.3; done
taskqueue project set news rate=5 slot=host slot_delay=auto slot_min_delay=2 slot_max_delay=1m slot_burst=2 \
    slot_max_processing=inf slot_max_tasks=100 \
    'slots={"*.example.org": {"delay": "10s", "max_processing": 2}, "a.example": {"rate": 3, "burst": 2}, "b.example": null}' \
    keep_success=30d keep_failed=inf keep_cancelled=90 forget=true
taskqueue project set shop slot=named slot_rate=0.5 slot_burst=4 forget=false
taskqueue project set free slot_rate=inf keep_failed=1h
taskqueue project set plain retries=1
python -c '
from math import inf
from taskqueue import Client
Client().projects.set("endless", {"slots": {"*": {"max_processing": inf}}, "keep_cancelled": inf})'
taskqueue push news http://a.example/ http://b.example/
taskqueue push plain http://c.example/
taskqueue store backup backup --store store
kill $daemon
wait $daemon || true
taskqueue store export --store store -o export.jsonl
taskqueue store export --store store -o export.msgpack
rm store/LOG store/LOCK
tar cJf store.tar.xz --sort=name --owner=0 --group=0 --numeric-owner store backup
