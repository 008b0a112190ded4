"""The op that runs generated tests: its verdict is the script's, unless the script contradicts itself."""

from __future__ import annotations

import textwrap
import unittest
from typing import Any

from tests.support import Worker

LEASE = {"id": "cuda:3", "name": "NVIDIA H200", "uuid": "GPU-1", "env": {"CUDA_VISIBLE_DEVICES": "GPU-1"}}
WRITE = "import json, sys; json.dump({result}, open(sys.argv[sys.argv.index('--json') + 1], 'w')); print('said')\n"


class Scripts(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker("orch_py.worker.server")
        self.addCleanup(self.worker.close)

    def run_script(self, text: str, number: int = 1, **params: Any) -> dict[str, Any]:
        path = self.worker.root / "test_model.py"
        path.write_text(textwrap.dedent(text))
        self.worker.start(number, "script", params={"script": str(path), "argv": ["--device", "cpu"], **params})
        return self.worker.output(number)

    def test_the_scripts_result_is_the_jobs(self) -> None:
        result = {"status": "ok", "reason": None, "facts": {"a": 1}, "measure": {"samples_ms": [1.5]}}
        output = self.run_script(WRITE.format(result=result) + "assert sys.argv[1:3] == ['--device', 'cpu']")
        self.assertEqual((output["status"], output["measure"]), ("ok", {"samples_ms": [1.5]}))
        self.assertEqual(output["facts"]["a"], 1)
        self.assertIn("said", self.worker.log(1).read_text())

    def test_a_leased_gpu_is_the_only_one_shown_and_keeps_its_name(self) -> None:
        result = {"status": "ok", "measure": {"requested_device": "cuda:0", "actual_device": "cuda:0"}}
        text = "import os; assert os.environ['CUDA_VISIBLE_DEVICES'] == 'GPU-1'\n" + WRITE.format(result=result)
        text += "assert sys.argv[1:3] == ['--device', 'cuda:0'], sys.argv"
        output = self.run_script(text, lease=LEASE, argv=["--device", "cuda:3"])
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        self.assertEqual(output["measure"], {"requested_device": "cuda:3", "actual_device": "cuda:3"})
        # Any of several was asked for, and the lease says which it is.
        text = WRITE.format(result=result) + "assert sys.argv[1:3] == ['--device', 'cuda:0'], sys.argv"
        output = self.run_script(text, 2, lease=LEASE, argv=["--device", "cuda"])
        self.assertEqual(output["measure"], {"requested_device": "cuda", "actual_device": "cuda:3"})

    def test_a_gpu_that_is_not_the_leased_one_is_an_error(self) -> None:
        """Where a GPU is partitioned, CUDA shows the first slice of it under the name of the whole."""
        measure = {"requested_device": "cuda:0", "actual_device": "cuda:0"}
        for number, (shown, status) in enumerate([("1", "ok"), ("GPU-1", "ok"), ("2", "unavailable")], 1):
            result = {"status": "ok", "facts": {"device_uuid": shown}, "measure": measure}
            text = WRITE.format(result=result)
            output = self.run_script(text, number, lease=LEASE, argv=["--device", "cuda"])
            self.assertEqual(output["status"], status, output)
        told = "cuda:3 (GPU-1) is leased, and PyTorch is shown 2: is the GPU partitioned (MIG)?"
        self.assertEqual(output["reason"], told)

    def test_what_fell_back_to_the_cpu_is_not_called_a_gpu(self) -> None:
        result = {"status": "ok", "measure": {"actual_device": "cpu"}}
        output = self.run_script(WRITE.format(result=result), lease=LEASE)
        self.assertEqual(output["measure"]["actual_device"], "cpu")

    def test_a_failure_that_the_script_tells_is_kept(self) -> None:
        output = self.run_script(WRITE.format(result={"status": "numerics", "reason": "off by 2"}) + "sys.exit(1)")
        self.assertEqual((output["status"], output["reason"]), ("numerics", "off by 2"))

    def test_a_script_that_says_ok_and_exits_with_1_is_an_error(self) -> None:
        output = self.run_script(WRITE.format(result={"status": "ok"}) + "sys.exit(1)")
        self.assertRegex(output["reason"], "exited with 1 but wrote the status `ok`")

    def test_a_script_without_a_result_is_an_error(self) -> None:
        self.assertRegex(self.run_script("print('nothing')")["reason"], "exited with 0 and wrote no result")

    def test_an_exception_in_the_script_is_the_reason(self) -> None:
        self.assertEqual(self.run_script("raise KeyError('logits')")["reason"], "KeyError: 'logits'")


if __name__ == "__main__":
    unittest.main()
