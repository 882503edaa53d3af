"""The backend of torch.compile under the name in the entry point `torch_dynamo_backends`."""

from ..hooks.pytorch.dynamo import backend

__all__ = ["backend"]
