import pickle

import pytest

import dpi
from dpi.budget.epsilon import Epsilon
from dpi.errors import AboutOptions, OptionError, StateError, StoreBusy, StoreError, WeakPromise


def dashes(name: str) -> str:
    """As a command line writes it."""
    return f"--{name.replace('_', '-')}"


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda: Epsilon.at_most(-1), "epsilon"),
        (lambda: dpi.Ledger(per_slot="much"), "per_slot"),
        (lambda: dpi.Ledger(every=0), "every"),
        (lambda: dpi.Slots("1x"), "slot"),
        (lambda: dpi.Slots("1h", zone="Atlantis"), "zone"),
        (lambda: dpi.plan(epsilon=1, users=0, bins=2), "users"),
        (lambda: dpi.plan(users=500, bins=20, want="all=1"), "want"),
        (lambda: dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=0.1), "budget"),
    ],
)
def test_an_error_carries_the_option_it_is_about(call, option):
    """A program can ask an error which option is wrong, and write its name in its own way."""
    with pytest.raises(OptionError) as caught:
        call()
    assert caught.value.option == option
    assert f"`{option}`" in str(caught.value)
    assert f"`{dashes(option)}`" in caught.value.spelled(dashes)
    assert caught.value.spelled(lambda name: None) == str(caught.value)


def test_only_the_options_of_an_error_are_spelled():
    """A name in backquotes that is none of the error's options, or part of a word, stays as it is."""
    error = StateError("use `name`, or `change=True`, `other` or `name_too`.", options=("name", "change"))
    assert error.spelled(dashes) == "use `--name`, or `--change`, `other` or `name_too`."
    assert error.option == "name"
    assert StateError("nothing.").option is None


@pytest.mark.parametrize("kind", [OptionError, StateError, StoreError, StoreBusy])
def test_errors_travel_between_processes(kind):
    """An error that a worker sends back has its text and its options."""
    error = pickle.loads(pickle.dumps(kind("`a` or `b`.", options=("a", "b"))))  # noqa: S301 - made here
    assert isinstance(error, AboutOptions)
    assert (str(error), error.options) == ("`a` or `b`.", ("a", "b"))


@pytest.mark.parametrize("budget", [0.1, "0.1", 1])
def test_a_number_is_no_budget(budget):
    """A stream whose budget is an amount is told how an amount is said."""
    with pytest.raises(OptionError, match=r"budget=dpi\.Ledger\(per_slot="):
        dpi.Stream(domain=dpi.Categories(["a"]), epsilon=1, budget=budget)


def test_a_large_epsilon_is_warned_of():
    """Above 10 a stream and a plan say, where they are made, that the promise is worth next to nothing."""
    with pytest.warns(WeakPromise, match="ε = 500 promises next to nothing") as caught:
        dpi.Stream(domain=dpi.Categories(["a"]), epsilon=500)
    assert caught[0].filename == __file__
    with pytest.warns(WeakPromise):
        dpi.plan(epsilon="10.1", users=100, bins=5)
    dpi.plan(epsilon=10, users=100, bins=5)
