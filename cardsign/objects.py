"""Cards in object stores, by fsspec (extra ``cluster``): ``s3://bucket/cards/``.

What fsspec raises depends on the store, so it is turned into a fault of the file here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from cardsign.errors import CardsignError, FileFault, FileMissing, UsageFault

#: Of the names that fsspec knows, those of stores that hold nothing of this machine.
STORES: Final = ("abfs", "abfss", "az", "gcs", "gs", "s3")


def is_object(name: str) -> bool:
    """Whether a name means an object or a folder of a store, such as ``s3://bucket/a.json``."""
    scheme, is_url, _ = name.partition("://")
    return bool(is_url) and scheme in STORES


def list_objects(name: str) -> list[str]:
    """The objects that a name means: itself; its ``*.json`` if it ends in ``/``; or a pattern.

    Raises:
        UsageFault: ``usage.not_installed``; ``usage.invalid``: there are none.
        FileFault: ``file.unreadable``.
    """
    if not name.endswith("/") and "*" not in name:
        return [name]
    with _opened(name) as (store, path):
        found = store.glob(f"{path.rstrip('/')}/**/*.json" if name.endswith("/") else path)
        if not found:
            raise UsageFault("usage.invalid", "no object has such a name", path=name)
        return sorted(store.unstrip_protocol(one) for one in found)


def read_object(name: str, *, max_bytes: int) -> bytes:
    """An object's bytes; one byte over the limit is read at most.

    Raises:
        UsageFault: ``usage.not_installed``.
        FileFault: ``file.not_found``, ``file.unreadable``.
    """
    with _opened(name) as (store, path), store.open(path, "rb") as stream:
        data: bytes = stream.read(max_bytes + 1)
        return data


@contextmanager
def _opened(name: str) -> Iterator[tuple[Any, str]]:
    """The store that holds a name, and the path in it."""
    try:
        import fsspec

        if "::" in name:  # one store inside another: what it reads, nobody can see from the name
            raise UsageFault("usage.invalid", "a chain of stores is not read", path=name)
        yield fsspec.url_to_fs(name)
    except CardsignError:
        raise
    except ImportError as exc:
        why = f"the library for this store cannot be loaded: {exc}"
        hint = "pip install 'cardsign[cluster]'; s3:// needs s3fs, gs:// gcsfs, az:// adlfs"
        raise UsageFault("usage.not_installed", why, path=name, hint=hint) from exc
    except FileNotFoundError as exc:
        raise FileMissing("file.not_found", "the store has no such object", path=name) from exc
    except Exception as exc:  # what a store's own library raises
        raise FileFault("file.unreadable", f"the store says: {exc}"[:200], path=name) from exc
