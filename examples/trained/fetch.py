"""Gets trained models out of the wheels in which their makers publish them; each wheel is checked by its hash."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Of each wheel, which model, and what it is called in the spec.
MODELS = {
    "magika": ("magika/models/standard_v3_3/model.onnx", "magika.onnx"),
    "silero_vad": ("silero_vad/data/silero_vad_openvino_16k.onnx", "silero-vad.onnx"),
    "rapidocr": ("rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", "ocr-angle.onnx"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*command, "-r", str(HERE / "models.txt"), "-d", folder], check=True)
        for wheel in sorted(Path(folder).glob("*.whl")):
            name = wheel.name.split("-")[0]
            with zipfile.ZipFile(wheel) as archive:
                inside, called = MODELS[name]
                (HERE / "specs" / called).write_bytes(archive.read(inside))
                print(f"specs/{called}: {inside} of {wheel.name}")


if __name__ == "__main__":
    main()
