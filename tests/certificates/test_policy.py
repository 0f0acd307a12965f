import pytest

from dpi.certificates.notes import Checkpoint
from dpi.certificates.policy import Policy
from dpi.errors import OptionError
from public_checkpoint import LOG, PUBLIC, WITNESSES

KEYS = [f"witness {name} {key}" for name, key in zip("ABCD", WITNESSES, strict=True)]


def policy(*lines):
    """A policy of these lines after the keys of a public log and four witnesses."""
    return Policy.from_text("\n".join(["# a comment", "", f"log {LOG}", *KEYS, *lines]))


@pytest.mark.parametrize(
    ("lines", "cosigned", "reached"),
    [
        (["quorum none"], "", True),
        (["quorum A"], "A", True),
        (["quorum A"], "BCD", False),
        (["group g any A B", "quorum g"], "B", True),
        (["group g any A B", "quorum g"], "CD", False),
        (["group g all A B", "quorum g"], "A", False),
        (["group g 2 A B C", "quorum g"], "AC", True),
        (["group x 2 A B C", "group g all x D", "quorum g"], "ABC", False),
        (["group x 2 A B C", "group g all x D", "quorum g"], "BCD", True),
        (["  group\tg  any   A ", "# x", "quorum g"], "A", True),
    ],
)
def test_the_quorum_decides(lines, cosigned, reached):
    """Witnesses, groups and groups of groups, each counted once."""
    assert policy(*lines).reached(dict.fromkeys(cosigned, 1)) is reached


def test_a_public_checkpoint_by_its_policy():
    """Its log has signed it and all four have cosigned it; a log of another name has not."""
    found = policy("quorum A")
    assert found.origin_signed(Checkpoint.from_note(PUBLIC))
    assert [*found.cosigned(Checkpoint.from_note(PUBLIC))] == [*"ABCD"]
    assert not found.origin_signed(Checkpoint.from_note(PUBLIC.replace("arche2025h1", "other", 1)))


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["quorum E"],
        ["quorum A", "quorum B"],
        ["quorum A B"],
        ["group g 3 A B", "quorum g"],
        ["group g 0 A B", "quorum g"],
        ["group g 01 A B", "quorum g"],
        ["group g any", "quorum g"],
        ["group g any A A", "quorum g"],
        ["group g any A", "group h any A", "quorum g"],
        ["group g any h", "group h any A", "quorum g"],
        ["group A any B", "quorum A"],
        ["group none any A", "quorum none"],
        ["group g any none", "quorum g"],
        [f"witness E {WITNESSES[0]}", "quorum A"],
        [f"witness A {LOG}", "quorum A"],
        [f"witness E {LOG}", "quorum A"],
        [f"log {WITNESSES[0]}", "quorum A"],
        [f"log {LOG}", "quorum A"],
        ["log", "quorum A"],
        ["witness E nonsense", "quorum A"],
        ["Quorum A"],
    ],
)
def test_what_is_no_policy_is_refused(lines):
    """One way to be malformed each."""
    with pytest.raises(OptionError):
        policy(*lines)
