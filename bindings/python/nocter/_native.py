"""The native library: where it is, whether it fits, and the base class of everything that is a handle of it."""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, List, Optional, Tuple, Type, TypeVar

from ._ffi import ffi

_NAME = "libnocter.so.0"


def _refuse_subinterpreter() -> None:
    """Threads that run jobs need the main interpreter: a subinterpreter ends without waiting for them."""
    modules = ("_interpreters", "_xxsubinterpreters")  # 3.13 and later, and before
    for name in modules:
        try:
            module: Any = __import__(name)
            current, main = module.get_current(), module.get_main()
        except (ImportError, AttributeError):
            continue
        if current != main:
            raise ImportError("nocter cannot be used in a subinterpreter")
        return


def _dotted(number: int) -> str:
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _fits(made_for: int, found: int) -> bool:
    """Before 1.0 a minor version may change the contract, from 1.0 on only a major one; newer additions are no harm."""
    if made_for >> 16 == 0:
        return made_for >> 8 == found >> 8
    return made_for >> 16 == found >> 16 and made_for <= found


def _candidates() -> List[str]:
    named = os.environ.get("NOCTER_LIBRARY")
    if named:
        return [named]
    bundled = Path(__file__).parent / "_lib" / _NAME
    return [str(bundled), _NAME] if bundled.exists() else [_NAME]


def _load() -> Tuple[Any, str]:
    problems = []
    for path in _candidates():
        try:
            library = ffi.dlopen(path)
            found = library.nocter_version_number()
        except (OSError, ffi.error) as problem:
            problems.append(f"{path}: {problem}")
            continue
        if not _fits(library.NOCTER_VERSION_NUMBER, found):
            made_for = _dotted(library.NOCTER_VERSION_NUMBER)
            raise ImportError(f"{path} is nocter {_dotted(found)}, these bindings are made for nocter {made_for}")
        return library, path
    raise ImportError("the nocter library was not found (NOCTER_LIBRARY can name it): " + "; ".join(problems))


_refuse_subinterpreter()
lib, library_path = _load()

_Self = TypeVar("_Self", bound="Handle")


class Handle:
    """Something of nocter's that is given up once: by close(), at the end of a `with` block, or with the object itself.

    The pointer carries its own destructor. A call that is under way on another thread holds the pointer too, so what
    close() gives up here is destroyed only after that call has returned.
    """

    _pointer: Any = None

    @property
    def pointer(self) -> Any:
        """The C pointer, for calls; ValueError after close()."""
        pointer = self._pointer
        if pointer is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return pointer

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._pointer is None

    def close(self) -> None:
        """Gives it up; again does nothing."""
        self._pointer = None

    def __enter__(self: _Self) -> _Self:
        self.pointer  # a closed one cannot be entered
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            state = "closed" if self.closed else self._describe()
        except Exception as problem:  # a repr that raises hides what it was asked for
            state = str(problem)
        return f"<nocter.{type(self).__name__.lstrip('_')} {state}>"

    def _describe(self) -> str:
        return "open"
