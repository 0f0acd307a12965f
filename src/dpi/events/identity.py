"""Who a row belongs to: canonical user ids, and the keyed digest that names a user's account.

An id is its canonical text (see `columns`), as UTF-8, by the rule that a stream declares (`IDS`). A digest is 128
bits, made with a secret key that is used for nothing else. Digests are private: they never leave the curator.

A key that was replaced stays the first of a chain: each further key permutes the names that the ones before it give, so
that accounts can be named anew without any id (`rename`). Whatever else is made with a key is made with the last one
of the chain, which those who had an earlier one lack.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from dpi.errors import OptionError
from dpi.events.columns import canonical, handful, short, whole
from dpi.exact.integers import Integers

if TYPE_CHECKING:
    import polars as pl

Digests = npt.NDArray[np.uint64]
"""Shape (n, 2): 128 bits a row."""

KEY_BYTES = 32
EXACT, NFC_STRIP = "exact", "nfc-strip"
IDS = (EXACT, NFC_STRIP)
"""How texts of ids are compared: byte for byte, or as `normalise` makes them."""
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Unicode's white space (the property White_Space)."""

_BLOCK = 16
_SHORT = _BLOCK - 1
_SPACE = 32  # the last of ASCII's white space and control characters
_INTEGER, _LONG = np.uint64(128), np.uint64(255)
_SLICE = 1 << 16
_FIRST = np.array([[255] * size + [0] * (8 - size) for size in range(9)], dtype=np.uint8).view(np.uint64)[:, 0]
"""Masks of the first bytes of a word, by their number."""


def check_key(key: bytes, name: str = "key") -> bytes:
    """Refuse a key that is not 32 bytes; the text does not show it."""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise OptionError(f"`{name}` must be {KEY_BYTES} random bytes, for example secrets.token_bytes({KEY_BYTES}).")
    return key


def check_chain(key: bytes, name: str = "key") -> bytes:
    """Refuse what is not one or more keys of 32 bytes, one after the other, the oldest first."""
    check_key(key[:KEY_BYTES] if isinstance(key, bytes) and not len(key) % KEY_BYTES else key, name)
    return key


def users(column: object, ids: str = EXACT) -> pl.Series:
    """Return canonical user ids by a rule of `IDS`: integers or text, missing where a row has no valid id.

    A text that writes a whole number as a float ("1.0") is that number, for one tool exports as 1.0 what another
    exports as 1. To take two ids for one costs accuracy; to take one person for two would give them two accounts, and
    lose 2ε.

    >>> users(["ada", None, "", "1.0"]).to_list()
    ['ada', None, None, '1']
    >>> users([" ada", "ada", 1, "1.0 "], NFC_STRIP).to_list()
    ['ada', 'ada', '1', '1']
    """
    texts = short(canonical(column, "user"))
    return whole(texts if ids == EXACT else short(normalise(texts)))


def normalise(texts: pl.Series) -> pl.Series:
    """Return texts in Unicode's form NFC, without white space at either end; missing where nobody can tell that form.

    So one person has one account, whether a keyboard, a file system or a form wrote "é" as one character or as two, or
    left a space behind it. Each text is judged by itself, and costs at most `columns.LONGEST` bytes of work (`short`).

    **Why it is the same for ever.** Unicode never changes NFC of a text all of whose characters are assigned. Of a text
    with a character that this Python does not know, another Python may know better: it is missing, as a bad row. To
    drop it costs accuracy; to name it twice would lose 2ε. Private and unprintable characters are assigned.

    >>> import polars as pl
    >>> normalise(pl.Series(["ada", "Zoe\u0308 ", "\u3000", "\U000e0080"])).to_list()
    ['ada', 'Zoë', '', None]
    """
    import polars as pl

    if texts.dtype != pl.String:
        return texts
    odd = (texts.str.len_bytes() != texts.str.len_chars()) | (texts < "!") | (texts.str.tail(1) < "!")
    rows = np.flatnonzero(odd.fill_null(False).to_numpy())
    if not rows.size:
        return texts
    normal = pl.Series([_normal(text) for text in texts[rows].to_list()], dtype=pl.String)
    return texts.clone().scatter(rows, normal)


