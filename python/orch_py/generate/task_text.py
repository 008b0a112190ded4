"""Text for models that know no words: a small tokenizer, always the same, and sentences whose tokens are known.

The tokenizer is a WordPiece of BERT's kind over a hundred syllables, each as the beginning of a word and as its
continuation. Ids beyond these have names of their own, so that every id of the model has one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from orch_py.worker.protocol import Refused

# What a tokenizer makes, and in this order.
NAMES = ("input_ids", "token_type_ids", "attention_mask")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CLS, _SEP, _MASK = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]"), SPECIAL.index("[MASK]")
_SYLLABLES = [first + second for first in "bcdfghjklmnpqrstvwxz" for second in "aeiou"]
_LEAST = 32


def vocabulary(size: int) -> list[str]:
    """The names of all ids. Beginnings and continuations take turns, so that a small vocabulary has both."""
    pieces = [piece for syllable in _SYLLABLES for piece in (syllable, f"##{syllable}")]
    named = [*SPECIAL, *pieces]
    return (named + [f"[unused{number}]" for number in range(len(named), size)])[:size]


def small_tokenizer(size: int, taken: list[str], out: Path) -> Any:
    """A tokenizer for a model with `size` ids that makes what the model takes; its files are written to `out`."""
    if size < _LEAST:
        raise Refused("unsupported", f"a vocabulary of {size} ids is too small for a text; {_LEAST} are needed")
    ids = {name: number for number, name in enumerate(vocabulary(size))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    ends = [(SPECIAL[number], number) for number in (_CLS, _SEP)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    words = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    names = [name for name in NAMES if name in taken]
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **words)
    made.save_pretrained(out)
    return made


def sentences(rows: list[list[int]], *, mask: bool) -> list[str]:
    """One text per row, of as many tokens, made of the row's own ids as far as they are syllables.

    With `mask`, one token in the middle is the mask.
    """
    return [_sentence(row, mask=mask) for row in rows]


def _sentence(row: list[int], *, mask: bool) -> str:
    middle = len(row) // 2 if mask else None
    text = ""
    for place in range(1, len(row) - 1):
        if place == middle:
            text += f" {SPECIAL[_MASK]}"
            continue
        number = max(row[place] - len(SPECIAL), 0) % (2 * len(_SYLLABLES))
        syllable, continues = _SYLLABLES[number // 2], number % 2 == 1
        begins = place == 1 or place - 1 == middle
        text += syllable if continues and not begins else f" {syllable}"
    # Of another case than the vocabulary, which the tokenizer has to mend.
    text = text.strip()
    return text[:1].upper() + text[1:] if not text.startswith("[") else text


def packed(texts: list[str]) -> np.ndarray:
    """One row of UTF-8 per text, padded with zeros: how a text lies among tensors."""
    rows = [np.frombuffer(text.encode(), np.uint8) for text in texts]
    return np.stack([np.pad(row, (0, max(map(len, rows)) - len(row))) for row in rows])
