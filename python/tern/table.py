"""A small table of named columns, for lists of clients and rounds."""
from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

SHOWN = 20  # rows of a table that is printed


class Table(Sequence[dict[str, Any]]):
    """Rows of named values. table[0] is a row as {column: value}, table["loss"] a column as a list, table[2:5] and
    table[["round", "loss"]] are tables. A missing value is None."""

    columns: list[str]

    def __init__(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
        """columns: the columns and their order; by default all, in order of appearance."""
        rows = list(rows)
        if columns is None:
            columns = list(dict.fromkeys(name for row in rows for name in row))
        self.columns = list(columns)
        self._rows = [tuple(row.get(name) for name in self.columns) for row in rows]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Returns each row's values in the order of columns."""
        return list(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row)) for row in self._rows)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            at = self._column(which)
            return [row[at] for row in self._rows]
        if isinstance(which, slice):
            return Table([dict(zip(self.columns, row)) for row in self._rows[which]], self.columns)
        if isinstance(which, (list, tuple)):
            for name in which:
                self._column(name)
            return Table(self, list(which))
        return dict(zip(self.columns, self._rows[which]))

    def _column(self, name: str) -> int:
        if name not in self.columns:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self.columns)}")
        return self.columns.index(name)

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame. ImportError without pandas (Debian package python3-pandas)."""
        import pandas  # pylint: disable=import-outside-toplevel

        return pandas.DataFrame(self._rows, columns=self.columns)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes a CSV file with a head line."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.columns, self._rows) == (other.columns, other._rows)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = [self.columns, *([_text(value) for value in row] for row in self._rows[:SHOWN])]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.columns))]
        shown = ["  ".join(text.rjust(width) for text, width in zip(line, widths)).rstrip() for line in lines]
        if len(self) > SHOWN:
            shown.append(f"... {len(self)} rows")
        return "\n".join(shown)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
