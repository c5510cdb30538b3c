"""Peers of the comparison: answers are read whole, and playbacks repeat their recording."""

from __future__ import annotations

from benchmarks.contest import Load
from benchmarks.harness import Report, Row
from benchmarks.lifecycle import add_best
from benchmarks.peers.beanstalkd import Reader
from benchmarks.peers.recording import Recording
from taskqueue.protocol.codec import decode_outgoing
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.tasks import DoneReply, NewTasksReply

LOAD = Load(tasks=100, batch=16, body=20)


def test_answers_of_beanstalkd_are_read_the_same_wherever_a_chunk_ends() -> None:
    job = b"i" * 32 + b"\r\nDELETED\r\n"
    answers = b"RESERVED 7 %d\r\n%b\r\nDELETED\r\nRESERVED 8 %d\r\n%b\r\n" % (len(job), job, len(job), job)

    for end in range(len(answers) + 1):
        reader, found = Reader(), []
        for chunk in (answers[:end], answers[end:]):
            reader.feed(chunk)
            found += reader.read()
        assert found == [(b"7", b"i" * 32), (b"", b""), (b"8", b"i" * 32)]


def test_a_recording_has_each_task_once_in_each_kind_of_answer() -> None:
    turns = Recording(LOAD).turns

    selects = [decode_outgoing(frame) for turn in turns for frame in turn.selects]
    taskids = [task.taskid for select in selects if isinstance(select, Select) for task in select.tasks]
    accepted = [decode_outgoing(frame) for turn in turns for frame in turn.new_out]
    done = [decode_outgoing(frame) for turn in turns for frame in turn.done_out]
    assert len(set(taskids)) == len(taskids) == LOAD.tasks
    assert [o for reply in accepted if isinstance(reply, NewTasksReply) for o in reply.outcomes] == ["new"] * LOAD.tasks
    assert [o for reply in done if isinstance(reply, DoneReply) for o in reply.outcomes] == ["done"] * LOAD.tasks


def test_a_recording_waits_for_as_many_frames_as_the_peers_send() -> None:
    turns = Recording(LOAD).turns

    assert sum(turn.new_in for turn in turns) == sum(len(turn.new_out) for turn in turns) == 7
    assert sum(turn.done_in for turn in turns) == sum(len(turn.done_out) for turn in turns)


def test_a_recording_writes_what_the_ledger_writes() -> None:
    written = [turn.written for turn in Recording(LOAD).turns if turn.written is not None]

    puts = sum(len(entries) for batch in written for entries in batch.puts.values())
    assert puts > 3 * LOAD.tasks


def test_a_peer_is_shown_at_the_depth_at_which_its_median_is_highest() -> None:
    result = Report("rates", "Rates", "python -m benchmarks.rates", []).result
    rates = {"rate_1": [10.0, 30.0], "rate_16": [50.0, 60.0], "rate_256": [35.0, 70.0]}
    result.rows.append(Row("theirs", rates))
    result.rows.append(Row("absent", missing="it is not installed"))

    add_best(result, [1, 16, 256])

    assert result.rows[0].values == rates | {"rate": [50.0, 60.0], "ahead": [128]}
    assert not result.rows[1].values
