"""BPE of today's models, whose tokenizer.json alone decides the ids.

Normaliser, pre-tokenizer, byte fallback, added tokens, decoder and row template differ from
folder to folder: SentencePiece merges with single bytes for unknown characters (Llama: Touvron et
al., 2023; Mistral), byte-level BPE behind a regular expression (Llama 3, Qwen2), behind single
digits (SmolLM2), and BERT's special tokens (ModernBERT: Warner et al., 2024). So the library's
tokenizer is the file's own, and its post-processor makes the rows.

``transformers`` 5 does the same for the classes PreTrainedTokenizerFast and TokenizersBackend. For
LlamaTokenizer and GPT2Tokenizer it replaces the file's normaliser and pre-tokenizer by the class's.
"""

from collections.abc import Mapping
from typing import ClassVar

from tokenizers import pre_tokenizers

from regard.text.families.bpe import END_OF_TEXT, ByteBPE
from regard.text.families.wordpiece import SPECIALS
from regard.text.templates import TEXTS, RowBuilder, Template
from regard.text.vocabularies.subwords import Subwords


class EncoderBPE(ByteBPE):
    """BPE with BERT's special tokens, as ModernBERT has it.

    ``row_roles`` are the roles by which the special tokens of a row are named.
    """

    name, classes = "encoder-bpe", ("PreTrainedTokenizerFast",)
    unchanged = True
    special_tokens: ClassVar = SPECIALS
    template = Template("cls A sep", "cls A sep B:1 sep:1")
    row_roles: ClassVar[tuple[str, ...]] = ("cls", "sep", "bos", "eos")

    def row_builder(self, words: Subwords, special: Mapping[str, int]) -> RowBuilder:
        """Builder of the rows that the post-processor of tokenizer.json makes."""
        roles = [role for role in self.row_roles if f"{role}_token" in special]
        names = {special[f"{role}_token"]: role for role in reversed(roles)}
        ids, forms = dict[str, int](), []
        for texts in (1, 2):
            parts = []
            for text, number, segment in words.row_parts(texts):
                name = names.get(number, f"token{number}") if text is None else TEXTS[text]
                parts.append(f"{name}:{segment}")
                ids |= {} if name in TEXTS else {name: number}
            forms.append(" ".join(parts))
        template = Template(*forms)
        if (separator := self.separator_in(template, special)) is not None:
            ids["sep"] = separator
        return RowBuilder(template, ids)

    def separator_in(self, template: Template, special: Mapping[str, int]) -> int | None:
        """The id of the token between documents, or None."""
        return special.get(self.separator)


class DecoderBPE(EncoderBPE):
    """BPE of causal models. The token before texts, else eos, is also before each document.

    A new vocabulary is byte-level with single digits, as Llama has them.
    """

    name = "decoder-bpe"
    special_tokens: ClassVar = dict.fromkeys(("bos_token", "eos_token"), END_OF_TEXT)
    template, separator = Template("bos A", "bos A bos:1 B:1"), "eos_token"
    row_roles = ("bos", "eos")

    def pre_tokenizer(self, prefix: bool) -> pre_tokenizers.PreTokenizer:
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, super().pre_tokenizer(prefix)])

    def separator_in(self, template: Template, special: Mapping[str, int]) -> int | None:
        before = template.parts(1)[0].name == "bos"
        return special.get("bos_token" if before else self.separator)