def _normal(text: str) -> str | None:
    if not text.isprintable() and any(unicodedata.category(each) == "Cn" for each in text):
        return None
    return unicodedata.normalize("NFC", text).strip(WHITE)


def plain_integers(column: object) -> Integers | None:
    """Return a column of 64-bit integers, which are canonical ids as they are; None for any other.

    >>> plain_integers(np.array([3])).tolist(), plain_integers([3])
    ([3], None)
    """
    if isinstance(column, np.ndarray):
        return column if column.dtype == np.int64 and column.ndim == 1 else None
    kind, has_nulls = getattr(column, "dtype", None), getattr(column, "has_nulls", None)
    if has_nulls is None or str(kind) != "Int64" or has_nulls():  # a polars series, without a need to load polars
        return None
    return cast("pl.Series", column).to_numpy()


def name_users(column: object, key: bytes, ids: str = EXACT) -> tuple[Digests, npt.NDArray[np.bool_] | None]:
    """Return the name of each row's account by a rule of `IDS`, and which rows have a user; None if all have.

    Most columns have nothing to normalise, which is seen where their bytes are joined to be named.

    >>> names, known = name_users(["ada", None, "ada"], bytes(32))
    >>> bool((names[0] == names[2]).all()), known.tolist()
    (True, [True, False, True])
    """
    numbers = plain_integers(column)
    if numbers is not None:
        return digests(numbers, key), None
    try:
        return _name(users(column), key, ids)
    except _OddTextError:
        return _name(users(column, ids), key, EXACT)


def _name(texts: pl.Series, key: bytes, ids: str) -> tuple[Digests, npt.NDArray[np.bool_] | None]:
    if not texts.has_nulls():
        return digests(texts, key, ids), None
    known, names = texts.is_not_null().to_numpy(), np.zeros((texts.len(), 2), dtype=np.uint64)
    names[known] = digests(texts.drop_nulls(), key, ids)
    return names, known


class _OddTextError(Exception):
    """A text may be another one when it is normalised."""


def digests(ids: pl.Series | Integers, key: bytes, rule: str = EXACT) -> Digests:
    """Return keyed 128-bit digests of canonical ids without missing rows; raises if the rule may make others of them.

    AES-256 in CBC-MAC over a prefix-free encoding of the canonical text. A text that is a 64-bit integer is one block
    (128, then the integer), any other text of up to 15 bytes is one block (its length, then its bytes): the digest is a
    keyed permutation of that block, so two such ids never share one. A longer text starts with a block that says 255
    and its length, so no encoding is a prefix of another, for which CBC-MAC is a pseudo-random function (Petrank and
    Rackoff 2000); two of q ids share a digest with probability of about q²·2^-128. Further keys of a chain permute the
    digests, so that as many differ.

    >>> import polars as pl
    >>> a, b = digests(pl.Series(["1", "x" * 40]), bytes(32)), digests(pl.Series([1]), bytes(32))
    >>> bool((a[0] == b[0]).all()), a.shape
    (True, (2, 2))
    """
    import polars as pl

    further = key[KEY_BYTES:] if key else b""
    encrypt = _cipher(key[:KEY_BYTES] if further else key)
    result = np.empty((len(ids), 2), dtype=np.uint64)
    if not isinstance(ids, np.ndarray) and ids.dtype == pl.Int64:
        ids = ids.to_numpy()
    for start in range(0, len(ids), _SLICE):
        part, here = ids[start : start + _SLICE], result[start : start + _SLICE]
        if isinstance(part, np.ndarray):
            here[:] = _integers(part, encrypt)
            continue
        if not (part < ":").any():  # an integer begins with a minus or a digit
            here[:] = _texts(part, encrypt, rule)
            continue
        whole = part.cast(pl.Int64, strict=False)
        whole = whole.set((whole.cast(pl.String) != part).fill_null(False), None)
        here[:] = _integers(whole.fill_null(0).to_numpy(), encrypt)
        text = np.flatnonzero(whole.is_null().to_numpy())
        if text.size:
            here[text] = _texts(part[text], encrypt, rule)
    return rename(result, further) if further else result


