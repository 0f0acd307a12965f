import hashlib

import pytest
from tlog_scales.tlog import ConsistencyProof, ConsistencyProofInvalid

from dpi.certificates.tree import consistency_proof, leaf_hash, root_hash

LEAVES = [leaf_hash(f"entry {n}") for n in range(70)]
# Leaves, and roots of the first 1 … 8 of them, that the authors of RFC 6962 test their own code with.
PUBLISHED = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_the_tree_is_the_published_one():
    """Roots of the first leaves are those that the format's authors publish."""
    leaves = [hashlib.sha256(b"\0" + bytes.fromhex(leaf)).digest() for leaf in PUBLISHED]
    assert [root_hash(leaves[:size]).hex() for size in range(1, 9)] == ROOTS


@pytest.mark.parametrize("size", range(1, len(LEAVES) + 1))
def test_another_implementation_accepts_every_proof_and_no_other(size):
    """From any size to any later one, a proof holds; with one bit changed, or from another tree, it does not."""
    root = root_hash(LEAVES[:size])
    for old in range(1, size + 1):
        proof, before = consistency_proof(LEAVES[:size], old), root_hash(LEAVES[:old])
        ConsistencyProof(old, size, proof).check(before, root)
        assert len(proof) <= 63
        other = root_hash([*LEAVES[: old - 1], leaf_hash("rewritten")])
        with pytest.raises(ConsistencyProofInvalid):
            ConsistencyProof(old, size, proof).check(other, root)
        for place, each in enumerate(proof):
            wrong = [*proof[:place], bytes([each[0] ^ 1]) + each[1:], *proof[place + 1 :]]
            with pytest.raises(ConsistencyProofInvalid):
                ConsistencyProof(old, size, wrong).check(before, root)


def test_a_proof_is_of_a_beginning():
    """There is none from a longer tree, and none is needed from nothing."""
    assert consistency_proof(LEAVES, 0) == []
    for old in (-1, len(LEAVES) + 1):
        with pytest.raises(ValueError, match="beginning"):
            consistency_proof(LEAVES, old)
