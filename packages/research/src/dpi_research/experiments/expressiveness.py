"""What a public pool of synopses can say (published: Figure "information theory of 0-DP synopsis generation")."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from dpi.mechanism.published.pool import DirichletPool, MixedPool, Multinomial, Pool, expressiveness, nearest
from dpi.theory import entropy_approximation
from dpi_research.datasets.generators import zipf
from dpi_research.evaluation import divergence
from dpi_research.experiments import captioned
from dpi_research.reproduce.experiment import Case, Made, Rows, Sheet, Summary, Table, every
from dpi_research.reproduce.figures import STYLES, Style, finish, legend, line, panels
from dpi_research.reproduce.rows import course, number, select, value

LAWS = ("multinomial", "Dirichlet", "mixed")
SIZE = 6_500
PRECISIONS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)
BINS = (3, 10, 100)
SIZES = (100, 1_000, 10_000, 100_000)


def pool_of(law: str, size: int, precision: int) -> Pool:
    """A pool by the name of its law."""
    if law == "multinomial":
        return Multinomial(size, precision)
    if law == "Dirichlet":
        return DirichletPool(size, precision=precision)
    return MixedPool(size, precision=precision)


def entropies(law: str, size: int, precision: int, bins: int) -> Made:
    """All that is called the entropy of one pool, and how near its best synopsis is to a zipf PDF and to uniform."""
    pool, target = pool_of(law, size, precision), zipf(bins)
    sizes = expressiveness(pool, bins)
    even = np.full(bins, 1 / bins)
    printed = entropy_approximation(precision, bins).printed if law == "multinomial" else None
    return [
        {"law": law, "size": size, "precision": precision, "bins": bins, "ln_size": sizes.bound,
         "empirical": sizes.empirical, "distinct": sizes.distinct, "draw": sizes.draw,
         "approximation": sizes.approximation, "printed": printed, "ratio": sizes.ratio,
         "nearest_zipf": nearest(pool, target)[1], "uniform_zipf": divergence(target, even),
         "nearest_uniform": nearest(pool, even)[1]}
    ]  # fmt: skip


def cases(quick: bool) -> list[Case]:
    """Each law at each precision and number of bins; then larger and larger multinomial pools."""
    size, precisions = (300, (10, 100, 1_000)) if quick else (SIZE, PRECISIONS)
    sizes = (100, 1_000) if quick else SIZES
    return [
        *every(entropies, bins=BINS, law=LAWS, precision=precisions, size=size),
        *every(entropies, bins=BINS, law="multinomial", precision=100, size=sizes),
    ]


def sheet(rows: Rows) -> Sheet:
    """The published ratio against p, n_p and N; the entropies behind it; the nearest synopsis."""
    size = next(int(row["size"] or 0) for row in rows if row["law"] != "multinomial")  # the precision is varied there
    main = select(rows, size=size)
    largest = max(int(row["bins"] or 0) for row in rows)
    figures = {
        "ratio": select(rows, law="multinomial") and _ratios(rows, main),
        "nearest": _behind(main, largest),
    }
    return Sheet(
        found=tuple(_found(rows, main, largest)),
        figures=captioned(__name__, figures, largest=largest, size=size),
        tables=(_table(main),),
        summary=(_summary(main, largest, size),),
    )


def _ratios(rows: Rows, main: Rows) -> Figure:
    figure, (by_p, by_n, by_size) = panels(3, height=3.2)
    for index, bins in enumerate(BINS):
        label, style = f"k = {bins}", Style.numbered(index)
        precisions, ratios = course(main, "precision", "ratio", law="multinomial", bins=bins)
        line(by_p, [1 / n for n in precisions], ratios, label, style=style)
        line(by_n, precisions, ratios, label, style=style)
        line(by_size, *course(rows, "size", "ratio", law="multinomial", bins=bins, precision=100), label, style=style)
    finish(by_p, "against the precision p", "p", "H(pool)/H(ideal)", log_x=True)
    finish(by_n, "against n_p", "n_p = 1/p", "H(pool)/H(ideal)", log_x=True)
    finish(by_size, "against the size of the pool, n_p = 100", "N", "H(pool)/H(ideal)", log_x=True)
    for axes in (by_p, by_n, by_size):
        axes.set_ylim(0, 1.08)
    legend(figure, by_p)
    return figure


def _behind(main: Rows, bins: int) -> Figure:
    figure, (entropy, skewed, flat) = panels(3, height=3.4)
    names = {"draw": "one draw, exact", "approximation": "one draw, approximation",
             "printed": "printed formula (negative)", "ln_size": "ln N", "empirical": "pool, empirical"}  # fmt: skip
    for index, (key, label) in enumerate(names.items()):
        precisions, values = course(main, "precision", key, law="multinomial", bins=bins)
        line(entropy, precisions, values, label, style=Style.numbered(index))
    entropy.axhline(0, color="black", lw=0.6)
    entropy.set_xlim(min(PRECISIONS) / 2, 2 * max(PRECISIONS))
    for index, law in enumerate(LAWS):
        for axes, key in ((skewed, "nearest_zipf"), (flat, "nearest_uniform")):
            line(axes, *course(main, "precision", key, law=law, bins=bins), law, style=Style.numbered(index))
    line(skewed, *course(main, "precision", "uniform_zipf", law="multinomial", bins=bins), "uniform",
         style=STYLES["uniform"])  # fmt: skip
    finish(entropy, "entropies, multinomial pool", "n_p", "nats", log_x=True)
    finish(skewed, "nearest synopsis to a zipf PDF", "n_p", "KL (nats)", log_x=True)
    finish(flat, "nearest synopsis to the uniform PDF", "n_p", "KL (nats)", log_x=True, log_y=True)
    skewed.set_ylim(bottom=0)
    entropy.legend(fontsize=7, framealpha=0.8, loc="upper left")
    for axes in (skewed, flat):
        axes.legend(fontsize=7, framealpha=0.8)
    return figure


def _found(rows: Rows, main: Rows, bins: int) -> list[str]:
    multinomial = sorted(select(main, law="multinomial", bins=bins), key=lambda row: value(row, "precision"))
    if not multinomial:
        return []
    first, last = multinomial[0], multinomial[-1]
    sentences = [
        f"The ratio H(pool)/H(ideal) at k = {bins} is {value(first, 'ratio'):.3f} at n_p = "
        f"{first['precision']:,} and {value(last, 'ratio'):.3f} at n_p = {last['precision']:,}. One draw then has "
        f"{value(last, 'draw'):.1f} nats, a pool of {last['size']:,} at most ln N = {value(last, 'ln_size'):.2f}: "
        f"about e^{value(last, 'draw'):.0f} synopses would be needed for a ratio near 1.",
        f"The first printed formula gives {value(last, 'printed'):.1f} there (an entropy is never negative), the "
        f"approximation {value(last, 'approximation'):.1f}, exact is {value(last, 'draw'):.1f}.",
    ]
    near = [row for row in select(rows, law="multinomial") if value(row, "ratio") >= 0.99]
    if near:
        where = {f"k = {row['bins']}, n_p = {row['precision']:,}, N = {row['size']:,}" for row in near}
        sentences.append(f"The ratio is 0.99 or more at: {'; '.join(sorted(where))}.")
    for law in LAWS:
        precisions, values = course(main, "precision", "nearest_zipf", law=law, bins=bins)
        if values:
            sentences.append(
                f"{law}: the nearest of its synopses to a zipf PDF has KL {values[0]:.3f} at n_p = "
                f"{precisions[0]:,.0f} and {values[-1]:.3f} at n_p = {precisions[-1]:,.0f}; the uniform guess has "
                f"{value(first, 'uniform_zipf'):.3f}."
            )
    return sentences


def _table(main: Rows) -> Table:
    keys = ("draw", "approximation", "printed", "ln_size", "empirical", "ratio", "nearest_zipf", "nearest_uniform")
    lines = [
        (str(row["bins"]), str(row["law"]), f"{row['precision']:,}", f"{row['distinct']:,}",
         *(number(value(row, key), 4) for key in keys))
        for row in sorted(main, key=lambda row: (value(row, "bins"), LAWS.index(str(row["law"])),
                                                 value(row, "precision")))
    ]  # fmt: skip
    columns = ("k", "law", "n_p", "distinct", "H of one draw, exact", "approximation", "printed formula", "ln N",
               "H of the pool, empirical", "ratio", "KL, nearest to zipf", "KL, nearest to uniform")  # fmt: skip
    return Table("Entropies in nats", columns, tuple(lines))


def _summary(main: Rows, bins: int, size: int) -> Summary:
    def last(law: str, key: str) -> str:
        values = course(main, "precision", key, law=law, bins=bins)[1]
        return f"{values[-1]:.2f}" if values else "–"

    return Summary(
        f"KL from a zipf PDF to the nearest of {size:,} synopses, k = {bins}",
        published="“can universally emulate any PDF with minimal error”",
        uniform=last("multinomial", "uniform_zipf"),
        strict="; ".join(f"{law} {last(law, 'nearest_zipf')}" for law in LAWS),
        converging="no pool of this kind",
        ledger="no pool of this kind",
    )