def rename(names: Digests, keys: bytes) -> Digests:
    """Return the names that accounts have under further keys: a permutation for each, so no two accounts become one.

    Who lacks one of the keys cannot tell the new names from random ones (AES-256 is a pseudo-random permutation).

    >>> keys = bytes(range(64))
    >>> names = digests(np.array([1, 2]), keys[:32])
    >>> bool((rename(names, keys[32:]) == digests(np.array([1, 2]), keys)).all())
    True
    """
    for start in range(0, len(keys), KEY_BYTES):
        names = _words(_cipher(keys[start : start + KEY_BYTES])(names.tobytes()))
    return names


def _integers(numbers: Integers, encrypt: Callable[[bytes], bytes]) -> Digests:
    """Digests of 64-bit integers."""
    block = np.empty((numbers.size, 2), dtype=np.uint64)
    block[:, 0], block[:, 1] = _INTEGER, numbers.view(np.uint64)
    return _words(encrypt(block.tobytes()))


def _texts(texts: pl.Series, encrypt: Callable[[bytes], bytes], rule: str) -> Digests:
    """Return digests of texts, all of one number of blocks at a time, so that a long id costs only its own length."""
    rows = handful(texts)
    if rows is None:
        sizes, joined = texts.str.len_bytes().to_numpy().astype(np.int64), texts.str.join("").item().encode()
    else:
        encoded = [text.encode() for text in rows]
        sizes, joined = np.fromiter(map(len, encoded), np.int64, len(encoded)), b"".join(encoded)
    starts = np.cumsum(sizes) - sizes
    if rule != EXACT:
        letters, last = np.frombuffer(joined, dtype=np.uint8), starts + sizes - 1  # no text is empty
        white = letters.min() <= _SPACE and min(letters[starts].min(), letters[last].min()) <= _SPACE
        if white or not joined.isascii():
            raise _OddTextError
    fewest, most = [0 if size <= _SHORT else -(-size // _BLOCK) for size in (int(sizes.min()), int(sizes.max()))]
    # A byte before all texts, for the length of a short one, and room behind them for the longest.
    content = b"".join([b"\0", joined, bytes((1 + most) * _BLOCK)])
    if fewest == most:
        return _mac(content, starts, sizes, most, encrypt)
    blocks = np.where(sizes <= _SHORT, 0, (sizes + _SHORT) // _BLOCK)
    result = np.empty((sizes.size, 2), dtype=np.uint64)
    for count in np.flatnonzero(np.bincount(blocks)).tolist():
        here = np.flatnonzero(blocks == count)
        macs = _mac(content, starts[here], sizes[here], count, encrypt)
        result[here, 0], result[here, 1] = macs[:, 0], macs[:, 1]
    return result


def _cipher(key: bytes) -> Callable[[bytes], bytes]:
    """AES-256 on each block of 16 bytes by itself: what CBC-MAC is built of; no message is encrypted with it."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(check_key(key)), modes.ECB()).encryptor().update  # noqa: S305


def _mac(content: bytes, starts: Integers, sizes: Integers, blocks: int, encrypt: Callable[[bytes], bytes]) -> Digests:
    """Return the CBC-MAC of ids that all take the same number of blocks after the first."""
    if blocks == 0:
        head = _cut(content, starts, 1 + sizes, _BLOCK)
        head.view(np.uint8)[:, 0] = sizes
        return _words(encrypt(head.tobytes()))
    state = np.empty((sizes.size, 2), dtype=np.uint64)
    state[:, 0], state[:, 1] = _LONG, sizes
    state = _words(encrypt(state.tobytes())).copy()
    words = _cut(content, 1 + starts, sizes, blocks * _BLOCK)
    for word in range(0, 2 * blocks, 2):
        for half in (0, 1):  # a column at a time: numpy is slow at rows of two
            state[:, half] ^= words[:, word + half]
        state = _words(encrypt(state.tobytes())).copy()
    return state


def _cut(content: bytes, starts: Integers, sizes: Integers, width: int) -> npt.NDArray[np.uint64]:
    """Return pieces of a content as words, one piece a row, each with zeros behind it up to the width in bytes."""
    # Every piece that there is, as one item that is copied whole: several times as fast as by its bytes.
    every = np.ndarray(len(content) - width + 1, dtype=f"V{width}", buffer=content, strides=(1,))
    words: npt.NDArray[np.uint64] = every[starts].view(f"{width // 8}u8")
    for word in range(sizes.min() // 8, width // 8):  # every piece fills the words before
        words[:, word] &= _FIRST.take(sizes - 8 * word, mode="clip")
    return words


def _words(data: bytes) -> Digests:
    return np.frombuffer(data, dtype="2u8")


def extend(names: Digests, content: Digests, key: bytes) -> Digests:
    """Keyed digests of (user, 128 further bits), for choices that depend on the user's own content alone."""
    return _words(_cipher(key[-KEY_BYTES:])((names ^ content).tobytes()))


def sort_first_bits(names: Digests) -> tuple[npt.NDArray[np.uint64], np.uint64, np.uint64]:
    """Return the first bits of each name with the row's number behind them, as sorted words; and where the number is.

    That is how many of a word's last bits the number takes, and the mask of these.
    """
    words = names[:, 0].copy()
    spare = np.uint64(max(1, words.size - 1).bit_length())
    mask = (np.uint64(1) << spare) - np.uint64(1)
    words &= ~mask
    words |= np.arange(words.size, dtype=np.uint64)
    words.sort()
    return words, spare, mask


def by_first_half(names: Digests) -> Integers:
    """Return the order of rows by the first half of their names; rows that agree in it stay as they are.

    >>> by_first_half(np.array([[2, 5], [1, 1], [2, 4]], dtype=np.uint64)).tolist()
    [1, 0, 2]
    """
    words, spare, mask = sort_first_bits(names)
    order = (words & mask).view(np.int64)
    words >>= spare
    alike = words[1:] == words[:-1]
    if alike.any():  # rows that agree in their first bits are put in order among themselves
        near = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        order[near] = order[near][np.argsort(names[order[near], 0], kind="stable")]
    return order


def by_name(names: Digests, then: Integers) -> Integers:
    """Return the order of rows by name and, for one name, by a whole number from 0 on: `np.lexsort`, but faster.

    Should two different names agree in their first bits, which is rare, all columns are sorted one after the other.

    >>> by_name(np.array([[2, 5], [1, 1], [2, 5]], dtype=np.uint64), np.array([1, 0, 0])).tolist()
    [1, 2, 0]
    """
    size = len(names)
    words, spare, mask = sort_first_bits(names)
    order = (words & mask).astype(np.int64)
    sorted_names, first = names.take(order, axis=0), words >> spare
    new = (sorted_names[1:, 0] != sorted_names[:-1, 0]) | (sorted_names[1:, 1] != sorted_names[:-1, 1])
    users = np.append(np.zeros(min(1, size), np.int64), np.cumsum(new))
    width = int(then.max(initial=0)) + 1
    if (new & (first[1:] == first[:-1])).any() or size * width >= 1 << (63 - int(spare)):
        return np.lexsort((then, names[:, 1], names[:, 0]))
    words = ((users * width + then[order]).astype(np.uint64) << spare) | np.arange(size, dtype=np.uint64)
    words.sort()
    return order[(words & mask).astype(np.int64)]
