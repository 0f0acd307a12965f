"""What an option class is: an object of public options that can be written down as JSON values and read back.

`to_options` states the kind and every field, so that a text means the same whatever defaults are later; `from_options`
makes the object of it. Amounts are whole units, other numbers exact decimals or fractions: two objects with the same
meaning have the same options, two with another meaning have others. Secrets are never stated.

Knows no option by itself: each class says how its fields are written (`codecs`), and each family which kinds it has.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import ClassVar, Generic, Self, TypeVar

from dpi.errors import OptionError

Options = dict[str, object]
"""Options as JSON values: whole numbers, texts, lists and objects; no float, and nothing as Python prints it."""

_DECIMAL = 10**18


@dataclass(frozen=True)
class Codec:
    """How one field is written, and read again."""

    write: Callable[[object], object]
    read: Callable[[object], object]

    @property
    def or_none(self) -> Codec:
        """The same for a field that may be None."""
        return Codec(
            lambda value: None if value is None else self.write(value),
            lambda stated: None if stated is None else self.read(stated),
        )

    @property
    def each(self) -> Codec:
        """A tuple of such values, written as a list."""
        return Codec(
            lambda value: [self.write(part) for part in _sequence(value)],
            lambda stated: tuple(self.read(part) for part in _sequence(stated)),
        )


def _sequence(value: object) -> list[object] | tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise OptionError(f"a list is wanted. Got {value!r}.")
    return value


def exact_text(number: Fraction) -> str:
    """Return a number as text, exactly: a decimal if it is one of at most 18 places, a fraction otherwise.

    >>> exact_text(Fraction(3, 1000)), exact_text(Fraction(1, 3)), exact_text(Fraction(10**8))
    ('0.003', '1/3', '100000000')
    """
    if _DECIMAL % number.denominator:
        return str(number)
    digits = len(str(number.numerator)) + 20
    return format(Context(prec=digits).divide(Decimal(number.numerator), Decimal(number.denominator)), "f")


def fraction_of(stated: object) -> Fraction:
    """Return the number of `exact_text`."""
    if not isinstance(stated, str):
        raise OptionError(f"an exact number is written as text. Got {stated!r}.")
    try:
        return Fraction(stated)
    except (ValueError, ZeroDivisionError):
        raise OptionError(f"an exact number is a decimal or a fraction. Got {stated!r}.") from None


def _plain(value: object) -> object:
    """Return a value whose kind says it all; numbers that are not whole are written exactly."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Option):
        return value.to_options()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float | Decimal | Fraction):
        try:
            return exact_text(Fraction(repr(float(value)) if isinstance(value, float) else value))
        except (ValueError, OverflowError):
            pass
    raise OptionError(f"an option that is a {type(value).__name__} cannot be written down: name a codec for it.")


def _unlisted(stated: object) -> object:
    """Return a plain value as it is read: lists are tuples, since options do not change."""
    return tuple(_unlisted(part) for part in stated) if isinstance(stated, list) else stated


PLAIN = Codec(_plain, _unlisted)
"""Whole numbers, texts, truth values, None, and lists of them."""
RATIONAL = Codec(_plain, fraction_of)
"""A number that is kept as an exact fraction."""


class Option:
    """An object of public options, which can be written down.

    A subclass is a dataclass whose compared fields are its options, or has them as public attributes. `codecs` names
    those fields that are more than whole numbers and texts; `secrets` those that are never stated, and given anew to
    whoever reads.
    """

    kind: ClassVar[str]
    """What the class is called in options; its name in small letters unless it says another itself."""
    codecs: ClassVar[Mapping[str, Codec]] = {}
    secrets: ClassVar[tuple[str, ...]] = ()

    def to_options(self) -> Options:
        """Return the kind and every field, as JSON values."""
        return {
            "kind": kind_of(type(self)),
            **{name: self._codec(name).write(getattr(self, name)) for name in self._names()},
        }

    @classmethod
    def from_options(cls, options: object, **secrets: bytes) -> Self:
        """Return the object of `to_options`; a field that is not stated has the default of the class."""
        kind = kind_of(cls)
        if not isinstance(options, dict) or options.get("kind") != kind:
            raise OptionError(f"options of kind {kind!r} are wanted. Got {options!r}.")
        missing = [name for name in cls.secrets if name not in secrets]
        if missing:
            raise OptionError(f"options of kind {kind!r} do not state a secret: give `{missing[0]}`.")
        try:
            values = {name: cls._codec(name).read(part) for name, part in options.items() if name != "kind"}
            return cls._made(values | {name: secrets[name] for name in cls.secrets})
        except (TypeError, ValueError, KeyError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(
                f"options of kind {kind!r} cannot be read: a field is missing, damaged, or of a newer version of dpi. "
                f"Got {sorted(options)}."
            ) from None

    @classmethod
    def _made(cls, values: dict[str, object]) -> Self:
        """Return the object with these values of its fields; for a constructor that takes others, say how."""
        make: Callable[..., Self] = cls
        return make(**values)

    @classmethod
    def _codec(cls, name: str) -> Codec:
        return cls.codecs.get(name, PLAIN)

    def _names(self) -> list[str]:
        """Return the fields that are options: those that tell two objects apart."""
        public = [field.name for field in fields(self) if field.compare] if is_dataclass(self) else [*vars(self)]
        return [name for name in public if not name.startswith("_") and name not in self.secrets]


def kind_of(cls: type[Option]) -> str:
    """Return what a class is called in options; a subclass does not pass for the class above it."""
    return str(vars(cls).get("kind", cls.__name__.lower()))


Member = TypeVar("Member", bound=Option)
Class = TypeVar("Class", bound=type[Option])


class Family(Generic[Member]):
    """The kinds that one option can have. A class joins by `@FAMILY.member`; nobody takes the kind of another.

    `modules` are loaded before a kind is looked up, so that what is not used need not be imported.
    """

    def __init__(self, name: str, *modules: str) -> None:
        self.name, self._modules = name, modules
        self._kinds: dict[str, type[Member]] = {}

    def member(self, cls: Class) -> Class:
        """Let options of this family name the class."""
        known: type[Option] = self._kinds.setdefault(kind_of(cls), cls)  # type: ignore[arg-type]
        if known is not cls:
            raise OptionError(f"there is another `{self.name}` of kind {kind_of(cls)!r}: give the class a `kind`.")
        return cls

    @property
    def kinds(self) -> Mapping[str, type[Member]]:
        """The classes by kind."""
        for module in self._modules:
            importlib.import_module(module)
        return self._kinds

    def read(self, options: object, **secrets: bytes) -> Member:
        """Return the object that options state, of whichever kind they say."""
        kind = options.get("kind") if isinstance(options, dict) else None
        if not isinstance(kind, str) or kind not in self.kinds:
            raise OptionError(f"`{self.name}` must be one of: {', '.join(sorted(self.kinds))}. Got {kind!r}.")
        chosen = self.kinds[kind]
        needed = {name: secrets[name] for name in chosen.secrets if name in secrets}
        return chosen.from_options(options, **needed)

    @property
    def codec(self) -> Codec:
        """For a field that holds one of the family."""
        return Codec(_plain, self.read)
