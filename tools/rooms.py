"""Draws the rooms of the house from what modules really import: docs/images/rooms.svg.

    python tools/rooms.py            # write it (`make picture`)
    python tools/rooms.py --check    # fail if it is not up to date

A room is what lies directly in src/dpi, or one of the further packages. Its height is its layer in the import contracts
of pyproject.toml. An arrow goes from a room to one that it imports; one that follows from others (A → B → C makes
A → C) is left out, so that a reader can follow the rest with a finger.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "rooms.svg"

FURTHER = ("dpi_audit", "dpi_research", "dpi_spark")
WIDTH, ROW, MARGIN, BOX = 1000, 78, 24, 30
LETTER = 8.2
"""Width of a letter at the size of the labels, a little more than it needs."""
SWEEPS = 24
"""Times that rows are sorted by their neighbours; more change nothing."""

Arrows = dict[str, set[str]]
STYLE = """
  text { font: 14px ui-sans-serif, system-ui, sans-serif; fill: #1f2933; text-anchor: middle }
  rect { fill: #ffffff; stroke: #52606d; rx: 6 }
  .band { fill: #f0f4f8; stroke: none }
  .further rect { fill: #fdf3d7 }
  path { fill: none; stroke: #627d98; stroke-width: 1.3; opacity: .75 }
  marker path { fill: #627d98; stroke: none; opacity: 1 }
"""


def layers() -> list[list[str]]:
    """Return the rooms by the import contract, the highest layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (packages,) = [one for one in contracts if one.get("layers", [""])[-1] == "dpi"]
    (core,) = [one for one in contracts if one.get("containers") == ["dpi"]]
    return [[room.strip() for room in layer.split("|")] for layer in [*packages["layers"][:-1], *core["layers"]]]


def room(module: str) -> str:
    """Return the room of a module: its package, or in the core what lies directly in it."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "dpi" else package


def imports() -> Arrows:
    """Which rooms each room imports from, by its modules' own import statements."""
    graph = grimp.build_graph("dpi", *FURTHER, include_external_packages=False, cache_dir=None)
    seen: Arrows = {room(module): set() for module in graph.modules}
    for module in graph.modules:
        seen[room(module)] |= {room(imported) for imported in graph.find_modules_directly_imported_by(module)}
    outside = {"", "__main__"}  # the package itself, and a door to `cli`
    return {name: others - {name} - outside for name, others in seen.items() if name not in outside}


def reduced(arrows: Arrows) -> Arrows:
    """Without the arrows that follow from others."""

    def reach(rooms: Iterable[str]) -> set[str]:
        reached: set[str] = set()
        for room in rooms:
            reached |= arrows[room] | reach(arrows[room])
        return reached

    return {room: others - reach(others) for room, others in arrows.items()}


class Drawing:
    """Rooms in rows. An arrow over several rows bends at a place of its own in each of them."""

    def __init__(self, rows: list[list[str]], arrows: Arrows) -> None:
        height = {room: number for number, row in enumerate(rows) for room in row}
        self.rooms, self.rows = set(height), [list(row) for row in rows]
        self.paths: list[list[str]] = []
        for room in sorted(arrows, key=lambda room: (height[room], room)):
            for other in sorted(arrows[room]):
                bends = [f"{room} → {other} {row}" for row in range(height[room] + 1, height[other])]
                for row, bend in enumerate(bends, height[room] + 1):
                    self.rows[row].append(bend)
                self.paths.append([room, *bends, other])
        self.neighbours: Arrows = {place: set() for row in self.rows for place in row}
        for path in self.paths:
            for one, other in pairwise(path):
                self.neighbours[one].add(other)
                self.neighbours[other].add(one)
        self.across: dict[str, float] = {}
        self._arrange()

    def _width(self, place: str) -> float:
        return LETTER * len(place) + 22 if place in self.rooms else 16

    def _arrange(self) -> None:
        """Sort rows again and again by the mean place of their neighbours in the rows beside them."""
        for row in self.rows:
            self._spread(row)
        numbers = [*range(len(self.rows)), *reversed(range(len(self.rows)))]
        for _ in range(SWEEPS):
            for number in numbers:
                row = self.rows[number]
                row.sort(key=lambda place: (round(self._middle(place), 3), place))
                self._spread(row)

    def _middle(self, place: str) -> float:
        beside = self.neighbours[place]
        return sum(self.across[one] for one in beside) / len(beside) if beside else self.across[place]

    def _spread(self, row: list[str]) -> None:
        """Share the row's width out, so that gaps are equal."""
        gap = (WIDTH - 2 * MARGIN - sum(map(self._width, row))) / (len(row) + 1)
        left = MARGIN + gap
        for place in row:
            self.across[place] = left + self._width(place) / 2
            left += self._width(place) + gap

    def svg(self) -> str:
        """Return the picture."""
        height = ROW * len(self.rows) + MARGIN
        down = {place: MARGIN + ROW * number for number, row in enumerate(self.rows) for place in row}
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-label="The packages of dpi in their layers; arrows are imports">',
            f"<style>{STYLE}</style>",
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 8 4 0 8z"/></marker>',
            f'<rect class="band" x="0" y="0" width="{WIDTH}" height="{height}" rx="0"/>',
        ]
        parts += [f'<path d="{self._curve(path, down)}" marker-end="url(#tip)"/>' for path in self.paths]
        for room in sorted(self.rooms, key=lambda room: (down[room], self.across[room])):
            width, x, y = self._width(room), self.across[room], down[room]
            wall = ' class="further"' if room in FURTHER else ""
            parts.append(
                f'<g{wall}><rect x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{BOX}"/>'
                f'<text x="{x:.0f}" y="{y + 20}">{escape(room)}</text></g>'
            )
        return "\n".join([*parts, "</svg>", ""])

    def _curve(self, path: list[str], down: dict[str, int]) -> str:
        """From the lower edge of a room to the upper edge of another, upright at every bend."""
        points = [(self.across[place], down[place] + BOX / 2) for place in path]
        points[0] = (points[0][0], points[0][1] + BOX / 2)
        points[-1] = (points[-1][0], points[-1][1] - BOX / 2 - 1)
        text = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x, y), (to_x, to_y) in pairwise(points):
            middle = (to_y - y) / 2
            text += f" C{x:.0f} {y + middle:.0f} {to_x:.0f} {to_y - middle:.0f} {to_x:.0f} {to_y:.0f}"
        return text


def main() -> int:
    """Write the picture, or check it."""
    picture = Drawing(layers(), reduced(imports())).svg()
    if "--check" not in sys.argv:
        PICTURE.write_text(picture, encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text("utf-8") != picture:
        print(f"{PICTURE.relative_to(ROOT)} is not what modules import by now: run `make picture`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
