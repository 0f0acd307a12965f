"""Checkpoints and proofs beside Go's own `note` and `tlog`, the packages that the formats come from."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dpi.certificates.notes import Checkpoint, log_key
from dpi.certificates.signature import Signer
from dpi.certificates.tree import consistency_proof, leaf_hash, root_hash

MAIN = """package main

import (
	"check/note"
	"check/tlog"
	"encoding/json"
	"fmt"
	"os"
)

type proof struct {
	Old, New         int64
	OldRoot, NewRoot tlog.Hash
	Proof            []tlog.Hash
}

func main() {
	var given struct {
		Note, Key string
		Texts     []string
		Root      tlog.Hash
		Proofs    []proof
	}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	key, err := note.NewVerifier(given.Key)
	if err != nil {
		panic(err)
	}
	opened, err := note.Open([]byte(given.Note), note.VerifierList(key))
	if err != nil {
		panic(err)
	}
	tree, err := tlog.ParseTree([]byte("go.sum database tree\\n" + opened.Text[len("example.com/visits\\n"):]))
	if err != nil {
		panic(err)
	}
	if tree.N != int64(len(given.Texts)) || tree.Hash != given.Root {
		panic("another tree")
	}
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(places []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(places))
		for i, place := range places {
			found[i] = hashes[place]
		}
		return found, nil
	})
	for n, text := range given.Texts {
		more, err := tlog.StoredHashes(int64(n), []byte(text), reader)
		if err != nil {
			panic(err)
		}
		hashes = append(hashes, more...)
	}
	root, err := tlog.TreeHash(int64(len(given.Texts)), reader)
	if err != nil || root != given.Root {
		panic("another root")
	}
	wrong := 0
	for _, each := range given.Proofs {
		proof := tlog.TreeProof(each.Proof)
		if err := tlog.CheckTree(proof, each.New, each.NewRoot, each.Old, each.OldRoot); err != nil {
			panic(err)
		}
		each.OldRoot[0] ^= 1
		if tlog.CheckTree(proof, each.New, each.NewRoot, each.Old, each.OldRoot) != nil {
			wrong++
		}
	}
	fmt.Println(len(given.Proofs), wrong)
}
"""


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    """A Go, and a module with the two packages that its own command is built with."""
    program = shutil.which("go")
    if program is None or not os.environ.get("DPI_SLOW"):
        pytest.skip("a Go program is built, which takes half a minute: `DPI_SLOW=1`, and Go")
    root = Path(subprocess.run([program, "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip())
    packages = root / "src" / "cmd" / "vendor" / "golang.org" / "x" / "mod" / "sumdb"
    folder = tmp_path_factory.mktemp("check")
    for name in ("note", "tlog"):
        shutil.copytree(packages / name, folder / name)
    (folder / "go.mod").write_text("module check\n\ngo 1.22\n")
    (folder / "main.go").write_text(MAIN)
    subprocess.run([program, "build", "-o", "checker", "."], cwd=folder, check=True, capture_output=True)
    return folder / "checker"


def test_go_reads_what_we_sign_and_prove(go, tmp_path):
    """The note, the root of its tree, and every proof between two of 40 sizes; none with a bit changed."""
    signer = Signer.open(tmp_path / "signing.pem")
    texts = [f'{{"entry":{number},"text":"ä"}}' for number in range(40)]
    leaves = [leaf_hash(text) for text in texts]
    made = Checkpoint.of_chain("example.com/visits", len(leaves), root_hash(leaves)).signed(signer)
    sizes = [(old, new) for new in range(1, len(leaves) + 1) for old in range(1, new + 1)]
    given = {
        "Note": made.note,
        "Key": log_key("example.com/visits", signer).text,
        "Texts": texts,
        "Root": _text(root_hash(leaves)),
        "Proofs": [
            {
                "Old": old,
                "New": new,
                "OldRoot": _text(root_hash(leaves[:old])),
                "NewRoot": _text(root_hash(leaves[:new])),
                "Proof": [_text(each) for each in consistency_proof(leaves[:new], old)],
            }
            for old, new in sizes
        ],
    }
    done = subprocess.run([go], input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(sizes)} {len(sizes)}\n"


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
