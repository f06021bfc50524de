"""The tokenizers by name, as config.json has it: which one reads the files of a folder."""

from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.marian import MarianTokenizer
from regard.text.plain_tokenizer import PlainTokenizer
from regard.text.translation_tokenizer import TranslationTokenizer

Tokenizer = TranslationTokenizer | EncoderTokenizer | PlainTokenizer
TOKENIZERS: dict[str, type[Tokenizer]] = {
    one.name: one
    for one in (TranslationTokenizer, MarianTokenizer, EncoderTokenizer, PlainTokenizer)
}
