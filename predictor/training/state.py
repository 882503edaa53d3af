"""TrainingState: everything needed to resume a training as if it had not stopped.

A folder holds the file state.safetensors, whose metadata contains the numbers and the history as JSON. It is written
under another name and then renamed; safetensors' own `save_file` would make it readable by its owner only.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from seqtune.errors import FormatError, SeqtuneError
from seqtune.kernels.files import replacing

Model = TypeVar("Model", bound=nn.Module)
STATE = "state.safetensors"
OUTSIDE = ("state", "save_every", "threads")  # options, of those that `describe` gives, that change no weight


@dataclass
class TrainingState(Generic[Model]):
    """A training between two epochs. `history` has one entry for each finished epoch."""

    model: Model
    average: Model  # the running average of the weights, which is validated and kept
    optimizer: torch.optim.AdamW
    best: Model
    epoch: int = 0
    best_epoch: int = 0
    best_score: float = float("-inf")  # on the validation problems
    history: list[dict[str, float]] = field(default_factory=list)
    interrupted: bool = False  # by Ctrl-C

    @classmethod
    def begin(cls, model: Model, optimizer: torch.optim.AdamW) -> TrainingState[Model]:
        """The state before the first epoch."""
        return cls(model, copy.deepcopy(model), optimizer, copy.deepcopy(model))

    @property
    def kept(self) -> Model:
        """The averaged weights after the best epoch."""
        return self.best if self.best_epoch else self.average

    def finish_epoch(self, loss: float, figures: Mapping[str, float]) -> None:
        """Count an epoch, and keep its averaged weights if their `score` is the best (without one: in any case)."""
        self.epoch += 1
        self.history.append({"loss": loss, **figures})
        score = figures.get("score", float(self.epoch))
        if score > self.best_score:
            self.best_score, self.best_epoch = score, self.epoch
            self.best.load_state_dict(self.average.state_dict())

    def save(self, folder: Path, fingerprint: str) -> None:
        """Write the state to a folder, replacing an older one. Raises SeqtuneError if that fails."""
        tensors: dict[str, Tensor] = {}
        for part in ("model", "average", "best"):
            for name, tensor in getattr(self, part).state_dict().items():
                tensors[f"{part}/{name}"] = tensor.detach().clone().contiguous()
        for number, moments in self.optimizer.state_dict()["state"].items():
            for name, tensor in moments.items():
                tensors[f"optimizer/{number}/{name}"] = tensor.clone().contiguous()
        facts = {"fingerprint": fingerprint, "epoch": self.epoch, "best_epoch": self.best_epoch,
                 "best_score": self.best_score if self.best_epoch else None, "history": self.history}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(folder / STATE) as scratch:
                scratch.write_bytes(save(tensors, metadata={"facts": json.dumps(facts)}))
        except (OSError, SeqtuneError, SafetensorError) as error:
            raise SeqtuneError(f"cannot save the training state in {folder}: {error!s:.100}") from None

    def load(self, folder: Path, fingerprint: str) -> bool:
        """Read a saved state and return True, or return False if the folder holds none.

        Raises FormatError if the state belongs to another training (other data, options or vocabulary) or is damaged.
        """
        state = folder / STATE
        if not state.is_file():
            return False
        advice = f"remove {folder} to start again, or choose another folder"
        try:
            with safe_open(state, framework="pt") as file:
                facts = json.loads((file.metadata() or {})["facts"])
            if facts["fingerprint"] != fingerprint:
                raise FormatError(f"{folder} holds a training with other data, options or vocabulary; {advice}")
            tensors = load_file(state)
            for part in ("model", "average", "best"):
                weights = {name.partition("/")[2]: tensor for name, tensor in tensors.items()
                           if name.startswith(f"{part}/")}
                getattr(self, part).load_state_dict(weights)
            moments: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith("optimizer/"):
                    _, number, moment = name.split("/")
                    moments.setdefault(int(number), {})[moment] = tensor
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
            self.epoch, self.best_epoch = int(facts["epoch"]), int(facts["best_epoch"])
            self.best_score = float("-inf") if facts["best_score"] is None else float(facts["best_score"])
            self.history = list(facts["history"])
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise FormatError(f"the training state in {folder} is damaged ({error!s:.80}); {advice}") from None
        return True


def describe(options: object) -> dict[str, object]:
    """The fields of a dataclass of options as a JSON object.

    Paths, which are private to a machine, are left out, and so is `end_now`, which is about a single run.
    """
    fields: dict[str, object] = asdict(options)  # type: ignore[call-overload]
    return {name: value for name, value in fields.items() if not isinstance(value, Path) and name != "end_now"}


def saved_epoch(folder: Path) -> int | None:
    """The epoch of the state in a folder; None if there is none that can be read."""
    try:
        with safe_open(folder / STATE, framework="pt") as file:
            return int(json.loads((file.metadata() or {})["facts"])["epoch"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None
