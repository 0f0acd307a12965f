"""What Spark needs, and what is said where it is not there."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from dpi.errors import OptionError, StateError, StoreError
from dpi_spark.session import MISSING, check_protected, installed, java, session
from dpi_spark.tasks import Guarded, Refused, failed, told


def program(folder: Path, says: str) -> None:
    """A `java` that says which version it is, as Java does: on standard error."""
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)


def test_no_java_is_said_in_a_sentence(monkeypatch, tmp_path):
    """Before a session is made, with what to do."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OptionError, match=r"needs Java 17 or later: there is no `java` on the PATH\.$"):
        java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OptionError, match=r"JAVA_HOME is .*, and has no bin/java\.$"):
        java()


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "Got 11."),
        ('java version "1.8.0_301"', "Got 8."),
        ("I am no Java", "Got a program that is no Java."),
    ],
)
def test_another_java_is_refused(says, told, monkeypatch, tmp_path):
    """Spark's own error would be a stack of class names."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    program(tmp_path, says)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(OptionError) as caught:
        java()
    assert str(caught.value).endswith(told)


def test_a_java_that_is_new_enough_is_taken(monkeypatch, tmp_path):
    """Also one that is newer than any there is."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    program(tmp_path, 'openjdk version "25" 2025-09-16')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert java() == 25


def test_spark_that_is_not_installed_is_said_in_a_sentence(monkeypatch):
    """What to install."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(OptionError, match="install dpi-streams-spark") as caught:
        installed()
    assert str(caught.value) == MISSING


def test_a_session_of_ours_encrypts_and_shows_nothing(running):
    """Shuffle, spill and wire are encrypted, there is no page, and no key of a store is in its settings."""
    conf = dict(running.sparkContext.getConf().getAll())
    assert conf["spark.io.encryption.enabled"] == "true"
    assert conf["spark.network.crypto.enabled"] == conf["spark.authenticate"] == "true"
    assert conf["spark.ui.enabled"] == conf["spark.eventLog.enabled"] == "false"
    assert running.sparkContext.uiWebUrl is None
    check_protected(running)
    assert session() is running


class Plain:
    """A session that somebody else has made, without encryption."""

    def __init__(self, master: str) -> None:
        self.master, self.sparkContext = master, self

    def getConf(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Its settings."""
        return {"spark.authenticate": "true"}


@pytest.mark.parametrize(
    ("master", "settings"),
    [("local[2]", "spark.io.encryption.enabled to"), ("yarn", "spark.io.encryption.enabled, spark.network.crypto")],
)
def test_a_session_in_the_clear_is_refused(master, settings):
    """With the settings that it lacks; whoever encrypts otherwise says so by name."""
    with pytest.raises(OptionError, match=settings) as caught:
        check_protected(Plain(master))
    assert caught.value.option == "unencrypted"


def test_a_task_says_nothing_of_what_it_was_given():
    """A text that another library wrote may quote a row: its kind is all that leaves the task."""

    def poisoned(row: str) -> None:
        raise ValueError(f"cannot read {row}")

    with pytest.raises(RuntimeError, match="failed with ValueError") as caught:
        Guarded(poisoned)("ada@example.org")
    assert "ada" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_refusal_is_raised_by_the_driver():
    """Trying again would not change it, so that it is a result, and the sentence is that of the task."""

    def refuse(_: int) -> None:
        raise StateError("a bucket file is missing.")

    result = pickle.loads(pickle.dumps(Guarded(refuse)(0)))  # noqa: S301 - our own
    assert result == Refused("StateError", "a bucket file is missing.")
    with pytest.raises(StateError, match=r"^a bucket file is missing\.$"):
        told([1, result])


def test_workers_with_another_version_are_refused():
    """The slot job of another version might count otherwise."""
    result = Guarded(len, version="0.0.0")("")
    assert isinstance(result, Refused)
    with pytest.raises(OptionError, match=r"its driver has 0\.0\.0"):
        told([result])


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("[PYTHON_VERSION_MISMATCH] Python in worker …", OptionError, "another Python"),
        ('java.io.IOException: Cannot run program "/no/python"', OptionError, "no Python at PYSPARK_PYTHON"),
        ("ModuleNotFoundError: No module named 'dpi'", OptionError, "lack dpi"),
        ("Job aborted: value 'ada@example.org' in row 7", StoreError, "gave up"),
    ],
)
def test_what_spark_says_is_not_repeated(text, kind, says):
    """One sentence of ours, and nothing of a text that may quote rows."""
    error = failed(RuntimeError(text))
    assert type(error) is kind
    assert says in str(error)
    assert "ada" not in str(error)
