"""`dpi mcp` as an agent's host uses it: a process of its own, and the protocol's own client library."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dpi
from cli_files import ENVIRONMENT, PERIOD, PROGRAM
from serving import running, settings

mcp = pytest.importorskip("mcp", reason="needs mcp (the extra mcp)")
anyio = pytest.importorskip("anyio")

TOOLS = ["streams", "ask", "series", "movers", "compare", "verify", "promise"]


def talk(words, calls):
    """What a server says to some calls, and the tools that it lists, by the client of the protocol's own library."""

    async def session():
        here = mcp.StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], "mcp", *words], env=ENVIRONMENT)
        async with mcp.Client(here) as client:
            listed = await client.list_tools()
            return listed.tools, [await client.call_tool(tool, given) for tool, given in calls]

    return anyio.run(session)


@pytest.fixture
def public(cli, visits):
    """An export of six hours."""
    cli("run", *visits, *PERIOD, "--store", "visits.db")
    cli("export", "visits.db", "public.db")
    return "public.db"


def test_a_real_client_asks_an_export(cli, public):
    """Every tool over standard input and output; answers are those of `dpi query`, refusals are sentences."""
    calls = [
        ("streams", {}), ("ask", {"question": "top 2"}), ("series", {"values": ["DE"]}), ("movers", {}),
        ("compare", {"first": "2026-01-01T03:00", "end": "2026-01-01T06:00",
                     "before_first": "2026-01-01", "before_end": "2026-01-01T03:00"}),
        ("verify", {}), ("promise", {}), ("ask", {"question": "probability nowhere"}),
    ]  # fmt: skip
    tools, said = talk([public], calls)
    assert [tool.name for tool in tools] == TOOLS
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    *right, wrong = said
    assert not any(each.is_error for each in right)
    found = [json.loads(each.content[0].text) for each in right]
    assert found == [each.structured_content for each in right]
    asked = cli.json("query", public, "top", "2")["answers"][0]
    assert found[1]["answers"][0]["rows"] == asked["rows"]
    with dpi.open(public) as stored:
        assert found[1]["answers"][0]["certificate"] == stored.newest.certificate["digest"]
    assert found[5]["whole"] is True
    assert wrong.is_error
    assert "not in the domain" in wrong.content[0].text
    assert "secret" not in str(said).lower()


def test_an_analysts_token_opens_a_service(tmp_path, monkeypatch):
    """The same tools over HTTP; other roles are refused, and so is a token file that others may read."""
    monkeypatch.chdir(tmp_path)
    with running(tmp_path, settings(per_slot="0.4")) as found:
        found.send([(f"user {number}", 1.0, "home") for number in range(20)], 0)
        found.set(25)
        for role in ("analyst", "curator"):
            Path(role).write_text(found.tokens[role])
            Path(role).chmod(0o600)
        calls = [("streams", {}), ("ask", {"question": "probability home"}), ("verify", {}), ("promise", {})]
        _, said = talk([found.url, "--token-file", "analyst"], calls)
        assert not any(each.is_error for each in said)
        with found.connect("analyst") as service:
            newest = service.stream("visits").newest
        (row,) = said[1].structured_content["answers"][0]["rows"]
        assert row["value"] == newest.probability("home").value
        assert said[1].structured_content["answers"][0]["certificate"] == newest.certificate["digest"]
        assert said[2].structured_content["intact"] is True
        for words, why in (
            ((found.url, "--token-file", "curator"), "token of an analyst alone"),
            ((found.url, "--token-file", "nowhere"), "there is no file"),
            ((found.url,), "which needs one"),
        ):
            done = subprocess.run(
                [*PROGRAM, "mcp", *words], capture_output=True, text=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                check=False, timeout=60,
            )  # fmt: skip
            assert done.returncode == 2
            assert why in done.stderr
            assert done.stdout == ""


def test_a_store_is_not_for_agents(cli, public):
    """Only an export is served: a store holds accounts."""
    assert "agents get an export alone" in cli("mcp", "visits.db", code=2)
    assert "agents get an export alone" in cli("mcp", "nothing.db", code=2)
    assert "which needs one" in cli("mcp", public, "--token-file", "x", code=2)


def test_the_entry_of_a_host_works(cli, public):
    """What `--json` prints is a command that a host can start, from any folder."""
    entry = cli.json("mcp", public, "--json")["mcpServers"]["dpi"]
    assert Path(entry["args"][-1]) == Path(public).absolute()
    assert Path(entry["command"]).is_absolute()


def test_it_ends_when_it_is_asked_to(public):
    """By a signal while it waits for a call, and when its input ends."""
    for end in (lambda p: p.send_signal(signal.SIGTERM), lambda p: p.stdin.close()):
        with subprocess.Popen(
            [*PROGRAM, "mcp", public], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
        ) as process:
            greeting = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            process.stdin.write(json.dumps(greeting).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            end(process)
            assert process.wait(20) in (0, -signal.SIGTERM)


def test_without_the_library_it_says_how_to_get_it(cli, public, monkeypatch):
    """The packages by name."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert "pip install 'mcp" in cli("mcp", public, code=2)
