"""A chain that goes on under a new key, and what somebody can do who has stolen the old one."""

import pytest

import dpi
from dpi.certificates.signature import Signer, Verifier
from dpi.errors import OptionError
from dpi.verification import verify
from dpi.verification.releases import verify_releases


def released(store, signer, slots=2):
    """Some slots of one stream, signed."""
    stream = dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, store=store, signer=signer)
    return [stream.release(["u"], ["a"]) for _ in range(slots)]


@pytest.fixture
def keys(cli):
    """An old key and a new one, as the command makes them."""
    cli("keys", "old.pem")
    cli("keys", "new.pem", "--after", "old.pub")
    return Signer.open("old.pem"), Signer.open("new.pem")


def test_a_chain_goes_on_under_a_new_key(keys):
    """Readers of the new file of keys accept both parts; those of the old one see where it changed."""
    old, new = keys
    store = dpi.MemoryStore()
    releases = [*released(store, old), *released(store, new)]
    ring = Verifier.open("new.pub")
    assert verify(store, verifier=ring).intact
    assert verify(store, verifier=ring).signed is True
    assert verify_releases(releases, verifier=ring).intact
    assert verify(store, verifier=old.verifier).problems == tuple(
        f"entry {number} has no valid signature of this key" for number in (3, 4)
    )


def test_who_stole_the_old_key_makes_no_chain_that_the_new_file_accepts(keys):
    """Neither one that ends before the new key, nor one that goes on after it."""
    old, new = keys
    ring, forged, continued = Verifier.open("new.pub"), dpi.MemoryStore(), dpi.MemoryStore()
    released(forged, old)
    assert verify(forged, verifier=ring).problems == ("entry 2 is the last, and not signed with the newest key",)
    released(continued, old)
    released(continued, new)
    released(continued, old)
    found = verify(continued, verifier=ring)
    assert found.problems == tuple(f"entry {number} has no valid signature of this key" for number in (5, 6))
    assert found.signed is False
    assert not verify_releases(released(continued, new) + released(continued, old), verifier=ring).intact


def test_a_file_of_keys_has_one_fingerprint(keys):
    """Of one key it is as before; the order counts."""
    old, new = keys
    ring = Verifier.open("new.pub")
    assert new.verifier.fingerprint == ring.fingerprint
    assert Verifier(old.verifier.key).fingerprint == old.verifier.fingerprint
    turned = Verifier(old.verifier.key, (new.verifier.key,))
    assert len({turned.fingerprint, ring.fingerprint, old.verifier.fingerprint}) == 3
    assert Verifier.from_pem(ring.pem().encode()).pem() == ring.pem()


def test_a_private_key_knows_its_own_file_alone(keys, tmp_path):
    """A file of public keys beside it that is another's changes nothing."""
    old, new = keys
    assert [key.public_bytes_raw() for key in new.older] == [old.verifier.key.public_bytes_raw()]
    (tmp_path / "old.pub").write_text(new.verifier.pem())
    assert Signer.open(tmp_path / "old.pem").older == ()


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_file_of_keys_is_refused(cli, text, tmp_path):
    """Nothing is made then."""
    (tmp_path / "bad.pub").write_text(text)
    with pytest.raises(OptionError, match="no public key"):
        Verifier.open(tmp_path / "bad.pub")
    cli("keys", "new.pem", "--after", "bad.pub", code=2)
    assert not (tmp_path / "new.pem").exists()


def test_a_third_key_follows(cli, keys):
    """All keys are kept, in order."""
    cli("keys", "third.pem", "--after", "new.pub")
    third = Verifier.open("third.pub")
    assert len(third.keys) == 3
    assert third.pem().startswith(Verifier.open("new.pub").pem())
