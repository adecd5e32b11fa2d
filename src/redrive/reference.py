"""An app by its reference, and back: what `redrive worker module:app` names, and what a child process imports."""

import importlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from redrive.app import Redrive
from redrive.config import Config
from redrive.errors import BadApp
from redrive.task import main_module

_IN_CHILD = (
    "a child process imports this module to run an isolated job, and the module itself enqueues or runs jobs when "
    'it is imported; put that under `if __name__ == "__main__":`'
)


def find_app(reference: str | None, config: Config | None = None, *, in_child: bool = False) -> Redrive:
    """The app that `module:app`, `module` with one app in it, or `path/to/file.py[:app]` names.

    A child process imports it to run isolated jobs; what the module would enqueue or run meanwhile is refused.
    """
    if not reference:
        raise BadApp(
            "no app was named; write `redrive worker module:app`, or set app under [redrive] in the project file"
        )
    module_name, _, attribute = reference.partition(":")
    if not module_name.endswith(".py") and not all(module_name.replace("/", ".").split(".")):
        raise BadApp(f"{reference!r} names no module; write `module:app`, such as `jobs:app` for an app in jobs.py")
    Redrive.importing = _IN_CHILD if in_child else None
    try:
        module = _imported(module_name)
    finally:
        Redrive.importing = None
    app = getattr(module, attribute, None) if attribute else _only_app(module, module_name)
    if not isinstance(app, Redrive):
        there = ", ".join(_apps(module))
        advice = f"it has {there}" if there else f"it needs a line such as `{attribute} = Redrive()`"
        raise BadApp(f"{module_name} has no app named {attribute!r}; {advice}")
    if config is not None and app.is_open_to_settings:
        app.config = config
    app.in_child = in_child
    return app


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadApp(f"there is no module {name!r} in {here} or on the import path") from error
        raise BadApp(f"module {name!r} cannot be imported: {error}{_place(error)}") from error
    except BadApp:
        raise
    except Exception as error:
        raise BadApp(f"module {name!r} cannot be imported: {type(error).__name__}: {error}{_place(error)}") from error


def _place(error: Exception) -> str:
    """The line of code that raised it; a syntax error names its own."""
    ours = (__file__, importlib.__file__)
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(("<", *ours))]
    if isinstance(error, SyntaxError) or not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _from_file(path: Path) -> ModuleType:
    """A file run as a script is imported under its stem, its `if __name__ == "__main__"` part left out."""
    path = path.resolve()
    if not path.exists():
        raise BadApp(f"there is no file {path}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.import_module(path.stem)
    file = getattr(module, "__file__", None)
    if file is None or Path(file).resolve() != path:
        raise BadApp(f"{path.name} cannot be imported: {file or 'a built-in module'} has that name; rename the file")
    return module


def _only_app(module: ModuleType, name: str) -> Redrive:
    found = _apps(module)
    if not found:
        raise BadApp(f"{name} has no app in it; it needs a line such as `app = Redrive()`")
    if len(found) > 1:
        raise BadApp(f"{name} has several apps ({', '.join(found)}) in it; write which one, as in `{name}:{found[0]}`")
    app: Redrive = getattr(module, found[0])
    return app


def _apps(module: ModuleType) -> list[str]:
    """The names of its apps; one with several names has the last of them."""
    return list({id(value): key for key, value in vars(module).items() if isinstance(value, Redrive)}.values())


def reference_of(app: Redrive) -> str | None:
    """How a child process can import this app; None when no module that it could import holds it.

    Then isolated tasks run in threads of the worker, and a suspect runs in the worker when nothing else does.
    """
    for name, module in list(sys.modules.items()):
        for attribute, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            if value is app and (place := _importable(name, module)) is not None:
                return f"{place}:{attribute}"
    return None


def _importable(name: str, module: ModuleType) -> str | None:
    """What another process would write to import this module, if it would then get the same file."""
    file = getattr(module, "__file__", None)
    if name == "__main__":
        return main_module() if module.__spec__ is not None else file
    spec = _searched(name)
    return name if spec is not None and file is not None and spec.origin == file else None


def _searched(name: str) -> ModuleSpec | None:
    """What a search of the import path finds, whatever this process has loaded under the name."""
    spec, path, full = None, None, ""
    for part in name.split("."):
        full = f"{full}.{part}" if full else part
        finders = (finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((found for find in finders if (found := find(full, path)) is not None), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec
