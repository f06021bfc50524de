"""The alphabet of byte-level BPE (GPT-2), in which every byte is written as a visible letter."""


def _letters() -> dict[str, int]:
    """Printable bytes of Latin-1 stand for themselves, the others are numbered from U+0100 up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    numbered = {chr(0x100 + number): byte for number, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | numbered


BYTE_OF = _letters()


def readable(token: str) -> str:
    """A token as text, or its bytes in hexadecimal where they are not whole characters."""
    if not all(letter in BYTE_OF for letter in token):
        return token  # an added token, written as it is
    data = bytes(BYTE_OF[letter] for letter in token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in data)
