"""Which releases of an application are meant: by the rules of PEP 440 where they fit, else by their names."""

import re

from redrive.errors import UsageError

LENGTH_LIMIT = 200
_COMPARES = re.compile(r"\s*[<>=!~]")


def release_wanted(text: str | None) -> str | None:
    """The releases that a person means, or one sentence about what is wrong with that."""
    if text is None:
        return None
    text = text.strip()
    if not 1 <= len(text) <= LENGTH_LIMIT or not text.isprintable():
        raise UsageError(f"when_release={text!r} names no release; write one such as '2.4.1', or '>= 2.4.1'")
    if _COMPARES.match(text) and not _is_specifier(text):
        raise UsageError(f"when_release={text!r} is no comparison of versions; write one such as '>= 2.4.1, < 3'")
    return text


def is_wanted(wanted: str, release: str | None) -> bool:
    """Whether a release is one of those that are meant; what is no version is compared letter by letter."""
    from packaging.specifiers import SpecifierSet  # lazily: few redrives wait, and it is slow to import
    from packaging.version import InvalidVersion, Version

    if release is None or release == wanted:
        return release is not None
    try:
        version = Version(release)
        if _COMPARES.match(wanted):
            return SpecifierSet(wanted).contains(version, prereleases=True)
        return version == Version(wanted)
    except InvalidVersion:
        return False


def _is_specifier(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # lazily, as above

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True
