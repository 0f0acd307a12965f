"""Signed notes: what public witnesses have signed is read, and what we sign is read by a program that is not ours."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlog_scales.signing import Vkey
from tlog_scales.tlog import Checkpoint as TheirCheckpoint

from dpi.certificates.notes import COSIGNED, Checkpoint, NoteKey, log_key, signatures_in
from dpi.certificates.policy import Policy
from dpi.certificates.signature import Signer
from dpi.errors import OptionError
from public_checkpoint import LOG, PUBLIC, WITNESSES


@pytest.fixture
def signer(tmp_path):
    """A key of this test."""
    return Signer.open(tmp_path / "signing.pem")


def test_what_public_witnesses_signed_is_read():
    """The log and four witnesses have signed; a note is written again byte for byte."""
    read = Checkpoint.from_note(PUBLIC)
    assert (read.origin, read.size, read.note) == ("arche2025h1.staging.ct.transparency.dev", 1432088532, PUBLIC)
    assert read.time_signed(NoteKey.from_text(LOG)) == 0
    assert [read.time_signed(NoteKey.from_text(key)) for key in WITNESSES] == [1779573024] * 4


@pytest.mark.parametrize("key", [LOG, *WITNESSES])
def test_nobody_has_signed_another_text(key):
    """Another size, another root, another origin: no signature holds."""
    for old, new in (
        ("1432088532", "1432088533"),
        ("U7WM", "U7WN"),
        ("arche2025h1.staging.ct.", "brche2025h1.staging.ct."),
    ):
        changed = Checkpoint.from_note(PUBLIC.replace(old, new, 1))
        assert changed.time_signed(NoteKey.from_text(key)) is None


def test_a_second_wrong_signature_in_a_name_counts_as_none():
    """Who adds a line with a known key's name and number spoils it, as the format asks."""
    read, key = Checkpoint.from_note(PUBLIC), NoteKey.from_text(WITNESSES[2])
    assert read.joined([(key.name, key.number, bytes(72))]).time_signed(key) is None


def test_keys_are_written_as_they_are_read():
    """One word each; what is no such key is refused."""
    for text in (LOG, *WITNESSES):
        assert NoteKey.from_text(text).text == text
    wrong = [
        "", "a", "a+b", "a b+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", LOG.replace("ba2f", "ba2e"),
        LOG + "=", LOG[:-4], LOG.replace("+AU0v", "+BU0v"), "example.com+12345678+AwEB",
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(OptionError):
            NoteKey.from_text(text)


def test_what_we_sign_another_program_reads(signer):
    """Their reader finds the same text, and accepts our signature as it does its own."""
    made = Checkpoint.of_chain("example.com/visits", 7, bytes(range(32))).signed(signer)
    theirs = TheirCheckpoint.from_text(made.note)
    theirs.verify(Vkey.from_string(log_key("example.com/visits", signer).text))
    assert (theirs.serialize(), theirs.size, theirs.root_hash) == (made.note, 7, bytes(range(32)))


def test_a_time_is_part_of_what_a_witness_signs(signer):
    """With another time, the signature does not hold."""
    made, now = Checkpoint.of_chain("example.com/visits", 7, bytes(32)), int(time.time())
    key = NoteKey("w", COSIGNED, signer.key.public_key().public_bytes_raw())
    raw = signer.key.sign(f"cosignature/v1\ntime {now}\n{made.text}".encode())
    assert made.joined([("w", key.number, now.to_bytes(8) + raw)]).time_signed(key) == now
    assert made.joined([("w", key.number, (now + 1).to_bytes(8) + raw)]).time_signed(key) is None
    assert made.joined([("w", key.number, (1 << 63).to_bytes(8) + raw)]).time_signed(key) is None
    assert made.joined([("w", key.number, raw)]).time_signed(key) is None


MALFORMED = {
    "empty": "",
    "no signature": PUBLIC.partition("\n\n")[0] + "\n\n",
    "no empty line": PUBLIC.replace("\n\n", "\n"),
    "no end of line": PUBLIC[:-1],
    "two lines": "origin\n7\n\n" + PUBLIC.partition("\n\n")[2],
    "a size with a zero before it": PUBLIC.replace("1432088532", "01432088532"),
    "a negative size": PUBLIC.replace("1432088532", "-1"),
    "a size in other digits": PUBLIC.replace("1432088532", "١٢"),
    "a short root": PUBLIC.replace("U7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=", "U7WM"),
    "a root that is no base 64": PUBLIC.replace("U7WM", "U7W!"),
    "a root with loose bits": PUBLIC.replace("C4Ro=", "C4Rp="),
    "a control character": PUBLIC.replace("1432088532", "1432088532\r"),
    "a hyphen": PUBLIC.replace("— remora", "- remora"),
    "two spaces": PUBLIC.replace("— remora", "—  remora"),
    "a signature of four bytes": PUBLIC + "— a AAAAAA==\n",
    "a word behind a signature": PUBLIC[:-1] + " x\n",
    "more signatures than are read": PUBLIC + "— a AAAAAAA=\n" * 100,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_checkpoint_is_refused(name):
    """One way to be malformed each."""
    with pytest.raises(OptionError, match="no checkpoint"):
        Checkpoint.from_note(MALFORMED[name])


@pytest.mark.parametrize("origin", ["", "a b", "a+b", "a\nb", "a\tb", "a\u00a0b"])
def test_an_origin_is_one_word(origin):
    """Neither space nor + nor a line end."""
    with pytest.raises(OptionError, match="origin"):
        Checkpoint.of_chain(origin, 1, bytes(32))


def test_an_answer_is_lines_of_signatures():
    """Nothing else is taken for one."""
    lines = PUBLIC.partition("\n\n")[2]
    assert len(signatures_in(lines)) == 6
    for text in ("", "\n", "OK\n", lines[:-1], lines + "x\n"):
        with pytest.raises(OptionError):
            signatures_in(text)


PIECES = st.sampled_from(
    [*PUBLIC.splitlines(keepends=True), "\n", "— ", "+", " ", "x", LOG, *WITNESSES, "old 0\n", "\r", "\0"]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join))
def test_any_text_is_read_or_refused_in_a_sentence(text):
    """Whatever a file or a witness says: a checkpoint that is written as it was read, or an error of this program."""
    for read in (Checkpoint.from_note, NoteKey.from_text, signatures_in, Policy.from_text):
        try:
            found = read(text)
        except OptionError:
            continue
        if isinstance(found, Checkpoint):
            assert found.note == text
            assert found.size >= 0
            assert len(found.root) == 32
        if isinstance(found, NoteKey):
            assert found.text == text
