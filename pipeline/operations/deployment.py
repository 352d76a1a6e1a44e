"""What a deployment runs with, as its processes state it: commands speak of that, and not of their own shell."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import SecretStr, TypeAdapter
from sqlalchemy import Connection

from pipeline.clients.factory import sent_elsewhere
from pipeline.store.operations import stats as store
from pipeline.store.operations.stats import RunningProcess
from schemas.settings import PREFIX, Settings
from schemas.vectors import EmbeddingSpace

FLAGS = sorted(name for name, field in Settings.model_fields.items() if isinstance(field.default, bool))
KEPT = SecretStr("**********")
"""In place of a key that the deployment has, and that a command does not know."""
# Kept from processes that ask no model.
_WITHHELD = {"openai_base_url", "openai_api_key"}
# Unset in a shell, they leave the model to what is stored.
_LEFT_OPEN = {"embedding_provider", "embedding_model"}


@dataclass(frozen=True)
class Deployment:
    """The running processes, those that began last first."""

    processes: Sequence[RunningProcess] = ()

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Return what runs."""
        return cls(store.running_processes(connection))

    @cached_property
    def acting(self) -> list[RunningProcess]:
        """The processes that do something with data."""
        return [process for process in self.processes if process.kind != "metrics"]

    @cached_property
    def stated(self) -> dict[str, Any]:
        """The settings that are not as by default.

        One that is set in any process counts, as others may not need it; the process that began last decides on flags.
        """
        stated = {
            name: value for process in reversed(self.acting) for name, value in process.settings.items()
        }
        known = stated.keys() & Settings.model_fields
        return {name: stated[name] for name in known if name not in FLAGS or name in self.acting[0].settings}

    def over(self, own: Settings) -> Settings:
        """Return these settings with the deployment's in place of a shell's `own`; unchanged if nothing runs."""
        if not self.acting:
            return own
        mine, values = own.stated(), {}
        names = {name for name in mine.keys() | self.stated.keys() if mine.get(name) != self.stated.get(name)}
        # a key is for one server
        for name in names | (_WITHHELD if "openai_base_url" in names else set()):
            field = Settings.model_fields[name]
            value = self.stated.get(name, field.default)
            if name == "llm_prices" and value and not Path(value).is_file():
                # on another machine; the difference is noted
                continue
            values[name] = TypeAdapter(field.rebuild_annotation()).validate_python(value)
        return own.model_copy(update=values)

    def differing(self, *shell: RunningProcess) -> list[str]:
        """Say in which settings processes differ, as when only some were restarted after a change."""
        sentences = []
        everybody = [*self.acting, *shell]
        for name in sorted({name for process in everybody for name in process.settings}):
            places = defaultdict[str, list[RunningProcess]](list)
            for process in everybody:
                if name in process.settings or name not in (_WITHHELD if process.host else _LEFT_OPEN):
                    places[_shown(name, process.settings)].append(process)
            # a kind stands for its processes, unless these differ
            kinds = Counter(kind for held in places.values() for kind in {process.kind for process in held})
            parts = [
                f"{value} in {', '.join(sorted({p.kind if kinds[p.kind] == 1 else str(p) for p in held}))}"
                for value, held in places.items()
            ]
            if len(places) > 1:
                sentences.append(f"{PREFIX}{name.upper()} is {' and '.join(parts)}")
        return sentences

    def notes(self, own: Settings) -> list[str]:
        """Say how a command knows the settings that it speaks of, and how those of its shell differ."""
        if not self.acting:
            return ["No running HTTP API or worker says what it runs with: this is what this shell would run"]
        return self.differing(RunningProcess("this shell, which does not count", "", 0, own.stated()))

    def sent(self, own: Settings, spaces: Sequence[EmbeddingSpace]) -> list[str]:
        """Say what any of the processes sends to another machine. Raises `SettingsError`."""
        views = [Deployment([one, *self.processes]).over(own) for one in self.acting] or [own]
        sentences = [sentence for view in views for sentence in sent_elsewhere(view, spaces)]
        nothing = "Nothing is sent" if self.acting else "Nothing would be sent"
        return list(dict.fromkeys(sentences)) or [f"{nothing} to another machine"]

    @cached_property
    def _settings(self) -> Settings:
        return self.over(Settings.model_construct())

    def switched_off(self, kind: str) -> str | None:
        """Return what `Settings.switched_off` does in the running processes; None if there are none."""
        return self._settings.switched_off(kind) if self.acting else None


def _shown(name: str, settings: Mapping[str, Any]) -> str:
    default = Settings.model_fields[name].default if name in Settings.model_fields else None
    value = settings.get(name, default)
    if name == "session_summary_canaries" and value:
        # whose chats they are is not for every tenant
        return f"{len(value.split(','))} chats"
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
