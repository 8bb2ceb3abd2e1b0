"""Things by name: those that come with focops, those registered in Python, and those that installed packages bring."""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from focops.errors import UsageError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping that is added to by `register`, or by packages through an entry-point group; what a package brings is
    imported when it is asked for."""

    def __init__(self, kind: str, group: str, check: Callable[[str, object], None], own: Mapping[str, T]) -> None:
        """`check` raises UsageError for what is not of this kind."""
        self._kind, self._group, self._check = kind, group, check
        self.loaded: dict[str, T] = dict(own)
        """The entries without those of packages that nobody has asked for yet."""

    def register(self, name: str, thing: T) -> None:
        """Make it known by that name in this process; doing so again changes nothing."""
        self._check(name, thing)
        if self.loaded.setdefault(name, thing) is not thing:
            raise UsageError(f"there is already another {self._kind} {name!r}; register yours by another name")

    def __getitem__(self, name: str) -> T:
        if name not in self.loaded:
            point = self._installed()[name]
            try:
                thing = point.load()
            except Exception as error:
                raise UsageError(f"{self._source(point)} cannot be imported: {error!r}; update or remove it") from error
            try:
                self.register(name, thing)
            except UsageError as error:
                raise UsageError(f"{self._source(point)}: {error}") from None
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.loaded | dict.fromkeys(self._installed()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _installed(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}

    def _source(self, point: EntryPoint) -> str:
        package = f" of the package {point.dist.name}" if point.dist else ""
        return f"the {self._kind} {point.name!r}{package} ({point.value})"
