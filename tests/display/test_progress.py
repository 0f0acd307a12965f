import io
import sys
import types
from pathlib import Path

import pytest

import dpi
from dpi.display.progress import Meter
from dpi.noise import UnsafeSeededSource

PERIOD = {"start": "2026-01-01T00:00", "end": "2026-01-01T04:00"}
DOMAIN = dpi.Categories(["a", "b"], other=None)


def stream():
    """A small hourly stream with a reproducible source."""
    budget = dpi.Ledger(per_slot=0.1)
    return dpi.Stream(domain=DOMAIN, epsilon=1, slot="1h", budget=budget, unsafe_source=UnsafeSeededSource(1))


def events(users=17):
    """Rows of two hours."""
    rows = [(f"u{u}", f"2026-01-01T{h:02}:10:00", "ab"[u % 2]) for h in range(2) for u in range(users)]
    return dict(zip(("user", "time", "value"), map(list, zip(*rows, strict=True)), strict=True))


def file(folder: Path, users=17):
    """The same rows in a file."""
    lines = ["user,time,value", *(",".join(row) for row in zip(*events(users).values(), strict=True))]
    (folder / "events.csv").write_text("\n".join(lines) + "\n")
    return dpi.read(folder / "events.csv")


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self):
        """It is one."""
        return True


class Handle:
    """What a notebook gives for a picture: remembers each text and each HTML that it is replaced by."""

    def __init__(self):
        self.texts, self.html = [], []

    def update(self, shown):
        """Another picture."""
        self.texts.append(repr(shown))
        self.html.append(shown._repr_html_())


@pytest.fixture
def notebook(monkeypatch):
    """A made-up notebook: IPython with a kernel, and no widgets."""
    handle = Handle()
    display = types.ModuleType("IPython.display")

    def show(shown, *, display_id):
        assert display_id
        handle.update(shown)
        return handle

    display.display = show
    module = types.ModuleType("IPython")
    module.get_ipython, module.display = lambda: types.SimpleNamespace(kernel=object()), display
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    return handle


@pytest.mark.parametrize("asked", [{}, {"progress": False}], ids=["by default", "off"])
def test_nothing_is_shown_unless_asked(asked, notebook, monkeypatch):
    """Neither a notebook nor a terminal gets a character."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    list(stream().replay(events(), **PERIOD, **asked))
    assert notebook.texts == []
    assert sys.stderr.getvalue() == ""


def test_a_notebook_shows_one_line_that_is_replaced(notebook, tmp_path):
    """It begins with nothing and ends with all bytes and all slots, without widgets."""
    events = file(tmp_path)
    list(stream().replay(events, **PERIOD, progress=True))
    assert notebook.texts[0] == "0 of 4 slots released"
    assert notebook.texts[-1].endswith("MB read, 4 of 4 slots released")
    assert "width:100.0%" in notebook.html[-1]


def test_a_terminal_shows_bars_and_is_left_clean(monkeypatch, tmp_path):
    """Bars are drawn on standard error while it lasts, and taken away at the end."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    list(stream().replay(file(tmp_path), **PERIOD, progress=True))
    assert "slots released" in sys.stderr.getvalue()
    assert sys.stderr.getvalue().rstrip("\n").endswith("\x1b[2K"), "the line is erased"


def test_a_file_of_logs_gets_nothing(monkeypatch):
    """Where nobody looks, nothing is written."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    list(stream().replay(events(), **PERIOD, progress=True))
    assert sys.stderr.getvalue() == ""


def test_releases_are_the_same_with_and_without(notebook):
    """What is shown changes nothing that is released."""
    plain, shown = (list(stream().replay(events(), **PERIOD, progress=on)) for on in (False, True))
    assert [release.to_json() for release in plain] == [release.to_json() for release in shown]


def test_how_many_rows_there_are_is_not_shown(notebook):
    """Tables with any number of rows show the same texts: slots alone, whatever is in them."""
    shown = []
    for users in (1, 400):
        notebook.texts.clear()
        list(stream().replay(events(users), **PERIOD, progress=True))
        shown.append({notebook.texts[0], notebook.texts[-1]})
    assert shown[0] == shown[1] == {"0 of 4 slots released", "4 of 4 slots released"}


def test_a_replay_that_is_left_ends_what_is_shown(notebook):
    """The last picture tells how far it came, and the slots after it are not released."""
    opened = stream()
    replay = opened.replay(events(), **PERIOD, progress=True)
    next(replay)
    replay.close()
    assert notebook.texts[-1] == "1 of 4 slots released"
    assert opened.released(opened.next_slot - 1)


def test_the_bar_is_full_when_everything_is_over():
    """Bytes fill it until the first slot, slots from then on; no more than all of it."""
    meter = Meter(100, 4)
    assert meter.part == 0
    meter.read(50)
    assert meter.part == 0.5
    meter.read(130)
    assert meter.part == 1
    meter.released(1)
    assert meter.part == 0.25
    assert Meter(0, 0).part == 0
