"""CTranslate2, from a folder in its own format; ids are their own words."""

import ctranslate2
import torch
from worker import System

from peers.common import device
from peers.decoding import Ids, Work, rounds_over


def translation(folder: str, model: str, kind: str) -> System:
    """Translations in this compute type."""
    work, threads = Work.read(folder), torch.get_num_threads()
    translator = ctranslate2.Translator(
        model, device=device().type, compute_type=kind, intra_threads=threads
    )

    def translate(batch: Ids) -> Ids:
        out = translator.translate_batch(
            [[str(token) for token in row] for row in batch],
            beam_size=work.beam,
            max_decoding_length=work.longest,
            max_batch_size=len(batch),
            length_penalty=1.0,
            suppress_sequences=[[str(work.marks.pad)]],
        )
        return [[int(token) for token in result.hypotheses[0]] for result in out]

    return rounds_over(work.ids, translate)


def generation(folder: str, model: str, kind: str) -> System:
    """Continuations of prompts in this compute type."""
    work, threads = Work.read(folder), torch.get_num_threads()
    generator = ctranslate2.Generator(
        model, device=device().type, compute_type=kind, intra_threads=threads
    )

    def continued(batch: Ids) -> Ids:
        out = generator.generate_batch(
            [[str(token) for token in row] for row in batch],
            max_length=work.longest,
            min_length=work.longest,
            max_batch_size=len(batch),
            include_prompt_in_result=False,
        )
        return [result.sequences_ids[0] for result in out]

    return rounds_over(work.ids, continued)
