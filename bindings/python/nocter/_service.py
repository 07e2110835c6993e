"""What the services have in common: identities, the objects behind tokens, and how a service is made and counted.

Python objects never cross into nocter: what is handed over carries an integer token, and the object behind it waits in
a dict until the token comes back, by whichever way that is.
"""

from dataclasses import fields
from itertools import count as count_up
from typing import Any, Callable, Dict, Optional, Tuple, Type, TypeVar

from ._errors import Saturated, check, error
from ._ffi import ffi
from ._native import Handle, lib
from ._waiting import EventFd, Interrupt, Notifiable, Signal

_T = TypeVar("_T")


class Identity:
    """An opaque value: it can be compared, hashed and handed back, nothing else."""

    __slots__ = ("_raw",)
    _equal: Any

    def __init__(self, raw: Any) -> None:
        self._raw: Tuple[int, int] = (raw.service, raw.sequence)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return bool(type(self)._equal(self._raw, other._raw))

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        return f"<nocter.{type(self).__name__} {self._raw[0]:x}-{self._raw[1]:x}>"


class Epoch(Identity):
    """A moment of a service: it advances whenever an occupied place became free."""

    __slots__ = ()
    _equal = lib.nocter_epoch_equal


def raw(identity: Identity, kind: Type[Identity]) -> Tuple[int, int]:
    """What C is given, of an identity of the right kind."""
    if not isinstance(identity, kind):
        raise TypeError(f"a nocter.{kind.__name__} is needed, not {identity!r}")
    return identity._raw


def saturated(epoch: Any) -> Saturated:
    """What a service says that is at its bound, with the capacity epoch of that moment."""
    failure = error(lib.NOCTER_SATURATED)
    assert isinstance(failure, Saturated)
    failure.epoch = Epoch(epoch)
    return failure


class Store:
    """The objects behind the tokens. Guards share it with their service, because they may outlive it."""

    def __init__(self) -> None:
        self.values: Dict[int, Any] = {}
        self.next_token = count_up(1).__next__

    def put(self, value: Any) -> Tuple[int, Any]:
        """Keeps a value and returns its token and the nocter_owned that carries it."""
        token = self.next_token()
        self.values[token] = value
        return token, ffi.new("nocter_owned *", {"data": ffi.cast("void *", token)})

    def take(self, owned: Any) -> Any:
        """The value that came back; None when nothing did."""
        return self.values.pop(int(ffi.cast("uintptr_t", owned.data)), None)


class GuardInterrupt(Interrupt):
    """Belongs to a guard and ends with it."""

    def __init__(self, guard: Handle, ask: Callable[[Any], Any]) -> None:
        self._guard, self._ask = guard, ask

    @property
    def pointer(self) -> Any:
        return self._ask(self._guard.pointer)

    @property
    def closed(self) -> bool:
        return self._guard.closed


def how_often(times: Optional[int]) -> int:
    """How often a wait looks again, as C takes it: for C, zero is the default."""
    return 0 if times is None else times or int(lib.NOCTER_WAIT_NONE)


def create(name: str, settings: Dict[str, int], waiters: Optional[Notifiable], work: Optional[Notifiable]) -> Any:
    """Makes a service of that name. What it tells is counted by nocter too, for it must not go while it can be told."""
    options, out = ffi.new(f"nocter_{name}_options *"), ffi.new(f"nocter_{name} **")
    getattr(lib, f"nocter_{name}_options_init")(options, ffi.sizeof(f"nocter_{name}_options"))
    try:
        for setting, value in settings.items():
            setattr(options, setting, value)
    except OverflowError as problem:
        raise ValueError(f"a number given to {name.capitalize()} is out of range: {problem}") from None
    for given in (waiters, work):
        if given is not None and not isinstance(given, (EventFd, Signal)):
            raise TypeError(f"a nocter.EventFd or a nocter.Signal is needed, not {given!r}")
    notifiers = {"waiters": waiters, "work": work}
    taken = {place: given._notifier() for place, given in notifiers.items() if given is not None}
    for place, notifier in taken.items():
        setattr(options, place, notifier)
    status = getattr(lib, f"nocter_{name}_create")(options, out)
    if status:
        failure = error(status)
        for notifier in taken.values():
            if notifier.drop:
                notifier.drop(notifier.user)
        raise failure
    return out[0]


def count(name: str, pointer: Any, kind: Callable[..., _T]) -> _T:
    """A snapshot of the service of that name, as a dataclass with the fields of the C struct."""
    out = ffi.new(f"nocter_{name}_counts *")
    getattr(lib, f"nocter_{name}_counts_init")(out, ffi.sizeof(f"nocter_{name}_counts"))
    check(getattr(lib, f"nocter_{name}_count")(pointer, out))
    return kind(*[getattr(out, field.name) for field in fields(kind)])
