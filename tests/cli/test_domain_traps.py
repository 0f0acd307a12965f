"""Events that are given as the domain, whose rows would be published as values."""

import os
import subprocess
from pathlib import Path

import pytest

from cli_files import ENVIRONMENT, PERIOD, SECRETS


def refused(cli, *words):
    """What is said to a domain file that may be private: one line, and no store is made."""
    said = cli(*words, code=2)  # the fixture looks for private rows in it
    assert not Path("visits.db").exists()
    return said


def named(visits, domain):
    """The run with another domain."""
    at = visits.index("--domain") + 1
    return [*visits[:at], domain, *visits[at + 1 :]]


def _symlink():
    Path("values.txt").symlink_to("visits.csv")
    return "values.txt"


def _hard_link():
    os.link("visits.csv", "values.txt")
    return "values.txt"


@pytest.mark.parametrize("name", [lambda: "visits.csv", lambda: "./visits.csv", _symlink, _hard_link])
@pytest.mark.parametrize("files", ["visits.csv", "v*.csv"])
def test_the_events_are_no_domain(cli, visits, name, files):
    """A domain file that is one of the inputs is refused, whatever it is called, before it is read as a domain."""
    Path("visits.csv").write_text("user,at,country\n" + "secret-user-1,1,DE\n" * 2)
    said = refused(cli, "run", files, *named(visits, name())[1:], *PERIOD, "--unit", "s", "--store", "visits.db")
    assert "is one of the files of events" in said


def test_nor_are_they_in_a_configuration(cli, visits):
    """The same in `dpi.toml`."""
    Path("dpi.toml").write_text(
        '[run]\nfiles = ["v*.csv"]\ntime = "at"\nvalue = "country"\ndomain = "visits.csv"\nslot = "1h"\nepsilon = 1\n'
        'from = 2026-01-01\nto = 2026-01-02\nstore = "visits.db"\n'
    )
    assert "is one of the files of events" in refused(cli, "run", "--config", "dpi.toml")


def test_nor_when_they_are_compared(cli, visits):
    """The same for `dpi compare`."""
    words = ["noisy", "visits.csv", "--time", "at", "--value", "country", "--domain", "visits.csv", "--slot", "1h"]
    assert "is one of the files of events" in refused(cli, "compare", *words, *PERIOD)


def test_nor_when_they_are_piped_in(cli, visits, warm):
    """Standard input that comes from the domain file is that file."""
    command = [
        *warm,
        "run",
        "-",
        "--config",
        "format=csv",
        *named(visits, "visits.csv")[1:],
        *PERIOD,
        "--store",
        "p.db",
    ]
    with Path("visits.csv").open() as events:
        done = subprocess.run(command, stdin=events, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 2
    assert "is one of the files of events" in done.stderr
    assert not any(secret in done.stderr + done.stdout for secret in SECRETS)


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_a_copy_of_events_is_no_domain(cli, visits, suffix):
    """Lines that look like records are refused wherever a list of values is read; the text holds none of them."""
    if suffix == "csv":
        Path("copy.txt").write_text(Path("visits.csv").read_text())
    else:
        Path("copy.txt").write_text('{"user": "secret-user-1", "country": "SECRET-VALUE"}\n')
    said = refused(cli, "run", *named(visits, "copy.txt"), *PERIOD, "--store", "visits.db")
    assert "look like records" in said
    assert "as-values" in said
    assert "look like records" in refused(cli, "domain", "--list", "copy.txt", "-o", "domain.json")
    assert not Path("domain.json").exists()


def test_who_means_it_can_say_so(cli, visits):
    """`dpi domain --as-values` takes any lines as values, and a JSON domain is never judged."""
    Path("public.txt").write_text("Lamp, black, 4006381333931\nLamp, red, 4006381333948\n")
    assert "look like records" in refused(cli, "run", *named(visits, "public.txt"), *PERIOD, "--store", "visits.db")
    cli("domain", "--list", "public.txt", "--config", "as-values=true", "--other", "elsewhere", "-o", "lamps.json")
    words = [word for word in named(visits, "lamps.json") if word not in ("--other", "elsewhere")]
    cli("run", *words, *PERIOD, "--store", "lamps.db")


def test_a_value_that_is_listed_twice_is_not_shown(cli, visits):
    """A column cut out of the events repeats itself: its lines are named by number."""
    Path("ids.txt").write_text("secret-user-1\nsecret-user-2\n\nsecret-user-1\n")
    said = refused(cli, "run", *named(visits, "ids.txt"), *PERIOD, "--store", "visits.db")
    assert "lines 1 and 4" in said
    assert "lines 1 and 4" in refused(cli, "domain", "--list", "ids.txt")
    Path("more.txt").write_text("secret-user-2\n")
    Path("ids.txt").write_text("secret-user-1\nsecret-user-2\n")
    assert "one stands in two lists" in refused(cli, "domain", "--list", "ids.txt", "--list", "more.txt")
