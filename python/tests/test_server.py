"""The job protocol, seen from orch's side: whatever a job does, exactly one true answer comes."""

from __future__ import annotations

import signal
import socket
import unittest
from pathlib import Path

from orch_py.worker import confine
from tests.support import PATIENCE, Worker, alive, eventually


class Jobs(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker()
        self.addCleanup(self.worker.close)

    def test_echo_returns_params_and_inputs_and_progress(self) -> None:
        self.worker.start(7, "echo", params={"seed": 3}, inputs={"model": "/a/tree"})
        output = self.worker.output(7)
        self.assertEqual((output["status"], output["reason"], output["measure"]), ("ok", None, None))
        self.assertEqual(output["facts"]["params"], {"seed": 3})
        self.assertEqual(output["facts"]["inputs"], {"model": "/a/tree"})
        pid = output["facts"]["pid"]
        self.assertEqual(self.worker.heard[0], {"id": 7, "event": "started", "pid": pid})
        self.assertEqual(self.worker.heard[1], {"id": 7, "event": "progress", "text": "half-way"})

    def test_each_job_leads_a_group_of_its_own(self) -> None:
        for number in (1, 2):
            self.worker.start(number, "echo")
        facts = [self.worker.output(number)["facts"] for number in (1, 2)]
        self.assertEqual([fact["pid"] for fact in facts], [fact["group"] for fact in facts])
        self.assertNotEqual(facts[0]["pid"], facts[1]["pid"])

    def test_each_job_sees_the_device_that_it_was_given(self) -> None:
        for number, env in enumerate(({"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "0"}, {})):
            self.worker.start(number, "echo", env=env)
        devices = [self.worker.output(number)["facts"]["device"] for number in range(3)]
        self.assertEqual(devices, ["1", "0", None])

    def test_many_short_jobs_all_answer(self) -> None:
        # A child's last words and its end often become known at the same moment.
        for number in range(200):
            self.worker.start(number, "echo")
            self.assertEqual(self.worker.output(number)["status"], "ok")

    def test_what_a_job_prints_goes_to_its_log_and_never_into_the_protocol(self) -> None:
        self.worker.start(1, "noise")
        output = self.worker.output(1)
        self.assertEqual(output["facts"]["stdin"], "")
        self.assertIsNone(output["facts"]["descriptor"])
        self.assertEqual([answer["event"] for answer in self.worker.heard], ["started", "result"])
        log = self.worker.log(1).read_text()
        for text in ('"event":"result"', "from a child process", "from native code", "raw stderr"):
            self.assertIn(text, log)

    def test_a_crash_is_told_as_the_signal_and_the_server_lives_on(self) -> None:
        self.worker.start(1, "crash")
        self.assertEqual(self.worker.end(1), {"id": 1, "event": "died", "signal": int(signal.SIGSEGV), "code": None})
        self.worker.start(2, "echo")
        self.assertEqual(self.worker.output(2)["status"], "ok")

    def test_an_exit_without_a_result_is_told_as_the_code(self) -> None:
        self.worker.start(1, "vanish")
        self.assertEqual(self.worker.end(1), {"id": 1, "event": "died", "signal": None, "code": 9})

    def test_memory_that_is_gone_is_oom_whoever_says_so(self) -> None:
        for number, op in enumerate(("memory", "native_memory", "wrapped_memory")):
            self.worker.start(number, op)
            self.assertEqual(self.worker.output(number)["status"], "oom", op)

    def test_an_exception_is_an_error_with_its_first_line_and_its_traceback_in_the_log(self) -> None:
        self.worker.start(1, "fail")
        output = self.worker.output(1)
        self.assertEqual((output["status"], output["reason"]), ("error", "ValueError: first line"))
        self.assertIn("second line", self.worker.log(1).read_text())
        self.assertIn("Traceback", self.worker.log(1).read_text())

    def test_a_refusal_keeps_its_status_reason_and_facts(self) -> None:
        self.worker.start(1, "refuse")
        output = self.worker.output(1)
        self.assertEqual((output["status"], output["reason"]), ("unsupported", "the shape 3x3 is not for this device"))
        self.assertEqual(output["facts"]["shape"], [3, 3])

    def test_sys_exit_and_unprintable_facts_are_errors(self) -> None:
        for number, (op, said) in enumerate({"leave": "sys.exit(3)", "unprintable": "TypeError"}.items()):
            self.worker.start(number, op)
            output = self.worker.output(number)
            self.assertEqual(output["status"], "error")
            self.assertIn(said, output["reason"])

    def test_an_unknown_op_names_the_known_ones(self) -> None:
        self.worker.start(1, "convert")
        self.assertRegex(self.worker.output(1)["reason"], "unknown op `convert`; known: .*`echo`")

    def test_a_result_larger_than_a_pipe_arrives_with_the_peak_memory(self) -> None:
        self.worker.start(1, "large")
        output = self.worker.output(1)
        self.assertEqual(len(output["facts"]["text"]), 1 << 20)
        self.assertGreater(output["peak_rss_bytes"], 64 << 20)
        self.assertLess(output["peak_rss_bytes"], 1 << 30)

    def test_cancel_kills_the_whole_group_and_no_other_job(self) -> None:
        pids = _sleeper(self.worker, 1)
        other = _sleeper(self.worker, 2)
        self.worker.send({"cancel": 1})
        self.assertEqual(self.worker.end(1), {"id": 1, "event": "died", "signal": int(signal.SIGKILL), "code": None})
        eventually(lambda: not any(map(alive, pids)), "the job and what it started are gone")
        self.assertTrue(all(map(alive, other)))

    def test_cancel_of_a_job_that_is_gone_does_nothing(self) -> None:
        self.worker.send({"cancel": 99})
        self.worker.start(1, "echo")
        self.assertEqual(self.worker.output(1)["status"], "ok")

    def test_a_process_left_behind_neither_delays_the_result_nor_survives_it(self) -> None:
        self.worker.start(1, "orphan")
        below = self.worker.output(1)["facts"]["below"]
        eventually(lambda: not alive(below), "the process left behind is gone")

    def test_a_process_that_leaves_group_and_session_does_not_survive_its_job(self) -> None:
        for number, ends in enumerate(("well", "by itself", "cancelled")):
            out = self.worker.start(number, "escape", params={"ends": ends})
            eventually((out / "pid").exists, "it escaped")
            if ends == "cancelled":
                self.worker.send({"cancel": number})
            self.worker.end(number)
            self.assertFalse(alive(int((out / "pid").read_text())), ends)

    def test_junk_on_the_descriptor_is_the_error_of_its_job_and_of_no_other(self) -> None:
        junk = {
            "words": "hello\n",
            "half": '{"output": {"status"',
            "list": "[1, 2]\n",
            "number": '{"output": 7}\n',
            "status": '{"output": {"status": "fine", "facts": {}}}\n',
            "twice": '{"output": {"status": "ok", "facts": {}}}\n' * 2,
            "after": '{"output": {"status": "ok", "facts": {}}}\nmore\n',
        }
        for number, (name, text) in enumerate(junk.items()):
            self.worker.start(number, "junk", params={"text": text})
            output = self.worker.output(number)
            self.assertEqual(output["status"], "error", name)
            self.assertIn("junk to the descriptor for its answer", output["reason"], name)
        self.worker.start(98, "junk", params={"text": "x", "times": 20 << 20})
        self.assertIn("a line of more than", self.worker.output(98)["reason"])
        self.worker.start(99, "echo")
        self.assertEqual(self.worker.output(99)["status"], "ok")

    def test_no_descriptor_of_the_server_is_open_in_a_job(self) -> None:
        self.worker.start(1, "descriptors")
        kinds = self.worker.output(1)["facts"]["kinds"]
        # The three streams, the pipe for the answer, and the folder that is being listed.
        self.assertEqual(len(kinds), 5, kinds)

    def test_a_cancelled_job_may_clean_up_within_its_grace(self) -> None:
        out = self.worker.start(1, "tidy", params={"stays": False})
        eventually((out / "ready").exists, "the job has started")
        self.worker.send({"cancel": 1, "grace": 10})
        self.assertEqual(self.worker.end(1)["code"], 3)
        self.assertTrue((out / "clean").exists())

    def test_a_job_that_ignores_the_request_is_killed_after_its_grace(self) -> None:
        out = self.worker.start(1, "tidy", params={"stays": True})
        eventually((out / "ready").exists, "the job has started")
        self.worker.send({"cancel": 1, "grace": 0.2})
        self.assertEqual(self.worker.end(1)["signal"], signal.SIGKILL)
        self.assertTrue((out / "clean").exists())

    def test_the_server_keeps_no_zombie(self) -> None:
        for number in range(3):
            self.worker.start(number, "escape", params={"ends": "well"})
            self.worker.end(number)
        self.worker.start(9, "siblings")
        self.assertEqual(self.worker.output(9)["facts"]["siblings"], [])

    @unittest.skipUnless(confine.version() >= 1, "this kernel has no Landlock")
    def test_a_job_writes_and_connects_where_it_may_and_nowhere_else(self) -> None:
        theirs = self.worker.root / "theirs"
        theirs.write_text("x")
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        out = self.worker.root / "out-1"
        sandbox = {"write": [str(out), "/dev/null"], "tcp": "denied"}
        self.worker.start(1, "reach", params={"files": [str(out / "own"), str(theirs)], "port": port}, sandbox=sandbox)
        facts = self.worker.output(1)["facts"]
        self.assertEqual((facts["files"], theirs.read_text()), (["written", "PermissionError"], "x"))
        if confine.version() >= 4:
            self.assertEqual(facts["port"], "PermissionError")
        sandbox = {"write": [str(self.worker.root)], "tcp": "allowed"}
        self.worker.start(2, "reach", params={"files": [str(theirs)], "port": port}, sandbox=sandbox)
        facts = self.worker.output(2)["facts"]
        self.assertEqual((facts["files"], facts["port"]), (["written"], "connected"))

    def test_jobs_run_at_the_same_time(self) -> None:
        _sleeper(self.worker, 1)
        self.worker.start(2, "echo")
        self.assertEqual(self.worker.output(2)["status"], "ok")


class Server(unittest.TestCase):
    def test_the_end_of_stdin_kills_all_jobs_and_ends_the_server(self) -> None:
        worker = Worker()
        pids = _sleeper(worker, 1) + _sleeper(worker, 2)
        self.assertEqual(worker.close(), 0)
        eventually(lambda: not any(map(alive, pids)), "all jobs are gone")

    def test_sigterm_kills_all_jobs_and_ends_the_server(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        pids = _sleeper(worker, 1)
        worker.process.terminate()
        self.assertEqual(worker.process.wait(PATIENCE), 0)
        eventually(lambda: not any(map(alive, pids)), "all jobs are gone")

    @unittest.skipUnless(Path("/proc").is_dir(), "only Linux kills a child with its parent")
    def test_a_killed_server_takes_its_jobs_along(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        job, _ = _sleeper(worker, 1)
        worker.process.kill()
        worker.process.wait(PATIENCE)
        eventually(lambda: not alive(job), "the job is gone")

    def test_preload_imports_once_and_tells_of_a_failure_in_the_log(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        worker.send({"preload": ["colorsys", "no_such_package"]})
        worker.start(1, "echo")
        self.assertEqual(worker.output(1)["status"], "ok")
        self.assertIn("preload of `no_such_package` failed: ModuleNotFoundError", worker.server_log())

    def test_what_was_imported_is_left_out_of_collections_in_a_job(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        worker.send({"preload": ["colorsys"]})
        worker.start(1, "collected")
        facts = worker.output(1)["facts"]
        self.assertGreater(facts["frozen"], 1000)
        self.assertLess(facts["visited"], facts["frozen"])

    def test_what_imports_may_ask_for_gpus_and_starts_no_driver(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        worker.send({"preload": ["tests.curious"]})
        worker.start(1, "curious")
        facts = worker.output(1)["facts"]
        self.assertEqual((facts["while_importing"], facts["in_the_job"]), ("1", None))

    def test_a_preload_that_leaves_a_thread_is_told_of_in_the_log(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        worker.send({"preload": ["tests.threaded"]})
        worker.start(1, "echo")
        self.assertEqual(worker.output(1)["status"], "ok")
        self.assertIn("a fork may wait for their locks: ['reporter']", worker.server_log())

    def test_usage_reports_cannot_be_imported_even_where_installed(self) -> None:
        worker = Worker()
        self.addCleanup(worker.close)
        worker.start(1, "report_usage")
        self.assertIn("import of openvino_telemetry halted", worker.output(1)["reason"])

    def test_a_line_that_cannot_be_answered_ends_the_server_with_a_message(self) -> None:
        for line in ("not json", '{"op": "echo"}'):
            worker = Worker()
            worker.send(line)
            self.assertEqual(worker.process.wait(PATIENCE), 1)
            self.assertIn("BUG:", worker.server_log())
            worker.close()

    def test_the_real_table_needs_no_torch_until_a_job_does(self) -> None:
        worker = Worker("orch_py.worker.server")
        self.addCleanup(worker.close)
        worker.start(1, "echo")
        self.assertRegex(worker.output(1)["reason"], "known: .*`materialise`.*`openvino_convert`")
        worker.start(2, "eager_run", params={"script": "/no/such/file.py"})
        self.assertIn("does not exist", worker.output(2)["reason"])


def _sleeper(worker: Worker, number: int) -> list[int]:
    """A job that sleeps: its process and the one it started."""
    pids = worker.start(number, "sleep") / "pids"
    eventually(pids.exists, "the job has started")
    return [int(pid) for pid in pids.read_text().split()]


if __name__ == "__main__":
    unittest.main()
